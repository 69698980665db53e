//! Spares: drives that take the place of lost members without anybody being asked.
//!
//! A spare is known to the running volume only. Nothing is on media of it, and nothing on it is
//! touched, before it becomes a member, by the same steps as any replacement. So it needs no room
//! in the format, and whoever starts the array says what its spares are.
//!
//! Invariant: a spare takes a place only while nobody is in it and what is left can be written. One
//! that fails, or is refused, is let go, and the next is tried.

use std::collections::VecDeque;
use std::rc::Rc;

use serde::Serialize;
use zoneweave_zoned::ZonedDevice;

use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::core::Core;
use crate::log::format::MemberUuid;
use crate::log::members::replace::{ReplaceError, check_fit, put_in};
use crate::log::repair::rebuild::{enter_service, rebuild};
use crate::scheme::Column;

/// What a volume tells about its spares.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SparesStatus {
    /// Drives that wait to take the place of one that fails.
    pub waiting: u64,
    /// Those that did, or tried to, in this order.
    pub taken: Vec<TakenSpare>,
}

/// A spare that was put into a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TakenSpare {
    /// The slot.
    pub slot: u8,
    /// What it is called as a member.
    pub uuid: String,
    /// `rebuilding`, `rebuilt` or `given_up`.
    pub state: &'static str,
    /// Why it was given up.
    pub reason: Option<String>,
}

/// The spares of a volume, in the order in which they are taken.
#[derive(Default)]
pub(in crate::log) struct Spares {
    waiting: VecDeque<(Rc<dyn ZonedDevice>, MemberUuid)>,
    /// No more than there ever were.
    taken: Vec<Taken>,
    /// Whether the task that looks for vacant places runs.
    kept: bool,
}

/// A spare that is no more.
struct Taken {
    column: Column,
    uuid: MemberUuid,
    /// `None` while it is rebuilt.
    outcome: Option<Result<(), ReplaceError>>,
}

impl Spares {
    /// What people are told about them.
    #[must_use]
    pub(in crate::log) fn status(&self) -> SparesStatus {
        let taken = self.taken.iter().map(|taken| TakenSpare {
            slot: u8::try_from(taken.column.index()).unwrap_or(u8::MAX),
            uuid: taken.uuid.to_string(),
            state: match taken.outcome {
                None => "rebuilding",
                Some(Ok(())) => "rebuilt",
                Some(Err(_)) => "given_up",
            },
            reason: taken
                .outcome
                .as_ref()
                .and_then(|outcome| outcome.as_ref().err())
                .map(ToString::to_string),
        });
        SparesStatus { waiting: self.waiting.len() as u64, taken: taken.collect() }
    }

    /// Takes the one that has waited longest, for a place.
    fn take(&mut self, column: Column) -> Option<(Rc<dyn ZonedDevice>, MemberUuid)> {
        let (device, uuid) = self.waiting.pop_front()?;
        self.taken.push(Taken { column, uuid, outcome: None });
        Some((device, uuid))
    }

    /// The one taken last is in service, or will never be.
    fn note(&mut self, outcome: Result<(), ReplaceError>) {
        if let Some(taken) = self.taken.last_mut() {
            taken.outcome = Some(outcome);
        }
    }
}

/// Adds a spare.
///
/// # Errors
/// If the drive does not fit.
pub(in crate::log) fn add(
    core: &Rc<Core>,
    device: Rc<dyn ZonedDevice>,
    uuid: MemberUuid,
) -> Result<(), ReplaceError> {
    check_fit(&core.state.borrow(), &*device)?;
    if let Some(slot) = core.state.borrow().slot_of(&device) {
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

/// Fills vacant places, until the volume closes.
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
        let outcome = seat(&core, column, device, uuid).await;
        let given_up = outcome.is_err();
        core.spares.borrow_mut().note(outcome);
        if given_up {
            mark(Mark::SpareGivenUp);
            core.handle.yield_now().await;
        }
    }
}

/// The same steps as for any replacement.
async fn seat(
    core: &Rc<Core>,
    column: Column,
    device: Rc<dyn ZonedDevice>,
    uuid: MemberUuid,
) -> Result<(), ReplaceError> {
    put_in(core, column, device, uuid).await?;
    if mutant(Mutant::SpareNotRebuilt) {
        return enter_service(core, column).await;
    }
    rebuild(core, column).await
}

/// A place that a spare could take.
fn vacancy(core: &Core) -> Option<Column> {
    let state = core.state.borrow();
    let busy = state.stopped.is_some() || state.membership_dirty;
    if busy || core.spares.borrow().waiting.is_empty() {
        return None;
    }
    state.scheme().iter().find(|column| state.members[column.index()].device.is_none())
}
