//! One segment: its identity, shape and zones, its life, and what is known of its blocks.

use zoneweave_zoned::ZoneId;

use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::BlockPlace;
use crate::log::engine::class::Lifetime;
use crate::log::engine::geometry::{ChunkBlock, Row, SegmentGeometry};
use crate::log::format::{
    EntryKind, Epoch, Generation, IndexEntry, SegmentHeader, SegmentId, Sequence, StreamKind,
};
use crate::log::segment::stripe_table::StripeTable;
use crate::log::segment::table::damage::DamagedBlocks;
use crate::log::segment::table::life::{Life, Phase, Work};
use crate::log::segment::table::span_entries::SpanEntries;
use crate::log::segment::table::valid_blocks::ValidBlocks;
use crate::scheme::{Column, ColumnSet, StripeId};

/// The zone of one column, and its wear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) struct ColumnZone {
    /// Number of the zone on the column's drive.
    pub zone: ZoneId,
    /// Resets of the zone before this use.
    pub resets: u64,
}

/// How far the newest checkpoint covers a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coverage {
    /// It is replayed.
    Replayed,
    /// It is replayed, but was listed by the checkpoint that the start has read. This matters only
    /// until all pages are loaded, and no checkpoint is taken before.
    Listed,
    /// Everything in it is covered: it is not replayed.
    Covered,
}

/// Whether the blocks of a segment can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Condition {
    Sound,
    /// Damage was found: it is relocated as soon as possible.
    Damaged,
    /// Its contents are not completely known, so its summaries are not written again either.
    NoSummary,
}

/// One segment: its shape, its zones, its write position and its phase.
pub(in crate::log) struct Segment {
    /// Its number, never used again.
    pub id: SegmentId,
    /// Repeated in every block of the segment.
    pub generation: Generation,
    /// Version of the membership at its creation, according to its headers.
    pub epoch: Epoch,
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
    /// Its phase, and the task that works on it.
    pub life: Life,
    /// Its valid blocks.
    valid: ValidBlocks,
    /// The oldest sequence of any block in it; `u64::MAX` while it holds none.
    min_sequence: Sequence,
    /// Reads in flight; its zones are not reset before they end.
    readers: u32,
    /// Stripes in flight.
    in_flight: u32,
    coverage: Coverage,
    /// Blocks in it that belong to the newest checkpoint, or to one that is being written.
    pub checkpoint_blocks: u32,
    condition: Condition,
    /// Its blocks that are known to be damaged.
    pub damage: DamagedBlocks,
    /// Columns whose zone ends before rows that are complete on the others. Found by recovery.
    pub short: ColumnSet,
    /// The next start would need it if this one were interrupted: it is neither freed nor relocated
    /// by the collector.
    pub retained_for_restart: bool,
    /// Some of its valid blocks can be restored only once a member that is out of service returns.
    /// They stay where they are until a drive joins, unless space is needed that nothing else
    /// yields.
    pub awaits_member: bool,
    /// A member in service has provably nothing of it, so its death may once have been recorded:
    /// any copy of its blocks in another segment is preferred.
    pub suspect: bool,
    /// Stripe of each chunk, in segments with a stripe table.
    pub table: Option<StripeTable>,
    /// Entries of the blocks that no summary on media covers.
    pub entries: SpanEntries,
}

impl Segment {
    /// A segment as its header describes it, about to be filled.
    #[must_use]
    pub(in crate::log) fn open(header: &SegmentHeader, zones: Vec<Option<ColumnZone>>) -> Self {
        Self::new(header, zones, Life::open(&header.geometry))
    }

    /// A segment of an earlier start with all rows and summaries.
    #[must_use]
    pub(in crate::log) fn sealed(header: &SegmentHeader, zones: Vec<Option<ColumnZone>>) -> Self {
        let mut segment = Self::new(header, zones, Life::sealed());
        segment.entries.begin_at(header.geometry.spans(), &header.geometry);
        segment
    }

    /// An incomplete segment of an earlier start, of whose blocks nothing is known yet.
    #[must_use]
    pub(in crate::log) fn leftover(header: &SegmentHeader, zones: Vec<Option<ColumnZone>>) -> Self {
        Self::new(header, zones, Life::leftover())
    }

    fn new(header: &SegmentHeader, zones: Vec<Option<ColumnZone>>, life: Life) -> Self {
        let geometry = &header.geometry;
        let columns = geometry.scheme().width();
        assert!(zones.len() == columns, "{} zones for {columns} columns", zones.len());
        let listed = header.zones.len();
        assert!(listed == columns, "segment {} lists {listed} zones", header.segment);
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
            life,
            valid: ValidBlocks::default(),
            min_sequence: Sequence::MAX,
            readers: 0,
            in_flight: 0,
            coverage: Coverage::Replayed,
            checkpoint_blocks: 0,
            condition: Condition::Sound,
            damage: DamagedBlocks::default(),
            short: ColumnSet::default(),
            retained_for_restart: false,
            awaits_member: false,
            suspect: false,
            table: header.tabled.then(|| StripeTable::new(geometry)),
            entries: SpanEntries::new(columns),
        }
    }

    #[must_use]
    pub(in crate::log) fn phase(&self) -> Phase {
        self.life.phase()
    }

    /// Whether it takes stripes.
    #[must_use]
    pub(in crate::log) fn is_open(&self) -> bool {
        self.phase() == Phase::Open
    }

    /// Whether it takes no more stripes, and is not dead.
    #[must_use]
    pub(in crate::log) fn is_closed(&self) -> bool {
        matches!(self.phase(), Phase::Sealed | Phase::Leftover)
    }

    /// Whether a task works on it.
    #[must_use]
    pub(in crate::log) fn is_busy(&self) -> bool {
        self.life.is_busy()
    }

    /// Whether it is being freed.
    #[must_use]
    pub(in crate::log) fn is_freeing(&self) -> bool {
        self.phase() == Phase::Dead || self.life.work() == Work::Reset
    }

    /// Whether its contents are final. (In segments with a stripe table, the rows that drives chose
    /// are known only from summaries, which are read in any case.)
    #[must_use]
    pub(in crate::log) fn is_final(&self) -> bool {
        self.phase() == Phase::Sealed && self.in_flight == 0 && self.table.is_none()
    }

    /// Whether it takes no more stripes and has no valid blocks, so that it can be freed.
    #[must_use]
    pub(in crate::log) fn holds_nothing(&self) -> bool {
        self.is_closed() && self.valid.is_empty() && !self.retained_for_restart
    }

    /// Whether it can be freed now.
    pub(super) fn can_be_freed(&self) -> bool {
        self.holds_nothing() && self.in_flight == 0 && !self.is_busy()
    }

    /// Whether it is being freed, or can be.
    pub(super) fn comes_free(&self) -> bool {
        self.can_be_freed() || self.is_freeing()
    }

    /// Whether it has to be relocated at any cost, and no task works on it.
    pub(super) fn must_be_moved(&self) -> bool {
        self.may_be_moved() && self.is_to_go() && !self.waits()
    }

    /// Whether it waits for a member that is out of service. Without a whole list of its blocks it
    /// must not: a start without it would take older versions for the newest.
    #[must_use]
    pub(in crate::log) fn waits(&self) -> bool {
        self.awaits_member && !self.has_no_summary()
    }

    /// Whether it is relocated at any cost.
    #[must_use]
    pub(in crate::log) fn is_to_go(&self) -> bool {
        self.phase() == Phase::Leftover || self.is_damaged()
    }

    /// Whether it has blocks to relocate, and no task works on it.
    #[must_use]
    pub(in crate::log) fn may_be_moved(&self) -> bool {
        let is_idle = self.in_flight == 0 && !self.is_busy();
        self.is_closed() && self.valid() > 0 && is_idle && !self.retained_for_restart
    }
}

/// Stripes in flight and readers.
impl Segment {
    /// Stripes in flight.
    #[must_use]
    pub(in crate::log) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Adds a write in flight: the segment is not reclaimed before it ends.
    pub(in crate::log) fn begin_write(&mut self) {
        assert!(self.phase() != Phase::Dead, "a write to dead segment {}", self.id);
        self.in_flight += 1;
    }

    /// Ends a write in flight.
    pub(in crate::log) fn end_write(&mut self) {
        self.in_flight = self.in_flight.checked_sub(1).expect("a write in flight");
    }

    /// Starts a stripe of blocks from a sequence on; returns its number.
    pub(in crate::log) fn begin_stripe(&mut self, oldest: Sequence) -> StripeId {
        self.begin_write();
        // Even if the stripe never counts, a crash may leave it on media.
        self.holds_from(oldest);
        StripeId(self.life.cursor_mut().expect("an open segment has a cursor").take_row())
    }

    /// Reads in flight.
    #[must_use]
    pub(in crate::log) fn readers(&self) -> u32 {
        self.readers
    }

    /// Adds a reader: the segment's zones are not reset before it ends.
    pub(in crate::log) fn begin_read(&mut self) {
        self.readers += 1;
    }

    /// Ends a reader.
    pub(in crate::log) fn end_read(&mut self) {
        self.readers = self.readers.checked_sub(1).expect("a reader");
    }
}

/// Valid blocks.
impl Segment {
    /// Number of valid blocks: those that the index maps, mapping blocks of absent pages, and
    /// tombstone blocks in use.
    #[must_use]
    pub(in crate::log) fn valid(&self) -> u64 {
        self.valid.count()
    }

    /// Whether it has no valid blocks.
    #[must_use]
    pub(in crate::log) fn has_no_valid(&self) -> bool {
        self.valid.is_empty()
    }

    /// Valid mapping blocks of pages that are not in memory.
    #[must_use]
    pub(in crate::log) fn pages_away(&self) -> u64 {
        self.valid.pages_away()
    }

    /// Starts to track the mapped blocks of a segment that has none.
    pub(in crate::log::segment) fn track_mapped(&mut self) {
        self.valid.track(&self.geometry);
    }

    fn assert_lives(&self) {
        assert!(self.phase() != Phase::Dead, "mapped into dead segment {}", self.id);
    }

    /// The index maps a block.
    pub(in crate::log) fn add_mapped(&mut self, place: BlockPlace) {
        self.assert_lives();
        let is_inside = self.geometry.contains(place.column, place.block);
        assert!(is_inside, "mapped to {place:?}, beyond segment {}", self.id);
        self.valid.map(&self.geometry, place);
    }

    /// The index no longer maps a block, or a tombstone block is no longer in use.
    pub(in crate::log) fn take_mapped(&mut self, place: BlockPlace) {
        self.valid.unmap(&self.geometry, place);
    }

    /// Adds valid blocks without regard to which they are: tombstones, or those of a segment whose
    /// mapped blocks are not tracked.
    pub(in crate::log) fn add_valid(&mut self, blocks: u64) {
        self.assert_lives();
        self.valid.add(blocks);
    }

    /// Takes out a tombstone block.
    pub(in crate::log) fn take_tombstone(&mut self) {
        self.valid.take();
    }

    /// Adds the mapping block of a page that left memory.
    pub(in crate::log) fn add_page(&mut self) {
        assert!(self.phase() != Phase::Dead, "a page in dead segment {}", self.id);
        self.valid.add_page();
    }

    /// Takes out the mapping block of a page that is loaded.
    pub(in crate::log) fn take_page(&mut self) {
        assert!(self.phase() != Phase::Dead, "a page in dead segment {}", self.id);
        self.valid.take_page();
    }

    /// Whether the index may map a block.
    #[must_use]
    pub(in crate::log) fn may_be_mapped(&self, place: BlockPlace) -> bool {
        self.valid.may_be_mapped(&self.geometry, place)
    }

    /// Memory for tracking the mapped blocks of a segment, in bytes.
    #[must_use]
    pub(in crate::log) fn tracking_bytes_of(geometry: &SegmentGeometry) -> u64 {
        geometry.chunk_blocks_in_all().div_ceil(128) as u64 * 16
    }

    /// The same for this segment.
    #[must_use]
    pub(in crate::log) fn tracking_bytes(&self) -> u64 {
        if self.valid.are_tracked() { Self::tracking_bytes_of(&self.geometry) } else { 0 }
    }
}

/// Checkpoints and damage.
impl Segment {
    /// Whether the newest checkpoint covers everything in it: it is not replayed.
    #[must_use]
    pub(in crate::log) fn is_in_checkpoint(&self) -> bool {
        self.coverage == Coverage::Covered
    }

    /// Whether the checkpoint that the start has read lists it without covering it.
    #[must_use]
    pub(in crate::log) fn is_listed(&self) -> bool {
        self.coverage == Coverage::Listed
    }

    /// The checkpoint that the start has read lists it.
    pub(in crate::log) fn list_in_checkpoint(&mut self) {
        assert!(self.coverage == Coverage::Replayed, "segment {} is listed twice", self.id);
        self.coverage = Coverage::Listed;
    }

    /// The newest checkpoint covers everything in it.
    pub(in crate::log) fn enter_checkpoint(&mut self) {
        self.coverage = Coverage::Covered;
    }

    /// The newest checkpoint does not cover it, or counts no more.
    pub(in crate::log) fn leave_checkpoint(&mut self) {
        if self.coverage == Coverage::Covered {
            self.coverage = Coverage::Listed;
        }
    }

    /// Whether damage was found.
    #[must_use]
    pub(in crate::log) fn is_damaged(&self) -> bool {
        self.condition >= Condition::Damaged
    }

    /// Whether its contents are not completely known, so that its summaries are not written again.
    #[must_use]
    pub(in crate::log) fn has_no_summary(&self) -> bool {
        self.condition == Condition::NoSummary
    }

    /// Damage was found.
    pub(in crate::log) fn mark_damaged(&mut self) {
        self.condition = self.condition.max(Condition::Damaged);
    }

    /// Some of its entries are lost.
    pub(in crate::log) fn mark_no_summary(&mut self) {
        self.condition = Condition::NoSummary;
    }
}

/// Columns, rows and entries.
impl Segment {
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

    /// Columns on which it should be and of which all or some rows are missing.
    #[must_use]
    pub(in crate::log) fn absent(&self) -> ColumnSet {
        let columns = (0..self.zones.len()).map(Column::of);
        columns.filter(|column| self.lacks(*column)).fold(self.short, ColumnSet::with)
    }

    /// Rows in which no stripe was started.
    #[must_use]
    pub(in crate::log) fn rows_left(&self) -> u32 {
        self.life.cursor().map_or(0, |cursor| self.geometry.rows() - cursor.next_row)
    }

    /// The oldest sequence of any block in it; `u64::MAX` while it holds none.
    #[must_use]
    pub(in crate::log) fn min_sequence(&self) -> Sequence {
        self.min_sequence
    }

    /// Records that it may hold a block with a sequence.
    pub(in crate::log) fn holds_from(&mut self, sequence: Sequence) {
        self.min_sequence = self.min_sequence.min(sequence);
    }

    /// Enters a chunk's blocks, from one on, until their span's summary is written.
    pub(in crate::log) fn enter(
        &mut self,
        column: Column,
        first: ChunkBlock,
        of_blocks: &[IndexEntry],
    ) {
        self.entries.enter(column, first, of_blocks);
        for entry in of_blocks {
            if matches!(entry.kind, EntryKind::Data | EntryKind::Tombstone | EntryKind::Lost) {
                self.holds_from(entry.sequence);
            }
        }
    }

    /// Memory of entries not yet covered by a summary, in bytes.
    #[must_use]
    pub(in crate::log) fn list_bytes(&self) -> u64 {
        self.entries.bytes()
    }

    /// Drops the entries of a span whose summary is on media.
    pub(in crate::log::segment) fn end_span(&mut self, span: u32) {
        self.entries.end_span(span, &self.geometry);
    }

    /// The stripe, counted through the segment, of the chunk at a row of a column.
    #[must_use]
    pub(in crate::log) fn stripe_of(&self, column: Column, row: Row) -> StripeId {
        match &self.table {
            None => StripeId(row.0),
            Some(table) => StripeId::at(&self.geometry.group_of(row), table.get(column, row)),
        }
    }

    /// The row at which `column` holds its chunk of a stripe, if it is known to hold one.
    #[must_use]
    pub(in crate::log) fn row_of_stripe(&self, column: Column, stripe: StripeId) -> Option<Row> {
        let Some(table) = &self.table else { return Some(Row(stripe.0)) };
        let group = self.geometry.group_of_stripe(stripe);
        let in_group = stripe.position_in(&group);
        table.find(column, group, in_group)
    }
}
