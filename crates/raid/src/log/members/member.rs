//! The array's members as the running engine sees them.

use std::rc::Rc;

use serde::Serialize;
use zoneweave_runtime::Nanos;
use zoneweave_zoned::ZonedDevice;

use crate::log::format::{MemberEntry, MemberState};
use crate::log::members::attachment::Membership;
use crate::log::members::zone_pool::ZonePool;
use crate::log::read::hedge::ReadPace;

/// What went wrong with a member since the volume was started, and what was done about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemberErrors {
    /// Reads the drive failed.
    pub read: u64,
    /// Writes, resets and flushes the drive failed.
    pub write: u64,
    /// Blocks that the drive returned but that were not what was written.
    pub checksum: u64,
    /// Damaged or unreadable blocks whose contents were restored from other members.
    pub repaired: u64,
    /// Blocks that could not be restored.
    pub unrepairable: u64,
}

/// Failures of a member's writes, a few of which in a row make it fail.
///
/// What was under way when one was noted may have failed of the same, as when a controller is
/// reset: that is no failure more.
#[derive(Debug, Default)]
pub(in crate::log) struct WriteFailures {
    in_row: u32,
    noted: u64,
}

/// How many failures had been noted when something was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) struct FailuresBefore(u64);

impl WriteFailures {
    /// To be kept with what is submitted now.
    #[must_use]
    pub(in crate::log) fn before(&self) -> FailuresBefore {
        FailuresBefore(self.noted)
    }

    /// Something has failed: how many have in a row.
    pub(in crate::log) fn note(&mut self, before: FailuresBefore) -> u32 {
        if before == self.before() {
            self.in_row += 1;
            self.noted += 1;
        }
        self.in_row
    }

    /// A command succeeded, so failures before it no longer count as a row.
    pub(in crate::log) fn end_row(&mut self) {
        self.in_row = 0;
    }
}

/// A slot of the array and its drive, if one is attached.
pub(in crate::log) struct Member {
    /// Its row of the member table.
    pub entry: MemberEntry,
    /// The drive, by the handle of this membership; `None` if it is missing or has failed.
    pub device: Option<Rc<dyn ZonedDevice>>,
    /// What is left of the membership when the drive has failed.
    pub membership: Option<Membership>,
    /// Why it failed, for people.
    pub failure: Option<String>,
    /// Its free zones.
    pub pool: ZonePool,
    /// Zones it holds open or closed, as far as this engine made them so, and those of nobody.
    pub active_zones: u32,
    /// Zones that hold something nobody accounts for; never touched.
    pub orphan_zones: u32,
    /// Zones that failed and can never be written again, beside those that still hold segments.
    pub lost_zones: u32,
    /// What went wrong.
    pub errors: MemberErrors,
    /// Writes that failed in a row.
    pub write_failures: WriteFailures,
    /// Segments given up because of it since one was filled; a few of them make the member fail.
    pub spoiled_in_row: u32,
    /// When the last of them was.
    pub spoiled: Nanos,
    /// The number of the first segment that was opened after that.
    pub spoiled_before: u64,
    /// When the drive last answered.
    pub seen: Nanos,
    /// Whether it answered the last read as soon as it was asked.
    pub answers_at_once: bool,
    /// How it has lately answered reads.
    pub pace: ReadPace,
}

impl Member {
    /// A member that is present if it has a device.
    #[must_use]
    pub(in crate::log) fn new(entry: MemberEntry, device: Option<Rc<dyn ZonedDevice>>) -> Self {
        let (membership, device) = device.map(Membership::begin).unzip();
        Self {
            entry,
            device,
            membership,
            failure: None,
            pool: ZonePool::default(),
            active_zones: 0,
            orphan_zones: 0,
            lost_zones: 0,
            errors: MemberErrors::default(),
            write_failures: WriteFailures::default(),
            spoiled_in_row: 0,
            spoiled: Nanos::ZERO,
            spoiled_before: 0,
            seen: Nanos::ZERO,
            answers_at_once: false,
            pace: ReadPace::default(),
        }
    }

    /// Whether its drive is here, and has been given a column of every segment.
    #[must_use]
    pub(in crate::log) fn is_in_full_service(&self) -> bool {
        self.entry.state == MemberState::Online && self.device.is_some()
    }

    /// The drive, if it takes part in new stripes.
    #[must_use]
    pub(in crate::log) fn writable(&self) -> Option<Rc<dyn ZonedDevice>> {
        (self.entry.state != MemberState::Failed).then(|| self.device.clone()).flatten()
    }
}
