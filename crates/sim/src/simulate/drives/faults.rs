//! Injection of faults into emulated drives.
//!
//! Nothing here knows the contract: `run::inject` decides whether a fault is allowed.

use zoneweave_emulator::{
    BlockPart, CommandKind, Damage, FaultAction, FaultClass, RamDrive, SeededFaults, Selector,
};
use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::{BlockCount, Status, ZoneAction, ZoneAddress, ZoneId, ZoneOffset, ZoneState};

use crate::random::index;
use crate::simulate::scenario::{Class, Command, Fault, On, Part};

/// First zones of a drive, which hold superblock records while none of them is worn.
const SUPERBLOCK_ZONES: u32 = 2;

/// Whether the fault only slows the drive down.
pub(crate) fn is_harmless(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::Slow { .. } | Fault::Sluggish { .. } | Fault::Often { class: Class::Slow, .. }
    )
}

/// Whether contents, now or later, differ from the written data. An ignored flush counts, since the
/// power may fail.
pub(crate) fn damages(fault: Fault) -> bool {
    match fault {
        Fault::Slow { .. } | Fault::Sluggish { .. } => false,
        Fault::Error { .. } | Fault::Partial { .. } => false,
        Fault::ZoneWorn { offline, .. } | Fault::ZoneFails { offline, .. } => offline,
        Fault::Often { class, .. } => !matches!(class, Class::Slow | Class::Errored),
        Fault::Rot { .. }
        | Fault::Unreadable { .. }
        | Fault::Copied { .. }
        | Fault::Lost { .. }
        | Fault::Misdirected { .. }
        | Fault::Garbled { .. }
        | Fault::FlushIgnored { .. }
        | Fault::Misreported { .. }
        | Fault::Repeated { .. }
        | Fault::Doubled { .. } => true,
    }
}

pub(crate) fn wears(fault: Fault) -> bool {
    matches!(fault, Fault::ZoneWorn { .. } | Fault::ZoneFails { .. })
}

pub(crate) fn apply(ram: &RamDrive, fault: Fault) {
    let plan = |on: On, action| ram.inject(selector(on), action);
    match fault {
        Fault::Rot { seed, part, bit } => {
            let Some(at) = written(ram, &mut Random::new(seed)) else { return };
            let part = block_part(part);
            ram.corrupt(
                at,
                match bit {
                    true => Damage::BitFlip { part, seed },
                    false => Damage::Garbage { part, seed },
                },
            );
        }
        Fault::Unreadable { seed } => {
            if let Some(at) = written(ram, &mut Random::new(seed)) {
                ram.set_unreadable(at, BlockCount(1));
            }
        }
        Fault::Copied { seed } => {
            copy(ram, &mut Random::new(seed));
        }
        Fault::Slow { on, times, us } => {
            ram.inject(selector(on).times(times), FaultAction::Slow(Nanos::from_micros(us)));
        }
        Fault::Error { on, applied: true } => plan(on, FaultAction::FailApplied(status(on))),
        Fault::Error { on, applied: false } => plan(on, FaultAction::Fail(status(on))),
        Fault::Partial { on, blocks } => plan(on, FaultAction::Partial(BlockCount(blocks))),
        Fault::Lost { on } => plan(on, FaultAction::Lost),
        Fault::Misdirected { on, zone, offset } => {
            let zone = ZoneId(zone % ram.geometry().zones);
            plan(on, FaultAction::Misdirect(ZoneAddress::new(zone, offset)));
        }
        Fault::Garbled { on, seed, part } => {
            plan(on, FaultAction::Garble(Damage::Garbage { part: block_part(part), seed }));
        }
        Fault::ZoneWorn { seed, offline } => wear(ram, &mut Random::new(seed), offline),
        Fault::ZoneFails { on, offline: true } => plan(on, FaultAction::Offline),
        Fault::ZoneFails { on, offline: false } => plan(on, FaultAction::ReadOnly),
        Fault::Sluggish { times } => ram.set_slowness(times),
        Fault::Often { class, per_million, seed } => happen_often(ram, class, per_million, seed),
        Fault::FlushIgnored { after, times } => {
            let flushes = Selector::next(CommandKind::Flush).after(after).times(times);
            ram.inject(flushes, FaultAction::Ineffective);
        }
        Fault::Misreported { after, zone, offset } => {
            let zone = ZoneId(zone % ram.geometry().zones);
            let lie = FaultAction::Misreport(ZoneAddress::new(zone, offset));
            ram.inject(Selector::next(CommandKind::Report).after(after), lie);
        }
        Fault::Repeated { after } => {
            ram.inject(Selector::next(CommandKind::Append).after(after), FaultAction::RepeatOffset);
        }
        Fault::Doubled { after } => {
            ram.inject(Selector::next(CommandKind::Append).after(after), FaultAction::AppendTwice);
        }
    }
}

/// A zone fails; every other time it is one with data.
fn wear(ram: &RamDrive, random: &mut Random, offline: bool) {
    let held = if random.per_mille(500) { written(ram, random) } else { None };
    let any = u32::try_from(random.below(ram.geometry().zones.into())).expect("32 bits");
    let zone = held.map_or(ZoneId(any), |at| at.zone);
    match offline {
        true => ram.set_offline(zone),
        false => ram.set_read_only(zone),
    }
}

/// Adds a class of recurring faults.
fn happen_often(ram: &RamDrive, class: Class, per_million: u32, seed: u64) {
    let class = match class {
        Class::Errored => FaultClass::Errored,
        Class::Lost => FaultClass::Lost,
        Class::Misdirected => FaultClass::Misdirected,
        Class::Rotted => FaultClass::Rotted,
        Class::Unreadable => FaultClass::Unreadable,
        Class::Slow => FaultClass::Slow,
        Class::DuplicateAppend => FaultClass::DuplicateAppend,
        Class::LyingWritePointer => FaultClass::LyingWritePointer,
        Class::IneffectiveFlush => FaultClass::IneffectiveFlush,
    };
    ram.faults(|plan| {
        let before = plan.seeded_mut().map(|seeded| seeded.profile().clone());
        let profile = before.unwrap_or_default().with(class, per_million);
        plan.set_seeded(Some(SeededFaults::new(profile, seed, ram.geometry())));
    });
}

fn status(on: On) -> Status {
    match on.command {
        Command::Read => Status::UnrecoveredRead,
        _ => Status::WriteFault,
    }
}

fn selector(on: On) -> Selector {
    let selector = match on.command {
        Command::Read => Selector::next(CommandKind::Read),
        Command::Write => Selector::next(CommandKind::Write),
        Command::Append => Selector::next(CommandKind::Append),
        Command::Flush => Selector::next(CommandKind::Flush),
        Command::Reset => Selector::next(CommandKind::Manage(ZoneAction::Reset)),
        Command::Finish => Selector::next(CommandKind::Manage(ZoneAction::Finish)),
        Command::Report => Selector::next(CommandKind::Report),
        Command::Any => Selector::default(),
    };
    selector.after(on.after)
}

fn block_part(part: Part) -> BlockPart {
    match part {
        Part::Data => BlockPart::Data,
        Part::Oob => BlockPart::Oob,
        Part::Both => BlockPart::Both,
    }
}

/// Overwrites a block with another one: anywhere, within its zone, or at the same offset of another
/// zone. The offset may be at the zone's end, where segments keep their summary.
fn copy(ram: &RamDrive, random: &mut Random) {
    let how = random.below(4);
    // A drive without intact records is not recognised as a member, and the rest of it is not read.
    let first = if how == 0 { ZoneId(0) } else { ZoneId(SUPERBLOCK_ZONES) };
    let (Some(from), Some(to)) =
        (written_from(ram, random, first), written_from(ram, random, first))
    else {
        return;
    };
    let capacity = ram.geometry().zone_capacity.0;
    let back = 1 + u32::try_from(random.below(4)).expect("a few blocks");
    let offset = ZoneOffset(capacity.saturating_sub(back));
    let (from, to) = match how {
        0 => (from, to),
        1 => (from, ZoneAddress { zone: from.zone, ..to }),
        2 => (from, ZoneAddress { zone: to.zone, ..from }),
        _ => (ZoneAddress { offset, ..from }, ZoneAddress { offset, ..to }),
    };
    let stored = |at: ZoneAddress| ram.zone(at.zone).write_pointer.0.min(capacity) > at.offset.0;
    if stored(from) && stored(to) {
        ram.overwrite(to, &ram.peek(from, BlockCount(1)));
    }
}

/// A written block of a drive.
fn written(ram: &RamDrive, random: &mut Random) -> Option<ZoneAddress> {
    written_from(ram, random, ZoneId(0))
}

/// The same, in a zone from `first` on.
fn written_from(ram: &RamDrive, random: &mut Random, first: ZoneId) -> Option<ZoneAddress> {
    let infos = (first.0..ram.geometry().zones).map(|zone| ram.zone(ZoneId(zone)));
    let holds = |state| !matches!(state, ZoneState::Empty | ZoneState::Offline);
    let zones: Vec<_> =
        infos.filter(|info| holds(info.state) && info.write_pointer.0 > 0).collect();
    if zones.is_empty() {
        return None;
    }
    let info = zones[index(random, zones.len())];
    let stored = info.write_pointer.0.min(ram.geometry().zone_capacity.0);
    let offset = u32::try_from(random.below(stored.into())).expect("an offset in a zone");
    Some(ZoneAddress::new(info.zone, offset))
}
