//! Write policies: the segments that a running volume keeps open, and how it writes to them.
//!
//! A policy is a choice of each start, not a property of the array: headers record the shape of
//! their segment, so segments of every shape live side by side. [`WritePolicy::zone_write`],
//! [`WritePolicy::zone_append`] and [`WritePolicy::zapraid`] are the three of ZapRAID (sections 3.2
//! and 3.3, and the baselines of section 5). [`WritePolicy::adaptive`] and
//! [`WritePolicy::appending`] are our own. `auto` chooses one.

use thiserror::Error;
use zoneweave_zoned::{BlockCount, ByteSize, Geometry};

use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::class::ChunkClass;
use crate::log::engine::geometry::SegmentGeometry;
use crate::log::engine::limits::{FREE_BESIDE_LANES, LimitError, check_drive, zones_needed};
use crate::log::format::{ArrayConfig, LogConfig, MAX_SEAL_ROWS};
use crate::log::segment::lane::{Lane, LaneMode, LaneRequests};
use crate::log::write::stream::Stream;
use crate::scheme::Scheme;

/// Spare segments from which relocated blocks go to more than one segment, unless a policy says
/// otherwise. With fewer it costs more than it gains, although one would be safe.
const SPARE_FOR_LIFETIMES: u32 = 32;

/// Largest window, in segments, in which writes are shared between users and relocation
/// (`reclaim/share`), and the spare segments needed for each of them: a window is space that users
/// cannot use.
const WINDOW_SEGMENTS: u32 = 4;
const SPARE_FOR_WINDOW: u32 = 4;

/// Rows of a group where chunks are written in place.
const WRITTEN_ROWS: u32 = 256;

/// Rows of a group where writes coalesce: about a hundred times the rows of one write, so that the
/// wait at the end of a group costs little. For appended chunks that wait is for the slowest zone,
/// so the number is the same.
const GATHERED_ROWS: u32 = 4096;

/// Most segments that users' writes go to at a time.
const LANES_MOST: usize = 64;

/// Active zones that a drive needs beyond those of users' lanes: for relocation, a rebuild and
/// superblock records. As many again are reserved for unfinished segments after a crash.
const ACTIVE_BESIDE_LANES: u32 = 3;

/// The choice of segments for garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// Segments with the fewest valid blocks.
    Greedy,
    /// Segments that free the most space for their cost, weighted by the time that it would stay
    /// free.
    CostBenefit,
}

/// Shape of a lane's segments, and how they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneOptions {
    /// Blocks of a chunk.
    pub chunk_blocks: u32,
    /// Rows of a group.
    pub group_rows: u32,
    /// The commands that write its chunks.
    pub mode: LaneMode,
}

impl LaneOptions {
    /// Zone Write of one chunk after the other. A group ends when all its stripes are complete,
    /// with a flush if drives have volatile caches, so it has more rows than the one it needs.
    #[must_use]
    pub const fn zone_write(chunk_blocks: u32) -> Self {
        Self { chunk_blocks, group_rows: WRITTEN_ROWS, mode: LaneMode::Write }
    }

    /// Zone Append in groups of so many rows.
    #[must_use]
    pub const fn zone_append(chunk_blocks: u32, group_rows: u32) -> Self {
        Self { chunk_blocks, group_rows, mode: LaneMode::Append }
    }

    /// Coalesced Zone Writes.
    #[must_use]
    pub const fn gathered(chunk_blocks: u32) -> Self {
        Self { chunk_blocks, group_rows: GATHERED_ROWS, mode: LaneMode::Gather }
    }
}

/// Lanes for requests of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lanes {
    /// Number of lanes.
    pub count: u32,
    /// Blocks of their chunks.
    pub chunk_blocks: u32,
}

/// The segments that a running volume keeps open, and how it writes to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritePolicy {
    /// For requests below the threshold, trims, and all if there are no others.
    pub small: Vec<LaneOptions>,
    /// For requests of at least the threshold.
    pub large: Vec<LaneOptions>,
    /// For relocated blocks.
    pub relocation: LaneOptions,
    /// The choice of segments for garbage collection.
    pub collection: Collection,
    /// Whether long-lived blocks are kept apart from others: among users' segments of a class with
    /// more than one, and among relocation's. Relocation gets one segment more for that if the
    /// drives' active zones allow it.
    pub lifetimes: bool,
    /// Spare segments, beyond the ones that the volume needs, from which relocated blocks go to
    /// more than one segment; at least one.
    pub spare_for_lifetimes: u32,
    /// Size in blocks from which a request is large.
    pub large_from_blocks: u64,
    /// Whether drives write a chunk sooner than the engine makes a stripe, so that chunks never
    /// wait for a zone. Users' blocks of one size and lifetime then go to one segment at a time.
    /// Small ones wait while stripes of larger chunks are in flight, to fill the next of these.
    pub fast_drives: bool,
    /// Size in blocks from which larger writes are hardly faster, if known. Successive writes of a
    /// zone then have similar sizes, and are not split below this size or below a request.
    pub even_blocks: Option<u32>,
    /// Whether lone small writes go to a *narrow* segment instead of being padded. It has as few
    /// columns as give redundancy, is beyond the number of users' segments, and is opened only if
    /// space is to spare.
    pub narrow: bool,
}

/// Why a policy does not fit an array.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PolicyError {
    /// There is no lane for users.
    #[error("a write policy needs 1 to {LANES_MOST} segments for users")]
    Lanes,
    /// Groups or chunks out of range.
    #[error("chunks have 1 to 1024 blocks and fit a zone, groups have 1 to {MAX_SEAL_ROWS} rows")]
    Shape,
    /// Chunks of one class differ.
    #[error("all segments for one request size need the same chunk size")]
    UnequalChunks,
    /// A crash would leave more undecided blocks than fit into one segment.
    #[error("{lanes} open segments are too many for zones of this size with chunks of this size")]
    ManyLanes {
        /// Segments for users.
        lanes: u32,
    },
    /// A drive cannot do it.
    #[error("{0}")]
    Drive(LimitError),
    /// Too many zones would be active.
    #[error("{lanes} open segments need {needed} active zones; a drive allows {limit}")]
    ActiveZones {
        /// Open segments for users.
        lanes: u32,
        /// Active zones needed, including those of segments that a crash leaves unfinished.
        needed: u32,
        /// Active zones that the drive allows.
        limit: u32,
    },
    /// The volume leaves too little space for padding such chunks.
    #[error(
        "a volume of {} is too large for chunks of {} on these zones",
        ByteSize::of_blocks(*blocks), BlockCount(*chunk_blocks)
    )]
    TooFull {
        /// Its size.
        blocks: u64,
        /// The requested chunk size in blocks.
        chunk_blocks: u32,
    },
    /// The volume leaves too little space for the mapping blocks of absent pages.
    #[error(
        "a volume of {} leaves too little space on these zones for pages of its index: the whole index \
         has to be in memory",
        ByteSize::of_blocks(*blocks)
    )]
    TooFullToOffload {
        /// Size of the volume in blocks.
        blocks: u64,
    },
}

impl WritePolicy {
    /// One segment of the array's own shape.
    #[must_use]
    pub fn of_array(config: &ArrayConfig) -> Self {
        let LogConfig { chunk_blocks, group_rows, tabled, .. } = *config.log();
        let mode = if tabled { LaneMode::Append } else { LaneMode::Gather };
        let lane = LaneOptions { chunk_blocks, group_rows, mode };
        Self {
            small: vec![lane],
            large: Vec::new(),
            relocation: lane,
            collection: Collection::CostBenefit,
            lifetimes: false,
            spare_for_lifetimes: SPARE_FOR_LIFETIMES,
            large_from_blocks: u64::MAX,
            fast_drives: false,
            even_blocks: None,
            narrow: false,
        }
    }

    /// Whether its segments have the array's own shape, with one at a time for users: every array
    /// was checked for that when it was created.
    #[must_use]
    pub(in crate::log) fn is_like_array(&self, config: &ArrayConfig) -> bool {
        let own = Self::of_array(config).relocation;
        let alike = |lane: &LaneOptions| {
            let LaneOptions { chunk_blocks, group_rows, mode } = *lane;
            let tabled = mode.is_tabled() == own.mode.is_tabled();
            tabled && (chunk_blocks, group_rows) == (own.chunk_blocks, own.group_rows)
        };
        self.user_lanes() == 1 && !self.lifetimes && self.lanes().all(alike)
    }

    /// Zone Write only.
    #[must_use]
    pub fn zone_write(small: Lanes, large: Lanes) -> Self {
        Self::uniform(small, large, LaneOptions::zone_write)
    }

    /// Zone Append only, in the largest groups.
    #[must_use]
    pub fn zone_append(small: Lanes, large: Lanes) -> Self {
        Self::uniform(small, large, |chunk| LaneOptions::zone_append(chunk, MAX_SEAL_ROWS))
    }

    /// Hybrid data management: Zone Append in groups for one of the segments with small chunks,
    /// Zone Write for the others and for relocation.
    #[must_use]
    pub fn zapraid(small: Lanes, large: Lanes, group_rows: u32) -> Self {
        let mut policy = Self::zone_write(small, large);
        if let Some(lane) = policy.small.last_mut() {
            *lane = LaneOptions::zone_append(lane.chunk_blocks, group_rows);
        }
        policy
    }

    /// Our own: coalesced Zone Write only.
    #[must_use]
    pub fn adaptive(small: Lanes, large: Lanes) -> Self {
        Self {
            collection: Collection::CostBenefit,
            lifetimes: true,
            narrow: true,
            ..Self::uniform(small, large, LaneOptions::gathered)
        }
    }

    /// Our own, for drives that complete many appends faster than one write of the same size: Zone
    /// Append only.
    #[must_use]
    pub fn appending(small: Lanes, large: Lanes) -> Self {
        Self {
            collection: Collection::CostBenefit,
            lifetimes: true,
            ..Self::uniform(small, large, |chunk| LaneOptions::zone_append(chunk, GATHERED_ROWS))
        }
    }

    fn uniform(small: Lanes, large: Lanes, lane: impl Fn(u32) -> LaneOptions) -> Self {
        // Any larger number is refused anyway.
        let count = |lanes: Lanes| (lanes.count as usize).min(LANES_MOST + 1);
        let lanes = |lanes: Lanes| vec![lane(lanes.chunk_blocks); count(lanes)];
        let (small, large_lanes) = (lanes(small), lanes(large));
        let moved = large_lanes.first().or(small.first()).map_or(1, |lane| lane.chunk_blocks);
        Self {
            small,
            large: large_lanes,
            relocation: lane(moved),
            collection: Collection::Greedy,
            lifetimes: false,
            spare_for_lifetimes: SPARE_FOR_LIFETIMES,
            large_from_blocks: large.chunk_blocks.into(),
            fast_drives: false,
            even_blocks: None,
            narrow: false,
        }
    }

    /// Every kind of lane; that of relocation is last.
    fn lanes(&self) -> impl Iterator<Item = &LaneOptions> {
        self.small.iter().chain(&self.large).chain([&self.relocation])
    }

    /// The largest chunk of its segments, in blocks.
    #[must_use]
    pub(in crate::log) fn largest_chunk(&self) -> u32 {
        self.lanes().map(|lane| lane.chunk_blocks).max().unwrap_or(1)
    }

    /// Number of users' segments that are open at a time.
    #[must_use]
    pub(in crate::log) fn user_lanes(&self) -> u32 {
        u32::try_from(self.small.len() + self.large.len()).unwrap_or(u32::MAX)
    }

    /// Whether the blocks that a crash leaves undecided in so many segments fit into one, with
    /// groups of one stripe.
    pub(in crate::log) fn holds_undecided(&self, config: &ArrayConfig, lanes: u32) -> bool {
        let stripe = u64::from(self.largest_chunk()) * config.scheme.data() as u64;
        room(config, &self.relocation) >= u64::from(lanes) * stripe
    }

    /// Checks the policy against an array.
    ///
    /// # Errors
    /// The constraint that it violates.
    pub(super) fn check(&self, config: &ArrayConfig) -> Result<(), PolicyError> {
        let legal = |lane: &LaneOptions| {
            (1..=1024).contains(&lane.chunk_blocks)
                && (1..=MAX_SEAL_ROWS).contains(&lane.group_rows)
                && shape(config, lane).is_some()
        };
        let unit = config.write_unit;
        let parts = |lane: &LaneOptions| !lane.chunk_blocks.is_multiple_of(unit.0);
        if let Some(lane) = self.lanes().find(|lane| parts(lane)) {
            let chunk_blocks = lane.chunk_blocks;
            return Err(PolicyError::Drive(LimitError::PartsOfUnits { chunk_blocks, unit }));
        }
        if !self.lanes().all(legal) {
            return Err(PolicyError::Shape);
        }
        if !(1..=LANES_MOST).contains(&(self.small.len() + self.large.len())) {
            return Err(PolicyError::Lanes);
        }
        let unequal = |lanes: &[LaneOptions]| {
            lanes.windows(2).any(|pair| pair[0].chunk_blocks != pair[1].chunk_blocks)
        };
        if unequal(&self.small) || unequal(&self.large) {
            return Err(PolicyError::UnequalChunks);
        }
        // The array's own shape was checked when it was created.
        if self.is_like_array(config) {
            return Ok(());
        }
        let (blocks, zones) = (config.log().volume_blocks, config.zones);
        if !self.holds_undecided(config, self.user_lanes()) {
            return Err(PolicyError::ManyLanes { lanes: self.user_lanes() });
        }
        for lane in self.lanes() {
            let chunk_blocks = lane.chunk_blocks;
            let needed = |shape: SegmentGeometry| zones_needed(&shape, blocks, u32::MAX);
            let fits = shape(config, lane).is_some_and(|shape| needed(shape) <= zones);
            if !fits && !mutant(Mutant::PolicyRoomIgnored) {
                return Err(PolicyError::TooFull { blocks, chunk_blocks });
            }
        }
        Ok(())
    }

    /// Checks the policy against an array and its drives.
    ///
    /// # Errors
    /// The constraint that it violates.
    pub(super) fn check_all<'a>(
        &self,
        config: &ArrayConfig,
        mut drives: impl Iterator<Item = &'a Geometry>,
    ) -> Result<(), PolicyError> {
        self.check(config)?;
        drives.try_for_each(|drive| self.check_drive(config, drive))
    }

    /// Checks the policy against a drive.
    ///
    /// # Errors
    /// The capability that the drive lacks.
    pub(in crate::log) fn check_drive(
        &self,
        config: &ArrayConfig,
        drive: &Geometry,
    ) -> Result<(), PolicyError> {
        if self.is_like_array(config) {
            return Ok(());
        }
        for lane in self.lanes() {
            check_drive(drive, config.write_unit, lane.chunk_blocks, lane.mode.is_tabled())
                .map_err(PolicyError::Drive)?;
        }
        let lanes = self.user_lanes();
        let needed = active_zones_for(lanes);
        match drive.max_active {
            Some(limit) if limit < needed && !mutant(Mutant::LanesBeyondActiveZones) => {
                Err(PolicyError::ActiveZones { lanes, needed, limit })
            }
            _ => Ok(()),
        }
    }

    /// Number of segments for relocated blocks: two, one of them for long-lived blocks, if the
    /// drives' active zones allow it and many segments are spare.
    #[must_use]
    pub(in crate::log) fn relocation_lanes<'a>(
        &self,
        config: &ArrayConfig,
        mut drives: impl Iterator<Item = &'a Geometry>,
    ) -> usize {
        let all_let = drives.all(|drive| self.lets_move_apart(drive));
        let spare = self.spare_segments(config) >= self.spare_for_lifetimes.max(1);
        assert!(self.user_lanes() > 0, "a policy without segments for users");
        1 + usize::from(self.lifetimes && all_let && spare)
    }

    /// Whether a drive's active zones allow one more segment for relocation.
    #[must_use]
    pub(in crate::log) fn lets_move_apart(&self, drive: &Geometry) -> bool {
        let needed = active_zones_for(self.user_lanes() + 1);
        drive.max_active.is_none_or(|limit| limit >= needed)
    }

    /// Segments beyond the ones that the volume needs.
    fn spare_segments(&self, config: &ArrayConfig) -> u32 {
        let needed =
            zones_needed(&self.smallest_shape(config), config.log().volume_blocks, config.zones);
        config.zones.saturating_sub(needed)
    }

    /// Segments of the window in which writes are shared between users and relocation; zero if few
    /// are spare.
    #[must_use]
    pub(in crate::log) fn window_segments(&self, config: &ArrayConfig) -> u32 {
        let lanes = self.user_lanes() + 1 + u32::from(self.lifetimes);
        // The free space reserved for relocation grows with the lanes, and could exceed the spare
        // segments.
        let beside = if lanes > 2 { FREE_BESIDE_LANES + lanes.div_ceil(2) } else { 0 };
        let spare = self.spare_segments(config).saturating_sub(beside);
        (spare / SPARE_FOR_WINDOW).min(WINDOW_SEGMENTS)
    }

    /// The streams of users and of relocation; relocation has `moved` segments.
    ///
    /// # Panics
    /// If the policy does not fit the array.
    pub(in crate::log) fn streams(&self, config: &ArrayConfig, moved: usize) -> (Stream, Stream) {
        assert!((1..=2).contains(&moved), "{moved} segments for relocated blocks");
        let lane = |chunk, options: &LaneOptions| {
            let geometry = shape(config, options).expect("the policy fits the array");
            Lane::new(chunk, geometry, options.mode)
        };
        let of_users = |chunk, options| lane(chunk, &self.user_lane(config, options));
        let small = self.small.iter().map(|options| of_users(ChunkClass::Small, options));
        let large = self.large.iter().map(|options| of_users(ChunkClass::Large, options));
        let moved = (0..moved).map(|_| lane(ChunkClass::Small, &self.relocation_lane(config)));
        let narrow = self.narrow_shape(config).map(|shape| {
            let LaneOptions { mode, .. } = self.narrow_lane(config);
            Lane::new(ChunkClass::Narrow, shape, mode)
        });
        let users = small.chain(large).chain(narrow).collect();
        (
            // On fast drives, lifetimes are separated as soon as they are known.
            Stream::new(users, self.large_from_blocks, self.lifetimes && !self.fast_drives)
                .for_fast_drives(self.fast_drives),
            Stream::new(moved.collect(), u64::MAX, self.lifetimes),
        )
    }

    /// Shapes of all segments that may be open at a time, and whether their chunks are appended.
    ///
    /// # Panics
    /// If the policy does not fit the array.
    pub(in crate::log) fn all_lanes(
        &self,
        config: &ArrayConfig,
    ) -> impl Iterator<Item = (SegmentGeometry, bool)> {
        let users = self.small.iter().chain(&self.large);
        let users = users.map(|options| self.user_lane(config, options));
        let moved = (0..2).map(|_| self.relocation_lane(config));
        let shapes = users.chain(moved).map(|lane| {
            (shape(config, &lane).expect("the policy fits the array"), lane.mode.is_tabled())
        });
        shapes.chain(self.narrow_shape(config).map(|shape| (shape, false)))
    }

    /// Users' segments, then relocation's, grouped by shape.
    pub(in crate::log) fn told(
        &self,
        config: &ArrayConfig,
    ) -> Vec<(LaneRequests, u32, LaneOptions)> {
        let of_users = |lane: &LaneOptions| self.user_lane(config, lane);
        let small = self.small.iter().map(|lane| (LaneRequests::Small, of_users(lane)));
        let large = self.large.iter().map(|lane| (LaneRequests::Large, of_users(lane)));
        let narrow = self.narrow_shape(config);
        let narrow = narrow.map(|_| (LaneRequests::Narrow, self.narrow_lane(config)));
        let moved = [(LaneRequests::Moved, self.relocation_lane(config))];
        let mut told: Vec<(_, u32, _)> = Vec::new();
        for (requests, lane) in small.chain(large).chain(narrow).chain(moved) {
            match told.last_mut() {
                Some((same, count, alike)) if (*same, *alike) == (requests, lane) => *count += 1,
                _ => told.push((requests, 1, lane)),
            }
        }
        let counted: u32 = told.iter().map(|(_, count, _)| *count).sum();
        let others = counted.checked_sub(self.user_lanes());
        assert!(matches!(others, Some(1 | 2)), "{counted} lanes, {} of users", self.user_lanes());
        told
    }

    /// The lane of relocation, with groups bounded like those of users.
    fn relocation_lane(&self, config: &ArrayConfig) -> LaneOptions {
        self.bounded(config, &self.relocation, room(config, &self.relocation))
    }

    /// A lane for users. Its groups are so small that the undecided blocks in the last groups of
    /// all users' segments fit into one segment, as recovery has only one.
    pub(in crate::log) fn user_lane(
        &self,
        config: &ArrayConfig,
        lane: &LaneOptions,
    ) -> LaneOptions {
        // The group size affects the number of rows that fit.
        let asked = room(config, &self.relocation);
        self.bounded(config, lane, asked.min(room(config, &self.relocation_lane(config))))
    }

    fn bounded(&self, config: &ArrayConfig, lane: &LaneOptions, room: u64) -> LaneOptions {
        let stripe = u64::from(lane.chunk_blocks) * config.scheme.data() as u64;
        let rows = room / (u64::from(self.lanes_undecided(config)) * stripe);
        let rows = u32::try_from(rows).unwrap_or(u32::MAX).max(1);
        let group_rows = lane.group_rows.min(rows);
        let undecided = u64::from(self.lanes_undecided(config)) * stripe * u64::from(group_rows);
        assert!(group_rows == 1 || undecided <= room, "{undecided} undecided blocks, {room} fit");
        LaneOptions { group_rows, ..*lane }
    }

    /// The shape with the smallest capacity among its segments.
    ///
    /// # Panics
    /// If the policy does not fit the array.
    #[must_use]
    pub(in crate::log) fn smallest_shape(&self, config: &ArrayConfig) -> SegmentGeometry {
        let shapes = self.lanes().map(|lane| shape(config, lane));
        let shapes = shapes.map(|shape| shape.expect("the policy fits the array"));
        shapes.min_by_key(SegmentGeometry::data_blocks).expect("a policy has lanes")
    }
}

/// Active zones that a drive needs for so many users' segments, including those left by a crash.
const fn active_zones_for(lanes: u32) -> u32 {
    (lanes + ACTIVE_BESIDE_LANES) * 2
}

/// Data blocks of a lane's segments.
fn room(config: &ArrayConfig, lane: &LaneOptions) -> u64 {
    shape(config, lane).map_or(0, |shape| shape.data_blocks())
}

fn shape(config: &ArrayConfig, lane: &LaneOptions) -> Option<SegmentGeometry> {
    shape_of(config, config.scheme, lane)
}

pub(in crate::log) fn shape_of(
    config: &ArrayConfig,
    scheme: Scheme,
    lane: &LaneOptions,
) -> Option<SegmentGeometry> {
    let (unit, capacity) = (config.write_unit, config.zone_capacity);
    SegmentGeometry::in_units(scheme, unit, capacity, lane.chunk_blocks, lane.group_rows)
}

#[cfg(test)]
mod tests;
