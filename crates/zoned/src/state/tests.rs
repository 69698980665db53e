//! The state machine against a table of statuses and against a naive model.

use proptest::prelude::*;

use super::*;
use crate::ZoneAction;
use ZoneState::{Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen, Offline, ReadOnly};

const STATES: [ZoneState; 7] =
    [Empty, ImplicitlyOpen, ExplicitlyOpen, Closed, Full, ReadOnly, Offline];
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

/// A drive whose zone 1 is in the given state, with four blocks written where possible.
fn drive(state: ZoneState) -> ZoneSet {
    let mut set = ZoneSet::new(geometry()).unwrap();
    if state != Empty {
        set.write(at(ZONE.0, 0), BlockCount(4)).unwrap();
    }
    match state {
        Empty | ImplicitlyOpen => {}
        ExplicitlyOpen => set.manage(ZONE, ZoneAction::Open).unwrap(),
        Closed => set.manage(ZONE, ZoneAction::Close).unwrap(),
        Full => set.manage(ZONE, ZoneAction::Finish).unwrap(),
        ReadOnly => set.set_read_only(ZONE),
        Offline => set.set_offline(ZONE),
    }
    assert_eq!(set.record(ZONE).state, state);
    set
}

#[test]
fn every_operation_in_every_state() {
    use Status::{InvalidTransition as Bad, ZoneFull, ZoneOffline, ZoneReadOnly};
    type Row =
        (&'static str, fn(&mut ZoneSet) -> Result<(), Status>, [Result<ZoneState, Status>; 7]);
    #[rustfmt::skip]
    let table: [Row; 8] = [
        ("write", |set| { let wp = set.record(ZONE).write_pointer.0; set.write(at(1, wp), BlockCount(1)) },
         [Ok(ImplicitlyOpen), Ok(ImplicitlyOpen), Ok(ExplicitlyOpen), Ok(ImplicitlyOpen), Err(ZoneFull), Err(ZoneReadOnly), Err(ZoneOffline)]),
        ("append", |set| set.append(ZONE, BlockCount(1)).map(|_| ()),
         [Ok(ImplicitlyOpen), Ok(ImplicitlyOpen), Ok(ExplicitlyOpen), Ok(ImplicitlyOpen), Err(ZoneFull), Err(ZoneReadOnly), Err(ZoneOffline)]),
        ("open", |set| set.manage(ZONE, ZoneAction::Open),
         [Ok(ExplicitlyOpen), Ok(ExplicitlyOpen), Ok(ExplicitlyOpen), Ok(ExplicitlyOpen), Err(Bad), Err(Bad), Err(Bad)]),
        ("close", |set| set.manage(ZONE, ZoneAction::Close),
         [Err(Bad), Ok(Closed), Ok(Closed), Ok(Closed), Err(Bad), Err(Bad), Err(Bad)]),
        ("finish", |set| set.manage(ZONE, ZoneAction::Finish),
         [Ok(Full), Ok(Full), Ok(Full), Ok(Full), Ok(Full), Err(Bad), Err(Bad)]),
        ("reset", |set| set.manage(ZONE, ZoneAction::Reset),
         [Ok(Empty), Ok(Empty), Ok(Empty), Ok(Empty), Ok(Empty), Err(Bad), Err(Bad)]),
        ("offline", |set| set.manage(ZONE, ZoneAction::Offline),
         [Err(Bad), Err(Bad), Err(Bad), Err(Bad), Err(Bad), Ok(Offline), Ok(Offline)]),
        ("read", |set| set.read(at(1, 0), BlockCount(8)),
         [Ok(Empty), Ok(ImplicitlyOpen), Ok(ExplicitlyOpen), Ok(Closed), Ok(Full), Ok(ReadOnly), Err(ZoneOffline)]),
    ];
    for (name, operation, expected) in table {
        for (state, expected) in STATES.into_iter().zip(expected) {
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
fn write_checks_come_in_the_specified_order() {
    let write =
        |set: &mut ZoneSet, zone, offset, blocks| set.write(at(zone, offset), BlockCount(blocks));
    let set = &mut drive(ImplicitlyOpen);
    assert_eq!(write(set, 99, 99, 0), Err(Status::InvalidField), "transfer size first");
    assert_eq!(write(set, 99, 99, 13), Err(Status::InvalidField));
    assert_eq!(write(set, 6, 0, 1), Err(Status::LbaOutOfRange));
    assert_eq!(write(set, 1, 16, 1), Err(Status::LbaOutOfRange));
    assert_eq!(write(set, 5, 8, 9), Err(Status::LbaOutOfRange), "past the namespace");
    assert_eq!(write(&mut drive(Full), 1, 0, 12), Err(Status::ZoneFull), "state before pointer");
    assert_eq!(write(set, 1, 0, 12), Err(Status::ZoneInvalidWrite), "pointer before boundary");
    assert_eq!(write(set, 1, 4, 7), Err(Status::ZoneBoundary), "past the capacity");
    assert_eq!(write(set, 1, 4, 6), Ok(()));
    assert_eq!(set.record(ZONE).state, Full);
}

#[test]
fn append_checks_come_in_the_specified_order() {
    let append = |set: &mut ZoneSet, zone, blocks| set.append(ZoneId(zone), BlockCount(blocks));
    let set = &mut drive(ImplicitlyOpen);
    assert_eq!(append(set, 6, 9), Err(Status::LbaOutOfRange));
    assert_eq!(append(&mut drive(Full), 1, 9), Err(Status::InvalidField), "size before state");
    assert_eq!(append(set, 1, 7), Err(Status::ZoneBoundary));
    assert_eq!(append(set, 1, 6), Ok(ZoneOffset(4)));
    assert_eq!(append(set, 1, 1), Err(Status::ZoneFull));
}

#[test]
fn reads_end_at_the_zone_size_and_see_zeros_above_the_write_pointer() {
    let set = drive(ImplicitlyOpen);
    assert_eq!(set.read(at(1, 2), BlockCount(4)), Ok(()));
    assert_eq!(set.written_of(at(1, 2), BlockCount(4)), BlockCount(2));
    assert_eq!(set.read(at(1, 12), BlockCount(4)), Ok(()));
    assert_eq!(set.written_of(at(1, 12), BlockCount(4)), BlockCount(0));
    assert_eq!(set.read(at(1, 12), BlockCount(5)), Err(Status::ZoneBoundary));
    assert_eq!(set.read(at(5, 12), BlockCount(5)), Err(Status::LbaOutOfRange));
    assert_eq!(drive(Offline).read(at(1, 12), BlockCount(5)), Err(Status::ZoneOffline));
}

#[test]
fn the_oldest_implicitly_opened_zone_makes_room() {
    let mut set = ZoneSet::new(geometry()).unwrap();
    set.append(ZoneId(0), BlockCount(1)).unwrap();
    set.append(ZoneId(1), BlockCount(1)).unwrap();
    set.append(ZoneId(0), BlockCount(1)).unwrap();
    set.append(ZoneId(2), BlockCount(1)).unwrap();
    assert_eq!(set.record(ZoneId(0)).state, Closed);
    assert_eq!((set.open_zones(), set.active_zones()), (2, 3));
    assert_eq!(set.append(ZoneId(3), BlockCount(1)), Err(Status::TooManyActive));
    set.manage(ZoneId(1), ZoneAction::Open).unwrap();
    set.manage(ZoneId(2), ZoneAction::Open).unwrap();
    assert_eq!(set.append(ZoneId(0), BlockCount(1)), Err(Status::TooManyOpen));
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
    let mut set = drive(Full);
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

/// The same rules written as directly as possible: no counts, no queues, everything recounted.
struct Model {
    /// State, write pointer, resets and, for implicitly open zones, when they were opened.
    zones: Vec<(ZoneState, u32, u64, usize)>,
    steps: usize,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write { zone: u32, shift: i8, blocks: u32 },
    Append { zone: u32, blocks: u32 },
    Manage { zone: u32, action: ZoneAction },
    Wear { zone: u32, state: ZoneState },
    Restart,
}

impl Model {
    fn count(&self, states: &[ZoneState]) -> usize {
        self.zones.iter().filter(|zone| states.contains(&zone.0)).count()
    }

    fn open(&mut self, zone: usize, target: ZoneState) -> Result<(), u16> {
        let open = [ImplicitlyOpen, ExplicitlyOpen];
        let state = self.zones[zone].0;
        if state == Empty && self.count(&[ImplicitlyOpen, ExplicitlyOpen, Closed]) == 3 {
            return Err(0x1BD);
        }
        if !open.contains(&state) && self.count(&open) == 2 {
            let implicit = self.zones.iter_mut().filter(|zone| zone.0 == ImplicitlyOpen);
            implicit.min_by_key(|zone| zone.3).ok_or(0x1BE_u16)?.0 = Closed;
        }
        if state != target {
            self.zones[zone].0 = target;
            self.zones[zone].3 = self.steps;
        }
        Ok(())
    }

    fn write(&mut self, zone: u32, offset: Option<u32>, blocks: u32) -> Result<u32, u16> {
        if blocks == 0 || blocks > 12 {
            return Err(0x002);
        }
        let start = offset.unwrap_or(0);
        if zone >= 6 || start >= 16 || zone * 16 + start + blocks > 96 {
            return Err(0x080);
        }
        if offset.is_none() && blocks > 8 {
            return Err(0x002);
        }
        let index = zone as usize;
        let (state, pointer, ..) = self.zones[index];
        match state {
            Full => return Err(0x1B9),
            ReadOnly => return Err(0x1BA),
            Offline => return Err(0x1BB),
            _ => {}
        }
        if offset.is_some_and(|offset| offset != pointer) {
            return Err(0x1BC);
        }
        if pointer + blocks > 10 {
            return Err(0x1B8);
        }
        if state == Empty || state == Closed {
            self.open(index, ImplicitlyOpen)?;
        }
        self.zones[index].1 += blocks;
        if self.zones[index].1 == 10 {
            self.zones[index].0 = Full;
        }
        Ok(pointer)
    }

    fn manage(&mut self, zone: u32, action: ZoneAction) -> Result<u32, u16> {
        let entry = self.zones.get_mut(zone as usize).ok_or(0x080_u16)?;
        let state = entry.0;
        match action {
            ZoneAction::Close if matches!(state, ImplicitlyOpen | ExplicitlyOpen | Closed) => {
                entry.0 = Closed;
            }
            ZoneAction::Finish if !matches!(state, ReadOnly | Offline) => entry.0 = Full,
            ZoneAction::Reset if state == Empty => {}
            ZoneAction::Reset if !matches!(state, ReadOnly | Offline) => {
                *entry = (Empty, 0, entry.2 + 1, 0);
            }
            ZoneAction::Offline if matches!(state, ReadOnly | Offline) => entry.0 = Offline,
            ZoneAction::Open if !matches!(state, Full | ReadOnly | Offline) => {
                self.open(zone as usize, ExplicitlyOpen)?;
            }
            _ => return Err(0x1BF),
        }
        Ok(0)
    }

    fn restart(&mut self) {
        for zone in &mut self.zones {
            if matches!(zone.0, ImplicitlyOpen | ExplicitlyOpen | Closed) {
                zone.0 = if zone.1 == 0 { Empty } else { Closed };
            }
        }
    }

    fn step(&mut self, step: Step) -> Result<u32, u16> {
        self.steps += 1;
        match step {
            Step::Write { zone, shift, blocks } => {
                let pointer = self.zones.get(zone as usize).map_or(0, |zone| zone.1);
                let offset = pointer.saturating_add_signed(shift.into());
                self.write(zone, Some(offset), blocks).map(|_| 0)
            }
            Step::Append { zone, blocks } => self.write(zone, None, blocks),
            Step::Manage { zone, action } => self.manage(zone, action),
            Step::Wear { zone, state } => {
                let entry = &mut self.zones[zone as usize];
                if entry.0 != Offline {
                    entry.0 = state;
                }
                Ok(0)
            }
            Step::Restart => {
                self.restart();
                Ok(0)
            }
        }
    }
}

fn step_real(set: &mut ZoneSet, step: Step) -> Result<u32, u16> {
    let outcome = match step {
        Step::Write { zone, shift, blocks } => {
            let pointer = if zone < 6 { set.record(ZoneId(zone)).write_pointer.0 } else { 0 };
            let offset = pointer.saturating_add_signed(shift.into());
            set.write(at(zone, offset), BlockCount(blocks)).map(|()| 0)
        }
        Step::Append { zone, blocks } => {
            set.append(ZoneId(zone), BlockCount(blocks)).map(|offset| offset.0)
        }
        Step::Manage { zone, action } => set.manage(ZoneId(zone), action).map(|()| 0),
        Step::Wear { zone, state: ReadOnly } => {
            set.set_read_only(ZoneId(zone));
            Ok(0)
        }
        Step::Wear { zone, .. } => {
            set.set_offline(ZoneId(zone));
            Ok(0)
        }
        Step::Restart => {
            set.restart();
            Ok(0)
        }
    };
    outcome.map_err(Status::value)
}

fn any_step() -> impl Strategy<Value = Step> {
    use ZoneAction::{Close, Finish, Offline as TakeOffline, Open, Reset};
    let shift = prop_oneof![12 => Just(0_i8), 1 => -2_i8..8];
    let actions = prop::sample::select(vec![Close, Finish, Open, Reset, Reset, TakeOffline]);
    prop_oneof![
        40 => (0_u32..7, shift, 0_u32..14)
            .prop_map(|(zone, shift, blocks)| Step::Write { zone, shift, blocks }),
        40 => (0_u32..7, 0_u32..10).prop_map(|(zone, blocks)| Step::Append { zone, blocks }),
        60 => (0_u32..7, actions).prop_map(|(zone, action)| Step::Manage { zone, action }),
        1 => (0_u32..6, prop::sample::select(vec![ReadOnly, Offline]))
            .prop_map(|(zone, state)| Step::Wear { zone, state }),
        2 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn histories_match_the_naive_model(steps in prop::collection::vec(any_step(), 1..120)) {
        let mut set = ZoneSet::new(geometry()).unwrap();
        let mut model = Model { zones: vec![(Empty, 0, 0, 0); 6], steps: 0 };
        for step in steps {
            let expected = model.step(step);
            prop_assert_eq!(step_real(&mut set, step), expected, "{:?}", step);
            for (record, zone) in set.export().zip(&model.zones) {
                let found = (record.state, record.write_pointer.0, record.resets);
                prop_assert_eq!(found, (zone.0, zone.1, zone.2), "after {:?}", step);
            }
            prop_assert_eq!(set.open_zones() as usize, model.count(&[ImplicitlyOpen, ExplicitlyOpen]));
            let records: Vec<_> = set.export().collect();
            prop_assert!(ZoneSet::import(geometry(), &records).is_ok());
        }
    }
}
