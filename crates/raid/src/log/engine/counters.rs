//! Counters of a running volume, and the progress of its long jobs.
use serde::Serialize;

use crate::log::format::StreamKind;
use crate::log::reclaim::amplification::ratio;
use crate::log::write::lane::Lifetime;

/// What happened since the volume was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Blocks written by users.
    pub user_blocks_written: u64,
    /// Blocks read by users.
    pub user_blocks_read: u64,
    /// Blocks moved to reclaim segments.
    pub relocated_blocks: u64,
    /// Data blocks of padding.
    pub padding_blocks: u64,
    /// Parity blocks.
    pub parity_blocks: u64,
    /// Blocks of checkpoints of the index.
    pub checkpoint_blocks: u64,
    /// Pages of the index that were read because somebody asked for them.
    pub index_pages_read: u64,
    /// Pages of the index that were written to leave memory.
    pub index_pages_written: u64,
    /// Checkpoints that were completed.
    pub checkpoints: u64,
    /// Segments reclaimed.
    pub segments_reclaimed: u64,
    /// Segments given up because a write failed.
    pub segments_abandoned: u64,
    /// Blocks read through the redundancy.
    pub degraded_reads: u64,
    /// Rows of stripe tables looked at for them.
    pub table_rows_searched: u64,
    /// Reads that were rebuilt because their drive was known to be held up.
    pub reads_around: u64,
    /// Reads that were rebuilt, too, because their drive was late.
    pub reads_hedged: u64,
    /// Those of them that were rebuilt before their drive answered.
    pub hedges_won: u64,
    /// By class of segments, as in [`CLASSES`](crate::log::CLASSES).
    pub classes: [ClassCounters; 4],
}

/// How far a long job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Segments done.
    pub done: u64,
    /// Segments in all, fixed when the job started.
    pub total: u64,
}

/// What was written to segments of a class, and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClassCounters {
    /// Blocks written, without padding.
    pub written_blocks: u64,
    /// Data blocks of padding.
    pub padding_blocks: u64,
    /// Blocks moved out of its segments.
    pub moved_blocks: u64,
    /// Data blocks of those that were freed.
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

    /// Blocks written for each that is freed: what users' writes would cost if all segments were
    /// like these. None while none were freed.
    #[must_use]
    pub fn amplification(&self) -> Option<f64> {
        let gained = self.freed_blocks.saturating_sub(self.moved_blocks);
        (gained > 0).then(|| ratio(self.freed_blocks, gained))
    }
}
