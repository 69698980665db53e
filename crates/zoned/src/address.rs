//! Addresses and counts, each a type of its own so that they cannot be confused.

use std::fmt;

/// Bytes of a logical block. Zoneweave works in 4 KiB blocks throughout.
pub const BLOCK_BYTES: usize = 4096;

/// Bytes of out-of-band metadata stored beside each block.
pub const OOB_BYTES: usize = 64;

const _: () = assert!(size_of::<usize>() == 8, "indices are 64 bits wide");

/// A zone of one drive, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneId(pub u32);

impl ZoneId {
    /// The zone as an index into per-zone tables.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ZoneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zone {}", self.0)
    }
}

/// A block inside a zone, counted from the zone's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneOffset(pub u32);

impl ZoneOffset {
    /// The offset `count` blocks further on.
    #[must_use]
    pub const fn plus(self, count: BlockCount) -> Self {
        Self(self.0 + count.0)
    }

    /// The offset as an index into a table of a zone's blocks.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A number of blocks within one zone or one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockCount(pub u32);

impl BlockCount {
    /// The count as a length of tables.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The length in bytes of that many blocks of data.
    #[must_use]
    pub const fn data_bytes(self) -> usize {
        self.0 as usize * BLOCK_BYTES
    }

    /// The length in bytes of that many blocks' out-of-band metadata.
    #[must_use]
    pub const fn oob_bytes(self) -> usize {
        self.0 as usize * OOB_BYTES
    }

    /// The number of blocks in `bytes` of data.
    ///
    /// # Panics
    /// If `bytes` is no multiple of the block size, or above what 32 bits count.
    #[must_use]
    pub fn of_data_bytes(bytes: usize) -> Self {
        assert!(bytes.is_multiple_of(BLOCK_BYTES), "{bytes} bytes are no whole blocks");
        Self(u32::try_from(bytes / BLOCK_BYTES).expect("a command's blocks fit 32 bits"))
    }
}

/// The size, as users know it.
impl fmt::Display for BlockCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ByteSize::of_blocks(self.0.into()).fmt(f)
    }
}

/// A size in bytes, exact and with its unit in messages: `28 KiB`, `1077 MiB`, `2 TiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// The size of a number of blocks.
    #[must_use]
    pub const fn of_blocks(blocks: u64) -> Self {
        Self(blocks.saturating_mul(BLOCK_BYTES as u64))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let fits = |(shift, _): &&(u32, &str)| self.0 != 0 && self.0.is_multiple_of(1 << *shift);
        match units.iter().find(fits) {
            Some((shift, unit)) => write!(f, "{} {unit}", self.0 >> shift),
            None => write!(f, "{} B", self.0),
        }
    }
}

/// A block of one drive: a zone and an offset in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneAddress {
    /// The zone.
    pub zone: ZoneId,
    /// The block inside it.
    pub offset: ZoneOffset,
}

impl ZoneAddress {
    /// The address of a block of a zone.
    #[must_use]
    pub const fn new(zone: ZoneId, offset: u32) -> Self {
        Self { zone, offset: ZoneOffset(offset) }
    }
}

impl fmt::Display for ZoneAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} block {}", self.zone, self.offset.0)
    }
}

/// A logical block of a volume, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

impl Lba {
    /// The address `blocks` further on.
    #[must_use]
    pub const fn plus(self, blocks: u64) -> Self {
        Self(self.0 + blocks)
    }

    /// The address as an index into per-block tables.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "usize is 64 bits, asserted above")]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LBA {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages had sizes in blocks.
    #[test]
    fn sizes_are_shown_exactly_and_with_their_unit() {
        let sizes = [0, 1, 7, 1024, 275_712, 1 << 28, (1 << 28) + 1].map(ByteSize::of_blocks);
        let shown = sizes.map(|size| size.to_string());
        assert_eq!(
            shown,
            ["0 B", "4 KiB", "28 KiB", "4 MiB", "1077 MiB", "1 TiB", "1073741828 KiB"]
        );
        assert_eq!(BlockCount(3).to_string(), "12 KiB");
        assert_eq!(ByteSize(513).to_string(), "513 B");
    }
}
