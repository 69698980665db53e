//! The rules of coalescing: one write to a zone holds all chunks that wait for it, within limits.
//!
//! Coalescing needs no limits where larger writes make the drives faster, or where no request waits
//! (relocation). Otherwise [`Coalescing`] derives them from the drives' profile:
//!
//! * **Size of a write** ([`WriteLimit`]). A write takes at most half of the zone's backlog,
//!   including the write in flight. Successive writes then have similar sizes, and no request waits
//!   for one much larger write. While another zone of the drive has a similar backlog, writes are
//!   small: the drive is busy enough, and a write to one zone delays the others.
//! * **Writes in flight** ([`SegmentLoad`]). Segments that users fill at the same time get no more
//!   writes than keep the drives busy. Further blocks wait in the queue that is common to all, and
//!   go to the zone that is free first instead of one chosen early. A segment with nothing in
//!   flight is held back only while another segment accepts the same sizes and lifetimes.
//!
//! Regardless of the profile, clients that were just answered run before a partial stripe of
//! coalesced writes is closed ([`Returning`]): they may fill it.
//!
//! All of it is arithmetic without state of the engine. `chunk` and `in_flight_limit` collect the
//! backlogs and the stripes in flight; `schedule` yields.

use crate::instrument::marks::{Mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};

/// Largest coalesced write: drives are not faster beyond 256 KiB, and later chunks wait longer.
const MAX_WRITE: u32 = 64;

/// A zone whose backlog exceeds every other on its drive by this factor is the bottleneck of
/// requests. In Exp#11, one and a half is too little for 8 KiB with Ns=1 Nl=3, two and a half for
/// 16 KiB with Ns=2 Nl=2; four is as good.
const MUCH_MORE: u32 = 3;

/// Stripes in flight that each segment may always have: one being written, and one behind it.
const STRIPES: u32 = 2;

/// Writes of the preferred size in flight, beyond [`STRIPES`], for all segments with chunks of one
/// size. In Exp#11, ten are too many for 8 KiB with Nl=4: the 99th percentile is 114 to 123 us, not
/// 105. Six are too few for the hybrid workload with Ns=3 Nl=1 (215 us, not 141). Counted over
/// segments of all sizes, eight cost 4 to 10 % of the throughput of 8 KiB with Ns=1 Nl=3.
const WRITES: u32 = 8;

/// Segments with chunks of one size that have writes in flight at a time. In the hybrid workload of
/// Exp#11 with Nl=2, six for small requests give the same throughput as four, but large requests
/// then own two of eight busy zones instead of two of six: 172 us, not 151. Three are as good
/// there, but too few for four segments without others (114 us, not 105).
const SEGMENTS: u32 = 4;

/// Number of yields before a partial stripe is closed: as many as a client in this process needs
/// between an answer and its next request.
const YIELDS: u32 = 8;

/// Limits of coalesced writes of users, in blocks, for drives that are hardly faster with larger
/// writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coalescing {
    /// Largest write.
    max_write: u32,
    /// A backlog that one write could hold is split only into writes of at least this size.
    min_split: u32,
    /// Largest write while other zones of the drive have a similar backlog.
    max_write_shared: u32,
    /// Blocks in flight for all segments with chunks of one size, per drive.
    max_in_flight: u32,
}

impl Coalescing {
    /// For drives that are hardly faster with writes beyond `even_blocks`, by their profile.
    pub(super) fn new(even_blocks: u32) -> Self {
        Self {
            max_write: MAX_WRITE,
            min_split: even_blocks,
            max_write_shared: 2 * even_blocks,
            max_in_flight: WRITES * even_blocks,
        }
    }

    /// Limits of the next write to a zone, given the size of users' requests, which are not split,
    /// and the largest backlog of the other zones of the drive.
    pub(super) fn of_zone(
        self,
        max_transfer: u32,
        request_blocks: u32,
        other_blocks: u32,
    ) -> WriteLimit {
        let max_write = self.max_write.min(max_transfer);
        let min_split = self.min_split.max(request_blocks);
        let max_write_shared = max_write.min(min_split.max(self.max_write_shared));
        WriteLimit { min_split, max_write, max_write_shared, other_blocks }
    }

    /// Whether other segments have enough writes in flight to keep the drives busy, so that this
    /// one has to wait.
    pub(super) fn holds_back(self, load: SegmentLoad) -> bool {
        let SegmentLoad { chunk_blocks, in_flight, segments, stripes, busy, instead } = load;
        assert!(busy <= segments, "more busy segments than there are: {load:?}");
        let many_blocks = stripes * chunk_blocks >= self.max_in_flight;
        let enough = segments > 1 && in_flight >= STRIPES && many_blocks;
        let many = in_flight == 0 && busy >= SEGMENTS && instead;
        mark_if(Mark::EnoughBeside, || enough);
        mark_if(Mark::ManyBeside, || many);
        enough || many
    }
}

/// Stripes in flight of users' segments with chunks of one size, as one of them takes the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentLoad {
    /// Chunk size of the segments.
    pub chunk_blocks: u32,
    /// Stripes in flight of the segment in question.
    pub in_flight: u32,
    /// Open segments, the one in question included.
    pub segments: u32,
    /// Their stripes in flight.
    pub stripes: u32,
    /// Segments with stripes in flight.
    pub busy: u32,
    /// Whether a busy one accepts everything that the segment in question would.
    pub instead: bool,
}

/// Size limits of the next write to a zone, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteLimit {
    /// See [`Coalescing::min_split`].
    pub min_split: u32,
    /// Most blocks of a write, unless a single chunk has more.
    pub max_write: u32,
    /// The same, while other zones of the drive have a similar backlog.
    pub max_write_shared: u32,
    /// Largest backlog among the other zones of the drive; 0 if none is being written.
    pub other_blocks: u32,
}

impl WriteLimit {
    /// Chunks are written one by one.
    pub(super) const ALONE: Self = Self::up_to(1);

    /// All pending chunks, up to so many blocks.
    pub(super) const fn up_to(max_write: u32) -> Self {
        Self { min_split: max_write, max_write, max_write_shared: max_write, other_blocks: 0 }
    }

    /// All pending chunks, as far as that makes drives faster.
    pub(super) fn largest(max_transfer: u32) -> Self {
        Self::up_to(max_transfer.min(MAX_WRITE))
    }

    /// Most blocks of the next write for a backlog, including the write in flight.
    pub(super) fn bound(self, all_blocks: u32) -> u32 {
        let half = all_blocks / 2;
        if half < self.min_split {
            return self.max_write;
        }
        let much_more = all_blocks > self.other_blocks.saturating_mul(MUCH_MORE);
        half.min(if much_more { self.max_write } else { self.max_write_shared })
    }
}

/// Clients that were just answered, and may return with more before a partial stripe is closed.
#[derive(Debug, Default)]
pub(in crate::log) struct Returning {
    /// Users' blocks that were answered without a following request.
    expected: u64,
    /// Yields since the last partial stripe was closed.
    yields: u32,
}

impl Returning {
    /// Records that a block of users was answered.
    pub(in crate::log) fn record_answer(&mut self) {
        self.expected += 1;
    }

    /// Records that users requested a write of so many blocks.
    pub(in crate::log) fn record_request(&mut self, blocks: u64) {
        self.expected = self.expected.saturating_sub(blocks);
    }

    /// Whether to yield before a partial stripe is closed.
    #[must_use]
    pub(in crate::log) fn are_awaited(&self) -> bool {
        self.expected > 0 && (self.yields < YIELDS || mutant(Mutant::OthersRunForEver))
    }

    /// Records a yield.
    pub(in crate::log) fn record_yield(&mut self) {
        assert!(
            self.yields < YIELDS || mutant(Mutant::OthersRunForEver),
            "{} yields before a partial stripe",
            self.yields
        );
        self.yields += 1;
    }

    /// Records that a stripe is taken. If it is partial, or ahead of one that was ready before, the
    /// expected clients were not about to write.
    pub(in crate::log) fn record_taken(&mut self, ahead: bool, fills: bool) {
        if !fills {
            self.expected = 0;
        }
        if !ahead {
            self.yields = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_derive_from_the_profile_and_from_requests() {
        let limit = |max_transfer, request_blocks| {
            let limit = Coalescing::new(4).of_zone(max_transfer, request_blocks, 3);
            (limit.min_split, limit.max_write, limit.max_write_shared, limit.other_blocks)
        };
        assert_eq!(limit(1024, 1), (4, 64, 8, 3));
        assert_eq!(limit(1024, 16), (16, 64, 16, 3), "no request is split");
        assert_eq!(limit(6, 16), (16, 6, 6, 3), "the drive takes no more");
        assert_eq!(WriteLimit::largest(1024), WriteLimit::up_to(64));
        assert_eq!(WriteLimit::largest(16), WriteLimit::up_to(16));
    }

    #[test]
    fn a_segment_waits_while_others_keep_the_drives_busy() {
        let waits = |load| Coalescing::new(4).holds_back(load);
        let load = SegmentLoad {
            chunk_blocks: 4,
            in_flight: 2,
            segments: 4,
            stripes: 8,
            busy: 2,
            instead: true,
        };
        assert!(waits(load));
        assert!(!waits(SegmentLoad { stripes: 7, ..load }), "too few blocks in flight");
        assert!(!waits(SegmentLoad { in_flight: 1, ..load }), "nothing waits behind its stripe");
        assert!(!waits(SegmentLoad { segments: 1, busy: 1, ..load }), "it has no others beside it");
        let idle = SegmentLoad { in_flight: 0, busy: 4, ..load };
        assert!(waits(idle));
        assert!(!waits(SegmentLoad { busy: 3, ..idle }), "few segments are busy");
        assert!(!waits(SegmentLoad { instead: false, ..idle }), "no other takes its blocks");
    }

    #[test]
    fn clients_are_awaited_for_a_few_yields() {
        let mut returning = Returning::default();
        assert!(!returning.are_awaited());
        returning.record_answer();
        assert!(returning.are_awaited());
        (0..YIELDS).for_each(|_| returning.record_yield());
        assert!(!returning.are_awaited(), "they would have come");
        returning.record_taken(false, true);
        assert!(returning.are_awaited());
        returning.record_request(1);
        assert!(!returning.are_awaited(), "they have come");
    }
}
