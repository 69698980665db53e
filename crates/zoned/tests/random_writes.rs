//! Random write areas. Zones have 12 blocks, areas 4, and the write pointer goes in steps of 2.

use zoneweave_zoned::{BlockCount, Geometry, Status, ZoneAction, ZoneId, ZoneOffset, ZoneSet};
use zoneweave_zoned::{ZoneAttributes, ZoneState};

use super::{ZONE, at, drive_with_area, flush_to, geometry};

fn write(set: &mut ZoneSet, offset: u32, blocks: u32) -> Result<(), Status> {
    set.write(at(ZONE.0, offset), BlockCount(blocks))
}

fn pointer(set: &ZoneSet) -> u32 {
    set.record(ZONE).write_pointer.0
}

/// One sign a block: written or not.
fn map(set: &ZoneSet) -> String {
    let sign = |offset| if set.is_written(at(ZONE.0, offset)) { 'x' } else { '.' };
    (0..12).map(sign).collect()
}

#[test]
fn blocks_of_an_area_are_written_in_any_order_and_again() {
    let mut set = drive_with_area(0);
    write(&mut set, 2, 1).unwrap();
    write(&mut set, 0, 1).unwrap();
    write(&mut set, 2, 2).unwrap();
    assert_eq!((pointer(&set), map(&set).as_str()), (0, "x.xx........"));
    assert_eq!(set.written_of(at(1, 0), BlockCount(8)), BlockCount(4));
    assert!(set.info(ZONE).attributes.contains(ZoneAttributes::RANDOM_WRITES));
}

#[test]
fn a_write_behind_the_area_moves_the_pointer_in_steps() {
    let mut set = drive_with_area(0);
    write(&mut set, 1, 1).unwrap();
    write(&mut set, 4, 1).unwrap();
    assert_eq!((pointer(&set), map(&set).as_str()), (2, ".x..x......."), "one block: one step");
    write(&mut set, 7, 2).unwrap();
    assert_eq!((pointer(&set), map(&set).as_str()), (6, ".x..x..xx..."), "three: two steps");
    write(&mut set, 6, 6).unwrap();
    assert_eq!((pointer(&set), map(&set).as_str()), (8, ".x..x.xxxxxx"));
    assert_eq!(set.record(ZONE).state, ZoneState::ExplicitlyOpen, "the area is still open");
}

#[test]
fn writes_outside_of_twice_the_area_are_refused_in_order() {
    let mut set = drive_with_area(2);
    assert_eq!(write(&mut set, 1, 14), Err(Status::ZoneInvalidWrite), "below the pointer");
    assert_eq!(write(&mut set, 4, 7), Err(Status::ZoneInvalidWrite), "too far ahead");
    assert_eq!(write(&mut set, 2, 8), Ok(()));
    assert_eq!(pointer(&set), 6);
    assert_eq!(write(&mut set, 6, 8), Err(Status::ZoneBoundary), "past the capacity");
    assert_eq!(write(&mut set, 6, 9), Err(Status::ZoneInvalidWrite), "that comes first");
}

#[test]
fn the_host_moves_the_pointer() {
    let mut set = drive_with_area(2);
    let flush = |set: &mut ZoneSet, last| set.manage(ZONE, flush_to(last));
    write(&mut set, 4, 1).unwrap();
    assert_eq!(flush(&mut set, 1), Err(Status::ZoneBoundary), "behind the pointer");
    assert_eq!(flush(&mut set, 6), Err(Status::ZoneBoundary), "ahead of the area");
    assert_eq!(flush(&mut set, 2), Err(Status::InvalidField), "half a step");
    assert_eq!(flush(&mut set, 5), Ok(()));
    assert_eq!((pointer(&set), map(&set).as_str()), (6, "xx..x......."));
    set.manage(ZONE, ZoneAction::Close).unwrap();
    assert_eq!(flush(&mut set, 9), Ok(()));
    assert_eq!(set.record(ZONE).state, ZoneState::ImplicitlyOpen, "a flush opens");
    assert_eq!(flush(&mut set, 12), Err(Status::ZoneBoundary), "past the capacity");
    assert_eq!(flush(&mut set, 11), Ok(()));
    assert_eq!(set.record(ZONE).state, ZoneState::Full);
    assert_eq!((set.random_write_areas(), set.active_zones()), (0, 0));
    let mut without = ZoneSet::new(Geometry { zrwa: None, ..geometry() }).unwrap();
    assert_eq!(flush(&mut without, 1), Err(Status::InvalidZoneOperation));
}

#[test]
fn areas_run_out_and_come_back() {
    let take = |set: &mut ZoneSet, zone| set.manage(ZoneId(zone), ZoneAction::OpenWithZrwa);
    type Give = fn(&mut ZoneSet);
    let give: [(&str, Give); 4] = [
        ("finish", |set| set.manage(ZoneId(0), ZoneAction::Finish).unwrap()),
        ("reset", |set| set.manage(ZoneId(0), ZoneAction::Reset).unwrap()),
        ("read-only", |set| set.set_read_only(ZoneId(0))),
        ("offline", |set| set.set_offline(ZoneId(0))),
    ];
    for (name, give) in give {
        let mut set = ZoneSet::new(geometry()).unwrap();
        take(&mut set, 0).unwrap();
        take(&mut set, 0).unwrap();
        assert_eq!(set.random_write_areas(), 1, "a zone takes one");
        set.manage(ZoneId(0), ZoneAction::Close).unwrap();
        take(&mut set, 1).unwrap();
        assert_eq!(take(&mut set, 2), Err(Status::ZrwaUnavailable));
        assert_eq!(set.record(ZoneId(2)).state, ZoneState::Empty);
        give(&mut set);
        assert_eq!(set.random_write_areas(), 1, "{name} gives it back");
        assert_eq!(take(&mut set, 2), Ok(()));
    }
    let mut set = ZoneSet::new(geometry()).unwrap();
    set.write(at(0, 0), BlockCount(1)).unwrap();
    assert_eq!(take(&mut set, 0), Err(Status::InvalidField), "between two steps");
}

#[test]
fn a_finish_commits_what_is_written() {
    let mut set = drive_with_area(0);
    write(&mut set, 2, 1).unwrap();
    set.manage(ZONE, ZoneAction::Finish).unwrap();
    assert_eq!((pointer(&set), map(&set).as_str()), (3, "..x........."));
}

#[test]
fn a_shutdown_keeps_areas_that_are_written() {
    let mut set = drive_with_area(0);
    set.manage(ZoneId(0), ZoneAction::OpenWithZrwa).unwrap();
    write(&mut set, 3, 1).unwrap();
    set.restart();
    assert_eq!(set.record(ZoneId(0)).state, ZoneState::Empty);
    assert_eq!(set.record(ZONE).state, ZoneState::Closed);
    assert_eq!((set.random_write_areas(), map(&set).as_str()), (1, "...x........"));
    assert_eq!(write(&mut set, 0, 1), Ok(()));
    set.lose_ahead(at(1, 3));
    assert_eq!(set.written_ahead(ZONE).collect::<Vec<_>>(), [ZoneOffset(0)]);
}

#[test]
fn unwritten_blocks_are_zeros_or_an_error() {
    let strict = Geometry { unwritten_read_error: true, ..geometry() };
    let mut set = ZoneSet::new(strict).unwrap();
    set.manage(ZONE, ZoneAction::OpenWithZrwa).unwrap();
    write(&mut set, 0, 1).unwrap();
    write(&mut set, 2, 1).unwrap();
    assert_eq!(set.read(at(1, 0), BlockCount(1)), Ok(()));
    assert_eq!(set.read(at(1, 2), BlockCount(1)), Ok(()));
    assert_eq!(set.read(at(1, 0), BlockCount(3)), Err(Status::Deallocated));
    assert_eq!(set.read(at(1, 12), BlockCount(1)), Err(Status::Deallocated));
    assert_eq!(set.read(at(1, 12), BlockCount(5)), Err(Status::ZoneBoundary));
}
