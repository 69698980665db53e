//! The 64 bytes of metadata beside every block.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0..8 | LBA | coded |
//! | 8..16 | sequence | coded |
//! | 16..20 | data checksum | coded |
//! | 20..24 | content kind | coded |
//! | 24..32 | generation of the segment | own |
//! | 32..36 | stripe, counted through the segment | own |
//! | 36 | width of the stripe | own |
//! | 37 | column | own |
//! | 38 | role | own |
//! | 39 | place: header, chunk, index, superblock, hole, filler | own |
//! | 40..42 | volume | own |
//! | 42..44 | shard | own |
//! | 44..52 | columns that take part in the stripe, a bit each | own |
//! | 52..54 | block of the chunk | own |
//! | 54..56 | zero | own |
//! | 56..60 | columns of the array that the segment is not on | own |
//! | 60..64 | own checksum | own |
//!
//! *Coded* fields of parity blocks are the parity of those of the data blocks, so a lost block's
//! identity is reconstructed with its data, and verifies it. The *data checksum* is CRC-32C over
//! (array UUID, LBA, sequence, data): a misdirected block or an older version does not verify. The
//! *own checksum* covers (array UUID, payload digest, bytes 0..60). The payload digest is the data
//! checksum of a data block, and CRC-32C over (array UUID, payload) of any other block.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use zoneweave_zoned::{Lba, OOB_BYTES};

use super::Seed;
use crate::array::format::bounds::NUMBER_LIMIT;
use crate::array::format::numbers::{Generation, Sequence};
use crate::instrument::mutants::{Mutant, mutant};
use crate::scheme::{Column, ColumnSet, Role, StripeId};

/// Length of the leading part of the record that is erasure-coded with the data.
pub const CODED_BYTES: usize = 24;

/// Contents of a data chunk's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ContentKind {
    /// A block of the volume.
    Data = 1,
    /// Zeros that fill a partial stripe.
    Padding = 2,
    /// A list of trimmed extents.
    Tombstone = 3,
    /// A page of the index.
    Mapping = 4,
    /// A block of the volume whose contents are lost: reading it is an error.
    Lost = 5,
}

impl ContentKind {
    /// The kind for a stored value.
    #[must_use]
    pub const fn of(value: u32) -> Option<Self> {
        match value {
            1 => Some(Self::Data),
            2 => Some(Self::Padding),
            3 => Some(Self::Tombstone),
            4 => Some(Self::Mapping),
            5 => Some(Self::Lost),
            _ => None,
        }
    }
}

/// Purpose of a block, apart from its stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Place {
    /// The header of a segment.
    Header = 1,
    /// A block of a stripe's chunk.
    Chunk = 2,
    /// A block of a summary.
    Index = 3,
    /// A record in a superblock zone.
    Superblock = 4,
    /// Replaces a chunk block that could not be reconstructed.
    Hole = 5,
    /// Fills a zone to its capacity behind a segment's last summary.
    Filler = 6,
}

/// The identity of a data block: the erasure-coded part of its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockIdentity {
    /// The block of the volume; zero for padding.
    pub lba: Lba,
    /// The admission sequence of the write that made it; zero for padding.
    pub sequence: Sequence,
    /// The seeded checksum of the data.
    pub data_checksum: u32,
    /// Contents of the block.
    pub kind: ContentKind,
}

impl BlockIdentity {
    /// The identity of `data`, with its checksum.
    #[must_use]
    pub fn new(seed: Seed, kind: ContentKind, lba: Lba, sequence: Sequence, data: &[u8]) -> Self {
        Self { lba, sequence, data_checksum: data_checksum(seed, lba, sequence, data), kind }
    }

    /// The coded bytes of the identity.
    #[must_use]
    pub fn encode(&self) -> [u8; CODED_BYTES] {
        let coded = Coded {
            lba: self.lba.0.into(),
            sequence: self.sequence.into(),
            data_checksum: self.data_checksum.into(),
            kind: (self.kind as u32).into(),
        };
        zerocopy::transmute!(coded)
    }

    /// Decodes an identity; `None` if the bytes are none.
    #[must_use]
    pub fn decode(bytes: &[u8; CODED_BYTES]) -> Option<Self> {
        let coded: Coded = zerocopy::transmute!(*bytes);
        Some(Self {
            lba: Lba(coded.lba.get()),
            sequence: Some(coded.sequence.get()).filter(|n| *n < NUMBER_LIMIT).map(Sequence)?,
            data_checksum: coded.data_checksum.get(),
            kind: ContentKind::of(coded.kind.get())?,
        })
    }

    /// Whether `data` matches the checksum of this identity.
    #[must_use]
    pub fn verifies(&self, seed: Seed, data: &[u8]) -> bool {
        data_checksum(seed, self.lba, self.sequence, data) == self.data_checksum
    }
}

/// The seeded checksum of a block's data.
#[must_use]
pub fn data_checksum(seed: Seed, lba: Lba, sequence: Sequence, data: &[u8]) -> u32 {
    if mutant(Mutant::ChecksumNotSeeded) {
        return seed.checksum(&[data]);
    }
    // Sixteen bytes at once take no longer than eight.
    let mut whose = [0; 16];
    whose[..8].copy_from_slice(&lba.0.to_le_bytes());
    whose[8..].copy_from_slice(&sequence.0.to_le_bytes());
    seed.checksum(&[&whose, data])
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
#[repr(C)]
struct Coded {
    lba: U64,
    sequence: U64,
    data_checksum: U32,
    kind: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy)]
#[repr(C)]
struct Raw {
    coded: [u8; CODED_BYTES],
    generation: U64,
    stripe: U32,
    width: u8,
    column: u8,
    role: u8,
    place: u8,
    volume: U16,
    shard: U16,
    columns: U64,
    block_in_chunk: U16,
    reserved: [u8; 2],
    absent: U32,
    checksum: U32,
}

const _: () = assert!(size_of::<Raw>() == OOB_BYTES);
const _: () = assert!(size_of::<Coded>() == CODED_BYTES);

/// The metadata of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oob {
    /// The coded bytes: an identity, or the parity of identities; zero outside of chunks.
    pub coded: [u8; CODED_BYTES],
    /// The segment's generation; the record sequence for superblock records.
    pub generation: Generation,
    /// The stripe, counted through the segment.
    pub stripe: StripeId,
    /// Number of chunks in the stripe.
    pub width: u8,
    /// The column this block was written to.
    pub column: Column,
    /// The role its chunk plays in the stripe.
    pub role: Role,
    /// Purpose of the block.
    pub place: Place,
    /// A bit for each column that takes part in the stripe.
    pub columns: u64,
    /// The columns of the array that its segment is not on.
    pub absent: ColumnSet,
    /// Position of the block in its chunk, counted from zero; zero outside of chunks.
    pub block_in_chunk: u16,
}

impl Oob {
    /// The metadata of a block outside of chunks.
    #[must_use]
    pub const fn of_structure(
        place: Place,
        generation: Generation,
        column: Column,
        absent: ColumnSet,
    ) -> Self {
        Self {
            coded: [0; CODED_BYTES],
            generation,
            stripe: StripeId(0),
            width: 0,
            column,
            role: Role(0),
            place,
            columns: 0,
            absent,
            block_in_chunk: 0,
        }
    }

    /// The record's bytes for a block with the given payload. With `is_data`, the coded bytes are
    /// the payload's own identity, whose checksum then replaces the payload digest.
    #[must_use]
    pub fn encode(&self, seed: Seed, payload: &[u8], is_data: bool) -> [u8; OOB_BYTES] {
        assert!(
            !self.absent.contains(self.column),
            "metadata of generation {} for {}, which the segment is not on",
            self.generation,
            self.column
        );
        assert!(
            !is_data || self.role.0 < self.width,
            "role {} of a stripe of {} chunks",
            self.role.0,
            self.width
        );
        let mut raw = Raw {
            coded: self.coded,
            generation: self.generation.into(),
            stripe: self.stripe.0.into(),
            width: self.width,
            column: self.column.0,
            role: self.role.0,
            place: self.place as u8,
            volume: 0.into(),
            shard: 0.into(),
            columns: self.columns.into(),
            block_in_chunk: self.block_in_chunk.into(),
            reserved: [0; 2],
            absent: self.absent.bits().into(),
            checksum: 0.into(),
        };
        let digest = if is_data { stored_digest(&raw) } else { seed.checksum(&[payload]) };
        raw.checksum = own_checksum(seed, &raw, digest).into();
        zerocopy::transmute!(raw)
    }

    /// Decodes and verifies a chunk's block against its payload: the own checksum, and for data
    /// blocks the seeded data checksum.
    #[must_use]
    pub fn verify_chunk(
        seed: Seed,
        bytes: &[u8],
        payload: &[u8],
        data_chunks: usize,
    ) -> Option<Self> {
        let oob = Self::parse(bytes)?;
        if oob.place != Place::Chunk {
            return None;
        }
        let digest = if oob.role.index() < data_chunks {
            let identity = BlockIdentity::decode(&oob.coded)?;
            data_checksum(seed, identity.lba, identity.sequence, payload)
        } else {
            seed.checksum(&[payload])
        };
        oob.checked(seed, bytes, digest, oob.role.index() < data_chunks)
    }

    /// As [`Oob::verify_chunk`], for a block of an unknown segment: all stripes of an array have
    /// the same number of parity chunks, but not of data chunks.
    #[must_use]
    pub fn verify_any_chunk(
        seed: Seed,
        bytes: &[u8],
        payload: &[u8],
        parity_chunks: usize,
    ) -> Option<Self> {
        let width = usize::from(Self::parse(bytes)?.width);
        Self::verify_chunk(seed, bytes, payload, width.saturating_sub(parity_chunks))
    }

    /// Decodes and verifies the metadata of a chunk's block. For a data block the payload is not
    /// needed, as the metadata contains the data's checksum, and the data need not verify. Any
    /// other block is verified with its payload.
    #[must_use]
    pub fn verify_metadata(
        seed: Seed,
        bytes: &[u8],
        payload: &[u8],
        data_chunks: usize,
    ) -> Option<Self> {
        let oob = Self::parse(bytes)?;
        if oob.role.index() >= data_chunks {
            return Self::verify_chunk(seed, bytes, payload, data_chunks);
        }
        if oob.place != Place::Chunk {
            return None;
        }
        let (raw, _) = Raw::ref_from_prefix(bytes).ok()?;
        oob.checked(seed, bytes, stored_digest(raw), true)
    }

    /// Decodes and verifies a block outside of chunks.
    #[must_use]
    pub fn verify_other(seed: Seed, bytes: &[u8], payload: &[u8], place: Place) -> Option<Self> {
        let oob = Self::parse(bytes).filter(|oob| oob.place == place)?;
        oob.checked(seed, bytes, seed.checksum(&[payload]), false)
    }

    /// The identity, if the coded bytes are one.
    #[must_use]
    pub fn identity(&self) -> Option<BlockIdentity> {
        BlockIdentity::decode(&self.coded)
    }

    fn checked(self, seed: Seed, bytes: &[u8], digest: u32, is_data: bool) -> Option<Self> {
        let (raw, _) = Raw::ref_from_prefix(bytes).ok()?;
        let genuine = own_checksum(seed, raw, digest) == raw.checksum.get();
        let same_data = !is_data || digest == stored_digest(raw);
        (genuine && same_data).then_some(self)
    }

    /// The record's fields without any verification, to examine damaged media.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (raw, _) = Raw::ref_from_prefix(bytes).ok()?;
        let place = match raw.place {
            1 => Place::Header,
            2 => Place::Chunk,
            3 => Place::Index,
            4 => Place::Superblock,
            5 => Place::Hole,
            6 => Place::Filler,
            _ => return None,
        };
        if raw.column as usize >= crate::scheme::MAX_COLUMNS {
            return None;
        }
        Some(Self {
            coded: raw.coded,
            generation: raw.generation.into(),
            stripe: StripeId(raw.stripe.get()),
            width: raw.width,
            column: Column(raw.column),
            role: Role(raw.role),
            place,
            columns: raw.columns.get(),
            absent: ColumnSet::of_bits(raw.absent.get()),
            block_in_chunk: raw.block_in_chunk.get(),
        })
    }
}

/// The data checksum as stored in the coded bytes.
fn stored_digest(raw: &Raw) -> u32 {
    let coded: Coded = zerocopy::transmute!(raw.coded);
    coded.data_checksum.get()
}

fn own_checksum(seed: Seed, raw: &Raw, payload_digest: u32) -> u32 {
    // The digest comes first, in the space of the checksum field.
    let mut covered = [0; OOB_BYTES];
    covered[..4].copy_from_slice(&payload_digest.to_le_bytes());
    covered[4..].copy_from_slice(&raw.as_bytes()[..OOB_BYTES - 4]);
    seed.checksum(&[&covered])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::format::ArrayUuid;

    fn sample(role: u8) -> (Seed, Oob, Vec<u8>) {
        let seed = Seed::of(ArrayUuid([3; 16]));
        let data = vec![0x5A; 4096];
        let sequence = Sequence(1234);
        let identity = BlockIdentity::new(seed, ContentKind::Data, Lba(77), sequence, &data);
        let oob = Oob {
            coded: identity.encode(),
            generation: Generation(9),
            stripe: StripeId(5),
            width: 4,
            column: Column(2),
            role: Role(role),
            place: Place::Chunk,
            columns: 0b1111,
            absent: ColumnSet::default(),
            block_in_chunk: 3,
        };
        (seed, oob, data)
    }

    #[test]
    fn every_flipped_bit_of_data_or_metadata_is_noticed() {
        for role in [0, 3] {
            let (seed, oob, mut data) = sample(role);
            let mut bytes = oob.encode(seed, &data, role < 3);
            assert_eq!(Oob::verify_chunk(seed, &bytes, &data, 3), Some(oob));
            for bit in 0..OOB_BYTES * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Oob::verify_chunk(seed, &bytes, &data, 3), None, "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            for bit in (0..4096 * 8).step_by(61) {
                data[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Oob::verify_chunk(seed, &bytes, &data, 3), None, "bit {bit}");
                data[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn zeros_and_other_arrays_do_not_verify() {
        let (seed, oob, data) = sample(0);
        let bytes = oob.encode(seed, &data, true);
        let other = Seed::of(ArrayUuid([4; 16]));
        assert_eq!(Oob::verify_chunk(other, &bytes, &data, 3), None);
        assert_eq!(Oob::verify_chunk(seed, &[0; OOB_BYTES], &[0; 4096], 3), None);
        assert_eq!(Oob::verify_chunk(seed, &[], &[0; 4096], 3), None);
    }
}
