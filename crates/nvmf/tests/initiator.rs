//! A naive initiator, a disk in memory, and the pipes between them.

use std::collections::BTreeMap;

use bytes::Bytes;
use zoneweave_nvmf::host::{Dialect, HostCommand, Reply};
use zoneweave_nvmf::{
    BLOCK_BYTES, Connection, Done, End, HostData, Hosts, Namespace, Operation, Request, Status,
    Step, Subsystem, Tag, Target, Zones, deallocate_ranges,
};

pub(crate) const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:test";
pub(crate) const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:host";
pub(crate) const BLOCKS: u64 = 1000;

pub(crate) fn subsystem() -> Subsystem {
    let namespace = Namespace {
        blocks: BLOCKS,
        read_only: false,
        volatile_cache: true,
        uuid: *b"0123456789abcdef",
        optimal_blocks: 12,
        zones: None,
    };
    Subsystem {
        nqn: NQN.to_owned(),
        serial: "serial".to_owned(),
        model: "Zoneweave".to_owned(),
        firmware: "0.1.0".to_owned(),
        namespaces: vec![namespace],
    }
}

pub(crate) fn target() -> Target {
    target_for(Hosts::Any)
}

pub(crate) fn target_for(hosts: Hosts) -> Target {
    Target::new(subsystem(), hosts, 4)
}

/// Blocks of a zone.
pub(crate) const ZONE_BLOCKS: u64 = 100;

/// A subsystem with a zoned namespace.
pub(crate) fn zoned_target() -> Target {
    let mut subsystem = subsystem();
    subsystem.namespaces[0].zones = Some(Zones {
        size: ZONE_BLOCKS,
        max_open: Some(3),
        max_active: None,
        append_blocks: 16,
        reads_across: true,
    });
    Target::new(subsystem, Hosts::Any, 4)
}

/// A disk that counts what was asked of it.
#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) blocks: BTreeMap<u64, Bytes>,
    pub(crate) flushes: usize,
    pub(crate) durable_writes: usize,
    pub(crate) waiting: BTreeMap<Tag, Operation>,
    /// Commands to zones, which it has none of.
    pub(crate) zoned: Vec<Operation>,
}

impl Disk {
    /// Runs an operation whose data is here.
    pub(crate) fn run(&mut self, operation: &Operation, data: &Bytes) -> Result<Done, Status> {
        let zero = || Bytes::from_static(&[0; BLOCK_BYTES]);
        match *operation {
            Operation::Read { lba, blocks } => {
                let block = |at| self.blocks.get(&at).cloned().unwrap_or_else(zero);
                return Ok(Done::Data((lba..lba + u64::from(blocks)).map(block).collect()));
            }
            Operation::Write { lba, blocks, fua } => {
                assert_eq!(data.len(), blocks as usize * BLOCK_BYTES);
                self.durable_writes += usize::from(fua);
                let pieces = data.chunks(BLOCK_BYTES).map(Bytes::copy_from_slice);
                self.blocks.extend((lba..).zip(pieces));
            }
            Operation::Flush => self.flushes += 1,
            Operation::WriteZeroes { lba, blocks, fua } => {
                self.durable_writes += usize::from(fua);
                (lba..lba + u64::from(blocks)).for_each(|at| drop(self.blocks.remove(&at)));
            }
            Operation::Deallocate { .. } => {
                for (lba, blocks) in deallocate_ranges(data, BLOCKS)? {
                    (lba..lba + u64::from(blocks)).for_each(|at| drop(self.blocks.remove(&at)));
                }
            }
            Operation::Append { zone_start, .. } => {
                self.zoned.push(operation.clone());
                return Ok(Done::At(zone_start + 5));
            }
            Operation::ManageZone { .. } => self.zoned.push(operation.clone()),
            Operation::ReportZones { bytes, .. } => {
                self.zoned.push(operation.clone());
                return Ok(Done::Data(vec![vec![0xCD; bytes].into()]));
            }
        }
        Ok(Done::Plain)
    }
}

/// One connection of the initiator, with everything it has sent.
pub(crate) struct Pipe {
    pub(crate) dialect: Dialect,
    pub(crate) connection: Connection,
    pub(crate) end: Option<End>,
    pub(crate) sent: Vec<u8>,
    pub(crate) received: Bytes,
    next_id: u16,
}

/// Both ends.
pub(crate) struct World {
    pub(crate) target: Target,
    pub(crate) disk: Disk,
    pub(crate) now_ms: u64,
}

impl World {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, disk: Disk::default(), now_ms: 0 }
    }

    /// A connection after its first exchange.
    pub(crate) fn open(&mut self, dialect: Dialect) -> Pipe {
        let mut pipe = Pipe::new(dialect);
        pipe.send(self, &dialect.open());
        assert_eq!(pipe.reply(), Reply::Opened(1 << 20));
        pipe
    }

    /// An admin queue, enabled; with its controller.
    pub(crate) fn admin(&mut self, dialect: Dialect) -> (Pipe, u16) {
        let mut pipe = self.open(dialect);
        let connected = pipe.done(self, &HostCommand::connect(0, 0xFFFF, NQN, HOST));
        pipe.done(self, &HostCommand::enable());
        (pipe, u16::try_from(connected).expect("it is small and valid"))
    }

    /// An I/O queue of a controller.
    pub(crate) fn io(&mut self, dialect: Dialect, controller: u16) -> Pipe {
        let mut pipe = self.open(dialect);
        pipe.done(self, &HostCommand::connect(1, controller, NQN, HOST));
        pipe
    }
}

impl Pipe {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            connection: Connection::new(([127, 0, 0, 1], 4420).into()),
            end: None,
            sent: Vec::new(),
            received: Bytes::new(),
            next_id: 0,
        }
    }

    /// Sends bytes, and runs everything that they ask for.
    pub(crate) fn send(&mut self, world: &mut World, bytes: &[u8]) {
        self.sent.extend(bytes);
        let mut rest = bytes;
        while self.end.is_none() {
            match self.connection.receive(&mut world.target, world.now_ms, &mut rest) {
                Ok(Step::NeedsInput) => break,
                Ok(Step::Answered | Step::Data(_, None)) => {}
                Ok(Step::Request(request)) => self.start(world, request),
                Ok(Step::Data(tag, Some(data))) => {
                    let operation = world.disk.waiting.remove(&tag).expect("it was fetched");
                    let result = world.disk.run(&operation, &data);
                    self.connection.complete(&mut world.target, tag, result);
                }
                Ok(Step::ShutDown(shutdown)) => {
                    world.disk.flushes += 1;
                    world.target.shut_down(shutdown);
                }
                Err(end) => {
                    self.end = Some(end);
                    self.connection.close(&mut world.target);
                }
            }
        }
        let output = self.connection.take_output().concat();
        self.received = [&self.received[..], &output].concat().into();
    }

    fn start(&mut self, world: &mut World, Request { tag, namespace, operation, data }: Request) {
        assert_eq!(namespace, 0);
        let data = match data {
            HostData::Remote(_) => {
                world.disk.waiting.insert(tag, operation);
                return self.connection.fetch(tag);
            }
            HostData::Here(data) => data,
            HostData::None => Bytes::new(),
        };
        let result = world.disk.run(&operation, &data);
        self.connection.complete(&mut world.target, tag, result);
    }

    /// The next PDU.
    pub(crate) fn reply(&mut self) -> Reply {
        self.dialect.reply(&mut self.received).expect("the controller has answered")
    }

    /// Sends a command under the next identifier; returns that.
    pub(crate) fn start_command(&mut self, world: &mut World, command: &HostCommand) -> u16 {
        self.next_id += 1;
        let id = self.next_id;
        let bytes = self.dialect.capsule(id, command);
        self.send(world, &bytes);
        id
    }

    /// Runs a command, sending the data it is asked for; returns status, result and data.
    pub(crate) fn command(
        &mut self,
        world: &mut World,
        command: &HostCommand,
        to_send: &[u8],
    ) -> (u16, u64, Vec<u8>) {
        let expected = self.start_command(world, command);
        let mut read = Vec::new();
        loop {
            match self.reply() {
                Reply::Data(id, offset, data) => {
                    assert_eq!((id, offset as usize), (expected, read.len()));
                    read.extend(data);
                }
                Reply::Ready(id, transfer, offset, length) => {
                    assert_eq!((id, offset, length as usize), (expected, 0, to_send.len()));
                    self.send_data(world, id, transfer, to_send);
                }
                Reply::Completion { command: id, status, result, .. } => {
                    assert_eq!(id, expected);
                    return (status, result, read);
                }
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    /// Data in three PDUs of different lengths.
    fn send_data(&mut self, world: &mut World, id: u16, transfer: u16, data: &[u8]) {
        let cuts = [0, data.len() / 5, data.len() / 2, data.len()];
        for cut in cuts.windows(2) {
            let is_last = cut[1] == data.len();
            let offset = u32::try_from(cut[0]).expect("it is small and valid");
            let pdu = self.dialect.data(id, transfer, offset, &data[cut[0]..cut[1]], is_last);
            self.send(world, &pdu);
        }
    }

    /// Runs a command that succeeds; returns its result.
    pub(crate) fn done(&mut self, world: &mut World, command: &HostCommand) -> u64 {
        let (status, result, _) = self.command(world, command, &[]);
        assert_eq!(status, 0, "{command:?}");
        result
    }

    /// Runs a command that succeeds; returns its data.
    pub(crate) fn read(&mut self, world: &mut World, command: &HostCommand) -> Vec<u8> {
        let (status, _, data) = self.command(world, command, &[]);
        assert_eq!(status, 0, "{command:?}");
        data
    }

    /// Runs a command that fails; returns its status.
    pub(crate) fn refused(&mut self, world: &mut World, command: &HostCommand) -> Status {
        let (status, ..) = self.command(world, command, &[]);
        assert_ne!(status, 0, "{command:?}");
        Status::new(status)
    }
}
