//! The compact stripe table: which stripe each chunk of a tabled segment belongs to.
//!
//! Under Zone Append a drive decides where in its group a chunk goes. The table holds the stripe's
//! number within the group, one byte per chunk for groups of up to 256 rows, two beyond.

use crate::layout::Column;
use crate::log::geometry::{Row, SegmentGeometry};

/// The table of one segment.
pub(super) struct StripeTable {
    entry_bytes: usize,
    columns: Vec<Vec<u8>>,
}

impl StripeTable {
    /// A table of zeros.
    #[must_use]
    pub(super) fn new(geometry: &SegmentGeometry) -> Self {
        let entry_bytes = if geometry.group_rows() <= 256 { 1 } else { 2 };
        let column = vec![0; geometry.rows() as usize * entry_bytes];
        Self { entry_bytes, columns: vec![column; geometry.scheme().columns()] }
    }

    /// Records the stripe of a chunk.
    pub(super) fn set(&mut self, column: Column, row: Row, stripe_in_group: u16) {
        let at = row.0 as usize * self.entry_bytes;
        let bytes = stripe_in_group.to_le_bytes();
        assert!(self.entry_bytes == 2 || bytes[1] == 0, "stripe {stripe_in_group} of a group");
        self.columns[column.index()][at..at + self.entry_bytes]
            .copy_from_slice(&bytes[..self.entry_bytes]);
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

    /// The rows of a group whose chunk in `column` is recorded as the given stripe's. More than
    /// one only while the group is being filled: rows not yet written read as stripe 0.
    pub(super) fn find(
        &self,
        column: Column,
        group: std::ops::Range<u32>,
        stripe_in_group: u16,
    ) -> impl Iterator<Item = Row> + '_ {
        group.map(Row).filter(move |row| self.get(column, *row) == stripe_in_group)
    }

    /// Bytes the table takes.
    #[must_use]
    pub(super) fn bytes(&self) -> usize {
        self.columns.iter().map(Vec::len).sum()
    }
}
