//! Golden images: this release writes byte for byte the same as the first version of the format,
//! and still reads that version's output. A difference means that the format changed: give it a new
//! version, keep reading the old one, and add files instead of changing these.
//!
//! `REGENERATE_GOLDEN=1 cargo test -p zoneweave-raid --test main golden::` writes the files anew;
//! use it for new structures only.

use std::path::PathBuf;
use std::rc::Rc;

use zoneweave_emulator::{Immediate, RamDrive};
use zoneweave_raid::inline::{FrameShape, InlineDrive};
use zoneweave_raid::log::format::checkpoint::{
    Address, AddressSpace, BlockLocation, CheckpointPointer, Coverage, DirectoryBlock, Listed,
    Mapped, MappingBlock, RootBlock, RootList, RootTotals, SegmentEntry, ShardId, ValidityBlock,
    mapping_entries,
};
use zoneweave_raid::log::format::{
    ArrayConfig, ArrayUuid, BlockIdentity, ContentKind, Death, EntryKind, Epoch, Generation,
    IndexBlock, IndexEntry, Lineage, LogConfig, MemberEntry, MemberState, MemberUuid,
    NarrowListRecord, Oob, Place, RecordBody, Remains, SealRecord, Seed, SegmentHeader, SegmentId,
    Sequence, StreamKind, SuperblockRecord, TombstoneBlock, TrimExtent, VolumeKind,
};
use zoneweave_raid::log::geometry::{ChunkBlock, SegmentGeometry};
use zoneweave_raid::log::{Faults, LostRange, MemberErrors, ScrubResult, ScrubRun, Scrubs};
use zoneweave_raid::scheme::{Arrangement, Column, ColumnSet, Role, Scheme, StripeId};
use zoneweave_raid::shards::Shard;
use zoneweave_runtime::{Executor, VirtualTime};
use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, Geometry, Lba, OOB_BYTES, OobKind, Payload, ZoneAddress, ZoneId,
    ZonedDeviceExt,
};

const ARRAY: ArrayUuid = ArrayUuid([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xA, 0xB, 0xC, 0xD, 0xE, 0xF]);

/// Compares the output with the file, and returns the file.
fn golden(name: &str, written: &[u8]) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = folder.join(format!("{name}.bin"));
    if std::env::var_os("REGENERATE_GOLDEN").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&path, written).unwrap();
    }
    let stored = std::fs::read(&path).unwrap();
    assert_eq!(stored.len(), written.len(), "{name} has another length");
    let differing = (0..stored.len()).find(|at| stored[*at] != written[*at]);
    assert_eq!(differing, None, "{name} differs from that byte on: the format changed");
    stored
}

/// Data that no accident produces: byte i is i * 7 + 3.
fn data() -> Vec<u8> {
    (0..=255_u8).cycle().take(BLOCK_BYTES).map(|at| at.wrapping_mul(7).wrapping_add(3)).collect()
}

fn record(record_sequence: u64, body: RecordBody) -> SuperblockRecord {
    let member = |slot: u8, state| MemberEntry {
        uuid: MemberUuid([0xB0 + slot; 16]),
        state,
        since_epoch: Epoch(u64::from(slot) + 1),
    };
    SuperblockRecord {
        config: ArrayConfig {
            array: ARRAY,
            name: "golden ☀".to_owned(),
            scheme: Scheme::new(3, 2).unwrap(),
            write_unit: BlockCount(1),
            zone_capacity: BlockCount(275_712),
            zones: 904,
            shard: Shard::WHOLE,
            volume: VolumeKind::Log(LogConfig {
                chunk_blocks: 4,
                group_rows: 64,
                tabled: true,
                volume_blocks: 600_000_000,
                entry_bytes: 5,
                writethrough: Some(false),
            }),
        },
        lineage: Lineage(0x1111_2222_3333_4444),
        epoch: Epoch(5),
        epoch_tag: 0x5555_6666_7777_8888,
        record_sequence,
        slot: Column(4),
        member: MemberUuid([0xB4; 16]),
        members: vec![
            member(0, MemberState::Online),
            member(1, MemberState::Failed),
            member(2, MemberState::Rebuilding),
            member(3, MemberState::Online),
            member(4, MemberState::Online),
        ],
        sequence_ceiling: Sequence(0x0102_0304_0506_0708),
        segment_ceiling: SegmentId(0x1112_1314),
        body,
    }
}

#[test]
fn superblock_records_keep_their_bytes() {
    let seal = SealRecord {
        segment: SegmentId(0x2122_2324_2526_2728),
        generation: Generation(0x3132_3334_3536_3738),
        rows: 640,
        valid: (0..64).map(|stripe| stripe % 5 < 2).collect(),
    };
    let next = SealRecord {
        segment: SegmentId(5),
        generation: Generation(6),
        rows: 7,
        valid: vec![true, false, true],
    };
    let bodies = [
        ("superblock-state", RecordBody::State),
        (
            "superblock-dead",
            RecordBody::Dead([1, 0x4142_4344_4546_4748, 3].map(Generation).to_vec()),
        ),
        ("superblock-seal", RecordBody::Seals(vec![seal.clone()])),
        ("superblock-snapshot-end", RecordBody::SnapshotEnd { records: 0x5152_5354 }),
        ("superblock-checkpoint", RecordBody::Checkpoint(pointer())),
    ];
    let remains = |zones: [Remains; 5]| zones.to_vec();
    let zone = |zone| Remains::In(ZoneId(zone));
    let deaths = [
        Death {
            generation: Generation(0x6162_6364_6566_6768),
            remains: remains([zone(0x7172_7374), zone(2), Remains::Nothing, zone(3), zone(903)]),
        },
        Death {
            generation: Generation(0x6162_6364_6566_6769),
            remains: remains([Remains::Nothing, Remains::Anywhere, zone(4), zone(5), zone(6)]),
        },
    ];
    let record_of_deaths = record(110, RecordBody::Deaths(deaths.to_vec()));
    let stored = golden("superblock-deaths", &record_of_deaths.encode());
    assert_eq!(SuperblockRecord::decode(&stored), Ok(record_of_deaths));
    for (sequence, (name, body)) in (100..).zip(bodies) {
        let record = record(sequence, body);
        let stored = golden(name, &record.encode());
        assert_eq!(SuperblockRecord::decode(&stored), Ok(record));
    }
    let mut of_a_shard = record(108, RecordBody::State);
    of_a_shard.config.shard = Shard::new(2, 5).unwrap();
    of_a_shard.config.array = of_a_shard.config.shard.array(ARRAY);
    let stored = golden("superblock-state-shard", &of_a_shard.encode());
    assert_eq!(SuperblockRecord::decode(&stored), Ok(of_a_shard));
    let record_of_two = record(107, RecordBody::Seals(vec![next, seal]));
    let stored = golden("superblock-seals", &record_of_two.encode());
    assert_eq!(SuperblockRecord::decode(&stored), Ok(record_of_two));
    let others =
        [("superblock-state-fixed", fixed_parity()), ("superblock-state-mirrored", mirrors())];
    for (sequence, (name, scheme)) in (105..).zip(others) {
        let mut record = record(sequence, RecordBody::State);
        record.config.scheme = scheme;
        record.members.resize(scheme.columns(), record.members[0]);
        let stored = golden(name, &record.encode());
        assert_eq!(SuperblockRecord::decode(&stored), Ok(record));
    }
}

#[test]
fn segment_headers_keep_their_bytes() {
    let scheme = Scheme::new(3, 2).unwrap();
    let header = SegmentHeader {
        segment: SegmentId(0x2122_2324_2526_2728),
        generation: Generation(0x3132_3334_3536_3738),
        epoch: Epoch(5),
        stream: StreamKind::Relocation,
        tabled: true,
        geometry: SegmentGeometry::new(scheme, BlockCount(275_712), 4, 64).unwrap(),
        zone_capacity: BlockCount(275_712),
        zones: vec![Some(ZoneId(7)), None, Some(ZoneId(0)), Some(ZoneId(903)), Some(ZoneId(12))],
    };
    let stored = golden("segment-header", &header.encode(ARRAY));
    assert_eq!(SegmentHeader::decode(&stored, ARRAY), Ok(header.clone()));
    let others = [("segment-header-fixed", fixed_parity()), ("segment-header-mirrored", mirrors())];
    for (name, scheme) in others {
        let geometry = SegmentGeometry::new(scheme, BlockCount(275_712), 4, 64).unwrap();
        let mut header = SegmentHeader { geometry, ..header.clone() };
        header.zones.resize(scheme.columns(), Some(ZoneId(99)));
        let stored = golden(name, &header.encode(ARRAY));
        assert_eq!(SegmentHeader::decode(&stored, ARRAY), Ok(header));
    }
    let scheme = scheme.on([0, 2, 4].into_iter().map(Column).collect()).unwrap();
    let geometry = SegmentGeometry::new(scheme, BlockCount(275_712), 4, 64).unwrap();
    let mut header = SegmentHeader { geometry, tabled: false, ..header };
    header.zones[3] = None;
    let stored = golden("segment-header-narrow", &header.encode(ARRAY));
    assert_eq!(SegmentHeader::decode(&stored, ARRAY), Ok(header.clone()));
    let next = SegmentHeader { generation: Generation(0x3132_3334_3536_3739), ..header.clone() };
    let list =
        NarrowListRecord { below: Generation(0x3232_3334_3536_3738), segments: vec![header, next] };
    let record = record(111, RecordBody::NarrowList(list));
    let stored = golden("superblock-roster", &record.encode());
    assert_eq!(SuperblockRecord::decode(&stored), Ok(record));
}

#[test]
fn records_of_faults_keep_their_bytes() {
    let errors = |read| MemberErrors {
        read,
        write: 0x1122,
        checksum: 0x3142_5364,
        repaired: 0x0102_0304_0506_0708,
        unrepairable: 7,
    };
    let range = |lba, blocks| LostRange { lba: Lba(lba), blocks };
    let faults = Faults {
        errors: (0..5).map(errors).collect(),
        lost: vec![range(0x0102_0304, 3), range(0x1112_1314, 0x1516)],
        joined: true,
    };
    let record = record(112, RecordBody::Faults(faults));
    let stored = golden("superblock-faults", &record.encode());
    assert_eq!(SuperblockRecord::decode(&stored), Ok(record));
}

#[test]
fn records_of_scrubs_keep_their_bytes() {
    let ended = |begun_s, result| ScrubRun {
        begun_s,
        ended_s: begun_s + 0x0102,
        blocks: 0x1112_1314_1516_1718,
        repaired: 0x2122_2324,
        lost: 0x3132,
        mismatches: 0x41,
        result,
    };
    let runs = vec![
        ended(0x6566_6768, ScrubResult::Complete),
        ended(0x6666_6768, ScrubResult::Incomplete),
        ended(0x6766_6768, ScrubResult::Failed),
        ScrubRun::begin(0x6866_6768),
    ];
    let record = record(113, RecordBody::Scrubs(Scrubs(runs)));
    let stored = golden("superblock-scrubs", &record.encode());
    assert_eq!(SuperblockRecord::decode(&stored), Ok(record));
}

#[test]
fn what_is_on_drives_without_metadata_keeps_its_bytes() {
    let unit = FrameShape::default().unit();
    let mut record = record(109, RecordBody::State);
    record.config.write_unit = unit;
    record.config.log_mut().chunk_blocks = 14;
    let stored = golden("superblock-state-inline", &record.encode());
    assert_eq!(SuperblockRecord::decode(&stored), Ok(record));
    let (scheme, capacity) = (Scheme::new(3, 2).unwrap(), BlockCount(241_248));
    let header = SegmentHeader {
        segment: SegmentId(0x2122_2324_2526_2728),
        generation: Generation(0x3132_3334_3536_3738),
        epoch: Epoch(5),
        stream: StreamKind::User,
        tabled: false,
        geometry: SegmentGeometry::in_units(scheme, unit, capacity, 14, 64).unwrap(),
        zone_capacity: capacity,
        zones: (0..5).map(|zone| Some(ZoneId(zone))).collect(),
    };
    let stored = golden("segment-header-inline", &header.encode(ARRAY));
    assert_eq!(SegmentHeader::decode(&stored, ARRAY), Ok(header));
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let geometry = Geometry { oob: OobKind::None, ..Geometry::new(4, BlockCount(64)) };
    let drive = RamDrive::new(geometry, Immediate).unwrap();
    let (handle, device) = (executor.handle(), drive.attach(&executor.handle()));
    let inline = InlineDrive::new(&handle, device, FrameShape::default()).unwrap();
    let oob: Vec<u8> = data().into_iter().take(9 * OOB_BYTES).collect();
    let payload = Payload::new(data().repeat(9).into(), oob.into());
    executor.run(inline.write(ZoneAddress::new(ZoneId(3), 0), payload, false)).unwrap();
    for (name, header) in [("frame-whole", 0), ("frame-filled-up", 8)] {
        let raw = drive.peek(ZoneAddress::new(ZoneId(3), header), BlockCount(8));
        golden(name, &raw.block(0));
        assert_eq!(raw.block(1), data(), "data follows the header");
    }
}

fn mirrors() -> Scheme {
    Scheme::arranged(Arrangement::Mirrored, 3, 3).unwrap()
}

fn fixed_parity() -> Scheme {
    Scheme::arranged(Arrangement::Fixed, 3, 2).unwrap()
}

#[test]
fn index_blocks_keep_their_bytes() {
    let kinds = [
        EntryKind::Empty,
        EntryKind::Data,
        EntryKind::Padding,
        EntryKind::Tombstone,
        EntryKind::Mapping,
        EntryKind::Lost,
        EntryKind::Parity,
    ];
    let entries = (0_u16..).zip(kinds).map(|(at, kind)| IndexEntry {
        sequence: Sequence(0x0102_0304_0506_0700 + u64::from(at)),
        lba: Lba(0xE1_E2E3_E4E5 + u64::from(at)),
        kind,
        stripe_in_group: 0x0A0B + at,
    });
    let block = IndexBlock {
        segment: SegmentId(0x2122_2324_2526_2728),
        generation: Generation(0x3132_3334_3536_3738),
        column: Column(3),
        span: 0x0C0D,
        first: 250 * 9,
        entries: entries.collect(),
    };
    let stored = golden("index", &block.encode(ARRAY));
    assert_eq!(IndexBlock::decode(&stored, ARRAY), Ok(block));
}

#[test]
fn tombstone_blocks_keep_their_bytes() {
    let sequence = Sequence(0x0708_090A_0B0C_0D0E);
    let extents = vec![
        TrimExtent { lba: Lba(0x0102_0304), blocks: 0x0506, sequence },
        TrimExtent { lba: Lba(0), blocks: 1, sequence: Sequence(2) },
    ];
    let block = TombstoneBlock { extents };
    let stored = golden("tombstones", &block.encode(ARRAY));
    assert_eq!(TombstoneBlock::decode(&stored, ARRAY, 600_000_000), Ok(block));
}

#[test]
fn metadata_of_every_place_keeps_its_bytes() {
    let (seed, data) = (Seed::of(ARRAY), data());
    let kind = ContentKind::Data;
    let (lba, sequence) = (Lba(0x0102_0304), Sequence(0x0506_0708_090A));
    let identity = BlockIdentity::new(seed, kind, lba, sequence, &data);
    let oob = |role, place, coded| Oob {
        coded,
        generation: Generation(0x3132_3334_3536_3738),
        stripe: StripeId(0x4142_4344),
        width: 5,
        column: Column(3),
        role: Role(role),
        place,
        columns: 0b1_1101,
        absent: ColumnSet::default(),
        block_in_chunk: 0x5152,
    };
    for (name, role) in [("oob-data", 2), ("oob-parity", 3)] {
        let oob = oob(role, Place::Chunk, identity.encode());
        let stored = golden(name, &oob.encode(seed, &data, role < 3));
        assert_eq!(Oob::verify_chunk(seed, &stored, &data, 3), Some(oob));
    }
    let places = [
        ("oob-header", Place::Header),
        ("oob-index", Place::Index),
        ("oob-superblock", Place::Superblock),
        ("oob-hole", Place::Hole),
        ("oob-filler", Place::Filler),
    ];
    for (name, place) in places {
        let oob = oob(0, place, [0; 24]);
        let stored = golden(name, &oob.encode(seed, &data, false));
        assert_eq!(Oob::verify_other(seed, &stored, &data, place), Some(oob));
    }
    let absent = ColumnSet::of_bits(0b0010_0010);
    let oob = Oob { absent, ..oob(2, Place::Chunk, identity.encode()) };
    let stored = golden("oob-narrow", &oob.encode(seed, &data, true));
    assert_eq!(Oob::verify_chunk(seed, &stored, &data, 3), Some(oob));
}

const SHARD: ShardId = ShardId { volume: 0x0102, shard: 0x0304 };
const COVERAGE: Coverage = Coverage {
    covered: Sequence(0x0102_0304_0506_0708),
    sequence: Sequence(0x1112_1314_1516_1718),
};

fn location() -> BlockLocation {
    BlockLocation {
        segment: SegmentId(0x2122_2324_2526_2728),
        generation: Generation(0x3132_3334_3536_3738),
        column: Column(4),
        block: ChunkBlock(0x0004_0506),
    }
}

fn pointer() -> CheckpointPointer {
    CheckpointPointer {
        shard: SHARD,
        number: Sequence(0x4142_4344),
        coverage: COVERAGE,
        replay_from: SegmentId(0x5152_5354),
        root: location(),
    }
}

fn space(entry_bytes: u8) -> AddressSpace {
    let mut config = record(0, RecordBody::State).config;
    // A last page of 73 entries.
    config.log_mut().volume_blocks = 960 * 1_000_000 + 73;
    let page_entries = mapping_entries(entry_bytes);
    AddressSpace { entry_bytes, page_entries, ..AddressSpace::of(&config) }
}

#[test]
fn mapping_blocks_keep_their_bytes() {
    let entry = |at: u32| match at % 5 {
        0 => Mapped::Nowhere,
        1 => Mapped::Trimmed(Address(0x0102_0304 + u64::from(at))),
        _ => Mapped::Block(Address(0x4142_4344 - u64::from(at) * 0x0001_0203)),
    };
    let page = |first, count| MappingBlock {
        shard: SHARD,
        first: Lba(first),
        coverage: COVERAGE,
        entries: (0..count).map(entry).collect(),
    };
    let pages = [
        ("mapping-4", 4, page(960 * 1000, 960)),
        ("mapping-5", 5, page(776 * 1000, 776)),
        ("mapping-8", 8, page(488 * 1000, 488)),
        ("mapping-last", 4, page(960 * 1_000_000, 73)),
    ];
    for (name, width, page) in pages {
        let stored = golden(name, &page.encode(&space(width)));
        assert_eq!(MappingBlock::decode(&stored, &space(width)), Ok(page));
    }
}

#[test]
fn validity_blocks_keep_their_bytes() {
    let space = space(4);
    let block = |first: u32| ValidityBlock {
        shard: SHARD,
        segment: SegmentId(0x2122_2324_2526_2728),
        generation: Generation(0x3132_3334_3536_3738),
        column: Column(3),
        first: ChunkBlock(first),
        coverage: COVERAGE,
        live: (first..space.column_blocks.min(first + 32_000)).map(|at| at % 7 < 3).collect(),
    };
    for (name, first) in [("validity", 64_000), ("validity-last", 256_000)] {
        let stored = golden(name, &block(first).encode(&space));
        assert_eq!(ValidityBlock::decode(&stored, &space), Ok(block(first)));
    }
}

#[test]
fn directory_blocks_keep_their_bytes() {
    let space = space(4);
    let entry =
        |at: u64| (!at.is_multiple_of(3)).then_some(Address(0x4142_4344 - at * 0x0001_0203));
    let directory = |listed, first, count| DirectoryBlock {
        shard: SHARD,
        listed,
        first,
        sequence: COVERAGE.sequence,
        entries: (0..count).map(entry).collect(),
    };
    let directories = [
        ("directory-mapping", directory(Listed::Mapping, 1500, 500)),
        ("directory-mapping-last", directory(Listed::Mapping, 1_000_000, 1)),
        ("directory-validity", directory(Listed::Validity, 500, 500)),
    ];
    for (name, directory) in directories {
        let stored = golden(name, &directory.encode(&space));
        assert_eq!(DirectoryBlock::decode(&stored, &space), Ok(directory));
    }
}

#[test]
fn checkpoint_roots_keep_their_bytes() {
    let space = space(4);
    let segment = |slot: u32| SegmentEntry {
        segment: SegmentId(0x2122_2324_2526_0000).plus(slot.into()),
        generation: Generation(0x3132_3334_3536_0000 + u64::from(slot)),
        live_blocks: 0x0001_0203,
        min_sequence: Sequence(0x0142_4344_4546_4748),
        slot,
        replay: slot % 2 == 1,
    };
    let addresses = |listed, count: u64| {
        RootList::Directories(listed, (0..count).map(|at| Some(Address(at * 0x0203))).collect())
    };
    let root = |part, next, first, list| RootBlock {
        shard: SHARD,
        number: Sequence(0x4142_4344),
        coverage: COVERAGE,
        replay_from: SegmentId(0x5152_5354),
        totals: RootTotals {
            segments: 130,
            mapping_directories: 2001,
            validity_directories: 82,
            mapped_blocks: 0x0102_0304,
        },
        part,
        next,
        first,
        list,
    };
    let parts = [
        (
            "root-segments",
            root(0, Some(location()), 0, RootList::Segments((7..105).map(segment).collect())),
        ),
        ("root-mapping", root(3, Some(location()), 494, addresses(Listed::Mapping, 494))),
        ("root-validity", root(7, None, 0, addresses(Listed::Validity, 82))),
    ];
    for (name, part) in parts {
        let stored = golden(name, &part.encode(&space));
        assert_eq!(RootBlock::decode(&stored, &space), Ok(part));
    }
}
