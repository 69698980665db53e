//! The scrub of a server, orders to it, and its schedule.

use std::rc::Rc;

use zoneweave_raid::log::ScrubOrder;

use super::Service;
use crate::control::Schedule;
use crate::control::jobs::Current;
use crate::error::CliError;
use crate::job::{JobStatus, Scrubbed};
use crate::status::scrub_on_record;

impl Service {
    /// Scrubs by a schedule from now on.
    pub(crate) fn schedule_scrubs(&self, schedule: Schedule) {
        self.scrubs.set(schedule);
    }

    /// When the next scheduled scrub begins; it may be in the past.
    pub(super) fn next_scrub_s(&self, now_s: u64) -> Option<u64> {
        self.scrubs.next_s(&self.volume.status().scrubs, self.config.array, now_s)
    }

    /// Begins a scheduled scrub that is due.
    pub(crate) fn scrub_on_schedule(self: &Rc<Self>, now_s: u64) {
        let status = self.volume.status();
        let is_due = self.next_scrub_s(now_s).is_some_and(|next| next <= now_s);
        let is_idle = status.scrub_state.is_none();
        if !is_due || !is_idle || !self.scrubs.attempt(&status.members, now_s) {
            return;
        }
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
