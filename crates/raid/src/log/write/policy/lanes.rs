//! Write policies: which segments a running volume keeps open, and how it writes to them.
//!
//! A policy is a choice of each start, not a property of the array: headers tell the shape of their
//! segment, so segments of every shape live side by side. [`WritePolicy::zone_write`],
//! [`WritePolicy::zone_append`] and [`WritePolicy::zapraid`] are the three of ZapRAID (sections 3.2
//! and 3.3, and the baselines of section 5); [`WritePolicy::adaptive`] and
//! [`WritePolicy::appending`] are our own. `choice.rs` chooses one.

use crate::log::write::lane::LaneMode;
use thiserror::Error;
use zoneweave_zoned::Geometry;

use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::geometry::SegmentGeometry;
use crate::log::engine::limits::FREE_BESIDE_LANES;
use crate::log::engine::limits::{LimitError, check_drive, zones_needed};
use crate::log::format::{ArrayConfig, MAX_SEAL_ROWS};
use crate::log::write::lane::{ChunkClass, Lane};
use crate::log::write::stream::Stream;
use crate::scheme::Scheme;

/// Segments beyond those that a volume needs, from which on what is moved goes to more than one,
/// unless a policy says otherwise: where there are fewer it costs more than it gains. One would be
/// enough to be safe.
const SPARE_FOR_LIFETIMES: u32 = 32;

/// Segments that make up the window in which writes are shared with what is moved (`pace.rs`), at
/// most, and how many have to be there to spare for each: a window is room that is kept from users.
const WINDOW_SEGMENTS: u32 = 4;
const SPARE_FOR_WINDOW: u32 = 4;

/// Rows of a group where chunks are written in place.
const WRITTEN_ROWS: u32 = 256;

/// Rows of a group where writes gather several: some hundred times what one write holds, so that
/// waiting for the end of a group costs little. Where chunks are appended it costs a wait for the
/// slowest, so as many.
const GATHERED_ROWS: u32 = 4096;

/// The most segments that users' writes go to at a time.
const LANES_MOST: usize = 64;

/// Active zones that a drive needs beside those of users' lanes: for moving, a rebuild and
/// superblock records. As many again are for what a crash leaves behind.
const ACTIVE_BESIDE_LANES: u32 = 3;

/// Which segments are moved out to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// Those with the least in them.
    Greedy,
    /// Those that free most for what they cost, the longer it would stay the better.
    CostBenefit,
}

/// How segments of a lane are made and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneOptions {
    /// Blocks of a chunk.
    pub chunk_blocks: u32,
    /// Rows of a group.
    pub group_rows: u32,
    /// By which commands.
    pub mode: LaneMode,
}

impl LaneOptions {
    /// Zone Write of one chunk after the other. A group ends when every stripe of it is done, and
    /// with a flush where drives have volatile caches, so it has more than the one row that would
    /// do.
    #[must_use]
    pub const fn zone_write(chunk_blocks: u32) -> Self {
        Self { chunk_blocks, group_rows: WRITTEN_ROWS, mode: LaneMode::Write }
    }

    /// Zone Append in groups of so many rows.
    #[must_use]
    pub const fn zone_append(chunk_blocks: u32, group_rows: u32) -> Self {
        Self { chunk_blocks, group_rows, mode: LaneMode::Append }
    }

    /// Zone Write of everything that waits.
    #[must_use]
    pub const fn gathered(chunk_blocks: u32) -> Self {
        Self { chunk_blocks, group_rows: GATHERED_ROWS, mode: LaneMode::Gather }
    }
}

/// Lanes for requests of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lanes {
    /// How many.
    pub count: u32,
    /// Blocks of their chunks.
    pub chunk_blocks: u32,
}

/// Which segments a running volume keeps open, and how it writes to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritePolicy {
    /// For requests below the threshold, trims, and all if there are no others.
    pub small: Vec<LaneOptions>,
    /// For the others.
    pub large: Vec<LaneOptions>,
    /// For what is moved.
    pub relocation: LaneOptions,
    /// Which segments are moved out.
    pub collection: Collection,
    /// Whether blocks that live long are kept apart from those that do not: among users' segments
    /// of a class where it has more than one, and among those for what is moved, of which there is
    /// one more if drives let as many zones be active.
    pub lifetimes: bool,
    /// Segments beyond those that the volume needs, from which on what is moved goes to more than
    /// one; at least one.
    pub spare_for_lifetimes: u32,
    /// Blocks from which on a request is a large one.
    pub large_from_blocks: u64,
    /// Whether drives take a chunk sooner than the engine makes a stripe: nothing waits for a zone
    /// then. Users' blocks of one size and lifetime go to one segment at a time, and small ones
    /// wait as long as stripes of larger chunks are under way, to fill the next of these.
    pub fast_drives: bool,
    /// Blocks of a write from which on drives are hardly faster with more, if that is known: writes
    /// of a zone that follow each other are made of like size then, and none smaller than that, or
    /// than a request, for the sake of it.
    pub even_blocks: Option<u32>,
    /// Whether small writes that come one at a time go to a *narrow* segment, of as few columns as
    /// are redundant, instead of being padded. It is one more than those for users, and open only
    /// where there is room for it anyhow.
    pub narrow: bool,
}

/// Why a policy does not fit an array.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PolicyError {
    /// Nothing could be written.
    #[error("a write policy needs 1 to {LANES_MOST} segments for users")]
    Lanes,
    /// Groups or chunks out of range.
    #[error("chunks have 1 to 1024 blocks and fit a zone, groups have 1 to {MAX_SEAL_ROWS} rows")]
    Shape,
    /// Chunks of one class differ.
    #[error("segments for requests of one size have chunks of one size")]
    UnequalChunks,
    /// What a crash leaves of them would not fit into one segment.
    #[error("{lanes} open segments are too many for zones so small, or chunks so large")]
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
        /// Segments for users.
        lanes: u32,
        /// Active zones needed, with those that a crash leaves behind.
        needed: u32,
        /// What a drive allows.
        limit: u32,
    },
    /// The volume leaves too little room for padding such chunks.
    #[error(
        "a volume of {blocks} blocks is too large for chunks of {chunk_blocks} blocks on these zones"
    )]
    TooFull {
        /// Its size.
        blocks: u64,
        /// The chunk size asked for.
        chunk_blocks: u32,
    },
    /// The volume leaves too little room for pages of the index on media.
    #[error(
        "a volume of {blocks} blocks leaves too little room on these zones for pages of its index: it has to be in memory, \
         all of it"
    )]
    TooFullToOffload {
        /// Its size.
        blocks: u64,
    },
}

impl WritePolicy {
    /// One segment of the array's own shape.
    #[must_use]
    pub fn of_array(config: &ArrayConfig) -> Self {
        let ArrayConfig { chunk_blocks, group_rows, tabled, .. } = *config;
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

    /// Whether its segments are of the array's own shape, one at a time for users: whatever array
    /// there is was made for that.
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

    /// Zone Write alone.
    #[must_use]
    pub fn zone_write(small: Lanes, large: Lanes) -> Self {
        Self::uniform(small, large, LaneOptions::zone_write)
    }

    /// Zone Append alone, in the largest groups.
    #[must_use]
    pub fn zone_append(small: Lanes, large: Lanes) -> Self {
        Self::uniform(small, large, |chunk| LaneOptions::zone_append(chunk, MAX_SEAL_ROWS))
    }

    /// Hybrid data management: Zone Append in groups for one of the segments with small chunks,
    /// Zone Write for the others, and for what is moved.
    #[must_use]
    pub fn zapraid(small: Lanes, large: Lanes, group_rows: u32) -> Self {
        let mut policy = Self::zone_write(small, large);
        if let Some(lane) = policy.small.last_mut() {
            *lane = LaneOptions::zone_append(lane.chunk_blocks, group_rows);
        }
        policy
    }

    /// Our own: Zone Write alone, of what waits.
    #[must_use]
    pub fn adaptive(small: Lanes, large: Lanes) -> Self {
        Self {
            collection: Collection::CostBenefit,
            lifetimes: true,
            narrow: true,
            ..Self::uniform(small, large, LaneOptions::gathered)
        }
    }

    /// Our own, for drives that take many appends faster than a write of as much: Zone Append
    /// alone.
    #[must_use]
    pub fn appending(small: Lanes, large: Lanes) -> Self {
        Self {
            collection: Collection::CostBenefit,
            lifetimes: true,
            ..Self::uniform(small, large, |chunk| LaneOptions::zone_append(chunk, GATHERED_ROWS))
        }
    }

    fn uniform(small: Lanes, large: Lanes, lane: impl Fn(u32) -> LaneOptions) -> Self {
        // More than that are refused, however many.
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

    /// Every kind of lane, that for what is moved last.
    fn lanes(&self) -> impl Iterator<Item = &LaneOptions> {
        self.small.iter().chain(&self.large).chain([&self.relocation])
    }

    /// The largest chunk of its segments, in blocks.
    #[must_use]
    pub(in crate::log) fn largest_chunk(&self) -> u32 {
        self.lanes().map(|lane| lane.chunk_blocks).max().unwrap_or(1)
    }

    /// How many segments users write to at a time.
    #[must_use]
    pub(in crate::log) fn user_lanes(&self) -> u32 {
        u32::try_from(self.small.len() + self.large.len()).unwrap_or(u32::MAX)
    }

    /// Whether what a crash leaves undecided of so many segments fits into one, with groups of one
    /// stripe.
    pub(in crate::log) fn holds_undecided(&self, config: &ArrayConfig, lanes: u32) -> bool {
        let stripe = u64::from(self.largest_chunk()) * config.scheme.data() as u64;
        room(config, &self.relocation) >= u64::from(lanes) * stripe
    }

    /// Checks the policy against an array.
    ///
    /// # Errors
    /// What does not fit.
    pub(in crate::log) fn check(&self, config: &ArrayConfig) -> Result<(), PolicyError> {
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
        // The array's own shape was checked when it was made.
        if self.is_like_array(config) {
            return Ok(());
        }
        let (blocks, zones) = (config.volume_blocks, config.zones);
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
    /// What does not fit.
    pub(in crate::log) fn check_all<'a>(
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
    /// What the drive cannot do.
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

    /// How many segments what is moved goes to: where drives let as many zones be active, and there
    /// are many to spare, those that live long have one of their own.
    #[must_use]
    pub(in crate::log) fn relocation_lanes<'a>(
        &self,
        config: &ArrayConfig,
        mut drives: impl Iterator<Item = &'a Geometry>,
    ) -> usize {
        let all_let = drives.all(|drive| self.lets_move_apart(drive));
        let spare = self.spare_segments(config) >= self.spare_for_lifetimes.max(1);
        1 + usize::from(self.lifetimes && all_let && spare)
    }

    /// Whether a drive lets as many zones be active as one more segment for what is moved takes.
    #[must_use]
    pub(in crate::log) fn lets_move_apart(&self, drive: &Geometry) -> bool {
        let needed = active_zones_for(self.user_lanes() + 1);
        drive.max_active.is_none_or(|limit| limit >= needed)
    }

    /// Segments beyond those that the volume needs.
    fn spare_segments(&self, config: &ArrayConfig) -> u32 {
        let needed = zones_needed(&self.smallest_shape(config), config.volume_blocks, config.zones);
        config.zones.saturating_sub(needed)
    }

    /// Segments of the window in which writes are shared with what is moved; none where there are
    /// few to spare.
    #[must_use]
    pub(in crate::log) fn window_segments(&self, config: &ArrayConfig) -> u32 {
        let lanes = self.user_lanes() + 1 + u32::from(self.lifetimes);
        // What users leave free grows with them, and could be more than there is.
        let beside = if lanes > 2 { FREE_BESIDE_LANES + lanes.div_ceil(2) } else { 0 };
        let spare = self.spare_segments(config).saturating_sub(beside);
        (spare / SPARE_FOR_WINDOW).min(WINDOW_SEGMENTS)
    }

    /// The streams of users, and of what is moved, which goes to so many segments.
    ///
    /// # Panics
    /// If the policy does not fit the array.
    pub(in crate::log) fn streams(&self, config: &ArrayConfig, moved: usize) -> (Stream, Stream) {
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
            // On fast drives lives are told apart as soon as something is known of them.
            Stream::new(users, self.large_from_blocks, self.lifetimes && !self.fast_drives)
                .for_fast_drives(self.fast_drives),
            Stream::new(moved.collect(), u64::MAX, self.lifetimes),
        )
    }

    /// The shapes of all segments that may be open at a time, and whether their chunks are
    /// appended.
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

    /// Segments for users, for what is moved last, as they are made: alike ones together.
    pub(in crate::log) fn told(
        &self,
        config: &ArrayConfig,
    ) -> Vec<(&'static str, u32, LaneOptions)> {
        let of_users = |lane: &LaneOptions| self.user_lane(config, lane);
        let small = self.small.iter().map(|lane| ("small", of_users(lane)));
        let large = self.large.iter().map(|lane| ("large", of_users(lane)));
        let narrow = self.narrow_shape(config).map(|_| ("narrow", self.narrow_lane(config)));
        let moved = [("moved", self.relocation_lane(config))];
        let mut told: Vec<(_, u32, _)> = Vec::new();
        for (requests, lane) in small.chain(large).chain(narrow).chain(moved) {
            match told.last_mut() {
                Some((same, count, alike)) if (*same, *alike) == (requests, lane) => *count += 1,
                _ => told.push((requests, 1, lane)),
            }
        }
        told
    }

    /// The lane for what is moved, with groups bounded as those of users are.
    fn relocation_lane(&self, config: &ArrayConfig) -> LaneOptions {
        self.bounded(config, &self.relocation, room(config, &self.relocation))
    }

    /// A lane for users, with groups so small that what a crash leaves undecided of the last groups
    /// of all their segments fits into one segment, which is what recovery has for it.
    pub(in crate::log) fn user_lane(
        &self,
        config: &ArrayConfig,
        lane: &LaneOptions,
    ) -> LaneOptions {
        // How large groups are changes how many rows fit.
        let asked = room(config, &self.relocation);
        self.bounded(config, lane, asked.min(room(config, &self.relocation_lane(config))))
    }

    fn bounded(&self, config: &ArrayConfig, lane: &LaneOptions, room: u64) -> LaneOptions {
        let stripe = u64::from(lane.chunk_blocks) * config.scheme.data() as u64;
        let rows = room / (u64::from(self.lanes_undecided(config)) * stripe);
        let rows = u32::try_from(rows).unwrap_or(u32::MAX).max(1);
        LaneOptions { group_rows: lane.group_rows.min(rows), ..*lane }
    }

    /// The shape with the least room among those of its segments.
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

/// Active zones that a drive needs for so many segments of users, with those that a crash leaves
/// behind.
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
