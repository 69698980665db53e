//! Fuzz target bodies of the decoders, here so that libFuzzer, the stable driver and unit tests
//! run the same code.
//!
//! Each takes arbitrary bytes and panics if an invariant breaks:
//! * no input panics a decoder;
//! * everything that decodes can be encoded, and decodes again to the same value.
//!
//! A correct checksum is hard to hit by chance, so each input is tried twice: as it is, and with a
//! correct envelope for its body.

use std::fmt::Debug;

use zoneweave_zoned::{BLOCK_BYTES, BlockCount, Lba, OOB_BYTES, ZoneId};

use super::{
    ArrayConfig, ArrayUuid, BlockIdentity, BlockType, CODED_BYTES, ContentKind, Death, EntryKind,
    Envelope, FormatError, IndexBlock, IndexEntry, LogConfig, MemberEntry, MemberState, MemberUuid,
    NarrowListRecord, Oob, Place, RecordBody, Remains, SealRecord, Seed, SegmentHeader, StreamKind,
    SuperblockRecord, TombstoneBlock, TrimExtent, VolumeKind,
};
use crate::array::format::errors::MemberErrors;
use crate::array::format::faults::{Faults, LostRange};
use crate::array::format::numbers::{Epoch, Generation, Lineage, SegmentId, Sequence};
use crate::array::format::scrubs::{ScrubRun, Scrubs};
use crate::log::engine::geometry::SegmentGeometry;
use crate::scheme::{Arrangement, Column, ColumnSet, Role, Scheme, StripeId};
use crate::shards::Shard;

mod checkpoint;

pub use checkpoint::{checkpoint, checkpoint_seeds};

const ARRAY: ArrayUuid = ArrayUuid([0x5C; 16]);

/// Decodes superblock records.
pub fn superblock(input: &[u8]) {
    try_block(input, BlockType::Superblock, |block, _| {
        stable(block, SuperblockRecord::decode, |record| record.encode().to_vec());
    });
}

/// Decodes segment headers.
pub fn header(input: &[u8]) {
    try_block(input, BlockType::SegmentHeader, |block, array| {
        let decode = |block: &[u8]| SegmentHeader::decode(block, array);
        stable(block, decode, |header| header.encode(array).to_vec());
    });
}

/// Decodes index blocks.
pub fn index(input: &[u8]) {
    try_block(input, BlockType::Index, |block, array| {
        let decode = |block: &[u8]| IndexBlock::decode(block, array);
        stable(block, decode, |index| index.encode(array).to_vec());
    });
}

/// Decodes tombstone blocks of a volume of 2^40 blocks.
pub fn tombstone(input: &[u8]) {
    try_block(input, BlockType::Tombstone, |block, array| {
        let decode = |block: &[u8]| TombstoneBlock::decode(block, array, 1 << 40);
        stable(block, decode, |tombstones| tombstones.encode(array).to_vec());
    });
}

/// Verifies out-of-band metadata: 64 bytes of it, then the block's data.
pub fn oob(input: &[u8]) {
    let (oob, data) = input.split_at(input.len().min(OOB_BYTES));
    let seed = Seed::of(ARRAY);
    for data_chunks in [0, 1, 31] {
        // Any answer is correct; only a panic is a bug.
        let _ = Oob::verify_chunk(seed, oob, data, data_chunks);
    }
    for place in PLACES {
        let _ = Oob::verify_other(seed, oob, data, place);
    }
    let Some(oob) = oob.first_chunk::<OOB_BYTES>() else { return };
    let block = whole_block(data);
    for place in PLACES {
        resealed_oob(seed, oob, place, &block);
    }
}

const PLACES: [Place; 6] =
    [Place::Header, Place::Chunk, Place::Index, Place::Superblock, Place::Hole, Place::Filler];

/// Builds a valid record from the input's fields; it must verify, and must not with any other byte
/// changed.
fn resealed_oob(seed: Seed, input: &[u8; OOB_BYTES], place: Place, block: &[u8]) {
    let data_chunks = usize::from(input[60] % 32);
    let role = Role(input[38]);
    let is_data = place == Place::Chunk && role.index() < data_chunks;
    let mut coded = [0; CODED_BYTES];
    coded.copy_from_slice(&input[..CODED_BYTES]);
    if is_data {
        let mut word = [0; 8];
        word.copy_from_slice(&input[..8]);
        let kind = ContentKind::of(u32::from(input[20] % 5) + 1).expect("1 to 5 are kinds");
        let lba = Lba(u64::from_le_bytes(word));
        let identity = BlockIdentity::new(seed, kind, lba, Sequence(9), block);
        assert!(identity.verifies(seed, block));
        coded = identity.encode();
        assert_eq!(BlockIdentity::decode(&coded), Some(identity));
    }
    // The encoder takes no block on a column that its segment is not on, nor data beyond the width.
    let column = Column(input[37] % 32);
    let absent = u32::from(input[59]) << 24 | u32::from(input[56]);
    let oob = Oob {
        coded,
        generation: Generation(u64::from(input[24]) << 56 | u64::from(input[31])),
        stripe: StripeId(u32::from(input[32]) << 24),
        width: if is_data { input[36].max(role.0 + 1) } else { input[36] },
        column,
        role,
        place,
        columns: u64::from(input[44]) << 56 | u64::from(input[45]),
        absent: ColumnSet::of_bits(absent & !(1 << column.0)),
        block_in_chunk: u16::from(input[52]) << 8 | u16::from(input[53]),
    };
    let mut bytes = oob.encode(seed, block, is_data);
    let verify = |bytes: &[u8]| match place {
        Place::Chunk => Oob::verify_chunk(seed, bytes, block, data_chunks),
        place => Oob::verify_other(seed, bytes, block, place),
    };
    assert_eq!(verify(&bytes), Some(oob));
    let spoilt = usize::from(input[61]) % OOB_BYTES;
    bytes[spoilt] ^= input[62] | 1;
    assert_eq!(verify(&bytes), None, "byte {spoilt} does not matter");
}

/// Tries the input as it is and with a corrected envelope.
fn try_block(input: &[u8], block_type: BlockType, attempt: impl Fn(&[u8], ArrayUuid)) {
    attempt(input, ARRAY);
    let mut block = whole_block(input);
    let mut length = [0; 4];
    length.copy_from_slice(&block[12..16]);
    let most = BLOCK_BYTES - Envelope::BYTES;
    let body_bytes =
        (u32::from_le_bytes(length) as usize).saturating_sub(Envelope::BYTES).min(most);
    Envelope::seal(&mut block, block_type, ARRAY, body_bytes);
    attempt(&block, ARRAY);
}

/// The input as a block, truncated or padded with zeros.
fn whole_block(input: &[u8]) -> Vec<u8> {
    let mut block = input[..input.len().min(BLOCK_BYTES)].to_vec();
    block.resize(BLOCK_BYTES, 0);
    block
}

/// Asserts that a decoded value encodes and decodes again to the same value.
fn stable<T: Debug + PartialEq>(
    block: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, FormatError>,
    encode: impl Fn(&T) -> Vec<u8>,
) {
    let Ok(value) = decode(block) else { return };
    let again = encode(&value);
    assert_eq!(decode(&again).as_ref(), Ok(&value), "encoding changes what is decoded");
    let third = decode(&again).map(|value| encode(&value));
    assert_eq!(third, Ok(again), "encoding is not one to one");
}

/// A record of every body kind.
#[must_use]
pub fn superblock_seeds() -> Vec<Vec<u8>> {
    let seal = SealRecord {
        segment: SegmentId(3),
        generation: Generation(4),
        rows: 8,
        valid: vec![true, false, true],
    };
    let (segment, generation) = (SegmentId(5), Generation(6));
    let next = SealRecord { segment, generation, rows: 0, valid: Vec::new() };
    let dead = (0..RecordBody::MAX_DEAD as u64).map(Generation).collect();
    let remains = [Remains::Nothing, Remains::In(ZoneId(7)), Remains::Anywhere];
    let remains: Vec<_> = remains.into_iter().cycle().take(scheme().columns()).collect();
    let death = |generation| Death { generation, remains: remains.clone() };
    let deaths = (0..RecordBody::deaths_most(remains.len()) as u64).map(Generation);
    let deaths = deaths.map(death).collect();
    let end = RecordBody::SnapshotEnd { records: 2 };
    let list = NarrowListRecord { below: Generation(7), segments: vec![narrow_header()] };
    let bodies = [
        RecordBody::State,
        RecordBody::Dead(dead),
        RecordBody::Seals(vec![seal.clone()]),
        RecordBody::Seals(vec![seal, next]),
        end,
        RecordBody::Checkpoint(checkpoint::pointer()),
        RecordBody::Deaths(deaths),
        RecordBody::NarrowList(list),
        RecordBody::Faults(faults()),
        RecordBody::Scrubs(Scrubs(vec![ScrubRun::begin(3)])),
        RecordBody::Destroyed,
    ];
    let mut fixed = record(RecordBody::State);
    fixed.config.scheme = fixed_parity();
    let mut mirrored = record(RecordBody::State);
    mirrored.config.scheme = mirrors();
    mirrored.members.push(mirrored.members[1]);
    bodies
        .map(record)
        .iter()
        .chain([&fixed, &mirrored])
        .map(|record| record.encode().to_vec())
        .collect()
}

fn faults() -> Faults {
    let errors = MemberErrors { read: 1, write: 2, checksum: 3, repaired: 4, unrepairable: 5 };
    let lost = [(3, 4), (9, 1)].map(|(lba, blocks)| LostRange { lba: Lba(lba), blocks });
    Faults { errors: vec![errors; scheme().columns()], lost: lost.to_vec(), joined: true }
}

fn record(body: RecordBody) -> SuperblockRecord {
    let member = |slot, state| MemberEntry {
        uuid: MemberUuid([slot; 16]),
        state,
        since_epoch: Epoch::FIRST,
    };
    SuperblockRecord {
        config: ArrayConfig {
            array: ARRAY,
            name: "fuzzed".to_owned(),
            scheme: scheme(),
            write_unit: BlockCount(1),
            zone_capacity: BlockCount(256),
            zones: 32,
            shard: Shard::WHOLE,
            volume: VolumeKind::Log(LogConfig {
                chunk_blocks: 2,
                group_rows: 8,
                tabled: true,
                volume_blocks: 10_000,
                entry_bytes: 4,
                writethrough: Some(true),
            }),
        },
        lineage: Lineage(1),
        epoch: Epoch(2),
        epoch_tag: 3,
        record_sequence: 4,
        slot: Column(1),
        member: MemberUuid([1; 16]),
        members: vec![
            member(0, MemberState::Failed),
            member(1, MemberState::Online),
            member(2, MemberState::Rebuilding),
        ],
        sequence_ceiling: Sequence(1 << 20),
        segment_ceiling: SegmentId(64),
        body,
    }
}

fn scheme() -> Scheme {
    Scheme::new(2, 1).expect("2+1 is a scheme")
}

fn fixed_parity() -> Scheme {
    Scheme::arranged(Arrangement::Fixed, 2, 1).expect("2+1 is a scheme")
}

fn mirrors() -> Scheme {
    Scheme::arranged(Arrangement::Mirrored, 2, 2).expect("2+2 is a scheme")
}

/// Segment headers of every arrangement.
///
/// # Panics
/// If the fixed geometry were too small for a row.
#[must_use]
pub fn header_seeds() -> Vec<Vec<u8>> {
    let headers = [scheme(), fixed_parity(), mirrors()].map(header_of);
    headers.iter().chain([&narrow_header()]).map(|header| header.encode(ARRAY).to_vec()).collect()
}

fn narrow_header() -> SegmentHeader {
    let columns = [Column(0), Column(2)].into_iter().collect();
    header_of(scheme().on(columns).expect("two of three columns"))
}

fn header_of(scheme: Scheme) -> SegmentHeader {
    let geometry = SegmentGeometry::new(scheme, BlockCount(256), 2, 8);
    SegmentHeader {
        segment: SegmentId(5),
        generation: Generation(6),
        epoch: Epoch(7),
        stream: StreamKind::User,
        tabled: true,
        geometry: geometry.expect("256 blocks hold a row"),
        zone_capacity: BlockCount(256),
        zones: [Some(1), None, Some(31), None][..scheme.width()]
            .iter()
            .map(|zone| zone.map(ZoneId))
            .collect(),
    }
}

/// A summary block with an entry of every kind.
#[must_use]
pub fn index_seeds() -> Vec<Vec<u8>> {
    let kinds = [
        EntryKind::Empty,
        EntryKind::Data,
        EntryKind::Padding,
        EntryKind::Tombstone,
        EntryKind::Mapping,
        EntryKind::Lost,
        EntryKind::Parity,
    ];
    let entries = kinds.map(|kind| IndexEntry {
        sequence: Sequence(77),
        lba: Lba((1 << 40) - 1),
        kind,
        stripe_in_group: 3,
    });
    let block = IndexBlock {
        segment: SegmentId(5),
        generation: Generation(6),
        column: Column(2),
        span: 0,
        first: 0,
        entries: entries.to_vec(),
    };
    vec![block.encode(ARRAY).to_vec()]
}

/// A tombstone block with two extents.
#[must_use]
pub fn tombstone_seeds() -> Vec<Vec<u8>> {
    let extents = vec![
        TrimExtent { lba: Lba(0), blocks: 1 << 40, sequence: Sequence(1) },
        TrimExtent { lba: Lba(99), blocks: 1, sequence: Sequence((1 << 62) - 1) },
    ];
    vec![TombstoneBlock { extents }.encode(ARRAY).to_vec()]
}

/// Metadata of a data block, with the block.
#[must_use]
pub fn oob_seeds() -> Vec<Vec<u8>> {
    let (seed, block) = (Seed::of(ARRAY), [0x3C; BLOCK_BYTES]);
    let identity = BlockIdentity::new(seed, ContentKind::Data, Lba(8), Sequence(9), &block);
    let oob = Oob {
        coded: identity.encode(),
        generation: Generation(6),
        stripe: StripeId(4),
        width: 3,
        column: Column(1),
        role: Role(0),
        place: Place::Chunk,
        columns: 0b111,
        absent: ColumnSet::default(),
        block_in_chunk: 2,
    };
    let mut bytes = oob.encode(seed, &block, true).to_vec();
    bytes.extend(block);
    vec![bytes]
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::array::format::record::{SuperblockRecord as RecordOf, VolumeBody};

    type Target = (fn(&[u8]), fn() -> Vec<Vec<u8>>);

    const TARGETS: [Target; 6] = [
        (superblock, superblock_seeds),
        (header, header_seeds),
        (index, index_seeds),
        (tombstone, tombstone_seeds),
        (checkpoint, checkpoint_seeds),
        (oob, oob_seeds),
    ];

    /// What a later build records, and decides nothing.
    #[derive(Clone, Debug, PartialEq)]
    struct Later;

    impl VolumeBody for Later {
        const KIND: u8 = RecordBody::KIND;
        const STATE: Self = Self;
        const DESTROYED: Self = Self;

        fn snapshot_end(_records: u32) -> Self {
            Self
        }

        fn snapshot_records(&self) -> Option<u32> {
            None
        }

        fn kind(&self) -> u8 {
            200
        }

        fn encode(&self) -> Vec<u8> {
            vec![1, 2, 3]
        }

        fn decode(_kind: u8, _bytes: &[u8], _config: &ArrayConfig) -> Result<Self, FormatError> {
            Ok(Self)
        }

        fn check_config(_config: &ArrayConfig) -> Result<(), FormatError> {
            Ok(())
        }

        fn metadata(array: ArrayUuid, sequence: u64, slot: Column, block: &[u8]) -> Bytes {
            RecordBody::metadata(array, sequence, slot, block)
        }

        fn is_metadata(array: ArrayUuid, metadata: &[u8], block: &[u8]) -> bool {
            RecordBody::is_metadata(array, metadata, block)
        }

        fn is_of_volume(first: &[u8]) -> bool {
            RecordBody::is_of_volume(first)
        }

        fn of_faults(_: Faults) -> Self {
            Self
        }

        fn faults(&self) -> Option<&Faults> {
            None
        }

        fn of_scrubs(_: Scrubs) -> Self {
            Self
        }

        fn scrubs(&self) -> Option<&Scrubs> {
            None
        }
    }

    /// To a build that did not know them, records of faults and scrubs were damage.
    #[test]
    fn a_report_of_a_later_build_counts_as_a_state() {
        let state = record(RecordBody::State);
        let known = state.clone();
        let later = RecordOf {
            config: known.config,
            lineage: known.lineage,
            epoch: known.epoch,
            epoch_tag: known.epoch_tag,
            record_sequence: known.record_sequence,
            slot: known.slot,
            member: known.member,
            members: known.members,
            sequence_ceiling: known.sequence_ceiling,
            segment_ceiling: known.segment_ceiling,
            body: Later,
        };
        assert_eq!(SuperblockRecord::decode(&later.encode()), Ok(state));
    }

    #[test]
    fn seeds_decode() {
        assert!(superblock_seeds().iter().all(|seed| SuperblockRecord::decode(seed).is_ok()));
        assert!(header_seeds().iter().all(|seed| SegmentHeader::decode(seed, ARRAY).is_ok()));
        assert!(index_seeds().iter().all(|seed| IndexBlock::decode(seed, ARRAY).is_ok()));
        let tombstones = |seed: &Vec<u8>| TombstoneBlock::decode(seed, ARRAY, 1 << 40).is_ok();
        assert!(tombstone_seeds().iter().all(tombstones));
        let seed = &oob_seeds()[0];
        assert!(Oob::verify_chunk(Seed::of(ARRAY), &seed[..64], &seed[64..], 2).is_some());
        TARGETS.iter().for_each(|(target, seeds)| seeds().iter().for_each(|seed| target(seed)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn spoilt_seeds_break_nothing(
            target in 0_usize..6,
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
        ) {
            let (body, seeds) = TARGETS[target];
            for mut input in seeds() {
                for (at, value) in &edits {
                    // Most fields are near the start.
                    let near = if value % 2 == 0 { input.len() } else { input.len().min(260) };
                    input[at.index(near)] = *value;
                }
                if let Some(cut) = cut {
                    input.truncate(cut.index(input.len()));
                }
                body(&input);
            }
        }
    }
}
