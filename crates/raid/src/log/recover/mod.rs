//! Starting an array: who belongs to it, what its segments hold, and what a crash left undone.
//!
//! The steps, each harmless to repeat after a crash inside it:
//!
//! 1. [`assemble`]: read superblocks, choose the membership.
//! 2. `segments`: read headers, find out which zones form which segments.
//! 3. `leftover`: for segments that a crash left unfinished, decide which stripes count.
//! 4. `replay`: build the index from index runs and blocks; the newest sequence wins.
//! 5. Publish: record the membership, move blocks of stripes that are readable but not fully
//!    redundant, make that durable, record which stripes count. Only then are users served.
//!
//! A stripe counts if every member that should have a chunk of it has one that verifies. A stripe
//! with enough chunks to be read but not all may be one that was never acknowledged, or an
//! acknowledged one with a damaged block: it cannot be told. Its newest blocks are written again
//! to a new, complete stripe before anything is served, which is right in both cases.

pub mod assemble;
mod error;
mod leftover;
mod membership;
mod publish;
pub mod records;
mod replay;
mod rescue;
mod segments;
mod twins;

use std::rc::Rc;

use zoneweave_runtime::Handle;
use zoneweave_zoned::ZonedDevice;

use crate::log::core::Core;
use crate::log::policy::{PolicyError, WritePolicy};
use crate::log::state::{Recovering, State};
use crate::log::volume::Volume;
use crate::marks::{Mark, mark};
use assemble::Assembly;
use publish::publish;

pub use assemble::{DriveRole, DriveVerdict, Survey, survey};
pub use error::OpenError;
pub(in crate::log) use segments::read_header;

/// A drive offered to an array, with what people call it.
#[derive(Clone)]
pub struct OfferedDrive {
    /// The drive.
    pub device: Rc<dyn ZonedDevice>,
    /// Its path or name, for messages.
    pub label: String,
}

/// How to start an array.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Start with half of the members or fewer, as long as data can be read. Mints a new
    /// lineage: members left out are strangers from then on. Start, too, where something is lost and
    /// it is not known what.
    pub force: bool,
    /// A random number, used where a new lineage is minted.
    pub lineage: u64,
    /// How to write; `None` for one segment at a time of the shape that the array was made with.
    pub policy: Option<WritePolicy>,
}

/// What starting found and did.
#[derive(Clone, Debug, Default)]
pub struct OpenReport {
    /// What each offered drive turned out to be, in the order offered.
    pub drives: Vec<DriveVerdict>,
    /// Segments found.
    pub segments: u64,
    /// Segments a crash left unfinished.
    pub leftover_segments: u64,
    /// Stripes that count although a chunk was missing or damaged, and were written again.
    pub rescued_stripes: u64,
    /// Stripes that do not count: none of their writes was ever acknowledged.
    pub discarded_stripes: u64,
}

/// How often recovery is tried where drives fail meanwhile.
const RECOVERIES: u32 = 4;

/// Starts an array from the drives offered.
///
/// # Errors
/// If the drives are no array, or too few of one.
pub async fn open(
    handle: &Handle,
    drives: Vec<OfferedDrive>,
    options: OpenOptions,
) -> Result<(Volume, OpenReport), OpenError> {
    for _ in 1..RECOVERIES {
        match recover(handle, drives.clone(), options.clone(), true).await {
            Err(OpenError::Stopped(Recovering::AGAIN)) => mark(Mark::RecoveryBegunAnew),
            ended => return ended,
        }
    }
    recover(handle, drives, options, false).await
}

async fn recover(
    handle: &Handle,
    drives: Vec<OfferedDrive>,
    options: OpenOptions,
    may_begin_anew: bool,
) -> Result<(Volume, OpenReport), OpenError> {
    let Assembly { mut state, superblock, verdicts, forced } =
        assemble::assemble(drives, &options).await?;
    state.recovering = Some(Recovering::new(may_begin_anew));
    let core = Core::new(handle.clone(), state, superblock);
    let mut report = OpenReport { drives: verdicts, ..OpenReport::default() };
    let found = segments::find(&core).await?;
    check_policy(&core.state.borrow())?;
    report.segments = found.len() as u64;
    let mut seals = Vec::new();
    let mut weak = Vec::new();
    for segment in &found {
        if segment.leftover {
            mark(Mark::Leftover);
            report.leftover_segments += 1;
            let judged = leftover::judge(&core, segment).await;
            report.rescued_stripes += judged.weak_stripes;
            report.discarded_stripes += judged.discarded_stripes;
            seals.extend(judged.new_seal);
            weak.extend(judged.weak);
        }
    }
    let candidates = replay::build_index(&core, weak).await;
    accept_unaccounted(&core.state.borrow(), options.force, may_begin_anew)?;
    publish(&core, candidates, seals, forced).await.map_err(OpenError::Stopped)?;
    Ok((Volume::start(core), report))
}

/// Zones that were lost since may be missing to what was asked for.
fn check_policy(state: &State) -> Result<(), PolicyError> {
    if state.has_zones_to_write() {
        return Ok(());
    }
    let chunk_blocks = state.policy.largest_chunk();
    Err(PolicyError::TooFull { blocks: state.config.volume_blocks, chunk_blocks })
}

/// Where something that counts is lost, and what it was, nothing older may be read for it without the
/// user's word. A drive may have erred once: recovery begins anew first. Nothing was written so far.
fn accept_unaccounted(state: &State, forced: bool, may_begin_anew: bool) -> Result<(), OpenError> {
    // Where writes are stopped already the reason for that tells more.
    if state.unaccounted.is_empty() || state.stopped.is_some() {
        return Ok(());
    }
    if may_begin_anew {
        return Err(OpenError::Stopped(Recovering::AGAIN));
    }
    if forced {
        return Ok(());
    }
    mark(Mark::UnaccountedRefused);
    let (name, segments) = (state.config.name.clone(), state.unaccounted.len());
    Err(OpenError::Unaccounted { name, segments })
}
