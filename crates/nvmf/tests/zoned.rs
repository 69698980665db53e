//! Zoned namespaces.

use zoneweave_nvmf::host::{Dialect, HostCommand};
use zoneweave_nvmf::{Operation, Status, ZoneAction};

use crate::initiator::{BLOCKS, HOST, NQN, World, target, zoned_target};

/// An Identify structure of the zoned command set.
fn of_zoned_set(structure: u8) -> HostCommand {
    HostCommand::identify(structure, 1).dword(11, 2 << 24)
}

#[test]
fn a_zoned_namespace_says_so() {
    let mut world = World::new(zoned_target());
    let (mut admin, _) = world.admin(Dialect::default());
    let mut read = |command: &HostCommand| admin.read(&mut world, command);
    assert_eq!(read(&HostCommand::identify(3, 1))[20..25], [4, 1, 0, 0, 2]);
    let namespace = read(&of_zoned_set(5));
    assert_eq!(namespace[2], 1, "reads cross zones");
    assert_eq!(namespace[4..12], [255, 255, 255, 255, 2, 0, 0, 0], "active and open zones");
    assert_eq!(namespace[2816..2824], 100_u64.to_le_bytes());
    assert_eq!(read(&of_zoned_set(6))[0], 4, "appends of 16 blocks");
    assert_eq!(read(&HostCommand::identify(0, 1))[..8], BLOCKS.to_le_bytes());
    assert_eq!(read(&HostCommand::identify(0x1C, 0))[..8], 0b101_u64.to_le_bytes());
    assert_eq!(read(&of_zoned_set(7).put(4, &[0]))[0], 1);
    assert_eq!(read(&HostCommand::identify(7, 0))[0], 0, "it is of no other set");
    assert_eq!(read(&HostCommand::identify(2, 0))[0], 1);
    let effects = read(&HostCommand::log_page(5, 4096, 0).dword(14, 2 << 24));
    let effect = |opcode: usize| effects[1024 + opcode * 4];
    assert_eq!([0x79, 0x7A, 0x7D, 0x09].map(effect), [3, 1, 3, 0]);
    let controller = read(&HostCommand::identify(1, 0));
    assert_eq!(controller[520], 0, "no optional commands");
    let profile = |value| HostCommand::new(0x09, 0, 0).dword(10, 0x19).dword(11, value);
    admin.done(&mut world, &profile(0));
    assert_eq!(admin.refused(&mut world, &profile(1)), Status::COMMAND_SET_REJECTED);
}

/// Such a host could not write to it.
#[test]
fn a_host_that_knows_no_zones_does_not_find_it() {
    let mut world = World::new(zoned_target());
    let mut admin = world.open(Dialect::default());
    admin.done(&mut world, &HostCommand::connect(0, 0xFFFF, NQN, HOST));
    admin.done(&mut world, &HostCommand::property_set(0x14, 0x0046_0001));
    assert_eq!(admin.read(&mut world, &HostCommand::identify(2, 0))[0], 0);
    let hidden = admin.refused(&mut world, &HostCommand::identify(3, 1));
    assert_eq!(hidden, Status::INVALID_NAMESPACE);
    let mut io = world.io(Dialect::default(), 1);
    let hidden = io.refused(&mut world, &HostCommand::blocks(0x02, 0, 1));
    assert_eq!(hidden, Status::INVALID_NAMESPACE);
}

#[test]
fn zones_are_appended_to_managed_and_reported() {
    let mut world = World::new(zoned_target());
    let (_admin, controller) = world.admin(Dialect::default());
    let mut io = world.io(Dialect::default(), controller);
    let append = HostCommand::blocks(0x7D, 300, 3).dword(12, 1 << 30 | 2);
    let (status, at, _) = io.command(&mut world, &append, &[8; 12_288]);
    assert_eq!((status, at), (0, 305), "the completion says where the data is");
    let manage =
        |lba: u32, options: u32| HostCommand::new(0x79, 1, 0).dword(10, lba).dword(13, options);
    let actions = [
        (1, ZoneAction::Close),
        (2, ZoneAction::Finish),
        (3, ZoneAction::Open),
        (4, ZoneAction::Reset),
        (5, ZoneAction::Offline),
    ];
    for (value, _) in actions {
        io.done(&mut world, &manage(200, value));
    }
    io.done(&mut world, &manage(17, 0x104));
    let report = HostCommand::new(0x7A, 1, 8192).dword(10, 150).dword(12, 2047);
    assert_eq!(io.read(&mut world, &report.dword(13, 0x0001_0300)), [0xCD; 8192]);
    let one = |(_, action)| Operation::ManageZone { zone_start: Some(200), action };
    let mut expected = vec![Operation::Append { zone_start: 300, blocks: 3, fua: true }];
    expected.extend(actions.map(one));
    expected.push(Operation::ManageZone { zone_start: None, action: ZoneAction::Reset });
    expected.push(Operation::ReportZones { lba: 150, filter: 3, partial: true, bytes: 8192 });
    assert_eq!(world.disk.zoned, expected);
}

#[test]
fn commands_that_zones_have_not_are_refused() {
    let mut world = World::new(zoned_target());
    let (mut admin, controller) = world.admin(Dialect::default());
    let mut io = world.io(Dialect::default(), controller);
    let manage =
        |lba: u32, options: u32| HostCommand::new(0x79, 1, 0).dword(10, lba).dword(13, options);
    let report = |options: u32| HostCommand::new(0x7A, 1, 4096).dword(12, 1023).dword(13, options);
    for (command, status) in [
        (HostCommand::blocks(0x7D, 1, 1), Status::INVALID_FIELD),
        (HostCommand::blocks(0x7D, 1000, 1), Status::LBA_OUT_OF_RANGE),
        (HostCommand::blocks(0x7D, 0, 17), Status::INVALID_FIELD),
        (manage(1, 4), Status::INVALID_FIELD),
        (manage(1000, 4), Status::LBA_OUT_OF_RANGE),
        (manage(0, 0), Status::INVALID_FIELD),
        (manage(0, 0x10), Status::INVALID_FIELD),
        (manage(0, 0x203), Status::INVALID_FIELD),
        (report(1), Status::INVALID_FIELD),
        (report(0x800), Status::INVALID_FIELD),
        (report(0).dword(10, 1000), Status::LBA_OUT_OF_RANGE),
        (report(0).dword(12, u32::MAX), Status::INVALID_FIELD),
        (report(0).dword(12, 1022), Status::SGL_LENGTH_INVALID),
        (HostCommand::new(0x08, 1, 0), Status::INVALID_OPCODE),
        (HostCommand::new(0x09, 1, 16).dword(11, 4), Status::INVALID_OPCODE),
    ] {
        assert_eq!(io.refused(&mut world, &command), status, "{command:?}");
    }
    assert!(world.disk.zoned.is_empty());
    let none = HostCommand::identify(5, 1).dword(11, 1 << 24);
    assert_eq!(admin.refused(&mut world, &none), Status::INVALID_FIELD);
    // Nor has a namespace without zones those of zones.
    let mut world = World::new(target());
    let (mut admin, controller) = world.admin(Dialect::default());
    let mut io = world.io(Dialect::default(), controller);
    for opcode in [0x79, 0x7A, 0x7D] {
        let refused = io.refused(&mut world, &HostCommand::new(opcode, 1, 0));
        assert_eq!(refused, Status::INVALID_OPCODE);
    }
    for structure in [5, 6] {
        assert_eq!(admin.refused(&mut world, &of_zoned_set(structure)), Status::INVALID_FIELD);
    }
}
