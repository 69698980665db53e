//! The log-structured volume as its array sees it.

use std::cell::{Cell, Ref, RefMut};
use std::rc::Rc;

use zoneweave_runtime::{Gate, Handle};

use crate::array::repair::faults::{Recorder, RecordsFaults, in_snapshot};
use crate::array::state::Array;
use crate::array::stop::StopReason;
use crate::array::superblock_logs::SuperblockLog;
use crate::array::volume::{ArrayVolume, VolumeNumbers};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::core::Core;
use crate::log::engine::state::State;
use crate::log::format::RecordBody;
use crate::scheme::Column;

impl ArrayVolume for Core {
    type Body = RecordBody;

    fn array(&self) -> Ref<'_, Array> {
        Ref::map(self.state.borrow(), |state| &state.array)
    }

    fn array_mut(&self) -> RefMut<'_, Array> {
        RefMut::map(self.state.borrow_mut(), |state| &mut state.array)
    }

    fn superblock(&self) -> &SuperblockLog {
        &self.superblock
    }

    fn handle(&self) -> &Handle {
        &self.handle
    }

    fn changed(&self) -> &Gate {
        &self.changed
    }

    fn numbers(&self) -> VolumeNumbers {
        let writes = &self.state.borrow().writes;
        let (sequence_ceiling, segment_ceiling) = writes.ceilings_to_record;
        VolumeNumbers { next_sequence: writes.next_sequence, sequence_ceiling, segment_ceiling }
    }

    fn snapshot(&self, last: &RecordBody) -> Vec<RecordBody> {
        snapshot(&self.state.borrow(), last)
    }

    fn evict(&self, column: Column, reason: &str) -> bool {
        self.state.borrow_mut().fail_member(column, reason)
    }

    fn errors_counted(&self) {
        self.schedule_fault_record();
    }
}

impl RecordsFaults for Core {
    fn recorder(&self) -> &Cell<Recorder> {
        &self.recorder
    }

    fn shared(&self) -> Option<Rc<Self>> {
        self.this.upgrade()
    }

    fn is_closing(&self) -> bool {
        self.closing.get()
    }

    fn forget_damage(&self) {
        self.state.borrow_mut().forget_damage();
    }
}

/// Records the narrow list, with a segment that is about to be opened.
///
/// # Errors
/// If too few members are left.
pub(in crate::log) async fn commit_narrow_list(core: &Rc<Core>) -> Result<(), StopReason> {
    // Taken when its turn comes: a segment that died while this waited must not come back.
    let narrow = || core.state.borrow().narrow_list_record().unwrap_or(RecordBody::State);
    core.superblock.commit_latest(core, narrow).await
}

/// All current records; what `last` replaces is left out.
fn snapshot(state: &State, last: &RecordBody) -> Vec<RecordBody> {
    let mut bodies = RecordBody::of_seals(state.registry.seals.values());
    bodies.extend(state.registry.dead.records());
    if !bodies.is_empty() && mutant(Mutant::SnapshotForgetsDecisions) {
        bodies.clear();
    }
    if !matches!(last, RecordBody::NarrowList(_)) {
        bodies.extend(state.narrow_list_record());
    }
    bodies.extend(in_snapshot(&state.array, last));
    if !matches!(last, RecordBody::Checkpoint(_)) {
        bodies.push(RecordBody::Checkpoint(state.checkpoints.recorded()));
    }
    bodies
}
