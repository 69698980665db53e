//! Bounds of numbers on media.

/// Bound of sequences, segment numbers, epochs and similar numbers: a higher number was never
/// assigned, and arithmetic with it could overflow.
pub(crate) const NUMBER_LIMIT: u64 = 1 << 62;

/// Bound of the blocks of any volume: an entry has 40 bits for an LBA.
pub(crate) const LBA_LIMIT: u64 = 1 << 40;
