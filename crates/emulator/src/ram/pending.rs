//! Commands in flight.

use crate::Request;

/// A command in flight, as a search through crash states sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingCommand {
    /// The command.
    pub request: Request,
    /// Whether it has changed the drive already and only its completion is outstanding.
    pub applied: bool,
}
