//! The scrub of a server, orders to it, and its schedule.

use std::cell::Cell;
use std::rc::Rc;

use zoneweave_linux::unix_seconds;
use zoneweave_raid::log::{MemberHealth, ScrubOrder};

use super::Service;
use crate::control::Schedule;
use crate::control::jobs::Current;
use crate::error::CliError;
use crate::job::{JobStatus, Scrubbed};
use crate::status::scrub_on_record;

/// Least time between two attempts of a scheduled scrub: one may not get as far as the record.
const PAUSE: u64 = 3600;

/// The schedule of scrubs. Times are in seconds since 1970.
pub(super) struct ScrubSchedule {
    schedule: Cell<Option<Schedule>>,
    started_s: u64,
    /// The last attempt of this server.
    attempted_s: Cell<Option<u64>>,
}

impl ScrubSchedule {
    pub(super) fn new() -> Self {
        let (schedule, attempted_s) = (Cell::default(), Cell::default());
        Self { schedule, started_s: unix_seconds(), attempted_s }
    }
}

impl Service {
    /// Scrubs by a schedule from now on.
    pub(crate) fn schedule_scrubs(&self, schedule: Schedule) {
        self.scrubs.schedule.set(Some(schedule));
    }

    /// When the next scheduled scrub begins; it may be in the past.
    pub(super) fn next_scrub_s(&self, now_s: u64) -> Option<u64> {
        let ScrubSchedule { schedule, started_s, attempted_s } = &self.scrubs;
        let runs = self.volume.status().scrubs;
        let next = schedule.get()?.next(&runs, *started_s, now_s, self.config.array);
        let attempted = attempted_s.get().filter(|attempted| *attempted <= now_s);
        let again = attempted.map_or(0, |attempted| attempted.saturating_add(PAUSE));
        Some(next.max(again))
    }

    /// Begins a scheduled scrub that is due. It waits for the redundancy of the array: a scrub
    /// without a member would be incomplete, and take the member out of service after a start that
    /// has decided nothing.
    pub(crate) fn scrub_on_schedule(self: &Rc<Self>, now_s: u64) {
        let is_due = self.next_scrub_s(now_s).is_some_and(|next| next <= now_s);
        let status = self.volume.status();
        let is_whole = status.members.iter().all(|member| member.state == MemberHealth::Online);
        if !is_due || !is_whole || status.scrub_state.is_some() {
            return;
        }
        self.scrubs.attempted_s.set(Some(now_s));
        let service = self.clone();
        self.handle.spawn("scheduled scrub", async move {
            // Its end is an event, and on record.
            let _found = service.scrub().await;
        });
    }

    /// Scrubs the volume.
    ///
    /// # Errors
    /// If there is a scrub already, and those of the volume.
    pub(super) async fn scrub(&self) -> Result<Scrubbed, CliError> {
        let state = self.volume.status().scrub_state;
        let scrub = async { Ok(Scrubbed::from(scrub_on_record(&self.volume).await?)) };
        self.jobs.scrub(&self.handle, state, scrub, |what| self.note(what)).await
    }

    /// Gives an order to the scrub.
    ///
    /// # Errors
    /// If there is no scrub.
    pub(super) fn order_scrub(&self, order: ScrubOrder) -> Result<(), CliError> {
        match self.volume.order_scrub(order) {
            true => Ok(()),
            false => Err(CliError::NoScrub),
        }
    }

    /// All jobs.
    pub(super) fn jobs(&self) -> Vec<JobStatus> {
        let status = self.volume.status();
        let progress = status.scrub.unwrap_or_default().into();
        let current = Current {
            members: &status.members,
            slots: &self.slots,
            rebuild: status.rebuild.map(Into::into),
            waiting: self.waiting(),
            scrub: status.scrub_state.map(|state| (state.into(), progress)),
        };
        self.jobs.list(self.handle.now(), current)
    }
}
