//! The memory overhead of data structures, as the memory report counts it.

/// Bytes of an entry of an ordered set or map, with its share of the nodes, which are two thirds
/// full.
pub(in crate::log) const fn in_tree(entry: usize) -> u64 {
    entry as u64 * 2
}
