//! Reports to the byte, changed zones, and reads across zones.

use zoneweave_zoned::{
    BlockCount, ChangedZones, DESCRIPTOR_BYTES, Geometry, GeometryError, ReportOptions, Status,
    ZoneAction, ZoneAttributes, ZoneFilter, ZoneId, ZoneSet, ZoneState, ZrwaGeometry,
};

use super::{ZONE, at, drive, geometry};

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn descriptors_have_the_bytes_of_the_specification() {
    let table = [
        (ZoneState::Empty, 0x10, 16),
        (ZoneState::ImplicitlyOpen, 0x20, 20),
        (ZoneState::ExplicitlyOpen, 0x30, 20),
        (ZoneState::Closed, 0x40, 20),
        (ZoneState::ReadOnly, 0xD0, u64::MAX),
        (ZoneState::Full, 0xE0, u64::MAX),
        (ZoneState::Offline, 0xF0, u64::MAX),
    ];
    for (state, value, pointer) in table {
        let set = drive(state);
        let report = set.report(ZONE, 1, ReportOptions::default()).unwrap();
        let bytes = report.encode(set.geometry());
        assert_eq!(bytes.len(), 2 * DESCRIPTOR_BYTES);
        assert_eq!(long(&bytes, 0), 5, "zones 1 to 5 match");
        let zone = &bytes[64..];
        assert_eq!((zone[0], zone[1], zone[2]), (2, value, 0), "{state:?}");
        assert_eq!((long(zone, 8), long(zone, 16), long(zone, 24)), (12, 16, pointer));
        assert!(zone[32..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn filters_choose_and_partial_reports_count_what_they_list() {
    let mut set = drive(ZoneState::Closed);
    set.manage(ZoneId(3), ZoneAction::Finish).unwrap();
    let report = |filter, partial, first, count| {
        let options = ReportOptions { filter, partial, extended: false };
        let report = set.report(ZoneId(first), count, options).unwrap();
        let zones: Vec<_> = report.zones.iter().map(|info| info.zone.0).collect();
        (report.matching, zones)
    };
    assert_eq!(report(ZoneFilter::All, false, 0, 2), (6, vec![0, 1]));
    assert_eq!(report(ZoneFilter::All, true, 0, 2), (2, vec![0, 1]));
    assert_eq!(report(ZoneFilter::Empty, false, 1, 2), (3, vec![2, 4]));
    assert_eq!(report(ZoneFilter::Empty, true, 1, 9), (3, vec![2, 4, 5]));
    assert_eq!(report(ZoneFilter::Closed, false, 0, 9), (1, vec![1]));
    assert_eq!(report(ZoneFilter::Full, false, 4, 9), (0, vec![]));
    assert_eq!(report(ZoneFilter::Full, false, 0, 0), (1, vec![]));
    let all = ReportOptions::default();
    assert_eq!(set.report(ZoneId(6), 1, all), Err(Status::LbaOutOfRange));
    for (value, filter) in (0..8).zip(ZoneFilter::ALL) {
        assert_eq!(ZoneFilter::from_value(value), Some(filter));
        assert_eq!(filter as u8, value);
    }
    assert_eq!(ZoneFilter::from_value(8), None);
}

#[test]
fn extended_reports_carry_extensions_until_a_reset() {
    let mut set = drive(ZoneState::Empty);
    set.extend(ZONE, 64).unwrap();
    set.store_extension(ZONE, vec![7; 64].into());
    let options = ReportOptions { extended: true, ..ReportOptions::default() };
    let bytes = set.report(ZONE, 2, options).unwrap().encode(set.geometry());
    assert_eq!(bytes.len(), 64 + 2 * 128);
    assert_eq!((bytes[64 + 1], bytes[64 + 2]), (0x40, 0x80), "closed, with an extension");
    assert!(bytes[128..192].iter().all(|byte| *byte == 7));
    assert!(bytes[256..320].iter().all(|byte| *byte == 0), "the next zone has none");
    set.manage(ZONE, ZoneAction::Finish).unwrap();
    assert!(set.info(ZONE).attributes.contains(ZoneAttributes::EXTENDED));
    set.manage(ZONE, ZoneAction::Reset).unwrap();
    assert_eq!(set.info(ZONE).attributes, ZoneAttributes::NONE);
    assert_eq!(set.extension(ZONE), vec![0; 64]);
    let bare = Geometry { descriptor_extension_bytes: 0, ..geometry() };
    let bare = ZoneSet::new(bare).unwrap();
    assert_eq!(bare.report(ZONE, 1, options), Err(Status::InvalidField));
}

#[test]
fn zones_that_change_by_themselves_are_told_once() {
    let mut set = drive(ZoneState::ImplicitlyOpen);
    set.recommend_finish(ZONE);
    set.recommend_finish(ZoneId(0));
    assert_eq!(set.info(ZONE).attributes, ZoneAttributes::FINISH_RECOMMENDED);
    set.finish_by_drive(ZONE);
    assert_eq!(set.info(ZONE).attributes, ZoneAttributes::FINISHED_BY_DRIVE);
    set.recommend_reset(ZONE);
    set.set_read_only(ZoneId(3));
    set.set_offline(ZoneId(5));
    assert!(set.has_changed());
    let zones = vec![ZONE, ZoneId(3), ZoneId(5)];
    let changed = set.take_changed();
    assert_eq!(changed, ChangedZones { zones, overflow: false });
    let page = changed.encode(set.geometry());
    assert_eq!((page.len(), long(&page, 0)), (4096, 3));
    assert_eq!([8, 16, 24, 32].map(|at| long(&page, at)), [16, 48, 80, 0]);
    assert_eq!(set.take_changed(), ChangedZones::default());
    set.set_offline(ZoneId(5));
    set.manage(ZoneId(3), ZoneAction::Offline).unwrap();
    assert!(!set.has_changed(), "nothing new, and nothing by itself");
}

#[test]
fn more_changed_zones_than_the_list_holds_are_told_as_such() {
    let mut set = ZoneSet::new(Geometry::new(600, BlockCount(1))).unwrap();
    (0..512).for_each(|zone| set.set_read_only(ZoneId(zone)));
    let changed = set.take_changed();
    assert_eq!(changed, ChangedZones { zones: Vec::new(), overflow: true });
    assert_eq!(changed.encode(set.geometry())[..3], [0xFF, 0xFF, 0]);
}

#[test]
fn reads_cross_zones_where_the_drive_lets_them() {
    let across = Geometry { reads_across_zones: true, ..geometry() };
    let mut set = ZoneSet::new(across).unwrap();
    assert_eq!(set.read(at(1, 12), BlockCount(14)), Ok(()));
    assert_eq!(set.read(at(5, 12), BlockCount(5)), Err(Status::LbaOutOfRange));
    let parts: Vec<_> = set.parts(at(1, 12), BlockCount(14)).collect();
    assert_eq!(parts, [(at(1, 12), BlockCount(4)), (at(2, 0), BlockCount(10))]);
    set.set_offline(ZoneId(2));
    assert_eq!(set.read(at(1, 12), BlockCount(14)), Err(Status::ZoneOffline));
    assert_eq!(set.read(at(1, 12), BlockCount(4)), Ok(()));
    assert_eq!(drive(ZoneState::Empty).read(at(1, 12), BlockCount(5)), Err(Status::ZoneBoundary));
}

#[test]
fn impossible_capabilities_are_refused() {
    let extension = |bytes| Geometry { descriptor_extension_bytes: bytes, ..geometry() }.validate();
    assert_eq!(extension(65), Err(GeometryError::ExtensionBytes { bytes: 65 }));
    assert_eq!(extension(256 * 64), Err(GeometryError::ExtensionBytes { bytes: 256 * 64 }));
    assert_eq!(extension(255 * 64), Ok(()));
    let zrwa = |size, granularity, resources| {
        let (size, flush_granularity) = (BlockCount(size), BlockCount(granularity));
        let zrwa = Some(ZrwaGeometry { size, flush_granularity, resources });
        Geometry { zrwa, ..geometry() }.validate()
    };
    assert_eq!(zrwa(12, 3, 1), Ok(()));
    assert!(matches!(zrwa(0, 1, 1), Err(GeometryError::ZeroLimit { .. })));
    assert!(matches!(zrwa(4, 0, 1), Err(GeometryError::ZeroLimit { .. })));
    assert!(matches!(zrwa(4, 2, 0), Err(GeometryError::ZeroLimit { .. })));
    assert!(matches!(zrwa(4, 3, 1), Err(GeometryError::ZrwaGranularity { .. })));
    assert!(matches!(zrwa(5, 5, 1), Err(GeometryError::ZrwaGranularity { .. })));
}
