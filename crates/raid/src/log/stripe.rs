//! Building a stripe: data chunks, parity, and the metadata of each block.

use bytes::Bytes;
use zoneweave_erasure::Code;
use zoneweave_zoned::{
    AlignedBuffer, BLOCK_BYTES, BlockCount, Lba, OOB_BYTES, Payload, zero_blocks,
};

use crate::layout::{Column, Role, Scheme};
use crate::log::format::{
    ArrayUuid, BlockIdentity, CODED_BYTES, ContentKind, EntryKind, IndexEntry, Oob, Place, Seed,
    TombstoneBlock,
};
use crate::log::geometry::SegmentGeometry;
use crate::log::queue::PendingBlock;

/// One chunk, ready to be written, and what the index will say of its blocks.
pub(super) struct Chunk {
    /// Where it goes.
    pub column: Column,
    /// Data and metadata.
    pub payload: Payload,
    /// One entry a block.
    pub entries: Vec<IndexEntry>,
}

/// What every block of a stripe repeats.
#[derive(Clone, Copy)]
pub(super) struct StripeIdentity {
    /// The array.
    pub array: ArrayUuid,
    /// The segment's generation.
    pub generation: u64,
    /// The stripe, counted through the segment.
    pub stripe: u32,
    /// The stripe, counted within its group.
    pub stripe_in_group: u16,
    /// The columns the segment has.
    pub columns: u64,
}

struct DataBlock {
    data: Bytes,
    identity: BlockIdentity,
}

/// Builds every chunk of a stripe, including those of missing columns. Blocks that are missing
/// to a full stripe are padding.
#[must_use]
pub(super) fn build(
    code: &Code,
    geometry: &SegmentGeometry,
    stripe: StripeIdentity,
    blocks: &[PendingBlock],
) -> Vec<Chunk> {
    let scheme = geometry.scheme();
    let per_chunk = geometry.chunk_blocks() as usize;
    let seed = Seed::of(stripe.array);
    let mut data: Vec<_> =
        blocks.iter().map(|block| data_block(seed, stripe.array, block)).collect();
    assert!(data.len() <= scheme.data() * per_chunk, "{} blocks for a stripe", data.len());
    data.resize_with(scheme.data() * per_chunk, || padding(seed));
    let data: Vec<_> = data.chunks(per_chunk).collect();
    let (parity, coded) = encode(code, scheme, &data, per_chunk);
    scheme
        .iter()
        .map(|column| {
            let role = scheme.role_of(column, stripe.stripe);
            if scheme.is_data(role) {
                data_chunk(seed, scheme, stripe, column, role, data[role.index()])
            } else {
                let at = role.index() - scheme.data();
                parity_chunk(seed, scheme, stripe, column, role, parity[at].clone(), &coded[at])
            }
        })
        .collect()
}

fn data_block(seed: Seed, array: ArrayUuid, block: &PendingBlock) -> DataBlock {
    match block {
        PendingBlock::Data(pending) => DataBlock {
            data: pending.data.clone(),
            identity: BlockIdentity {
                lba: pending.lba,
                sequence: pending.sequence,
                data_checksum: pending.data_checksum,
                kind: pending.kind,
            },
        },
        PendingBlock::Tombstone(trims) => {
            let extents: Vec<_> = trims.iter().map(|trim| trim.extent).collect();
            let sequence = extents.iter().map(|extent| extent.sequence).min().unwrap_or(0);
            let data = TombstoneBlock { extents }.encode(array);
            let kind = ContentKind::Tombstone;
            let identity = BlockIdentity::new(seed, kind, Lba(0), sequence, &data);
            DataBlock { data, identity }
        }
    }
}

fn padding(seed: Seed) -> DataBlock {
    let data = zero_blocks(BlockCount(1));
    let identity = BlockIdentity::new(seed, ContentKind::Padding, Lba(0), 0, &data);
    DataBlock { data, identity }
}

/// Parity chunks, and the parity of the coded metadata: for each parity chunk, 24 bytes a block.
fn encode(
    code: &Code,
    scheme: Scheme,
    data: &[&[DataBlock]],
    per_chunk: usize,
) -> (Vec<Bytes>, Vec<Vec<u8>>) {
    let blocks = BlockCount(u32::try_from(per_chunk).expect("at most 1024"));
    let mut parity: Vec<_> =
        (0..scheme.parity()).map(|_| AlignedBuffer::unfilled(blocks)).collect();
    let mut coded = vec![vec![0; per_chunk * CODED_BYTES]; scheme.parity()];
    for at in 0..per_chunk {
        let sources: Vec<&[u8]> = data.iter().map(|chunk| &chunk[at].data[..]).collect();
        let mut targets: Vec<&mut [u8]> = parity
            .iter_mut()
            .map(|chunk| &mut chunk.as_mut()[at * BLOCK_BYTES..(at + 1) * BLOCK_BYTES])
            .collect();
        code.encode(&sources, &mut targets);
        let identities: Vec<_> = data.iter().map(|chunk| chunk[at].identity.encode()).collect();
        let sources: Vec<&[u8]> = identities.iter().map(|bytes| &bytes[..]).collect();
        let mut targets: Vec<&mut [u8]> = coded
            .iter_mut()
            .map(|chunk| &mut chunk[at * CODED_BYTES..(at + 1) * CODED_BYTES])
            .collect();
        code.encode(&sources, &mut targets);
    }
    (parity.into_iter().map(AlignedBuffer::freeze).collect(), coded)
}

fn data_chunk(
    seed: Seed,
    scheme: Scheme,
    stripe: StripeIdentity,
    column: Column,
    role: Role,
    blocks: &[DataBlock],
) -> Chunk {
    let mut oob = Vec::with_capacity(blocks.len() * OOB_BYTES);
    for (block_in_chunk, block) in (0..).zip(blocks) {
        let coded = block.identity.encode();
        let record = oob_record(scheme, stripe, column, role, block_in_chunk, coded);
        oob.extend_from_slice(&record.encode(seed, &block.data, true));
    }
    let data = blocks.iter().map(|block| block.data.clone()).collect();
    let entries = blocks.iter().map(|block| IndexEntry {
        sequence: block.identity.sequence,
        lba: block.identity.lba,
        kind: entry_kind(block.identity.kind),
        stripe_in_group: stripe.stripe_in_group,
    });
    Chunk { column, payload: Payload { data, oob: oob.into() }, entries: entries.collect() }
}

fn parity_chunk(
    seed: Seed,
    scheme: Scheme,
    stripe: StripeIdentity,
    column: Column,
    role: Role,
    data: Bytes,
    coded: &[u8],
) -> Chunk {
    let blocks = data.len() / BLOCK_BYTES;
    let mut oob = Vec::with_capacity(blocks * OOB_BYTES);
    let (coded, _) = coded.as_chunks::<CODED_BYTES>();
    for ((block_in_chunk, coded), block) in (0..).zip(coded).zip(data.chunks_exact(BLOCK_BYTES)) {
        let record = oob_record(scheme, stripe, column, role, block_in_chunk, *coded);
        oob.extend_from_slice(&record.encode(seed, block, false));
    }
    let entry = parity_entry(stripe.stripe_in_group);
    Chunk {
        column,
        payload: Payload { data: vec![data], oob: oob.into() },
        entries: vec![entry; blocks],
    }
}

/// The metadata of a chunk's block.
#[must_use]
pub(super) fn oob_record(
    scheme: Scheme,
    stripe: StripeIdentity,
    column: Column,
    role: Role,
    block_in_chunk: u16,
    coded: [u8; CODED_BYTES],
) -> Oob {
    Oob {
        coded,
        generation: stripe.generation,
        stripe: stripe.stripe,
        width: u8::try_from(scheme.columns()).expect("at most 32"),
        column,
        role,
        place: Place::Chunk,
        columns: stripe.columns,
        block_in_chunk,
    }
}

/// The index entry of a parity block.
#[must_use]
pub(super) fn parity_entry(stripe_in_group: u16) -> IndexEntry {
    IndexEntry { kind: EntryKind::Parity, stripe_in_group, ..IndexEntry::EMPTY }
}

/// How the index names the contents of a data block.
#[must_use]
pub(super) fn entry_kind(kind: ContentKind) -> EntryKind {
    match kind {
        ContentKind::Data => EntryKind::Data,
        ContentKind::Padding => EntryKind::Padding,
        ContentKind::Tombstone => EntryKind::Tombstone,
        ContentKind::Mapping => EntryKind::Mapping,
        ContentKind::Lost => EntryKind::Lost,
    }
}
