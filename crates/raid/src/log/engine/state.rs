//! The state of the engine, and its decisions: synchronous code.
//!
//! Async code borrows the state, decides, drops the borrow, awaits I/O, borrows again and applies
//! the outcome. Nothing here does I/O or waits.
//!
//! Invariants, asserted: an index entry points into a segment that is not dead; a segment's valid
//! count is the number of index entries that point into it, tombstone blocks counting once;
//! assigned sequences stay below the ceiling on media.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use zoneweave_zoned::{Lba, ZoneId, ZonedDevice};

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::admit::inflight::InFlight;
use crate::log::engine::address::{BlockPlace, Pba, PbaSpace, SegmentSlot};
use crate::log::engine::counters::Counters;
use crate::log::engine::geometry::SegmentGeometry;
use crate::log::engine::stop::StopReason;
use crate::log::format::{ArrayConfig, MemberState, SealRecord, Seed, StreamKind};
use crate::log::index::absent::Absent;
use crate::log::index::cache::Offload;
use crate::log::index::checkpoint::Checkpoints;
use crate::log::index::map::Index;
use crate::log::index::remap::{Move, Moved};
use crate::log::members::attachment::Membership;
use crate::log::members::member::Member;
use crate::log::read::hedge::Hedge;
use crate::log::reclaim::lifetime::Lifespans;
use crate::log::reclaim::share::Pace;
use crate::log::segment::dead::Deaths;
use crate::log::segment::narrow_list::Roster;
use crate::log::segment::table::{Phase, SegmentTable};
use crate::log::write::in_flight::ChunkUnderWay;
use crate::log::write::policy::lanes::{PolicyError, WritePolicy};
use crate::log::write::stream::Stream;
use crate::log::write::zone::pacing::Drain;
use crate::scheme::{Column, ColumnSet, Scheme};

/// Placeholder for the epoch of a change that is not on media yet.
pub(in crate::log) const UNRECORDED: u64 = u64::MAX;

/// The version of the membership in superblock records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) struct Epoch {
    /// Number of membership changes.
    pub number: u64,
    /// Distinguishes two changes with the same count.
    pub tag: u64,
    /// Distinguishes histories started apart.
    pub lineage: u64,
}

/// Everything that decisions are made from, behind one borrow. It never does I/O.
pub(in crate::log) struct State {
    /// Configuration of the array.
    pub config: ArrayConfig,
    /// The seed of its checksums.
    pub seed: Seed,
    /// The write policy of this start.
    pub policy: WritePolicy,
    /// Why policies that suit the drives better do not fit.
    pub refused: Vec<PolicyError>,
    /// The shape that it was created with: requirements for members derive from it.
    pub geometry: SegmentGeometry,
    /// The shape with the smallest capacity among those being filled.
    pub smallest: SegmentGeometry,
    /// The arithmetic of its addresses.
    pub space: PbaSpace,
    /// Its members, by slot.
    pub members: Vec<Member>,
    /// Former memberships of replaced drives with commands in flight.
    pub former: Vec<Membership>,
    /// The version of the membership.
    pub epoch: Epoch,
    /// An eviction is not on media yet: no new segment until it is.
    pub membership_dirty: bool,
    /// Whether half of the members are enough to write, by the user's decision.
    pub forced: bool,
    /// Why writes are refused, if they are.
    pub stopped: Option<StopReason>,
    /// The map from LBA to PBA.
    pub index: Index,
    /// Index entries that point at each tombstone block.
    pub tombstones: BTreeMap<Pba, u64>,
    /// All segments, by slot.
    pub segments: SegmentTable,
    /// Decisions about leftover segments, by segment number.
    pub seals: BTreeMap<u64, SealRecord>,
    /// Segments recorded dead whose zones may not all be reset.
    pub(in crate::log) dead: Deaths,
    /// The narrow segments that are alive.
    pub(in crate::log) roster: Roster,
    /// Members with unclear zones, or with copies of columns that could not be reset: these may
    /// hold blocks of segments older than their membership.
    pub unclear: ColumnSet,
    /// Zones that recovery found useless, with their reset counts.
    pub zones_to_reset: Vec<(Column, ZoneId, u64)>,
    /// Requests in flight.
    pub inflight: InFlight,
    /// Relocations out of segments that are not dead yet, so that they can be undone.
    pub(in crate::log) moves: Vec<Move>,
    /// Segments that are being relocated.
    pub(in crate::log) moving: Vec<SegmentSlot>,
    /// Tasks that are about to queue relocated blocks.
    pub(in crate::log) about_to_queue: u32,
    /// Chunks that will not be written, as their drive was evicted: their stripes have yet to be
    /// notified.
    pub(in crate::log) aborted: VecDeque<ChunkUnderWay>,
    /// The GC throttle.
    pub(in crate::log) pace: Pace,
    /// Blocks that wait for user segments.
    pub user: Stream,
    /// Blocks that wait for relocation segments.
    pub relocation: Stream,
    /// The next sequence to be assigned.
    pub next_sequence: u64,
    /// The ceiling on media.
    pub sequence_ceiling: u64,
    /// The next segment number.
    pub next_segment: u64,
    /// The ceiling on media.
    pub segment_ceiling: u64,
    /// The ceilings in the next records: on media, or about to be.
    pub ceilings_to_record: (u64, u64),
    /// Whether each chunk write is made durable by itself.
    pub fua_always: bool,
    /// Whether some member may lose completed writes at power loss.
    pub volatile: bool,
    /// During recovery: the segments that the next start must not trust if this one is interrupted.
    pub recovering: Option<Recovering>,
    /// Segments with lost valid blocks of unknown addresses: older contents could be read in their
    /// place. Found by recovery.
    pub unaccounted: BTreeSet<u64>,
    /// Possible segments without a readable header. Found by recovery.
    pub hidden_segments: usize,
    /// Checkpoints of the index.
    pub checkpoints: Checkpoints,
    /// Absent pages after a start on demand; `None` if there are none.
    pub(in crate::log) absent: Option<Absent>,
    /// The cache of the index; `None` if all pages are in memory.
    pub(in crate::log) offload: Option<Offload>,
    /// Lifetimes of blocks.
    pub lifespans: Lifespans,
    /// Budgets of hedged reads.
    pub hedge: Hedge,
    /// Write pacing: the drain rate of the drives' buffers.
    pub(in crate::log) drain: Drain,
    /// Events since the start.
    pub counters: Counters,
}

/// A recovery that has published nothing yet.
#[derive(Debug)]
pub(in crate::log) struct Recovering {
    /// Numbers of the segments it fills: on media they are sealed as empty.
    filled: BTreeSet<u64>,
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
    pub(in crate::log) fn filled(&self, segment: u64) -> bool {
        self.filled.contains(&segment)
    }
}

impl State {
    #[must_use]
    pub(in crate::log) fn scheme(&self) -> Scheme {
        self.config.scheme
    }

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

    /// Members that take part in new stripes, with their drives.
    #[must_use]
    pub(in crate::log) fn writable_members(&self) -> Vec<(Column, Rc<dyn ZonedDevice>)> {
        let members = self.scheme().iter().zip(&self.members);
        members.filter_map(|(column, member)| Some((column, member.writable()?))).collect()
    }

    /// The members without valid contents.
    #[must_use]
    pub(in crate::log) fn lost_members(&self) -> ColumnSet {
        let lost = |member: &Member| {
            member.device.is_none()
                || member.entry.state != MemberState::Online
                    && !mutant(Mutant::RebuildingMemberCounts)
        };
        let members = self.scheme().iter().zip(&self.members);
        members.filter(|(_, member)| lost(member)).map(|(column, _)| column).collect()
    }

    /// Attaches another member to a slot.
    pub(in crate::log) fn put_member(&mut self, column: Column, member: Member) {
        let before = std::mem::replace(&mut self.members[column.index()], member);
        self.former.extend(before.membership);
        self.former.retain(|membership| !membership.has_ended());
    }

    /// The ended memberships of a drive with commands in flight.
    #[must_use]
    pub(in crate::log) fn former_of(&self, device: &Rc<dyn ZonedDevice>) -> Vec<Membership> {
        let out = self.members.iter().filter(|member| member.device.is_none());
        let memberships = out.filter_map(|member| member.membership.as_ref()).chain(&self.former);
        memberships.filter(|membership| membership.is_of(device)).cloned().collect()
    }

    /// The slot in which a drive is in service.
    #[must_use]
    pub(in crate::log) fn slot_of(&self, device: &Rc<dyn ZonedDevice>) -> Option<Column> {
        let in_service = |member: &Member| {
            let membership = member.membership.as_ref().filter(|_| member.device.is_some());
            membership.is_some_and(|membership| membership.is_of(device))
        };
        let mut members = self.scheme().iter().zip(&self.members);
        members.find(|(_, member)| in_service(member)).map(|(column, _)| column)
    }

    /// Whether everything can be read without the lost members and this one.
    #[must_use]
    pub(in crate::log) fn survives_without(&self, column: Column) -> bool {
        self.scheme().survives(self.lost_members().with(column))
    }

    /// Assigns the next sequence.
    ///
    /// # Panics
    /// If the ceiling on media is reached: opening segments raises it long before.
    pub(in crate::log) fn take_sequence(&mut self) -> u64 {
        let sequence = self.next_sequence;
        assert!(sequence < self.sequence_ceiling, "sequence {sequence} reaches its ceiling");
        self.next_sequence += 1;
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

    /// Whether a stream has stripes in flight, or a lane is being prepared.
    #[must_use]
    pub(in crate::log) fn is_writing(&self, kind: StreamKind) -> bool {
        let mut segments = self.segments.iter();
        segments.any(|(_, segment)| segment.stream == kind && segment.in_flight > 0)
            || self.stream(kind).is_busy()
    }

    /// Records, during recovery, that valid blocks of a segment with unknown addresses are lost.
    pub(in crate::log) fn note_unaccounted(&mut self, slot: SegmentSlot) {
        if self.recovering.is_some() {
            mark(Mark::Unaccounted);
            let segment = self.segments[slot].id;
            self.unaccounted.insert(segment);
        }
    }

    /// Ends a recovery whose decisions no longer hold; returns the reason.
    pub(in crate::log) fn stop_recovery(&mut self) -> StopReason {
        let may = self.recovering.as_ref().is_some_and(|recovering| recovering.may_begin_anew);
        let reason = match may {
            true => StopReason::MemberFailedDuringRecovery,
            false => StopReason::RecoveryFailedTooOften,
        };
        *self.stopped.get_or_insert(reason)
    }

    /// Stops filling a segment: its blocks will be relocated.
    pub(in crate::log) fn abandon(&mut self, slot: SegmentSlot) {
        if self.segments[slot].phase != Phase::Open {
            return;
        }
        mark(Mark::SegmentGivenUp);
        self.close(slot);
        self.counters.segments_abandoned += 1;
        self.take_back(slot);
        let segment = &self.segments[slot];
        let filled = |recovering: &&Recovering| recovering.filled(segment.id);
        let recovering = self.recovering.as_ref().filter(filled);
        if segment.valid > 0 && recovering.is_some_and(|recovering| recovering.may_begin_anew) {
            // Rewrites would take a second segment: recovery begins anew instead.
            self.stopped = Some(StopReason::MemberFailedDuringRecovery);
        }
    }

    /// Closes a segment to further stripes, unless it is complete.
    pub(in crate::log) fn close(&mut self, slot: SegmentSlot) {
        let segment = &mut self.segments[slot];
        if segment.phase != Phase::Open {
            return;
        }
        segment.phase = Phase::Leftover;
        segment.cursor = None;
        let kind = segment.stream;
        self.stream_mut(kind).leave(slot);
    }

    /// Seals a segment as empty that recovery is about to fill: its blocks become valid only when
    /// everything is decided. Returns the seal, to be made durable.
    pub(in crate::log) fn seal_unfilled(&mut self, slot: SegmentSlot) -> Option<SealRecord> {
        let segment = &self.segments[slot];
        let (id, generation) = (segment.id, segment.generation);
        self.recovering.as_mut()?.filled.insert(id);
        let seal = SealRecord { segment: id, generation, rows: 0, valid: Vec::new() };
        self.seals.insert(id, seal.clone());
        Some(seal)
    }

    /// Undoes relocations into an abandoned segment: the blocks point at their former address,
    /// which still holds them. Nothing has to be relocated out of that segment then, and it is free
    /// at once. Otherwise successive failed writes could use up every free segment.
    fn take_back(&mut self, slot: SegmentSlot) {
        let moves = std::mem::take(&mut self.moves);
        let (back, kept): (Vec<_>, Vec<_>) =
            moves.into_iter().partition(|moved| self.space.place(moved.to).slot == slot);
        self.moves = kept;
        mark_if(Mark::MovesTakenBack, || !back.is_empty());
        for moved in back {
            if !self.leave_move(&moved) {
                self.take_back_move(&moved);
            }
        }
    }

    /// Points blocks at their former address, unless they changed since.
    pub(in crate::log) fn take_back_move(&mut self, moved: &Move) {
        if moved.what == Moved::Page {
            if self.is_page_away(moved.lba, moved.to) {
                self.put_page(moved.lba, moved.to, moved.from);
            }
            return;
        }
        for lba in moved.lba.0..moved.lba.0 + moved.blocks {
            if self.index.get(Lba(lba)) != Some(moved.to) {
                mark(Mark::NewerNotTakenBack);
                continue;
            }
            if moved.what == Moved::Trimmed && !self.tombstones.contains_key(&moved.from) {
                self.add_tombstone(moved.from);
            }
            self.remap(Lba(lba), Some(moved.from));
        }
    }

    /// Forgets relocations into a segment, which can no longer be given up.
    pub(in crate::log) fn forget_moves_to(&mut self, to: SegmentSlot) {
        let space = self.space;
        self.moves.retain(|moved| space.place(moved.to).slot != to);
        // Relocations are remembered only for segments being filled: the capacity for more would be
        // kept for ever.
        if self.moves.is_empty() {
            self.moves = Vec::new();
        }
    }

    /// Forgets relocations out of a segment: it is dead, so they cannot be undone.
    pub(in crate::log) fn forget_moves(&mut self, from: SegmentSlot) {
        let space = self.space;
        // Nor may any be undone into the next segment of its slot.
        let kept = |moved: &Move| {
            space.place(moved.from).slot != from && space.place(moved.to).slot != from
        };
        self.moves.retain(kept);
        self.forget_moves_left(kept);
    }

    /// Redirects a block of the volume and updates the valid counts.
    pub(in crate::log) fn remap(&mut self, lba: Lba, to: Option<Pba>) {
        let page = self.index.page_of(lba);
        // This would create a page without its other entries.
        assert!(self.index.holds(page) || !self.is_away(page), "page {} is away", page.0);
        let before = self.index.set(lba, to);
        if let Some(pba) = to {
            self.note_mapped(self.space.place(pba).slot);
            self.count_in(pba);
        }
        if let Some(pba) = before {
            self.count_out(pba);
        }
    }

    /// Counts an index entry that now points at a block.
    pub(in crate::log) fn count_in(&mut self, pba: Pba) {
        if let Some(count) = self.tombstones.get_mut(&pba) {
            *count += 1;
            return;
        }
        let place = self.space.place(pba);
        let segment = &mut self.segments[place.slot];
        assert!(segment.phase != Phase::Dead, "mapped into dead segment {}", segment.id);
        segment.valid += 1;
        segment.note_live(place, true);
    }

    /// Counts an index entry that no longer points at a block.
    pub(in crate::log) fn count_out(&mut self, pba: Pba) {
        if let Some(count) = self.tombstones.get_mut(&pba) {
            *count -= 1;
            if *count > 0 {
                return;
            }
            self.tombstones.remove(&pba);
        }
        let place = self.space.place(pba);
        let segment = &mut self.segments[place.slot];
        segment.valid -= 1;
        segment.note_live(place, false);
    }

    /// Registers a tombstone block, before entries are pointed at it.
    pub(in crate::log) fn add_tombstone(&mut self, pba: Pba) {
        let before = self.tombstones.insert(pba, 0);
        assert!(before.is_none(), "a tombstone block is new");
        let slot = self.space.place(pba).slot;
        self.segments[slot].valid += 1;
    }

    /// Drops a tombstone block if no entry points at it.
    pub(in crate::log) fn drop_unused_tombstone(&mut self, pba: Pba) {
        if self.tombstones.get(&pba) == Some(&0) {
            mark(Mark::TombstoneUnused);
            self.tombstones.remove(&pba);
            let slot = self.space.place(pba).slot;
            self.segments[slot].valid -= 1;
        }
    }

    /// Whether all of the index is in memory, so that pages need no pins.
    #[must_use]
    pub(in crate::log) fn has_whole_index(&self) -> bool {
        self.offload.is_none() && self.absent.is_none()
    }

    /// Whether a block of the volume holds data: neither unmapped nor trimmed.
    #[must_use]
    pub(in crate::log) fn data_place(&self, lba: Lba) -> Option<BlockPlace> {
        let pba = self.index.get(lba)?;
        (!self.tombstones.contains_key(&pba)).then(|| self.space.place(pba))
    }

    /// The oldest sequence of any block in a segment other than `except` and the dead.
    #[must_use]
    pub(in crate::log) fn oldest_sequence(&self, except: SegmentSlot) -> u64 {
        let others = self.segments.iter();
        let others = others.filter(|(slot, s)| *slot != except && s.phase != Phase::Dead);
        others.map(|(_, segment)| segment.min_sequence).min().unwrap_or(u64::MAX)
    }

    /// Checks the invariants; for tests, after every step. Costs a pass over the index.
    ///
    /// # Panics
    /// If an invariant is violated.
    pub(in crate::log) fn assert_consistent(&self) {
        let mut valid: BTreeMap<SegmentSlot, u64> = BTreeMap::new();
        let mut trimmed: BTreeMap<Pba, u64> = BTreeMap::new();
        // The entries of absent pages are unknown here, but their mapping blocks are known.
        let away = self.pages_away() > 0;
        let pages = self.pages_away_by_segment();
        assert!(pages.values().sum::<u64>() == self.pages_away(), "pages are counted wrong");
        for (slot, segment) in self.segments.iter() {
            let counted = pages.get(&slot).copied().unwrap_or(0);
            assert!(segment.pages_away == counted, "pages in segment {}", segment.id);
        }
        valid.extend(pages);
        for lba in 0..self.config.volume_blocks {
            let Some(pba) = self.index.get(Lba(lba)) else { continue };
            if self.tombstones.contains_key(&pba) {
                *trimmed.entry(pba).or_default() += 1;
            } else {
                *valid.entry(self.space.place(pba).slot).or_default() += 1;
            }
        }
        for pba in self.tombstones.keys() {
            *valid.entry(self.space.place(*pba).slot).or_default() += 1;
        }
        assert!(
            self.tombstones
                .iter()
                .all(|(pba, count)| { trimmed.get(pba).copied().unwrap_or(0) == *count || away })
        );
        for (slot, segment) in self.segments.iter() {
            let expected = valid.get(&slot).copied().unwrap_or(0);
            let right = segment.valid == expected || away && segment.valid > expected;
            assert!(right, "segment {} counts wrong", segment.id);
        }
    }
}
