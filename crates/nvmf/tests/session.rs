//! Whole sessions, and the same bytes cut anywhere.

use zoneweave_nvmf::End;
use zoneweave_nvmf::host::{Dialect, HostCommand, Reply};

use crate::initiator::{HOST, NQN, Pipe, World, target};

fn dialects() -> impl Iterator<Item = Dialect> {
    let all = [(false, false, 0), (true, false, 3), (false, true, 31), (true, true, 0)];
    all.into_iter().map(|(header_digest, data_digest, alignment)| Dialect {
        header_digest,
        data_digest,
        alignment,
    })
}

fn pattern(seed: u8, blocks: usize) -> Vec<u8> {
    (0..blocks * 4096)
        .map(|at| seed.wrapping_add(at.to_le_bytes()[0] ^ at.to_le_bytes()[1]))
        .collect()
}

/// Connects, looks around, writes and reads, and leaves; returns both connections.
fn session(world: &mut World, dialect: Dialect) -> [Pipe; 2] {
    let (mut admin, controller) = world.admin(dialect);
    assert_eq!(admin.done(world, &HostCommand::property_get(0x1C, false)), 1, "it is ready");
    let found = admin.read(world, &HostCommand::identify(1, 0));
    assert_eq!(&found[768..768 + NQN.len()], NQN.as_bytes());
    let mut io = world.io(dialect, controller);
    let small = pattern(1, 2);
    io.done(world, &HostCommand::blocks(0x01, 10, 2).with(&small));
    let large = pattern(2, 5);
    let write = HostCommand::blocks(0x01, 20, 5).dword(12, 1 << 30 | 4);
    assert_eq!(io.command(world, &write, &large).0, 0);
    assert_eq!(world.disk.durable_writes, 1, "one write had Force Unit Access");
    assert!(io.read(world, &HostCommand::blocks(0x02, 20, 5)) == large);
    assert!(io.read(world, &HostCommand::blocks(0x02, 10, 2)) == small);
    io.done(world, &HostCommand::new(0x00, 1, 0));
    assert_eq!(world.disk.flushes, 1);
    // Blocks 21 and 22 become zeros, block 11 is discarded, and so is 24 by data that is fetched.
    io.done(world, &HostCommand::new(0x08, 1, 0).dword(10, 21).dword(12, 1));
    let range = |lba: u8| [[0; 4], [1, 0, 0, 0], [lba, 0, 0, 0], [0; 4]].concat();
    let discard = HostCommand::new(0x09, 1, 16).dword(11, 4);
    io.done(world, &discard.clone().with(&range(11)));
    assert_eq!(io.command(world, &discard, &range(24)).0, 0);
    let blocks: Vec<u64> = world.disk.blocks.keys().copied().collect();
    assert_eq!(blocks, [10, 20, 23]);
    // Linux describes a page for its ranges, however few they are.
    let page = |lba| [range(lba), vec![0; 4080]].concat();
    let page_of_ranges = HostCommand::new(0x09, 1, 4096).dword(11, 4);
    io.done(world, &page_of_ranges.clone().with(&page(10)));
    assert_eq!(io.command(world, &page_of_ranges, &page(20)).0, 0);
    let refused = io.refused(world, &discard.put(32, &[15]));
    assert_eq!(refused, zoneweave_nvmf::Status::SGL_LENGTH_INVALID);
    assert_eq!(world.disk.blocks.keys().copied().collect::<Vec<_>>(), [23]);
    io.done(world, &HostCommand::new(0x7F, 8, 0));
    assert_eq!(io.end, Some(End::Disconnected));
    admin.done(world, &HostCommand::property_set(0x14, 0x0046_4001));
    assert_eq!(world.disk.flushes, 2, "a shutdown makes data durable");
    assert_eq!(admin.done(world, &HostCommand::property_get(0x1C, false)), 0b1001);
    [admin, io]
}

#[test]
fn a_host_writes_and_reads_in_every_dialect() {
    for dialect in dialects() {
        let mut world = World::new(target());
        let [mut admin, _] = session(&mut world, dialect);
        assert_eq!(world.target.controllers(), 1);
        admin.connection.close(&mut world.target);
        assert_eq!(world.target.controllers(), 0, "the controller goes with its admin queue");
    }
}

/// All that a controller sends in answer to these bytes, cut in two at `cut`.
fn replay(world: &mut World, dialect: Dialect, bytes: &[u8], cut: usize) -> Vec<u8> {
    let mut pipe = Pipe::new(dialect);
    let (before, after) = bytes.split_at(cut);
    pipe.send(world, before);
    pipe.send(world, after);
    pipe.received.to_vec()
}

#[test]
fn a_cut_anywhere_changes_nothing() {
    let dialect = Dialect { header_digest: true, data_digest: true, alignment: 3 };
    let mut world = World::new(target());
    let [admin, io] = session(&mut world, dialect);
    let run = |admin_cut: usize, io_cut: usize| {
        let mut world = World::new(target());
        let enabled = admin.sent.len() - 2 * 76;
        let (first, last) = admin.sent.split_at(enabled);
        let mut pipe = Pipe::new(dialect);
        let cut = admin_cut.min(first.len());
        pipe.send(&mut world, &first[..cut]);
        pipe.send(&mut world, &first[cut..]);
        let io_output = replay(&mut world, dialect, &io.sent, io_cut);
        pipe.send(&mut world, last);
        (pipe.received, io_output)
    };
    let whole = run(0, 0);
    for cut in 1..admin.sent.len() {
        assert!(run(cut, 0) == whole, "cut at {cut} of the admin queue");
    }
    // All of the heads, and the data now and then.
    for cut in (1..io.sent.len()).filter(|cut| cut % 4096 < 200 || cut % 61 == 0) {
        assert!(run(0, cut) == whole, "cut at {cut} of the I/O queue");
    }
}

#[test]
fn requests_complete_in_any_order() {
    let mut world = World::new(target());
    let dialect = Dialect::default();
    let (_admin, controller) = world.admin(dialect);
    let mut io = world.io(dialect, controller);
    let write = HostCommand::blocks(0x01, 0, 3);
    let first = io.start_command(&mut world, &write);
    let second = io.start_command(&mut world, &write);
    let asked: Vec<_> = [first, second]
        .map(|id| match io.reply() {
            Reply::Ready(command, transfer, 0, 12_288) if command == id => transfer,
            other => panic!("{other:?}"),
        })
        .into();
    // The data of both arrives mixed, the second's first.
    let data = pattern(9, 3);
    let pdus = [
        dialect.data(second, asked[1], 0, &data[..8192], false),
        dialect.data(first, asked[0], 0, &data[..100], false),
        dialect.data(second, asked[1], 8192, &data[8192..], true),
        dialect.data(first, asked[0], 100, &data[100..], true),
    ];
    pdus.iter().for_each(|pdu| io.send(&mut world, pdu));
    for id in [second, first] {
        let reply = io.reply();
        assert!(matches!(reply, Reply::Completion { command, status: 0, .. } if command == id));
    }
}

#[test]
fn a_queue_counts_its_commands() {
    let mut world = World::new(target());
    let (mut admin, _) = world.admin(Dialect::default());
    let heads: Vec<u16> = (0..40)
        .map(|_| {
            admin.start_command(&mut world, &HostCommand::new(0x18, 0, 0));
            match admin.reply() {
                Reply::Completion { head, .. } => head,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    // Connect and enabling were the first two of 32.
    let expected: Vec<u16> = (0..40).map(|count| (count + 3) % 32).collect();
    assert_eq!(heads, expected);
}

#[test]
fn several_hosts_have_controllers_of_their_own() {
    let mut world = World::new(target());
    let (_first, one) = world.admin(Dialect::default());
    let (mut second, two) = world.admin(Dialect::default());
    assert_ne!(one, two);
    second.connection.close(&mut world.target);
    let (_third, three) = world.admin(Dialect::default());
    assert!(three != one && three != two, "numbers are not used again soon");
    let mut other = world.open(Dialect::default());
    let stranger = HostCommand::connect(1, one, NQN, &format!("{HOST}x"));
    assert_eq!(other.refused(&mut world, &stranger).value(), 0x184);
}
