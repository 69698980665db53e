//! Segments in memory: where their zones are, how far they are written, what is valid in them.

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet;
use zoneweave_zoned::ZoneId;

use crate::instrument::marks::INSTRUMENTED;
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::{BlockPlace, SegmentSlot};
use crate::log::engine::geometry::{ChunkBlock, Row, SegmentGeometry};
use crate::log::format::{EntryKind, IndexEntry, SegmentHeader, StreamKind};
use crate::log::segment::stripe_table::StripeTable;
use crate::log::write::completion::ChunkUnderWay;
use crate::log::write::lane::Lifetime;
use crate::log::write::zone_queue::ZoneQueue;
use crate::scheme::{Column, ColumnSet};

/// Where a segment is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Phase {
    Open,
    /// Complete: every row written, every index run in place.
    Sealed,
    /// Will take no more stripes and never be complete: left over by a crash or a failed write.
    /// Its live blocks are moved out first.
    Leftover,
    /// Nothing in it counts any more; its zones are being reset.
    Dead,
}

/// How far an open segment is written.
#[derive(Debug)]
pub(in crate::log) struct Cursor {
    /// The next row to be started (of the current group, in order of starting).
    pub next_row: u32,
    /// The rows of the current group.
    pub group: std::ops::Range<u32>,
}

impl Cursor {
    /// Whether its group has rows left.
    #[must_use]
    pub(in crate::log) fn has_rows(&self) -> bool {
        self.next_row < self.group.end
    }
}

/// The zone of one column and what is known of its wear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) struct ColumnZone {
    /// The zone.
    pub zone: ZoneId,
    /// Times it was reset before this use.
    pub resets: u64,
}

/// One segment: its shape, its zones, its write position and its phase.
pub(in crate::log) struct Segment {
    /// Its number, never used again.
    pub id: u64,
    /// What every block of it repeats.
    pub generation: u64,
    /// The membership's version in which it was made, as far as its headers tell.
    pub epoch: u64,
    /// What fills it.
    pub stream: StreamKind,
    /// How long what is in it is likely to live.
    pub lifetime: Lifetime,
    /// Its shape, from which every offset in its zones follows.
    pub geometry: SegmentGeometry,
    /// Each column's zone; `None` where the column is missing, or the segment is not on it.
    pub zones: Vec<Option<ColumnZone>>,
    /// The zones it was made with, as its header lists them. A column is rebuilt in another one: a
    /// copy in the listed zone would pass for the column itself, finished or not.
    pub listed: Vec<Option<ZoneId>>,
    /// Where it is in its life.
    pub phase: Phase,
    /// Blocks of it that the index maps, and tombstone blocks still needed.
    pub valid: u64,
    /// Which ones the index maps, column by column, where pages of it may leave memory: so nobody
    /// has to read these to know. `None` where it is not known.
    pub live: Option<FixedBitSet>,
    /// Those of them that tell of pages of the index which are not in memory.
    pub pages_away: u64,
    /// The oldest sequence of any block in it; `u64::MAX` while it holds none.
    pub min_sequence: u64,
    /// Reads under way: its zones are not reset before they end.
    pub readers: u32,
    /// Blocks in it of the newest checkpoint, and of one that is being written.
    pub reached: u32,
    /// The newest checkpoint knows everything in it: it is not replayed.
    pub settled: bool,
    /// So will the one being written.
    pub settling: bool,
    /// The checkpoint that the start has read lists it.
    pub listed_by_checkpoint: bool,
    /// Stripes under way.
    pub in_flight: u32,
    /// Somebody (collection, rebuild, scrub) works on it; others keep away.
    pub busy: bool,
    /// Nothing in it is needed, and it is being freed.
    pub freeing: bool,
    /// That it is dead is recorded: no crash brings it back.
    pub death_recorded: bool,
    /// Its zones are being finished.
    pub finishing: bool,
    /// While it is moved out: what was valid in it before.
    pub valid_before_move: u64,
    /// The next start would need it, if this one were cut short: it is not freed, nor moved by the
    /// collector.
    pub kept: bool,
    /// A member in service tells that it has nothing of it, so that its death may have been on
    /// record once: whatever copy there is elsewhere is believed before its own.
    pub doubtful: bool,
    /// Damage was found: it is moved out as soon as possible.
    pub damaged: bool,
    /// What it holds cannot be told in full: nobody is to write lists of it again.
    pub unlisted: bool,
    /// Its zones are open or closed, not full: they count against the drives' active limit.
    pub holds_active_zones: bool,
    /// How far it is written, while open.
    pub cursor: Option<Cursor>,
    /// What waits for each column's zone, until it is sealed.
    pub queues: Vec<ZoneQueue<ChunkUnderWay>>,
    /// Whether what waits for a zone is gathered into one write.
    pub gathers: bool,
    /// Stripes of chunks, for tabled segments.
    pub table: Option<StripeTable>,
    /// Entries of chunk blocks whose span has no index run on media yet, by column; they start
    /// at `first_unindexed`.
    pub entries: Vec<Vec<IndexEntry>>,
    /// The first chunk block of each column that no index run covers.
    pub first_unindexed: ChunkBlock,
    /// Spans whose index run is on media.
    pub indexed_spans: u32,
    /// Whether the table knows that it may stand differently now.
    noted: Cell<bool>,
}

impl Segment {
    /// A segment as its header describes it, with nothing in it.
    #[must_use]
    pub(in crate::log) fn new(
        header: &SegmentHeader,
        zones: Vec<Option<ColumnZone>>,
        phase: Phase,
    ) -> Self {
        let geometry = &header.geometry;
        let columns = geometry.scheme().width();
        assert!(zones.len() == columns, "{} zones for {columns} columns", zones.len());
        Self {
            id: header.segment,
            generation: header.generation,
            epoch: header.epoch,
            stream: header.stream,
            // What an earlier start wrote has stayed.
            lifetime: Lifetime::Long,
            geometry: header.geometry,
            zones,
            listed: header.zones.clone(),
            phase,
            valid: 0,
            live: None,
            pages_away: 0,
            min_sequence: u64::MAX,
            readers: 0,
            reached: 0,
            settled: false,
            listed_by_checkpoint: false,
            settling: false,
            in_flight: 0,
            busy: false,
            freeing: false,
            death_recorded: false,
            finishing: false,
            valid_before_move: 0,
            kept: false,
            doubtful: false,
            damaged: false,
            unlisted: false,
            holds_active_zones: phase != Phase::Sealed,
            cursor: (phase == Phase::Open)
                .then(|| Cursor { next_row: 0, group: geometry.group_of(Row(0)) }),
            queues: (0..columns).map(|_| ZoneQueue::default()).collect(),
            gathers: false,
            table: header.tabled.then(|| StripeTable::new(geometry)),
            entries: vec![Vec::new(); columns],
            first_unindexed: ChunkBlock(0),
            indexed_spans: 0,
            noted: Cell::new(false),
        }
    }

    /// Remembers which blocks the index maps from now on, of a segment with nothing in it.
    pub(in crate::log) fn remember_live(&mut self) {
        self.live = Some(FixedBitSet::with_capacity(self.geometry.chunk_blocks_in_all()));
    }

    /// Notes that the index maps a block, or does no more.
    pub(in crate::log) fn note_live(&mut self, place: BlockPlace, lives: bool) {
        let at = self.bit_of(place);
        if let Some(live) = &mut self.live {
            live.set(at, lives);
        }
    }

    /// Whether the index may map a block.
    #[must_use]
    pub(in crate::log) fn may_be_live(&self, place: BlockPlace) -> bool {
        self.live.as_ref().is_none_or(|live| live.contains(self.bit_of(place)))
    }

    fn bit_of(&self, place: BlockPlace) -> usize {
        place.column.index() * self.geometry.column_blocks() as usize + place.block.0 as usize
    }

    /// Memory of which blocks of a segment the index maps.
    #[must_use]
    pub(in crate::log) fn live_bytes_of(geometry: &SegmentGeometry) -> u64 {
        geometry.chunk_blocks_in_all().div_ceil(128) as u64 * 16
    }

    /// The same of this one.
    #[must_use]
    pub(in crate::log) fn live_bytes(&self) -> u64 {
        if self.live.is_some() { Self::live_bytes_of(&self.geometry) } else { 0 }
    }

    /// Memory of what is recorded of blocks not yet covered by an index run.
    #[must_use]
    pub(in crate::log) fn list_bytes(&self) -> u64 {
        let entries: usize = self.entries.iter().map(Vec::capacity).sum();
        (entries * size_of::<IndexEntry>()) as u64
    }

    /// Whether it takes no more stripes and nothing in it is needed: it can be freed.
    #[must_use]
    pub(in crate::log) fn holds_nothing(&self) -> bool {
        let closed = matches!(self.phase, Phase::Sealed | Phase::Leftover);
        closed && self.counts_nothing() && !self.kept
    }

    /// Whether nothing in it is needed. Which blocks are live tells less: pages and tombstones are
    /// not among them.
    #[must_use]
    pub(in crate::log) fn counts_nothing(&self) -> bool {
        let none_live = || self.live.as_ref().is_some_and(FixedBitSet::is_clear);
        self.valid == 0 || INSTRUMENTED && none_live() && mutant(Mutant::LiveBitsDecide)
    }

    /// Whether nothing can come to be in it any more. (What a drive has put where is known only
    /// from the lists, which are read in any case then.)
    #[must_use]
    pub(in crate::log) fn is_settled(&self) -> bool {
        self.phase == Phase::Sealed && self.in_flight == 0 && self.table.is_none()
    }

    /// Whether it can be freed now.
    fn can_be_freed(&self) -> bool {
        self.holds_nothing() && self.in_flight == 0 && !self.busy
    }

    /// Whether it is being freed, or is next.
    fn comes_free(&self) -> bool {
        self.can_be_freed() || self.freeing || self.phase == Phase::Dead
    }

    /// Whether it has to be moved out whatever that costs, and nobody works on it.
    fn must_be_moved(&self) -> bool {
        self.may_be_moved() && self.is_to_go()
    }

    /// Whether it is moved out whatever that costs.
    #[must_use]
    pub(in crate::log) fn is_to_go(&self) -> bool {
        self.phase == Phase::Leftover || self.damaged
    }

    /// Whether something is to be moved out of it, and nobody works on it.
    #[must_use]
    pub(in crate::log) fn may_be_moved(&self) -> bool {
        let closed = matches!(self.phase, Phase::Sealed | Phase::Leftover);
        closed && self.valid > 0 && self.in_flight == 0 && !(self.busy || self.kept)
    }

    /// The columns it has.
    #[must_use]
    pub(in crate::log) fn columns(&self) -> ColumnSet {
        let present = self.zones.iter().enumerate().filter(|(_, zone)| zone.is_some());
        present.map(|(column, _)| Column::of(column)).collect()
    }

    /// Whether it is on a column that it lacks.
    #[must_use]
    pub(in crate::log) fn lacks(&self, column: Column) -> bool {
        let scheme = self.geometry.scheme();
        let is_on = scheme.contains(column) || mutant(Mutant::NarrowLacksColumns);
        is_on && self.zones[column.index()].is_none()
    }

    /// Records what blocks of a chunk hold, from one on, until their span's index run is written.
    pub(in crate::log) fn record(
        &mut self,
        column: Column,
        first: ChunkBlock,
        of_blocks: &[IndexEntry],
    ) {
        assert!(first >= self.first_unindexed, "block {} has its index run", first.0);
        let at = (first.0 - self.first_unindexed.0) as usize;
        let entries = &mut self.entries[column.index()];
        if entries.len() < at + of_blocks.len() {
            entries.resize(at + of_blocks.len(), IndexEntry::EMPTY);
        }
        entries[at..at + of_blocks.len()].copy_from_slice(of_blocks);
        for entry in of_blocks {
            if matches!(entry.kind, EntryKind::Data | EntryKind::Tombstone | EntryKind::Lost) {
                self.min_sequence = self.min_sequence.min(entry.sequence);
            }
        }
    }

    /// What is recorded of a chunk block not yet covered by an index run.
    #[must_use]
    pub(in crate::log) fn recorded(&self, column: Column, block: ChunkBlock) -> IndexEntry {
        let at = (block.0 - self.first_unindexed.0) as usize;
        self.entries[column.index()].get(at).copied().unwrap_or(IndexEntry::EMPTY)
    }

    /// The stripe, counted through the segment, of the chunk at a row of a column.
    #[must_use]
    pub(in crate::log) fn stripe_of(&self, column: Column, row: Row) -> u32 {
        match &self.table {
            None => row.0,
            Some(table) => self.geometry.group_of(row).start + u32::from(table.get(column, row)),
        }
    }

    /// The row at which `column` holds its chunk of a stripe, if it is known to hold one.
    #[must_use]
    pub(in crate::log) fn row_of_stripe(&self, column: Column, stripe: u32) -> Option<Row> {
        let Some(table) = &self.table else { return Some(Row(stripe)) };
        let group = self.geometry.group_of(Row(stripe));
        let in_group = u16::try_from(stripe - group.start).expect("at most 65,536 rows a group");
        table.find(column, group, in_group)
    }

    /// Forgets the entries of a span whose index run is on media.
    pub(in crate::log) fn span_indexed(&mut self, span: u32) {
        assert!(self.indexed_spans == span, "spans end in order");
        self.indexed_spans = span + 1;
        let end = Row(self.geometry.rows_of_span(span).end);
        self.first_unindexed = self.geometry.block_of(end, 0);
        let last = span + 1 == self.geometry.spans();
        // Nothing will be entered any more: the room for it would be kept for as long as the
        // segment.
        let empty = |entries: &mut Vec<IndexEntry>| {
            if last { *entries = Vec::new() } else { entries.clear() }
        };
        self.entries.iter_mut().for_each(empty);
    }
}

/// Segments that somebody looks for whenever something changes. Looking at each segment each time
/// would cost more than what is done with them.
#[derive(Default)]
pub(in crate::log) struct Standing {
    /// Those that can be freed.
    pub(in crate::log) empty: BTreeSet<SegmentSlot>,
    /// Those that can be freed or are being freed.
    pub(in crate::log) coming: BTreeSet<SegmentSlot>,
    /// Those that have to be moved out whatever that costs.
    pub(in crate::log) urgent: BTreeSet<SegmentSlot>,
}

impl Standing {
    fn note(&mut self, slot: SegmentSlot, segment: Option<&Segment>) {
        let mut keep = |set: fn(&mut Self) -> &mut BTreeSet<SegmentSlot>, is_in: bool| match is_in {
            true => set(self).insert(slot),
            false => set(self).remove(&slot),
        };
        let is = |what: fn(&Segment) -> bool| segment.is_some_and(what);
        keep(|standing| &mut standing.empty, is(Segment::can_be_freed));
        keep(|standing| &mut standing.coming, is(Segment::comes_free));
        keep(|standing| &mut standing.urgent, is(Segment::must_be_moved));
    }
}

#[derive(Default)]
pub(in crate::log) struct SegmentTable {
    slots: Vec<Option<Segment>>,
    vacant: BTreeSet<SegmentSlot>,
    /// Slots whose segments may stand differently since they were looked at.
    changed: RefCell<Vec<SegmentSlot>>,
    standing: RefCell<Standing>,
}

impl SegmentTable {
    /// A table of `slots` empty slots.
    #[must_use]
    pub(in crate::log) fn new(slots: u32) -> Self {
        let vacant = (0..slots).map(SegmentSlot).collect();
        Self { slots: (0..slots).map(|_| None).collect(), vacant, ..Self::default() }
    }

    #[must_use]
    pub(in crate::log) fn vacant(&self) -> Option<SegmentSlot> {
        self.vacant.first().copied()
    }

    /// How many slots there are.
    #[must_use]
    pub(in crate::log) fn slots(&self) -> u64 {
        self.slots.len() as u64
    }

    /// How many slots are empty.
    #[must_use]
    pub(in crate::log) fn vacancies(&self) -> usize {
        self.vacant.len()
    }

    /// Segments that somebody looks for, as they are now.
    pub(in crate::log) fn standing(&self) -> Ref<'_, Standing> {
        let changed = self.changed.take();
        if !changed.is_empty() {
            let mut standing = self.standing.borrow_mut();
            for slot in changed {
                let segment = self.get(slot);
                if let Some(segment) = segment {
                    segment.noted.set(false);
                }
                standing.note(slot, segment);
            }
        }
        self.standing.borrow()
    }

    /// Puts a segment into an empty slot.
    pub(in crate::log) fn insert(&mut self, slot: SegmentSlot, segment: Segment) {
        segment.noted.set(true);
        let before = self.slots[slot.index()].replace(segment);
        assert!(before.is_none(), "slot {} holds a segment", slot.0);
        self.vacant.remove(&slot);
        self.changed.get_mut().push(slot);
    }

    /// Puts segments into other slots: those named go there, the others where there is room.
    ///
    /// # Panics
    /// If two are to be in one slot.
    pub(in crate::log) fn rearrange(
        &mut self,
        wanted: impl Fn(&Segment) -> Option<SegmentSlot>,
    ) -> BTreeMap<SegmentSlot, SegmentSlot> {
        let slots = std::mem::take(&mut self.slots);
        *self = Self::new(u32::try_from(slots.len()).expect("slots are counted in 32 bits"));
        let segments = (0..).map(SegmentSlot).zip(slots);
        let segments = segments.filter_map(|(from, segment)| Some((from, segment?)));
        let (named, others): (Vec<_>, Vec<_>) =
            segments.map(|(from, s)| (from, wanted(&s), s)).partition(|(_, to, _)| to.is_some());
        let mut moved = BTreeMap::new();
        for (from, to, segment) in named.into_iter().chain(others) {
            let to = to.or_else(|| self.vacant()).expect("as many slots as before");
            self.insert(to, segment);
            moved.insert(from, to);
        }
        moved
    }

    /// Takes a segment out.
    pub(in crate::log) fn remove(&mut self, slot: SegmentSlot) -> Segment {
        let segment = self.slots[slot.index()].take().expect("a segment in the slot");
        self.vacant.insert(slot);
        self.changed.get_mut().push(slot);
        segment
    }

    /// The segment in a slot, if there is one.
    #[must_use]
    pub(in crate::log) fn get(&self, slot: SegmentSlot) -> Option<&Segment> {
        self.slots.get(slot.index())?.as_ref()
    }

    /// The segment in a slot, to be changed, if there is one.
    pub(in crate::log) fn get_mut(&mut self, slot: SegmentSlot) -> Option<&mut Segment> {
        let segment = self.slots.get_mut(slot.index())?.as_mut()?;
        if !segment.noted.replace(true) {
            self.changed.get_mut().push(slot);
        }
        Some(segment)
    }

    pub(in crate::log) fn iter(&self) -> impl Iterator<Item = (SegmentSlot, &Segment)> {
        (0..).map(SegmentSlot).zip(&self.slots).filter_map(|(slot, s)| Some((slot, s.as_ref()?)))
    }

    /// Every segment, to be changed.
    pub(in crate::log) fn iter_mut(&mut self) -> impl Iterator<Item = (SegmentSlot, &mut Segment)> {
        let changed = self.changed.get_mut();
        let slots = (0..).map(SegmentSlot).zip(&mut self.slots);
        slots.filter_map(|(slot, segment)| Some((slot, segment.as_mut()?))).inspect(
            |(slot, segment)| {
                if !segment.noted.replace(true) {
                    changed.push(*slot);
                }
            },
        )
    }
}

impl std::ops::Index<SegmentSlot> for SegmentTable {
    type Output = Segment;
    fn index(&self, slot: SegmentSlot) -> &Segment {
        self.slots[slot.index()].as_ref().expect("a segment in the slot")
    }
}

impl std::ops::IndexMut<SegmentSlot> for SegmentTable {
    fn index_mut(&mut self, slot: SegmentSlot) -> &mut Segment {
        self.get_mut(slot).expect("a segment in the slot")
    }
}
