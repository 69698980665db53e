//! Drives that the engine may put into slots by itself.

use serde::{Deserialize, Serialize};

use super::Fault;

/// A blank drive that is kept ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spare {
    /// What happens to it, unless that damages what it holds: nobody would say of whom that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
}
