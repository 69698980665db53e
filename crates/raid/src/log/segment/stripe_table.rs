//! The compact stripe table: which stripe each chunk of a tabled segment belongs to.
//!
//! Under Zone Append a drive decides where in its group a chunk goes. The table holds the stripe's
//! number within the group (one byte per chunk for groups of up to 256 rows, two beyond), and a bit
//! for whether the chunk is known at all.
//!
//! Chunks that nothing on media places are assigned to the stripes left. Their blocks are always
//! reconstructed, so any order is as good, except that of a drive that returns with them.

use fixedbitset::FixedBitSet;

use crate::log::engine::geometry::{Row, SegmentGeometry};
use crate::scheme::Column;

/// The table of one segment.
pub(in crate::log) struct StripeTable {
    entry_bytes: usize,
    columns: Vec<Vec<u8>>,
    known: Vec<FixedBitSet>,
}

impl StripeTable {
    /// A table without chunks.
    #[must_use]
    pub(super) fn new(geometry: &SegmentGeometry) -> Self {
        let entry_bytes = entry_bytes(geometry.group_rows());
        let rows = geometry.rows() as usize;
        let columns = geometry.scheme().width();
        Self {
            entry_bytes,
            columns: vec![vec![0; rows * entry_bytes]; columns],
            known: vec![FixedBitSet::with_capacity(rows); columns],
        }
    }

    /// Memory of a table for segments of a shape.
    #[must_use]
    pub(in crate::log) fn bytes_of(geometry: &SegmentGeometry) -> u64 {
        let rows = geometry.rows() as usize;
        let known = rows.div_ceil(usize::BITS as usize) * size_of::<usize>();
        let of_column = rows * entry_bytes(geometry.group_rows()) + known;
        (geometry.scheme().width() * of_column) as u64
    }

    /// Memory of the table in bytes, with the bits for known chunks.
    #[must_use]
    pub(in crate::log) fn bytes_in_all(&self) -> u64 {
        let known = self.known.iter().map(|known| size_of_val(known.as_slice()) as u64);
        self.bytes() + known.sum::<u64>()
    }

    /// Bytes of its entries.
    #[must_use]
    pub(in crate::log) fn bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.len() as u64).sum()
    }

    /// Records the stripe of a chunk.
    pub(in crate::log) fn set(&mut self, column: Column, row: Row, stripe_in_group: u16) {
        let at = row.0 as usize * self.entry_bytes;
        let bytes = stripe_in_group.to_le_bytes();
        let rows = self.columns[column.index()].len() / self.entry_bytes;
        assert!((row.0 as usize) < rows, "row {} of {rows} on {column}", row.0);
        assert!(self.entry_bytes == 2 || bytes[1] == 0, "stripe {stripe_in_group} of a group");
        self.columns[column.index()][at..at + self.entry_bytes]
            .copy_from_slice(&bytes[..self.entry_bytes]);
        self.known[column.index()].insert(row.0 as usize);
    }

    /// The stripe of a chunk, within its group.
    #[must_use]
    pub(super) fn get(&self, column: Column, row: Row) -> u16 {
        let at = row.0 as usize * self.entry_bytes;
        match self.columns[column.index()][at..at + self.entry_bytes] {
            [one] => one.into(),
            [low, high] => u16::from_le_bytes([low, high]),
            _ => unreachable!("one or two bytes"),
        }
    }

    /// The row of a group with the chunk of a stripe on `column`; `None` if unknown.
    #[must_use]
    pub(super) fn find(
        &self,
        column: Column,
        mut group: std::ops::Range<u32>,
        stripe_in_group: u16,
    ) -> Option<Row> {
        let known = &self.known[column.index()];
        group
            .find(|row| {
                known.contains(*row as usize) && self.get(column, Row(*row)) == stripe_in_group
            })
            .map(Row)
    }
}

/// Whole bytes that hold the number of any stripe of a group.
const fn entry_bytes(group_rows: u32) -> usize {
    if group_rows <= 256 { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use zoneweave_zoned::BlockCount;

    use super::*;
    use crate::scheme::Scheme;

    #[test]
    fn an_entry_has_the_bytes_that_the_group_needs() {
        for (group_rows, bytes) in [(1, 1), (2, 1), (255, 1), (256, 1), (257, 2), (16_384, 2)] {
            assert_eq!(entry_bytes(group_rows), bytes, "groups of {group_rows}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The table against a map, for groups on both sides of each width.
        #[test]
        fn a_table_remembers_what_a_map_does(
            group_rows in prop_oneof![Just(1u32), Just(7), Just(256), Just(257), Just(1000)],
            chunks in prop::collection::vec((0usize..4, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..200),
        ) {
            let scheme = Scheme::new(3, 1).unwrap();
            let geometry = SegmentGeometry::new(scheme, BlockCount(3000), 1, group_rows).unwrap();
            let mut table = StripeTable::new(&geometry);
            let width = if group_rows <= 256 { 1 } else { 2 };
            prop_assert_eq!(table.bytes(), u64::from(geometry.rows()) * 4 * width);
            let columns: Vec<Column> = scheme.iter().collect();
            let mut model = BTreeMap::new();
            for (column, row, stripe) in chunks {
                let row = u32::try_from(row.index(geometry.rows() as usize)).unwrap();
                let stripe = u16::try_from(stripe.index(group_rows as usize)).unwrap();
                table.set(columns[column], Row(row), stripe);
                model.insert((column, row), stripe);
            }
            for (&(column, row), &stripe) in &model {
                prop_assert_eq!(table.get(columns[column], Row(row)), stripe);
                let group = geometry.group_of(Row(row));
                let first = group.clone().find(|at| model.get(&(column, *at)) == Some(&stripe));
                prop_assert_eq!(table.find(columns[column], group, stripe), first.map(Row));
            }
        }
    }
}
