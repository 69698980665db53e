//! A physical address as media record it.

/// A physical block address: the dense ordinal of a block that may be a chunk block, `(slot *
/// columns + column) * column_blocks + block`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub u64);
