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
//! with at least `k` but not all chunks may be one that was never acknowledged, or an
//! acknowledged one with a damaged block: it cannot be told. Its newest blocks are written again
//! to a new, complete stripe before anything is served, which is right in both cases.

pub mod assemble;
mod leftover;
mod membership;
mod replay;
mod segments;

use std::rc::Rc;

use zoneweave_runtime::Handle;
use zoneweave_zoned::ZonedDevice;

use crate::log::core::Core;
use crate::log::format::{ContentKind, RecordBody, SealRecord, TrimExtent};
use crate::log::queue::{Origin, PendingBlock, PendingData, PendingTrim, Ticket};
use crate::log::read::{FoundBlock, Pin, read_places};
use crate::log::volume::Volume;
use crate::marks::{Mark, mark, mark_if};
use crate::mutants::{Mutant, mutant};
use assemble::Assembly;
use replay::Candidate;

pub use assemble::{DriveRole, DriveVerdict, OpenError, Survey, survey};
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
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Start with half of the members or fewer, as long as data can be read. Mints a new
    /// lineage: members left out are strangers from then on.
    pub force: bool,
    /// A random number, used where a new lineage is minted.
    pub lineage: u64,
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

/// Starts an array from the drives offered.
///
/// # Errors
/// If the drives are no array, or too few of one.
pub async fn open(
    handle: &Handle,
    drives: Vec<OfferedDrive>,
    options: OpenOptions,
) -> Result<(Volume, OpenReport), OpenError> {
    let Assembly { state, superblock, verdicts, forced } =
        assemble::assemble(drives, options).await?;
    let core = Core::new(handle.clone(), state, superblock);
    let mut report = OpenReport { drives: verdicts, ..OpenReport::default() };
    let found = segments::find(&core).await?;
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
    publish(&core, candidates, seals, forced).await.map_err(OpenError::Stopped)?;
    Ok((Volume::start(core), report))
}

/// Makes what recovery decided durable.
async fn publish(
    core: &Rc<Core>,
    candidates: Vec<Candidate>,
    seals: Vec<SealRecord>,
    forced: Option<u64>,
) -> Result<(), &'static str> {
    {
        let mut state = core.state.borrow_mut();
        if let Some(lineage) = forced {
            state.epoch.lineage = lineage;
            state.membership_dirty = true;
        }
        for candidate in &candidates {
            state.segments[candidate.place.slot].busy = true;
        }
    }
    core.superblock.commit_snapshot(core).await?;
    {
        let mut state = core.state.borrow_mut();
        (state.sequence_ceiling, state.segment_ceiling) = state.ceilings_to_record;
    }
    segments::reset_dead(core).await?;
    Volume::start_relocation(core);
    rescue(core, &candidates).await?;
    if !mutant(Mutant::DecisionBeforeFlush) {
        core.flush_members().await?;
    }
    for seal in seals {
        if mutant(Mutant::DecisionNotRecorded) {
            continue;
        }
        {
            let mut state = core.state.borrow_mut();
            // It may be gone already: then there is nothing left to decide on.
            let there = state.segments.iter().any(|(_, segment)| segment.id == seal.segment);
            if !there {
                mark(Mark::SealNotNeeded);
                continue;
            }
            state.seals.insert(seal.segment, seal.clone());
        }
        if mutant(Mutant::DecisionRecordedLate) {
            record_late(core, seal);
            continue;
        }
        core.superblock.commit(core, RecordBody::Seal(seal)).await?;
    }
    let mut state = core.state.borrow_mut();
    for candidate in &candidates {
        if let Some(segment) = state.segments.get_mut(candidate.place.slot) {
            segment.busy = false;
        }
    }
    state.counters = crate::log::status::Counters::default();
    drop(state);
    core.changed.open();
    Ok(())
}

/// For [`Mutant::DecisionRecordedLate`].
fn record_late(core: &Rc<Core>, seal: SealRecord) {
    let inner = core.clone();
    let commit = async move { inner.superblock.commit(&inner, RecordBody::Seal(seal)).await };
    core.handle.spawn("late seal", commit);
}

/// Blocks written again at a time.
const RESCUED_BLOCKS: usize = 512;

/// Writes the newest blocks of stripes that are readable but incomplete to new stripes, oldest
/// first, so that newer ones overrule them. Many at a time, so that stripes are full: what filled
/// one segment must not take two, for there is one in reserve.
async fn rescue(core: &Rc<Core>, candidates: &[Candidate]) -> Result<(), &'static str> {
    let data = |candidate: &Candidate| candidate.hides.is_empty();
    for run in candidates.chunk_by(|one, next| data(one) && data(next)) {
        for batch in run.chunks(RESCUED_BLOCKS) {
            let pin = |candidate: &Candidate| Pin::new(core, candidate.place.slot);
            let _pins: Vec<_> = batch.iter().map(pin).collect();
            if batch.iter().all(data) {
                rescue_data(core, batch).await?;
            }
            for extent in batch.iter().flat_map(|candidate| &candidate.hides) {
                rescue_trim(core, *extent).await?;
            }
        }
    }
    Ok(())
}

async fn rescue_trim(core: &Rc<Core>, extent: TrimExtent) -> Result<(), &'static str> {
    mark(Mark::WeakTrimRewritten);
    let (ticket, done) = Ticket::new(1);
    let trim = PendingTrim { extent, origin: Origin::User, ticket };
    core.state.borrow_mut().relocation.push_trim(trim);
    core.changed.open();
    wait(done).await
}

async fn rescue_data(core: &Rc<Core>, candidates: &[Candidate]) -> Result<(), &'static str> {
    let places: Vec<_> = candidates.iter().map(|candidate| candidate.place).collect();
    let found = read_places(core, &places).await;
    // What cannot be read was never promised: acknowledged stripes lose at most m chunks.
    mark_if(Mark::WeakBlockGone, || found.iter().any(Option::is_none));
    let holds =
        |block: &FoundBlock| matches!(block.identity.kind, ContentKind::Data | ContentKind::Lost);
    let blocks: Vec<_> = found.into_iter().flatten().filter(holds).collect();
    if blocks.is_empty() {
        return Ok(());
    }
    mark(Mark::WeakBlockRewritten);
    let (ticket, done) = Ticket::new(blocks.len() as u64);
    {
        let mut state = core.state.borrow_mut();
        for FoundBlock { data, identity } in blocks {
            state.inflight.begin_write(identity.lba.0..identity.lba.0 + 1);
            state.relocation.queue.push_back(PendingBlock::Data(PendingData {
                lba: identity.lba,
                sequence: identity.sequence,
                kind: identity.kind,
                data,
                data_checksum: identity.data_checksum,
                origin: Origin::User,
                ticket: ticket.clone(),
            }));
        }
    }
    core.changed.open();
    wait(done).await
}

async fn wait(done: crate::log::queue::TicketReceiver) -> Result<(), &'static str> {
    match done.await {
        Some(Ok(())) => Ok(()),
        _ => Err("writes stopped while the array was being recovered"),
    }
}
