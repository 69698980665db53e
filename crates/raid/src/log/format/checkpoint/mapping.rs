//! Mapping blocks: a page of the index, the entries of consecutive blocks of the volume.
//!
//! The ZapRAID paper (§3.1) offloads 1,024 entries of four bytes, which fill a block, and keeps
//! their identity in the block metadata. A page here contains its identity and its trims, so it has
//! 960 entries. It can be verified without block metadata, and read by a checkpoint without the
//! tombstones.

use bytes::Bytes;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zoneweave_zoned::Lba;

use super::{
    Address, AddressSpace, BODY_BYTES, Bits, BlockType, Coverage, Envelope, FormatError, RawShard,
    ShardId, field, packed, sealed, split,
};

/// The entry of a block of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// Reads as zeros; never written, or forgotten.
    Nowhere,
    /// Address of its newest version, or of the mark that it is lost.
    Block(Address),
    /// Reads as zeros because of the tombstone block at this address.
    Trimmed(Address),
}

/// A page of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingBlock {
    /// Volume and shard of the index.
    pub shard: ShardId,
    /// The first block: a multiple of the entries of a page.
    pub first: Lba,
    /// Sequences that it reflects.
    pub coverage: Coverage,
    /// One for each block from the first on; only the last page has fewer than the others.
    pub entries: Vec<Mapped>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    shard: RawShard,
    entry_bytes: u8,
    reserved: [u8; 3],
    count: U32,
    reserved_too: [u8; 4],
    first: U64,
    covered: U64,
    sequence: U64,
    reserved_last: [u8; 8],
}

const HEAD: usize = size_of::<Raw>();
const _: () = assert!(HEAD == 48);
const _: () = assert!(fits(4) && fits(5) && fits(8));

/// Entries of a page with entries of so many bytes: as many as fit with a bit each, in multiples of
/// eight.
///
/// # Panics
/// If no array has entries of that width.
#[must_use]
pub const fn mapping_entries(entry_bytes: u8) -> u32 {
    match entry_bytes {
        4 => 960,
        5 => 776,
        8 => 488,
        _ => panic!("entries take 4, 5 or 8 bytes"),
    }
}

const fn fits(entry_bytes: u8) -> bool {
    let entries = mapping_entries(entry_bytes) as usize;
    entries.is_multiple_of(8) && HEAD + entries / 8 + entries * entry_bytes as usize <= BODY_BYTES
}

/// Entries of a page as they are stored: the address plus one for each block, or zero.
pub struct StoredEntries {
    bytes: Vec<u8>,
    count: usize,
    /// Asserted once for the whole page, as checking each of a thousand entries costs time.
    highest: u64,
}

impl StoredEntries {
    /// Stores these numbers in so many bytes each.
    #[must_use]
    pub fn of(numbers: impl ExactSizeIterator<Item = u64>, entry_bytes: u8) -> Self {
        assert!(matches!(entry_bytes, 4 | 5 | 8), "index entries of {entry_bytes} bytes");
        match entry_bytes {
            4 => Self::in_bytes::<4>(numbers),
            5 => Self::in_bytes::<5>(numbers),
            _ => Self::in_bytes::<8>(numbers),
        }
    }

    fn in_bytes<const ENTRY_BYTES: usize>(numbers: impl ExactSizeIterator<Item = u64>) -> Self {
        let count = numbers.len();
        let mut bytes = vec![0; count * ENTRY_BYTES];
        let mut highest = 0;
        for (number, to) in numbers.zip(bytes.as_chunks_mut::<ENTRY_BYTES>().0) {
            highest = highest.max(number);
            *to = *number.to_le_bytes().first_chunk().expect("at most eight bytes");
        }
        Self { bytes, count, highest }
    }

    /// Whether any entry is mapped.
    #[must_use]
    pub fn map_something(&self) -> bool {
        self.highest > 0
    }
}

/// A page about to be written.
pub struct StoredPage {
    /// Volume and shard of the index.
    pub shard: ShardId,
    /// The first block: a multiple of the entries of a page.
    pub first: Lba,
    /// Sequences that it reflects.
    pub coverage: Coverage,
    /// One for each block from the first on; only the last page has fewer than the others.
    pub entries: StoredEntries,
    /// A bit for each trimmed entry; the first is the lowest of the first byte.
    pub trims: Vec<u8>,
}

impl StoredPage {
    /// The block on media, with its envelope.
    ///
    /// # Panics
    /// If it is not a page of that space, or an address is beyond it.
    #[must_use]
    pub fn encode(&self, space: &AddressSpace) -> Bytes {
        let StoredEntries { ref bytes, count, highest } = self.entries;
        let Coverage { covered, sequence } = self.coverage;
        assert!(covered <= sequence, "page at {} covers {covered} of {sequence}", self.first);
        assert_eq!(entries_from(space, self.first.0), Some(count), "{}", self.first);
        assert!(self.trims.len() == count.div_ceil(8), "a bit for each of {count} entries");
        let addresses = space.addresses();
        let needed = addresses.to_le_bytes();
        let dropped = &needed[usize::from(space.entry_bytes)..];
        assert!(dropped.iter().all(|byte| *byte == 0), "the entry width was chosen so");
        assert!(highest <= addresses, "address {} in {space:?}", highest - 1);
        let raw = Raw {
            shard: self.shard.into(),
            entry_bytes: space.entry_bytes,
            reserved: [0; 3],
            count: u32::try_from(count).expect("at most 960").into(),
            reserved_too: [0; 4],
            first: self.first.0.into(),
            covered: self.coverage.covered.into(),
            sequence: self.coverage.sequence.into(),
            reserved_last: [0; 8],
        };
        sealed(BlockType::Mapping, space.array, &[raw.as_bytes(), &self.trims, bytes])
    }
}

impl MappingBlock {
    /// The block on media, with its envelope.
    ///
    /// # Panics
    /// If it is not a page of that space, or an address is beyond it.
    #[must_use]
    pub fn encode(&self, space: &AddressSpace) -> Bytes {
        let number = |entry: &Mapped| match entry {
            Mapped::Nowhere => 0,
            Mapped::Block(address) | Mapped::Trimmed(address) => address.0.saturating_add(1),
        };
        let numbers = self.entries.iter().map(number);
        StoredPage {
            shard: self.shard,
            first: self.first,
            coverage: self.coverage,
            entries: StoredEntries::of(numbers, space.entry_bytes),
            trims: packed(&self.entries, |entry| matches!(entry, Mapped::Trimmed(_))),
        }
        .encode(space)
    }

    /// The page in a block.
    ///
    /// # Errors
    /// The first violation of the format.
    pub fn decode(block: &[u8], space: &AddressSpace) -> Result<Self, FormatError> {
        let body = Envelope::open_of(block, BlockType::Mapping, space.array)?;
        let (raw, rest) = split::<Raw>(body)?;
        if raw.entry_bytes != space.entry_bytes {
            return field("entry bytes");
        }
        let (first, width) = (raw.first.get(), usize::from(space.entry_bytes));
        let count = raw.count.get() as usize;
        if entries_from(space, first) != Some(count) {
            return field("first or count");
        }
        if rest.len() != count.div_ceil(8) + count * width {
            return field("length");
        }
        let (trims, entries) = rest.split_at(count.div_ceil(8));
        let trims = Bits::of(trims, count)?;
        let entries = match width {
            4 => decode_entries(entries, trims, space, |bytes: [u8; 4]| {
                u64::from(u32::from_le_bytes(bytes))
            }),
            5 => decode_entries(entries, trims, space, |[a, b, c, d, e]: [u8; 5]| {
                u64::from_le_bytes([a, b, c, d, e, 0, 0, 0])
            }),
            _ => decode_entries(entries, trims, space, u64::from_le_bytes),
        };
        Ok(Self {
            shard: raw.shard.into(),
            first: Lba(first),
            coverage: Coverage::of(raw.covered, raw.sequence)?,
            entries: entries?,
        })
    }
}

/// Entries of the page that starts at a block; `None` if none starts there.
fn entries_from(space: &AddressSpace, first: u64) -> Option<usize> {
    let most = u64::from(space.page_entries);
    let left = space.volume_blocks.checked_sub(first).filter(|left| *left > 0)?;
    let count = usize::try_from(left.min(most)).ok()?;
    first.is_multiple_of(most).then_some(count)
}

/// For a constant width, as there are a thousand entries in every page.
fn decode_entries<const WIDTH: usize>(
    bytes: &[u8],
    trims: Bits<'_>,
    space: &AddressSpace,
    stored: impl Fn([u8; WIDTH]) -> u64,
) -> Result<Vec<Mapped>, FormatError> {
    let (addresses, (packed, _)) = (space.addresses(), bytes.as_chunks::<WIDTH>());
    // Errors are evaluated once for the whole page, as checking each entry costs time.
    let (mut beyond, mut idle) = (false, false);
    let entry = |(at, bytes): (usize, &[u8; WIDTH])| match (stored(*bytes), trims.get(at)) {
        (0, trimmed) => {
            idle |= trimmed;
            Mapped::Nowhere
        }
        (stored, trimmed) => {
            let address = stored - 1;
            beyond |= address >= addresses;
            if trimmed {
                Mapped::Trimmed(Address(address))
            } else {
                Mapped::Block(Address(address))
            }
        }
    };
    let entries = packed.iter().enumerate().map(entry).collect();
    match (beyond, idle) {
        (true, _) => field("address"),
        (_, true) => field("trim"),
        _ => Ok(entries),
    }
}
