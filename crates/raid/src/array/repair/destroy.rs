//! Ends the membership of drives for good: each is marked first, then erased.
//!
//! The mark is a superblock record, newer than all others of the drive. An array with a marked
//! member does not start (`refuse_destroyed`). All members are marked before the first is erased.
//! So a crash at any point leaves an array that is as it was, or one that does not start without
//! the members that are erased already. The superblock zones of a drive are erased last, the one
//! with the mark at the very end. A zone that cannot be reset leaves the others erased, and the
//! mark, so that the order can be repeated.
//!
//! The array must not be running.

use std::rc::Rc;

use thiserror::Error;
use zoneweave_zoned::{Status, ZoneId, ZoneInfo, ZonedDevice, ZonedDeviceExt};

use crate::array::format::envelope::ArrayUuid;
use crate::array::format::record::{SuperblockRecord, VolumeBody};
use crate::array::repair::fit::empty_what_can_be;
use crate::array::start::drive_records::{DriveRecords, read_records};

/// Why a drive could not be marked or erased.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DestroyError {
    /// It is not a member of the array.
    #[error("it is not a member of the array")]
    NotMember,
    /// It was to be erased, and is not marked.
    #[error("it is not marked to be erased")]
    NotMarked,
    /// The next number of a record is beyond 64 bits.
    #[error("its superblock has no number left for another record")]
    NoNumber,
    /// It has no two zones left for superblock records.
    #[error("its superblock zones cannot be written")]
    NoSuperblockZones,
    /// Records are left in zones that cannot be reset.
    #[error("its superblock is in zones that cannot be reset")]
    Left,
    /// A command failed.
    #[error("{0}")]
    Failed(#[from] Status),
}

/// Checks that a member of an array can be marked, as far as that is known without a write. Check
/// all members before the first is marked.
///
/// # Errors
/// A [`DestroyError`] with the reason.
pub(crate) async fn check_markable<B: VolumeBody>(
    device: &dyn ZonedDevice,
    array: ArrayUuid,
) -> Result<(), DestroyError> {
    let records = read_records::<B>(device).await?;
    let newest = newest_of(&records, array)?;
    if newest.body.is_destroyed() {
        return Ok(());
    }
    next_number(newest)?;
    records.log().map(drop).ok_or(DestroyError::NoSuperblockZones)
}

/// Marks a member of an array, durably. A drive that is marked already stays as it is.
///
/// # Errors
/// A [`DestroyError`] with the reason.
pub(crate) async fn mark_destroyed<B: VolumeBody>(
    device: &dyn ZonedDevice,
    array: ArrayUuid,
) -> Result<(), DestroyError> {
    let records = read_records::<B>(device).await?;
    let newest = newest_of(&records, array)?;
    if newest.body.is_destroyed() {
        // It may be in the cache of the drive only.
        device.flush().await?;
        return Ok(());
    }
    let mark = SuperblockRecord {
        record_sequence: next_number(newest)?,
        body: B::DESTROYED,
        ..newest.clone()
    };
    // As every start does: the zone with the newest records stays.
    let mut log = records.log().ok_or(DestroyError::NoSuperblockZones)?;
    log.switch(device, 1, |_| mark.sealed()).await?;
    Ok(())
}

/// Erases a marked member: all zones, and the mark last.
///
/// # Errors
/// A [`DestroyError`] with the reason. The drive is still marked then, unless all that is left of
/// it are records in zones that cannot be reset.
pub(crate) async fn erase_destroyed<B: VolumeBody>(
    device: &Rc<dyn ZonedDevice>,
    array: ArrayUuid,
) -> Result<(), DestroyError> {
    let records = read_records::<B>(&**device).await?;
    let newest = newest_of(&records, array)?;
    if !newest.body.is_destroyed() {
        return Err(DestroyError::NotMarked);
    }
    erase_in_order(device, &records, [Part::Data, Part::Older, Part::Newest]).await
}

/// Erases a drive that its array, if it has one, then misses. It is a member with all of its
/// blocks, or none: the records come first, the newest last of them.
///
/// # Errors
/// A [`DestroyError`] with the reason.
pub(crate) async fn erase_alone<B: VolumeBody>(
    device: &Rc<dyn ZonedDevice>,
) -> Result<(), DestroyError> {
    let records = read_records::<B>(&**device).await?;
    erase_in_order(device, &records, [Part::Older, Part::Newest, Part::Data]).await
}

/// Zones of a drive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// No records.
    Data,
    /// Records, but not the newest.
    Older,
    /// The newest record.
    Newest,
}

async fn erase_in_order<B: VolumeBody>(
    device: &Rc<dyn ZonedDevice>,
    records: &DriveRecords<B>,
    order: [Part; 3],
) -> Result<(), DestroyError> {
    let newest = records.newest();
    let all = &records.scan.records;
    let newest = all.iter().find(|(_, record)| Some(record) == newest).map(|(at, _)| at.zone);
    let part = |zone: ZoneId| match all.iter().any(|(at, _)| at.zone == zone) {
        false => Part::Data,
        true if Some(zone) == newest => Part::Newest,
        true => Part::Older,
    };
    for now in order {
        let zones: Vec<ZoneInfo> =
            records.scan.zones.iter().filter(|info| part(info.zone) == now).copied().collect();
        empty_what_can_be(device, &zones).await?;
    }
    match read_records::<B>(&**device).await?.newest() {
        None => Ok(()),
        Some(_) => Err(DestroyError::Left),
    }
}

fn next_number<B>(newest: &SuperblockRecord<B>) -> Result<u64, DestroyError> {
    newest.record_sequence.checked_add(1).ok_or(DestroyError::NoNumber)
}

fn newest_of<B: VolumeBody>(
    records: &DriveRecords<B>,
    array: ArrayUuid,
) -> Result<&SuperblockRecord<B>, DestroyError> {
    let own = records.newest().filter(|record| record.config.array == array);
    own.ok_or(DestroyError::NotMember)
}
