//! Preparing a drive for its membership: its usable zones, and erasing it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use zoneweave_journal::SEARCHED_ZONES;
use zoneweave_zoned::{
    Status, ZoneAction, ZoneId, ZoneInfo, ZoneState, ZonedDevice, ZonedDeviceExt,
};

use crate::instrument::marks::{Mark, mark};

/// Whether a zone can be written once it is empty.
pub(crate) fn is_usable(info: &ZoneInfo) -> bool {
    !matches!(info.state, ZoneState::Offline | ZoneState::ReadOnly)
}

/// Whether a zone has contents that a reset would destroy.
#[must_use]
pub fn holds_something(info: &ZoneInfo) -> bool {
    !matches!(info.state, ZoneState::Empty | ZoneState::Offline)
}

/// What a zone that cannot be reset means for the others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failed {
    /// They stay as they are: the drive will not do.
    Stops,
    /// They are reset all the same.
    Passed,
}

/// Resets every zone with contents, except read-only ones, and verifies it: contents left on a
/// drive of a mirror could become valid again.
///
/// # Errors
/// The status of the first failed reset; that of a failed write if a zone has contents after two of
/// them.
pub async fn empty_drive(device: &Rc<dyn ZonedDevice>, zones: &[ZoneInfo]) -> Result<(), Status> {
    empty(device, zones, Failed::Stops).await
}

/// As [`empty_drive`], of a drive that is given up: a zone that cannot be reset, at the second
/// attempt either, does not keep the others from being reset.
///
/// # Errors
/// As [`empty_drive`], for the first zone that has contents.
pub(crate) async fn empty_what_can_be(
    device: &Rc<dyn ZonedDevice>,
    zones: &[ZoneInfo],
) -> Result<(), Status> {
    empty(device, zones, Failed::Passed).await
}

async fn empty(
    device: &Rc<dyn ZonedDevice>,
    zones: &[ZoneInfo],
    on_failure: Failed,
) -> Result<(), Status> {
    let to_reset = |info: &&ZoneInfo| holds_something(info) && info.state != ZoneState::ReadOnly;
    let asked: BTreeSet<_> = zones.iter().filter(to_reset).map(|info| info.zone).collect();
    let mut left = asked.clone();
    let mut failed = BTreeMap::new();
    for _ in 0..2 {
        for zone in left {
            if let Err(status) = device.manage(zone, ZoneAction::Reset).await {
                if on_failure == Failed::Stops || status.is_fatal() {
                    return Err(status);
                }
                failed.entry(zone).or_insert(status);
            }
        }
        device.flush().await?;
        if asked.is_empty() {
            return Ok(());
        }
        let now = device.report().await?;
        let holding = now.iter().filter(|info| asked.contains(&info.zone) && holds_something(info));
        left = holding.map(|info| info.zone).collect();
        if left.is_empty() {
            return Ok(());
        }
        mark(Mark::DriveNotEmptied);
    }
    Err(left.iter().find_map(|zone| failed.get(zone).copied()).unwrap_or(Status::WriteFault))
}

/// The superblock zones of a new member: its first two writable zones.
#[must_use]
pub fn superblock_zones(zones: &[ZoneInfo]) -> Option<[ZoneId; 2]> {
    let alive = zones.iter().filter(|info| info.state != ZoneState::Offline);
    let alive = alive.take(SEARCHED_ZONES);
    let mut usable = alive.filter(|info| is_usable(info)).map(|info| info.zone);
    Some([usable.next()?, usable.next()?])
}
