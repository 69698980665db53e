//! Spares in use: a lost member is replaced without an operator.

use std::rc::Rc;

use zoneweave_zoned::{Status, ZonedDevice};

use crate::array::repair::rebuild::{enter_service, rebuild};
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::core::Core;
use crate::log::format::MemberUuid;
use crate::log::members::error::ReplaceError;
use crate::log::members::replace::{check_fit, put_in};
use crate::scheme::Column;

/// Adds a spare drive.
///
/// # Errors
/// If the drive does not fit.
pub(in crate::log) fn add(
    core: &Rc<Core>,
    device: Rc<dyn ZonedDevice>,
    uuid: MemberUuid,
) -> Result<(), ReplaceError> {
    check_fit(&core.state.borrow(), &*device)?;
    if let Some(slot) = core.state.borrow().array.slot_of(&device) {
        return Err(ReplaceError::InService { slot });
    }
    let kept = {
        let mut spares = core.spares.borrow_mut();
        if spares.waiting.iter().any(|(waiting, _)| Rc::ptr_eq(waiting, &device)) {
            return Err(ReplaceError::SpareAlready);
        }
        spares.waiting.push_back((device, uuid));
        std::mem::replace(&mut spares.kept, true)
    };
    if !kept {
        core.handle.spawn("spares", keep(core.clone()));
    }
    core.changed.open();
    Ok(())
}

/// Fills vacant slots, until the volume closes.
async fn keep(core: Rc<Core>) {
    while !core.closing.get() {
        let Some(column) = vacancy(&core) else {
            core.changed.wait().await;
            continue;
        };
        let _admin = core.admin.acquire().await;
        if core.closing.get() || vacancy(&core) != Some(column) {
            mark(Mark::SpareNotNeeded);
            continue;
        }
        let spare = core.spares.borrow_mut().take(column);
        let (device, uuid) = spare.expect("there is no vacancy without a spare");
        mark(Mark::SpareTaken);
        let reason = core.state.borrow().array.members[column.index()].failure.clone();
        let outcome = seat(&core, column, device, uuid).await;
        let outcome = outcome.map_err(|error| reason_of(&core, column, uuid, &error));
        let given_up = outcome.is_err();
        if given_up {
            // The spare has a reason of its own.
            keep_reason(&core, column, reason);
        }
        core.spares.borrow_mut().note(outcome);
        if given_up {
            mark(Mark::SpareGivenUp);
            core.handle.yield_now().await;
        }
    }
}

/// Why a spare was given up. To its rebuild it is only gone, and the member knows why.
fn reason_of(core: &Core, column: Column, uuid: MemberUuid, error: &ReplaceError) -> String {
    let state = core.state.borrow();
    let member = &state.array.members[column.index()];
    let is_gone = *error == ReplaceError::DriveFailed(Status::DeviceGone);
    match member.failure.as_ref().filter(|_| is_gone && member.entry.uuid == uuid) {
        Some(known) => format!("the new drive failed: {known}"),
        None => error.to_string(),
    }
}

/// A slot that is vacant again has lost its drive for the reason that it had before.
fn keep_reason(core: &Core, column: Column, reason: Option<String>) {
    let mut state = core.state.borrow_mut();
    let member = &mut state.array.members[column.index()];
    if member.device.is_none() && reason.is_some() {
        member.failure = reason;
    }
}

/// Replaces a member by a spare, in the same steps as any replacement.
async fn seat(
    core: &Rc<Core>,
    column: Column,
    device: Rc<dyn ZonedDevice>,
    uuid: MemberUuid,
) -> Result<(), ReplaceError> {
    put_in(core, column, device, uuid).await?;
    if mutant(Mutant::SpareNotRebuilt) {
        return Ok(enter_service(core, column).await?);
    }
    Ok(rebuild(core, column).await?)
}

/// A slot that a spare may take.
fn vacancy(core: &Core) -> Option<Column> {
    let state = core.state.borrow();
    let busy =
        core.is_unpublished() || state.array.stopped.is_some() || state.array.membership_dirty;
    if busy || core.spares.borrow().waiting.is_empty() {
        return None;
    }
    state.array.scheme().iter().find(|column| state.array.members[column.index()].device.is_none())
}
