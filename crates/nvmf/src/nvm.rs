//! I/O commands: which blocks, and how much data in which direction.
//!
//! This file has the NVM command set, `zoned` has the further commands of zoned namespaces.

mod zoned;

use bytes::Buf;

pub use zoned::ZoneAction;

use crate::command::Command;
use crate::status::Status;
use crate::subsystem::Namespace;
use crate::transport::TRANSFER_BYTES_MAX;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Bytes of a range of Dataset Management.
const RANGE_BYTES: usize = 16;

mod opcode {
    pub(super) const FLUSH: u8 = 0x00;
    pub(super) const WRITE: u8 = 0x01;
    pub(super) const READ: u8 = 0x02;
    pub(super) const WRITE_ZEROES: u8 = 0x08;
    pub(super) const DATASET_MANAGEMENT: u8 = 0x09;
}

/// Opcodes of zoned namespaces, and whether they change blocks.
pub(crate) const ZONED_OPCODES: [(u8, bool); 6] = [
    (opcode::FLUSH, false),
    (opcode::WRITE, true),
    (opcode::READ, false),
    (zoned::opcode::MANAGEMENT_SEND, true),
    (zoned::opcode::MANAGEMENT_RECEIVE, false),
    (zoned::opcode::APPEND, true),
];

/// Opcodes of other namespaces, and whether they change blocks.
pub(crate) const OPCODES: [(u8, bool); 5] = [
    (opcode::FLUSH, false),
    (opcode::WRITE, true),
    (opcode::READ, false),
    (opcode::WRITE_ZEROES, true),
    (opcode::DATASET_MANAGEMENT, true),
];

/// What a device has to do. Ranges lie within the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read blocks.
    Read {
        /// The first block.
        lba: u64,
        /// How many, at most 256.
        blocks: u32,
    },
    /// Write blocks.
    Write {
        /// The first block.
        lba: u64,
        /// How many, at most 256.
        blocks: u32,
        /// Durable when it completes.
        fua: bool,
    },
    /// Make everything completed so far durable.
    Flush,
    /// Make blocks read as zeros.
    WriteZeroes {
        /// The first block.
        lba: u64,
        /// How many, at most 65,536.
        blocks: u32,
        /// Durable when it completes.
        fua: bool,
    },
    /// Append to a zone: the completion has the block where the data is.
    Append {
        /// The first block of the zone.
        zone_start: u64,
        /// How many, at most 256.
        blocks: u32,
        /// Durable when it completes.
        fua: bool,
    },
    /// Change the state of a zone, or of all zones.
    ManageZone {
        /// The first block of the zone; `None` for all zones.
        zone_start: Option<u64>,
        /// The change.
        action: ZoneAction,
    },
    /// Report zones.
    ReportZones {
        /// A block of the first zone.
        lba: u64,
        /// Which zones, as a value of the specification: 0 for all, up to 7.
        filter: u8,
        /// Whether only listed zones are counted.
        partial: bool,
        /// Bytes of the report; behind its end are zeros.
        bytes: usize,
    },
    /// Discard ranges, which are the data of the command: see [`deallocate_ranges`].
    Deallocate {
        /// How many, at most 256.
        ranges: u16,
        /// Durable when it completes.
        fua: bool,
    },
}

/// An operation with the data that it moves.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) operation: Operation,
    pub(crate) transfer: Transfer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    None,
    ToHost(usize),
    FromHost(usize),
}

impl Plan {
    fn bare(operation: Operation) -> Self {
        Self { operation, transfer: Transfer::None }
    }
}

/// Checks an I/O command; `None` if there is nothing to do for it. Every write is durable when it
/// completes if the host has switched the write cache off.
pub(crate) fn plan(
    namespace: &Namespace,
    command: &Command,
    write_cache: bool,
) -> Result<Option<Plan>, Status> {
    let code = command.opcode();
    let opcodes: &[_] = if namespace.zones.is_some() { &ZONED_OPCODES } else { &OPCODES };
    let Some((_, changes)) = opcodes.iter().find(|(known, _)| *known == code) else {
        return Err(Status::INVALID_OPCODE);
    };
    if *changes && namespace.read_only {
        return Err(Status::WRITE_PROTECTED);
    }
    let fua = !write_cache || command.dword(12) >> 30 & 1 != 0;
    if let Some(zones) = &namespace.zones
        && let Some(planned) = zoned::plan(namespace, zones, command, fua)?
    {
        return Ok(Some(planned));
    }
    let planned = match code {
        opcode::FLUSH => Plan::bare(Operation::Flush),
        opcode::DATASET_MANAGEMENT => {
            if command.dword(11) >> 2 & 1 == 0 {
                // The other attributes are hints.
                return Ok(None);
            }
            let ranges = u16::from(command.dword(10).to_le_bytes()[0]) + 1;
            let transfer = Transfer::FromHost(usize::from(ranges) * RANGE_BYTES);
            Plan { operation: Operation::Deallocate { ranges, fua: !write_cache }, transfer }
        }
        opcode::WRITE_ZEROES => {
            let (lba, blocks) = range(command, namespace)?;
            Plan::bare(Operation::WriteZeroes { lba, blocks, fua })
        }
        opcode::READ => {
            let (lba, blocks) = range(command, namespace)?;
            let transfer = Transfer::ToHost(transfer_bytes(blocks)?);
            Plan { operation: Operation::Read { lba, blocks }, transfer }
        }
        opcode::WRITE => {
            let (lba, blocks) = range(command, namespace)?;
            let transfer = Transfer::FromHost(transfer_bytes(blocks)?);
            Plan { operation: Operation::Write { lba, blocks, fua }, transfer }
        }
        other => unreachable!("opcode {other} is in no table"),
    };
    Ok(Some(planned))
}

fn range(command: &Command, namespace: &Namespace) -> Result<(u64, u32), Status> {
    let blocks = (command.dword(12) & 0xFFFF) + 1;
    check_range(command.start(), blocks, namespace.blocks)?;
    Ok((command.start(), blocks))
}

fn check_range(lba: u64, blocks: u32, capacity: u64) -> Result<(), Status> {
    match lba.checked_add(blocks.into()) {
        Some(end) if end <= capacity => Ok(()),
        _ => Err(Status::LBA_OUT_OF_RANGE),
    }
}

fn transfer_bytes(blocks: u32) -> Result<usize, Status> {
    let bytes = blocks as usize * BLOCK_BYTES;
    if bytes <= TRANSFER_BYTES_MAX { Ok(bytes) } else { Err(Status::INVALID_FIELD) }
}

/// The ranges of a Dataset Management command on a namespace of `capacity` blocks: first block and
/// length, without empty ranges.
///
/// # Errors
/// [`Status::LBA_OUT_OF_RANGE`] if one of them is not within the namespace.
pub fn deallocate_ranges(mut data: &[u8], capacity: u64) -> Result<Vec<(u64, u32)>, Status> {
    assert!(data.len().is_multiple_of(RANGE_BYTES), "the length was checked with the command");
    let mut ranges = Vec::with_capacity(data.len() / RANGE_BYTES);
    while data.has_remaining() {
        let _hints = data.get_u32_le();
        let blocks = data.get_u32_le();
        let lba = data.get_u64_le();
        check_range(lba, blocks, capacity)?;
        if blocks > 0 {
            ranges.push((lba, blocks));
        }
    }
    Ok(ranges)
}
