//! A start without a member, before the first write: its decisions are not on media yet.
//!
//! A member that is missing at a start is evicted before the first write that it misses, not by the
//! start: at the next start it may be back, and another may be missing. So a start that has decided
//! everything, and has nothing to rewrite, serves reads from these decisions. The first request
//! that changes anything makes them durable, with the eviction, and starts the background tasks.
//!
//! Invariant: until then nothing is written to any drive, and no stripe counts that may lack a
//! chunk on a missing member. So the next start, whichever members it has, returns no older version
//! of any block: a group is complete and flushed before the next one begins.
//!
//! Leftovers with a known seal are no decision. All that such a seal lets count is durable, and
//! blocks of a stripe that it discards have a copy of the same sequence elsewhere, if they were
//! ever acknowledged. Even a start that does not have its record reads the same.

use std::rc::Rc;

use crate::array::state::UNRECORDED;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark};
use crate::log::engine::core::Core;
use crate::log::engine::state::{Recovering, State};
use crate::log::format::{Epoch, SealRecord};
use crate::log::recover::publish::publish;
use crate::log::recover::tasks;

/// Whether the decisions, with these new seals, may stay off media until the first write. `missing`
/// is the number of members that were missing at the start.
pub(super) fn may_wait(state: &State, seals: &[SealRecord], missing: usize) -> bool {
    let unrecorded = |count: usize, since: Epoch| count + usize::from(since == UNRECORDED);
    let changed = state.array.members.iter().map(|member| member.entry.since_epoch);
    let only_missing = changed.fold(0, unrecorded) == missing;
    let all_found =
        state.registry.hidden_segments == 0 && state.registry.unaccounted.segments.is_empty();
    // A stripe in the last group of a leftover segment may lack its chunk on a missing member, or
    // have chunks in caches only: where others are missing at the next start, it would not count.
    // A clean stop has recorded seals, so that there are no new ones.
    let all_whole = !seals.iter().any(|seal| seal.valid.contains(&true));
    missing > 0
        && all_whole
        && only_missing
        && all_found
        && state.array.stopped.is_none()
        && state.mapping.offload.is_none()
        && state.free_segments() > 0
}

/// Serves reads with decisions that are not on media yet.
pub(super) fn wait(core: &Rc<Core>, seals: Vec<SealRecord>) {
    mark(Mark::StartUnpublished);
    {
        let mut state = core.state.borrow_mut();
        state.recovering = None;
        state.array.defers_records = true;
    }
    core.unpublished.replace(Some(seals));
    tasks::start_loading(core);
}

/// Makes the decisions of the start durable, if they are not, before the first change.
///
/// # Errors
/// If writes stop.
pub(in crate::log) async fn publish_now(core: &Rc<Core>) -> Result<(), StopReason> {
    if !core.is_unpublished() {
        return Ok(());
    }
    let _one_at_a_time = core.publishing.acquire().await;
    if core.refusing.get() || core.closing.get() {
        return Err(StopReason::ShuttingDown);
    }
    let seals = match &*core.unpublished.borrow() {
        Some(seals) => seals.clone(),
        None => return core.state.borrow().array.stopped.map_or(Ok(()), Err),
    };
    mark(Mark::PublishedLate);
    {
        let mut state = core.state.borrow_mut();
        state.recovering = Some(Recovering::new(false));
        state.array.defers_records = false;
    }
    let published = publish(core, Vec::new(), seals, None).await;
    match published {
        Ok(()) => tasks::start_serving(core),
        Err(reason) => {
            let mut state = core.state.borrow_mut();
            state.array.stopped.get_or_insert(reason);
            state.recovering = None;
            // Reads go on.
            core.closing.set(core.refusing.get());
        }
    }
    core.unpublished.replace(None);
    core.changed.open();
    published
}
