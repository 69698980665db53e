//! Numbers that a volume assigns and repeats on media.
//!
//! Invariant: each is assigned once. Superblock records hold the ceilings below which numbers may
//! be in use, so that a start never assigns one again. On media each has 64 bits, little-endian.

use std::fmt;

use serde::Serialize;
use zerocopy::little_endian::U64;

/// Defines a type of numbers, which are of one type on media and never mixed in arithmetic.
macro_rules! number {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$name> for U64 {
            fn from(number: $name) -> Self {
                Self::new(number.0)
            }
        }

        impl From<U64> for $name {
            fn from(number: U64) -> Self {
                Self(number.get())
            }
        }
    };
}

/// Defines a type of numbers that are assigned one after the other.
macro_rules! counter {
    ($(#[$meta:meta])* $name:ident) => {
        number! { $(#[$meta])* $name }

        impl $name {
            /// The number after this one.
            #[must_use]
            pub const fn next(self) -> Self {
                self.plus(1)
            }

            /// The number so many further.
            #[must_use]
            pub const fn plus(self, count: u64) -> Self {
                Self(self.0 + count)
            }
        }
    };
}

counter! {
    /// The number of a segment, never used again in this array.
    SegmentId
}

impl SegmentId {
    /// No segment.
    pub const NONE: Self = Self(0);

    /// The number of an array's first segment.
    pub const FIRST: Self = Self(1);
}

number! {
    /// Distinguishes histories of an array that were started apart. Lineages are random.
    Lineage
}

counter! {
    /// The number of changes of an array's membership.
    Epoch
}

impl Epoch {
    /// No change is recorded.
    pub const NONE: Self = Self(0);

    /// The epoch of a new array.
    pub const FIRST: Self = Self(1);
}

counter! {
    /// The incarnation of zones, which all blocks in them repeat. For a segment it is the sequence
    /// that was assigned when it was opened; for a zone of a zoned volume, the number of resets.
    Generation
}

impl Generation {
    /// Below every generation of a segment, and that of a zone before its first reset.
    pub const NONE: Self = Self(0);

    /// The generation of a segment opened with this sequence.
    #[must_use]
    pub const fn of(sequence: Sequence) -> Self {
        Self(sequence.0)
    }

    /// The sequence that was assigned when the segment was opened.
    #[must_use]
    pub const fn sequence(self) -> Sequence {
        Sequence(self.0)
    }
}

counter! {
    /// The position of a write, trim or checkpoint block among all of the volume: of two versions
    /// of a block, the one with the higher sequence is newer.
    Sequence
}

impl Sequence {
    /// Below every assigned sequence.
    pub const NONE: Self = Self(0);

    /// The first that a volume assigns.
    pub const FIRST: Self = Self(1);

    /// Above every assigned sequence.
    pub const MAX: Self = Self(u64::MAX);

    /// Sequences assigned from an earlier one up to this one.
    ///
    /// # Panics
    /// If `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        assert!(earlier.0 <= self.0, "an age is counted from an earlier sequence");
        self.0 - earlier.0
    }
}
