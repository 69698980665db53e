//! Counters of a drive since it was made.

use zoneweave_zoned::BLOCK_BYTES;

use super::admission::{Admission, Work};

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
    /// Zones that were reset.
    pub resets: u64,
    /// Zones that were managed otherwise.
    pub zone_changes: u64,
    /// Zone reports and lists of changed zones.
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

    /// Commands that did something.
    #[must_use]
    pub const fn commands(&self) -> u64 {
        self.reads + self.writes + self.flushes + self.resets + self.zone_changes + self.reports
    }

    pub(crate) fn count(&mut self, admission: &Admission) {
        self.failures += u64::from(admission.outcome.is_err());
        match &admission.work {
            Work::Nothing => {}
            Work::Read { blocks, .. } => {
                self.reads += 1;
                self.read_blocks += u64::from(blocks.0);
            }
            Work::ReadAcross { parts, .. } => {
                self.reads += 1;
                let blocks = parts.iter().map(|part| u64::from(part.blocks.0));
                self.read_blocks += blocks.sum::<u64>();
            }
            Work::Write { blocks, placement, .. } => {
                self.writes += 1;
                self.written_blocks += u64::from(blocks.0) * placement.copies();
            }
            Work::Reset(_) => self.resets += 1,
            Work::ResetAll(zones) => self.resets += zones.len() as u64,
            Work::ZoneChanged(_) | Work::Extended(_) => self.zone_changes += 1,
            Work::ZonesChanged(zones) => self.zone_changes += zones.len() as u64,
            Work::Report(_) | Work::Changed(_) => self.reports += 1,
            Work::Flush { .. } => self.flushes += 1,
        }
    }
}
