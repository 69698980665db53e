//! An initiator on a stream, that does as it is told, right or wrong.
//!
//! It panics where a test would: if the stream fails, or the controller breaks the rules.

use std::io::{Read, Write};

use bytes::Bytes;

use super::{Dialect, HostCommand, Reply};

/// The name of the initiator.
pub const HOST_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:initiator";

/// One connection.
pub struct Initiator<S> {
    stream: S,
    dialect: Dialect,
    received: Bytes,
}

impl<S: Read + Write> Initiator<S> {
    /// A connection on which nothing was sent.
    pub fn new(stream: S, dialect: Dialect) -> Self {
        Self { stream, dialect, received: Bytes::new() }
    }

    /// The first exchange.
    ///
    /// # Panics
    /// If it fails, as all methods do.
    pub fn open(&mut self) {
        self.send(&self.dialect.open());
        assert!(matches!(self.reply(), Reply::Opened(_)));
    }

    /// An admin queue, enabled; with its controller.
    pub fn admin(stream: S, dialect: Dialect, subsystem: &str) -> (Self, u16) {
        let mut host = Self::new(stream, dialect);
        host.open();
        let connect = HostCommand::connect(0, 0xFFFF, subsystem, HOST_NQN);
        let controller = host.done(&connect, &[]);
        host.done(&HostCommand::enable(), &[]);
        (host, u16::try_from(controller).expect("16 bits"))
    }

    /// An I/O queue of a controller.
    pub fn io(stream: S, dialect: Dialect, subsystem: &str, controller: u16, queue: u16) -> Self {
        let mut host = Self::new(stream, dialect);
        host.open();
        host.done(&HostCommand::connect(queue, controller, subsystem, HOST_NQN), &[]);
        host
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the controller receives");
    }

    /// Sends a command under this identifier.
    pub fn start(&mut self, id: u16, command: &HostCommand) {
        self.send(&self.dialect.capsule(id, command));
    }

    /// Sends all data of a transfer.
    pub fn send_data(&mut self, id: u16, transfer: u16, data: &[u8]) {
        self.send(&self.dialect.data(id, transfer, 0, data, true));
    }

    /// The next PDU.
    pub fn reply(&mut self) -> Reply {
        loop {
            if let Some(reply) = self.dialect.reply(&mut self.received) {
                return reply;
            }
            let mut more = vec![0; 1 << 16];
            let count = self.stream.read(&mut more).expect("the controller sends");
            assert!(count > 0, "the controller has ended the connection");
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
    pub fn done(&mut self, command: &HostCommand, to_send: &[u8]) -> u64 {
        let (status, result, _) = self.run(command, to_send);
        assert_eq!(status, 0, "{command:?}");
        result
    }

    /// Runs a command that succeeds; returns its data.
    pub fn read(&mut self, command: &HostCommand) -> Vec<u8> {
        let (status, _, data) = self.run(command, &[]);
        assert_eq!(status, 0, "{command:?}");
        data
    }

    /// Runs a command that fails; returns its status.
    pub fn refused(&mut self, command: &HostCommand) -> u16 {
        let (status, ..) = self.run(command, &[]);
        assert_ne!(status, 0, "{command:?}");
        status
    }

    /// Polls the controller's status until its shutdown is over, as hosts do.
    pub fn wait_for_shutdown(&mut self) -> u64 {
        loop {
            let status = self.done(&HostCommand::property_get(0x1C, false), &[]);
            if status >> 2 & 3 == 2 {
                return status;
            }
        }
    }

    /// Sends bytes, and waits for the end of the connection.
    pub fn send_and_expect_end(&mut self, bytes: &[u8]) {
        self.send(bytes);
        // Bytes that the server did not read end the connection with an error.
        let _ = self.stream.read_to_end(&mut Vec::new());
    }
}
