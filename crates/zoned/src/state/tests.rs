//! Restart from records, and the effects of a power failure. The rest of the semantics is tested
//! from outside, in `tests/semantics`.

use super::*;
use crate::ZoneAction;
use ZoneState::{Closed, Empty, Full, ImplicitlyOpen};

const ZONE: ZoneId = ZoneId(1);

fn geometry() -> Geometry {
    Geometry {
        zone_size: BlockCount(16),
        max_open: Some(2),
        max_active: Some(3),
        append_limit: BlockCount(8),
        max_transfer: BlockCount(12),
        ..Geometry::new(6, BlockCount(10))
    }
}

fn at(zone: u32, offset: u32) -> ZoneAddress {
    ZoneAddress::new(ZoneId(zone), offset)
}

/// A start from records forgot that the drive itself had finished a zone: setting the state of the
/// imported zone cleared the attribute, as a finish by the host does.
#[test]
fn a_zone_finished_by_the_drive_stays_so_across_a_restart() {
    let mut set = ZoneSet::new(geometry()).unwrap();
    set.write(at(1, 0), BlockCount(3)).unwrap();
    set.finish_by_drive(ZONE);
    let records: Vec<_> = set.export().collect();
    let again = ZoneSet::import(geometry(), &records).unwrap();
    assert_eq!(again.record(ZONE), set.record(ZONE));
    assert!(again.info(ZONE).attributes.contains(ZoneAttributes::FINISHED_BY_DRIVE));
}

#[test]
fn a_restart_closes_open_zones_and_forgets_unwritten_ones() {
    let mut set = ZoneSet::new(geometry()).unwrap();
    set.write(at(0, 0), BlockCount(3)).unwrap();
    set.manage(ZoneId(1), ZoneAction::Open).unwrap();
    set.manage(ZoneId(1), ZoneAction::Close).unwrap();
    set.manage(ZoneId(2), ZoneAction::Open).unwrap();
    let records: Vec<_> = set.export().collect();
    let again = ZoneSet::import(geometry(), &records).unwrap();
    set.restart();
    for set in [set, again] {
        let states: Vec<_> = set.export().map(|record| record.state).take(3).collect();
        assert_eq!(states, [Closed, Empty, Empty]);
        assert_eq!((set.open_zones(), set.active_zones()), (0, 1));
    }
}

#[test]
fn impossible_records_are_refused() {
    let with = |zone: usize, state, pointer| {
        let mut records = vec![ZoneRecord::NEW; 6];
        records[zone] =
            ZoneRecord { state, write_pointer: ZoneOffset(pointer), resets: 0, ..ZoneRecord::NEW };
        ZoneSet::import(geometry(), &records).map(|_| ())
    };
    assert_eq!(with(3, Full, 10), Ok(()));
    assert_eq!(with(3, Full, 0), Ok(()));
    for (state, pointer) in [(Empty, 1), (Closed, 10), (ImplicitlyOpen, 10), (Full, 11)] {
        let error = ImportError::WritePointer {
            zone: ZoneId(3),
            state,
            write_pointer: ZoneOffset(pointer),
            capacity: BlockCount(10),
        };
        assert_eq!(with(3, state, pointer), Err(error));
    }
    let closed =
        ZoneRecord { state: Closed, write_pointer: ZoneOffset(1), resets: 0, ..ZoneRecord::NEW };
    let found = ZoneSet::import(geometry(), &[closed; 6]).map(|_| ());
    assert_eq!(found, Err(ImportError::TooManyActive { found: 6, limit: 3 }));
    let found = ZoneSet::import(geometry(), &[closed; 5]).map(|_| ());
    assert_eq!(found, Err(ImportError::WrongCount { found: 5, expected: 6 }));
}

#[test]
fn lost_tails_reopen_filled_zones_but_not_finished_ones() {
    let mut set = ZoneSet::new(geometry()).unwrap();
    set.write(at(ZONE.0, 0), BlockCount(4)).unwrap();
    set.manage(ZONE, ZoneAction::Finish).unwrap();
    set.write(at(2, 0), BlockCount(10)).unwrap();
    set.truncate(ZONE, ZoneOffset(1)).unwrap();
    assert_eq!(set.record(ZONE).state, Full);
    set.truncate(ZoneId(2), ZoneOffset(9)).unwrap();
    assert_eq!(set.record(ZoneId(2)).state, Closed);
    set.truncate(ZoneId(2), ZoneOffset(0)).unwrap();
    assert_eq!(set.record(ZoneId(2)).state, Empty);
    set.write(at(2, 0), BlockCount(10)).unwrap();
    for zone in 3..6 {
        set.write(at(zone, 0), BlockCount(1)).unwrap();
    }
    set.restart();
    assert_eq!(set.truncate(ZoneId(2), ZoneOffset(9)), Err(Status::TooManyActive));
    assert_eq!(set.record(ZoneId(2)).write_pointer, ZoneOffset(10));
}

#[test]
fn impossible_attributes_are_refused() {
    let with = |state, attributes| {
        let record = ZoneRecord { state, attributes, ..ZoneRecord::NEW };
        let extended = Geometry { descriptor_extension_bytes: 64, zones: 1, ..geometry() };
        ZoneSet::import(extended, &[record]).map(|set| set.record(ZoneId(0)))
    };
    let extended = with(Closed, ZoneAttributes::EXTENDED).unwrap();
    assert_eq!((extended.state, extended.attributes), (Closed, ZoneAttributes::EXTENDED));
    let impossible = [
        (Empty, ZoneAttributes::EXTENDED),
        (Closed, ZoneAttributes::FINISHED_BY_DRIVE),
        (Full, ZoneAttributes::FINISH_RECOMMENDED),
        (Closed, ZoneAttributes::RANDOM_WRITES),
    ];
    for (state, attributes) in impossible {
        let error = ImportError::Attributes { zone: ZoneId(0), state, attributes };
        assert_eq!(with(state, attributes), Err(error));
    }
}

/// A drive that had asked for the finish of a zone in which nothing was written kept that wish when
/// it started again with the zone empty, and its own records were refused at the next start.
#[test]
fn zones_that_start_again_empty_have_no_attributes() {
    let attributes = ZoneAttributes::FINISH_RECOMMENDED.with(ZoneAttributes::RESET_RECOMMENDED);
    let mut records = [ZoneRecord::NEW; 6];
    records[3] = ZoneRecord { state: ZoneState::ExplicitlyOpen, attributes, ..ZoneRecord::NEW };
    let set = ZoneSet::import(geometry(), &records).unwrap();
    assert_eq!(set.record(ZoneId(3)), ZoneRecord::NEW);
    let again: Vec<_> = set.export().collect();
    assert!(ZoneSet::import(geometry(), &again).is_ok());
}
