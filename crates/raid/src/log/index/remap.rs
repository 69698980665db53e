//! Relocations that have changed index entries, so that they can be undone.

use zoneweave_zoned::Lba;

use crate::log::engine::address::Pba;

/// A relocation of consecutive blocks of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) struct Move {
    pub(in crate::log) lba: Lba,
    /// Number of blocks.
    pub(in crate::log) blocks: u64,
    /// Former address, which still holds them.
    pub(in crate::log) from: Pba,
    /// New address, unless the blocks changed since.
    pub(in crate::log) to: Pba,
    /// Kind of the relocated block.
    pub(in crate::log) what: Moved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Moved {
    Data,
    /// A tombstone block.
    Trimmed,
    /// The mapping block of an absent page, which begins with the block.
    Page,
}
