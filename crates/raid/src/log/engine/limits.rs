//! Sizes and reserves, derived from the array's shape.
//!
//! The volume stays writable at any fill, and through any number of crashes one after the other:
//!
//! * The volume is smaller than the segments that remain beside one open for users and
//!   [`RESERVE_SEGMENTS`], by some stripes for each segment. So some segment always frees more than
//!   its relocation costs. Capacity is measured by the shape of segments filled now, whichever
//!   shape a segment has: one written under an earlier policy may hold less, and be full.
//! * User writes take a new segment only if, including an open relocation segment,
//!   [`RESERVE_SEGMENTS`] stay free. A crash may cost one of them, for the rewrites of undecided
//!   stripes. It is one however often recovery is interrupted, because the rewrites count only when
//!   recovery has finished. The other serves relocation. If a crash interrupts that, the relocated
//!   blocks are still in their old place, and the segment is free again. If failed writes have cost
//!   another segment, recovery relocates one behind its rewrites before it finishes.
//! * Several segments of several shapes may be open for users. Another is opened only while as much
//!   stays free; if none can be, one serves all requests. The last groups of all of them together
//!   fit into one segment of rewrites (`write/policy`), so rewrites still take one.
//! * Relocated blocks may go to two segments (`write/policy`). The second is opened only while as
//!   much stays free as for an additional segment of users, so the reserve is never spent on it.
//!   But it stays open until it is full, perhaps nearly empty while users wait for space. Then no
//!   segment is open for users (an open one has space), the reserve is free, and two segments hold
//!   relocated blocks, so one segment less is closed than with one. A second segment therefore
//!   requires one segment beyond the ones that the volume needs. With it, as many segments are
//!   closed as without both, and one of them frees more than its relocation costs. Further segments
//!   that a policy requires are for speed. Lost zones may take the spare segment away. Then one of
//!   the two is given up, which costs at most one segment, like any leftover, and it is free again
//!   once relocated. After a crash it is one more leftover. Leftovers are relocated one after the
//!   other: each takes at most the space that it frees, and blocks whose relocation the crash
//!   interrupted are still in their old place.
//! * Copies of blocks from a segment that may be dead are preferred to it, so relocations out of it
//!   that crashes interrupt may take a segment each. If that has taken all segments, one whose
//!   blocks are still in the original is given back (`recover/duplicates`).
//! * Several segments may be relocated at a time if the rest of all of them fits into the open
//!   relocation segments and the reserve of users, one segment aside (`reclaim/collector`): so all
//!   of them finish.
//! * If members have more zones than all this needs, user writes leave one more segment free: the
//!   next zone that fails may be the last free one.

use thiserror::Error;
use zoneweave_zoned::{BlockCount, ByteSize, Geometry};

use crate::log::engine::address::PbaSpace;
use crate::log::engine::geometry::SegmentGeometry;

pub use crate::array::format::config::SUPERBLOCK_ZONES;
use crate::array::format::config::segments_of;
use crate::scheme::Scheme;

/// Segments that user writes leave free in addition to an open relocation segment.
pub const RESERVE_SEGMENTS: u32 = 2;

/// The segment open for users: it may hold only garbage.
const USER_SEGMENTS: u32 = 1;

/// Active zones that a member must offer: superblock, user, relocation and rebuild, and as many for
/// unfinished segments after a crash.
pub const MIN_ACTIVE_ZONES: u32 = 8;

/// Why an array of this shape is impossible.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LimitError {
    /// Zones too small.
    #[error(
        "zones of {capacity} are too small: a zone must hold a header, a row of chunks of {} and its \
         index", BlockCount(*chunk_blocks)
    )]
    ZoneTooSmall {
        /// Capacity of the zones.
        capacity: BlockCount,
        /// The requested chunk size in blocks.
        chunk_blocks: u32,
    },
    /// Too few zones.
    #[error("{zones} zones per drive are too few: at least {needed} are needed")]
    TooFewZones {
        /// Usable zones of each drive.
        zones: u32,
        /// Zones that the array needs.
        needed: u32,
    },
    /// The volume would be too large for its drives.
    #[error(
        "a volume of {} does not fit: these drives hold at most {}; use a smaller --size or more \
         drives",
        ByteSize::of_blocks(*asked), ByteSize::of_blocks(*most)
    )]
    VolumeTooLarge {
        /// The requested size in blocks.
        asked: u64,
        /// Largest possible size in blocks.
        most: u64,
    },
    /// A drive allows too few active zones.
    #[error("a drive allows {limit} active zones; at least {MIN_ACTIVE_ZONES} are needed")]
    TooFewActiveZones {
        /// Active zones that the drive allows.
        limit: u32,
    },
    /// A drive cannot append chunks of the requested size.
    #[error("chunks of {} are above a drive's append limit of {limit}", BlockCount(*chunk_blocks))]
    AppendTooLarge {
        /// Chunk size in blocks.
        chunk_blocks: u32,
        /// Largest append of the drive.
        limit: BlockCount,
    },
    /// A drive has no metadata beside its blocks.
    #[error(
        "a drive has no metadata area, and its zones or transfers are too small for metadata among the blocks (zones must \
         hold 64 KiB): format the drive with 64 bytes of metadata per block"
    )]
    NoMetadata,
    /// Drives that store their metadata in different ways.
    #[error(
        "a drive has a write unit of {found}, and the others of {unit}: either all drives of an array \
         store metadata beside their blocks, or all among them"
    )]
    OtherUnit {
        /// Write unit of the other drives.
        unit: BlockCount,
        /// Write unit of this drive.
        found: BlockCount,
    },
    /// Chunks that drives cannot write.
    #[error(
        "chunks of {} are impossible: drives with metadata among their blocks have a write unit of \
         {unit}; choose a multiple of that, such as {}",
        BlockCount(*chunk_blocks),
        BlockCount(chunk_blocks.checked_next_multiple_of(unit.0).unwrap_or(unit.0))
    )]
    PartsOfUnits {
        /// Chunk size in blocks.
        chunk_blocks: u32,
        /// Write unit of the drives.
        unit: BlockCount,
    },
    /// A volume of nothing.
    #[error("a volume needs at least one block: give --size")]
    EmptyVolume,
}

/// The largest volume that stays writable for ever.
#[must_use]
pub fn largest_volume(geometry: &SegmentGeometry, zones: u32) -> u64 {
    let segments = u64::from(segments_of(zones));
    let usable = segments.saturating_sub(u64::from(RESERVE_SEGMENTS + USER_SEGMENTS));
    // 5 % of garbage make progress bearable.
    let slack = (geometry.data_blocks() / 20).max(certain_slack(geometry));
    usable * geometry.data_blocks().saturating_sub(slack)
}

/// Fewest zones of each member, including superblock zones, with which a volume of this size stays
/// writable.
#[must_use]
pub fn zones_needed(geometry: &SegmentGeometry, volume_blocks: u64, zones: u32) -> u32 {
    let segment_blocks = geometry.data_blocks().saturating_sub(certain_slack(geometry)).max(1);
    let segments = volume_blocks.div_ceil(segment_blocks).max(1);
    let beside = u64::from(SUPERBLOCK_ZONES + RESERVE_SEGMENTS + USER_SEGMENTS);
    // A volume made by a release that reserved less has only these zones.
    u32::try_from(segments + beside).map_or(zones, |needed| needed.min(zones))
}

/// A stripe of garbage per segment, in addition to padding by relocation, makes progress certain.
fn certain_slack(geometry: &SegmentGeometry) -> u64 {
    3 * geometry.scheme().data() as u64 * u64::from(geometry.chunk_blocks())
}

/// Checks that a drive meets the requirements for every member.
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
    let slots = segments_of(zones);
    assert!(slots > RESERVE_SEGMENTS + USER_SEGMENTS, "{slots} segments of {zones} zones");
    assert!(geometry.end().0 <= zone_capacity.0, "{geometry:?} in zones of {zone_capacity}");
    Ok((geometry, PbaSpace::new(scheme, zone_capacity).entry_bytes(slots)))
}

/// Checks the size of a new volume. An existing one is never refused for its size: it may come from
/// a release that reserved less.
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

/// Free segments beyond the reserve above which a stream opens more than one: one more than the
/// number at which collection begins.
pub(in crate::log) const FREE_BESIDE_LANES: u32 = 2;

/// Blocks relocated at a time.
pub(in crate::log) const BATCH_BLOCKS: usize = 512;

/// Most segments relocated at a time.
pub(in crate::log) const MOVED_AT_A_TIME: usize = 3;

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
