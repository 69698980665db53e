//! Each command in each zone state: the status, the state afterwards and the contents.

use bytes::Bytes;
use zoneweave_zoned::{
    BlockCount, Command, Geometry, Outcome, Reply, ReportOptions, Status, ZoneAction, ZoneAddress,
    ZoneId, ZoneOffset, ZoneState,
};

use super::image::ZoneImage;
use super::prepare::{ALL, Bed, Prepared, ZONE};
use super::session::payload;
use super::{Checked, Factory};

/// The state of the zone afterwards, or the status of the command.
type Cell = Result<ZoneState, Status>;

/// A command to the zone under test.
#[derive(Clone, Copy, Debug)]
enum Operation {
    /// Of the blocks before the write pointer.
    ReadWritten,
    /// Of the first blocks, written or not.
    Read,
    /// So many blocks behind the write pointer.
    Write {
        ahead: u32,
        fua: bool,
    },
    /// Of a block that is written already.
    WriteBelow,
    Append {
        fua: bool,
    },
    Manage(ZoneAction),
    /// To all zones that the action selects.
    ManageAll(ZoneAction),
    SetExtension,
    Flush,
    Report,
    ChangedZones,
}

use Operation::{
    Append, ChangedZones, Flush, Manage, ManageAll, Read, ReadWritten, Report, SetExtension, Write,
    WriteBelow,
};

const ZSE: Cell = Ok(ZoneState::Empty);
const ZSIO: Cell = Ok(ZoneState::ImplicitlyOpen);
const ZSEO: Cell = Ok(ZoneState::ExplicitlyOpen);
const ZSC: Cell = Ok(ZoneState::Closed);
const ZSF: Cell = Ok(ZoneState::Full);
const ZSRO: Cell = Ok(ZoneState::ReadOnly);
const ZSO: Cell = Ok(ZoneState::Offline);
const FULL: Cell = Err(Status::ZoneFull);
const READ_ONLY: Cell = Err(Status::ZoneReadOnly);
const OFFLINE: Cell = Err(Status::ZoneOffline);
const NOT_AT_WP: Cell = Err(Status::ZoneInvalidWrite);
const NO: Cell = Err(Status::InvalidTransition);

#[rustfmt::skip]
const TABLE: [(Operation, [Cell; 7]); 22] = [
    // Columns: ZSE, ZSIO, ZSEO, ZSC, ZSF, ZSRO, ZSO.
    (ReadWritten,                   [ZSE,       ZSIO,      ZSEO,      ZSC,       ZSF,  ZSRO,      OFFLINE]),
    (Read,                          [ZSE,       ZSIO,      ZSEO,      ZSC,       ZSF,  ZSRO,      OFFLINE]),
    (Write { ahead: 0, fua: false },[ZSIO,      ZSIO,      ZSEO,      ZSIO,      FULL, READ_ONLY, OFFLINE]),
    (Write { ahead: 0, fua: true }, [ZSIO,      ZSIO,      ZSEO,      ZSIO,      FULL, READ_ONLY, OFFLINE]),
    (Write { ahead: 1, fua: false },[NOT_AT_WP, NOT_AT_WP, NOT_AT_WP, NOT_AT_WP, FULL, READ_ONLY, OFFLINE]),
    (WriteBelow,                    [NOT_AT_WP, NOT_AT_WP, NOT_AT_WP, NOT_AT_WP, FULL, READ_ONLY, OFFLINE]),
    (Append { fua: false },         [ZSIO,      ZSIO,      ZSEO,      ZSIO,      FULL, READ_ONLY, OFFLINE]),
    (Append { fua: true },          [ZSIO,      ZSIO,      ZSEO,      ZSIO,      FULL, READ_ONLY, OFFLINE]),
    (Manage(ZoneAction::Open),      [ZSEO,      ZSEO,      ZSEO,      ZSEO,      NO,   NO,        NO]),
    (Manage(ZoneAction::Close),     [NO,        ZSC,       ZSC,       ZSC,       NO,   NO,        NO]),
    (Manage(ZoneAction::Finish),    [ZSF,       ZSF,       ZSF,       ZSF,       ZSF,  NO,        NO]),
    (Manage(ZoneAction::Reset),     [ZSE,       ZSE,       ZSE,       ZSE,       ZSE,  NO,        NO]),
    (Manage(ZoneAction::Offline),   [NO,        NO,        NO,        NO,        NO,   ZSO,       ZSO]),
    (ManageAll(ZoneAction::Open),   [ZSE,       ZSIO,      ZSEO,      ZSEO,      ZSF,  ZSRO,      ZSO]),
    (ManageAll(ZoneAction::Close),  [ZSE,       ZSC,       ZSC,       ZSC,       ZSF,  ZSRO,      ZSO]),
    (ManageAll(ZoneAction::Finish), [ZSE,       ZSF,       ZSF,       ZSF,       ZSF,  ZSRO,      ZSO]),
    (ManageAll(ZoneAction::Reset),  [ZSE,       ZSE,       ZSE,       ZSE,       ZSE,  ZSRO,      ZSO]),
    (ManageAll(ZoneAction::Offline),[ZSE,       ZSIO,      ZSEO,      ZSC,       ZSF,  ZSO,       ZSO]),
    (SetExtension,                  [ZSC,       NO,        NO,        NO,        NO,   NO,        NO]),
    (Flush,                         [ZSE,       ZSIO,      ZSEO,      ZSC,       ZSF,  ZSRO,      ZSO]),
    (Report,                        [ZSE,       ZSIO,      ZSEO,      ZSC,       ZSF,  ZSRO,      ZSO]),
    (ChangedZones,                  [ZSE,       ZSIO,      ZSEO,      ZSC,       ZSF,  ZSRO,      ZSO]),
];

/// Tests all cells, and the refusal of features that the device lacks.
pub(super) fn check(factory: Factory<'_>, checked: &mut Checked) {
    for (state, column) in ALL {
        for (operation, cells) in TABLE {
            let result = check_cell(factory, state, operation, cells[column]);
            checked.note(|| format!("{operation:?} of a zone that is {state}"), result);
        }
        let result = check_lacking(factory, state);
        checked.note(|| format!("random write areas in a zone that is {state}"), result);
    }
}

fn check_cell(
    factory: Factory<'_>,
    state: Prepared,
    operation: Operation,
    cell: Cell,
) -> Result<(), String> {
    let Some(mut bed) = Bed::prepared(factory, state)? else { return Ok(()) };
    bed.session.compare(&bed.zones).map_err(|problem| format!("before the command, {problem}"))?;
    let Some((numbers, command)) = command(&mut bed, operation) else { return Ok(()) };
    let expected = adapted(operation, cell, bed.geometry());
    let outcome = bed.session.run(command);
    match (&outcome, expected) {
        (Ok(_), Ok(_)) => check_reply(&bed, operation, &outcome)?,
        (Err(found), Err(status)) if *found == status => {}
        (found, Ok(_)) => return Err(format!("returns {found:?}, expected success")),
        (found, Err(status)) => return Err(format!("returns {found:?}, expected {status}")),
    }
    if let Ok(next) = expected {
        apply(&mut bed, operation, next, &numbers);
    }
    bed.session.compare(&bed.zones).map_err(|problem| format!("afterwards {problem}"))?;
    let bed = bed.restarted(7)?;
    let problem = |problem| format!("after a power loss {problem}");
    bed.session.compare(&bed.zones).map_err(problem)
}

/// The cell for a device with this geometry.
fn adapted(operation: Operation, cell: Cell, geometry: &Geometry) -> Cell {
    match operation {
        Append { .. } if geometry.append_limit.0 == 0 => Err(Status::InvalidField),
        SetExtension if geometry.descriptor_extension_bytes == 0 => Err(Status::InvalidField),
        _ => cell,
    }
}

/// The command, with the numbers of the blocks that it writes; `None` if the zone has no place for
/// it.
fn command(bed: &mut Bed, operation: Operation) -> Option<(Vec<u64>, Command)> {
    let (pointer, capacity) = (bed.zone().pointer, bed.geometry().zone_capacity.0);
    let none = |command| Some((Vec::new(), command));
    match operation {
        ReadWritten if pointer == 0 => None,
        ReadWritten => {
            let blocks = pointer.min(bed.geometry().max_transfer.0);
            none(Command::Read { at: at(0), blocks: BlockCount(blocks) })
        }
        Read if bed.geometry().unwritten_read_error => None,
        Read => {
            let blocks = capacity.min(bed.geometry().max_transfer.0);
            none(Command::Read { at: at(0), blocks: BlockCount(blocks) })
        }
        Write { ahead, fua } => {
            // A full zone has no block at its write pointer.
            Some(bed.next_write(at((pointer + ahead).min(capacity - 1)), 1, fua))
        }
        WriteBelow if pointer == 0 => None,
        WriteBelow => Some(bed.next_write(at(pointer - 1), 1, false)),
        Append { fua } => {
            let numbers = bed.number(1);
            let payload = payload(bed.geometry(), ZONE, &numbers);
            Some((numbers, Command::Append { zone: ZONE, payload, fua }))
        }
        Manage(action) => none(Command::Manage { zone: ZONE, action }),
        ManageAll(action) => none(Command::ManageAll { action }),
        SetExtension => {
            let bytes = bed.geometry().descriptor_extension_bytes as usize;
            none(Command::SetExtension { zone: ZONE, extension: Bytes::from(vec![7; bytes]) })
        }
        Flush => none(Command::Flush),
        Report => {
            let options = ReportOptions::default();
            none(Command::Report { first: ZONE, count: 1, options })
        }
        ChangedZones => none(Command::ChangedZones),
    }
}

fn at(offset: u32) -> ZoneAddress {
    ZoneAddress::new(ZONE, offset)
}

/// Checks the reply to a command that succeeded, by the state before it.
fn check_reply(bed: &Bed, operation: Operation, outcome: &Outcome) -> Result<(), String> {
    let (zone, reply) = (bed.zone(), outcome.as_ref().expect("it succeeded"));
    let right = match (operation, reply) {
        (ReadWritten | Read, Reply::Read(payload)) => {
            let found = bed.session.numbers(ZONE, 0, payload)?;
            let written = found.len().min(zone.blocks.len());
            found[..written] == zone.blocks[..written] && found[written..].iter().all(|n| *n == 0)
        }
        (Write { .. } | Append { .. }, Reply::Written(to)) => *to == at(zone.pointer),
        (Report, Reply::Zones(report)) => {
            let [info] = report.zones[..] else { return Err("one zone is reported".to_owned()) };
            let pointer = ZoneOffset(zone.reported_pointer(bed.geometry()));
            (info.zone, info.state, info.write_pointer) == (ZONE, zone.state, pointer)
        }
        (ChangedZones, Reply::Changed(changed)) => changed.zones.is_empty() && !changed.overflow,
        (Manage(_) | ManageAll(_) | SetExtension | Flush, Reply::Done) => true,
        _ => false,
    };
    if right { Ok(()) } else { Err(format!("replies {reply:?}")) }
}

/// Updates the expected state.
fn apply(bed: &mut Bed, operation: Operation, next: ZoneState, numbers: &[u64]) {
    let zone = &mut bed.zones[ZONE.index()];
    match operation {
        Write { .. } | Append { .. } => zone.write(numbers),
        Manage(ZoneAction::Reset) => *zone = ZoneImage::empty(),
        SetExtension => zone.extended = true,
        ManageAll(action) => return apply_to_all(bed, action, next),
        _ => {}
    }
    zone.state = next;
}

/// Updates the expected state of the zone under test, and of its implicitly open neighbour.
fn apply_to_all(bed: &mut Bed, action: ZoneAction, next: ZoneState) {
    let zone = &mut bed.zones[ZONE.index()];
    if action == ZoneAction::Reset && next == ZoneState::Empty {
        *zone = ZoneImage::empty();
    }
    zone.state = next;
    // A restart has closed the neighbour.
    let neighbour = &mut bed.zones[0];
    match action {
        ZoneAction::Open if neighbour.state == ZoneState::Closed => {
            neighbour.state = ZoneState::ExplicitlyOpen;
        }
        ZoneAction::Close => neighbour.state = ZoneState::Closed,
        ZoneAction::Finish => neighbour.state = ZoneState::Full,
        ZoneAction::Reset => *neighbour = ZoneImage::empty(),
        _ => {}
    }
}

/// Random write areas are refused by a device without any.
fn check_lacking(factory: Factory<'_>, state: Prepared) -> Result<(), String> {
    let Some(bed) = Bed::prepared(factory, state)? else { return Ok(()) };
    if bed.geometry().zrwa.is_some() {
        return Ok(());
    }
    let flush = ZoneAction::FlushZrwa { last: ZoneOffset(4) };
    for (zone, action, expected) in [
        (ZONE, ZoneAction::OpenWithZrwa, Status::InvalidZoneOperation),
        (ZONE, flush, Status::InvalidZoneOperation),
        (ZoneId(bed.geometry().zones), ZoneAction::OpenWithZrwa, Status::LbaOutOfRange),
    ] {
        let found = bed.session.run(Command::Manage { zone, action });
        if found != Err(expected) {
            return Err(format!("{action:?} of {zone} returns {found:?}, expected {expected}"));
        }
    }
    for action in [ZoneAction::OpenWithZrwa, flush] {
        let found = bed.session.run(Command::ManageAll { action });
        if found != Err(Status::InvalidField) {
            return Err(format!("{action:?} of all zones returns {found:?}"));
        }
    }
    bed.session.compare(&bed.zones)
}
