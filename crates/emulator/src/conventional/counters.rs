//! Counters of a conventional drive.

/// Counters of a conventional drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConventionalCounters {
    /// Blocks that the host wrote.
    pub written_blocks: u64,
    /// Valid blocks that collecting moved.
    pub moved_blocks: u64,
    /// Blocks unmapped by trims and writes of zeros.
    pub trimmed_blocks: u64,
    /// Superblocks erased.
    pub erases: u64,
}

impl ConventionalCounters {
    /// Blocks written to flash for each block that the host wrote, parity not counted.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn write_amplification(&self) -> f64 {
        let written = self.written_blocks.max(1) as f64;
        (self.written_blocks + self.moved_blocks) as f64 / written
    }

    /// The difference to earlier counters.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            written_blocks: self.written_blocks - earlier.written_blocks,
            moved_blocks: self.moved_blocks - earlier.moved_blocks,
            trimmed_blocks: self.trimmed_blocks - earlier.trimmed_blocks,
            erases: self.erases - earlier.erases,
        }
    }
}
