//! Version 2: wear and unreadable blocks.

use super::*;
use crate::media_format::{DEFECTS_MAX, Defect, PresetName};
use crate::{BlockMapping, EraseMode, Wear, WearError, WearSettings, WornZone, ZoneWear};

fn settings() -> WearSettings {
    WearSettings {
        abreast: 2,
        endurance_cycles: Some(3000),
        reset: EraseMode::Partial,
        mapping: BlockMapping::Circular,
        finish_programs: true,
        worn: WornZone::Offline,
        ..WearSettings::new(6)
    }
}

fn extended(wear: Option<WearSettings>) -> DriveLayout {
    let extension = Extension { wear, preset: None };
    DriveLayout::extended(layout().geometry().clone(), UUID, extension).unwrap()
}

fn worn() -> ZoneWear {
    ZoneWear {
        origin: ZoneOffset(0x0B0A),
        lost_end: ZoneOffset(0x0D),
        erase_counts: vec![1, 2, 3, 4, 5, 0x0100],
    }
}

#[test]
fn golden_bytes_of_the_extension() {
    let layout = extended(Some(settings()));
    assert_eq!(hex(&layout.header()[8..12]), "02000000");
    assert_eq!(hex(&layout.header()[64..84]), "0600000002000000b80b00000f00000000000000");
    let (position, bytes) = layout.encode_wear(ZoneId(2), &worn()).unwrap();
    assert_eq!(position, 20480 + 4096 + 2 * 64);
    assert_eq!(
        hex(&bytes),
        "30313233343536373839616263646566020000000a0b00000d00000000000000\
         01000000020000000300000004000000050000000001000000000000ebb8c1dd"
    );
    let defect = Defect { at: ZoneAddress::new(ZoneId(3), 9), resets: 7 << 32 };
    let bytes = layout.encode_defects(&[defect]);
    assert_eq!(
        hex(&bytes[..32]),
        "0100000000000000000000000000000003000000090000000000000007000000"
    );
    assert_eq!(hex(&bytes[4088..]), "00000000fd4308c4");
}

#[test]
fn the_extension_lies_between_records_and_zones() {
    let layout = extended(Some(settings()));
    assert_eq!(layout.defects(), Some(20480..24576));
    assert_eq!(layout.wear_table(), 24576..32768, "100 records of 64 bytes are two blocks");
    assert_eq!(layout.zone(ZoneId(0)).start, 32768);
    let bare = extended(None);
    assert_eq!((bare.wear_table(), bare.zone(ZoneId(0)).start), (24576..24576, 24576));
    assert_eq!(super::layout().defects(), None);
    for layout in [layout, bare] {
        assert_eq!(DriveLayout::parse(&layout.header(), layout.file_bytes()), Ok(layout));
    }
}

fn records(layout: &DriveLayout, resets: u64) -> Vec<StoredRecord> {
    let record = ZoneRecord { resets, ..ZoneRecord::NEW };
    let stored = StoredRecord { sequence: resets, record, alone: false };
    vec![stored; layout.geometry().zones as usize]
}

fn decoded(layout: &DriveLayout, table: &[u8], resets: u64) -> Wear {
    layout.decode_wear(table, &records(layout, resets)).unwrap().unwrap()
}

#[test]
fn wear_survives_and_a_damaged_record_becomes_the_worst() {
    let layout = extended(Some(settings()));
    let mut table = vec![0; 8192];
    let (_, bytes) = layout.encode_wear(ZoneId(2), &worn()).unwrap();
    table[128..192].copy_from_slice(&bytes);
    let capacity = layout.geometry().zone_capacity.0;
    let found = decoded(&layout, &table, 400);
    let expected = ZoneWear { origin: ZoneOffset(0x0B0A % capacity), ..worn() };
    assert_eq!(found.zone(ZoneId(2)), &expected);
    assert_eq!(found.zone(ZoneId(1)).erase_counts, [0; 6]);
    table[150] ^= 1;
    let worst = decoded(&layout, &table, 400);
    assert_eq!(worst.zone(ZoneId(2)).erase_counts, [400; 6]);
    let worst = decoded(&layout, &table, 4_000_000);
    assert_eq!(worst.zone(ZoneId(2)).erase_counts, [3000; 6], "no more than the endurance");
    let short = layout.decode_wear(&table[..128], &records(&layout, 0)).unwrap_err();
    assert_eq!(short, FormatError::Truncated { found: 128, needed: 192 });
}

#[test]
fn unreadable_blocks_are_forgotten_with_a_reset_of_their_zone() {
    let layout = extended(None);
    let at = |zone| ZoneAddress::new(ZoneId(zone), 5);
    let defects = [Defect { at: at(1), resets: 4 }, Defect { at: at(2), resets: 3 }];
    let stray = Defect { at: at(100), resets: 4 };
    let bytes = layout.encode_defects(&[defects[0], defects[1], stray]);
    let found = layout.decode_defects(&bytes, &records(&layout, 4)).unwrap();
    assert_eq!(found, [defects[0]]);
    assert_eq!(layout.decode_defects(&[0; 4096], &records(&layout, 4)).unwrap(), []);
    for at in [0, 2, 7, 20, 300, 4093] {
        let mut bytes = bytes;
        bytes[at] ^= 0x80;
        let found = layout.decode_defects(&bytes, &records(&layout, 4));
        assert_eq!(found, Err(FormatError::DefectsDamaged), "byte {at}");
    }
    let full = vec![defects[0]; DEFECTS_MAX];
    let bytes = layout.encode_defects(&full);
    assert_eq!(layout.decode_defects(&bytes, &records(&layout, 4)).unwrap(), full);
}

#[test]
fn impossible_extensions_are_refused() {
    let geometry = layout().geometry().clone();
    let build = |wear, geometry: &Geometry| {
        let extension = Extension { wear: Some(wear), preset: None };
        DriveLayout::extended(geometry.clone(), UUID, extension).unwrap_err()
    };
    let error = WearError::EraseBlocks { erase_blocks: 78, capacity: BlockCount(77) };
    assert_eq!(build(WearSettings::new(78), &geometry), FormatError::Wear(error));
    let large = Geometry::new(1 << 20, BlockCount(77));
    let found = 77 << 20;
    let error = build(WearSettings::new(77), &large);
    assert_eq!(error, FormatError::TooManyEraseBlocks { found });
    let mut header = extended(Some(settings())).header();
    header[76] = 16;
    let checksum = crc32c::crc32c(&header[..4092]);
    header[4092..].copy_from_slice(&checksum.to_le_bytes());
    let error = DriveLayout::parse(&header, u64::MAX).unwrap_err();
    assert_eq!(error, FormatError::Field { field: "wear flags", value: 16 });
}

#[test]
fn the_name_of_a_preset_is_kept_and_checked() {
    let name = PresetName::new("zn540-1tb").unwrap();
    assert_eq!(name.as_str(), "zn540-1tb");
    let extension = Extension { wear: None, preset: Some(name.clone()) };
    let layout = DriveLayout::extended(layout().geometry().clone(), UUID, extension).unwrap();
    let header = layout.header();
    assert_eq!(hex(&header[64..88]), "0".repeat(48));
    assert_eq!(hex(&header[88..104]), "7a6e3534302d31746200000000000000");
    let parsed = DriveLayout::parse(&header, layout.file_bytes()).unwrap();
    assert_eq!(parsed.preset(), Some(&name));
    assert_eq!(parsed, layout);
    for name in ["", "Femu", "a b", "a/b", "a\0b", &"a".repeat(33)] {
        let refused = FormatError::PresetName { name: name.to_owned() };
        assert_eq!(PresetName::new(name), Err(refused));
    }
    assert!(PresetName::new(&"a".repeat(32)).is_ok());
    for (at, byte) in [(88, b'Z'), (90, 0), (92, 0xFF), (119, b'!')] {
        let mut header = header;
        header[at] = byte;
        let checksum = crc32c::crc32c(&header[..4092]);
        header[4092..].copy_from_slice(&checksum.to_le_bytes());
        let refused = DriveLayout::parse(&header, layout.file_bytes()).unwrap_err();
        assert!(matches!(refused, FormatError::PresetName { .. }), "byte {at}: {refused}");
    }
}

#[test]
fn every_preset_can_be_remembered() {
    for name in crate::preset::names() {
        assert_eq!(PresetName::new(name).unwrap().as_str(), name);
    }
}

proptest! {
    #[test]
    fn hostile_extensions_never_panic(fields in prop::collection::vec(
        prop_oneof![0_u32..80, any::<u32>()], 4,
    )) {
        let mut header = extended(None).header();
        for (place, field) in header[64..80].chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&header[..4092]);
        header[4092..].copy_from_slice(&checksum.to_le_bytes());
        if let Ok(layout) = DriveLayout::parse(&header, u64::MAX) {
            prop_assert_eq!(layout.header(), header);
        }
    }
}
