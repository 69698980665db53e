//! The scrub of a server, and orders to it.

use zoneweave_raid::log::ScrubOrder;
use zoneweave_zoned::BLOCK_BYTES;

use super::Service;
use crate::control::jobs::Current;
use crate::error::CliError;
use crate::format::bytes;
use crate::job::{JobPhase, JobStatus, Scrubbed};

impl Service {
    /// Scrubs the volume.
    ///
    /// # Errors
    /// If there is a scrub already, and those of the volume.
    pub(super) async fn scrub(&self) -> Result<Scrubbed, CliError> {
        // The volume enters a scrub before another request is answered.
        if let Some(state) = self.volume.status().scrub_state {
            return Err(CliError::ScrubRuns { state: JobPhase::from(state).word() });
        }
        self.note("scrub: begins");
        let scrubbed = self.volume.scrub().await;
        let scrubbed = scrubbed.map(Scrubbed::from).map_err(CliError::from);
        let outcome = match &scrubbed {
            Ok(found) => outcome(found),
            Err(error) => format!("failed: {error}"),
        };
        self.note(format_args!("scrub: {outcome}"));
        self.jobs.scrub_ended(self.handle.now(), &scrubbed, outcome);
        scrubbed
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

/// The outcome of a scrub, for the log.
fn outcome(found: &Scrubbed) -> String {
    let findings = findings(found);
    match found.incomplete() {
        Some(why) => format!("{findings}; INCOMPLETE: {why}"),
        None => findings,
    }
}

fn findings(found: &Scrubbed) -> String {
    let size = |blocks: u64| bytes(blocks * BLOCK_BYTES as u64);
    let (read, lost) = (size(found.blocks), found.unrepairable + found.lost_before);
    match (found.damaged, lost, found.parity_mismatches) {
        (0, 0, 0) if found.incomplete().is_some() => {
            format!("ended: {read} verified, no damage in what was read")
        }
        (0, 0, 0) => format!("ended: {read} verified, no damage"),
        (damaged, 0, 0) => format!("ended: {read} verified, {} repaired", size(damaged)),
        (damaged, lost, mismatches) => format!(
            "ended: {read} verified, {} damaged, {} lost, {mismatches} stripes do not match their \
             parity",
            size(damaged),
            size(lost)
        ),
    }
}
