//! What controllers say of themselves, and what they refuse.

use std::collections::BTreeSet;

use zoneweave_nvmf::host::{Dialect, HostCommand, Reply};
use zoneweave_nvmf::{DISCOVERY_NQN, End, Hosts, Status};

use crate::initiator::{BLOCKS, HOST, NQN, World, target, target_for};

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("it is long enough"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("it is long enough"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("it is long enough"))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it is long enough").trim_end_matches([' ', '\0'])
}

#[test]
fn the_discovery_service_names_itself_and_the_subsystem() {
    let mut world = World::new(target());
    let mut pipe = world.open(Dialect::default());
    pipe.done(&mut world, &HostCommand::connect(0, 0xFFFF, DISCOVERY_NQN, HOST));
    pipe.done(&mut world, &HostCommand::enable());
    let controller = pipe.read(&mut world, &HostCommand::identify(1, 0));
    assert_eq!(controller[111], 2, "a discovery controller");
    let log = pipe.read(&mut world, &HostCommand::log_page(0x70, 3072, 0));
    assert_eq!((u64_at(&log, 0), u64_at(&log, 8), u16_at(&log, 16)), (0, 2, 0));
    for (entry, nqn, kind) in [(1024, DISCOVERY_NQN, 3), (2048, NQN, 2)] {
        let entry = &log[entry..entry + 1024];
        assert_eq!(entry[..3], [3, 1, kind], "TCP, IPv4");
        assert_eq!(text(&entry[32..64]), "4420");
        assert_eq!(text(&entry[256..512]), nqn);
        assert_eq!(text(&entry[512..768]), "127.0.0.1");
    }
    // In parts, as nvme-cli and Linux read it.
    let part = pipe.read(&mut world, &HostCommand::log_page(0x70, 1024, 1024));
    assert!(part == log[1024..2048]);
    for (command, status) in [
        (HostCommand::log_page(0x02, 512, 0), Status::INVALID_LOG_PAGE),
        (HostCommand::log_page(0x70, 16, 3076), Status::INVALID_FIELD),
        (HostCommand::identify(0, 1), Status::INVALID_FIELD),
        (HostCommand::new(0x09, 0, 0).dword(10, 7), Status::INVALID_FIELD),
    ] {
        assert_eq!(pipe.refused(&mut world, &command), status);
    }
    let mut io = world.open(Dialect::default());
    let queue = HostCommand::connect(1, 1, DISCOVERY_NQN, HOST);
    assert_eq!(io.refused(&mut world, &queue).value(), 0x182, "it has no I/O queues");
}

#[test]
fn linux_finds_what_it_needs() {
    let mut world = World::new(target());
    let (mut admin, controller) = world.admin(Dialect::default());
    let capabilities = admin.done(&mut world, &HostCommand::property_get(0, true));
    assert_eq!(capabilities & 0xFFFF, 127, "queue entries");
    assert_eq!(capabilities >> 37 & 1, 1, "NVM commands");
    assert_eq!(admin.done(&mut world, &HostCommand::property_get(8, false)), 0x0001_0400);
    let found = admin.read(&mut world, &HostCommand::identify(1, 0));
    assert_eq!((text(&found[4..24]), text(&found[24..64])), ("serial", "Zoneweave"));
    assert_eq!(u16_at(&found, 78), controller);
    assert_eq!(found[77], 8, "1 MiB transfers");
    assert_ne!(u16_at(&found, 320), 0, "keep-alive");
    assert_ne!(u16_at(&found, 514), 0, "commands in flight");
    assert_eq!(u32_at(&found, 536) & 3, 1, "SGLs");
    assert_eq!(u32_at(&found, 1792) * 16, 64 + 8192, "data in capsules");
    assert_eq!((u32_at(&found, 1796), found[525]), (1, 5), "responses; a cache");
    let list = admin.read(&mut world, &HostCommand::identify(2, 0));
    assert_eq!((u32_at(&list, 0), u32_at(&list, 4)), (1, 0));
    let list = admin.read(&mut world, &HostCommand::identify(2, 1));
    assert_eq!(u32_at(&list, 0), 0);
    let namespace = admin.read(&mut world, &HostCommand::identify(0, 1));
    assert_eq!((u64_at(&namespace, 0), namespace[130]), (BLOCKS, 12));
    let descriptors = admin.read(&mut world, &HostCommand::identify(3, 1));
    assert_eq!(descriptors[..4], [3, 16, 0, 0]);
    assert_eq!(&descriptors[4..20], b"0123456789abcdef");
    assert_eq!(descriptors[20..25], [4, 1, 0, 0, 0]);
    for structure in [5, 6, 7, 0x1C] {
        admin.read(&mut world, &HostCommand::identify(structure, 1));
    }
}

#[test]
fn what_does_not_exist_is_refused() {
    let mut world = World::new(target());
    let (mut admin, _) = world.admin(Dialect::default());
    for (command, status) in [
        (HostCommand::identify(0, 0), Status::INVALID_NAMESPACE),
        (HostCommand::identify(0, 2), Status::INVALID_NAMESPACE),
        (HostCommand::identify(0, u32::MAX), Status::INVALID_NAMESPACE),
        (HostCommand::identify(2, u32::MAX), Status::INVALID_NAMESPACE),
        (HostCommand::identify(0x40, 1), Status::INVALID_FIELD),
        (HostCommand::identify(5, 1).dword(11, 2 << 24), Status::INVALID_FIELD),
        (HostCommand::new(0x06, 1, 4000).dword(10, 1), Status::SGL_LENGTH_INVALID),
        (HostCommand::new(0x06, 1, 0).dword(10, 1).with(&[0; 64]), Status::SGL_TYPE_INVALID),
        (HostCommand::identify(1, 0).put(1, &[0]), Status::INVALID_FIELD),
        (HostCommand::identify(1, 0).put(1, &[0x41]), Status::INVALID_FIELD),
        (HostCommand::identify(1, 0).put(39, &[0x4F]), Status::SGL_TYPE_INVALID),
        (HostCommand::log_page(0x70, 1024, 0), Status::INVALID_LOG_PAGE),
        (HostCommand::log_page(0x02, 512, 2), Status::INVALID_FIELD),
        (HostCommand::log_page(0x02, (1 << 20) + 4, 0), Status::INVALID_FIELD),
        (HostCommand::new(0x80, 1, 0), Status::INVALID_OPCODE),
        (HostCommand::new(0x0A, 0, 0).dword(10, 0x30), Status::INVALID_FIELD),
        (HostCommand::new(0x09, 0, 0).dword(10, 1 << 31 | 7), Status::FEATURE_NOT_SAVEABLE),
        (HostCommand::new(0x09, 0, 0).dword(10, 7).dword(11, 0xFFFF), Status::INVALID_FIELD),
        (HostCommand::property_get(0x14, true), Status::INVALID_FIELD),
        (HostCommand::property_get(0x18, false), Status::INVALID_FIELD),
        (HostCommand::property_set(0x1C, 1), Status::INVALID_FIELD),
        (HostCommand::connect(0, 0xFFFF, NQN, HOST), Status::COMMAND_SEQUENCE),
        (HostCommand::new(0x7F, 8, 0), Status::INVALID_FIELD),
        (HostCommand::new(0x7F, 5, 0), Status::INVALID_OPCODE),
    ] {
        assert_eq!(admin.refused(&mut world, &command), status, "{command:?}");
    }
    // A log page that is shorter than the host's memory ends with zeros.
    let log = admin.read(&mut world, &HostCommand::log_page(0x03, 4096, 0));
    assert_eq!((log[0], text(&log[8..16])), (1, "0.1.0"));
    assert!(log[512..].iter().all(|byte| *byte == 0));
}

#[test]
fn connecting_follows_the_rules() {
    let mut world = World::new(target());
    let first = world.open(Dialect::default());
    let mut pipe = first;
    assert_eq!(pipe.refused(&mut world, &HostCommand::identify(1, 0)), Status::COMMAND_SEQUENCE);
    let connect = |queue, controller| HostCommand::connect(queue, controller, NQN, HOST);
    for (command, status, result) in [
        (connect(0, 0xFFFF).put(40, &[1]), 0x180, 0),
        (connect(0, 0xFFFF).put(44, &[0, 0]), 0x182, 44),
        (connect(0, 0xFFFF).put(44, &[128, 0]), 0x182, 44),
        (connect(0, 1), 0x182, 16 | 1 << 16),
        (connect(1, 1), 0x182, 16 | 1 << 16),
        (HostCommand::connect(0, 0xFFFF, "nqn.other", HOST), 0x182, 256 | 1 << 16),
        (HostCommand::connect(0, 0xFFFF, NQN, "host"), 0x182, 512 | 1 << 16),
        (connect(0, 0xFFFF).put(24, &[4]), 0x016, 0),
        (connect(0, 0xFFFF).put(32, &[1]), 0x00F, 0),
        (HostCommand::new(0x7F, 1, 1024), 0x011, 0),
    ] {
        let (found, value, _) = pipe.command(&mut world, &command, &[]);
        assert_eq!((found, value), (status, result), "{command:?}");
    }
    assert!(!pipe.connection.is_connected());
    let controller = u16::try_from(pipe.done(&mut world, &connect(0, 0xFFFF))).unwrap();
    assert_eq!(pipe.refused(&mut world, &HostCommand::identify(1, 0)), Status::COMMAND_SEQUENCE);
    let mut io = world.open(Dialect::default());
    assert_eq!(io.refused(&mut world, &connect(1, controller)), Status::COMMAND_SEQUENCE);
    pipe.done(&mut world, &HostCommand::enable());
    let queues = HostCommand::new(0x09, 0, 0).dword(10, 7).dword(11, 0x0001_0005);
    assert_eq!(pipe.done(&mut world, &queues), 0x0001_0001);
    assert_eq!(io.refused(&mut world, &connect(3, controller)).value(), 0x182);
    io.done(&mut world, &connect(1, controller));
    assert_eq!(pipe.refused(&mut world, &queues), Status::COMMAND_SEQUENCE);
    let mut again = world.open(Dialect::default());
    assert_eq!(again.refused(&mut world, &connect(1, controller)), Status::COMMAND_SEQUENCE);
    io.connection.close(&mut world.target);
    again.done(&mut world, &connect(1, controller));
}

#[test]
fn controllers_are_limited() {
    let mut world = World::new(target());
    let _all: Vec<_> = (0..4).map(|_| world.admin(Dialect::default())).collect();
    let mut pipe = world.open(Dialect::default());
    let refused = pipe.refused(&mut world, &HostCommand::connect(0, 0xFFFF, NQN, HOST));
    assert_eq!(refused, Status::CONTROLLER_BUSY);
}

#[test]
fn only_listed_hosts_connect() {
    let mut world = World::new(target_for(Hosts::Listed(BTreeSet::from([HOST.to_owned()]))));
    for subsystem in [NQN, DISCOVERY_NQN] {
        let mut pipe = world.open(Dialect::default());
        let stranger = HostCommand::connect(0, 0xFFFF, subsystem, "nqn.2014-08.org.x:y");
        assert_eq!(pipe.refused(&mut world, &stranger), Status::CONNECT_HOST);
        pipe.done(&mut world, &HostCommand::connect(0, 0xFFFF, subsystem, HOST));
    }
}

#[test]
fn silent_hosts_lose_their_controllers() {
    let mut world = World::new(target());
    let mut pipe = world.open(Dialect::default());
    let connect = HostCommand::connect(0, 0xFFFF, NQN, HOST).dword(12, 1500);
    let controller = u16::try_from(pipe.done(&mut world, &connect)).unwrap();
    pipe.done(&mut world, &HostCommand::enable());
    let mut io = world.io(Dialect::default(), controller);
    world.now_ms = 2000;
    world.target.expire(world.now_ms);
    assert!(!pipe.connection.is_stale(&world.target), "times are rounded up to seconds");
    // Any traffic counts.
    io.read(&mut world, &HostCommand::blocks(0x02, 0, 1));
    world.now_ms = 4000;
    world.target.expire(world.now_ms);
    assert!(!pipe.connection.is_stale(&world.target));
    world.now_ms = 4001;
    world.target.expire(world.now_ms);
    assert!(pipe.connection.is_stale(&world.target) && io.connection.is_stale(&world.target));
    io.start_command(&mut world, &HostCommand::blocks(0x02, 0, 1));
    assert_eq!(io.end, Some(End::Stale));
    // Another controller has nothing to do with the queues of the old one.
    let _next = world.admin(Dialect::default());
    assert!(pipe.connection.is_stale(&world.target));
}

#[test]
fn a_reset_ends_the_queues() {
    let mut world = World::new(target());
    let (mut admin, controller) = world.admin(Dialect::default());
    let io = world.io(Dialect::default(), controller);
    let off = HostCommand::new(0x09, 0, 0).dword(10, 6);
    admin.done(&mut world, &off);
    admin.done(&mut world, &HostCommand::property_set(0x14, 0x0046_0000));
    assert_eq!(admin.done(&mut world, &HostCommand::property_get(0x1C, false)), 0);
    assert!(io.connection.is_stale(&world.target));
    assert!(!admin.connection.is_stale(&world.target));
    admin.done(&mut world, &HostCommand::enable());
    assert!(io.connection.is_stale(&world.target), "the queue was of the time before the reset");
    let get = HostCommand::new(0x0A, 0, 0).dword(10, 6);
    assert_eq!(admin.done(&mut world, &get), 1, "features are as they were at first");
    // 8 KiB pages.
    admin.done(&mut world, &HostCommand::property_set(0x14, 0x0046_0000));
    admin.done(&mut world, &HostCommand::property_set(0x14, 0x0046_0081));
    assert_eq!(admin.done(&mut world, &HostCommand::property_get(0x1C, false)), 2, "fatal");
}

#[test]
fn without_a_write_cache_writes_are_durable() {
    let mut world = World::new(target());
    let (mut admin, controller) = world.admin(Dialect::default());
    let mut io = world.io(Dialect::default(), controller);
    io.done(&mut world, &HostCommand::blocks(0x01, 0, 1).with(&[1; 4096]));
    assert_eq!(world.disk.durable_writes, 0);
    admin.done(&mut world, &HostCommand::new(0x09, 0, 0).dword(10, 6).dword(11, 0));
    io.done(&mut world, &HostCommand::blocks(0x01, 0, 1).with(&[1; 4096]));
    assert_eq!(world.disk.durable_writes, 1);
    let health = admin.read(&mut world, &HostCommand::log_page(0x02, 512, 0));
    assert_eq!((u64_at(&health, 80), u64_at(&health, 48)), (2, 1), "writes and their units");
}

#[test]
fn events_are_held_and_aborted() {
    let mut world = World::new(target());
    let (mut admin, _) = world.admin(Dialect::default());
    let held: Vec<u16> =
        (0..4).map(|_| admin.start_command(&mut world, &HostCommand::new(0x0C, 0, 0))).collect();
    assert!(admin.received.is_empty());
    let refused = admin.refused(&mut world, &HostCommand::new(0x0C, 0, 0));
    assert_eq!(refused, Status::EVENT_LIMIT);
    let abort = |id: u16| HostCommand::new(0x08, 0, 0).dword(10, u32::from(id) << 16);
    admin.start_command(&mut world, &abort(held[2]));
    let Reply::Completion { command, status, .. } = admin.reply() else { panic!() };
    assert_eq!((command, Status::new(status)), (held[2], Status::ABORT_REQUESTED));
    assert!(matches!(admin.reply(), Reply::Completion { status: 0, result: 0, .. }));
    assert_eq!(admin.done(&mut world, &abort(held[2])), 1, "it is gone already");
}
