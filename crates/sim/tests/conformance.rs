//! Every zoned device behaves like a zoned drive: the suite and the comparison with the model.

use zoneweave_emulator::{CommandKind, FaultAction, Selector};
use zoneweave_raid::scheme::Scheme;
use zoneweave_runtime::Nanos;
use zoneweave_sim::conformance::{
    EmulatedHardware, Factory, Hardware, Plan, VolumeHardware, VolumeShape, check, compare,
};
use zoneweave_zoned::{BlockCount, Geometry, OobKind, Status, ZoneAction};

/// Commands compared per geometry; `ZONEWEAVE_COMMANDS` sets another number.
const COMMANDS: u64 = 20_000;

fn commands() -> u64 {
    let text = std::env::var("ZONEWEAVE_COMMANDS");
    text.map_or(COMMANDS, |text| text.parse().expect("ZONEWEAVE_COMMANDS is a number"))
}

/// A small drive: more zones than may be active, and small limits of transfers.
fn small() -> Geometry {
    let mut geometry = Geometry::new(9, BlockCount(12));
    geometry.max_open = Some(3);
    geometry.max_active = Some(5);
    geometry.append_limit = BlockCount(4);
    geometry.max_transfer = BlockCount(6);
    geometry
}

fn geometries() -> Vec<(&'static str, Geometry)> {
    let volatile = Geometry { volatile_cache: true, ..small() };
    let bare = Geometry { oob: OobKind::None, append_limit: BlockCount(0), ..volatile.clone() };
    let strict = Geometry { unwritten_read_error: true, max_open: Some(5), ..small() };
    let extended = Geometry { descriptor_extension_bytes: 64, reads_across_zones: true, ..small() };
    let whole = Geometry { max_open: None, max_active: None, ..Geometry::new(8, BlockCount(16)) };
    vec![
        ("small", small()),
        ("volatile", volatile),
        ("without metadata and appends", bare),
        ("errors for unwritten blocks", strict),
        ("extensions and reads across zones", extended),
        ("without limits", whole),
    ]
}

fn drive(geometry: &Geometry, latency: Nanos) -> Box<dyn Hardware> {
    Box::new(EmulatedHardware::new(geometry.clone(), latency, 1))
}

/// Every command in every state.
fn assert_conforms(name: &str, factory: Factory<'_>) -> u64 {
    let checked = check(factory);
    let shown: Vec<_> = checked.mismatches.iter().take(20).collect();
    assert!(shown.is_empty(), "{name}: {} mismatches: {shown:#?}", checked.mismatches.len());
    checked.cases
}

#[test]
fn emulated_drives_conform() {
    for (name, geometry) in geometries() {
        for latency in [Nanos(0), Nanos::from_micros(50)] {
            let cases = assert_conforms(name, &|| drive(&geometry, latency));
            assert!(cases > 300, "{name}: {cases} cases");
        }
    }
}

/// The model has no optional features; those of the drives do not change its answers.
#[test]
fn emulated_drives_do_what_the_model_does() {
    let mut seeds = 1..;
    for (name, geometry) in geometries() {
        if geometry.unwritten_read_error || geometry.reads_across_zones {
            continue;
        }
        for latency in [Nanos(0), Nanos::from_micros(50)] {
            let seed = seeds.next().expect("any number of seeds");
            let plan = Plan { seed, commands: commands(), power_losses: 20 };
            let compared = compare(&|| drive(&geometry, latency), plan);
            let compared = compared.unwrap_or_else(|problem| panic!("{name}: {problem}"));
            assert!(compared.succeeded * 3 > compared.commands, "{name}: {compared:?}");
            assert!(compared.power_losses > plan.commands / 100, "{name}: {compared:?}");
        }
    }
}

/// Zoned volumes of several shapes, complete and without a member.
fn volumes() -> Vec<(String, VolumeShape)> {
    let mut volumes = Vec::new();
    for (data, parity, unit, blocks, volatile) in
        [(2, 1, 1, 50, false), (3, 1, 2, 75, true), (2, 2, 1, 48, true)]
    {
        let mut drive = Geometry::new(14, BlockCount(blocks));
        drive.max_open = Some(8);
        drive.max_active = Some(10);
        drive.volatile_cache = volatile;
        let checksums = volatile;
        if !checksums {
            drive.oob = OobKind::None;
        }
        let scheme = Scheme::new(data, parity).unwrap();
        for lost in [None, Some(1)] {
            let (drive, unit) = (drive.clone(), BlockCount(unit));
            let shape = VolumeShape { drive, scheme, unit, checksums, lost };
            volumes.push((format!("{scheme} without {lost:?}"), shape));
        }
    }
    volumes
}

fn volume(shape: &VolumeShape, latency: Nanos) -> Box<dyn Hardware> {
    Box::new(VolumeHardware::new(shape.clone(), latency, 1))
}

#[test]
fn zoned_volumes_conform() {
    for (name, shape) in volumes() {
        let cases = assert_conforms(&name, &|| volume(&shape, Nanos::from_micros(50)));
        assert!(cases > 250, "{name}: {cases} cases");
    }
}

#[test]
fn zoned_volumes_do_what_the_model_does() {
    for (seed, (name, shape)) in (1..).zip(volumes()) {
        let plan = Plan { seed, commands: commands() / 10, power_losses: 20 };
        let compared = compare(&|| volume(&shape, Nanos::from_micros(50)), plan);
        let compared = compared.unwrap_or_else(|problem| panic!("{name}: {problem}"));
        assert!(compared.succeeded * 3 > compared.commands, "{name}: {compared:?}");
    }
}

/// A device with a fault is told apart from one without.
#[test]
fn faulty_drives_do_not_conform() {
    let reset = CommandKind::Manage(ZoneAction::Reset);
    let faults = [
        ("lost writes", CommandKind::Write, FaultAction::Lost),
        ("appends stored twice", CommandKind::Append, FaultAction::AppendTwice),
        ("failing resets", reset, FaultAction::Fail(Status::InternalError)),
        ("resets that fail but happen", reset, FaultAction::FailApplied(Status::InternalError)),
        ("flushes without effect", CommandKind::Flush, FaultAction::Ineffective),
    ];
    let geometry = Geometry { volatile_cache: true, ..small() };
    for (name, kind, action) in faults {
        let factory = || -> Box<dyn Hardware> {
            let hardware = EmulatedHardware::new(geometry.clone(), Nanos(0), 1);
            hardware.drive().inject(Selector::next(kind).always(), action);
            Box::new(hardware)
        };
        assert!(!check(&factory).mismatches.is_empty(), "{name}: the suite finds nothing");
        let plan = Plan { seed: 1, commands: 20_000, power_losses: 20 };
        let compared = compare(&factory, plan);
        assert!(compared.is_err(), "{name}: the comparison finds nothing, {compared:?}");
    }
}
