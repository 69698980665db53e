//! The array's members in the running engine.

use std::collections::BTreeSet;
use std::rc::Rc;

use zoneweave_runtime::Nanos;
use zoneweave_zoned::{ZoneId, ZonedDevice};

use crate::array::attachment::Membership;
use crate::array::format::errors::MemberErrors;
use crate::array::format::numbers::SegmentId;
use crate::array::format::record::{MemberEntry, MemberState};
use crate::array::latency::hedge::ReadPace;
use crate::array::zone_pool::ZonePool;

/// Failures of a member's writes; a few in a row evict it.
///
/// Commands in flight at a failure may fail for the same reason, such as a controller reset, and
/// are not counted again.
#[derive(Debug, Default)]
pub(crate) struct WriteFailures {
    in_row: u32,
    noted: u64,
}

/// Number of failures recorded when a command was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailuresBefore(u64);

impl WriteFailures {
    /// To be kept with a command until its outcome is known.
    #[must_use]
    pub(crate) fn before(&self) -> FailuresBefore {
        FailuresBefore(self.noted)
    }

    /// Records a failure; returns the number in a row.
    pub(crate) fn note(&mut self, before: FailuresBefore) -> u32 {
        assert!(before.0 <= self.noted, "{} failures before, {} by now", before.0, self.noted);
        if before == self.before() {
            self.in_row += 1;
            self.noted += 1;
        }
        self.in_row
    }

    /// A command succeeded, so failures before it no longer count as a row.
    pub(crate) fn end_row(&mut self) {
        self.in_row = 0;
    }
}

/// A slot of the array and its drive, if one is attached.
pub(crate) struct Member {
    /// Its row of the member table.
    pub entry: MemberEntry,
    /// The drive, by the handle of this membership; `None` if it is missing or has failed.
    pub device: Option<Rc<dyn ZonedDevice>>,
    /// The membership of a drive that has failed, until it has ended.
    pub membership: Option<Membership>,
    /// Reason of the failure, as text.
    pub failure: Option<String>,
    /// Zones that are empty and unused.
    pub pool: ZonePool,
    /// Active zones, as far as this engine activated them, including those of no segment.
    pub active_zones: u32,
    /// Zones that stay active, as the drive finds fault with the command to finish them.
    pub unfinished: BTreeSet<ZoneId>,
    /// Written zones of unknown contents; never touched.
    pub orphan_zones: u32,
    /// Zones that failed and can never be written again, except zones that still hold segments.
    pub lost_zones: u32,
    /// Errors since they were last cleared, or since it became a member.
    pub errors: MemberErrors,
    /// Failed writes in a row.
    pub write_failures: WriteFailures,
    /// Segments given up because of it since one was filled; a few of them evict it.
    pub aborted_in_row: u32,
    /// Time of the last of them.
    pub last_aborted: Nanos,
    /// Number of the first segment opened after that.
    pub aborted_before: SegmentId,
    /// Time of the drive's last answer.
    pub seen: Nanos,
    /// Whether the last read completed on submit.
    pub answers_at_once: bool,
    /// Recent read latencies.
    pub pace: ReadPace,
}

impl Member {
    /// A member that is present if it has a device.
    #[must_use]
    pub(crate) fn new(entry: MemberEntry, device: Option<Rc<dyn ZonedDevice>>) -> Self {
        let (membership, device) = device.map(Membership::begin).unzip();
        Self {
            entry,
            device,
            membership,
            failure: None,
            pool: ZonePool::default(),
            active_zones: 0,
            unfinished: BTreeSet::new(),
            orphan_zones: 0,
            lost_zones: 0,
            errors: MemberErrors::default(),
            write_failures: WriteFailures::default(),
            aborted_in_row: 0,
            last_aborted: Nanos::ZERO,
            aborted_before: SegmentId::NONE,
            seen: Nanos::ZERO,
            answers_at_once: false,
            pace: ReadPace::default(),
        }
    }

    /// Whether its drive is present, and has a column of every segment on it.
    #[must_use]
    pub(crate) fn is_in_full_service(&self) -> bool {
        self.entry.state == MemberState::Online && self.device.is_some()
    }

    /// The drive, if it takes part in new stripes.
    #[must_use]
    pub(crate) fn writable(&self) -> Option<Rc<dyn ZonedDevice>> {
        (self.entry.state != MemberState::Failed).then(|| self.device.clone()).flatten()
    }
}
