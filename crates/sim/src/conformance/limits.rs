//! The limits of open and active zones.

use bytes::Bytes;
use zoneweave_zoned::{Command, Status, ZoneAction, ZoneAddress, ZoneId, ZoneState};

use super::prepare::Bed;
use super::session::payload;
use super::{Checked, Factory};

type Case = fn(&mut Bed, Limits) -> Result<(), String>;

/// The limits of a device, which has more zones.
#[derive(Clone, Copy)]
struct Limits {
    open: u32,
    active: u32,
}

const CASES: [(&str, Case); 6] = [
    ("explicitly open zones at the limit", explicit),
    ("implicitly open zones at the limit", implicit),
    ("the oldest implicitly open zone among explicitly open ones", oldest),
    ("active zones at the limit", active),
    ("a closed zone opened at the limit", closed),
    ("all closed zones opened above the limit", all_closed),
];

/// Tests all of it, as far as the device has limits and more zones.
pub(super) fn check(factory: Factory<'_>, checked: &mut Checked) {
    for (name, case) in CASES {
        let mut bed = Bed::new(factory);
        let geometry = bed.geometry();
        let (Some(open), Some(active)) = (geometry.max_open, geometry.max_active) else { return };
        if active >= geometry.zones || open < 2 {
            return;
        }
        let result = case(&mut bed, Limits { open, active });
        checked.note(|| name.to_owned(), result.and_then(|()| bed.session.compare(&bed.zones)));
    }
}

/// Checks that each command that opens an empty zone is refused.
fn refused(bed: &mut Bed, zone: ZoneId, expected: Status) -> Result<(), String> {
    let (_, write) = bed.next_write(ZoneAddress::new(zone, 0), 1, false);
    let numbers = bed.number(1);
    let payload = payload(bed.geometry(), zone, &numbers);
    let append = Command::Append { zone, payload, fua: false };
    let open = Command::Manage { zone, action: ZoneAction::Open };
    let appends = bed.geometry().append_limit.0 > 0;
    for command in [Some(write), appends.then_some(append), Some(open)].into_iter().flatten() {
        let name = format!("{command:?}").chars().take(12).collect::<String>();
        match bed.session.run(command) {
            Err(found) if found == expected => {}
            other => return Err(format!("{name} returns {other:?}, expected {expected}")),
        }
    }
    bed.session.compare(&bed.zones)
}

fn explicit(bed: &mut Bed, limits: Limits) -> Result<(), String> {
    for zone in 0..limits.open {
        bed.manage_zone(ZoneId(zone), ZoneAction::Open)?;
    }
    let status = match limits.open == limits.active {
        true => Status::TooManyActive,
        false => Status::TooManyOpen,
    };
    refused(bed, ZoneId(limits.open), status)?;
    // One that is open already takes writes, and one that is closed makes room.
    bed.write(ZoneId(0), 1)?;
    bed.write(ZoneId(1), 1)?;
    bed.manage_zone(ZoneId(1), ZoneAction::Close)?;
    if limits.open < limits.active {
        bed.write(ZoneId(limits.open), 1)?;
    }
    Ok(())
}

fn implicit(bed: &mut Bed, limits: Limits) -> Result<(), String> {
    for zone in 0..limits.active {
        bed.write(ZoneId(zone), 1)?;
        if let Some(oldest) = zone.checked_sub(limits.open) {
            bed.zones[oldest as usize].state = ZoneState::Closed;
        }
        bed.session.compare(&bed.zones)?;
    }
    Ok(())
}

fn oldest(bed: &mut Bed, limits: Limits) -> Result<(), String> {
    bed.manage_zone(ZoneId(0), ZoneAction::Open)?;
    for zone in 1..limits.open {
        bed.write(ZoneId(zone), 1)?;
    }
    // It is the youngest of them from now on.
    bed.manage_zone(ZoneId(1), ZoneAction::Close)?;
    bed.write(ZoneId(1), 1)?;
    if limits.open == limits.active {
        return Ok(());
    }
    bed.write(ZoneId(limits.open), 1)?;
    let victim = if limits.open > 2 { 2 } else { 1 };
    bed.zones[victim].state = ZoneState::Closed;
    Ok(())
}

fn active(bed: &mut Bed, limits: Limits) -> Result<(), String> {
    for zone in 0..limits.active {
        bed.write(ZoneId(zone), 1)?;
        bed.manage_zone(ZoneId(zone), ZoneAction::Close)?;
    }
    let next = ZoneId(limits.active);
    refused(bed, next, Status::TooManyActive)?;
    let bytes = bed.geometry().descriptor_extension_bytes as usize;
    if bytes > 0 {
        let extension = Bytes::from(vec![1; bytes]);
        let extend = Command::SetExtension { zone: next, extension };
        let outcome = bed.session.run(extend);
        if outcome != Err(Status::TooManyActive) {
            return Err(format!("an extension returns {outcome:?}"));
        }
    }
    // A finish or a reset of an active zone makes room, and an empty zone can be finished.
    bed.manage_zone(next, ZoneAction::Finish)?;
    bed.manage_zone(next, ZoneAction::Reset)?;
    bed.manage_zone(ZoneId(0), ZoneAction::Finish)?;
    bed.write(next, 1)?;
    bed.manage_zone(ZoneId(1), ZoneAction::Reset)?;
    bed.manage_zone(ZoneId(1), ZoneAction::Open)
}

fn closed(bed: &mut Bed, limits: Limits) -> Result<(), String> {
    if limits.open == limits.active {
        return Ok(());
    }
    bed.write(ZoneId(0), 1)?;
    bed.manage_zone(ZoneId(0), ZoneAction::Close)?;
    for zone in 1..=limits.open {
        bed.write(ZoneId(zone), 1)?;
    }
    bed.manage_zone(ZoneId(0), ZoneAction::Open)?;
    bed.zones[1].state = ZoneState::Closed;
    Ok(())
}

fn all_closed(bed: &mut Bed, limits: Limits) -> Result<(), String> {
    if limits.open == limits.active {
        return Ok(());
    }
    for zone in 0..=limits.open {
        bed.write(ZoneId(zone), 1)?;
        bed.manage_zone(ZoneId(zone), ZoneAction::Close)?;
    }
    let outcome = bed.session.run(Command::ManageAll { action: ZoneAction::Open });
    if outcome == Err(Status::TooManyOpen) { Ok(()) } else { Err(format!("returns {outcome:?}")) }
}
