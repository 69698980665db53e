//! The memory that a structure takes beside its entries, as the memory report counts it.

/// What an entry of an ordered set or map takes beside itself: nodes are two thirds full.
pub(in crate::log) const fn in_tree(entry: usize) -> u64 {
    entry as u64 * 2
}
