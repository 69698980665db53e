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

use crate::log::format::MemberUuid;
use crate::log::members::error::ReplaceError;
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
    pub(in crate::log) waiting: VecDeque<(Rc<dyn ZonedDevice>, MemberUuid)>,
    /// No more than there ever were.
    taken: Vec<Taken>,
    /// Whether the task that looks for vacant places runs.
    pub(in crate::log) kept: bool,
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
    pub(in crate::log) fn take(
        &mut self,
        column: Column,
    ) -> Option<(Rc<dyn ZonedDevice>, MemberUuid)> {
        let (device, uuid) = self.waiting.pop_front()?;
        self.taken.push(Taken { column, uuid, outcome: None });
        Some((device, uuid))
    }

    /// The one taken last is in service, or will never be.
    pub(in crate::log) fn note(&mut self, outcome: Result<(), ReplaceError>) {
        if let Some(taken) = self.taken.last_mut() {
            taken.outcome = Some(outcome);
        }
    }
}
