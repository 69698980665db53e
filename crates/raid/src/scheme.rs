//! Chunk arithmetic: the column of each chunk in a stripe.
//!
//! A stripe has `k` data chunks (roles `0..k`) and `m` parity chunks (roles `k..k+m`), one per
//! column. Stripe `s` places role `r` on column `(r + s) mod n`, so that parity visits every column
//! in turn and reads of consecutive blocks visit every drive. With fixed parity (RAID-4), role `r`
//! is on column `r` in every stripe.
//!
//! With mirrors (RAID-01) the second half of a stripe's chunks are copies of the first, role `k +
//! r` of role `r`, in stripes that rotate. Columns `c` and `c + k` are *twins* with the same chunks
//! in every stripe. Mirrors survive the loss of any columns without twins among them, so a count of
//! losses does not decide.
//!
//! A scheme may be *narrow*: on some columns of the array only, with as many parity chunks and
//! fewer data chunks. These columns are used like all columns of a smaller scheme; the others hold
//! nothing of it, and count as intact.

mod column;
mod stripe;

use std::fmt;

use thiserror::Error;

pub use column::{Column, ColumnSet};
pub use stripe::StripeId;

/// The most columns of a scheme: the capacity of the member table in a superblock record.
pub const MAX_COLUMNS: usize = 32;

/// A chunk's place in the erasure code: data below `k`, parity from `k` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Role(pub u8);

impl Role {
    /// Role number `role`.
    ///
    /// # Panics
    /// If no stripe has so many chunks.
    #[must_use]
    pub fn of(role: usize) -> Self {
        Self(u8::try_from(role).expect("at most 32 chunks"))
    }

    /// The role as an index into the chunks of a stripe.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Assignment of a stripe's chunks to columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Arrangement {
    /// Every stripe starts one column further than the one before.
    #[default]
    Rotated = 0,
    /// Data and parity keep their columns: parity is on the last ones.
    Fixed = 1,
    /// As `Rotated`, with copies of the data in the place of parity.
    Mirrored = 2,
}

impl Arrangement {
    /// Its number on media.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The arrangement for a number on media.
    #[must_use]
    pub const fn of_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Rotated),
            1 => Some(Self::Fixed),
            2 => Some(Self::Mirrored),
            _ => None,
        }
    }
}

/// Numbers of data and parity chunks in a stripe, and their columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    data: u8,
    parity: u8,
    arrangement: Arrangement,
    /// Columns of the array that are not used.
    absent: ColumnSet,
}

/// Why a scheme is impossible.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SchemeError {
    /// There is no data chunk.
    #[error("a scheme needs at least one data chunk per stripe")]
    NoData,
    /// More members than a superblock can list.
    #[error("{columns} drives are more than the {MAX_COLUMNS} an array may have")]
    TooManyColumns {
        /// Data and parity chunks together.
        columns: usize,
    },
    /// Fixed parity without a parity chunk.
    #[error("fixed parity needs at least one parity chunk per stripe")]
    NoParity,
    /// Mirrors with different numbers of data chunks and copies.
    #[error("mirrored stripes have as many copies as data chunks, and at least two")]
    NotMirrored,
    /// Columns left out that do not exist, or of mirrors.
    #[error("a narrow scheme leaves out columns that exist, and none of mirrors")]
    NotNarrow,
}

impl Scheme {
    /// A scheme of `data` + `parity` chunks per stripe, rotating over the columns.
    ///
    /// # Errors
    /// If there is no data chunk or there are more than 32 chunks.
    pub fn new(data: usize, parity: usize) -> Result<Self, SchemeError> {
        Self::arranged(Arrangement::Rotated, data, parity)
    }

    /// A scheme of `data` + `parity` chunks per stripe.
    ///
    /// # Errors
    /// If there is no data chunk, there are more than 32 chunks, or the arrangement does not fit
    /// the numbers.
    pub fn arranged(
        arrangement: Arrangement,
        data: usize,
        parity: usize,
    ) -> Result<Self, SchemeError> {
        if data == 0 {
            return Err(SchemeError::NoData);
        }
        if arrangement == Arrangement::Fixed && parity == 0 {
            return Err(SchemeError::NoParity);
        }
        if arrangement == Arrangement::Mirrored && (data < 2 || data != parity) {
            return Err(SchemeError::NotMirrored);
        }
        let columns = data.saturating_add(parity);
        match (u8::try_from(data), u8::try_from(parity)) {
            (Ok(data), Ok(parity)) if columns <= MAX_COLUMNS => {
                Ok(Self { data, parity, arrangement, absent: ColumnSet::default() })
            }
            _ => Err(SchemeError::TooManyColumns { columns }),
        }
    }

    /// The same scheme on other columns: the first ones outside `absent`.
    ///
    /// # Errors
    /// If it is mirrored, the array would have more than 32 columns, or `absent` has columns behind
    /// its last one.
    pub fn without(self, absent: ColumnSet) -> Result<Self, SchemeError> {
        let columns = self.columns() + absent.len();
        if columns > MAX_COLUMNS {
            return Err(SchemeError::TooManyColumns { columns });
        }
        let inside = absent.without(ColumnSet::all(columns)).is_empty();
        if !absent.is_empty() && (self.is_mirrored() || !inside) {
            return Err(SchemeError::NotNarrow);
        }
        Ok(Self { absent, ..self })
    }

    /// The narrow scheme on these columns only; `None` if impossible. It has as many parity chunks,
    /// and at least one data chunk.
    #[must_use]
    pub fn on(self, columns: ColumnSet) -> Option<Self> {
        let data = columns.len().checked_sub(self.parity())?;
        let narrow = Self::arranged(self.arrangement, data, self.parity()).ok()?;
        let all = ColumnSet::all(self.width());
        let inside = columns.without(all).is_empty();
        narrow.without(all.without(columns)).ok().filter(|_| inside)
    }

    /// Whether segments of an array with this scheme may have the other one: the same, or a narrow
    /// one of it.
    #[must_use]
    pub fn admits(self, other: Self) -> bool {
        other == self || other.is_narrow() && self.on(other.iter().collect()) == Some(other)
    }

    /// Assignment of its chunks to columns.
    #[must_use]
    pub const fn arrangement(self) -> Arrangement {
        self.arrangement
    }

    /// Data chunks per stripe (`k`).
    #[must_use]
    pub const fn data(self) -> usize {
        self.data as usize
    }

    /// Parity chunks per stripe (`m`); copies with mirrors. This is the most members that may be
    /// lost; [`Self::survives`] decides which ones.
    #[must_use]
    pub const fn parity(self) -> usize {
        self.parity as usize
    }

    /// Columns of the array, used or not.
    #[must_use]
    pub const fn width(self) -> usize {
        self.columns() + self.absent.len()
    }

    /// The columns of the array that it does not use.
    #[must_use]
    pub const fn absent(self) -> ColumnSet {
        self.absent
    }

    /// Whether there are such columns.
    #[must_use]
    pub const fn is_narrow(self) -> bool {
        !self.absent.is_empty()
    }

    /// Whether it uses a column.
    #[must_use]
    pub fn contains(self, column: Column) -> bool {
        column.index() < self.width() && !self.absent.contains(column)
    }

    /// Chunks per stripe, one per used column (`n`).
    #[must_use]
    pub const fn columns(self) -> usize {
        self.data as usize + self.parity as usize
    }

    /// Whether the only redundancy of a chunk is its copy.
    #[must_use]
    pub fn is_mirrored(self) -> bool {
        self.arrangement == Arrangement::Mirrored
    }

    /// Number of arbitrary members that may be lost.
    #[must_use]
    pub fn tolerated_losses(self) -> usize {
        if self.is_mirrored() { 1 } else { self.parity() }
    }

    /// The column with the same chunks as `column`; `None` without mirrors.
    #[must_use]
    pub fn twin_of(self, column: Column) -> Option<Column> {
        let twin = || Column::of((column.index() + self.data()) % self.columns());
        self.is_mirrored().then(twin)
    }

    /// Whether every chunk can be read or reconstructed without these columns.
    #[must_use]
    pub fn survives(self, lost: ColumnSet) -> bool {
        if !self.is_mirrored() {
            return lost.without(self.absent).len() <= self.parity();
        }
        let is_left = |column| self.twin_of(column).is_some_and(|twin| !lost.contains(twin));
        self.iter().filter(|column| lost.contains(*column)).all(is_left)
    }

    /// Whether these columns are enough to read or reconstruct every chunk.
    #[must_use]
    pub fn is_readable_from(self, columns: ColumnSet) -> bool {
        self.survives(self.iter().filter(|column| !columns.contains(*column)).collect())
    }

    /// Whether any one more column may be lost.
    #[must_use]
    pub fn survives_another(self, lost: ColumnSet) -> bool {
        self.iter().all(|column| lost.contains(column) || self.survives(lost.with(column)))
    }

    /// Number of arbitrary further columns that may be lost while everything can be read and a
    /// majority is left.
    #[must_use]
    pub fn losses_left(self, lost: ColumnSet) -> usize {
        let majority = ((self.columns() - 1) / 2).saturating_sub(lost.len());
        self.reads_left(lost).min(majority)
    }

    /// Number of arbitrary further columns that may be lost while everything can be read.
    #[must_use]
    pub fn reads_left(self, lost: ColumnSet) -> usize {
        match self.is_mirrored() {
            // Two more may be twins.
            true => usize::from(self.survives(lost) && self.survives_another(lost)),
            false => self.parity().saturating_sub(lost.without(self.absent).len()),
        }
    }

    /// The columns of which some or all are needed to reconstruct a chunk of `column`.
    pub fn sources_of(self, column: Column) -> impl Iterator<Item = Column> {
        let twin = self.twin_of(column);
        self.iter().filter(move |one| *one != column && twin.is_none_or(|twin| twin == *one))
    }

    /// Number of these columns that are needed.
    #[must_use]
    pub fn sources_needed(self) -> usize {
        if self.is_mirrored() { 1 } else { self.data() }
    }

    /// Number of columns with the summary of a column, including itself.
    #[must_use]
    pub fn list_copies(self) -> usize {
        if self.is_mirrored() { 2 } else { self.parity() + 1 }
    }

    /// The column whose summary is copy `copy` of those on `column`: its own, then those of its
    /// predecessors; with mirrors, that of its twin. A summary thus survives the same losses as its
    /// column.
    #[must_use]
    pub fn listed_on(self, column: Column, copy: usize) -> Column {
        assert!(copy < self.list_copies(), "copy {copy} of {} lists", self.list_copies());
        let away = copy * self.list_distance() % self.columns();
        self.nth((self.rank(column) + self.columns() - away) % self.columns())
    }

    /// The column that holds copy `copy` of the summary of `column`.
    #[must_use]
    pub fn list_holder(self, column: Column, copy: usize) -> Column {
        assert!(copy < self.list_copies(), "copy {copy} of {} lists", self.list_copies());
        self.nth((self.rank(column) + copy * self.list_distance()) % self.columns())
    }

    fn list_distance(self) -> usize {
        if self.is_mirrored() { self.data() } else { 1 }
    }

    /// Every used column.
    pub fn iter(self) -> impl Iterator<Item = Column> {
        ColumnSet::all(self.width()).without(self.absent).iter()
    }

    /// The number of a column among the used ones.
    ///
    /// # Panics
    /// If it does not use this column.
    #[must_use]
    pub fn rank(self, column: Column) -> usize {
        assert!(self.contains(column), "{column} has no chunks of {self}");
        column.index() - self.absent.before(column)
    }

    /// The used column of a number.
    fn nth(self, rank: usize) -> Column {
        let past = |at: usize, absent: Column| if absent.index() <= at { at + 1 } else { at };
        Column::of(self.absent.iter().fold(rank, past))
    }

    /// The role that `column` plays in `stripe`.
    #[must_use]
    pub fn role_of(self, column: Column, stripe: StripeId) -> Role {
        let columns = self.columns();
        Role::of((self.rank(column) + columns - self.turn(stripe)) % columns)
    }

    /// The column that plays `role` in `stripe`.
    #[must_use]
    pub fn column_of(self, role: Role, stripe: StripeId) -> Column {
        assert!(role.index() < self.columns(), "role {} of {self}", role.0);
        self.nth((role.index() + self.turn(stripe)) % self.columns())
    }

    /// The number of the first column of `stripe`.
    fn turn(self, stripe: StripeId) -> usize {
        match self.arrangement {
            Arrangement::Rotated | Arrangement::Mirrored => {
                (stripe.0 % u32::from(self.data + self.parity)) as usize
            }
            Arrangement::Fixed => 0,
        }
    }

    /// Whether `role` holds data.
    #[must_use]
    pub const fn is_data(self, role: Role) -> bool {
        role.0 < self.data
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match (self.arrangement, self.data, self.parity) {
            (Arrangement::Fixed, ..) => "raid4",
            (Arrangement::Mirrored, ..) => "raid01",
            (.., 0) => "raid0",
            // With one data chunk all parity is a copy of it, in any code.
            (_, 1, _) => "raid1",
            (.., 1) => "raid5",
            (.., 2) => "raid6",
            _ => "raid",
        };
        write!(f, "{level} {}+{}", self.data, self.parity)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn roles_and_columns_are_inverse_and_parity_rotates() {
        let scheme = Scheme::new(4, 2).unwrap();
        let mut parity_on = [0; 6];
        for stripe in (0..600).map(StripeId) {
            for column in scheme.iter() {
                let role = scheme.role_of(column, stripe);
                assert_eq!(scheme.column_of(role, stripe), column);
                parity_on[column.index()] += u32::from(!scheme.is_data(role));
            }
        }
        assert_eq!(parity_on, [200; 6]);
    }

    #[test]
    fn fixed_parity_is_on_the_last_columns() {
        for (data, parity) in [(3, 1), (4, 2)] {
            let scheme = Scheme::arranged(Arrangement::Fixed, data, parity).unwrap();
            let stripes = || (0..60).map(StripeId);
            for (stripe, column) in stripes().flat_map(|s| scheme.iter().map(move |c| (s, c))) {
                let role = scheme.role_of(column, stripe);
                assert_eq!(role.0, column.0);
                assert_eq!(scheme.column_of(role, stripe), column);
                assert_eq!(scheme.is_data(role), column.index() < data);
            }
        }
    }

    #[test]
    fn arrangements_come_back_from_their_numbers() {
        let of_code = |code| Arrangement::of_code(code).map(Arrangement::code);
        assert!((0..=2).all(|code| of_code(code) == Some(code)));
        assert!((3..=u8::MAX).all(|code| of_code(code).is_none()));
    }

    fn columns(columns: &[u8]) -> ColumnSet {
        columns.iter().copied().map(Column).collect()
    }

    #[test]
    fn parity_survives_so_many_losses_whichever_they_are() {
        let scheme = Scheme::new(4, 2).unwrap();
        assert_eq!(scheme.tolerated_losses(), 2);
        assert!(scheme.survives(columns(&[0, 3])) && !scheme.survives(columns(&[0, 3, 5])));
        assert!(scheme.is_readable_from(columns(&[0, 1, 4, 5])));
        assert!(!scheme.is_readable_from(columns(&[0, 1, 4])));
        assert!(
            scheme.survives_another(columns(&[2])) && !scheme.survives_another(columns(&[2, 4]))
        );
        let left =
            [&[][..], &[2], &[2, 4], &[2, 4, 5]].map(|lost| scheme.losses_left(columns(lost)));
        assert_eq!(left, [2, 1, 0, 0]);
        // Any one of three copies is enough to read, but not to go on.
        let copies = Scheme::new(1, 2).unwrap();
        assert_eq!([&[][..], &[2]].map(|lost| copies.losses_left(columns(lost))), [1, 0]);
        assert_eq!(scheme.sources_of(Column(2)).count(), 5);
        assert_eq!(scheme.list_copies(), 3);
    }

    #[test]
    fn levels_are_called_by_what_they_are() {
        let called = |data, parity| Scheme::new(data, parity).unwrap().to_string();
        assert_eq!(
            [(1, 1), (1, 2), (1, 3)].map(|(k, m)| called(k, m)),
            ["raid1 1+1", "raid1 1+2", "raid1 1+3"]
        );
        assert_eq!(
            [(1, 0), (2, 1), (2, 2)].map(|(k, m)| called(k, m)),
            ["raid0 1+0", "raid5 2+1", "raid6 2+2"]
        );
        let fixed = Scheme::arranged(Arrangement::Fixed, 2, 1).unwrap();
        assert_eq!(fixed.to_string(), "raid4 2+1");
    }

    #[test]
    fn mirrors_survive_all_but_twins() {
        let scheme = Scheme::arranged(Arrangement::Mirrored, 3, 3).unwrap();
        assert_eq!((scheme.tolerated_losses(), scheme.sources_needed()), (1, 1));
        assert!(scheme.survives(columns(&[0, 4, 2])) && !scheme.survives(columns(&[1, 4])));
        assert!(scheme.is_readable_from(columns(&[0, 1, 5])));
        assert!(!scheme.is_readable_from(columns(&[0, 1, 3, 4])));
        assert!(scheme.survives_another(columns(&[])) && !scheme.survives_another(columns(&[0])));
        let left = [&[][..], &[0], &[0, 3]].map(|lost| scheme.losses_left(columns(lost)));
        assert_eq!(left, [1, 0, 0]);
        assert_eq!(scheme.to_string(), "raid01 3+3");
    }

    proptest! {
        #[test]
        fn twins_hold_the_same_chunks_and_lists(data in 2_usize..=16, stripe: u32) {
            let scheme = Scheme::arranged(Arrangement::Mirrored, data, data).unwrap();
            let stripe = StripeId(stripe);
            for column in scheme.iter() {
                let twin = scheme.twin_of(column).unwrap();
                prop_assert!(twin != column && scheme.twin_of(twin) == Some(column));
                let (role, other) = (scheme.role_of(column, stripe), scheme.role_of(twin, stripe));
                prop_assert_eq!(scheme.column_of(role, stripe), column);
                prop_assert_eq!(role.index() % data, other.index() % data);
                prop_assert!(scheme.is_data(role) != scheme.is_data(other));
                prop_assert_eq!(scheme.sources_of(column).collect::<Vec<_>>(), vec![twin]);
                prop_assert_eq!(scheme.listed_on(column, 1), twin);
            }
        }

        #[test]
        fn lists_are_where_they_are_looked_for(
            arrangement in 0_u8..3, data in 2_usize..8, parity in 1_usize..4,
        ) {
            let arrangement = Arrangement::of_code(arrangement).unwrap();
            let parity = if arrangement == Arrangement::Mirrored { data } else { parity };
            let scheme = Scheme::arranged(arrangement, data, parity).unwrap();
            for (column, copy) in
                scheme.iter().flat_map(|column| (0..scheme.list_copies()).map(move |at| (column, at)))
            {
                let holder = scheme.list_holder(column, copy);
                prop_assert_eq!(scheme.listed_on(holder, copy), column);
                prop_assert_eq!(holder == column, copy == 0);
            }
        }
    }

    #[test]
    fn impossible_schemes_are_refused() {
        assert_eq!(Scheme::new(0, 1), Err(SchemeError::NoData));
        assert_eq!(Scheme::new(31, 2), Err(SchemeError::TooManyColumns { columns: 33 }));
        assert!(Scheme::new(usize::MAX, 1).is_err());
        assert_eq!(Scheme::arranged(Arrangement::Fixed, 3, 0), Err(SchemeError::NoParity));
        for (data, parity) in [(1, 1), (3, 2), (17, 17)] {
            assert!(Scheme::arranged(Arrangement::Mirrored, data, parity).is_err());
        }
    }

    #[test]
    fn a_narrow_scheme_is_on_its_columns_as_another_on_all() {
        let array = Scheme::new(4, 2).unwrap();
        let narrow = array.on(columns(&[1, 4, 5])).unwrap();
        assert_eq!((narrow.data(), narrow.parity(), narrow.width()), (1, 2, 6));
        let plain = Scheme::new(1, 2).unwrap();
        let its = [Column(1), Column(4), Column(5)];
        assert_eq!(narrow.iter().collect::<Vec<_>>(), its);
        let stripes = (0..60).map(StripeId);
        for (stripe, at) in stripes.flat_map(|stripe| (0..3).map(move |at| (stripe, at))) {
            let role = narrow.role_of(its[at], stripe);
            assert_eq!(role, plain.role_of(Column::of(at), stripe));
            assert_eq!(narrow.column_of(role, stripe), its[at]);
            let of_all = plain.listed_on(Column::of(at), 1);
            assert_eq!(narrow.listed_on(its[at], 1), its[of_all.index()]);
            assert_eq!(narrow.list_holder(narrow.listed_on(its[at], 1), 1), its[at]);
        }
        assert!(
            narrow.survives(columns(&[0, 1, 2, 3, 4])) && !narrow.survives(columns(&[1, 4, 5]))
        );
        assert!(
            narrow.is_readable_from(columns(&[5])) && !narrow.is_readable_from(columns(&[0, 2]))
        );
        assert_eq!(narrow.sources_of(Column(4)).collect::<Vec<_>>(), [Column(1), Column(5)]);
    }

    #[test]
    fn an_array_admits_its_own_scheme_and_narrow_ones_of_it() {
        let array = Scheme::new(3, 1).unwrap();
        let narrow = array.on(columns(&[0, 3])).unwrap();
        assert!(array.admits(array) && array.admits(narrow) && !narrow.admits(array));
        assert!(array.on(columns(&[0])).is_none() && array.on(columns(&[0, 4])).is_none());
        assert_eq!(array.on(columns(&[0, 1, 2, 3])), Some(array));
        for other in [Scheme::new(1, 1).unwrap(), Scheme::new(4, 1).unwrap()] {
            assert!(!array.admits(other), "{other}");
        }
        let wider = Scheme::new(1, 1).unwrap().without(columns(&[0, 1, 2])).unwrap();
        let weaker = Scheme::new(2, 0).unwrap().without(columns(&[0, 1])).unwrap();
        assert!(!array.admits(wider) && !array.admits(weaker));
        let mirrors = Scheme::arranged(Arrangement::Mirrored, 2, 2).unwrap();
        assert_eq!(mirrors.on(columns(&[0, 2])), None);
        assert_eq!(mirrors.without(columns(&[1])), Err(SchemeError::NotNarrow));
        let beyond = Scheme::new(1, 1).unwrap().without(columns(&[7]));
        assert_eq!(beyond, Err(SchemeError::NotNarrow));
    }
}
