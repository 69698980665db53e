//! Damage that a scrub leaves as it is: a member that is out of service has what restores it.
//!
//! Relocation would leave it as well (`reclaim/relocate/awaited`), after writing the rest of the
//! segment elsewhere for nothing.

use crate::array::health::Members;
use crate::array::repair::faults::RecordsFaults;
use crate::instrument::marks::{Mark, mark};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::segment::scan::ListedBlock;
use crate::log::segment::table::{DamagedBlock, Fate, Phase};
use crate::scheme::{Column, ColumnSet};

/// Counts a damaged block that stays as it is; returns whether it counts. It does not if its own
/// member has failed meanwhile.
pub(super) fn leave_damage(core: &Core, listed: ListedBlock, block: DamagedBlock) -> bool {
    if core.device(block.column).is_none() {
        return false;
    }
    mark(Mark::ScrubLeftDamage);
    let mut state = core.state.borrow_mut();
    state.note_awaited(&listed);
    state.count_damage(listed.0.slot, block, Fate::Found);
    drop(state);
    core.schedule_fault_record();
    true
}

/// Whether a damaged block of a column can be restored from the intact columns of its stripe only
/// together with those of members that are out of service. They keep their columns of complete
/// segments.
pub(super) fn awaits_member(
    state: &State,
    slot: SegmentSlot,
    column: Column,
    intact: ColumnSet,
) -> bool {
    let segment = &state.segments[slot];
    let scheme = segment.geometry.scheme();
    let is_out = |column: &Column| state.array.members[column.index()].device.is_none();
    let with_those = intact.union(scheme.iter().filter(is_out).collect());
    let restores = |columns: ColumnSet| {
        let sources = scheme.sources_of(column).filter(|source| columns.contains(*source));
        sources.count() >= scheme.sources_needed()
    };
    let may_wait = segment.phase() == Phase::Sealed && !segment.has_no_summary();
    may_wait && !restores(intact) && restores(with_those)
}
