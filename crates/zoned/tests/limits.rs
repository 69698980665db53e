//! Limits of open and active zones, implicit closing, and commands to all zones.

use zoneweave_zoned::{BlockCount, Status, ZoneAction, ZoneId, ZoneSet, ZoneState};

use super::{at, geometry};

fn states(set: &ZoneSet) -> Vec<ZoneState> {
    set.export().map(|record| record.state).collect()
}

/// Zones 0 to 5 in six states, without limits in the way: implicitly open, explicitly open, closed,
/// full, read-only, empty.
fn one_of_each() -> ZoneSet {
    let geometry = zoneweave_zoned::Geometry { max_open: Some(3), max_active: None, ..geometry() };
    let mut set = ZoneSet::new(geometry).unwrap();
    for zone in [1, 2, 4, 0] {
        set.write(at(zone, 0), BlockCount(1)).unwrap();
        match zone {
            1 => set.manage(ZoneId(1), ZoneAction::Open).unwrap(),
            2 => set.manage(ZoneId(2), ZoneAction::Close).unwrap(),
            4 => set.set_read_only(ZoneId(4)),
            _ => {}
        }
    }
    set.manage(ZoneId(3), ZoneAction::Finish).unwrap();
    set
}

#[test]
fn the_oldest_implicitly_opened_zone_makes_room() {
    let mut set = ZoneSet::new(geometry()).unwrap();
    set.append(ZoneId(0), BlockCount(1)).unwrap();
    set.append(ZoneId(1), BlockCount(1)).unwrap();
    set.append(ZoneId(0), BlockCount(1)).unwrap();
    set.append(ZoneId(2), BlockCount(1)).unwrap();
    assert_eq!(set.record(ZoneId(0)).state, ZoneState::Closed, "opened first, written last");
    assert_eq!((set.open_zones(), set.active_zones()), (2, 3));
    assert_eq!(set.append(ZoneId(3), BlockCount(1)), Err(Status::TooManyActive));
    assert_eq!(set.extend(ZoneId(3), 64), Err(Status::TooManyActive));
    set.manage(ZoneId(1), ZoneAction::Open).unwrap();
    set.manage(ZoneId(2), ZoneAction::Open).unwrap();
    assert_eq!(set.append(ZoneId(0), BlockCount(1)), Err(Status::TooManyOpen));
    assert_eq!(set.manage(ZoneId(0), ZoneAction::Open), Err(Status::TooManyOpen));
    assert!(!set.has_changed(), "that was all by commands");
}

#[test]
fn commands_to_all_zones_are_for_some_states_only() {
    use ZoneState::{Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen, Offline, ReadOnly};
    let table: [(ZoneAction, [ZoneState; 6]); 5] = [
        (ZoneAction::Open, [ImplicitlyOpen, ExplicitlyOpen, ExplicitlyOpen, Full, ReadOnly, Empty]),
        (ZoneAction::Close, [Closed, Closed, Closed, Full, ReadOnly, Empty]),
        (ZoneAction::Finish, [Full, Full, Full, Full, ReadOnly, Empty]),
        (ZoneAction::Reset, [Empty, Empty, Empty, Empty, ReadOnly, Empty]),
        (ZoneAction::Offline, [ImplicitlyOpen, ExplicitlyOpen, Closed, Full, Offline, Empty]),
    ];
    for (action, expected) in table {
        let mut set = one_of_each();
        let before = states(&set);
        let changed = set.manage_all(action).unwrap();
        assert_eq!(states(&set), expected, "{action:?} of all");
        for zone in (0..6).map(ZoneId) {
            let moved = before[zone.index()] != expected[zone.index()];
            assert!(!moved || changed.contains(&zone), "{action:?} changed {zone}");
        }
    }
    let mut set = one_of_each();
    assert_eq!(set.manage_all(ZoneAction::OpenWithZrwa), Err(Status::InvalidField));
    assert_eq!(set.manage_all(super::flush_to(1)), Err(Status::InvalidField));
}

#[test]
fn all_closed_zones_are_opened_or_none() {
    let mut set = ZoneSet::new(geometry()).unwrap();
    for zone in 0..3 {
        set.append(ZoneId(zone), BlockCount(1)).unwrap();
    }
    // Zone 0 was closed for zone 2; now zone 1 makes room for it.
    set.manage_all(ZoneAction::Open).unwrap();
    use ZoneState::{Closed, Empty, ExplicitlyOpen, ImplicitlyOpen};
    let expected = [ExplicitlyOpen, Closed, ImplicitlyOpen, Empty, Empty, Empty];
    assert_eq!(states(&set), expected);
    set.manage(ZoneId(2), ZoneAction::Open).unwrap();
    let before = states(&set);
    assert_eq!(set.manage_all(ZoneAction::Open), Err(Status::TooManyOpen));
    assert_eq!(states(&set), before);
}

#[test]
fn a_shutdown_closes_open_zones_and_empties_unwritten_ones() {
    let mut set = ZoneSet::new(geometry()).unwrap();
    set.manage(ZoneId(0), ZoneAction::Open).unwrap();
    set.extend(ZoneId(1), 64).unwrap();
    set.append(ZoneId(2), BlockCount(1)).unwrap();
    set.restart();
    use ZoneState::{Closed, Empty};
    assert_eq!(states(&set), [Empty, Closed, Closed, Empty, Empty, Empty]);
    assert_eq!((set.open_zones(), set.active_zones()), (0, 2));
}
