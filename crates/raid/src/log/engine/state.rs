//! The state of the engine, and its decisions: synchronous code.
//!
//! Async code borrows the state, decides, drops the borrow, awaits I/O, borrows again and applies
//! the outcome. Nothing here does I/O or waits.
//!
//! Invariants, asserted: an index entry points into a segment that is not dead; a segment's valid
//! count is the number of index entries that point into it, tombstone blocks counting once;
//! assigned sequences stay below the ceiling on media.

use std::collections::{BTreeMap, BTreeSet};

use zoneweave_zoned::Lba;

use crate::array::state::Array;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::log::engine::address::{BlockPlace, Pba, PbaSpace, SegmentSlot};
use crate::log::engine::counters::Counters;
use crate::log::engine::geometry::SegmentGeometry;
use crate::log::format::{SealRecord, SegmentId, Sequence, StreamKind};
use crate::log::index::checkpoint::Checkpoints;
use crate::log::index::mapping::Mapping;
use crate::log::index::remap::{Move, Moved};
use crate::log::read::awaited_blocks::AwaitedBlocks;
use crate::log::reclaim::state::Reclaim;
use crate::log::segment::registry::Registry;
use crate::log::segment::table::{Phase, SegmentTable};
use crate::log::write::state::Writes;
use crate::log::write::stream::Stream;
use crate::scheme::Column;

/// Everything that decisions are made from, behind one borrow. It never does I/O.
pub(in crate::log) struct State {
    /// Members, membership and configuration.
    pub(in crate::log) array: Array,
    /// The shape that it was created with: requirements for members derive from it.
    pub(in crate::log) geometry: SegmentGeometry,
    /// The shape with the smallest capacity among those being filled.
    pub(in crate::log) smallest: SegmentGeometry,
    /// The arithmetic of its addresses.
    pub(in crate::log) space: PbaSpace,
    /// All segments, by slot.
    pub(in crate::log) segments: SegmentTable,
    /// The lists of segments in superblock records.
    pub(in crate::log) registry: Registry,
    /// The map from LBA to PBA.
    pub(in crate::log) mapping: Mapping,
    /// Streams, requests in flight, sequences.
    pub(in crate::log) writes: Writes,
    /// Relocations and the GC throttle.
    pub(in crate::log) reclaim: Reclaim,
    /// Checkpoints of the index.
    pub(in crate::log) checkpoints: Checkpoints,
    /// During recovery: the segments that the next start must not trust if this one is interrupted.
    pub(in crate::log) recovering: Option<Recovering>,
    /// Events since the start.
    pub(in crate::log) counters: Counters,
    /// Blocks that cannot be read before a member returns.
    pub(in crate::log) awaited: AwaitedBlocks,
    /// Lost blocks since the last scrub began that it has not met as damaged ones.
    pub(in crate::log) losses_unmet: u64,
    /// Damaged blocks since the last scrub began that counted as restored, and that relocation left
    /// where they are, as a member is out of service.
    pub(in crate::log) restorations_put_off: u64,
}

/// A recovery that has published nothing yet.
#[derive(Debug)]
pub(in crate::log) struct Recovering {
    /// Numbers of the segments it fills: on media they are sealed as empty.
    filled: BTreeSet<SegmentId>,
    may_begin_anew: bool,
}

impl Recovering {
    /// `may_begin_anew`: whether a drive failure may restart recovery.
    #[must_use]
    pub(in crate::log) fn new(may_begin_anew: bool) -> Self {
        Self { filled: BTreeSet::new(), may_begin_anew }
    }

    /// Whether it fills this segment.
    #[must_use]
    pub(in crate::log) fn filled(&self, segment: SegmentId) -> bool {
        self.filled.contains(&segment)
    }
}

impl Writes {
    /// The stream of a kind.
    #[must_use]
    pub(in crate::log) fn stream(&self, kind: StreamKind) -> &Stream {
        match kind {
            StreamKind::User => &self.user,
            StreamKind::Relocation => &self.relocation,
        }
    }

    /// The stream of a kind, for changes.
    #[must_use]
    pub(in crate::log) fn stream_mut(&mut self, kind: StreamKind) -> &mut Stream {
        match kind {
            StreamKind::User => &mut self.user,
            StreamKind::Relocation => &mut self.relocation,
        }
    }

    /// Assigns the next sequence.
    ///
    /// # Panics
    /// If the ceiling on media is reached: opening segments raises it long before.
    pub(in crate::log) fn take_sequence(&mut self) -> Sequence {
        let sequence = self.next_sequence;
        assert!(
            self.sequence_ceiling <= self.ceilings_to_record.0,
            "sequences up to {} are in use, and records say {}",
            self.sequence_ceiling,
            self.ceilings_to_record.0
        );
        assert!(sequence < self.sequence_ceiling, "sequence {sequence} reaches its ceiling");
        self.next_sequence = sequence.next();
        sequence
    }

    /// The segments being filled.
    #[must_use]
    pub(in crate::log) fn open_segments(&self) -> Vec<SegmentSlot> {
        self.user.open_segments().chain(self.relocation.open_segments()).collect()
    }

    /// The shape of relocation segments.
    #[must_use]
    pub(in crate::log) fn relocation_shape(&self) -> SegmentGeometry {
        let (_, lane) = self.relocation.lanes().next().expect("a stream has a lane");
        lane.geometry
    }
}

impl Mapping {
    /// Whether all of the index is in memory, so that pages need no pins.
    #[must_use]
    pub(in crate::log) fn has_whole_index(&self) -> bool {
        self.offload.is_none() && self.absent.is_none()
    }
}

impl SegmentTable {
    /// The oldest sequence of any block in a segment other than `except` and the dead.
    #[must_use]
    pub(in crate::log) fn oldest_sequence(&self, except: SegmentSlot) -> Sequence {
        let others = self.iter();
        let others = others.filter(|(slot, s)| *slot != except && s.phase() != Phase::Dead);
        others.map(|(_, segment)| segment.min_sequence()).min().unwrap_or(Sequence::MAX)
    }
}

impl State {
    /// Whether a stream has stripes in flight, or a lane is being prepared.
    #[must_use]
    pub(in crate::log) fn is_writing(&self, kind: StreamKind) -> bool {
        let mut segments = self.segments.iter();
        segments.any(|(_, segment)| segment.stream == kind && segment.in_flight() > 0)
            || self.writes.stream(kind).is_busy()
    }

    /// Records, during recovery, that valid blocks of a segment with unknown addresses are lost: so
    /// many user blocks that each of these columns does not return.
    pub(in crate::log) fn record_unaccounted(
        &mut self,
        slot: SegmentSlot,
        blocks: impl IntoIterator<Item = (Column, u64)>,
    ) {
        if self.recovering.is_some() {
            mark(Mark::Unaccounted);
            let segment = self.segments[slot].id;
            self.registry.unaccounted.segments.insert(segment);
            for (column, blocks) in blocks {
                *self.registry.unaccounted.blocks.entry(column).or_default() += blocks;
            }
        }
    }

    /// Ends a recovery whose decisions no longer hold; returns the reason.
    pub(in crate::log) fn stop_recovery(&mut self) -> StopReason {
        let may = self.recovering.as_ref().is_some_and(|recovering| recovering.may_begin_anew);
        let reason = match may {
            true => StopReason::MemberFailedDuringRecovery,
            false => StopReason::RecoveryFailedTooOften,
        };
        *self.array.stopped.get_or_insert(reason)
    }

    /// Stops filling a segment: its blocks will be relocated.
    pub(in crate::log) fn abandon(&mut self, slot: SegmentSlot) {
        if self.segments[slot].phase() != Phase::Open {
            return;
        }
        mark(Mark::SegmentGivenUp);
        self.close(slot);
        self.counters.segments_abandoned += 1;
        self.take_back(slot);
        let segment = &self.segments[slot];
        let filled = |recovering: &&Recovering| recovering.filled(segment.id);
        let recovering = self.recovering.as_ref().filter(filled);
        if segment.valid() > 0 && recovering.is_some_and(|recovering| recovering.may_begin_anew) {
            // Rewrites would take a second segment: recovery begins anew instead.
            self.array.stopped = Some(StopReason::MemberFailedDuringRecovery);
        }
    }

    /// Closes a segment to further stripes, unless it is complete.
    pub(in crate::log) fn close(&mut self, slot: SegmentSlot) {
        let segment = &mut self.segments[slot];
        if segment.phase() != Phase::Open {
            return;
        }
        segment.life.give_up();
        let kind = segment.stream;
        let left = self.writes.stream_mut(kind).leave(slot);
        assert!(left, "open segment {} is in no lane", self.segments[slot].id);
    }

    /// Seals a segment as empty that recovery is about to fill: its blocks become valid only when
    /// everything is decided. Returns the seal, to be made durable.
    pub(in crate::log) fn seal_unfilled(&mut self, slot: SegmentSlot) -> Option<SealRecord> {
        let segment = &self.segments[slot];
        let (id, generation) = (segment.id, segment.generation);
        assert!(
            segment.valid() == 0,
            "segment {id} is sealed as empty with {} valid blocks",
            segment.valid()
        );
        self.recovering.as_mut()?.filled.insert(id);
        let seal = SealRecord { segment: id, generation, rows: 0, valid: Vec::new() };
        self.registry.seals.insert(id, seal.clone());
        Some(seal)
    }

    /// Undoes relocations into an abandoned segment: the blocks point at their former address,
    /// which still holds them. Nothing has to be relocated out of that segment then, and it is free
    /// at once. Otherwise successive failed writes could use up every free segment.
    fn take_back(&mut self, slot: SegmentSlot) {
        let moves = std::mem::take(&mut self.reclaim.moves);
        let (back, kept): (Vec<_>, Vec<_>) =
            moves.into_iter().partition(|moved| self.space.place(moved.to).slot == slot);
        self.reclaim.moves = kept;
        mark_if(Mark::MovesTakenBack, || !back.is_empty());
        for moved in back {
            if !self.leave_move(&moved) {
                self.take_back_move(&moved);
            }
        }
    }

    /// Points blocks at their former address, unless they changed since.
    pub(in crate::log) fn take_back_move(&mut self, moved: &Move) {
        assert!(moved.blocks > 0, "a relocation of no blocks from {:?}", moved.from);
        if moved.what == Moved::Page {
            if self.is_page_away(moved.lba, moved.to) {
                self.put_page(moved.lba, moved.to, moved.from);
            }
            return;
        }
        for lba in moved.lba.0..moved.lba.0 + moved.blocks {
            if self.mapping.index.get(Lba(lba)) != Some(moved.to) {
                mark(Mark::NewerNotTakenBack);
                continue;
            }
            if moved.what == Moved::Trimmed && !self.mapping.tombstones.contains_key(&moved.from) {
                self.add_tombstone(moved.from);
            }
            self.remap(Lba(lba), Some(moved.from));
        }
    }

    /// Forgets relocations into a segment, which can no longer be given up.
    pub(in crate::log) fn forget_moves_to(&mut self, to: SegmentSlot) {
        let space = self.space;
        self.reclaim.moves.retain(|moved| space.place(moved.to).slot != to);
        // Relocations are remembered only for segments being filled: the capacity for more would be
        // kept for ever.
        if self.reclaim.moves.is_empty() {
            self.reclaim.moves = Vec::new();
        }
    }

    /// Forgets relocations out of a segment: it is dead, so they cannot be undone.
    pub(in crate::log) fn forget_moves(&mut self, from: SegmentSlot) {
        let space = self.space;
        // Nor may any be undone into the next segment of its slot.
        let kept = |moved: &Move| {
            space.place(moved.from).slot != from && space.place(moved.to).slot != from
        };
        self.reclaim.moves.retain(kept);
        self.mapping.forget_moves_left(kept);
    }

    /// Redirects a block of the volume and updates the valid counts.
    pub(in crate::log) fn remap(&mut self, lba: Lba, to: Option<Pba>) {
        let page = self.mapping.index.page_of(lba);
        // This would create a page without its other entries.
        assert!(self.mapping.index.holds(page) || !self.is_away(page), "page {} is away", page.0);
        let before = self.mapping.index.set(lba, to);
        if let Some(pba) = to {
            self.record_mapped(self.space.place(pba).slot);
            self.count_in(pba);
        }
        if let Some(pba) = before {
            self.count_out(pba);
        }
    }

    /// Counts an index entry that now points at a block.
    pub(in crate::log) fn count_in(&mut self, pba: Pba) {
        if let Some(count) = self.mapping.tombstones.get_mut(&pba) {
            *count += 1;
            return;
        }
        let place = self.space.place(pba);
        self.segments[place.slot].add_mapped(place);
    }

    /// Counts an index entry that no longer points at a block.
    pub(in crate::log) fn count_out(&mut self, pba: Pba) {
        if let Some(count) = self.mapping.tombstones.get_mut(&pba) {
            assert!(*count > 0, "tombstone block {pba:?} has no entries left to unmap");
            *count -= 1;
            if *count > 0 {
                return;
            }
            self.mapping.tombstones.remove(&pba);
        }
        let place = self.space.place(pba);
        self.segments[place.slot].take_mapped(place);
    }

    /// Registers a tombstone block, before entries are pointed at it.
    pub(in crate::log) fn add_tombstone(&mut self, pba: Pba) {
        let before = self.mapping.tombstones.insert(pba, 0);
        assert!(before.is_none(), "a tombstone block is new");
        let slot = self.space.place(pba).slot;
        self.segments[slot].add_valid(1);
    }

    /// Drops a tombstone block if no entry points at it.
    pub(in crate::log) fn drop_unused_tombstone(&mut self, pba: Pba) {
        if self.mapping.tombstones.get(&pba) == Some(&0) {
            mark(Mark::TombstoneUnused);
            self.mapping.tombstones.remove(&pba);
            let slot = self.space.place(pba).slot;
            self.segments[slot].take_tombstone();
        }
    }

    /// Whether a block of the volume holds data: neither unmapped nor trimmed.
    #[must_use]
    pub(in crate::log) fn data_place(&self, lba: Lba) -> Option<BlockPlace> {
        let pba = self.mapping.index.get(lba)?;
        (!self.mapping.tombstones.contains_key(&pba)).then(|| self.space.place(pba))
    }

    /// Checks the invariants; for tests, after every step. Costs a pass over the index.
    ///
    /// # Panics
    /// If an invariant is violated.
    pub(in crate::log) fn assert_consistent(&self) {
        let mut valid: BTreeMap<SegmentSlot, u64> = BTreeMap::new();
        let mut trimmed: BTreeMap<Pba, u64> = BTreeMap::new();
        // The entries of absent pages are unknown here, but their mapping blocks are known.
        let away = self.mapping.pages_away() > 0;
        let pages = self.pages_away_by_segment();
        assert!(
            pages.values().sum::<u64>() == self.mapping.pages_away(),
            "pages are counted wrong"
        );
        for (slot, segment) in self.segments.iter() {
            let counted = pages.get(&slot).copied().unwrap_or(0);
            assert!(segment.pages_away() == counted, "pages in segment {}", segment.id);
        }
        valid.extend(pages);
        for lba in 0..self.array.config.log().volume_blocks {
            let Some(pba) = self.mapping.index.get(Lba(lba)) else { continue };
            if self.mapping.tombstones.contains_key(&pba) {
                *trimmed.entry(pba).or_default() += 1;
            } else {
                *valid.entry(self.space.place(pba).slot).or_default() += 1;
            }
        }
        for pba in self.mapping.tombstones.keys() {
            *valid.entry(self.space.place(*pba).slot).or_default() += 1;
        }
        assert!(
            self.mapping
                .tombstones
                .iter()
                .all(|(pba, count)| { trimmed.get(pba).copied().unwrap_or(0) == *count || away })
        );
        for (slot, segment) in self.segments.iter() {
            let expected = valid.get(&slot).copied().unwrap_or(0);
            let right = segment.valid() == expected || away && segment.valid() > expected;
            assert!(right, "segment {} counts wrong", segment.id);
        }
    }
}
