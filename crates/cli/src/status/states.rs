//! States of members, spares and write lanes, with the words that JSON and text use for them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MemberState {
    Online,
    Rebuilding,
    Failed,
    /// Not failed by the records, but its drive was not found.
    Missing,
}

impl MemberState {
    /// The state that the engine reports.
    pub(crate) fn of_engine(word: &str) -> Self {
        match word {
            "online" => Self::Online,
            "rebuilding" => Self::Rebuilding,
            "missing" => Self::Missing,
            _ => Self::Failed,
        }
    }
}

impl fmt::Display for MemberState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Online => "online",
            Self::Rebuilding => "rebuilding",
            Self::Failed => "failed",
            Self::Missing => "missing",
        })
    }
}

/// The state of a hot spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SpareState {
    Waiting,
    Rebuilding,
    Rebuilt,
    GivenUp,
}

impl SpareState {
    /// The state that the engine reports of a spare that it has taken.
    pub(crate) fn of_engine(word: &str) -> Self {
        match word {
            "rebuilding" => Self::Rebuilding,
            "rebuilt" => Self::Rebuilt,
            _ => Self::GivenUp,
        }
    }
}

/// The writes that open segments take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LaneRequests {
    /// Small requests of users, or all of them.
    Small,
    /// Large requests of users.
    Large,
    /// Lone requests of users.
    Narrow,
    /// Relocations.
    Moved,
}

impl LaneRequests {
    /// The writes of a lane that the engine reports.
    pub(crate) fn of_engine(word: &str) -> Self {
        match word {
            "large" => Self::Large,
            "narrow" => Self::Narrow,
            "moved" => Self::Moved,
            _ => Self::Small,
        }
    }
}

impl fmt::Display for LaneRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Small => "small",
            Self::Large => "large",
            Self::Narrow => "narrow",
            Self::Moved => "moved",
        })
    }
}

/// The command that writes open segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LaneCommand {
    /// Zone Append.
    Append,
    /// Zone Write of one chunk.
    Write,
    /// Zone Write of queued data.
    Gathered,
}

impl LaneCommand {
    /// The command of a lane that the engine reports.
    pub(crate) fn of_engine(word: &str) -> Self {
        match word {
            "append" => Self::Append,
            "write" => Self::Write,
            _ => Self::Gathered,
        }
    }
}
