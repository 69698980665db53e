//! The further commands of zoned namespaces: zone management, and Zone Append.

use super::{Operation, Plan, Transfer, check_range, transfer_bytes};
use crate::command::Command;
use crate::status::Status;
use crate::subsystem::{Namespace, Zones};
use crate::transport::TRANSFER_BYTES_MAX;

/// Opcodes.
pub(super) mod opcode {
    pub(in crate::nvm) const MANAGEMENT_SEND: u8 = 0x79;
    pub(in crate::nvm) const MANAGEMENT_RECEIVE: u8 = 0x7A;
    pub(in crate::nvm) const APPEND: u8 = 0x7D;
}

/// The last filter of a report: offline zones.
const FILTER_MAX: u8 = 7;

/// A change of the state of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneAction {
    /// Release the open resource.
    Close,
    /// Make the zone full.
    Finish,
    /// Open it.
    Open,
    /// Make it empty.
    Reset,
    /// Take a read-only zone offline.
    Offline,
}

/// A command of zoned namespaces; `None` if it is of the NVM command set.
pub(super) fn plan(
    namespace: &Namespace,
    zones: &Zones,
    command: &Command,
    fua: bool,
) -> Result<Option<Plan>, Status> {
    match command.opcode() {
        opcode::MANAGEMENT_SEND => manage(namespace, zones, command).map(Some),
        opcode::MANAGEMENT_RECEIVE => report(namespace, command).map(Some),
        opcode::APPEND => {
            let blocks = (command.dword(12) & 0xFFFF) + 1;
            if blocks > zones.append_blocks {
                return Err(Status::INVALID_FIELD);
            }
            let zone_start = zone_start(namespace, zones, command)?;
            let transfer = Transfer::FromHost(transfer_bytes(blocks)?);
            Ok(Some(Plan { operation: Operation::Append { zone_start, blocks, fua }, transfer }))
        }
        _ => Ok(None),
    }
}

fn manage(namespace: &Namespace, zones: &Zones, command: &Command) -> Result<Plan, Status> {
    let [action, options, ..] = command.dword(13).to_le_bytes();
    let action = match action {
        1 => ZoneAction::Close,
        2 => ZoneAction::Finish,
        3 => ZoneAction::Open,
        4 => ZoneAction::Reset,
        5 => ZoneAction::Offline,
        // There are neither descriptor extensions nor random write areas.
        _ => return Err(Status::INVALID_FIELD),
    };
    if options & 2 != 0 {
        return Err(Status::INVALID_FIELD);
    }
    let is_all = options & 1 != 0;
    let zone_start = if is_all { None } else { Some(zone_start(namespace, zones, command)?) };
    Ok(Plan::bare(Operation::ManageZone { zone_start, action }))
}

fn report(namespace: &Namespace, command: &Command) -> Result<Plan, Status> {
    let [action, filter, options, _] = command.dword(13).to_le_bytes();
    // Extended reports are of descriptor extensions.
    if action != 0 || filter > FILTER_MAX {
        return Err(Status::INVALID_FIELD);
    }
    check_range(command.start(), 1, namespace.blocks)?;
    let bytes = (u64::from(command.dword(12)) + 1) * 4;
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if bytes > TRANSFER_BYTES_MAX {
        return Err(Status::INVALID_FIELD);
    }
    let (lba, partial) = (command.start(), options & 1 != 0);
    let operation = Operation::ReportZones { lba, filter, partial, bytes };
    Ok(Plan { operation, transfer: Transfer::ToHost(bytes) })
}

/// The first block of a zone, which the command must name.
fn zone_start(namespace: &Namespace, zones: &Zones, command: &Command) -> Result<u64, Status> {
    check_range(command.start(), 1, namespace.blocks)?;
    if command.start().is_multiple_of(zones.size) {
        Ok(command.start())
    } else {
        Err(Status::INVALID_FIELD)
    }
}
