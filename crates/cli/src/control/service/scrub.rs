//! The scrub of a server, and orders to it.

use zoneweave_raid::log::ScrubOrder;

use super::Service;
use crate::control::jobs::Current;
use crate::error::CliError;
use crate::job::{JobStatus, Scrubbed};
use crate::status::scrub_on_record;

impl Service {
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
