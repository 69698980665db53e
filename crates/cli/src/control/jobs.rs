//! The jobs of a server: those that wait or run, and the last that ended.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Display;

use zoneweave_raid::log::{JobState, MemberHealth, MemberStatus};
use zoneweave_runtime::{Handle, Nanos};

use super::slots::Slots;
use crate::error::CliError;
use crate::events::{Place, What};
use crate::job::{Findings, Job, JobKind, JobPhase, JobStatus};
use crate::status::WaitingStatus;

/// Ended jobs that a server remembers.
const REMEMBERED: usize = 16;

/// The jobs that have ended.
#[derive(Default)]
pub(super) struct Jobs {
    /// With the time of their end, oldest first.
    ended: RefCell<VecDeque<(JobStatus, Nanos)>>,
}

/// The jobs that have not ended, as a volume and its service know them.
pub(super) struct Current<'a> {
    pub(super) members: &'a [MemberStatus],
    pub(super) slots: &'a Slots,
    /// Progress of the rebuild that runs.
    pub(super) rebuild: Option<Job>,
    /// Drives that wait for their slots.
    pub(super) waiting: Vec<WaitingStatus>,
    /// The scrub.
    pub(super) scrub: Option<(JobPhase, Job)>,
}

impl Current<'_> {
    fn jobs(self) -> Vec<JobStatus> {
        let Self { members, slots, rebuild, waiting, scrub } = self;
        // One rebuild runs at a time, and lower slots go first after a restart. A drive that is
        // being prepared is no member yet.
        let mut running = rebuild;
        let mut begun = |kind, slot, drive: String| {
            let progress = running.take();
            let phase = if progress.is_some() { JobPhase::Running } else { JobPhase::Queued };
            let drive = Some(drive).filter(|drive| !drive.is_empty());
            JobStatus { slot: Some(slot), drive, progress, ..JobStatus::of(kind, phase) }
        };
        let mut jobs = Vec::new();
        for member in members.iter().filter(|at| at.state == MemberHealth::Rebuilding) {
            jobs.push(begun(JobKind::Rebuild, member.slot, slots.label_of(member)));
        }
        for waiting in waiting {
            let kind = if waiting.returns { JobKind::Return } else { JobKind::Replace };
            jobs.push(begun(kind, waiting.slot, waiting.drive));
        }
        if let Some((phase, progress)) = scrub {
            // The segments or zones are counted when it begins.
            let progress = Some(progress).filter(|progress| progress.total > 0);
            jobs.push(JobStatus { progress, ..JobStatus::of(JobKind::Scrub, phase) });
        }
        jobs
    }
}

impl Jobs {
    /// All jobs: those that wait or run, then those that have ended, newest first.
    pub(super) fn list(&self, now: Nanos, current: Current<'_>) -> Vec<JobStatus> {
        let mut jobs = current.jobs();
        assert!(jobs.iter().all(|job| !job.phase.has_ended()), "a current job goes on");
        let ended = self.ended.borrow();
        jobs.extend(ended.iter().rev().map(|(status, at)| JobStatus {
            ended_ns_ago: Some(now.since(*at).0),
            ..status.clone()
        }));
        jobs
    }

    /// Remembers the end of a job of a slot.
    pub(super) fn slot_ended(
        &self,
        now: Nanos,
        kind: JobKind,
        slot: usize,
        drive: &dyn Display,
        result: &Result<(), impl Display>,
    ) {
        let phase = if result.is_ok() { JobPhase::Done } else { JobPhase::Failed };
        let status = JobStatus {
            slot: u8::try_from(slot).ok(),
            drive: Some(drive.to_string()),
            outcome: result.as_ref().err().map(ToString::to_string),
            ..JobStatus::of(kind, phase)
        };
        self.remember(status, now);
    }

    /// Runs the rebuilds that a restart interrupted, remembers their ends and notes both.
    pub(super) async fn resume(
        &self,
        clock: &Handle,
        places: Vec<Place>,
        resuming: impl Future<Output = Result<(), impl Display>>,
        note: impl Fn(What),
    ) {
        let kind = JobKind::Rebuild;
        for place in &places {
            note(What::began(kind, place.clone(), "the interrupted rebuild goes on"));
        }
        let resumed = resuming.await;
        let words = ("the interrupted rebuild is complete", "the interrupted rebuild failed");
        for place in places {
            let drive = place.drive.as_deref().unwrap_or_default();
            self.slot_ended(clock.now(), kind, place.slot.into(), &drive, &resumed);
            note(What::ended(kind, place, &resumed, words));
        }
    }

    /// Runs a scrub of a volume, remembers its end and notes both; `state` is that of the volume's
    /// scrub, if there is one.
    ///
    /// # Errors
    /// If there is a scrub already, and those of the volume.
    pub(super) async fn scrub<F: Findings>(
        &self,
        clock: &Handle,
        state: Option<JobState>,
        scrub: impl Future<Output = Result<F, CliError>>,
        note: impl Fn(What),
    ) -> Result<F, CliError> {
        // The volume enters a scrub before another request is answered.
        if let Some(state) = state {
            return Err(CliError::ScrubRuns { state: JobPhase::from(state).word() });
        }
        let (job, place) = (JobKind::Scrub, None);
        note(What::JobBegan { job, place: None, detail: "begins".to_owned() });
        let found = scrub.await;
        let (phase, outcome) = match &found {
            Err(error) => (JobPhase::Failed, format!("failed: {error}")),
            Ok(found) if found.incomplete().is_some() => (JobPhase::Incomplete, found.outcome()),
            Ok(found) => (JobPhase::Done, found.outcome()),
        };
        let ended = JobStatus { outcome: Some(outcome.clone()), ..JobStatus::of(job, phase) };
        self.remember(ended, clock.now());
        note(What::JobEnded { job, place, phase, detail: outcome });
        found
    }

    fn remember(&self, status: JobStatus, now: Nanos) {
        assert!(status.phase.has_ended(), "a job that goes on is no history");
        let mut ended = self.ended.borrow_mut();
        if ended.len() >= REMEMBERED {
            ended.pop_front();
        }
        ended.push_back((status, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server for years has many scrubs.
    #[test]
    fn only_the_last_jobs_are_remembered() {
        let jobs = Jobs::default();
        for at in 0..100 {
            let done = JobStatus::of(JobKind::Scrub, JobPhase::Done);
            jobs.remember(done, Nanos::from_secs(at));
        }
        let slots = Slots::default();
        let waiting = WaitingStatus { slot: 1, drive: "/n".to_owned(), returns: false };
        let current = Current {
            members: &[],
            slots: &slots,
            rebuild: None,
            waiting: vec![waiting],
            scrub: Some((JobPhase::Paused, Job { done: 1, total: 4 })),
        };
        let listed = jobs.list(Nanos::from_secs(100), current);
        let begun: Vec<_> = listed[..2].iter().map(|job| (job.kind, job.phase)).collect();
        assert_eq!(
            begun,
            [(JobKind::Replace, JobPhase::Queued), (JobKind::Scrub, JobPhase::Paused)]
        );
        assert_eq!(listed.len(), 2 + REMEMBERED);
        assert_eq!(listed[2].ended_ns_ago, Some(Nanos::from_secs(1).0));
    }
}
