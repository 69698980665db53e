//! Spares: drives that replace lost members without an operator.
//!
//! A spare is known to the running volume only. It has no record on media, and nothing on it is
//! touched, before it becomes a member by the same steps as any replacement. So it needs no place
//! in the format, and each start lists its spares.
//!
//! Invariant: a spare takes a slot only while that is vacant and the remaining members can be
//! written. A spare that fails, or is refused, is dropped, and the next is tried.

use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use serde::Serialize;
use zoneweave_zoned::ZonedDevice;

use crate::array::format::record::MemberUuid;
use crate::scheme::Column;

/// Spares of a volume.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SparesStatus {
    /// Number of unused spares.
    pub waiting: u64,
    /// Spares that were put into a slot, in this order.
    pub taken: Vec<TakenSpare>,
}

/// The state of a spare that was put into a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpareState {
    /// It is being rebuilt.
    Rebuilding,
    /// Its rebuild is complete.
    Rebuilt,
    /// It failed, or was refused as a member.
    GivenUp,
}

impl fmt::Display for SpareState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A spare that was put into a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TakenSpare {
    /// The slot that it took, from zero.
    pub slot: u8,
    /// UUID of the member, in hexadecimal.
    pub uuid: String,
    /// What became of it.
    pub state: SpareState,
    /// Reason for giving it up.
    pub reason: Option<String>,
}

/// The spares of a volume, in the order of their use.
#[derive(Default)]
pub(crate) struct Spares {
    pub(crate) waiting: VecDeque<(Rc<dyn ZonedDevice>, MemberUuid)>,
    /// At most as many as there ever were.
    taken: Vec<Taken>,
    /// Whether the task that fills vacant slots runs.
    pub(crate) kept: bool,
}

/// A spare that was used.
struct Taken {
    column: Column,
    uuid: MemberUuid,
    /// `None` during its rebuild; the reason as text if it was given up.
    outcome: Option<Result<(), String>>,
}

impl Spares {
    /// The spares for the status report.
    #[must_use]
    pub(crate) fn status(&self) -> SparesStatus {
        let taken = self.taken.iter().map(|taken| TakenSpare {
            slot: u8::try_from(taken.column.index()).unwrap_or(u8::MAX),
            uuid: taken.uuid.to_string(),
            state: match taken.outcome {
                None => SpareState::Rebuilding,
                Some(Ok(())) => SpareState::Rebuilt,
                Some(Err(_)) => SpareState::GivenUp,
            },
            reason: taken.outcome.as_ref().and_then(|outcome| outcome.as_ref().err()).cloned(),
        });
        SparesStatus { waiting: self.waiting.len() as u64, taken: taken.collect() }
    }

    /// Gives a spare back that waits; returns whether there was one.
    pub(crate) fn remove(&mut self, uuid: MemberUuid) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(_, waiting)| *waiting != uuid);
        self.waiting.len() < before
    }

    /// Takes the spare that has waited longest, for a slot.
    pub(crate) fn take(&mut self, column: Column) -> Option<(Rc<dyn ZonedDevice>, MemberUuid)> {
        let (device, uuid) = self.waiting.pop_front()?;
        self.taken.push(Taken { column, uuid, outcome: None });
        Some((device, uuid))
    }

    /// Records whether the last one is in service, or failed.
    pub(crate) fn note(&mut self, outcome: Result<(), String>) {
        if let Some(taken) = self.taken.last_mut() {
            assert!(taken.outcome.is_none(), "the spare in {} is put in twice", taken.column);
            taken.outcome = Some(outcome);
        }
    }
}
