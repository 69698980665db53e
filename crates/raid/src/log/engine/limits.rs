//! Sizes and reserves, derived from the array's shape.
//!
//! The volume stays writable at any fill, and through any number of crashes one after the other:
//!
//! * The volume is smaller than the segments that remain beside one open for users and
//!   [`RESERVE_SEGMENTS`], by some stripes each: some segment then always frees more than moving it
//!   costs. That is measured by the segments that are filled now, whatever shape it has itself: one
//!   that an earlier policy made may hold less, and be full.
//! * User writes take a new segment only if, with an open relocation segment counted in,
//!   [`RESERVE_SEGMENTS`] stay free. A crash may cost one of them, to hold what recovery writes
//!   again of stripes that were under way: one, however often recovery is cut short, because what
//!   it writes counts only when it has come to its end. The other one serves to move blocks; if
//!   that is interrupted by a crash, what was moved still is where it came from, and the segment is
//!   free again. Where failed writes have cost one besides, recovery moves a segment behind what it
//!   writes again, before it comes to its end.
//! * Several segments may be open for users, of several shapes. A further one is opened only while
//!   as much stays free; where no more can be, one serves all requests. The last groups of all of
//!   them together are no larger than one segment for what recovery writes again (`policy.rs`),
//!   which so takes one as before.
//! * What is moved may go to two segments (`policy.rs`). The second one is opened only while as
//!   much stays free as for a further one of users, so the reserve is never spent on it. But it
//!   stays open until it is full, with little in it perhaps while users wait for room. Then no
//!   segment is open for users (what is has room), the reserve is free, and two hold what was
//!   moved: what is closed is one segment less than where one holds it. Hence a second one asks for
//!   one segment beyond those that the volume needs: with it the segments that are closed are as
//!   many as those without it, and some one of them frees more than moving it costs as before. What
//!   a policy asks for beyond this one is for speed. Zones that are lost may take that segment
//!   away, and then one of the two is given up, which costs what any leftover does: at most one
//!   segment, which is free again when it is moved out. In a crash it is one leftover more, and
//!   those are moved out one after the other: each takes at most the room that it frees, and what
//!   was being moved when the crash came still is where it came from.
//! * Copies of what is in a segment that may be dead count instead of it, so moves out of it that
//!   crashes cut short may take a segment each. Where that has taken all, one whose blocks are
//!   there still is given back to them (`recover/twins.rs`).
//! * Several segments may be moved out at a time, where what is left of all of them finds room in
//!   what is open for it and in what users leave free, one segment aside (`collect.rs`): so all of
//!   them come to their end.
//! * Where members have zones beyond those that all this needs, user writes leave one more segment
//!   free: the next zone that fails may be the last one free.

use thiserror::Error;
use zoneweave_zoned::{BlockCount, Geometry};

use crate::log::engine::address::PbaSpace;
use crate::log::engine::geometry::SegmentGeometry;
use crate::log::format::ArrayConfig;
use crate::scheme::Scheme;

/// Zones of each member that hold superblock records.
pub const SUPERBLOCK_ZONES: u32 = 2;

/// Segments that user writes leave free beside an open relocation segment.
pub const RESERVE_SEGMENTS: u32 = 2;

/// The segment open for users: it may hold nothing but garbage.
const USER_SEGMENTS: u32 = 1;

/// Active zones a member must offer: superblock, user, relocation and rebuild, and as many for
/// what a crash leaves behind.
pub const MIN_ACTIVE_ZONES: u32 = 8;

/// Zones used of each member. Larger drives work but are not filled.
const MAX_ZONES: u32 = 1 << 20;

/// Why no array of this shape can be made.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LimitError {
    /// Zones too small.
    #[error(
        "zones of {capacity} are too small: a zone must hold a header, a row of {chunk_blocks} \
         blocks and its index"
    )]
    ZoneTooSmall {
        /// The capacity found.
        capacity: BlockCount,
        /// The chunk size asked for.
        chunk_blocks: u32,
    },
    /// Too few zones.
    #[error("{zones} zones per drive are too few: at least {needed} are needed")]
    TooFewZones {
        /// The number found.
        zones: u32,
        /// The number needed.
        needed: u32,
    },
    /// The volume would be too large for its drives.
    #[error(
        "a volume of {asked} blocks does not fit: these drives hold at most {most} blocks \
         ({} MiB); use a smaller --size or more drives",
        most / 256
    )]
    VolumeTooLarge {
        /// The size asked for.
        asked: u64,
        /// The largest possible.
        most: u64,
    },
    /// A drive allows too few active zones.
    #[error("a drive allows {limit} active zones; at least {MIN_ACTIVE_ZONES} are needed")]
    TooFewActiveZones {
        /// Its limit.
        limit: u32,
    },
    /// A drive cannot append chunks as large as asked for.
    #[error("chunks of {chunk_blocks} blocks are above a drive's append limit of {limit}")]
    AppendTooLarge {
        /// The chunk size.
        chunk_blocks: u32,
        /// The limit.
        limit: BlockCount,
    },
    /// A drive has no metadata beside its blocks.
    #[error(
        "a drive stores no metadata beside its blocks, and its zones or transfers are too small for an array to keep it \
         among them (zones must hold 64 KiB): format the drive with 64 bytes of metadata"
    )]
    NoMetadata,
    /// Drives that keep their metadata in different ways.
    #[error(
        "a drive is written {} KiB at a time where the others are {} KiB: either all drives of an \
         array keep metadata beside their blocks, or all among them",
        kib(found.0), kib(unit.0)
    )]
    OtherUnit {
        /// The unit of the others.
        unit: BlockCount,
        /// The unit of this one.
        found: BlockCount,
    },
    /// Chunks that drives cannot write.
    #[error(
        "chunks of {} KiB are not possible on drives that keep metadata among their blocks, which are written {} KiB at a \
         time: choose a multiple of that, such as {} KiB",
        kib(*chunk_blocks), kib(unit.0), kib(chunk_blocks.checked_next_multiple_of(unit.0).unwrap_or(unit.0))
    )]
    PartsOfUnits {
        /// The chunk size.
        chunk_blocks: u32,
        /// The unit.
        unit: BlockCount,
    },
    /// A volume of nothing.
    #[error("a volume needs at least one block: give --size")]
    EmptyVolume,
}

/// The size of so many blocks as people write it.
const fn kib(blocks: u32) -> u64 {
    blocks as u64 * 4
}

/// The largest volume that stays writable for ever.
#[must_use]
pub fn largest_volume(geometry: &SegmentGeometry, zones: u32) -> u64 {
    let segments = u64::from(zones.min(MAX_ZONES).saturating_sub(SUPERBLOCK_ZONES));
    let usable = segments.saturating_sub(u64::from(RESERVE_SEGMENTS + USER_SEGMENTS));
    // 5 % of garbage make progress bearable.
    let slack = (geometry.data_blocks() / 20).max(certain_slack(geometry));
    usable * geometry.data_blocks().saturating_sub(slack)
}

/// Zones that each member needs at the least, so that a volume of this size stays writable; those
/// for superblocks included.
#[must_use]
pub fn zones_needed(geometry: &SegmentGeometry, volume_blocks: u64, zones: u32) -> u32 {
    let segment_blocks = geometry.data_blocks().saturating_sub(certain_slack(geometry)).max(1);
    let segments = volume_blocks.div_ceil(segment_blocks).max(1);
    let beside = u64::from(SUPERBLOCK_ZONES + RESERVE_SEGMENTS + USER_SEGMENTS);
    // A volume made by a release that reserved less has what there is.
    u32::try_from(segments + beside).map_or(zones, |needed| needed.min(zones))
}

/// A stripe of garbage per segment, beside those that moving pads, makes progress certain.
fn certain_slack(geometry: &SegmentGeometry) -> u64 {
    3 * geometry.scheme().data() as u64 * u64::from(geometry.chunk_blocks())
}

/// Segments an array has room for.
#[must_use]
pub fn segment_slots(config: &ArrayConfig) -> u32 {
    config.zones.min(MAX_ZONES).saturating_sub(SUPERBLOCK_ZONES)
}

/// Checks a drive against what every member has to offer.
///
/// # Errors
/// The first thing missing.
pub fn check_drive(
    drive: &Geometry,
    unit: BlockCount,
    chunk_blocks: u32,
    tabled: bool,
) -> Result<(), LimitError> {
    if drive.oob != zoneweave_zoned::OobKind::Separate {
        return Err(LimitError::NoMetadata);
    }
    if drive.write_unit != unit {
        return Err(LimitError::OtherUnit { unit, found: drive.write_unit });
    }
    if let Some(limit) = drive.max_active.filter(|limit| *limit < MIN_ACTIVE_ZONES) {
        return Err(LimitError::TooFewActiveZones { limit });
    }
    let limit = if tabled { drive.append_limit } else { drive.max_transfer };
    if limit.0 < chunk_blocks {
        return Err(LimitError::AppendTooLarge { chunk_blocks, limit });
    }
    Ok(())
}

/// Checks a shape; returns the segment shape and the width of index entries.
///
/// # Errors
/// The first thing impossible.
pub(in crate::log) fn check_shape(
    scheme: Scheme,
    unit: BlockCount,
    zone_capacity: BlockCount,
    zones: u32,
    chunk_blocks: u32,
    group_rows: u32,
) -> Result<(SegmentGeometry, u8), LimitError> {
    if !chunk_blocks.is_multiple_of(unit.0) {
        return Err(LimitError::PartsOfUnits { chunk_blocks, unit });
    }
    let geometry = SegmentGeometry::in_units(scheme, unit, zone_capacity, chunk_blocks, group_rows)
        .filter(|_| zone_capacity.0 / unit.0 >= 8)
        .ok_or(LimitError::ZoneTooSmall { capacity: zone_capacity, chunk_blocks })?;
    let needed = SUPERBLOCK_ZONES + RESERVE_SEGMENTS + USER_SEGMENTS + 1;
    if zones < needed {
        return Err(LimitError::TooFewZones { zones, needed });
    }
    let slots = zones.min(MAX_ZONES) - SUPERBLOCK_ZONES;
    Ok((geometry, PbaSpace::new(scheme, zone_capacity).entry_bytes(slots)))
}

/// Checks the size of a volume to be made. One that exists is never refused for its size: it may
/// come from a release that reserved less.
///
/// # Errors
/// If it is empty or does not fit.
pub(in crate::log) fn check_size(
    geometry: &SegmentGeometry,
    zones: u32,
    volume_blocks: u64,
) -> Result<(), LimitError> {
    let most = largest_volume(geometry, zones);
    if volume_blocks == 0 {
        return Err(LimitError::EmptyVolume);
    }
    if volume_blocks > most {
        return Err(LimitError::VolumeTooLarge { asked: volume_blocks, most });
    }
    Ok(())
}

/// Free segments beyond the reserve, above which a stream opens more than one: as many as make the
/// collector begin, and one more.
pub(in crate::log) const FREE_BESIDE_LANES: u32 = 2;

#[cfg(test)]
mod tests {
    use zoneweave_zoned::OobKind;

    use super::*;

    #[test]
    fn drives_without_metadata_are_refused() {
        let mut drive = Geometry::new(16, BlockCount(64));
        let unit = BlockCount(1);
        assert_eq!(check_drive(&drive, unit, 1, true), Ok(()));
        drive.write_unit = BlockCount(7);
        let other = LimitError::OtherUnit { unit, found: BlockCount(7) };
        assert_eq!(check_drive(&drive, unit, 1, true), Err(other));
        drive.oob = OobKind::None;
        assert_eq!(check_drive(&drive, unit, 1, true), Err(LimitError::NoMetadata));
    }
}
