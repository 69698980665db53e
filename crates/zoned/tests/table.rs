//! Every cell of the table of operations and states, with the exact status, and which status comes
//! first where several things are wrong.

use zoneweave_zoned::{BlockCount, Status, ZoneAction, ZoneId, ZoneOffset, ZoneSet, ZoneState};

use super::{ZONE, at, drive, drive_with_area, flush_to};

/// Carries an operation out on zone 1.
type Operation = fn(&mut ZoneSet) -> Result<(), Status>;

/// The state of the zone afterwards, or what the drive answers.
type Cell = Result<ZoneState, Status>;

const STATES: [ZoneState; 7] = [
    ZoneState::Empty,
    ZoneState::ImplicitlyOpen,
    ZoneState::ExplicitlyOpen,
    ZoneState::Closed,
    ZoneState::Full,
    ZoneState::ReadOnly,
    ZoneState::Offline,
];

const ZSE: Cell = Ok(ZoneState::Empty);
const ZSIO: Cell = Ok(ZoneState::ImplicitlyOpen);
const ZSEO: Cell = Ok(ZoneState::ExplicitlyOpen);
const ZSC: Cell = Ok(ZoneState::Closed);
const ZSF: Cell = Ok(ZoneState::Full);
const ZSRO: Cell = Ok(ZoneState::ReadOnly);
const ZSO: Cell = Ok(ZoneState::Offline);
const S002: Cell = Err(Status::InvalidField);
const S1B9: Cell = Err(Status::ZoneFull);
const S1BA: Cell = Err(Status::ZoneReadOnly);
const S1BB: Cell = Err(Status::ZoneOffline);
const S1BF: Cell = Err(Status::InvalidTransition);

#[rustfmt::skip]
const TABLE: [(&str, Operation, [Cell; 7]); 11] = [
    //                               ZSE   ZSIO  ZSEO  ZSC   ZSF   ZSRO  ZSO
    ("write", write,                [ZSIO, ZSIO, ZSEO, ZSIO, S1B9, S1BA, S1BB]),
    ("append", append,              [ZSIO, ZSIO, ZSEO, ZSIO, S1B9, S1BA, S1BB]),
    ("open", open,                  [ZSEO, ZSEO, ZSEO, ZSEO, S1BF, S1BF, S1BF]),
    ("close", close,                [S1BF, ZSC,  ZSC,  ZSC,  S1BF, S1BF, S1BF]),
    ("finish", finish,              [ZSF,  ZSF,  ZSF,  ZSF,  ZSF,  S1BF, S1BF]),
    ("reset", reset,                [ZSE,  ZSE,  ZSE,  ZSE,  ZSE,  S1BF, S1BF]),
    ("offline", offline,            [S1BF, S1BF, S1BF, S1BF, S1BF, ZSO,  ZSO]),
    ("set extension", extend,       [ZSC,  S1BF, S1BF, S1BF, S1BF, S1BF, S1BF]),
    ("open with area", open_area,   [ZSEO, ZSEO, ZSEO, ZSEO, S1BF, S1BF, S1BF]),
    ("flush without area", flush,   [S002, S002, S002, S002, S002, S002, S002]),
    ("read", read,                  [ZSE,  ZSIO, ZSEO, ZSC,  ZSF,  ZSRO, S1BB]),
];

fn write(set: &mut ZoneSet) -> Result<(), Status> {
    let pointer = set.record(ZONE).write_pointer.0;
    set.write(at(1, pointer), BlockCount(1))
}

fn append(set: &mut ZoneSet) -> Result<(), Status> {
    set.append(ZONE, BlockCount(1)).map(|_| ())
}

fn open(set: &mut ZoneSet) -> Result<(), Status> {
    set.manage(ZONE, ZoneAction::Open)
}

fn close(set: &mut ZoneSet) -> Result<(), Status> {
    set.manage(ZONE, ZoneAction::Close)
}

fn finish(set: &mut ZoneSet) -> Result<(), Status> {
    set.manage(ZONE, ZoneAction::Finish)
}

fn reset(set: &mut ZoneSet) -> Result<(), Status> {
    set.manage(ZONE, ZoneAction::Reset)
}

fn offline(set: &mut ZoneSet) -> Result<(), Status> {
    set.manage(ZONE, ZoneAction::Offline)
}

fn extend(set: &mut ZoneSet) -> Result<(), Status> {
    set.extend(ZONE, 64)
}

fn open_area(set: &mut ZoneSet) -> Result<(), Status> {
    set.manage(ZONE, ZoneAction::OpenWithZrwa)
}

fn flush(set: &mut ZoneSet) -> Result<(), Status> {
    set.manage(ZONE, flush_to(5))
}

fn read(set: &mut ZoneSet) -> Result<(), Status> {
    set.read(at(1, 0), BlockCount(8))
}

#[test]
fn every_operation_in_every_state() {
    for (name, operation, cells) in TABLE {
        for (state, expected) in STATES.into_iter().zip(cells) {
            let mut set = drive(state);
            let before = set.record(ZONE);
            let found = operation(&mut set).map(|()| set.record(ZONE).state);
            assert_eq!(found, expected, "{name} of a zone that is {state:?}");
            if expected.is_err() {
                assert_eq!(set.record(ZONE), before, "{name} failed, nothing changed");
            }
        }
    }
}

#[test]
fn every_operation_on_a_zone_that_is_not_there() {
    let nowhere = ZoneId(6);
    let mut set = drive(ZoneState::Empty);
    let actions = [
        ZoneAction::Close,
        ZoneAction::Finish,
        ZoneAction::Open,
        ZoneAction::Reset,
        ZoneAction::Offline,
        ZoneAction::OpenWithZrwa,
        flush_to(1),
    ];
    for action in actions {
        assert_eq!(set.manage(nowhere, action), Err(Status::LbaOutOfRange), "{action:?}");
    }
    assert_eq!(set.extend(nowhere, 64), Err(Status::LbaOutOfRange));
    assert_eq!(set.append(nowhere, BlockCount(1)), Err(Status::LbaOutOfRange));
    assert_eq!(set.write(at(6, 0), BlockCount(1)), Err(Status::LbaOutOfRange));
    assert_eq!(set.read(at(6, 0), BlockCount(1)), Err(Status::LbaOutOfRange));
}

#[test]
fn write_checks_come_in_the_specified_order() {
    let write =
        |set: &mut ZoneSet, zone, offset, blocks| set.write(at(zone, offset), BlockCount(blocks));
    let set = &mut drive(ZoneState::ImplicitlyOpen);
    assert_eq!(write(set, 99, 99, 0), Err(Status::InvalidField), "transfer size first");
    assert_eq!(write(set, 99, 99, 15), Err(Status::InvalidField));
    assert_eq!(write(set, 1, 16, 1), Err(Status::LbaOutOfRange));
    assert_eq!(write(set, 5, 8, 9), Err(Status::LbaOutOfRange), "past the namespace");
    let full = &mut drive(ZoneState::Full);
    assert_eq!(write(full, 1, 0, 14), Err(Status::ZoneFull), "state before pointer");
    assert_eq!(write(set, 1, 0, 14), Err(Status::ZoneInvalidWrite), "pointer before boundary");
    assert_eq!(write(set, 1, 4, 9), Err(Status::ZoneBoundary), "past the capacity");
    assert_eq!(write(set, 1, 4, 8), Ok(()));
    assert_eq!(set.record(ZONE).state, ZoneState::Full);
}

#[test]
fn append_checks_come_in_the_specified_order() {
    let append = |set: &mut ZoneSet, zone, blocks| set.append(ZoneId(zone), BlockCount(blocks));
    let set = &mut drive(ZoneState::ImplicitlyOpen);
    assert_eq!(append(set, 6, 9), Err(Status::LbaOutOfRange));
    assert_eq!(append(&mut drive(ZoneState::Full), 1, 9), Err(Status::InvalidField), "size first");
    assert_eq!(append(&mut drive_with_area(0), 1, 9), Err(Status::InvalidField));
    assert_eq!(append(&mut drive_with_area(0), 1, 8), Err(Status::InvalidZoneOperation));
    assert_eq!(append(set, 1, 8), Ok(ZoneOffset(4)));
    assert_eq!(append(set, 1, 1), Err(Status::ZoneFull));
    let set = &mut drive(ZoneState::Closed);
    set.write(at(1, 4), BlockCount(1)).unwrap();
    assert_eq!(append(set, 1, 8), Err(Status::ZoneBoundary), "boundary before limits");
}

#[test]
fn extensions_have_the_length_of_the_drives() {
    let mut set = drive(ZoneState::Full);
    assert_eq!(set.extend(ZoneId(6), 63), Err(Status::InvalidField), "length before zone");
    assert_eq!(set.extend(ZONE, 64), Err(Status::InvalidTransition));
    let bare = zoneweave_zoned::Geometry { descriptor_extension_bytes: 0, ..super::geometry() };
    assert_eq!(ZoneSet::new(bare).unwrap().extend(ZONE, 0), Err(Status::InvalidField));
}
