//! Faults on media: the errors of the members, and the lost ranges of the volume.
//!
//! They outlive a restart, until an operator clears them: of a lost block, the only other trace is
//! an error whenever it is read. A lost range and the first error of a kind are recorded at once,
//! at most once a second. The errors of a drive that keeps failing are recorded each time that they
//! have doubled, so that it cannot wear out the superblocks of all members. Every snapshot has the
//! present numbers, and the close of the volume records the last. No request waits for that, so a
//! crash may cost the newest.
//!
//! Invariant: what was recorded is read by every later start, as snapshots of the superblock repeat
//! it. Faults are cleared only by a record that every member in service has. If an order to clear
//! them fails, they are recorded anew, and a start lists what the record of any of these members
//! has.

use std::cell::RefCell;
use std::rc::Rc;

use zoneweave_runtime::Nanos;

use crate::array::error::NotRecorded;
use crate::array::format::faults::Faults;
use crate::array::format::record::MemberUuid;
use crate::array::member::MemberErrors;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::log::engine::core::{Core, Recorder};
use crate::log::format::RecordBody;

/// Pause between two records: damage is often found in thousands of blocks, one after the other,
/// and a superblock zone takes a thousand records.
const PAUSE: Nanos = Nanos::from_secs(1);

/// Pause behind a record that no member took: the file systems of image files may be full.
const PAUSE_REFUSED: Nanos = Nanos::from_secs(60);

/// Begins to record faults, also those that the start has found.
pub(in crate::log) fn begin(core: &Core) {
    core.recorder.set(Recorder::Idle);
    if is_due(core) {
        core.schedule_fault_record();
    }
}

impl Core {
    /// Has faults recorded, if no task is about to do so.
    pub(in crate::log) fn schedule_fault_record(&self) {
        if self.recorder.get() == Recorder::Idle
            && !self.closing.get()
            && let Some(core) = self.this.upgrade()
        {
            self.recorder.set(Recorder::Runs);
            self.handle.spawn("faults", run(core));
        }
    }
}

/// Records faults until there are none that have to be on record.
async fn run(mut core: Rc<Core>) {
    while !core.closing.get() && is_due(&core) {
        let pause = match record(&core).await {
            Ok(()) => PAUSE,
            Err(NotRecorded::Refused { .. }) => PAUSE_REFUSED,
            Err(NotRecorded::Stopped(_)) => break,
        };
        // A volume that closes meanwhile does not keep its drives for this task.
        let (handle, volume) = (core.handle.clone(), Rc::downgrade(&core));
        drop(core);
        handle.sleep(pause).await;
        match volume.upgrade() {
            Some(again) => core = again,
            None => return,
        }
    }
    core.recorder.set(Recorder::Idle);
}

/// Whether the faults on media are those that are known.
fn is_recorded(core: &Core) -> bool {
    let array = &core.state.borrow().array;
    let known = array.faults();
    match &array.recorded_faults {
        Some(recorded) => *recorded == known,
        None => known.are_none(),
    }
}

/// Whether the known faults have to be on record before the volume closes.
fn is_due(core: &Core) -> bool {
    let array = &core.state.borrow().array;
    let known = array.faults();
    match &array.recorded_faults {
        Some(recorded) => recorded.are_outdated_by(&known),
        None => !known.are_none(),
    }
}

/// Makes the known faults durable.
///
/// # Errors
/// If too few members are left, or none takes the record.
pub(in crate::log) async fn record(core: &Rc<Core>) -> Result<(), NotRecorded> {
    let recorded: RefCell<Option<(Faults, Vec<MemberUuid>)>> = RefCell::default();
    let body = || {
        let array = &core.state.borrow().array;
        let members = array.members.iter().map(|member| member.entry.uuid).collect();
        recorded.replace(Some((array.faults(), members)));
        RecordBody::Faults(array.faults())
    };
    core.superblock.report_latest(core, body).await?;
    mark(Mark::FaultsRecorded);
    let (mut faults, members) = recorded.take().expect("the record was made");
    let array = &mut core.state.borrow_mut().array;
    for ((errors, then), now) in faults.errors.iter_mut().zip(members).zip(&array.members) {
        // Another drive got the slot meanwhile.
        if then != now.entry.uuid {
            *errors = MemberErrors::default();
        }
    }
    array.recorded_faults = Some(faults);
    Ok(())
}

/// Forgets the known faults, once that is durable. What is found meanwhile stays.
///
/// # Errors
/// If too few members are left, or one of them does not take the record. The faults stay.
pub(in crate::log) async fn clear(core: &Rc<Core>) -> Result<(), NotRecorded> {
    let seen: RefCell<Option<(Faults, Vec<MemberUuid>)>> = RefCell::default();
    let body = || {
        let array = &core.state.borrow().array;
        let members = array.members.iter().map(|member| member.entry.uuid).collect();
        seen.replace(Some((array.faults(), members)));
        RecordBody::Faults(Faults::none_of(array.members.len()))
    };
    let done = core.superblock.order_latest(core, body).await;
    let (seen, members) = seen.take().expect("the record was made");
    {
        let mut state = core.state.borrow_mut();
        // Also if it failed: some members may have the record.
        state.array.recorded_faults = Some(Faults::none_of(members.len()));
        mark_if(Mark::ClearFailed, || done.is_err());
        if done.is_ok() {
            state.array.forget_faults(&seen, &members);
            state.forget_damage();
        }
    }
    core.schedule_fault_record();
    done
}

/// Records the last faults of a volume that closes.
pub(in crate::log) async fn record_last(core: &Rc<Core>) {
    if !core.is_unpublished() && !is_recorded(core) {
        // A volume that cannot be written keeps what was recorded before.
        let _not_recorded = record(core).await;
    }
}

/// Makes the newest scrubs durable.
///
/// # Errors
/// If too few members are left, or none takes the record.
pub(in crate::log) async fn record_scrubs(core: &Rc<Core>) -> Result<(), NotRecorded> {
    let body = || RecordBody::Scrubs(core.state.borrow().array.scrubs.clone());
    core.superblock.report_latest(core, body).await
}
