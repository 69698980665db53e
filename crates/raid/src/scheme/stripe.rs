//! Numbers of stripes.
//!
//! Invariant: a group of rows has as many stripes as rows, and they have the numbers of its rows.

use std::fmt;
use std::ops::Range;

/// A stripe, counted from the start of its segment or zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StripeId(pub u32);

impl StripeId {
    /// The stripe at a position of a group. The position may be from media, and beyond the group.
    #[must_use]
    pub fn at(group: &Range<u32>, position: u16) -> Self {
        Self(group.start + u32::from(position))
    }

    /// The stripe after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Whether the stripe is in a group.
    #[must_use]
    pub fn is_in(self, group: &Range<u32>) -> bool {
        group.contains(&self.0)
    }

    /// The position in its group.
    ///
    /// # Panics
    /// If it is in another group.
    #[must_use]
    pub fn position_in(self, group: &Range<u32>) -> u16 {
        assert!(self.is_in(group), "stripe {self} is not in the group of rows {group:?}");
        u16::try_from(self.0 - group.start).expect("at most 65,536 rows a group")
    }
}

impl fmt::Display for StripeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
