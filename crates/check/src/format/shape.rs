//! The layout of a segment in its zones: docs/format.md section 5.
//!
//! Columns are counted in the array, also for a narrow segment.

use std::ops::Range;

use crate::format::limits::COLUMNS_MAX;

/// Entries of an index block.
pub(crate) const ENTRIES_PER_BLOCK: u32 = 250;

const SPAN_BLOCKS_MAX: u32 = 16_384;

/// The chunks of a stripe and their columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scheme {
    pub(crate) data_chunks: u32,
    pub(crate) parity_chunks: u32,
    /// Roles stay on their columns; else every stripe starts one column further.
    pub(crate) fixed: bool,
    /// Parity chunk j is a copy of data chunk j.
    pub(crate) mirrored: bool,
    /// Columns of the array that a narrow segment lacks, as a bit mask.
    pub(crate) absent: u32,
}

impl Scheme {
    /// The scheme of three bytes on media, if legal.
    pub(crate) fn parse(data_chunks: u8, parity_chunks: u8, rotation: u8) -> Option<Self> {
        let (data_chunks, parity_chunks) = (u32::from(data_chunks), u32::from(parity_chunks));
        let known = match rotation {
            0 => true,
            1 => parity_chunks > 0,
            2 => parity_chunks == data_chunks && data_chunks >= 2,
            _ => false,
        };
        let legal = known && data_chunks >= 1 && data_chunks + parity_chunks <= COLUMNS_MAX;
        let (fixed, mirrored) = (rotation == 1, rotation == 2);
        legal.then_some(Self { data_chunks, parity_chunks, fixed, mirrored, absent: 0 })
    }

    /// The scheme of a narrow segment without these columns, if legal.
    pub(crate) fn without(self, absent: u32) -> Option<Self> {
        let scheme = Self { absent, ..self };
        let width = scheme.width();
        let legal = width <= COLUMNS_MAX && u64::from(absent) >> width == 0;
        (absent == 0 || legal && !self.mirrored).then_some(scheme)
    }

    /// Whether an array with this scheme may hold segments of the other: equal, or narrow.
    pub(crate) fn admits(&self, other: &Self) -> bool {
        let (data_chunks, absent) = (other.data_chunks, other.absent);
        other.width() == self.width() && *other == Self { data_chunks, absent, ..*self }
    }

    /// n.
    fn columns(&self) -> u32 {
        self.data_chunks + self.parity_chunks
    }

    /// n of the array.
    pub(crate) fn width(&self) -> u32 {
        self.columns() + self.absent.count_ones()
    }

    /// Whether the segment has a column of the array.
    pub(crate) fn is_on(&self, column: u32) -> bool {
        column < self.width() && self.absent >> column & 1 == 0
    }

    /// The columns of the segment.
    pub(crate) fn own_columns(self) -> impl Iterator<Item = u32> {
        (0..self.width()).filter(move |column| self.is_on(*column))
    }

    /// The position of a column among those of the segment, from 0.
    fn rank(&self, column: u32) -> u32 {
        column - (self.absent & ((1 << column) - 1)).count_ones()
    }

    /// The column at a position.
    fn nth(&self, rank: u32) -> u32 {
        let is_past =
            |absent: u32, column: &u32| self.absent >> absent & 1 == 1 && absent <= *column;
        (0..self.width()).fold(rank, |at, absent| at + u32::from(is_past(absent, &at)))
    }

    /// Copies of a list in an index run.
    fn copies(&self) -> u32 {
        if self.mirrored { 2 } else { self.parity_chunks + 1 }
    }

    /// Whether chunks in these columns are enough to rebuild a stripe.
    pub(crate) fn is_enough_in(&self, has: impl Fn(u32) -> bool) -> bool {
        self.is_enough(|rank| has(self.nth(rank)))
    }

    /// Whether chunks of these roles are enough to rebuild a stripe.
    pub(crate) fn is_enough(&self, has: impl Fn(u32) -> bool) -> bool {
        let k = self.data_chunks;
        if self.mirrored {
            return (0..k).all(|chunk| has(chunk) || has(chunk + k));
        }
        (0..self.columns()).filter(|role| has(*role)).count() >= k as usize
    }
}

/// The shape of the segments of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) scheme: Scheme,
    /// Blocks of the smallest write.
    pub(crate) unit: u32,
    pub(crate) chunk_blocks: u32,
    pub(crate) group_rows: u32,
    span_rows: u32,
    span_blocks: u32,
    spans: u32,
    pub(crate) rows: u32,
}

impl Shape {
    /// The shape for these numbers, which must be within the format's ranges; `None` if the zones
    /// are too small.
    pub(crate) fn new(
        scheme: Scheme,
        unit: u32,
        zone_capacity: u32,
        chunk_blocks: u32,
        group_rows: u32,
    ) -> Option<Self> {
        if !chunk_blocks.is_multiple_of(unit) {
            return None;
        }
        let run = |rows: u32| {
            let blocks = scheme.copies() * (rows * chunk_blocks).div_ceil(ENTRIES_PER_BLOCK);
            blocks.next_multiple_of(unit)
        };
        let fit = |blocks: u32| {
            let most = blocks / chunk_blocks;
            (0..=most).rev().find(|rows| rows * chunk_blocks + run(*rows) <= blocks).unwrap_or(0)
        };
        let available = (zone_capacity / unit * unit).checked_sub(unit)?;
        let in_span = fit(available.min(SPAN_BLOCKS_MAX));
        let span_rows = if available <= SPAN_BLOCKS_MAX {
            in_span
        } else {
            (in_span / group_rows * group_rows).max(group_rows.min(in_span))
        };
        if span_rows == 0 {
            return None;
        }
        let span_blocks = span_rows * chunk_blocks + run(span_rows);
        let full = available / span_blocks;
        let rest = fit(available % span_blocks);
        Some(Self {
            scheme,
            unit,
            chunk_blocks,
            group_rows,
            span_rows,
            span_blocks,
            spans: full + u32::from(rest > 0),
            rows: full * span_rows + rest,
        })
    }

    /// The shape of an array without segments.
    pub(crate) fn without_segments(scheme: Scheme) -> Self {
        let (chunk_blocks, group_rows) = (1, 1);
        let (span_rows, span_blocks, spans, rows) = (0, 0, 0, 0);
        Self { scheme, unit: 1, chunk_blocks, group_rows, span_rows, span_blocks, spans, rows }
    }

    /// n.
    pub(crate) fn columns(&self) -> u32 {
        self.scheme.columns()
    }

    pub(crate) fn spans(&self) -> u32 {
        self.spans
    }

    /// The rows of a span.
    pub(crate) fn span(&self, span: u32) -> Range<u32> {
        span * self.span_rows..((span + 1) * self.span_rows).min(self.rows)
    }

    /// The span of a row.
    pub(crate) fn span_of(&self, row: u32) -> u32 {
        row / self.span_rows
    }

    /// The groups of a span, as ranges of rows.
    pub(crate) fn groups(&self, span: u32) -> impl Iterator<Item = Range<u32>> + use<> {
        let rows = self.span(span);
        let size = self.group_rows;
        rows.clone()
            .step_by(size as usize)
            .map(move |first| first..first.saturating_add(size).min(rows.end))
    }

    /// The group of a row.
    pub(crate) fn group_of(&self, row: u32) -> Range<u32> {
        let span = self.span(self.span_of(row));
        let first = span.start + (row - span.start) / self.group_rows * self.group_rows;
        first..first.saturating_add(self.group_rows).min(span.end)
    }

    /// The offset in the zone of a row's chunk.
    pub(crate) fn offset_of_row(&self, row: u32) -> u32 {
        let span = self.span_of(row);
        self.unit + span * self.span_blocks + (row - self.span(span).start) * self.chunk_blocks
    }

    /// Blocks of one copy in the index run of a span.
    pub(crate) fn index_blocks(&self, span: u32) -> u32 {
        let rows = self.span(span);
        ((rows.end - rows.start) * self.chunk_blocks).div_ceil(ENTRIES_PER_BLOCK)
    }

    /// The offset in the zone of a span's index run.
    pub(crate) fn index_offset(&self, span: u32) -> u32 {
        let rows = self.span(span);
        self.unit + span * self.span_blocks + (rows.end - rows.start) * self.chunk_blocks
    }

    /// One past the last block of a span's index run, padding included.
    pub(crate) fn index_end(&self, span: u32) -> u32 {
        self.lists_end(span).next_multiple_of(self.unit)
    }

    /// The last block of the last index run.
    pub(crate) fn last_index_block(&self) -> u32 {
        self.lists_end(self.spans - 1) - 1
    }

    /// One past the lists of a span's index run.
    pub(crate) fn lists_end(&self, span: u32) -> u32 {
        self.index_offset(span) + self.scheme.copies() * self.index_blocks(span)
    }

    /// One past the segment's last block.
    pub(crate) fn end(&self) -> u32 {
        self.index_end(self.spans - 1)
    }

    /// The column that copy `copy` of the index run of `column` lists.
    pub(crate) fn listed_column(&self, column: u32, copy: u32) -> u32 {
        let distance = if self.scheme.mirrored { self.scheme.data_chunks } else { 1 };
        let (columns, rank) = (self.columns(), self.scheme.rank(column));
        self.scheme.nth((rank + columns - copy * distance % columns) % columns)
    }

    /// The role of a column in a stripe.
    pub(crate) fn role_of(&self, column: u32, stripe: u32) -> u32 {
        let columns = self.columns();
        (self.scheme.rank(column) + columns - self.turn(stripe)) % columns
    }

    /// The column of a role in a stripe.
    pub(crate) fn column_of(&self, role: u32, stripe: u32) -> u32 {
        self.scheme.nth((role + self.turn(stripe)) % self.columns())
    }

    /// The position of the column that a stripe starts on.
    fn turn(&self, stripe: u32) -> u32 {
        if self.scheme.fixed { 0 } else { stripe % self.columns() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotated(data_chunks: u8, parity_chunks: u8) -> Scheme {
        Scheme::parse(data_chunks, parity_chunks, 0).unwrap()
    }

    #[test]
    fn fixed_parity_is_on_the_last_column() {
        let shape = Shape::new(Scheme::parse(3, 1, 1).unwrap(), 1, 16, 1, 256).unwrap();
        assert!((0..9).all(|stripe| (0..4).all(|column| shape.role_of(column, stripe) == column)));
        assert_eq!((Scheme::parse(3, 0, 1), Scheme::parse(3, 1, 3)), (None, None));
    }

    #[test]
    fn mirrors_need_one_of_each_pair() {
        let scheme = Scheme::parse(2, 2, 2).unwrap();
        let enough = |columns: &[u32]| scheme.is_enough_in(|column| columns.contains(&column));
        assert!(enough(&[0, 1]) && enough(&[2, 1]) && enough(&[2, 3]) && enough(&[0, 1, 2]));
        assert!(!enough(&[0, 2]) && !enough(&[1, 3]));
        assert!(rotated(3, 1).is_enough(|column| column != 2));
        let shape = Shape::new(scheme, 1, 16, 1, 256).unwrap();
        assert_eq!((shape.listed_column(1, 0), shape.listed_column(1, 1)), (1, 3));
        assert_eq!((Scheme::parse(1, 1, 2), Scheme::parse(3, 2, 2)), (None, None));
    }

    #[test]
    fn narrow_segments_are_on_their_columns_as_others_on_all() {
        let narrow = rotated(1, 2).without(0b0_1101).unwrap();
        assert!(rotated(4, 2).admits(&narrow) && rotated(4, 2).admits(&rotated(4, 2)));
        let its = [1, 4, 5];
        assert_eq!(narrow.own_columns().collect::<Vec<_>>(), its);
        let shape = |scheme| Shape::new(scheme, 1, 16, 1, 256).unwrap();
        let (plain, narrow) = (shape(rotated(1, 2)), shape(narrow));
        assert_eq!(Shape { scheme: plain.scheme, ..narrow }, plain);
        for (stripe, at) in (0..9).flat_map(|stripe| (0..3).map(move |at| (stripe, at))) {
            let role = narrow.role_of(its[at as usize], stripe);
            assert_eq!(role, plain.role_of(at, stripe));
            assert_eq!(narrow.column_of(role, stripe), its[at as usize]);
            let listed = plain.listed_column(at, stripe % 3) as usize;
            assert_eq!(narrow.listed_column(its[at as usize], stripe % 3), its[listed]);
        }
        assert!(narrow.scheme.is_enough_in(|column| column == 5));
        assert!(!narrow.scheme.is_enough_in(|column| [0, 2, 3].contains(&column)));
    }

    #[test]
    fn what_no_narrow_segment_can_be() {
        assert_eq!(rotated(3, 1).without(1 << 5), None, "there is no such column");
        assert_eq!(rotated(30, 2).without(1), None, "too many columns");
        assert!(rotated(29, 2).without(1 << 31).is_some());
        let mirrored = Scheme::parse(2, 2, 2).unwrap();
        assert_eq!((mirrored.without(1), mirrored.without(0)), (None, Some(mirrored)));
        let fixed = Scheme::parse(2, 1, 1).unwrap();
        let others = [rotated(2, 1), rotated(2, 2), rotated(1, 2), fixed];
        let admitted = others.map(|other| rotated(3, 1).admits(&other.without(1).unwrap()));
        assert_eq!(admitted, [true, false, false, false]);
    }

    #[test]
    fn the_example_of_the_format_document() {
        let shape = Shape::new(rotated(3, 1), 1, 16, 1, 256).unwrap();
        assert_eq!((shape.rows, shape.spans(), shape.end()), (13, 1, 16));
        assert_eq!(Shape::new(rotated(3, 1), 1, 3, 1, 256), None);
        assert_eq!(Shape::new(rotated(3, 1), 1, 0, 1, 256), None);
    }

    #[test]
    fn spans_follow_each_other_without_gaps() {
        for (capacity, chunk, group) in [(275_712, 1, 256), (40_000, 4, 16), (17_000, 3, 9_999)] {
            let shape = Shape::new(rotated(4, 2), 1, capacity, chunk, group).unwrap();
            let mut at = 1;
            for span in 0..shape.spans() {
                for group in shape.groups(span) {
                    assert_eq!(shape.group_of(group.end - 1), group);
                    assert_eq!(shape.offset_of_row(group.start), at);
                    at += (group.end - group.start) * chunk;
                }
                assert_eq!(shape.index_offset(span), at);
                at = shape.index_end(span);
            }
            assert_eq!(shape.end(), at);
            assert!(at <= capacity);
        }
    }
}
