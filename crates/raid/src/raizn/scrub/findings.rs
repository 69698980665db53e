//! The findings of a scrub.

use serde::Serialize;

use crate::scheme::ColumnSet;

/// Places with wrong parity that are listed; more are only counted.
const LISTED_MOST: usize = 16;

/// Findings of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Logical zones with data.
    pub zones: u64,
    /// Blocks read and verified, parity included.
    pub blocks: u64,
    /// Blocks that their drives cannot read, or that do not verify, when they are read once more.
    pub damaged: u64,
    /// Damaged blocks that were rebuilt and moved to the parity log.
    pub relocated: u64,
    /// Damaged blocks that are rebuilt whenever they are read: their drive's parity log or their
    /// zone's record has no room for more.
    pub left: u64,
    /// Damaged blocks that cannot be rebuilt.
    pub unrepairable: u64,
    /// Blocks that were not read, for a reason other than damage.
    pub failed_reads: u64,
    /// Places of stripes whose parity is wrong although every block could be read.
    pub mismatches: u64,
    /// The first of them.
    pub mismatched: Vec<Mismatch>,
    /// Slots whose columns were not read, or not all of them: their drives were out of service or
    /// not rebuilt.
    pub unread: ColumnSet,
    /// Whether it was stopped before the end.
    pub stopped: bool,
}

/// A place of a stripe with wrong parity: one block of each unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Mismatch {
    /// Logical zone.
    pub zone: u32,
    /// The block of the first data unit, in the zone; the others are a stripe unit apart.
    pub block: u32,
}

impl ScrubReport {
    /// Whether everything was read.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unread.is_empty() && self.failed_reads == 0 && !self.stopped
    }

    /// Adds a place with wrong parity.
    pub(crate) fn add_mismatch(&mut self, place: Mismatch) {
        self.mismatches += 1;
        if self.mismatched.len() < LISTED_MOST {
            self.mismatched.push(place);
        }
    }
}
