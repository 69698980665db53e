//! Segments in memory: their zones, write positions and numbers of valid blocks.

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use fixedbitset::FixedBitSet;
use serde::Serialize;
use zoneweave_zoned::ZoneId;

use crate::instrument::marks::INSTRUMENTED;
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::{BlockPlace, SegmentSlot};
use crate::log::engine::geometry::{ChunkBlock, Row, SegmentGeometry};
use crate::log::format::{EntryKind, IndexEntry, SegmentHeader, SegmentId, StreamKind};
use crate::log::segment::stripe_table::StripeTable;
use crate::log::write::lane::Lifetime;
use crate::scheme::{Column, ColumnSet};

/// The phase of a segment's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It takes stripes.
    Open,
    /// Complete: every row and every summary is written.
    Sealed,
    /// Incomplete for ever, after a crash or a failed write. Its live blocks are relocated first.
    Leftover,
    /// Without valid blocks; its zones are being reset.
    Dead,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Write position of an open segment.
#[derive(Debug)]
pub(in crate::log) struct Cursor {
    /// The next row to be started, in the current group, in the order of starts.
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

/// The zone of one column, and its wear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) struct ColumnZone {
    /// Number of the zone on the column's drive.
    pub zone: ZoneId,
    /// Resets of the zone before this use.
    pub resets: u64,
}

/// One segment: its shape, its zones, its write position and its phase.
pub(in crate::log) struct Segment {
    /// Its number, never used again.
    pub id: SegmentId,
    /// Repeated in every block of the segment.
    pub generation: u64,
    /// Version of the membership at its creation, according to its headers.
    pub epoch: u64,
    /// The stream that fills it.
    pub stream: StreamKind,
    /// Expected lifetime of its blocks.
    pub lifetime: Lifetime,
    /// Its shape, from which every offset in its zones follows.
    pub geometry: SegmentGeometry,
    /// Each column's zone; `None` if the column is missing, or the segment is not on it.
    pub zones: Vec<Option<ColumnZone>>,
    /// The zones in its header. A column is rebuilt into another zone: a copy in the listed zone
    /// would pass for the column itself, finished or not.
    pub listed: Vec<Option<ZoneId>>,
    /// Phase of its life.
    pub phase: Phase,
    /// Blocks of it that the index maps, and tombstone blocks in use.
    pub valid: u64,
    /// The blocks that the index maps, column by column. Kept if pages may leave memory, so that
    /// these need not be read to know. `None` if unknown.
    pub live: Option<FixedBitSet>,
    /// Valid mapping blocks in it of pages that are not in memory.
    pub pages_away: u64,
    /// The oldest sequence of any block in it; `u64::MAX` while it holds none.
    pub min_sequence: u64,
    /// Reads in flight; its zones are not reset before they end.
    pub readers: u32,
    /// Blocks in it that belong to the newest checkpoint, or to one that is being written.
    pub reached: u32,
    /// The newest checkpoint covers everything in it: it is not replayed.
    pub settled: bool,
    /// The checkpoint being written will cover everything in it.
    pub settling: bool,
    /// It is listed by the checkpoint that the start has read.
    pub listed_by_checkpoint: bool,
    /// Stripes in flight.
    pub in_flight: u32,
    /// A task (collection, rebuild, scrub) works on it; other tasks leave it alone.
    pub busy: bool,
    /// It has no valid blocks, and is being freed.
    pub freeing: bool,
    /// Its death is recorded: no crash can bring it back.
    pub death_recorded: bool,
    /// Its zones are being finished.
    pub finishing: bool,
    /// Number of valid blocks when its relocation began.
    pub valid_before_move: u64,
    /// The next start would need it if this one were interrupted: it is neither freed nor relocated
    /// by the collector.
    pub kept: bool,
    /// A member in service has provably nothing of it, so its death may once have been recorded:
    /// any copy of its blocks in another segment is preferred.
    pub doubtful: bool,
    /// Damage was found: it is relocated as soon as possible.
    pub damaged: bool,
    /// Its contents are not completely known, so its summaries are not written again.
    pub unlisted: bool,
    /// Its zones are open or closed, not full: they count against the drives' active limit.
    pub holds_active_zones: bool,
    /// Write position, while open.
    pub cursor: Option<Cursor>,
    /// Stripe of each chunk, in segments with a stripe table.
    pub table: Option<StripeTable>,
    /// Entries of chunk blocks whose span has no summary on media yet, by column; they start at
    /// `first_unindexed`.
    pub entries: Vec<Vec<IndexEntry>>,
    /// The first chunk block of each column that no summary covers.
    pub first_unindexed: ChunkBlock,
    /// Spans whose summary is on media.
    pub indexed_spans: u32,
    /// Whether it is queued for reclassification in [`Standing`].
    noted: Cell<bool>,
}

impl Segment {
    /// A segment as its header describes it, with nothing written.
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
            // Blocks of an earlier start have survived so far.
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
            table: header.tabled.then(|| StripeTable::new(geometry)),
            entries: vec![Vec::new(); columns],
            first_unindexed: ChunkBlock(0),
            indexed_spans: 0,
            noted: Cell::new(false),
        }
    }

    /// Starts to track the mapped blocks of a segment that has none.
    pub(super) fn remember_live(&mut self) {
        self.live = Some(FixedBitSet::with_capacity(self.geometry.chunk_blocks_in_all()));
    }

    /// Records whether the index maps a block.
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

    /// Memory for tracking the mapped blocks of a segment, in bytes.
    #[must_use]
    pub(in crate::log) fn live_bytes_of(geometry: &SegmentGeometry) -> u64 {
        geometry.chunk_blocks_in_all().div_ceil(128) as u64 * 16
    }

    /// The same for this segment.
    #[must_use]
    pub(in crate::log) fn live_bytes(&self) -> u64 {
        if self.live.is_some() { Self::live_bytes_of(&self.geometry) } else { 0 }
    }

    /// Memory of entries not yet covered by a summary, in bytes.
    #[must_use]
    pub(in crate::log) fn list_bytes(&self) -> u64 {
        let entries: usize = self.entries.iter().map(Vec::capacity).sum();
        (entries * size_of::<IndexEntry>()) as u64
    }

    /// Whether it takes no more stripes and has no valid blocks, so that it can be freed.
    #[must_use]
    pub(in crate::log) fn holds_nothing(&self) -> bool {
        let closed = matches!(self.phase, Phase::Sealed | Phase::Leftover);
        closed && self.counts_nothing() && !self.kept
    }

    /// Whether it has no valid blocks. The tracked blocks are not enough: pages and tombstones are
    /// not among them.
    #[must_use]
    pub(in crate::log) fn counts_nothing(&self) -> bool {
        let none_live = || self.live.as_ref().is_some_and(FixedBitSet::is_clear);
        self.valid == 0 || INSTRUMENTED && none_live() && mutant(Mutant::LiveBitsDecide)
    }

    /// Whether its contents are final. (In segments with a stripe table, the rows that drives chose
    /// are known only from summaries, which are read in any case.)
    #[must_use]
    pub(in crate::log) fn is_settled(&self) -> bool {
        self.phase == Phase::Sealed && self.in_flight == 0 && self.table.is_none()
    }

    /// Whether it can be freed now.
    fn can_be_freed(&self) -> bool {
        self.holds_nothing() && self.in_flight == 0 && !self.busy
    }

    /// Whether it is being freed, or can be.
    fn comes_free(&self) -> bool {
        self.can_be_freed() || self.freeing || self.phase == Phase::Dead
    }

    /// Whether it has to be relocated at any cost, and no task works on it.
    fn must_be_moved(&self) -> bool {
        self.may_be_moved() && self.is_to_go()
    }

    /// Whether it is relocated at any cost.
    #[must_use]
    pub(in crate::log) fn is_to_go(&self) -> bool {
        self.phase == Phase::Leftover || self.damaged
    }

    /// Whether it has blocks to relocate, and no task works on it.
    #[must_use]
    pub(in crate::log) fn may_be_moved(&self) -> bool {
        let closed = matches!(self.phase, Phase::Sealed | Phase::Leftover);
        closed && self.valid > 0 && self.in_flight == 0 && !(self.busy || self.kept)
    }

    /// Columns on which it has a zone.
    #[must_use]
    pub(in crate::log) fn columns(&self) -> ColumnSet {
        let present = self.zones.iter().enumerate().filter(|(_, zone)| zone.is_some());
        present.map(|(column, _)| Column::of(column)).collect()
    }

    /// Whether it should be on a column but has no zone there.
    #[must_use]
    pub(in crate::log) fn lacks(&self, column: Column) -> bool {
        let scheme = self.geometry.scheme();
        let is_on = scheme.contains(column) || mutant(Mutant::NarrowLacksColumns);
        is_on && self.zones[column.index()].is_none()
    }

    /// Records entries of a chunk's blocks, from one on, until their span's summary is written.
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

    /// The entry of a chunk block not yet covered by a summary.
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

    /// Drops the entries of a span whose summary is on media.
    pub(super) fn span_indexed(&mut self, span: u32) {
        assert!(self.indexed_spans == span, "spans end in order");
        self.indexed_spans = span + 1;
        let end = Row(self.geometry.rows_of_span(span).end);
        self.first_unindexed = self.geometry.block_of(end, 0);
        let last = span + 1 == self.geometry.spans();
        // No entry will follow: the capacity would be kept for the life of the segment.
        let empty = |entries: &mut Vec<IndexEntry>| {
            if last { *entries = Vec::new() } else { entries.clear() }
        };
        self.entries.iter_mut().for_each(empty);
    }
}

/// Segments by the tasks that look for them at every change. Examining all segments each time would
/// cost more than the tasks themselves.
#[derive(Default)]
pub(in crate::log) struct Standing {
    /// Segments that can be freed.
    pub(in crate::log) empty: BTreeSet<SegmentSlot>,
    /// Segments that can be freed or are being freed.
    pub(in crate::log) coming: BTreeSet<SegmentSlot>,
    /// Segments that have to be relocated at any cost.
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
    /// Slots whose segments may have to be reclassified.
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

    /// The segments by task, up to date.
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

    /// Moves segments to other slots: the named ones to theirs, the others to free slots.
    ///
    /// # Panics
    /// If two are given the same slot.
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

    /// Returns the segment in a slot for changes.
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

    /// Iterates over all segments for changes.
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
