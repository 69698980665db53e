//! Building a stripe: data chunks, parity, and the metadata of each block.

use bytes::Bytes;
use zoneweave_erasure::Code;
use zoneweave_zoned::{
    AlignedBuffer, BLOCK_BYTES, BlockCount, Lba, OOB_BYTES, Payload, zero_blocks,
};

use crate::log::admit::pending::PendingBlock;
use crate::log::engine::geometry::SegmentGeometry;
use crate::log::format::{
    ArrayUuid, BlockIdentity, CODED_BYTES, ContentKind, Generation, IndexEntry, Oob, Place, Seed,
    Sequence, TombstoneBlock,
};
use crate::scheme::{Column, ColumnSet, Role, Scheme, StripeId};

/// The chunks of a stripe: also for missing columns, but only for columns of its segment.
pub(in crate::log) struct Built {
    /// Payloads to be written, column by column.
    pub payloads: Vec<Payload>,
    /// Summary entries of the blocks, column by column.
    pub entries: Vec<IndexEntry>,
}

/// The fields that every block of a stripe repeats.
#[derive(Clone, Copy)]
pub(in crate::log) struct StripeIdentity {
    /// UUID of the array.
    pub array: ArrayUuid,
    /// Generation of the segment.
    pub generation: Generation,
    /// The stripe, counted through the segment.
    pub stripe: StripeId,
    /// The stripe, counted within its group.
    pub stripe_in_group: u16,
    /// The columns that the segment is on.
    pub columns: ColumnSet,
}

/// Fills a partial stripe.
#[derive(Clone, Copy)]
pub(in crate::log) struct Padding(BlockIdentity);

impl Padding {
    /// Padding for the array with this checksum seed.
    #[must_use]
    pub(in crate::log) fn new(seed: Seed) -> Self {
        let zeros = zero_blocks(BlockCount(1));
        Self(BlockIdentity::new(seed, ContentKind::Padding, Lba(0), Sequence::NONE, &zeros))
    }
}

/// A block of data and its identity.
type DataBlock = (Bytes, BlockIdentity);

/// Metadata that is coded with the data.
type Coded = [u8; CODED_BYTES];

/// Builds every chunk of a stripe.
#[must_use]
pub(super) fn build(
    code: &Code,
    geometry: &SegmentGeometry,
    stripe: StripeIdentity,
    padding: Padding,
    blocks: &[PendingBlock],
) -> Built {
    let scheme = geometry.scheme();
    let per_chunk = geometry.chunk_blocks() as usize;
    let seed = Seed::of(stripe.array);
    let full = scheme.data() * per_chunk;
    assert!(blocks.len() <= full, "{} blocks for a stripe", blocks.len());
    assert!(
        stripe.stripe.0 < geometry.rows(),
        "stripe {} of a segment of {} rows",
        stripe.stripe,
        geometry.rows()
    );
    let mut data: Vec<DataBlock> = Vec::with_capacity(full);
    data.extend(blocks.iter().map(|block| data_block(seed, stripe.array, block)));
    data.resize_with(full, || (zero_blocks(BlockCount(1)), padding.0));
    let parity = encode(code, scheme, &data, per_chunk);
    let coded = encode_identities(code, scheme, &data, per_chunk);
    let blocks = scheme.columns() * per_chunk;
    let mut oob = Vec::with_capacity(blocks * OOB_BYTES);
    let mut entries = Vec::with_capacity(blocks);
    for column in scheme.iter() {
        let role = scheme.role_of(column, stripe.stripe);
        let first = role.index() * per_chunk;
        for (within, coded) in (0..).zip(&coded[first..first + per_chunk]) {
            let record = oob_record(scheme, stripe, column, role, within, *coded);
            let at = first + usize::from(within);
            if let Some((block, identity)) = data.get(at) {
                oob.extend_from_slice(&record.encode(seed, block, true));
                entries.push(data_entry(identity, stripe.stripe_in_group));
            } else {
                let parity = &parity[role.index() - scheme.data()];
                let block = &parity[usize::from(within) * BLOCK_BYTES..][..BLOCK_BYTES];
                oob.extend_from_slice(&record.encode(seed, block, false));
                entries.push(IndexEntry::parity(stripe.stripe_in_group));
            }
        }
    }
    assert!(
        entries.len() == blocks && oob.len() == blocks * OOB_BYTES,
        "{} entries and {} bytes of metadata for {blocks} blocks",
        entries.len(),
        oob.len()
    );
    Built { payloads: payloads(scheme, stripe, per_chunk, data, parity, oob), entries }
}

fn data_block(seed: Seed, array: ArrayUuid, block: &PendingBlock) -> DataBlock {
    match block {
        PendingBlock::Data(pending) => {
            let bytes = pending.data.len();
            assert!(bytes == BLOCK_BYTES, "block {} has {bytes} bytes", pending.lba);
            let identity = BlockIdentity {
                lba: pending.lba,
                sequence: pending.sequence,
                data_checksum: pending.data_checksum,
                kind: pending.kind,
            };
            (pending.data.clone(), identity)
        }
        PendingBlock::Tombstone(trims) => {
            assert!(!trims.is_empty(), "a tombstone block without a trim");
            let extents: Vec<_> = trims.iter().map(|trim| trim.extent).collect();
            let sequence = extents.iter().map(|extent| extent.sequence).min().unwrap_or_default();
            let data = TombstoneBlock { extents }.encode(array);
            let kind = ContentKind::Tombstone;
            let identity = BlockIdentity::new(seed, kind, Lba(0), sequence, &data);
            (data, identity)
        }
    }
}

/// Parity chunks, by role.
fn encode(code: &Code, scheme: Scheme, data: &[DataBlock], per_chunk: usize) -> Vec<Bytes> {
    let blocks = BlockCount(u32::try_from(per_chunk).expect("at most 1024"));
    let mut parity: Vec<_> =
        (0..scheme.parity()).map(|_| AlignedBuffer::unfilled(blocks)).collect();
    let mut sources: Vec<&[u8]> = Vec::with_capacity(scheme.data());
    for at in 0..per_chunk {
        sources.clear();
        sources.extend(data[at..].iter().step_by(per_chunk).map(|(block, _)| &block[..]));
        let part = at * BLOCK_BYTES..(at + 1) * BLOCK_BYTES;
        let targets = parity.iter_mut().map(|chunk| &mut chunk.as_mut()[part.clone()]);
        code.encode(&sources, &mut targets.collect::<Vec<_>>());
    }
    parity.into_iter().map(AlignedBuffer::freeze).collect()
}

/// The coded metadata of each block, chunk by chunk in the order of their roles: identities of data
/// blocks, and their parity.
fn encode_identities(
    code: &Code,
    scheme: Scheme,
    data: &[DataBlock],
    per_chunk: usize,
) -> Vec<Coded> {
    let mut coded = Vec::with_capacity(scheme.columns() * per_chunk);
    coded.extend(data.iter().map(|(_, identity)| identity.encode()));
    coded.resize(scheme.columns() * per_chunk, [0; CODED_BYTES]);
    let (identities, parity) = coded.split_at_mut(data.len());
    // Identities of the blocks of a chunk are contiguous, and so are encoded together.
    let length = per_chunk * CODED_BYTES;
    let sources: Vec<&[u8]> = identities.as_flattened().chunks_exact(length).collect();
    let mut targets: Vec<&mut [u8]> = parity.as_flattened_mut().chunks_exact_mut(length).collect();
    code.encode(&sources, &mut targets);
    coded
}

/// Orders chunks by column; data and parity are given by role, metadata by column.
fn payloads(
    scheme: Scheme,
    stripe: StripeIdentity,
    per_chunk: usize,
    data: Vec<DataBlock>,
    parity: Vec<Bytes>,
    oob: Vec<u8>,
) -> Vec<Payload> {
    let (oob, length) = (Bytes::from(oob), per_chunk * OOB_BYTES);
    let oob_of = |at: usize| oob.slice(at * length..(at + 1) * length);
    let blank = |at| Payload { data: Vec::new(), oob: oob_of(at) };
    let mut payloads: Vec<_> = (0..scheme.columns()).map(blank).collect();
    let at = |role| scheme.rank(scheme.column_of(Role::of(role), stripe.stripe));
    let mut data = data.into_iter().map(|(block, _)| block);
    for role in 0..scheme.data() {
        payloads[at(role)].data = data.by_ref().take(per_chunk).collect();
    }
    for (role, chunk) in (scheme.data()..).zip(parity) {
        payloads[at(role)].data = vec![chunk];
    }
    payloads
}

/// The metadata of a chunk's block.
#[must_use]
pub(in crate::log) fn oob_record(
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
        columns: stripe.columns.bits().into(),
        absent: scheme.absent(),
        block_in_chunk,
    }
}

fn data_entry(identity: &BlockIdentity, stripe_in_group: u16) -> IndexEntry {
    IndexEntry {
        sequence: identity.sequence,
        lba: identity.lba,
        kind: identity.kind.into(),
        stripe_in_group,
    }
}
