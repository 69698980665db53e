//! Commands to admin queues, and the fabrics commands of all queues.
//!
//! Everything here is answered at once from the state of the target; no command waits for a device.

mod features;
mod identify;
mod log;
pub(crate) mod values;

use std::net::SocketAddr;

use bytes::Bytes;

use crate::command::{Command, Data, Outcome};
use crate::controller::Change;
use crate::status::Status;
use crate::target::{QueueKey, Shutdown, Target};
use crate::transport::TRANSFER_BYTES_MAX;

/// Asynchronous Event Requests that a host may have outstanding.
pub(crate) const EVENTS_MAX: usize = 4;

/// Opcode of all fabrics commands.
pub(crate) const FABRICS: u8 = 0x7F;

/// Types of fabrics commands.
pub(crate) mod fabrics {
    pub(crate) const PROPERTY_SET: u8 = 0x00;
    pub(crate) const CONNECT: u8 = 0x01;
    pub(crate) const PROPERTY_GET: u8 = 0x04;
    pub(crate) const DISCONNECT: u8 = 0x08;
}

/// Opcodes of admin commands.
pub(crate) mod opcode {
    pub(crate) const GET_LOG_PAGE: u8 = 0x02;
    pub(crate) const IDENTIFY: u8 = 0x06;
    pub(crate) const ABORT: u8 = 0x08;
    pub(crate) const SET_FEATURES: u8 = 0x09;
    pub(crate) const GET_FEATURES: u8 = 0x0A;
    pub(crate) const ASYNC_EVENT: u8 = 0x0C;
    pub(crate) const KEEP_ALIVE: u8 = 0x18;
}

/// What becomes of a command.
pub(crate) enum Answer {
    Done(Outcome),
    /// Success with data.
    Data(Bytes),
    /// It is answered when an event happens.
    Hold,
    /// The command of this identifier on this queue should end.
    Abort {
        queue: u16,
        command: u16,
    },
    /// The queue ends after its answer.
    Disconnect,
    /// Done, and everything written must become durable.
    ShutDown(Shutdown),
}

impl From<Result<Outcome, Status>> for Answer {
    fn from(result: Result<Outcome, Status>) -> Self {
        Self::Done(result.unwrap_or_else(Outcome::from))
    }
}

/// A fabrics command on a connected queue.
pub(crate) fn fabrics_command(target: &mut Target, key: QueueKey, command: &Command) -> Answer {
    if let Err(status) = command.data() {
        return Answer::Done(status.into());
    }
    match command.fabrics_type() {
        // A connection has one queue.
        fabrics::CONNECT => Answer::Done(Status::COMMAND_SEQUENCE.into()),
        // The admin queue ends with its connection.
        fabrics::DISCONNECT if key.queue > 0 && command.u16_at(40) == 0 => Answer::Disconnect,
        fabrics::PROPERTY_GET if key.queue == 0 => property_get(target, key, command).into(),
        fabrics::PROPERTY_SET if key.queue == 0 => match property_set(target, key, command) {
            Ok(Change::ShuttingDown(serial)) => {
                Answer::ShutDown(Shutdown { controller: key.controller, serial })
            }
            Ok(Change::None | Change::Enabled) => Answer::Done(Outcome::SUCCESS),
            Err(status) => Answer::Done(status.into()),
        },
        fabrics::DISCONNECT => Answer::Done(Status::INVALID_FIELD.into()),
        _ => Answer::Done(Status::INVALID_OPCODE.into()),
    }
}

/// The offset of a property, and whether it has 8 bytes.
fn property(command: &Command) -> Result<(u32, bool), Status> {
    match command.u64_at(40) & 7 {
        size @ (0 | 1) => Ok((command.dword(11), size == 1)),
        _ => Err(Status::INVALID_FIELD),
    }
}

fn property_get(target: &mut Target, key: QueueKey, command: &Command) -> Result<Outcome, Status> {
    let (offset, is_wide) = property(command)?;
    let controller = target.controller(key).ok_or(Status::COMMAND_SEQUENCE)?;
    let result = controller.property(offset, is_wide)?;
    Ok(Outcome { result, ..Outcome::SUCCESS })
}

fn property_set(target: &mut Target, key: QueueKey, command: &Command) -> Result<Change, Status> {
    let (offset, is_wide) = property(command)?;
    let serial = target.next_serial();
    let controller = target.controller(key).ok_or(Status::COMMAND_SEQUENCE)?;
    let change = controller.set_property(offset, is_wide, command.u64_at(48), serial)?;
    if change == Change::Enabled {
        controller.enable(serial);
    }
    Ok(change)
}

/// A command on an admin queue that is no fabrics command.
pub(crate) fn admin_command(
    target: &mut Target,
    key: QueueKey,
    command: &Command,
    events_held: usize,
    reached_at: SocketAddr,
) -> Answer {
    let Some(controller) = target.controller(key) else {
        return Answer::Done(Status::COMMAND_SEQUENCE.into());
    };
    let is_discovery = controller.is_discovery;
    if let Err(status) = command.data() {
        return Answer::Done(status.into());
    }
    match command.opcode() {
        opcode::KEEP_ALIVE => Answer::Done(Outcome::SUCCESS),
        _ if !controller.is_ready() => Answer::Done(Status::COMMAND_SEQUENCE.into()),
        opcode::IDENTIFY => {
            with_data(command, identify::LENGTH, identify::page(target, key, command))
        }
        opcode::GET_LOG_PAGE => match log::length(command) {
            Ok(length) => {
                with_data(command, length, log::page(target, key, command, length, reached_at))
            }
            Err(status) => Answer::Done(status.into()),
        },
        opcode::GET_FEATURES => features::get(target, key, command),
        opcode::SET_FEATURES => features::set(target, key, command).into(),
        opcode::ASYNC_EVENT if events_held < EVENTS_MAX => Answer::Hold,
        opcode::ASYNC_EVENT => Answer::Done(Status::EVENT_LIMIT.into()),
        opcode::ABORT if !is_discovery => {
            let which = command.dword(10).to_le_bytes();
            let queue = u16::from_le_bytes([which[0], which[1]]);
            Answer::Abort { queue, command: u16::from_le_bytes([which[2], which[3]]) }
        }
        _ => Answer::Done(Status::INVALID_OPCODE.into()),
    }
}

/// Data for the host, if the host has described memory for exactly this much.
pub(crate) fn with_data(command: &Command, length: usize, data: Result<Bytes, Status>) -> Answer {
    assert!(length <= TRANSFER_BYTES_MAX, "lengths are checked when they are parsed");
    let described = match command.data() {
        Ok(Data::Host { length_bytes }) if length_bytes as usize == length => data,
        Ok(Data::Host { .. }) => Err(Status::SGL_LENGTH_INVALID),
        Ok(Data::Capsule { .. }) => Err(Status::SGL_TYPE_INVALID),
        Err(status) => Err(status),
    };
    match described {
        Ok(data) => {
            assert_eq!(data.len(), length, "a page has the length of its command");
            Answer::Data(data)
        }
        Err(status) => Answer::Done(status.into()),
    }
}
