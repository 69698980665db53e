//! A clean stop records which stripes of incomplete segments count, so that the next start need not
//! decide it.
//!
//! Without these seals a start without a member has a decision to record, as the absent member may
//! lack chunks that the others have. It would evict that member although no write is to come.
//!
//! Invariant: a stripe is sealed as valid only once its chunks are durable on every member in
//! service. A stop that cannot achieve that, or a crash, records nothing, or a part: the next start
//! decides about the rest.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::array::error::NotRecorded;
use crate::array::health::Members;
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::{RecordBody, SealRecord, SegmentId};
use crate::log::segment::active_zones::seal_of_written;
use crate::log::segment::table::{Phase, Segment};

/// Records the seals of all incomplete segments. No stripe is started any more.
///
/// # Errors
/// If writes have stopped, or a member does not take the seals. It stays in service: it may be on a
/// file system that is full, and misses nothing but these.
pub(in crate::log) async fn record_seals(core: &Rc<Core>) -> Result<(), NotRecorded> {
    assert!(core.closing.get(), "segments are sealed while stripes may be started");
    // A start that published nothing has written nothing either.
    if core.is_unpublished() || unsealed(&core.state.borrow()).is_empty() {
        return Ok(());
    }
    if !mutant(Mutant::DecisionBeforeFlush) {
        core.flush_members().await?;
    }
    let seals = unsealed(&core.state.borrow());
    let bodies = RecordBody::of_seals(seals.values());
    // A snapshot that one of these records begins repeats all of them.
    core.state.borrow_mut().registry.seals.extend(seals);
    for body in bodies {
        mark(Mark::CleanStopSealed);
        core.superblock.hint(core, body).await?;
    }
    Ok(())
}

/// The seals that incomplete segments lack.
fn unsealed(state: &State) -> BTreeMap<SegmentId, SealRecord> {
    let lacks_seal = |segment: &Segment| {
        let incomplete = matches!(segment.phase(), Phase::Open | Phase::Leftover);
        incomplete && segment.in_flight() == 0 && !state.registry.seals.contains_key(&segment.id)
    };
    let unsealed = state.segments.iter().filter(|(_, segment)| lacks_seal(segment));
    unsealed.map(|(_, segment)| (segment.id, seal_of_written(segment))).collect()
}
