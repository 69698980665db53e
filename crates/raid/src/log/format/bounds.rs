//! Bounds of numbers on media.

/// Sequences, segment numbers, epochs and the like stay below: a number beyond was never given
/// out, and calculating with it could overflow.
pub(in crate::log) const NUMBER_LIMIT: u64 = 1 << 62;

/// No volume has as many blocks: an entry has 40 bits for an LBA.
pub(in crate::log) const LBA_LIMIT: u64 = 1 << 40;
