//! Faults on media: the errors of the members, and the lost ranges of the volume.
//!
//! They outlive a restart, until an operator clears them: of a lost block, the only other trace is
//! an error whenever it is read. A lost range and the first error of a kind are recorded at once,
//! at most once a second. The errors of a drive that keeps failing are recorded each time that they
//! have doubled, so that it cannot wear out the superblocks of all members. Every snapshot has the
//! present numbers, and the close of the volume records the last. No request waits for that, so a
//! crash may cost the newest.
//!
//! Invariant: every later start reads the recorded faults, as snapshots of the superblock repeat
//! it. Faults are cleared only by a record that every member in service has. If an order to clear
//! them fails, they are recorded anew, and a start lists what the record of any of these members
//! has.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use zoneweave_runtime::Nanos;

use crate::array::error::NotRecorded;
use crate::array::format::errors::MemberErrors;
use crate::array::format::faults::Faults;
use crate::array::format::record::{MemberUuid, VolumeBody};
use crate::array::state::Array;
use crate::array::stop::StopReason;
use crate::array::volume::ArrayVolume;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};

/// Pause between two records: damage is often found in thousands of blocks, one after the other,
/// and a superblock zone takes a thousand records.
const PAUSE: Nanos = Nanos::from_secs(1);

/// Pause behind a record that no member took: the file systems of image files may be full.
const PAUSE_REFUSED: Nanos = Nanos::from_secs(60);

/// The task that records faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Recorder {
    /// The start has not made its decisions durable: nothing is recorded yet.
    #[default]
    Waits,
    /// Nothing is to be recorded.
    Idle,
    /// It runs.
    Runs,
}

/// A volume that keeps its faults on media.
pub(crate) trait RecordsFaults: ArrayVolume {
    /// The task that records them.
    fn recorder(&self) -> &Cell<Recorder>;

    /// The volume, for that task; `None` while it is being made or dropped.
    fn shared(&self) -> Option<Rc<Self>>;

    /// Whether the volume is being closed.
    fn is_closing(&self) -> bool;

    /// Damage that is met again counts again.
    fn forget_damage(&self);

    /// Has faults recorded, if no task is about to do so.
    fn schedule_fault_record(&self) {
        if self.recorder().get() == Recorder::Idle
            && !self.is_closing()
            && let Some(volume) = self.shared()
        {
            self.recorder().set(Recorder::Runs);
            self.handle().spawn("faults", run(volume));
        }
    }
}

/// Begins to record faults, also those that the start has found.
pub(crate) fn begin<V: RecordsFaults>(volume: &V) {
    volume.recorder().set(Recorder::Idle);
    if is_due(volume) {
        volume.schedule_fault_record();
    }
}

/// Records faults until there are none that have to be on record.
async fn run<V: RecordsFaults>(mut volume: Rc<V>) {
    assert!(volume.recorder().get() == Recorder::Runs, "two tasks record faults");
    while !volume.is_closing() && is_due(&*volume) {
        let pause = match record(&volume).await {
            Ok(()) => PAUSE,
            Err(NotRecorded::Refused { .. }) => PAUSE_REFUSED,
            Err(NotRecorded::Stopped(_)) => break,
        };
        // A volume that closes meanwhile does not keep its drives for this task.
        let (handle, weak) = (volume.handle().clone(), Rc::downgrade(&volume));
        drop(volume);
        let end = handle.now() + pause;
        let goes_on = || weak.upgrade().is_some_and(|volume| !volume.is_closing());
        while handle.now() < end && goes_on() {
            handle.sleep(PAUSE.min(end.since(handle.now()))).await;
        }
        match weak.upgrade() {
            Some(again) => volume = again,
            None => return,
        }
    }
    volume.recorder().set(Recorder::Idle);
}

/// Whether the faults on media are the known ones.
fn is_recorded<V: RecordsFaults>(volume: &V) -> bool {
    let array = volume.array();
    let known = array.faults();
    match &array.recorded_faults {
        Some(recorded) => *recorded == known,
        None => known.are_none(),
    }
}

/// Whether the known faults have to be on record before the volume closes.
fn is_due<V: RecordsFaults>(volume: &V) -> bool {
    let array = volume.array();
    let known = array.faults();
    match &array.recorded_faults {
        Some(recorded) => recorded.are_outdated_by(&known),
        None => !known.are_none(),
    }
}

/// Known faults, as a record has them.
#[derive(Default)]
struct Seen(RefCell<Option<(Faults, Vec<MemberUuid>)>>);

impl Seen {
    /// Takes the known faults.
    fn take_of<V: ArrayVolume>(&self, volume: &V) -> Faults {
        let array = volume.array();
        let faults = array.faults();
        let members = array.members.iter().map(|member| member.entry.uuid).collect();
        self.0.replace(Some((faults.clone(), members)));
        faults
    }

    /// The faults that were taken, and the drives in the slots then.
    fn taken(self) -> (Faults, Vec<MemberUuid>) {
        self.0.into_inner().expect("the record was made")
    }

    /// The faults that were taken are on record.
    fn are_recorded<V: ArrayVolume>(self, volume: &V) {
        mark(Mark::FaultsRecorded);
        let (mut faults, members) = self.taken();
        let mut array = volume.array_mut();
        assert!(members.len() == array.members.len(), "faults of another array");
        for ((errors, then), now) in faults.errors.iter_mut().zip(members).zip(&array.members) {
            // Another drive got the slot meanwhile.
            if then != now.entry.uuid {
                *errors = MemberErrors::default();
            }
        }
        array.recorded_faults = Some(faults);
    }
}

/// Makes the known faults durable.
///
/// # Errors
/// If too few members are left, or none takes the record.
async fn record<V: RecordsFaults>(volume: &Rc<V>) -> Result<(), NotRecorded> {
    let seen = Seen::default();
    let body = || V::Body::of_faults(seen.take_of(&**volume));
    volume.superblock().report_latest(volume, body).await?;
    seen.are_recorded(&**volume);
    Ok(())
}

/// Makes the known faults durable on every member in service: no start lists what they lack now.
///
/// # Errors
/// If too few members are left.
pub(crate) async fn record_everywhere<V: RecordsFaults>(volume: &Rc<V>) -> Result<(), StopReason> {
    let seen = Seen::default();
    let body = || V::Body::of_faults(seen.take_of(&**volume));
    volume.superblock().commit_latest(volume, body).await?;
    seen.are_recorded(&**volume);
    Ok(())
}

/// Forgets the known faults, once that is durable, and returns them. Faults found meanwhile stay.
/// `taken` gets them before the record is written.
///
/// # Errors
/// If too few members are left, or one of them does not take the record. The faults stay, and are
/// returned with the reason.
pub(crate) async fn clear<V: RecordsFaults>(
    volume: &Rc<V>,
    taken: impl FnOnce(&Faults),
) -> Result<Faults, (Faults, NotRecorded)> {
    let seen = Seen::default();
    let body = || {
        let faults = seen.take_of(&**volume);
        taken(&faults);
        V::Body::of_faults(Faults::none_of(faults.errors.len()))
    };
    let done = match mutant(Mutant::FaultsClearedInMemory) {
        true => {
            drop(body());
            Ok(())
        }
        false => volume.superblock().order_latest(volume, body).await,
    };
    let (seen, members) = seen.taken();
    {
        let mut array = volume.array_mut();
        // Also if it failed: some members may have the record.
        array.recorded_faults = Some(Faults::none_of(members.len()));
        mark_if(Mark::ClearFailed, || done.is_err());
        if done.is_ok() {
            array.forget_faults(&seen, &members);
        }
    }
    if done.is_ok() {
        volume.forget_damage();
    }
    volume.schedule_fault_record();
    match done {
        Ok(()) => Ok(seen),
        Err(error) => Err((seen, error)),
    }
}

/// Records the last faults of a volume that closes.
pub(crate) async fn record_last<V: RecordsFaults>(volume: &Rc<V>) {
    if volume.recorder().get() != Recorder::Waits && !is_recorded(&**volume) {
        // A volume that cannot be written keeps its last record.
        let _not_recorded = record(volume).await;
    }
}

/// Makes the newest scrubs durable.
///
/// # Errors
/// If too few members are left, or none takes the record.
pub(crate) async fn record_scrubs<V: ArrayVolume>(volume: &Rc<V>) -> Result<(), NotRecorded> {
    let body = || V::Body::of_scrubs(volume.array().scrubs.clone());
    volume.superblock().report_latest(volume, body).await
}

/// The records of faults and scrubs in a snapshot; without the one that `last` replaces.
pub(crate) fn in_snapshot<B: VolumeBody>(array: &Array, last: &B) -> Vec<B> {
    let mut bodies = Vec::new();
    if last.faults().is_none() && !mutant(Mutant::FaultsForgotten) {
        let faults = array.faults();
        let ever = array.recorded_faults.is_some() || !faults.are_none();
        bodies.extend(ever.then(|| B::of_faults(faults)));
    }
    let is_scrubbed = !array.scrubs.0.is_empty() && !mutant(Mutant::ScrubsForgotten);
    if last.scrubs().is_none() && is_scrubbed {
        bodies.push(B::of_scrubs(array.scrubs.clone()));
    }
    bodies
}
