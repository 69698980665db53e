//! The compact stripe table: which stripe each chunk of a tabled segment belongs to.
//!
//! Under Zone Append a drive decides where in its group a chunk goes. The table holds the stripe's
//! number within the group, one byte per chunk for groups of up to 256 rows, two beyond, and a bit
//! that tells whether the chunk is known at all.

use fixedbitset::FixedBitSet;

use crate::layout::Column;
use crate::log::geometry::{Row, SegmentGeometry};

/// The table of one segment.
pub(super) struct StripeTable {
    entry_bytes: usize,
    columns: Vec<Vec<u8>>,
    known: Vec<FixedBitSet>,
}

impl StripeTable {
    /// A table that knows no chunk.
    #[must_use]
    pub(super) fn new(geometry: &SegmentGeometry) -> Self {
        let entry_bytes = if geometry.group_rows() <= 256 { 1 } else { 2 };
        let rows = geometry.rows() as usize;
        let columns = geometry.scheme().columns();
        Self {
            entry_bytes,
            columns: vec![vec![0; rows * entry_bytes]; columns],
            known: vec![FixedBitSet::with_capacity(rows); columns],
        }
    }

    /// Records the stripe of a chunk.
    pub(super) fn set(&mut self, column: Column, row: Row, stripe_in_group: u16) {
        let at = row.0 as usize * self.entry_bytes;
        let bytes = stripe_in_group.to_le_bytes();
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

    /// The row of a group at which `column` holds its chunk of a stripe, if that is known.
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
