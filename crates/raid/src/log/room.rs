//! Whether there is room to write, and whether some is about to come.
//!
//! `limits.rs` has the argument why there always is while no zones are lost beyond the reserve. Where
//! they are, what waits for room must end with an error instead of waiting for ever.

use crate::log::format::StreamKind;
use crate::log::index::SegmentSlot;
use crate::log::limits::RESERVE_SEGMENTS;
use crate::log::segment::{Phase, Segment};
use crate::log::state::State;
use crate::log::stream::ChunkClass;
use crate::log::superblock::ZONE_RECORDS;
use crate::marks::{Mark, mark_if};
use crate::mutants::{Mutant, mutant};

/// Free segments beyond the reserve, above which a stream opens more than one: as many as make the
/// collector begin, and one more.
const FREE_BESIDE_LANES: u32 = 2;

/// What room is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// For nothing: only what has to be moved is.
    Nothing,
    /// For segments beside one that is open: what costs little is moved.
    Lanes,
    /// For any segment: whatever gains something is moved.
    Segments,
}

impl State {
    /// Segments that could be opened now.
    #[must_use]
    pub(super) fn free_segments(&self) -> u32 {
        let zones = self.members.iter().filter(|member| member.writable().is_some());
        let fewest = zones.map(|member| member.pool.len()).min().unwrap_or(0);
        let free = fewest.min(self.segments.vacancies());
        u32::try_from(free).unwrap_or(u32::MAX)
    }

    /// How many free segments a stream has to leave when it takes one.
    #[must_use]
    pub(super) fn reserve_for(&self, kind: StreamKind) -> u32 {
        match kind {
            StreamKind::User => {
                let open = u32::from(!self.relocation.is_open());
                RESERVE_SEGMENTS + open + u32::from(self.has_spare_zones())
            }
            StreamKind::Relocation => 0,
        }
    }

    /// Whether a stream that needs a segment may take one.
    #[must_use]
    pub(super) fn has_room(&self, kind: StreamKind) -> bool {
        let free = self.free_segments();
        let orderly = kind == StreamKind::Relocation || !self.has_many_seals();
        free > self.reserve_for(kind) && orderly || free > 0 && mutant(Mutant::ReserveIgnored)
    }

    /// Whether a stream may open a segment for requests of a size now. Beside one that it has already
    /// for those it takes what nobody else is about to need.
    #[must_use]
    pub(super) fn may_open(&self, kind: StreamKind, chunk: ChunkClass) -> bool {
        let first = !self.stream(kind).has_chunks(chunk);
        let plenty = self.free_segments() > self.reserve_for(StreamKind::User) + FREE_BESIDE_LANES;
        let beside = plenty && (kind == StreamKind::User || self.may_move_apart());
        self.has_room(kind) && (first || beside)
    }

    /// Whether crashes have left so many segments to be moved out that users wait: a superblock zone
    /// has to hold a seal of each, those that another crash adds, and what else a snapshot says.
    fn has_many_seals(&self) -> bool {
        let records = self.config.zone_capacity.0.min(ZONE_RECORDS) as usize;
        let many = self.seals.len() >= (records / 2).saturating_sub(2).max(1);
        mark_if(Mark::UsersWaitForSeals, || many);
        many
    }

    /// Why a stream that needs a segment will not get one, unless somebody asks for something else:
    /// nothing is free, and nothing is about to be. Where zones are not lost, there is always room.
    #[must_use]
    pub(super) fn no_room(&self, kind: StreamKind) -> Option<&'static str> {
        let users = kind == StreamKind::User;
        let comes_free = |segment: &Segment| {
            let empty = segment.holds_nothing();
            let moved = users && segment.busy;
            empty || moved || segment.in_flight > 0 || segment.phase == Phase::Dead
        };
        let open = !users && self.relocation.is_open();
        let may_move = users && self.can_move() && self.victim(Need::Segments).is_some();
        let room_comes = self.has_room(kind)
            || open
            || may_move
            || self.segments.iter().any(|(_, s)| comes_free(s));
        mark_if(Mark::NoRoomLeft, || !room_comes);
        (!room_comes).then_some("too many zones are lost: no segment can be freed")
    }

    /// The segment that recovery has to move behind what it has written again, as nothing would be
    /// free when it has come to its end, not even to move blocks to.
    #[must_use]
    pub(super) fn must_move_first(&self) -> Option<SegmentSlot> {
        let open = &self.segments[self.relocation.open_segments().next()?];
        let rows = open.cursor.as_ref().map_or(0, |cursor| open.geometry.rows() - cursor.next_row);
        let room = u64::from(rows) * open.geometry.stripe_blocks() as u64;
        let closed = |segment: &Segment| matches!(segment.phase, Phase::Sealed | Phase::Leftover);
        let segments = self.segments.iter().filter(|(_, segment)| closed(segment));
        let (slot, least) = segments.min_by_key(|(slot, segment)| (segment.valid, *slot))?;
        (self.free_segments() == 0 && (1..=room).contains(&least.valid)).then_some(slot)
    }

    /// What the collector is to make room for.
    #[must_use]
    pub(super) fn need_of_room(&self) -> Need {
        // What is about to be free need not be made so.
        match self.need_with(self.free_segments()) {
            Need::Nothing => Need::Nothing,
            _ => self.need_with(self.free_segments() + self.coming_free()),
        }
    }

    /// What is needed, whatever is about to be free.
    #[must_use]
    pub(super) fn need_now(&self) -> Need {
        self.need_with(self.free_segments())
    }

    /// What is needed with so many free segments.
    fn need_with(&self, free: u32) -> Need {
        let reserve = self.reserve_for(StreamKind::User);
        let lanes = self.user.lanes_without_segment();
        match () {
            // One earlier than users would have to wait.
            () if free <= reserve + 1 => Need::Segments,
            () if lanes > 0 && free <= reserve + FREE_BESIDE_LANES + lanes => Need::Lanes,
            () => Need::Nothing,
        }
    }

    /// Segments that are being freed, or are next: nothing in them is needed.
    fn coming_free(&self) -> u32 {
        let coming = |segment: &Segment| {
            let leaves = segment.in_flight == 0 && self.may_leave_checkpoint(segment);
            segment.holds_nothing() && leaves || segment.phase == Phase::Dead
        };
        let coming = self.segments.iter().filter(|(_, segment)| coming(segment)).count();
        u32::try_from(coming).unwrap_or(u32::MAX)
    }

    /// Whether there is room to move blocks to.
    #[must_use]
    pub(super) fn can_move(&self) -> bool {
        self.relocation.is_open() || self.free_segments() > 0
    }
}
