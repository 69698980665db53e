//! Mapping blocks: a page of the index, the entries of consecutive blocks of the volume.
//!
//! The ZapRAID paper (§3.1) offloads 1,024 entries of four bytes, a bare block of them, and keeps
//! its identity in the metadata beside it. A page here says itself what it is and which of its
//! entries are trims, so it holds 960; it can be verified where there is no metadata, and read by
//! a checkpoint that knows nothing of tombstones.

use bytes::Bytes;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zoneweave_zoned::Lba;

use super::{
    Address, AddressSpace, BODY_BYTES, Bits, BlockType, Coverage, Envelope, FormatError, RawShard,
    ShardId, field, packed, sealed, split,
};

/// What a page says of a block of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// Reads as zeros; nothing is remembered of it.
    Nowhere,
    /// Its newest version, or the mark that it is lost, is there.
    Block(Address),
    /// Reads as zeros because of the tombstone block there.
    Trimmed(Address),
}

/// A page of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingBlock {
    /// Whose index it is of.
    pub shard: ShardId,
    /// The first block: a multiple of the entries of a page.
    pub first: Lba,
    /// What it knows.
    pub coverage: Coverage,
    /// One for each block from the first on, as many as a page has unless the volume ends.
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

/// Entries of a page whose entries take so many bytes: as many as fit with a bit each, by eights.
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

impl MappingBlock {
    /// The block.
    ///
    /// # Panics
    /// If it is no page of that space, or an address is beyond it.
    #[must_use]
    pub fn encode(&self, space: &AddressSpace) -> Bytes {
        assert_eq!(entries_from(space, self.first.0), Some(self.entries.len()), "{}", self.first);
        let raw = Raw {
            shard: self.shard.into(),
            entry_bytes: space.entry_bytes,
            reserved: [0; 3],
            count: u32::try_from(self.entries.len()).expect("at most 960").into(),
            reserved_too: [0; 4],
            first: self.first.0.into(),
            covered: self.coverage.covered.into(),
            sequence: self.coverage.sequence.into(),
            reserved_last: [0; 8],
        };
        let trims = packed(self.entries.iter().map(|entry| matches!(entry, Mapped::Trimmed(_))));
        let entries = match space.entry_bytes {
            4 => self.stored::<4>(space),
            5 => self.stored::<5>(space),
            _ => self.stored::<8>(space),
        };
        sealed(BlockType::Mapping, space.array, &[raw.as_bytes(), &trims, &entries])
    }

    /// The entries as they are stored, each in so many bytes.
    fn stored<const ENTRY_BYTES: usize>(&self, space: &AddressSpace) -> Vec<u8> {
        let addresses = space.addresses();
        let dropped = &addresses.to_le_bytes()[ENTRY_BYTES..];
        assert!(dropped.iter().all(|byte| *byte == 0), "the entry width was chosen so");
        let mut stored = vec![0; self.entries.len() * ENTRY_BYTES];
        // Asserted in the end, so that nothing but this is asked of each: there are a thousand of them.
        let mut highest = 0;
        for (entry, to) in self.entries.iter().zip(stored.as_chunks_mut::<ENTRY_BYTES>().0) {
            let value = match entry {
                Mapped::Nowhere => 0,
                Mapped::Block(address) | Mapped::Trimmed(address) => address.0.saturating_add(1),
            };
            highest = highest.max(value);
            *to = *value.to_le_bytes().first_chunk().expect("at most eight bytes");
        }
        assert!(highest <= addresses, "address {} in {space:?}", highest - 1);
        stored
    }

    /// The page in a block.
    ///
    /// # Errors
    /// What is wrong with it.
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

/// How many entries the page that starts at a block has; `None` if none starts there.
fn entries_from(space: &AddressSpace, first: u64) -> Option<usize> {
    let most = u64::from(space.page_entries);
    let left = space.volume_blocks.checked_sub(first).filter(|left| *left > 0)?;
    let count = usize::try_from(left.min(most)).ok()?;
    first.is_multiple_of(most).then_some(count)
}

/// Entries of a width that is known: there are a thousand of them in every page.
fn decode_entries<const WIDTH: usize>(
    bytes: &[u8],
    trims: Bits<'_>,
    space: &AddressSpace,
    stored: impl Fn([u8; WIDTH]) -> u64,
) -> Result<Vec<Mapped>, FormatError> {
    let (addresses, (packed, _)) = (space.addresses(), bytes.as_chunks::<WIDTH>());
    // Found wrong in the end, so that nothing but this is asked of each.
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
