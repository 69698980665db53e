//! Numbers of files, zone uses and truncations.

use std::fmt;

/// A file or directory of a store. Numbers are never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub u64);

impl FileId {
    /// The root directory.
    pub const ROOT: Self = Self(1);

    /// The next number.
    #[must_use]
    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {}", self.0)
    }
}

/// One use of a zone, from its first write to its reset. Numbers are never used again, and seed the
/// checksums of blocks: a block of an earlier use does not verify.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// The next number.
    #[must_use]
    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// How often a file was truncated. A block that was appended before a truncation does not continue
/// the file behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32);

impl Version {
    /// The version after a truncation.
    #[must_use]
    pub(crate) const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}
