//! Columns, one for each member of an array, and sets of columns.

use std::fmt;

use super::MAX_COLUMNS;

/// A member's slot in the array, and its column of every stripe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Column(pub u8);

impl Column {
    /// The column as an index into per-member tables.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The column with an index.
    ///
    /// # Panics
    /// If no column has this index.
    #[must_use]
    pub fn of(index: usize) -> Self {
        assert!(index < MAX_COLUMNS, "column {index}");
        Self(u8::try_from(index).expect("below 32"))
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}", self.0)
    }
}

/// A set of columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColumnSet(u32);

impl ColumnSet {
    /// The set with another column added.
    #[must_use]
    pub const fn with(self, column: Column) -> Self {
        Self(self.0 | 1 << column.0)
    }

    /// Whether a column is in it.
    #[must_use]
    pub const fn contains(self, column: Column) -> bool {
        self.0 >> column.0 & 1 == 1
    }

    /// All columns of an array with so many.
    ///
    /// # Panics
    /// If an array cannot have so many columns.
    #[must_use]
    pub const fn all(columns: usize) -> Self {
        assert!(columns <= MAX_COLUMNS, "an array has 32 columns at the most");
        let beyond = MAX_COLUMNS - columns;
        Self(if beyond == MAX_COLUMNS { 0 } else { u32::MAX >> beyond })
    }

    /// The set with a bit for each column.
    #[must_use]
    pub const fn of_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// A bit for each of its columns.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Columns in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Columns in this set and not in the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Number of its columns before a given one.
    #[must_use]
    pub const fn before(self, column: Column) -> usize {
        (self.0 & ((1 << column.0) - 1)).count_ones() as usize
    }

    /// Its columns, in order.
    pub fn iter(self) -> impl Iterator<Item = Column> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = (left != 0).then(|| Column::of(left.trailing_zeros() as usize));
            left &= left.wrapping_sub(1);
            next
        })
    }

    /// Number of columns.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Column> for ColumnSet {
    fn from_iter<I: IntoIterator<Item = Column>>(columns: I) -> Self {
        columns.into_iter().fold(Self::default(), Self::with)
    }
}
