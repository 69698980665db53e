//! Blocks whose index entries moved, so that a relocation can be undone.

use crate::log::engine::address::Pba;
use zoneweave_zoned::Lba;

/// Blocks of the volume that point elsewhere since they were moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) struct Move {
    pub(in crate::log) lba: Lba,
    /// How many, one after the other.
    pub(in crate::log) blocks: u64,
    /// Where they pointed, and still could.
    pub(in crate::log) from: Pba,
    /// Where they point now, unless they changed since.
    pub(in crate::log) to: Pba,
    /// What they were there: what was moved may be the knowledge that that is lost.
    pub(in crate::log) what: Moved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Moved {
    Data,
    /// What tells that they were trimmed.
    Trimmed,
    /// What tells of a page that is away, which begins with the block.
    Page,
}
