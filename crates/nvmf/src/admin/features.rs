//! Get Features and Set Features.

use bytes::Bytes;

use super::values::feature;
use super::{Answer, with_data};
use crate::command::{Command, Outcome};
use crate::controller::{Controller, IO_QUEUES_MAX};
use crate::status::Status;
use crate::target::{QueueKey, Target};

/// The feature of a command.
fn feature_of(command: &Command) -> u8 {
    command.dword(10).to_le_bytes()[0]
}

pub(super) fn get(target: &mut Target, key: QueueKey, command: &Command) -> Answer {
    // Nothing is saved, so that only current values can be asked for.
    if command.dword(10) >> 8 & 7 != 0 {
        return Answer::Done(Status::INVALID_FIELD.into());
    }
    let has_cache = has_cache(target);
    let Some(controller) = target.controller(key) else {
        return Answer::Done(Status::COMMAND_SEQUENCE.into());
    };
    let feature = feature_of(command);
    if feature == feature::HOST_IDENTIFIER && !controller.is_discovery {
        // Fabrics have identifiers of 16 bytes only.
        let is_extended = command.dword(11) & 1 != 0;
        let id = is_extended.then(|| Bytes::copy_from_slice(&controller.host_id));
        return with_data(command, 16, id.ok_or(Status::INVALID_FIELD));
    }
    let value = current(controller, feature, has_cache);
    value.map(|value| Outcome { result: value.into(), ..Outcome::SUCCESS }).into()
}

fn current(controller: &mut Controller, feature: u8, has_cache: bool) -> Result<u32, Status> {
    let is_discovery = controller.is_discovery;
    match feature {
        feature::KEEP_ALIVE => return Ok(controller.keep_alive_ms()),
        _ if is_discovery => {}
        // The only combination of command sets has number 0.
        feature::POWER_MANAGEMENT | feature::COMMAND_SET_PROFILE => return Ok(0),
        feature::NUMBER_OF_QUEUES => return Ok(queues(controller.queue_limit)),
        feature::VOLATILE_WRITE_CACHE if has_cache => {
            return Ok(controller.features.write_cache.into());
        }
        _ => {}
    }
    controller.features.value(feature, is_discovery).copied().ok_or(Status::INVALID_FIELD)
}

pub(super) fn set(
    target: &mut Target,
    key: QueueKey,
    command: &Command,
) -> Result<Outcome, Status> {
    if command.dword(10) >> 31 != 0 {
        return Err(Status::FEATURE_NOT_SAVEABLE);
    }
    let has_cache = has_cache(target);
    let controller = target.controller(key).ok_or(Status::COMMAND_SEQUENCE)?;
    let (feature, value) = (feature_of(command), command.dword(11));
    let is_discovery = controller.is_discovery;
    match feature {
        feature::KEEP_ALIVE => controller.set_keep_alive_ms(value),
        feature::NUMBER_OF_QUEUES if !is_discovery => return set_queues(controller, value),
        feature::VOLATILE_WRITE_CACHE if has_cache && !is_discovery => {
            controller.features.write_cache = value & 1 != 0;
        }
        // There is one power state.
        feature::POWER_MANAGEMENT if !is_discovery && value & 0x1F == 0 => {}
        feature::COMMAND_SET_PROFILE if !is_discovery => match value & 0x1FF {
            0 => {}
            _ => return Err(Status::COMMAND_SET_REJECTED),
        },
        feature::HOST_IDENTIFIER if !is_discovery => return Err(Status::FEATURE_NOT_CHANGEABLE),
        _ => {
            let place = controller.features.value(feature, is_discovery);
            *place.ok_or(Status::INVALID_FIELD)? = value;
        }
    }
    Ok(Outcome::SUCCESS)
}

/// Grants I/O queues: as many as both sides can have.
fn set_queues(controller: &mut Controller, value: u32) -> Result<Outcome, Status> {
    let (submission, completion) = (value & 0xFFFF, value >> 16);
    if submission == 0xFFFF || completion == 0xFFFF {
        return Err(Status::INVALID_FIELD);
    }
    if controller.has_queues() {
        return Err(Status::COMMAND_SEQUENCE);
    }
    // Both count from 0, and a queue of fabrics is a pair.
    let wanted = u16::try_from(submission.min(completion)).expect("16 bits").saturating_add(1);
    controller.queue_limit = wanted.min(IO_QUEUES_MAX);
    Ok(Outcome { result: queues(controller.queue_limit).into(), ..Outcome::SUCCESS })
}

fn queues(limit: u16) -> u32 {
    let last = u32::from(limit - 1);
    last | last << 16
}

pub(super) fn has_cache(target: &Target) -> bool {
    target.subsystem().namespaces.iter().any(|namespace| namespace.volatile_cache)
}
