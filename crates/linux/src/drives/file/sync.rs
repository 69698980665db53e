//! Callers that wait for the drive's file to be synced.

use std::cell::{Cell, RefCell};

use zoneweave_runtime::Sender;
use zoneweave_zoned::Status;

/// Callers that wait for the drive's file to be synced.
#[derive(Default)]
pub(super) struct Syncs {
    pub(super) running: Cell<bool>,
    pub(super) waiters: RefCell<Vec<Sender<Result<(), Status>>>>,
}
