//! The format byte by byte, and the handling of damaged or hostile files.

use proptest::prelude::*;
use zoneweave_zoned::{GeometryError, ZoneOffset, ZoneState};

use super::*;

mod extension;

const UUID: [u8; 16] = *b"0123456789abcdef";

fn layout() -> DriveLayout {
    let geometry = Geometry { max_active: None, ..Geometry::new(100, BlockCount(77)) };
    DriveLayout::new(geometry, UUID).unwrap()
}

fn record() -> ZoneRecord {
    ZoneRecord {
        state: ZoneState::Closed,
        write_pointer: ZoneOffset(0x0102),
        resets: 7 << 32,
        ..ZoneRecord::NEW
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn golden_bytes() {
    let header = layout().header();
    assert_eq!(
        hex(&header[..64]),
        "5a574452495645310100000030313233343536373839616263646566640000008000\
         00004d000000010000000e000000ffffffff200000000001000000000000"
    );
    assert!(header[64..4092].iter().all(|byte| *byte == 0));
    assert_eq!(hex(&header[4092..]), "eb37cf45");
    assert_eq!(
        hex(&layout().encode_record(ZoneId(3), 5, record())),
        "303132333435363738396162636465660500000000000000000000000700000003000000\
         0201000004000000000000000000000000000000000000009011e8eb"
    );
}

#[test]
fn places_are_aligned_and_disjoint() {
    let layout = layout();
    let zone_bytes = 77 * 4096 + 2 * 4096;
    assert_eq!(layout.table(0), 4096..12288, "6,400 bytes of records are two blocks");
    assert_eq!(layout.table(1), 12288..20480);
    assert_eq!(layout.record_position(ZoneId(2), 8), 4096 + 128);
    assert_eq!(layout.record_position(ZoneId(2), 9), 12288 + 128);
    assert_eq!(layout.zone(ZoneId(1)), 20480 + zone_bytes..20480 + 2 * zone_bytes);
    let last = ZoneAddress::new(ZoneId(99), 76);
    assert_eq!(layout.data_position(last), 20480 + 99 * zone_bytes + 76 * 4096);
    let metadata = 20480 + 99 * zone_bytes + 77 * 4096 + 76 * 64;
    assert_eq!(layout.oob_position(last), Some(metadata));
    assert_eq!(layout.file_bytes(), 20480 + 100 * zone_bytes);
    let bare = Geometry { oob: OobKind::None, ..Geometry::new(1, BlockCount(1)) };
    let bare = DriveLayout::new(bare, UUID).unwrap();
    assert_eq!(bare.oob_position(ZoneAddress::default()), None);
    assert_eq!(bare.file_bytes(), 4 * 4096);
}

#[test]
fn headers_survive_the_round_trip() {
    for oob in [OobKind::None, OobKind::Separate, OobKind::Interleaved] {
        for volatile_cache in [false, true] {
            let geometry = Geometry { oob, volatile_cache, ..Geometry::new(9, BlockCount(3)) };
            let layout = DriveLayout::new(geometry, UUID).unwrap();
            let parsed = DriveLayout::parse(&layout.header(), layout.file_bytes());
            assert_eq!(parsed, Ok(layout));
        }
    }
}

#[test]
fn damaged_headers_are_refused() {
    let layout = layout();
    let all = layout.file_bytes();
    let parse = |change: fn(&mut [u8]), sign: bool| {
        let mut header = layout.header();
        change(&mut header);
        if sign {
            let checksum = crc32c::crc32c(&header[..4092]);
            header[4092..].copy_from_slice(&checksum.to_le_bytes());
        }
        DriveLayout::parse(&header, all).unwrap_err()
    };
    let header = layout.header();
    let short = FormatError::Truncated { found: 4095, needed: 4096 };
    assert_eq!(DriveLayout::parse(&header[..4095], 4095), Err(short));
    let cut = FormatError::Truncated { found: all - 1, needed: all };
    assert_eq!(DriveLayout::parse(&header, all - 1), Err(cut));
    assert_eq!(parse(|header| header[0] ^= 1, true), FormatError::NotADrive);
    assert_eq!(parse(|header| header[8] = 3, false), FormatError::Version { found: 3 });
    assert_eq!(parse(|header| header[8] = 0, false), FormatError::Version { found: 0 });
    assert!(matches!(parse(|header| header[30] ^= 1, false), FormatError::HeaderChecksum { .. }));
    let field = FormatError::Field { field: "metadata", value: 3 };
    assert_eq!(parse(|header| header[40] = 3, true), field);
    let field = FormatError::Field { field: "volatile cache", value: 2 };
    assert_eq!(parse(|header| header[60] = 2, true), field);
    let field = FormatError::Field { field: "reserved", value: 9 };
    assert_eq!(parse(|header| header[100] = 9, true), field);
    let geometry = FormatError::Geometry(GeometryError::Empty);
    assert_eq!(parse(|header| header[28..32].fill(0), true), geometry);
    let capacity = BlockCount(77);
    let large = FormatError::TooLarge { zones: u32::MAX, capacity };
    assert_eq!(parse(|header| header[28..32].fill(0xFF), true), large);
    let capacity = BlockCount(u32::MAX);
    let huge = Geometry { zone_size: capacity, zone_capacity: capacity, ..layout.geometry };
    let huge = Geometry { zones: ZONES_MAX, ..huge };
    let large = FormatError::TooLarge { zones: ZONES_MAX, capacity };
    assert_eq!(DriveLayout::new(huge, UUID), Err(large));
}

/// Both tables of a drive as written by the given updates of zone 3.
fn tables(layout: &DriveLayout, updates: &[(u64, ZoneRecord)]) -> [Vec<u8>; 2] {
    let mut tables = [layout.initial_records(), vec![0; 100 * RECORD_BYTES]];
    for (sequence, record) in updates {
        let table = usize::from(sequence % 2 == 1);
        let bytes = layout.encode_record(ZoneId(3), *sequence, *record);
        tables[table][3 * RECORD_BYTES..4 * RECORD_BYTES].copy_from_slice(&bytes);
    }
    tables
}

fn found(layout: &DriveLayout, [even, odd]: &[Vec<u8>; 2]) -> Result<StoredRecord, FormatError> {
    layout.decode_records([even, odd]).map(|records| records[3])
}

#[test]
fn a_torn_update_leaves_the_record_before_it() {
    let layout = layout();
    let mut tables = tables(&layout, &[(1, record()), (2, ZoneRecord::NEW)]);
    let stored = |sequence, record, alone| Ok(StoredRecord { sequence, record, alone });
    assert_eq!(found(&layout, &tables), stored(2, ZoneRecord::NEW, false));
    tables[0][3 * RECORD_BYTES + 20] ^= 1;
    assert_eq!(found(&layout, &tables), stored(1, record(), true));
    tables[1][3 * RECORD_BYTES + 63] ^= 1;
    let damaged = FormatError::RecordDamaged { zone: ZoneId(3) };
    assert_eq!(found(&layout, &tables), Err(damaged));
}

#[test]
fn a_torn_first_update_leaves_the_zone_new() {
    let layout = layout();
    let mut tables = tables(&layout, &[(1, record())]);
    tables[1][3 * RECORD_BYTES..][..32].fill(0);
    let expected = StoredRecord { sequence: 0, record: ZoneRecord::NEW, alone: true };
    assert_eq!(found(&layout, &tables), Ok(expected));
    tables[1].fill(0);
    let expected = StoredRecord { alone: false, ..expected };
    assert_eq!(found(&layout, &tables), Ok(expected));
    tables[0].fill(0);
    assert_eq!(found(&layout, &tables), Err(FormatError::RecordDamaged { zone: ZoneId(0) }));
}

#[test]
fn numbers_that_cannot_be_counted_on_are_hostile() {
    let layout = layout();
    let worn = ZoneRecord { resets: u64::MAX, ..record() };
    for updates in [(u64::MAX, record()), (u64::MAX - 1, record()), (1, worn)] {
        let found = found(&layout, &tables(&layout, &[updates]));
        let intact = found.is_ok_and(|stored| stored.record == updates.1);
        assert!(!intact, "{updates:?}");
    }
}

#[test]
fn records_of_other_places_and_drives_are_no_records() {
    let layout = layout();
    let other = DriveLayout::new(layout.geometry().clone(), [1; 16]).unwrap();
    let foreign = other.initial_records();
    let unused = vec![0; foreign.len()];
    let damaged = Err(FormatError::RecordDamaged { zone: ZoneId(0) });
    assert_eq!(layout.decode_records([&foreign, &unused]), damaged);
    let mine = layout.initial_records();
    assert_eq!(layout.decode_records([&unused, &mine]), damaged, "in the wrong table");
    assert_eq!(layout.decode_records([&mine[RECORD_BYTES..], &unused]).unwrap_err(), {
        let needed = 100 * RECORD_BYTES as u64;
        FormatError::Truncated { found: needed - RECORD_BYTES as u64, needed }
    });
}

proptest! {
    #[test]
    fn hostile_headers_never_panic(
        fields in prop::collection::vec(prop_oneof![0_u32..5, any::<u32>()], 9),
        file_bytes: u64,
    ) {
        let mut header = layout().header();
        for (place, field) in header[28..64].chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&header[..4092]);
        header[4092..].copy_from_slice(&checksum.to_le_bytes());
        if let Ok(layout) = DriveLayout::parse(&header, file_bytes) {
            prop_assert!(layout.file_bytes() <= file_bytes);
            prop_assert_eq!(layout.header(), header);
        }
    }

    #[test]
    fn no_damage_goes_unnoticed(at in 0..RECORD_BYTES, flip in 1_u8..) {
        let layout = layout();
        let mut tables = tables(&layout, &[(1, record())]);
        tables[1][3 * RECORD_BYTES + at] ^= flip;
        prop_assert_eq!(found(&layout, &tables).unwrap().record, ZoneRecord::NEW);
    }
}
