//! Chooses the write policy of a start when none is given: the best one for the drives that fits
//! the array.
//!
//! [`WritePolicy::for_drives`] begins with the drives' preference: as many users' segments as half
//! of the active zones allow, and coalesced Zone Writes, or Zone Append where a [`WriteProfile`]
//! shows that it is faster.
//!
//! If the profile shows that drives write a chunk sooner than the engine makes a stripe, chunks
//! never wait for a zone, so more segments gain nothing, but fewer stripes do. The policy is then
//! one segment at a time for each lifetime, and one with larger chunks for large requests, and for
//! small ones while enough of them wait to fill it.
//!
//! If that does not fit, it gives up one feature after another. The last policy is that of the
//! array's own shape, which always fits. The reasons are kept for the report.
//!
//! If the profile shows a size from which writes are equally fast, successive writes get similar
//! sizes, so that no request waits for one much larger write.
//!
//! Nothing unmeasured is guessed: without a profile, writes are coalesced.

use zoneweave_zoned::{BlockCount, Geometry};

use crate::instrument::marks::{Mark, mark};
use crate::log::engine::limits::LimitError;
use crate::log::format::ArrayConfig;
use crate::log::write::policy::lanes::{LaneOptions, Lanes, PolicyError, WritePolicy};

/// Most segments for users: more are hardly faster, and each takes free space.
const LANES_MOST: u32 = 4;

/// Blocks of their chunks. A coalesced write holds the pending chunks of any size. Smaller chunks
/// leave less of a stripe empty; larger ones are read by fewer commands. Four segments of one size
/// are as fast as any mixture of sizes, for any mixture of requests (Exp#11), as no request waits
/// for a segment of its size.
const CHUNK_BLOCKS: u32 = 2;

/// Largest chunks for drives faster than the engine, in blocks: 64 small requests fill a stripe of
/// 3+1 of these, but none of larger ones.
const LARGE_CHUNK_BLOCKS_MOST: u32 = 16;

/// Segments of each chunk size for such drives: one for each lifetime.
const FAST_LANES: u32 = 2;

/// Time of the engine for a stripe of small chunks, in nanoseconds, on a current processor: 6
/// blocks of 0.7 us (docs/internals/performance-log.md).
const STRIPE_NANOS: u64 = 4_000;

/// Requests in flight from which ways to write are compared: with fewer there is nothing to
/// coalesce.
const DEPTH_LEAST: u32 = 4;

/// Spread of two equal measurements, and the least difference that matters, in percent.
const NOISE_PERCENT: u64 = 5;
const GAIN_PERCENT: u64 = 10;

/// Gain of a write of twice the size, in percent, that justifies the longer wait of other requests.
const LARGER_GAIN_PERCENT: u64 = 25;

/// Candidates end before that: each has a lane less or half the chunk of the one before.
const CANDIDATES_MOST: usize = 64;

/// The write policy of a start.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum WriteChoice {
    /// One segment at a time, of the shape that the array was made with.
    #[default]
    AsMade,
    /// Exactly this policy; the start is refused if it does not fit.
    Policy(WritePolicy),
    /// The best policy for the drives.
    Auto(Auto),
}

/// Constraints for the choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Auto {
    /// Segments for small requests, or for all if there are no others, if they are pinned.
    pub small: Option<Lanes>,
    /// Segments for large requests; `None` for none.
    pub large: Option<Lanes>,
    /// Measured costs, valid for every drive; `None` if not measured.
    pub profile: Option<WriteProfile>,
    /// Spares: drives that the policy has to fit, like the members.
    pub spares: Vec<Geometry>,
}

/// Measured costs of writing to one zone of a drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteProfile {
    /// Zone Writes one at a time, in the order of their sizes.
    pub writes: Vec<WriteCost>,
    /// Zone Appends of a block, several at a time.
    pub appends: Vec<AppendCost>,
}

/// Cost of a Zone Write without others in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteCost {
    /// Size in blocks.
    pub blocks: u32,
    /// Nanoseconds from one to the next.
    pub nanos: u64,
}

/// Cost of a Zone Append of one block among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendCost {
    /// Appends in flight.
    pub depth: u32,
    /// Nanoseconds from one to the next.
    pub nanos: u64,
}

impl WriteProfile {
    /// Whether Zone Append is worth it, with four or more blocks in flight. With coalescing Zone
    /// Writes, either half of the blocks are being written while the others wait, or all are
    /// written at once. Zone Append must be slower than neither, within the noise of measurements,
    /// and faster than the first for some number of blocks. A cost of zero was not measured.
    #[must_use]
    pub fn appends_pay(&self) -> bool {
        let unmeasured = self.appends.iter().any(|append| append.nanos == 0)
            || self.writes.iter().any(|write| write.nanos == 0 || write.blocks == 0);
        if unmeasured {
            return false;
        }
        let compared = || self.appends.iter().filter(|append| append.depth >= DEPTH_LEAST);
        let gathered = |blocks| self.gathered_nanos(blocks).unwrap_or(0);
        let not_slower = |append: &AppendCost, blocks| {
            append.nanos.saturating_mul(100) <= gathered(blocks).saturating_mul(100 + NOISE_PERCENT)
        };
        let gains = |append: &AppendCost| {
            let than = gathered(append.depth / 2);
            append.nanos.saturating_mul(100 + GAIN_PERCENT) < than.saturating_mul(100)
        };
        compared()
            .all(|append| not_slower(append, append.depth) && not_slower(append, append.depth / 2))
            && compared().any(gains)
    }

    /// Size in blocks from which a write of twice the size is hardly faster than two writes. `None`
    /// if drives get faster up to the largest measured write.
    #[must_use]
    pub fn even_blocks(&self) -> Option<u32> {
        let hardly_faster = |cost: &WriteCost, than: &WriteCost| {
            let (ours, others) = (
                cost.nanos.saturating_mul(than.blocks.into()),
                than.nanos.saturating_mul(cost.blocks.into()),
            );
            ours > 0 && ours.saturating_mul(100 + LARGER_GAIN_PERCENT) > others.saturating_mul(100)
        };
        let even = self.writes.windows(2).find(|pair| hardly_faster(&pair[1], &pair[0]));
        even.map(|pair| pair[0].blocks)
    }

    /// Chunk size in blocks that pays if drives write a small chunk sooner than the engine makes a
    /// stripe: the size at which they no longer do, within bounds.
    #[must_use]
    pub fn larger_chunk(&self) -> Option<u32> {
        let nanos = |blocks: u32| {
            let block = self.gathered_nanos(blocks).filter(|nanos| *nanos > 0);
            block.map(|nanos| nanos.saturating_mul(blocks.into()))
        };
        let fast = |blocks: u32| nanos(blocks).is_some_and(|nanos| nanos < STRIPE_NANOS);
        let larger = std::iter::successors(Some(CHUNK_BLOCKS), |blocks| Some(2 * blocks));
        fast(CHUNK_BLOCKS).then(|| {
            let mut slower = larger.take_while(|blocks| *blocks <= LARGE_CHUNK_BLOCKS_MOST);
            slower.find(|blocks| !fast(*blocks)).unwrap_or(LARGE_CHUNK_BLOCKS_MOST)
        })
    }

    /// Nanoseconds per block if so many are written at once: interpolated between measurements, and
    /// beyond them at the rate of the largest write.
    fn gathered_nanos(&self, blocks: u32) -> Option<u64> {
        let below = self.writes.iter().rev().find(|cost| cost.blocks <= blocks)?;
        let above = self.writes.iter().find(|cost| cost.blocks > blocks);
        let per_block = |nanos: u64, blocks: u32| nanos / u64::from(blocks);
        let Some(above) = above else { return Some(per_block(below.nanos, below.blocks)) };
        let (part, whole) = (blocks - below.blocks, above.blocks - below.blocks);
        assert!(part < whole, "{blocks} blocks between {} and {}", below.blocks, above.blocks);
        let rise = above.nanos.saturating_sub(below.nanos);
        let more = rise.saturating_mul(part.into()) / u64::from(whole);
        Some(per_block(below.nanos.saturating_add(more), blocks))
    }
}

/// A policy, and the better ones that did not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The policy that fits.
    pub policy: WritePolicy,
    /// Why others that would have been better do not fit, the best first.
    pub refused: Vec<PolicyError>,
}

impl WriteChoice {
    /// The policy to start with. If an earlier attempt failed for a reason that only the start can
    /// find, that policy is not tried again.
    ///
    /// # Errors
    /// If a requested policy, or a pinned part of one, does not fit.
    pub(in crate::log) fn choose<'a>(
        &'a self,
        config: &ArrayConfig,
        drives: impl Iterator<Item = &'a Geometry> + Clone,
        failed: Option<PolicyError>,
    ) -> Result<Chosen, PolicyError> {
        let as_made = |refused| Chosen { policy: WritePolicy::of_array(config), refused };
        match (self, failed) {
            (Self::AsMade, _) => Ok(as_made(Vec::new())),
            (Self::Policy(policy), _) => {
                policy.check_all(config, drives)?;
                Ok(Chosen { policy: policy.clone(), refused: Vec::new() })
            }
            (Self::Auto(_), Some(failed)) => {
                mark(Mark::PolicyOfArray);
                Ok(as_made(vec![failed]))
            }
            (Self::Auto(auto), None) => WritePolicy::for_drives(config, drives, auto),
        }
    }

    /// Whether a policy that fails may be replaced by another.
    #[must_use]
    pub(in crate::log) fn may_give_way(&self) -> bool {
        matches!(self, Self::Auto(auto) if !auto.is_pinned())
    }
}

impl Auto {
    /// Whether a part of it is fixed by the caller.
    fn is_pinned(&self) -> bool {
        self.small.is_some() || self.large.is_some_and(|large| large.count > 0)
    }
}

impl WritePolicy {
    /// The best policy for the drives among all that fit the array. If nothing is pinned there
    /// always is one.
    ///
    /// # Errors
    /// If a pinned part does not fit.
    pub fn for_drives<'a>(
        config: &ArrayConfig,
        drives: impl Iterator<Item = &'a Geometry> + Clone,
        auto: &'a Auto,
    ) -> Result<Chosen, PolicyError> {
        let drives = drives.chain(&auto.spares);
        let mut candidate = Candidate::best(auto, config.write_unit);
        let mut refused = Vec::new();
        loop {
            let policy = candidate.policy();
            let Err(error) = policy.check_all(config, drives.clone()) else {
                return Ok(Chosen { policy, refused });
            };
            let next = candidate.less(&error, auto);
            if next.is_none() && auto.is_pinned() {
                return Err(error);
            }
            refused.push(error);
            let tried = refused.len();
            assert!(tried <= CANDIDATES_MOST, "no policy fits, and {tried} were tried");
            match next {
                Some(next) => candidate = next,
                None => {
                    mark(Mark::PolicyOfArray);
                    return Ok(Chosen { policy: Self::of_array(config), refused });
                }
            }
        }
    }
}

/// A policy to be tried.
#[derive(Clone, Copy)]
struct Candidate {
    /// Write unit: chunks are multiples of it.
    unit: BlockCount,
    small: Lanes,
    large: Lanes,
    appends: bool,
    /// See [`WriteProfile::even_blocks`].
    even_blocks: Option<u32>,
    /// Whether drives are faster than the engine, and no lane is pinned.
    fast: bool,
}

impl Candidate {
    fn best(auto: &Auto, unit: BlockCount) -> Self {
        let appends = auto.profile.as_ref().is_some_and(WriteProfile::appends_pay);
        let larger = auto.profile.as_ref().and_then(WriteProfile::larger_chunk);
        if let Some(larger) = larger.filter(|_| !appends && !auto.is_pinned()) {
            let lanes = |chunk_blocks: u32| {
                let chunk_blocks = chunk_blocks.next_multiple_of(unit.0);
                Lanes { count: FAST_LANES, chunk_blocks }
            };
            let (small, large) = (lanes(CHUNK_BLOCKS), lanes(larger));
            return Self { unit, small, large, appends, even_blocks: None, fast: true };
        }
        let left = LANES_MOST.saturating_sub(auto.large.unwrap_or_default().count);
        let chunk_blocks = CHUNK_BLOCKS.next_multiple_of(unit.0);
        let small = Lanes { count: left.max(1), chunk_blocks };
        Self {
            unit,
            small: auto.small.unwrap_or(small),
            large: auto.large.unwrap_or_default(),
            appends,
            even_blocks: auto.profile.as_ref().and_then(WriteProfile::even_blocks),
            fast: false,
        }
    }

    fn policy(self) -> WritePolicy {
        let Self { unit, small, large, appends, even_blocks, fast } = self;
        let policy = match appends {
            true => WritePolicy::appending(small, large),
            false => WritePolicy { even_blocks, ..WritePolicy::adaptive(small, large) },
        };
        if !fast {
            return policy;
        }
        // A large stripe is filled by one request or by many. Relocation comes in smaller batches.
        let relocation = LaneOptions::gathered((large.chunk_blocks / 2).next_multiple_of(unit.0));
        WritePolicy { fast_drives: true, large_from_blocks: u64::MAX, relocation, ..policy }
    }

    /// The next candidate after one that does not fit.
    fn less(self, error: &PolicyError, auto: &Auto) -> Option<Self> {
        if self.fast {
            return self.less_large(error);
        }
        match error {
            PolicyError::ActiveZones { .. } => self.fewer_lanes(auto),
            PolicyError::ManyLanes { .. } => {
                self.fewer_lanes(auto).or_else(|| self.smaller_chunks(auto))
            }
            PolicyError::Drive(LimitError::AppendTooLarge { .. }) if self.appends => {
                Some(Self { appends: false, ..self })
            }
            PolicyError::Drive(
                LimitError::AppendTooLarge { .. } | LimitError::PartsOfUnits { .. },
            )
            | PolicyError::TooFull { .. }
            | PolicyError::Shape => self.smaller_chunks(auto).or_else(|| self.fewer_lanes(auto)),
            PolicyError::Drive(_)
            | PolicyError::Lanes
            | PolicyError::UnequalChunks
            | PolicyError::TooFullToOffload { .. } => None,
        }
    }

    /// Chunks of half the size, and finally the policy for drives without a profile.
    fn less_large(self, error: &PolicyError) -> Option<Self> {
        let half = (self.large.chunk_blocks / 2).next_multiple_of(self.unit.0);
        if !matches!(error, PolicyError::ActiveZones { .. }) && half > self.small.chunk_blocks {
            mark(Mark::PolicyOfSmallerChunks);
            return Some(Self { large: Lanes { chunk_blocks: half, ..self.large }, ..self });
        }
        Some(Self::best(&Auto::default(), self.unit))
    }

    /// The candidate with one open segment less; `None` if it has one only.
    fn fewer_lanes(self, auto: &Auto) -> Option<Self> {
        if auto.small.is_some() || self.small.count <= 1 {
            return None;
        }
        mark(Mark::PolicyOfFewerLanes);
        let small = Lanes { count: self.small.count - 1, ..self.small };
        assert!(small.count > 0, "a candidate without segments for small requests");
        Some(Self { small, ..self })
    }

    /// Chunks of half the size.
    fn smaller_chunks(self, auto: &Auto) -> Option<Self> {
        if auto.small.is_some() || self.small.chunk_blocks <= self.unit.0 {
            return None;
        }
        mark(Mark::PolicyOfSmallerChunks);
        let chunk_blocks = (self.small.chunk_blocks / 2).next_multiple_of(self.unit.0);
        let before = self.small.chunk_blocks;
        assert!((1..=before).contains(&chunk_blocks), "chunks of {chunk_blocks} after {before}");
        let small = Lanes { chunk_blocks, ..self.small };
        Some(Self { small, ..self })
    }
}

#[cfg(test)]
mod tests;
