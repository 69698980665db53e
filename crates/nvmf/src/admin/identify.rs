//! Identify: the data structures of controller and namespaces.

use bytes::Bytes;

use super::{EVENTS_MAX, features};
use crate::command::Command;
use crate::connect::QUEUE_ENTRIES_MAX;
use crate::controller::{KEEP_ALIVE_UNITS, VERSION};
use crate::fields::Page;
use crate::nqn::DISCOVERY_NQN;
use crate::pdu::COMMAND_BYTES;
use crate::status::Status;
use crate::subsystem::{Namespace, Zones};
use crate::target::{QueueKey, Target};
use crate::transport::{CAPSULE_DATA_BYTES_MAX, TRANSFER_BYTES_MAX};

/// Bytes of every structure.
pub(super) const LENGTH: usize = 4096;
/// Blocks of 4 KiB.
pub(crate) const BLOCK_SHIFT: u8 = 12;
/// Optional commands: Dataset Management and Write Zeroes, of namespaces without zones.
const OPTIONAL_COMMANDS: u16 = 1 << 2 | 1 << 3;

/// Numbers of the structures (CNS).
mod structure {
    pub(super) const NAMESPACE: u8 = 0x00;
    pub(super) const CONTROLLER: u8 = 0x01;
    pub(super) const ACTIVE_NAMESPACES: u8 = 0x02;
    pub(super) const DESCRIPTORS: u8 = 0x03;
    pub(super) const SET_NAMESPACE: u8 = 0x05;
    pub(super) const SET_CONTROLLER: u8 = 0x06;
    pub(super) const SET_ACTIVE_NAMESPACES: u8 = 0x07;
    pub(super) const COMMAND_SETS: u8 = 0x1C;
}

/// Identifiers of command sets.
pub(super) mod command_set {
    pub(in crate::admin) const NVM: u8 = 0;
    pub(in crate::admin) const ZONED: u8 = 2;
}

fn command_set_of(namespace: &Namespace) -> u8 {
    if namespace.zones.is_some() { command_set::ZONED } else { command_set::NVM }
}

pub(super) fn page(target: &mut Target, key: QueueKey, command: &Command) -> Result<Bytes, Status> {
    let controller = target.controller(key).ok_or(Status::COMMAND_SEQUENCE)?;
    let (is_discovery, sets) = (controller.is_discovery, controller.command_sets());
    let number = command.dword(10).to_le_bytes()[0];
    let set = command.dword(11).to_le_bytes()[3];
    let id = command.namespace();
    let page = match number {
        structure::CONTROLLER if is_discovery => discovery_controller(target, key),
        _ if is_discovery => return Err(Status::INVALID_FIELD),
        structure::CONTROLLER => io_controller(target, key),
        structure::NAMESPACE => namespace(target.namespace(id, sets)?),
        structure::ACTIVE_NAMESPACES => active(target, id, |namespace| sets.has(namespace))?,
        structure::DESCRIPTORS => descriptors(target.namespace(id, sets)?),
        structure::SET_NAMESPACE => of_set(target.namespace(id, sets)?, set)?,
        structure::SET_CONTROLLER => match (set, target.append_blocks()) {
            // No limits beyond that of transfers: DMRL and DMRSL of 0 say so, and DMSL.
            (command_set::NVM, _) => Page::new(LENGTH),
            (command_set::ZONED, Some(blocks)) => {
                Page::new(LENGTH).u8(0, u8::try_from(blocks.ilog2()).expect("32 bits"))
            }
            _ => return Err(Status::INVALID_FIELD),
        },
        structure::SET_ACTIVE_NAMESPACES => {
            let is_of = |namespace: &Namespace| command_set_of(namespace) == set;
            active(target, id, |namespace| sets.has(namespace) && is_of(namespace))?
        }
        structure::COMMAND_SETS => {
            let zoned = u64::from(target.append_blocks().is_some());
            Page::new(LENGTH).u64(0, 1 << command_set::NVM | zoned << command_set::ZONED)
        }
        _ => return Err(Status::INVALID_FIELD),
    };
    Ok(page.freeze())
}

/// What a command set adds to a namespace.
fn of_set(namespace: &Namespace, set: u8) -> Result<Page, Status> {
    match (set, namespace.zones) {
        // Protection information, which ours have not.
        (command_set::NVM, _) => Ok(Page::new(LENGTH)),
        (command_set::ZONED, Some(zones)) => Ok(zoned(zones)),
        _ => Err(Status::INVALID_FIELD),
    }
}

fn zoned(zones: Zones) -> Page {
    // Limits count from 0, and all ones are none.
    let limit = |zones: Option<u32>| zones.map_or(u32::MAX, |zones| zones - 1);
    Page::new(LENGTH)
        .u16(2, zones.reads_across.into())
        .u32(4, limit(zones.max_active))
        .u32(8, limit(zones.max_open))
        .u64(2816, zones.size)
}

/// The fields of all controllers.
fn controller(target: &Target, key: QueueKey) -> Page {
    let subsystem = target.subsystem();
    let transfer_pages = (TRANSFER_BYTES_MAX / LENGTH).ilog2();
    Page::new(LENGTH)
        .padded(4, 20, &subsystem.serial)
        .padded(24, 40, &subsystem.model)
        .padded(64, 8, &subsystem.firmware)
        .u8(77, u8::try_from(transfer_pages).expect("a few bits"))
        .u16(78, key.controller.0)
        .u32(80, VERSION)
        // 128-bit host identifiers; any traffic restarts the keep-alive timer.
        .u32(96, 1 | 1 << 6)
        .u8(259, u8::try_from(EVENTS_MAX - 1).expect("few events"))
        // Get Log Page has offsets and long lengths.
        .u8(261, 1 << 2)
        .u16(320, KEEP_ALIVE_UNITS)
        .u16(514, QUEUE_ENTRIES_MAX)
        // SGLs of any alignment; offsets into the capsule; transport data blocks.
        .u32(536, 1 | 1 << 20 | 1 << 21)
}

fn discovery_controller(target: &Target, key: QueueKey) -> Page {
    controller(target, key).u8(111, 2).terminated(768, 256, DISCOVERY_NQN)
}

fn io_controller(target: &Target, key: QueueKey) -> Page {
    let subsystem = target.subsystem();
    let namespaces = u32::try_from(subsystem.namespaces.len()).expect("at most 1,024");
    // A flush of all namespaces at once is not offered.
    let cache = u8::from(features::has_cache(target)) | 2 << 1;
    let has_blocks = subsystem.namespaces.iter().any(|namespace| namespace.zones.is_none());
    let capsule_units = (COMMAND_BYTES + CAPSULE_DATA_BYTES_MAX) / 16;
    controller(target, key)
        // Several hosts may be connected, each by a controller of its own.
        .u8(76, 1 << 1)
        .u8(111, 1)
        .u8(258, 3)
        // One firmware slot, which cannot be written.
        .u8(260, 1 | 1 << 1)
        // Log of commands and their effects.
        .u8(261, 1 << 1 | 1 << 2)
        .u16(266, 343)
        .u16(268, 353)
        .u8(512, 0x66)
        .u8(513, 0x44)
        .u32(516, namespaces)
        .u16(520, if has_blocks { OPTIONAL_COMMANDS } else { 0 })
        .u8(525, cache)
        .terminated(768, 256, &subsystem.nqn)
        .u32(1792, u32::try_from(capsule_units).expect("a few KiB"))
        .u32(1796, 1)
        .u8(1803, 1)
        // Disconnect is supported.
        .u16(1804, 1)
}

fn namespace(namespace: &Namespace) -> Page {
    let optimal = namespace.optimal_blocks;
    Page::new(LENGTH)
        .u64(0, namespace.blocks)
        .u64(8, namespace.blocks)
        .u64(16, namespace.blocks)
        .u8(24, u8::from(optimal > 0) << 4)
        .u8(30, 1)
        // Deallocated blocks read as zeros, also after Write Zeroes with deallocation.
        .u8(33, 1 | 1 << 3)
        // Writes have a granularity and alignment of one block, which counts as 0, and a best size.
        .u16(72, optimal.saturating_sub(1))
        .u8(99, namespace.read_only.into())
        .u8(130, BLOCK_SHIFT)
}

/// Identifiers above `after` of those namespaces.
fn active(
    target: &Target,
    after: u32,
    is_listed: impl Fn(&Namespace) -> bool,
) -> Result<Page, Status> {
    if after >= 0xFFFF_FFFE {
        return Err(Status::INVALID_NAMESPACE);
    }
    let namespaces = (1_u32..).zip(&target.subsystem().namespaces);
    let ids = namespaces.filter(|(id, namespace)| *id > after && is_listed(namespace));
    let put = |page: Page, (index, (id, _)): (usize, (u32, _))| page.u32(index * 4, id);
    Ok(ids.enumerate().fold(Page::new(LENGTH), put))
}

fn descriptors(namespace: &Namespace) -> Page {
    let page = Page::new(LENGTH).u8(0, 3).u8(1, 16).put(4, namespace.uuid);
    page.u8(20, 4).u8(21, 1).u8(24, command_set_of(namespace))
}
