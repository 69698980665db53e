//! Bounds of numbers on media.

/// Bound of sequences, segment numbers, epochs and similar numbers: a higher number was never
/// assigned, and arithmetic with it could overflow.
pub(crate) const NUMBER_LIMIT: u64 = 1 << 62;

/// A start refuses numbers from here on. The rest, half of all, is more than it can assign: at a
/// billion each second it takes 73 years. So no record that it writes is refused by the next start.
pub(crate) const START_LIMIT: u64 = NUMBER_LIMIT / 2;

/// Bound of times, in seconds since 1970: the year 10000, which RFC 3339 cannot express.
pub(crate) const TIME_LIMIT: u64 = 253_402_300_800;

/// Bound of the blocks of any volume: an entry has 40 bits for an LBA.
pub(crate) const LBA_LIMIT: u64 = 1 << 40;
