//! What a drive has done since it was made.

use zoneweave_zoned::BLOCK_BYTES;

use crate::controller::{Admission, Work};

/// Commands and blocks of one drive. Refused commands count as `failures` only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveCounters {
    /// Read commands.
    pub reads: u64,
    /// Blocks read.
    pub read_blocks: u64,
    /// Write and append commands.
    pub writes: u64,
    /// Blocks written.
    pub written_blocks: u64,
    /// Flushes, effective or not.
    pub flushes: u64,
    /// Resets that were carried out.
    pub resets: u64,
    /// Other zone management commands.
    pub zone_changes: u64,
    /// Zone reports.
    pub reports: u64,
    /// Commands answered with an error.
    pub failures: u64,
}

impl DriveCounters {
    /// Bytes of data read.
    #[must_use]
    pub const fn read_bytes(&self) -> u64 {
        self.read_blocks * BLOCK_BYTES as u64
    }

    /// Bytes of data written.
    #[must_use]
    pub const fn written_bytes(&self) -> u64 {
        self.written_blocks * BLOCK_BYTES as u64
    }

    pub(crate) fn count(&mut self, admission: &Admission) {
        self.failures += u64::from(admission.outcome.is_err());
        match &admission.work {
            Work::Nothing => {}
            Work::Read { blocks, .. } => {
                self.reads += 1;
                self.read_blocks += u64::from(blocks.0);
            }
            Work::Write { blocks, placement, .. } => {
                self.writes += 1;
                self.written_blocks += u64::from(blocks.0) * placement.copies();
            }
            Work::Reset(_) => self.resets += 1,
            Work::ZoneChanged(_) => self.zone_changes += 1,
            Work::Report(_) => self.reports += 1,
            Work::Flush { .. } => self.flushes += 1,
        }
    }
}
