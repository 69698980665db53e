//! Chunk arithmetic: which column of a stripe holds which chunk.
//!
//! A stripe has `k` data chunks (roles `0..k`) and `m` parity chunks (roles `k..k+m`), one per
//! column. Stripe `s` places role `r` on column `(r + s) mod n`, so that parity visits every
//! column in turn and reads of consecutive blocks visit every drive. Where parity stays in its place
//! (RAID-4) role `r` is on column `r`, in every stripe.

use std::fmt;

use thiserror::Error;

/// The most columns a scheme may have: the member table of a superblock record holds so many.
pub const MAX_COLUMNS: usize = 32;

/// A member's place in the array, and with it a column of every stripe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Column(pub u8);

impl Column {
    /// The column as an index into per-member tables.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The column of an index.
    ///
    /// # Panics
    /// If there can be no such column.
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

/// A chunk's place in the erasure code: data below `k`, parity from `k` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Role(pub u8);

impl Role {
    /// The role as an index into the chunks of a stripe.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which columns the chunks of a stripe are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Arrangement {
    /// Every stripe starts one column further than the one before.
    #[default]
    Rotated = 0,
    /// Data and parity stay where they are: parity is on the last columns.
    Fixed = 1,
}

impl Arrangement {
    /// The number that stands for it on media.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The arrangement that a number on media stands for.
    #[must_use]
    pub const fn of_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Rotated),
            1 => Some(Self::Fixed),
            _ => None,
        }
    }
}

/// How many data and parity chunks a stripe has, and where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    data: u8,
    parity: u8,
    arrangement: Arrangement,
}

/// A scheme that no array can have.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SchemeError {
    /// Nothing would be stored.
    #[error("a scheme needs at least one data chunk per stripe")]
    NoData,
    /// More members than a superblock can list.
    #[error("{columns} drives are more than the {MAX_COLUMNS} an array may have")]
    TooManyColumns {
        /// Data and parity chunks together.
        columns: usize,
    },
    /// Parity that stays in its place, and is not there.
    #[error("parity that stays on one drive needs at least one parity chunk per stripe")]
    NoParity,
}

impl Scheme {
    /// A scheme of `data` + `parity` chunks per stripe, which visit every column in turn.
    ///
    /// # Errors
    /// If there is no data chunk or there are more than 32 chunks.
    pub fn new(data: usize, parity: usize) -> Result<Self, SchemeError> {
        Self::arranged(Arrangement::Rotated, data, parity)
    }

    /// A scheme of `data` + `parity` chunks per stripe.
    ///
    /// # Errors
    /// If there is no data chunk, there are more than 32 chunks, or the arrangement is of something
    /// that there is none of.
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
        let columns = data.saturating_add(parity);
        match (u8::try_from(data), u8::try_from(parity)) {
            (Ok(data), Ok(parity)) if columns <= MAX_COLUMNS => {
                Ok(Self { data, parity, arrangement })
            }
            _ => Err(SchemeError::TooManyColumns { columns }),
        }
    }

    /// Which columns its chunks are on.
    #[must_use]
    pub const fn arrangement(self) -> Arrangement {
        self.arrangement
    }

    /// Data chunks per stripe (`k`).
    #[must_use]
    pub const fn data(self) -> usize {
        self.data as usize
    }

    /// Parity chunks per stripe (`m`): how many members may be lost.
    #[must_use]
    pub const fn parity(self) -> usize {
        self.parity as usize
    }

    /// Chunks per stripe, one per member (`n`).
    #[must_use]
    pub const fn columns(self) -> usize {
        self.data as usize + self.parity as usize
    }

    /// Every column.
    pub fn iter(self) -> impl Iterator<Item = Column> {
        (0..self.data + self.parity).map(Column)
    }

    /// The role that `column` plays in `stripe`.
    #[must_use]
    pub fn role_of(self, column: Column, stripe: u32) -> Role {
        let columns = u32::from(self.data + self.parity);
        let role = (u32::from(column.0) + columns - self.turn(stripe)) % columns;
        Role(u8::try_from(role).expect("below the number of columns"))
    }

    /// The column that plays `role` in `stripe`.
    #[must_use]
    pub fn column_of(self, role: Role, stripe: u32) -> Column {
        let columns = u32::from(self.data + self.parity);
        let column = (u32::from(role.0) + self.turn(stripe)) % columns;
        Column(u8::try_from(column).expect("below the number of columns"))
    }

    /// The column that `stripe` starts on.
    fn turn(self, stripe: u32) -> u32 {
        match self.arrangement {
            Arrangement::Rotated => stripe % u32::from(self.data + self.parity),
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
        let level = match (self.arrangement, self.parity) {
            (Arrangement::Fixed, _) => "raid4",
            (_, 0) => "raid0",
            (_, 1) => "raid5",
            (_, 2) => "raid6",
            _ => "raid",
        };
        write!(f, "{level} {}+{}", self.data, self.parity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_and_columns_are_inverse_and_parity_rotates() {
        let scheme = Scheme::new(4, 2).unwrap();
        let mut parity_on = [0; 6];
        for stripe in 0..600 {
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
            for (stripe, column) in (0..60).flat_map(|s| scheme.iter().map(move |c| (s, c))) {
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
        assert!((0..=1).all(|code| of_code(code) == Some(code)));
        assert!((2..=u8::MAX).all(|code| of_code(code).is_none()));
    }

    #[test]
    fn impossible_schemes_are_refused() {
        assert_eq!(Scheme::new(0, 1), Err(SchemeError::NoData));
        assert_eq!(Scheme::new(31, 2), Err(SchemeError::TooManyColumns { columns: 33 }));
        assert!(Scheme::new(usize::MAX, 1).is_err());
        assert_eq!(Scheme::arranged(Arrangement::Fixed, 3, 0), Err(SchemeError::NoParity));
    }
}
