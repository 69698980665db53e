//! Counters of a running volume, and the progress of its long jobs.
use serde::Serialize;

use crate::log::engine::class::Lifetime;
use crate::log::format::StreamKind;

/// Events since the start of the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Blocks written by users.
    pub user_blocks_written: u64,
    /// Blocks read by users.
    pub user_blocks_read: u64,
    /// Blocks relocated to reclaim segments.
    pub relocated_blocks: u64,
    /// Data blocks of padding.
    pub padding_blocks: u64,
    /// Parity blocks written.
    pub parity_blocks: u64,
    /// Blocks of checkpoints of the index.
    pub checkpoint_blocks: u64,
    /// Pages of the index that were loaded on demand.
    pub index_pages_read: u64,
    /// Pages of the index that were written for eviction.
    pub index_pages_written: u64,
    /// Checkpoints that were completed.
    pub checkpoints: u64,
    /// Segments reset for reuse.
    pub segments_reclaimed: u64,
    /// Segments given up because a write failed.
    pub segments_abandoned: u64,
    /// Blocks reconstructed for reads.
    pub degraded_reads: u64,
    /// Rows of stripe tables searched for them.
    pub table_rows_searched: u64,
    /// Reads reconstructed because their drive was known to be held up.
    pub reads_around: u64,
    /// Reads also reconstructed because their drive was late.
    pub reads_hedged: u64,
    /// Of these, reads reconstructed before their drive answered.
    pub hedges_won: u64,
    /// By class of segments, as in [`CLASSES`](crate::log::CLASSES).
    pub classes: [ClassCounters; 4],
}

/// Blocks written to segments of a class, and the cost of reclaiming these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClassCounters {
    /// Blocks written, without padding.
    pub written_blocks: u64,
    /// Data blocks of padding.
    pub padding_blocks: u64,
    /// Blocks relocated out of its segments.
    pub moved_blocks: u64,
    /// Data blocks in its freed segments.
    pub freed_blocks: u64,
}

impl ClassCounters {
    /// The number of a class in [`CLASSES`].
    #[must_use]
    pub(in crate::log) const fn index(stream: StreamKind, lifetime: Lifetime) -> usize {
        let moved = matches!(stream, StreamKind::Relocation);
        let long = matches!(lifetime, Lifetime::Long);
        moved as usize * 2 + long as usize
    }

    /// Blocks written for each freed block: the cost of users' writes if all segments were of this
    /// class. `None` if none was freed.
    #[must_use]
    pub fn amplification(&self) -> Option<f64> {
        let gained = self.freed_blocks.saturating_sub(self.moved_blocks);
        (gained > 0).then(|| ratio(self.freed_blocks, gained))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
pub(in crate::log) fn ratio(blocks: u64, of: u64) -> f64 {
    blocks as f64 / of as f64
}
