//! The driver of a scrub: a job that can be paused and stopped, and that gives way to a rebuild. A
//! volume scrubs the units.
//!
//! A scrub holds the permit for changes of membership, so that members stay while a unit is read.
//! Between two units, or parts of one, it gives the permit to a task that waits for it: redundancy
//! that is missing goes before redundancy that may be damaged.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use serde::{Deserialize, Serialize};
use zoneweave_runtime::{Permit, Semaphore};

use crate::array::repair::rebuild::Progress;
use crate::array::stop::StopReason;
use crate::array::volume::ArrayVolume;
use crate::instrument::marks::{Mark, mark, mark_if};

/// An order to a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScrubOrder {
    /// Go on.
    #[default]
    Run,
    /// Wait for another order.
    Pause,
    /// End, with what was found so far.
    Stop,
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// It waits for another job.
    Queued,
    /// It runs.
    Running,
    /// An operator has paused it.
    Paused,
    /// It ends its unit before it pauses.
    Pausing,
    /// It ends its unit, and waits for the relocation of what it found, before it stops.
    Stopping,
}

/// The scrub, while there is one.
pub(crate) struct ScrubState {
    order: Cell<ScrubOrder>,
    state: Cell<Option<JobState>>,
    progress: Cell<Progress>,
    /// One scrub at a time.
    turn: Semaphore,
}

impl Default for ScrubState {
    fn default() -> Self {
        let (order, state, progress) = (Cell::default(), Cell::default(), Cell::default());
        Self { order, state, progress, turn: Semaphore::new(1) }
    }
}

impl ScrubState {
    /// State and progress of the scrub, if there is one.
    pub(crate) fn job(&self) -> Option<(JobState, Progress)> {
        let state = match (self.order.get(), self.state.get()?) {
            (ScrubOrder::Stop, _) => JobState::Stopping,
            (ScrubOrder::Pause, JobState::Running) => JobState::Pausing,
            // It waits for the permit or for an order, and heeds this order when it runs next.
            (ScrubOrder::Pause, _) => JobState::Paused,
            (ScrubOrder::Run, JobState::Paused) => JobState::Queued,
            (ScrubOrder::Run, state) => state,
        };
        Some((state, self.progress.get()))
    }

    /// Whether the scrub is to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.order.get() == ScrubOrder::Stop
    }

    /// Gives an order to the scrub; returns whether there is one.
    pub(crate) fn order<V: ArrayVolume>(&self, volume: &V, order: ScrubOrder) -> bool {
        let runs = self.state.get().is_some();
        if runs {
            self.order.set(order);
            volume.changed().open();
        }
        runs
    }
}

/// A volume that can be scrubbed, unit by unit: by segments or logical zones.
pub(crate) trait ScrubUnits: ArrayVolume {
    /// A unit with a column on each member.
    type Unit: Copy;

    /// The findings.
    type Report;

    /// The scrub and its orders.
    fn scrub_state(&self) -> &ScrubState;

    /// The permit for changes of membership.
    fn membership_permit(&self) -> &Semaphore;

    /// Fails if a scrub cannot go on: writes have stopped, or the volume is being closed.
    ///
    /// # Errors
    /// The reason.
    fn check_scrub(&self) -> Result<(), StopReason>;

    /// Reads and verifies a unit, and has it renewed if it is damaged. Returns the rest of it
    /// if [`Self::is_interrupted`] meanwhile: a unit may take hours on failing media.
    fn scrub_unit(
        self: &Rc<Self>,
        unit: Self::Unit,
        report: &mut Self::Report,
    ) -> impl Future<Output = Result<Option<Self::Unit>, StopReason>>;

    /// Whether the scrub has an order, or a change of membership waits for it.
    fn is_interrupted(&self) -> bool {
        self.scrub_state().order.get() != ScrubOrder::Run || self.membership_permit().is_awaited()
    }
}

/// A scrub that has begun.
pub(crate) struct Scrub<V: ScrubUnits> {
    volume: Rc<V>,
    /// The permit for changes of membership, unless another task has it.
    permit: Option<Permit>,
    _turn: Permit,
}

impl<V: ScrubUnits> Scrub<V> {
    /// Begins a scrub when no other job runs; `None` if it was stopped before.
    ///
    /// # Errors
    /// If the volume stops.
    pub(crate) async fn begin(volume: &Rc<V>) -> Result<Option<Self>, StopReason> {
        let turn = volume.scrub_state().turn.acquire().await;
        let state = volume.scrub_state();
        assert!(state.state.get().is_none(), "two scrubs at a time");
        state.order.set(ScrubOrder::Run);
        state.progress.set(Progress::default());
        state.state.set(Some(JobState::Queued));
        let mut scrub = Self { volume: volume.clone(), permit: None, _turn: turn };
        Ok(scrub.goes_on().await?.then_some(scrub))
    }

    /// Scrubs units; the first `held` of them without a break, as their owner has claimed them.
    /// Returns whether all were scrubbed.
    ///
    /// # Errors
    /// If the volume stops.
    pub(crate) async fn units(
        &mut self,
        units: &[V::Unit],
        held: usize,
        report: &mut V::Report,
    ) -> Result<bool, StopReason> {
        let total = units.len() as u64;
        for (done, unit) in (0..).zip(units) {
            self.volume.scrub_state().progress.set(Progress { done, total });
            let mut left = Some(*unit);
            while let Some(part) = left {
                if done >= held as u64 && !self.goes_on().await? {
                    return Ok(false);
                }
                assert!(self.permit.is_some(), "members may change while a unit is scrubbed");
                left = self.volume.scrub_unit(part, report).await?;
                mark_if(Mark::ScrubUnitInterrupted, || left.is_some());
            }
        }
        self.volume.scrub_state().progress.set(Progress { done: total, total });
        Ok(true)
    }

    /// No unit is read for now, and members may change. The scrub ends with the drop of this.
    pub(crate) fn release_members(&mut self) {
        self.permit = None;
    }

    /// Gives way to others and waits while paused; returns whether the scrub goes on.
    ///
    /// # Errors
    /// If the volume stops.
    pub(crate) async fn goes_on(&mut self) -> Result<bool, StopReason> {
        let volume = self.volume.clone();
        let (state, permits) = (volume.scrub_state(), volume.membership_permit());
        loop {
            volume.check_scrub()?;
            match state.order.get() {
                ScrubOrder::Stop => {
                    mark(Mark::ScrubStopped);
                    return Ok(false);
                }
                ScrubOrder::Pause => {
                    mark(Mark::ScrubPaused);
                    state.state.set(Some(JobState::Paused));
                    self.permit = None;
                    volume.changed().wait().await;
                }
                ScrubOrder::Run if self.permit.is_some() && !permits.is_awaited() => {
                    state.state.set(Some(JobState::Running));
                    return Ok(true);
                }
                ScrubOrder::Run => {
                    mark_if(Mark::ScrubGaveWay, || self.permit.is_some());
                    state.state.set(Some(JobState::Queued));
                    self.permit = None;
                    self.acquire().await;
                }
            }
        }
    }

    /// Waits for the permit, or for another order.
    async fn acquire(&mut self) {
        let volume = self.volume.clone();
        let mut permit = pin!(volume.membership_permit().acquire());
        let runs =
            || volume.scrub_state().order.get() == ScrubOrder::Run && volume.check_scrub().is_ok();
        while self.permit.is_none() && runs() {
            let changed = pin!(volume.changed().wait());
            if let Either::Left((permit, _)) = select(permit.as_mut(), changed).await {
                self.permit = Some(permit);
            }
        }
    }
}

impl<V: ScrubUnits> Drop for Scrub<V> {
    fn drop(&mut self) {
        self.volume.scrub_state().state.set(None);
        self.volume.changed().open();
    }
}
