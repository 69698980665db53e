//! The state of a hot spare, with the words that JSON uses for it.

use serde::{Deserialize, Serialize};
use zoneweave_raid::log;

/// The state of a hot spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SpareState {
    Waiting,
    Rebuilding,
    Rebuilt,
    GivenUp,
}

impl From<log::SpareState> for SpareState {
    fn from(taken: log::SpareState) -> Self {
        match taken {
            log::SpareState::Rebuilding => Self::Rebuilding,
            log::SpareState::Rebuilt => Self::Rebuilt,
            log::SpareState::GivenUp => Self::GivenUp,
        }
    }
}
