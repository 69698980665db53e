//! Checks of a command before the disk gets it, and its diagnosis after a failure: the block layer
//! reports little more than "I/O error".

use zoneweave_zoned::{
    BlockCount, Command, Geometry, Payload, Status, ZoneAction, ZoneAddress, ZoneId, ZoneInfo,
    ZoneState,
};

use crate::sys::block::ZoneChange;

/// Checks the parts of a command that do not depend on zone states.
///
/// # Errors
/// A status for addresses outside the drive, and for features that block devices lack: metadata,
/// appends, descriptor extensions, random write areas, lists of changed zones.
pub(super) fn check(geometry: &Geometry, command: &Command) -> Result<(), Status> {
    match command {
        Command::Read { at, blocks } => {
            check_transfer(geometry, *at, *blocks)?;
            let end = u64::from(at.offset.0) + u64::from(blocks.0);
            if end > u64::from(geometry.zone_size.0) {
                return Err(Status::ZoneBoundary);
            }
            Ok(())
        }
        Command::Write { at, payload, .. } => {
            check_payload(payload)?;
            check_transfer(geometry, *at, payload.blocks())
        }
        Command::Append { zone, payload, .. } => {
            check_transfer(geometry, ZoneAddress::new(*zone, 0), payload.blocks())?;
            Err(Status::InvalidField)
        }
        Command::Manage { zone, action } => {
            check_zone(geometry, *zone)?;
            match action {
                ZoneAction::OpenWithZrwa | ZoneAction::FlushZrwa { .. } => {
                    Err(Status::InvalidZoneOperation)
                }
                _ => Ok(()),
            }
        }
        Command::ManageAll { action } => match action {
            ZoneAction::OpenWithZrwa | ZoneAction::FlushZrwa { .. } => Err(Status::InvalidField),
            _ => Ok(()),
        },
        Command::Report { first, options, .. } => {
            check_zone(geometry, *first)?;
            if options.extended { Err(Status::InvalidField) } else { Ok(()) }
        }
        Command::SetExtension { .. } | Command::ChangedZones => Err(Status::InvalidField),
        Command::Flush => Ok(()),
    }
}

/// Metadata that cannot be kept is refused, not dropped.
fn check_payload(payload: &Payload) -> Result<(), Status> {
    payload.assert_whole();
    if payload.oob.is_empty() { Ok(()) } else { Err(Status::InvalidField) }
}

fn check_zone(geometry: &Geometry, zone: ZoneId) -> Result<(), Status> {
    if zone.0 < geometry.zones { Ok(()) } else { Err(Status::LbaOutOfRange) }
}

fn check_transfer(geometry: &Geometry, at: ZoneAddress, blocks: BlockCount) -> Result<(), Status> {
    if blocks.0 == 0 || blocks > geometry.max_transfer {
        return Err(Status::InvalidField);
    }
    check_zone(geometry, at.zone)?;
    let size = u64::from(geometry.zone_size.0);
    let offset = u64::from(at.offset.0);
    let end = u64::from(at.zone.0) * size + offset + u64::from(blocks.0);
    let on_drive = offset < size && end <= u64::from(geometry.zones) * size;
    if on_drive { Ok(()) } else { Err(Status::LbaOutOfRange) }
}

/// The reason why a zone refuses a write, if its state shows one.
pub(super) fn refusal_of_write(
    info: &ZoneInfo,
    at: ZoneAddress,
    blocks: BlockCount,
) -> Option<Status> {
    match info.state {
        ZoneState::Full => Some(Status::ZoneFull),
        ZoneState::ReadOnly => Some(Status::ZoneReadOnly),
        ZoneState::Offline => Some(Status::ZoneOffline),
        _ if info.write_pointer != at.offset => Some(Status::ZoneInvalidWrite),
        _ => {
            let end = u64::from(at.offset.0) + u64::from(blocks.0);
            (end > u64::from(info.capacity.0)).then_some(Status::ZoneBoundary)
        }
    }
}

/// The kernel's request for an action; it has none for taking a zone offline.
pub(super) fn change_of(action: ZoneAction) -> Option<ZoneChange> {
    match action {
        ZoneAction::Close => Some(ZoneChange::Close),
        ZoneAction::Finish => Some(ZoneChange::Finish),
        ZoneAction::Open => Some(ZoneChange::Open),
        ZoneAction::Reset => Some(ZoneChange::Reset),
        ZoneAction::Offline | ZoneAction::OpenWithZrwa | ZoneAction::FlushZrwa { .. } => None,
    }
}

/// Whether an action is for zones in a state.
pub(super) fn is_for(action: ZoneAction, state: ZoneState) -> bool {
    let active_or_empty = state.is_active() || state == ZoneState::Empty;
    match action {
        ZoneAction::Open => active_or_empty,
        ZoneAction::Close => state.is_active(),
        ZoneAction::Finish | ZoneAction::Reset => active_or_empty || state == ZoneState::Full,
        ZoneAction::Offline => state == ZoneState::Offline,
        ZoneAction::OpenWithZrwa | ZoneAction::FlushZrwa { .. } => false,
    }
}

/// Whether an action on all zones is for those in a state (NVMe Select All).
pub(super) fn is_chosen(action: ZoneAction, state: ZoneState) -> bool {
    match action {
        ZoneAction::Open => state == ZoneState::Closed,
        ZoneAction::Close => state.is_open(),
        ZoneAction::Finish => state.is_active(),
        ZoneAction::Reset => state.is_active() || state == ZoneState::Full,
        ZoneAction::Offline => state == ZoneState::ReadOnly,
        ZoneAction::OpenWithZrwa | ZoneAction::FlushZrwa { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use zoneweave_zoned::{OobKind, ReportOptions, ZoneOffset, ZoneSet, zero_blocks};

    use super::*;

    fn geometry() -> Geometry {
        Geometry {
            oob: OobKind::None,
            append_limit: BlockCount(0),
            max_transfer: BlockCount(8),
            ..Geometry::new(4, BlockCount(12))
        }
    }

    fn payload(blocks: u32) -> Payload {
        Payload::new(zero_blocks(BlockCount(blocks)), Bytes::new())
    }

    #[test]
    fn what_block_devices_do_not_have_is_refused() {
        let check = |command| check(&geometry(), &command);
        let at = ZoneAddress::new(ZoneId(1), 0);
        assert_eq!(check(Command::Write { at, payload: payload(3), fua: true }), Ok(()));
        let with_metadata = Payload { oob: vec![0; 64].into(), ..payload(1) };
        let write = Command::Write { at, payload: with_metadata, fua: false };
        assert_eq!(check(write), Err(Status::InvalidField));
        let append = Command::Append { zone: ZoneId(1), payload: payload(1), fua: false };
        assert_eq!(check(append), Err(Status::InvalidField));
        let extension = Command::SetExtension { zone: ZoneId(0), extension: Bytes::new() };
        assert_eq!(check(extension), Err(Status::InvalidField));
        assert_eq!(check(Command::ChangedZones), Err(Status::InvalidField));
        let area = Command::Manage { zone: ZoneId(0), action: ZoneAction::OpenWithZrwa };
        assert_eq!(check(area), Err(Status::InvalidZoneOperation));
        let options = ReportOptions { extended: true, ..ReportOptions::default() };
        let report = Command::Report { first: ZoneId(0), count: 1, options };
        assert_eq!(check(report), Err(Status::InvalidField));
    }

    #[test]
    fn what_is_not_on_the_drive_is_refused() {
        let read = |zone, offset, blocks| {
            let at = ZoneAddress::new(ZoneId(zone), offset);
            check(&geometry(), &Command::Read { at, blocks: BlockCount(blocks) })
        };
        assert_eq!(read(3, 8, 8), Ok(()));
        assert_eq!(read(0, 9, 8), Err(Status::ZoneBoundary));
        assert_eq!(read(3, 9, 8), Err(Status::LbaOutOfRange));
        assert_eq!(read(0, 16, 1), Err(Status::LbaOutOfRange));
        assert_eq!(read(4, 0, 1), Err(Status::LbaOutOfRange));
        assert_eq!(read(u32::MAX, u32::MAX, 8), Err(Status::LbaOutOfRange));
        assert_eq!(read(0, 0, 0), Err(Status::InvalidField));
        assert_eq!(read(0, 0, 9), Err(Status::InvalidField));
    }

    /// Every state that a zone of the emulator can be in.
    fn zones() -> ZoneSet {
        let mut zones = ZoneSet::new(Geometry { zones: 8, ..geometry() }).unwrap();
        let write = |zones: &mut ZoneSet, zone| {
            zones.write(ZoneAddress::new(ZoneId(zone), 0), BlockCount(3)).unwrap();
        };
        write(&mut zones, 1);
        zones.manage(ZoneId(2), ZoneAction::Open).unwrap();
        write(&mut zones, 3);
        zones.manage(ZoneId(3), ZoneAction::Close).unwrap();
        zones.manage(ZoneId(4), ZoneAction::Finish).unwrap();
        zones.set_read_only(ZoneId(5));
        zones.set_read_only(ZoneId(6));
        zones.manage(ZoneId(6), ZoneAction::Offline).unwrap();
        zones
    }

    #[test]
    fn refusals_are_those_of_the_emulator() {
        let zones = zones();
        for zone in (0..7).map(ZoneId) {
            let info = zones.info(zone);
            for action in [
                ZoneAction::Open,
                ZoneAction::Close,
                ZoneAction::Finish,
                ZoneAction::Reset,
                ZoneAction::Offline,
            ] {
                let allowed = zones.clone().manage(zone, action).is_ok();
                // To take a zone offline the kernel has no command.
                let known = allowed && !is_chosen(ZoneAction::Offline, info.state);
                let known = if action == ZoneAction::Offline { known } else { allowed };
                assert_eq!(is_for(action, info.state), known, "{action:?} of {:?}", info.state);
                let all = zones.clone().manage_all(action).unwrap();
                assert_eq!(is_chosen(action, info.state), all.contains(&zone), "{action:?}");
            }
            for offset in [0, 3, 5, 11] {
                let (at, blocks) = (ZoneAddress::new(zone, offset), BlockCount(8));
                let expected = zones.clone().write(at, blocks).err();
                assert_eq!(refusal_of_write(&info, at, blocks), expected, "{info:?} at {offset}");
            }
        }
        let info = ZoneInfo { write_pointer: ZoneOffset(5), ..zones.info(ZoneId(1)) };
        let at = ZoneAddress::new(ZoneId(1), 5);
        assert_eq!(refusal_of_write(&info, at, BlockCount(8)), Some(Status::ZoneBoundary));
        assert_eq!(refusal_of_write(&info, at, BlockCount(7)), None);
    }
}
