//! Free space: whether there is space to write, and whether some is about to be freed.
//!
//! `engine/limits` proves that there always is while no more zones are lost than the reserve. If
//! more are lost, a task that waits for space has to end with an error instead of waiting for ever.

use std::collections::BTreeMap;

use crate::array::member::Member;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::class::ChunkClass;
use crate::log::engine::limits::{FREE_BESIDE_LANES, RESERVE_SEGMENTS};
use crate::log::engine::state::State;
use crate::log::format::{RecordBody, SealRecord, SegmentId, StreamKind};
use crate::log::reclaim::share::Level;
use crate::log::segment::table::{Phase, Segment, Work};
use crate::log::write::state::Writes;

/// The most urgent need for free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Need {
    /// None: only segments that must be relocated are.
    Nothing,
    /// Additional open segments: only cheap victims are relocated.
    Lanes,
    /// Any segment: every victim that gains space is relocated.
    Segments,
}

impl Writes {
    /// Data blocks of a full-width segment in the place of this one: a narrow segment holds fewer.
    #[must_use]
    pub(super) fn blocks_in_place_of(&self, segment: &Segment) -> u64 {
        let own = segment.geometry.data_blocks();
        if segment.geometry.scheme().is_narrow() {
            own.max(self.relocation_shape().data_blocks())
        } else {
            own
        }
    }

    /// The free space taken by so many data blocks of a segment.
    fn space_of(&self, segment: &Segment, blocks: u64) -> u64 {
        let most = segment.geometry.data_blocks();
        assert!(blocks <= most, "{blocks} of {most} data blocks of segment {}", segment.id);
        blocks * self.blocks_in_place_of(segment) / segment.geometry.data_blocks()
    }
}

impl State {
    /// Segments that could be opened now.
    #[must_use]
    pub(in crate::log) fn free_segments(&self) -> u32 {
        let zones = self.array.members.iter().filter(|member| member.writable().is_some());
        let fewest = zones.map(|member| member.pool.len()).min().unwrap_or(0);
        let free = fewest.min(self.segments.vacancies());
        u32::try_from(free).unwrap_or(u32::MAX)
    }

    /// Free segments that a stream has to leave when it takes one.
    #[must_use]
    pub(in crate::log) fn reserve_for(&self, kind: StreamKind) -> u32 {
        match kind {
            StreamKind::User => {
                let open = u32::from(!self.writes.relocation.is_open());
                RESERVE_SEGMENTS + open + u32::from(self.has_spare_zones())
            }
            StreamKind::Relocation => 0,
        }
    }

    /// Whether a stream that needs a segment may take one.
    #[must_use]
    pub(in crate::log) fn has_free_segment(&self, kind: StreamKind) -> bool {
        let free = self.free_segments();
        let orderly = || kind == StreamKind::Relocation || !self.has_many_seals();
        free > self.reserve_for(kind) && orderly() || free > 0 && mutant(Mutant::ReserveIgnored)
    }

    /// Whether users may take a segment in any situation, so that no collection is needed.
    #[must_use]
    pub(in crate::log) fn has_plenty(&self) -> bool {
        self.free_segments() > self.reserve_for(StreamKind::User) && !self.has_many_seals()
    }

    /// Whether a stream may open a segment for requests of a size now. For an additional segment of
    /// that size, there must be more free ones than others are about to need.
    #[must_use]
    pub(in crate::log) fn may_open(&self, kind: StreamKind, chunk: ChunkClass) -> bool {
        let first = !self.writes.stream(kind).has_chunks(chunk);
        self.has_free_segment(kind) && (first || self.may_open_another(kind))
    }

    /// Whether a stream may open a segment that it can do without.
    #[must_use]
    pub(in crate::log) fn may_open_another(&self, kind: StreamKind) -> bool {
        let plenty = self.free_segments() > self.reserve_for(StreamKind::User) + FREE_BESIDE_LANES;
        self.has_free_segment(kind) && plenty && (kind == StreamKind::User || self.may_move_apart())
    }

    /// Whether crashes have left so many segments to be relocated that users wait. A superblock
    /// zone has to hold the seals of all of these, the ones that another crash adds, and the rest
    /// of a snapshot.
    fn has_many_seals(&self) -> bool {
        let zone_records = self.array.config.zone_capacity.0 / self.array.config.write_unit.0;
        are_many(&self.registry.seals, zone_records.min(zoneweave_journal::ZONE_RECORDS))
    }

    /// Why a stream that needs a segment will not get one; `None` if one is free or about to be.
    /// While no zones are lost there always is one.
    #[must_use]
    pub(in crate::log) fn out_of_space(&self, kind: StreamKind) -> Option<StopReason> {
        let users = kind == StreamKind::User;
        let comes_free = |segment: &Segment| {
            let empty = segment.holds_nothing();
            let moved = users && segment.is_busy();
            empty || moved || segment.in_flight() > 0 || segment.phase() == Phase::Dead
        };
        let open = !users && self.writes.relocation.is_open();
        let may_move = users && self.can_move() && self.victim(Need::Segments).is_some();
        // Undone relocations free abandoned segments.
        let taken_back = self.has_moves_left();
        let frees_soon = self.has_free_segment(kind)
            || self.mapping.absent.is_some()
            || taken_back
            || open
            || may_move
            || self.segments.iter().any(|(_, s)| comes_free(s));
        mark_if(Mark::RoomByTakingBack, || taken_back);
        mark_if(Mark::NoRoomLeft, || !frees_soon);
        (!frees_soon).then_some(StopReason::NoSegmentLeft)
    }

    /// The segment that recovery has to relocate behind its rewrites. Without that, no segment
    /// would be free at the end of recovery, not even to relocate blocks to.
    #[must_use]
    pub(in crate::log) fn must_move_first(&self) -> Option<SegmentSlot> {
        let open = &self.segments[self.writes.relocation.open_segments().next()?];
        let room = u64::from(open.rows_left()) * open.geometry.stripe_blocks() as u64;
        let closed = |segment: &Segment| segment.is_closed() && self.frees_what_is_scarce(segment);
        let segments = || self.segments.iter().filter(|(_, segment)| closed(segment));
        let least = segments().map(|(_, segment)| segment.valid()).min()?;
        if self.free_segments() > 0 || least == 0 {
            return None;
        }
        let fit = segments().filter(|(_, segment)| segment.valid() <= room);
        let rank =
            |(slot, segment): &(SegmentSlot, &Segment)| (segment.waits(), segment.valid(), *slot);
        fit.min_by_key(rank).map(|(slot, _)| slot)
    }

    /// The need that collection has to serve.
    #[must_use]
    pub(super) fn need_of_space(&self) -> Need {
        if self.window_segments() > 0 {
            return if self.level().is_low() { Need::Segments } else { Need::Nothing };
        }
        // Space that is about to be freed needs no collection.
        match self.need_with(self.free_segments()) {
            Need::Nothing => Need::Nothing,
            _ => self.need_with(self.free_segments() + self.coming_free()),
        }
    }

    /// The need without regard to space that is about to be freed.
    #[must_use]
    pub(in crate::log) fn need_now(&self) -> Need {
        self.need_with(self.free_segments())
    }

    /// Whether space is needed, without regard to what is about to be freed.
    #[must_use]
    pub(in crate::log) fn needs_space(&self) -> bool {
        self.need_now() != Need::Nothing
    }

    /// The need with so many free segments.
    fn need_with(&self, free: u32) -> Need {
        let reserve = self.reserve_for(StreamKind::User);
        let lanes = self.writes.user.lanes_without_segment();
        match () {
            // One segment earlier than users would have to wait.
            () if free <= reserve + 1 => Need::Segments,
            () if lanes > 0 && free <= reserve + FREE_BESIDE_LANES + lanes => Need::Lanes,
            () => Need::Nothing,
        }
    }

    /// Segments that are being freed or can be.
    pub(super) fn coming_free(&self) -> u32 {
        let standing = self.segments.standing();
        // Segments with blocks of a checkpoint wait for the next one; dead segments with readers
        // may wait for a hanging drive.
        let coming = |slot: &&SegmentSlot| {
            let segment = &self.segments[**slot];
            let comes = match segment.phase() {
                Phase::Dead => segment.readers() == 0,
                _ => segment.is_freeing() || self.may_leave_checkpoint(segment),
            };
            comes && self.frees_what_is_scarce(segment)
        };
        u32::try_from(standing.coming.iter().filter(coming).count()).unwrap_or(u32::MAX)
    }

    /// Segments of the window in which writes are shared; 0 if there is little spare space, or
    /// during recovery.
    fn window_segments(&self) -> u32 {
        if self.recovering.is_some() { 0 } else { self.reclaim.throttle.window }
    }

    /// The free space. Several lanes are half full on average: their free part is of no use to the
    /// others, and does not count.
    fn level(&self) -> Level {
        let segment = self.writes.relocation_shape().data_blocks();
        assert!(segment > 0, "blocks are relocated to segments of no blocks");
        let free = u64::from(self.free_segments() + self.coming_free()) * segment;
        let open = self.space_in(StreamKind::User) + self.space_in(StreamKind::Relocation);
        let lanes = self.writes.user.lanes().count() + self.writes.relocation.lanes().count();
        let beside = if lanes > 2 { FREE_BESIDE_LANES } else { 0 };
        let reserve = RESERVE_SEGMENTS + u32::from(self.has_spare_zones());
        let kept = u64::from(reserve + beside) * 2 + lanes as u64;
        Level {
            free: free + open + self.moved_so_far(),
            floor: kept * segment / 2,
            window: u64::from(self.window_segments()) * segment,
        }
    }

    /// Free data blocks in the open segments of a stream.
    #[must_use]
    pub(in crate::log) fn space_in(&self, kind: StreamKind) -> u64 {
        let left = |slot| {
            let segment: &Segment = &self.segments[slot];
            let rows = u64::from(segment.rows_left());
            self.writes.space_of(segment, rows * segment.geometry.stripe_blocks() as u64)
        };
        self.writes.stream(kind).open_segments().map(left).sum()
    }

    /// Space that the finished part of current relocations will free.
    fn moved_so_far(&self) -> u64 {
        let moved = |slot: &SegmentSlot| {
            let segment = &self.segments[*slot];
            let Work::Relocation { valid_before } = segment.life.work() else { return 0 };
            let before = valid_before.max(1);
            let moved = before.saturating_sub(segment.valid());
            self.writes.blocks_in_place_of(segment) * moved / before
        };
        self.reclaim.moving.iter().map(moved).sum()
    }

    /// Records that a stripe is about to be written.
    pub(in crate::log) fn record_stripe(
        &mut self,
        kind: StreamKind,
        slot: SegmentSlot,
        blocks: u64,
    ) {
        let blocks = self.writes.space_of(&self.segments[slot], blocks);
        let share = self.level().users_share();
        let segment = self.writes.relocation_shape().data_blocks();
        self.reclaim.throttle.note(kind, blocks, share, segment);
    }

    /// Whether a stream has to wait for the other one, which is at work and had less than its
    /// share.
    #[must_use]
    pub(in crate::log) fn must_yield(&self, kind: StreamKind) -> bool {
        if self.recovering.is_some() || !self.reclaim.throttle.is_ahead(kind) {
            return false;
        }
        let yields = match kind {
            StreamKind::User => !self.reclaim.moving.is_empty() && self.level().is_low(),
            StreamKind::Relocation => {
                self.writes.user.open_segments().any(|slot| self.segments[slot].in_flight() > 0)
            }
        };
        mark_if(Mark::UsersYield, || yields && kind == StreamKind::User);
        mark_if(Mark::MovesYield, || yields && kind == StreamKind::Relocation);
        yields
    }

    /// Whether relocating a segment frees the scarce resource: a zone of a drive with the fewest
    /// free ones, or a slot if every drive has more free zones than there are slots. Otherwise
    /// relocation takes more of it than it gives.
    #[must_use]
    pub(super) fn frees_what_is_scarce(&self, segment: &Segment) -> bool {
        let free = self.free_segments() as usize;
        if !segment.geometry.scheme().is_narrow() {
            return true;
        }
        let bound = |member: &Member| member.writable().is_some() && member.pool.len() == free;
        let mut zones = self.array.members.iter().zip(&segment.zones);
        zones.any(|(member, zone)| zone.is_some() && bound(member))
            || !self.array.members.iter().any(bound)
    }

    /// Whether there is room to move blocks to.
    #[must_use]
    pub(super) fn can_move(&self) -> bool {
        self.writes.relocation.is_open() || self.free_segments() > 0
    }
}

/// Whether seals take about half of the records of a zone.
fn are_many(seals: &BTreeMap<SegmentId, SealRecord>, zone_records: u32) -> bool {
    let most = (zone_records as usize / 2).saturating_sub(2).max(1);
    // A record holds at least one seal.
    seals.len() >= most && RecordBody::count_of_seals(seals.values()) >= most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::format::Generation;

    fn seals(count: u64, rows: usize) -> BTreeMap<SegmentId, SealRecord> {
        let seal = |id: u64| SealRecord {
            segment: SegmentId(id),
            generation: Generation(id),
            rows: 0,
            valid: vec![false; rows],
        };
        (0..count).map(|id| (SegmentId(id), seal(id))).collect()
    }

    #[test]
    fn seals_are_many_by_the_records_that_they_take() {
        assert!(!are_many(&seals(300, 2), 12), "a record holds a hundred of them");
        assert!(are_many(&seals(400, 2), 12));
        assert!(!are_many(&seals(3, 16_384), 12));
        assert!(are_many(&seals(4, 16_384), 12), "each takes a record");
        assert!(!are_many(&seals(0, 0), 2) && are_many(&seals(1, 1), 2));
    }
}
