//! An initiator on a socket that does as it is told, right or wrong.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use zoneweave_nvmf::host::{Dialect, HostCommand, Reply};

pub(super) const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:test";
pub(super) const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:host";

pub(super) struct Host {
    stream: TcpStream,
    dialect: Dialect,
    received: Bytes,
}

impl Host {
    /// A connection on which nothing was sent.
    pub(super) fn raw(address: SocketAddr, dialect: Dialect) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        Self { stream, dialect, received: Bytes::new() }
    }

    pub(super) fn open(&mut self) {
        self.stream.write_all(&self.dialect.open()).unwrap();
        assert!(matches!(self.reply(), Reply::Opened(_)));
    }

    /// An admin queue, enabled; with its controller.
    pub(super) fn admin(address: SocketAddr, dialect: Dialect) -> (Self, u16) {
        let mut host = Self::raw(address, dialect);
        host.open();
        let controller = host.done(&HostCommand::connect(0, 0xFFFF, NQN, HOST), &[]);
        host.done(&HostCommand::enable(), &[]);
        (host, u16::try_from(controller).unwrap())
    }

    pub(super) fn io(address: SocketAddr, dialect: Dialect, controller: u16, queue: u16) -> Self {
        let mut host = Self::raw(address, dialect);
        host.open();
        host.done(&HostCommand::connect(queue, controller, NQN, HOST), &[]);
        host
    }

    pub(super) fn start(&mut self, id: u16, command: &HostCommand) {
        self.stream.write_all(&self.dialect.capsule(id, command)).unwrap();
    }

    pub(super) fn send_data(&mut self, id: u16, transfer: u16, data: &[u8]) {
        self.stream.write_all(&self.dialect.data(id, transfer, 0, data, true)).unwrap();
    }

    /// The next PDU.
    pub(super) fn reply(&mut self) -> Reply {
        loop {
            if let Some(reply) = self.dialect.reply(&mut self.received) {
                return reply;
            }
            let mut more = vec![0; 1 << 16];
            let count = self.stream.read(&mut more).unwrap();
            assert!(count > 0, "the server has ended the connection");
            self.received = [&self.received[..], &more[..count]].concat().into();
        }
    }

    /// Runs a command; returns status, result and data.
    fn run(&mut self, command: &HostCommand, to_send: &[u8]) -> (u16, u64, Vec<u8>) {
        self.start(9, command);
        let mut read = Vec::new();
        loop {
            match self.reply() {
                Reply::Data(9, offset, data) => {
                    assert_eq!(offset as usize, read.len());
                    read.extend(data);
                }
                Reply::Ready(9, transfer, 0, _) => self.send_data(9, transfer, to_send),
                Reply::Completion { command: 9, status, result, .. } => {
                    return (status, result, read);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Runs a command that succeeds; returns its result.
    pub(super) fn done(&mut self, command: &HostCommand, to_send: &[u8]) -> u64 {
        let (status, result, _) = self.run(command, to_send);
        assert_eq!(status, 0, "{command:?}");
        result
    }

    /// Runs a command that succeeds; returns its data.
    pub(super) fn read(&mut self, command: &HostCommand) -> Vec<u8> {
        let (status, _, data) = self.run(command, &[]);
        assert_eq!(status, 0, "{command:?}");
        data
    }

    /// Runs a command that fails; returns its status.
    pub(super) fn refused(&mut self, command: &HostCommand) -> u16 {
        let (status, ..) = self.run(command, &[]);
        assert_ne!(status, 0, "{command:?}");
        status
    }

    /// Polls the controller's status until its shutdown is over, as hosts do.
    pub(super) fn wait_for_shutdown(&mut self) -> u64 {
        loop {
            let status = self.done(&HostCommand::property_get(0x1C, false), &[]);
            if status >> 2 & 3 == 2 {
                return status;
            }
        }
    }

    /// Sends bytes, and waits for the end of the connection.
    pub(super) fn send_and_expect_end(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
        // Bytes that the server did not read end the connection with an error.
        let _ = self.stream.read_to_end(&mut Vec::new());
    }
}
