//! Spares, which the engine assigns to slots by itself.

use serde::{Deserialize, Serialize};

use super::Fault;

/// A spare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spare {
    /// A fault of the spare. Faults that damage contents are excluded, since the slot of the damage
    /// would be unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
}
