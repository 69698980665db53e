//! Positions inside a segment's zones, and the dense numbering of its blocks.
//!
//! Every zone of a segment has the same shape:
//!
//! ```text
//! | header | rows of span 0 | index run | rows of span 1 | index run | ... | index run |
//! ```
//!
//! A row is one chunk per column. Rows are numbered through the whole segment; groups are runs of
//! at most `group_rows` rows and never cross a span. A summary lists the blocks of its span's rows
//! for this column and its `m` predecessors, or its twin. Every column's list thus survives the
//! same losses as the column. Spans are about 64 MiB, so that recovery never scans more than that
//! of an open zone; the last span's summary is the segment's footer.
//!
//! On drives with a write unit of several blocks, header and summaries are padded to whole units,
//! and chunks consist of them.
//!
//! All positions derive from six numbers, so the smallest legal zone holds exactly a header, one
//! row and its summary.

use zoneweave_zoned::{BlockCount, ZoneOffset};

use crate::scheme::{Column, ColumnSet, Scheme, StripeId};

/// Entries of one summary block: 16 bytes each after the fixed part.
pub const ENTRIES_PER_INDEX_BLOCK: u32 = 250;

/// Blocks of a span that an open zone is scanned by after a crash: 64 MiB.
const SPAN_BLOCKS: u32 = 16 * 1024;

/// A row of a segment: the same chunk position in every column, counted through all spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row(pub u32);

/// A chunk block of one column, counted through all rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkBlock(pub u32);

impl ChunkBlock {
    /// The block as an index into per-column tables.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The shape of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentGeometry {
    scheme: Scheme,
    /// The drives' unit of writes.
    unit: u32,
    chunk_blocks: u32,
    group_rows: u32,
    /// Rows of each span but the last, which has `last_rows`.
    span_rows: u32,
    last_rows: u32,
    /// Spans of `span_rows` rows before the last one.
    full_spans: u32,
}

impl SegmentGeometry {
    /// The shape of segments in zones of `zone_capacity` blocks, written block by block; `None` if
    /// not even one row fits.
    #[must_use]
    pub fn new(
        scheme: Scheme,
        zone_capacity: BlockCount,
        chunk_blocks: u32,
        group_rows: u32,
    ) -> Option<Self> {
        Self::in_units(scheme, BlockCount(1), zone_capacity, chunk_blocks, group_rows)
    }

    /// The shape of segments in zones with a write unit of so many blocks; `None` if not even one
    /// row fits, or chunks do not consist of units.
    #[must_use]
    pub fn in_units(
        scheme: Scheme,
        unit: BlockCount,
        zone_capacity: BlockCount,
        chunk_blocks: u32,
        group_rows: u32,
    ) -> Option<Self> {
        assert!(chunk_blocks > 0 && group_rows > 0, "chunks and groups are not empty");
        let unit = unit.0;
        if !chunk_blocks.is_multiple_of(unit) {
            return None;
        }
        let available = (zone_capacity.0 / unit * unit).checked_sub(unit)?;
        let run = |rows: u32| run_blocks(scheme, unit, rows, chunk_blocks);
        let fit = |blocks: u32| rows_that_fit(blocks, chunk_blocks, run);
        let in_span = fit(SPAN_BLOCKS.min(available));
        let span_rows = if available <= SPAN_BLOCKS {
            in_span
        } else {
            (in_span / group_rows * group_rows).max(group_rows.min(in_span))
        };
        if span_rows == 0 {
            return None;
        }
        let span_blocks = span_rows * chunk_blocks + run(span_rows);
        let spans = available / span_blocks;
        let rest = fit(available % span_blocks);
        let (full_spans, last_rows) = if rest > 0 { (spans, rest) } else { (spans - 1, span_rows) };
        let shape =
            Self { scheme, unit, chunk_blocks, group_rows, span_rows, last_rows, full_spans };
        assert!(shape.end().0 <= zone_capacity.0, "{shape:?} in zones of {zone_capacity}");
        let last = Row(shape.rows() - 1);
        let at = shape.offset_of_row(last);
        assert!(shape.row_at(at) == Some(last), "row {} of {shape:?} at {}", last.0, at.0);
        Some(shape)
    }

    /// The same on other columns, as many as these.
    ///
    /// # Panics
    /// If they are not as many, or not of the array.
    #[must_use]
    pub fn on(self, columns: ColumnSet) -> Self {
        let as_many = |scheme: &Scheme| scheme.columns() == self.scheme.columns();
        let scheme = self.scheme.on(columns).filter(as_many);
        Self { scheme: scheme.expect("as many columns of the array"), ..self }
    }

    /// Numbers of data and parity chunks, and their columns.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The write unit of the zones.
    #[must_use]
    pub const fn unit(&self) -> BlockCount {
        BlockCount(self.unit)
    }

    /// Blocks of a chunk.
    #[must_use]
    pub const fn chunk_blocks(&self) -> u32 {
        self.chunk_blocks
    }

    /// Data blocks of a stripe.
    #[must_use]
    pub const fn stripe_blocks(&self) -> usize {
        self.scheme.data() * self.chunk_blocks as usize
    }

    /// Rows of a full group.
    #[must_use]
    pub const fn group_rows(&self) -> u32 {
        self.group_rows
    }

    /// Rows of a segment.
    #[must_use]
    pub const fn rows(&self) -> u32 {
        self.full_spans * self.span_rows + self.last_rows
    }

    /// Spans of a segment.
    #[must_use]
    pub const fn spans(&self) -> u32 {
        self.full_spans + 1
    }

    /// Chunk blocks of one column.
    #[must_use]
    pub const fn column_blocks(&self) -> u32 {
        self.rows() * self.chunk_blocks
    }

    /// Whether there is such a chunk block.
    #[must_use]
    pub fn contains(&self, column: Column, block: ChunkBlock) -> bool {
        self.scheme.contains(column) && block.0 < self.column_blocks()
    }

    /// Data blocks a segment can hold.
    #[must_use]
    pub fn data_blocks(&self) -> u64 {
        u64::from(self.column_blocks()) * self.scheme.data() as u64
    }

    /// Chunk blocks of all columns of the array, as if the segment were on all of them.
    #[must_use]
    pub fn chunk_blocks_in_all(&self) -> usize {
        self.column_blocks() as usize * self.scheme.width()
    }

    /// The rows of a span.
    #[must_use]
    pub fn rows_of_span(&self, span: u32) -> std::ops::Range<u32> {
        assert!(span < self.spans(), "span {span} of {}", self.spans());
        let first = span * self.span_rows;
        let rows = if span == self.full_spans { self.last_rows } else { self.span_rows };
        first..first + rows
    }

    /// The first chunk block of a span.
    #[must_use]
    pub fn first_of_span(&self, span: u32) -> ChunkBlock {
        self.block_of(Row(self.rows_of_span(span).start), 0)
    }

    /// The span that holds a row.
    #[must_use]
    pub const fn span_of(&self, row: Row) -> u32 {
        let span = row.0 / self.span_rows;
        if span > self.full_spans { self.full_spans } else { span }
    }

    /// The rows of the group that holds `row`.
    #[must_use]
    pub fn group_of(&self, row: Row) -> std::ops::Range<u32> {
        assert!(row.0 < self.rows(), "row {} of {}", row.0, self.rows());
        let span = self.rows_of_span(self.span_of(row));
        let first = span.start + (row.0 - span.start) / self.group_rows * self.group_rows;
        assert!(first <= row.0 && row.0 - first < self.group_rows, "row {} in {first}", row.0);
        first..span.end.min(first + self.group_rows)
    }

    /// The rows of the group of a stripe. A group has as many stripes as rows, with their numbers.
    #[must_use]
    pub fn group_of_stripe(&self, stripe: StripeId) -> std::ops::Range<u32> {
        self.group_of(Row(stripe.0))
    }

    /// Position of a chunk block in its zone.
    #[must_use]
    pub fn offset_of(&self, block: ChunkBlock) -> ZoneOffset {
        assert!(block.0 < self.column_blocks(), "block {} of {}", block.0, self.column_blocks());
        let row = Row(block.0 / self.chunk_blocks);
        let span = self.span_of(row);
        let in_span = block.0 - span * self.span_rows * self.chunk_blocks;
        ZoneOffset(self.unit + span * self.span_blocks() + in_span)
    }

    /// Start of a row's chunk in its zone.
    #[must_use]
    pub fn offset_of_row(&self, row: Row) -> ZoneOffset {
        self.offset_of(self.block_of(row, 0))
    }

    /// The chunk block `within` of a row's chunk.
    #[must_use]
    pub const fn block_of(&self, row: Row, within: u32) -> ChunkBlock {
        ChunkBlock(row.0 * self.chunk_blocks + within)
    }

    /// The row of a chunk block, and its place in the chunk.
    #[must_use]
    pub const fn row_of(&self, block: ChunkBlock) -> (Row, u32) {
        (Row(block.0 / self.chunk_blocks), block.0 % self.chunk_blocks)
    }

    /// The row whose chunk starts at a zone offset, if one does.
    #[must_use]
    pub fn row_at(&self, offset: ZoneOffset) -> Option<Row> {
        let at = offset.0.checked_sub(self.unit)?;
        let span = (at / self.span_blocks()).min(self.full_spans);
        let in_span = at - span * self.span_blocks();
        let rows = self.rows_of_span(span);
        let row = rows.start + in_span / self.chunk_blocks;
        (in_span.is_multiple_of(self.chunk_blocks) && row < rows.end).then_some(Row(row))
    }

    /// Number of rows completely below a write pointer.
    #[must_use]
    pub fn rows_below(&self, write_pointer: ZoneOffset) -> u32 {
        let Some(at) = write_pointer.0.checked_sub(self.unit) else { return 0 };
        let span = (at / self.span_blocks()).min(self.full_spans);
        let rows = self.rows_of_span(span);
        let in_span = at - span * self.span_blocks();
        rows.start + (in_span / self.chunk_blocks).min(rows.end - rows.start)
    }

    /// Blocks of one copy of a span's summary in one column.
    #[must_use]
    pub const fn index_blocks(&self, span: u32) -> u32 {
        let rows = if span == self.full_spans { self.last_rows } else { self.span_rows };
        index_blocks(rows, self.chunk_blocks)
    }

    /// Columns whose entries a summary holds: its own and `m` predecessors; with mirrors, its own
    /// and its twin.
    #[must_use]
    pub fn index_copies(&self) -> u32 {
        copies(self.scheme)
    }

    /// The column whose entries are copy `copy` in the summaries of `column`.
    #[must_use]
    pub fn indexed_column(&self, column: Column, copy: u32) -> Column {
        assert!(copy < self.index_copies(), "copy {copy} of {} summaries", self.index_copies());
        self.scheme.listed_on(column, copy as usize)
    }

    /// The column whose summaries have copy `copy` of the entries of `column`.
    #[must_use]
    pub fn index_holder(&self, column: Column, copy: u32) -> Column {
        assert!(copy < self.index_copies(), "copy {copy} of {} summaries", self.index_copies());
        self.scheme.list_holder(column, copy as usize)
    }

    /// Start of copy `copy` of a span's summary.
    #[must_use]
    pub fn index_offset(&self, span: u32, copy: u32) -> ZoneOffset {
        assert!(copy <= self.index_copies(), "copy {copy} of {} summaries", self.index_copies());
        let rows = self.rows_of_span(span);
        let in_span = (rows.end - rows.start) * self.chunk_blocks;
        let rows_end = self.unit + span * self.span_blocks() + in_span;
        ZoneOffset(rows_end + copy * self.index_blocks(span))
    }

    /// The last block of the last summary.
    #[must_use]
    pub fn last_index_block(&self) -> ZoneOffset {
        ZoneOffset(self.index_offset(self.full_spans, self.index_copies()).0 - 1)
    }

    /// One past the last block of a sealed segment's zones.
    #[must_use]
    pub fn end(&self) -> ZoneOffset {
        let end = self.index_offset(self.full_spans, self.index_copies());
        ZoneOffset(end.0.next_multiple_of(self.unit))
    }

    /// Blocks from the start of one span to the start of the next.
    fn span_blocks(&self) -> u32 {
        let rows = if self.full_spans == 0 { self.last_rows } else { self.span_rows };
        rows * self.chunk_blocks + run_blocks(self.scheme, self.unit, rows, self.chunk_blocks)
    }
}

/// Copies of each column's summary entries: one more than the tolerated losses.
fn copies(scheme: Scheme) -> u32 {
    u32::try_from(scheme.list_copies()).expect("at most 32 columns")
}

/// Summary blocks for `rows` rows of one column.
const fn index_blocks(rows: u32, chunk_blocks: u32) -> u32 {
    (rows * chunk_blocks).div_ceil(ENTRIES_PER_INDEX_BLOCK)
}

/// Blocks of the summary of so many rows.
fn run_blocks(scheme: Scheme, unit: u32, rows: u32, chunk_blocks: u32) -> u32 {
    (copies(scheme) * index_blocks(rows, chunk_blocks)).next_multiple_of(unit)
}

/// Most rows that fit into `blocks` blocks together with their summary, whose length is `run`.
fn rows_that_fit(blocks: u32, chunk_blocks: u32, run: impl Fn(u32) -> u32) -> u32 {
    let mut rows = blocks / chunk_blocks;
    while rows > 0 && rows * chunk_blocks + run(rows) > blocks {
        rows -= 1;
    }
    rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scheme::Arrangement;

    fn check_all(geometry: &SegmentGeometry, capacity: u32) {
        let unit = geometry.unit().0;
        let mut next = unit;
        for span in 0..geometry.spans() {
            for row in geometry.rows_of_span(span) {
                let at = geometry.offset_of_row(Row(row));
                assert_eq!(at.0, next);
                assert_eq!(geometry.row_at(at), Some(Row(row)));
                assert_eq!(geometry.span_of(Row(row)), span);
                assert_eq!(geometry.rows_below(at), row);
                let group = geometry.group_of(Row(row));
                assert!(group.contains(&row));
                assert!(group.end - group.start <= geometry.group_rows());
                assert_eq!(geometry.group_of(Row(group.start)), group);
                next += geometry.chunk_blocks();
            }
            assert_eq!(geometry.rows_below(ZoneOffset(next)), geometry.rows_of_span(span).end);
            for copy in 0..geometry.index_copies() {
                assert_eq!(geometry.index_offset(span, copy).0, next);
                assert_eq!(geometry.row_at(ZoneOffset(next)), None);
                next += geometry.index_blocks(span);
            }
            next = next.next_multiple_of(unit);
        }
        assert_eq!(geometry.end().0, next);
        assert!(next <= capacity);
    }

    #[test]
    fn a_zone_of_sixteen_blocks_holds_thirteen_rows() {
        let scheme = Scheme::new(3, 1).unwrap();
        let geometry = SegmentGeometry::new(scheme, BlockCount(16), 1, 256).unwrap();
        assert_eq!((geometry.rows(), geometry.spans(), geometry.end().0), (13, 1, 16));
    }

    #[test]
    fn a_zone_of_a_real_drive_wastes_under_one_percent() {
        let scheme = Scheme::new(3, 1).unwrap();
        let geometry = SegmentGeometry::new(scheme, BlockCount(275_712), 1, 256).unwrap();
        check_all(&geometry, 275_712);
        assert!(geometry.rows() > 275_712 * 99 / 100, "{}", geometry.rows());
    }

    #[test]
    fn units_are_written_whole() {
        let scheme = Scheme::new(3, 1).unwrap();
        let in_units = |capacity, chunk| {
            SegmentGeometry::in_units(scheme, BlockCount(7), BlockCount(capacity), chunk, 16)
        };
        let small = in_units(28, 7).unwrap();
        assert_eq!((small.rows(), small.offset_of_row(Row(1)).0, small.end().0), (2, 14, 28));
        assert_eq!((in_units(20, 7), in_units(28, 8)), (None, None));
        assert_eq!(in_units(34, 7), Some(small), "what is no unit is left");
    }

    #[test]
    fn zones_too_small_for_a_row_are_refused() {
        let scheme = Scheme::new(3, 1).unwrap();
        assert_eq!(SegmentGeometry::new(scheme, BlockCount(3), 1, 256), None);
        assert!(SegmentGeometry::new(scheme, BlockCount(4), 1, 256).is_some());
        assert_eq!(SegmentGeometry::new(scheme, BlockCount(0), 1, 1), None);
    }

    proptest! {
        #[test]
        fn every_block_has_one_place(
            capacity in 4_u32..60_000, chunk in 1_u32..9, group in 1_u32..600, parity in 0_usize..5,
            unit in prop::sample::select(vec![1_u32, 3, 7]),
        ) {
            let scheme = match parity {
                4 => Scheme::arranged(Arrangement::Mirrored, 3, 3).unwrap(),
                _ => Scheme::new(3, parity).unwrap(),
            };
            let (chunk, unit) = (chunk * unit, BlockCount(unit));
            if let Some(geometry) =
                SegmentGeometry::in_units(scheme, unit, BlockCount(capacity), chunk, group)
            {
                check_all(&geometry, capacity);
            }
        }
    }
}
