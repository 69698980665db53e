//! The scrub of a served zoned volume, and orders to it.

use zoneweave_raid::log::ScrubOrder;

use super::ZonedService;
use crate::control::jobs::Current;
use crate::error::CliError;
use crate::job::JobStatus;
use crate::zoned::Scrubbed;

impl ZonedService {
    /// Scrubs the volume.
    ///
    /// # Errors
    /// If there is a scrub already, and those of the volume.
    pub(super) async fn scrub(&self) -> Result<Scrubbed, CliError> {
        let state = self.volume.status().scrub_state;
        let scrub = async { Ok(Scrubbed::from(self.volume.scrub().await?)) };
        self.jobs.scrub(&self.handle, state, scrub, |what| self.note(what)).await
    }

    /// Gives an order to the scrub.
    ///
    /// # Errors
    /// If there is no scrub.
    pub(super) fn order_scrub(&self, order: ScrubOrder) -> Result<(), CliError> {
        self.volume.order_scrub(order).then_some(()).ok_or(CliError::NoScrub)
    }

    /// All jobs.
    pub(super) fn jobs(&self) -> Vec<JobStatus> {
        let status = self.volume.status();
        let progress = status.scrub.unwrap_or_default().into();
        let current = Current {
            members: &self.members(),
            slots: &self.slots,
            rebuild: status.rebuild.map(Into::into),
            waiting: self.waiting(),
            scrub: status.scrub_state.map(|state| (state.into(), progress)),
        };
        self.jobs.list(self.handle.now(), current)
    }
}
