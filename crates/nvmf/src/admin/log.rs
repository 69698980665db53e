//! Get Log Page.

use std::net::SocketAddr;

use bytes::Bytes;

use super::identify::command_set;
use super::opcode;
use crate::command::Command;
use crate::connect::QUEUE_ENTRIES_MAX;
use crate::controller::Counters;
use crate::fields::Page;
use crate::nqn::DISCOVERY_NQN;
use crate::nvm;
use crate::status::Status;
use crate::target::{QueueKey, Target};
use crate::transport::TRANSFER_BYTES_MAX;

/// Identifiers of log pages.
mod page_id {
    pub(super) const ERRORS: u8 = 0x01;
    pub(super) const HEALTH: u8 = 0x02;
    pub(super) const FIRMWARE: u8 = 0x03;
    pub(super) const CHANGED_NAMESPACES: u8 = 0x04;
    pub(super) const EFFECTS: u8 = 0x05;
    pub(super) const DISCOVERY: u8 = 0x70;
}

/// Bytes that the host asks for.
pub(super) fn length(command: &Command) -> Result<usize, Status> {
    let dwords = u64::from(command.dword(10) >> 16) | u64::from(command.dword(11) & 0xFFFF) << 16;
    let length = usize::try_from((dwords + 1) * 4).unwrap_or(usize::MAX);
    if length <= TRANSFER_BYTES_MAX { Ok(length) } else { Err(Status::INVALID_FIELD) }
}

/// The part of a page that the host asks for; behind the end of the page are zeros.
pub(super) fn page(
    target: &mut Target,
    key: QueueKey,
    command: &Command,
    length: usize,
    reached_at: SocketAddr,
) -> Result<Bytes, Status> {
    let controller = target.controller(key).ok_or(Status::COMMAND_SEQUENCE)?;
    let (is_discovery, counters) = (controller.is_discovery, controller.counters);
    let page = match command.dword(10).to_le_bytes()[0] {
        page_id::DISCOVERY if is_discovery => discovery(target, reached_at),
        _ if is_discovery => return Err(Status::INVALID_LOG_PAGE),
        // One entry, of no error: each error is in the completion of its command.
        page_id::ERRORS => Page::new(64),
        page_id::HEALTH => health(&counters),
        page_id::FIRMWARE => Page::new(512).u8(0, 1).padded(8, 8, &target.subsystem().firmware),
        // Namespaces do not change while they are served.
        page_id::CHANGED_NAMESPACES => Page::new(4096),
        page_id::EFFECTS => match command.dword(14).to_le_bytes()[3] {
            command_set::NVM => effects(&nvm::OPCODES),
            command_set::ZONED if target.append_blocks().is_some() => effects(&nvm::ZONED_OPCODES),
            _ => return Err(Status::INVALID_FIELD),
        },
        _ => return Err(Status::INVALID_LOG_PAGE),
    };
    let page = page.freeze();
    let offset = u64::from(command.dword(12)) | u64::from(command.dword(13)) << 32;
    let start = usize::try_from(offset).ok().filter(|start| *start <= page.len());
    let start = start.filter(|start| start.is_multiple_of(4)).ok_or(Status::INVALID_FIELD)?;
    let mut part = page[start..].to_vec();
    part.resize(length, 0);
    Ok(part.into())
}

/// A device of the host's own temperature and age has neither; counts are of this controller.
fn health(counters: &Counters) -> Page {
    // Units of 1,000 times 512 bytes, rounded up.
    let units = |blocks: u64| (blocks * 8).div_ceil(1000);
    Page::new(512)
        .u16(1, 298)
        .u8(3, 100)
        .u64(32, units(counters.read_blocks))
        .u64(48, units(counters.written_blocks))
        .u64(64, counters.reads)
        .u64(80, counters.writes)
}

/// Which commands there are, and which of them change blocks.
fn effects(io: &[(u8, bool)]) -> Page {
    const SUPPORTED: u32 = 1;
    const CHANGES_BLOCKS: u32 = 1 << 1;
    let admin = [
        opcode::GET_LOG_PAGE,
        opcode::IDENTIFY,
        opcode::ABORT,
        opcode::SET_FEATURES,
        opcode::GET_FEATURES,
        opcode::ASYNC_EVENT,
        opcode::KEEP_ALIVE,
    ];
    let put = |page: Page, code: u8| page.u32(usize::from(code) * 4, SUPPORTED);
    let page = admin.into_iter().fold(Page::new(4096), put);
    let put = |page: Page, &(code, writes): &(u8, bool)| {
        let effect = if writes { SUPPORTED | CHANGES_BLOCKS } else { SUPPORTED };
        page.u32(1024 + usize::from(code) * 4, effect)
    };
    io.iter().fold(page, put)
}

/// Where the subsystem, and this service itself, can be reached: at the address where this host has
/// reached the service, whatever other addresses the machine has.
fn discovery(target: &Target, reached_at: SocketAddr) -> Page {
    const CURRENT: u8 = 3;
    const NVM_SUBSYSTEM: u8 = 2;
    let services = [(DISCOVERY_NQN, CURRENT), (&*target.subsystem().nqn, NVM_SUBSYSTEM)];
    let page = Page::new(1024 * (1 + services.len())).u64(8, services.len() as u64);
    services.into_iter().enumerate().fold(page, |page, (index, (nqn, kind))| {
        entry(page, 1024 * (1 + index), reached_at, nqn, kind)
    })
}

fn entry(page: Page, at: usize, address: SocketAddr, nqn: &str, kind: u8) -> Page {
    const TCP: u8 = 3;
    let family = if address.is_ipv4() { 1 } else { 2 };
    page.u8(at, TCP)
        .u8(at + 1, family)
        .u8(at + 2, kind)
        // A secure channel is not required.
        .u8(at + 3, 2)
        // Controllers are made on demand.
        .u16(at + 6, 0xFFFF)
        .u16(at + 8, QUEUE_ENTRIES_MAX)
        .padded(at + 32, 32, &address.port().to_string())
        .terminated(at + 256, 256, nqn)
        .padded(at + 512, 256, &address.ip().to_string())
}
