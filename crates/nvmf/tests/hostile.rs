//! Hosts that break the rules.

use zoneweave_nvmf::host::{Dialect, HostCommand, Reply};
use zoneweave_nvmf::{End, Status, Violation};

use crate::initiator::{Pipe, World, target};

/// An I/O queue in a dialect, with its world.
fn io(dialect: Dialect) -> (World, Pipe, Pipe) {
    let mut world = World::new(target());
    let (admin, controller) = world.admin(dialect);
    let io = world.io(dialect, controller);
    (world, admin, io)
}

/// Sends bytes that end the connection, by a termination request with this status.
fn ends(world: &mut World, pipe: &mut Pipe, bytes: &[u8], violation: Violation, status: u16) {
    pipe.send(world, bytes);
    assert_eq!(pipe.end, Some(End::Violation(violation)));
    let Reply::Termination(found, _) = pipe.reply() else { panic!("a termination request") };
    assert_eq!(found, status);
    assert!(pipe.received.is_empty(), "nothing follows");
}

#[test]
fn pdus_come_in_their_order() {
    let dialect = Dialect::default();
    let command = dialect.capsule(1, &HostCommand::enable());
    let mut world = World::new(target());
    ends(&mut world, &mut Pipe::new(dialect), &command, Violation::Sequence, 2);
    let mut pipe = world.open(dialect);
    ends(&mut world, &mut pipe, &dialect.open(), Violation::Sequence, 2);
    let mut pipe = world.open(dialect);
    let data = dialect.data(1, 1, 0, &[0; 512], true);
    ends(&mut world, &mut pipe, &data, Violation::InvalidHeader { offset: 10 }, 1);
    let mut pipe = world.open(dialect);
    pipe.send(&mut world, &Dialect::termination());
    assert_eq!(pipe.end, Some(End::Terminated));
    assert!(pipe.received.is_empty());
    // Another protocol.
    let violation = Violation::InvalidHeader { offset: 0 };
    let mut pipe = world.open(dialect);
    ends(&mut world, &mut pipe, b"GET / HTTP/1.1\r\n", violation, 1);
}

#[test]
fn data_stays_within_what_was_asked_for() {
    let dialect = Dialect::default();
    let all = [5; 12_288];
    let invalid = |offset| Violation::InvalidHeader { offset };
    type Breach = (u16, u16, u32, usize, bool, Violation, u16);
    let breaches: [Breach; 8] = [
        // Another command, another transfer.
        (9, 2, 0, 100, false, invalid(8), 1),
        (2, 9, 0, 100, false, invalid(10), 1),
        // Too far on, beyond the end, twice, from the middle.
        (2, 2, 1, 100, false, Violation::OutOfRange, 4),
        (2, 2, u32::MAX, 100, false, Violation::OutOfRange, 4),
        (2, 2, 0, 12_288, false, invalid(1), 1),
        (2, 2, 0, 100, true, invalid(1), 1),
        (2, 2, 4096, 8192, true, Violation::OutOfRange, 4),
        (3, 3, 0, 100, false, invalid(10), 1),
    ];
    for (id, transfer, offset, length, is_last, violation, status) in breaches {
        let (mut world, _admin, mut pipe) = io(dialect);
        assert_eq!(pipe.start_command(&mut world, &HostCommand::blocks(0x01, 0, 3)), 2);
        assert!(matches!(pipe.reply(), Reply::Ready(2, 2, 0, 12_288)));
        let pdu = dialect.data(id, transfer, offset, &all[..length], is_last);
        ends(&mut world, &mut pipe, &pdu, violation, status);
    }
    let (mut world, _admin, mut pipe) = io(dialect);
    pipe.start_command(&mut world, &HostCommand::blocks(0x01, 0, 3));
    pipe.reply();
    let first = dialect.data(2, 2, 0, &all[..8192], false);
    pipe.send(&mut world, &first);
    let more = dialect.data(2, 2, 8192, &all[..4097], true);
    ends(&mut world, &mut pipe, &more, Violation::OutOfRange, 4);
    assert!(world.disk.blocks.is_empty(), "nothing was written");
}

#[test]
fn identifiers_and_queues_are_limited() {
    let dialect = Dialect::default();
    let (mut world, _admin, mut pipe) = io(dialect);
    let write = HostCommand::blocks(0x01, 0, 3);
    let first = dialect.capsule(7, &write);
    pipe.send(&mut world, &first);
    pipe.reply();
    ends(&mut world, &mut pipe, &first, Violation::InvalidHeader { offset: 10 }, 1);
    let (mut world, _admin, mut pipe) = io(dialect);
    for id in 0..32 {
        pipe.send(&mut world, &dialect.capsule(id, &write));
        assert!(matches!(pipe.reply(), Reply::Ready(..)));
    }
    assert_eq!(pipe.connection.in_flight(), 32);
    ends(&mut world, &mut pipe, &dialect.capsule(32, &write), Violation::Sequence, 2);
}

#[test]
fn damaged_headers_end_the_connection_and_damaged_data_fails_the_command() {
    let dialect = Dialect { header_digest: true, data_digest: true, alignment: 0 };
    let (mut world, _admin, mut pipe) = io(dialect);
    let write = HostCommand::blocks(0x01, 0, 1).with(&[7; 4096]);
    let mut bytes = dialect.capsule(5, &write);
    *bytes.last_mut().unwrap() ^= 1;
    pipe.send(&mut world, &bytes);
    let transient = Status::TRANSIENT_TRANSPORT.value();
    let failed = |reply| matches!(reply, Reply::Completion { status, .. } if status == transient);
    assert!(failed(pipe.reply()));
    let large = HostCommand::blocks(0x01, 0, 3);
    pipe.send(&mut world, &dialect.capsule(6, &large));
    assert!(matches!(pipe.reply(), Reply::Ready(6, 6, 0, 12_288)));
    let mut bytes = dialect.data(6, 6, 0, &[1; 8192], false);
    bytes[100] ^= 0x80;
    pipe.send(&mut world, &bytes);
    assert!(pipe.received.is_empty(), "the rest is still to come");
    pipe.send(&mut world, &dialect.data(6, 6, 8192, &[1; 4096], true));
    assert!(failed(pipe.reply()));
    assert_eq!(pipe.connection.in_flight(), 0);
    assert!(world.disk.blocks.is_empty());
    let mut bytes = dialect.capsule(7, &HostCommand::new(0, 1, 0));
    bytes[50] ^= 1;
    pipe.send(&mut world, &bytes);
    assert!(matches!(pipe.end, Some(End::Violation(Violation::HeaderDigest { .. }))));
    assert!(matches!(pipe.reply(), Reply::Termination(3, _)));
}

#[test]
fn io_commands_stay_within_their_namespace() {
    let (mut world, _admin, mut pipe) = io(Dialect::default());
    let start = |lba: u64| lba.to_le_bytes();
    for (command, status) in [
        (HostCommand::blocks(0x02, 1000, 1), Status::LBA_OUT_OF_RANGE),
        (HostCommand::blocks(0x02, 999, 2), Status::LBA_OUT_OF_RANGE),
        (HostCommand::blocks(0x02, u64::MAX, 1), Status::LBA_OUT_OF_RANGE),
        (HostCommand::blocks(0x02, 0, 257), Status::INVALID_FIELD),
        (HostCommand::blocks(0x02, 0, 1).put(4, &[2]), Status::INVALID_NAMESPACE),
        (HostCommand::blocks(0x02, 0, 1).put(4, &[255; 4]), Status::INVALID_NAMESPACE),
        (HostCommand::blocks(0x02, 0, 2).dword(12, 0), Status::SGL_LENGTH_INVALID),
        (HostCommand::blocks(0x01, 0, 1).with(&[1; 4095]), Status::SGL_LENGTH_INVALID),
        (
            HostCommand::blocks(0x01, 0, 1).with(&[1; 4096]).put(24, &[1]),
            Status::SGL_OFFSET_INVALID,
        ),
        (
            HostCommand::blocks(0x01, 0, 1).with(&[1; 4096]).put(24, &[255; 8]),
            Status::SGL_OFFSET_INVALID,
        ),
        (HostCommand::blocks(0x02, 0, 1).with(&[1; 4096]), Status::SGL_TYPE_INVALID),
        (HostCommand::new(0x08, 1, 0).put(40, &start(990)).dword(12, 10), Status::LBA_OUT_OF_RANGE),
        (HostCommand::new(0x05, 1, 0), Status::INVALID_OPCODE),
        (HostCommand::new(0x7F, 4, 0), Status::INVALID_OPCODE),
        (HostCommand::new(0x00, 1, 0).put(1, &[0x42]), Status::INVALID_FIELD),
    ] {
        assert_eq!(pipe.refused(&mut world, &command), status, "{command:?}");
    }
    // A discard of which one range is outside discards nothing.
    io_discards_all_or_nothing(&mut world, &mut pipe);
}

fn io_discards_all_or_nothing(world: &mut World, pipe: &mut Pipe) {
    pipe.done(world, &HostCommand::blocks(0x01, 0, 1).with(&[1; 4096]));
    let range =
        |lba: u64, blocks: u32| [&[0; 4][..], &blocks.to_le_bytes(), &lba.to_le_bytes()].concat();
    let ranges = [range(0, 1), range(999, 2)].concat();
    let discard = HostCommand::new(0x09, 1, 0).with(&ranges).dword(10, 1).dword(11, 4);
    assert_eq!(pipe.refused(world, &discard), Status::LBA_OUT_OF_RANGE);
    // Without the attribute to deallocate, ranges are hints.
    pipe.done(world, &discard.dword(11, 0));
    assert_eq!(world.disk.blocks.len(), 1);
}
