//! A server that ends by request of a client.
//!
//! The request becomes a SIGTERM of the process to itself: however a server is asked to end, in any
//! phase and with any number of shards, it takes one path.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

/// The answer to a request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stopping {
    /// The process that ends.
    pub(crate) process: i32,
}

impl Stopping {
    /// The answer of this process.
    pub(super) fn of_process() -> Self {
        Self { process: getpid().as_raw_nonzero().get() }
    }
}

/// Asks this process to end, once: a second signal would end it in the middle of its stop.
///
/// # Errors
/// Never, as a process may send signals to itself.
pub(super) fn ask_to_stop() -> io::Result<()> {
    static ASKED: AtomicBool = AtomicBool::new(false);
    if !ASKED.swap(true, Ordering::Relaxed) {
        kill_process(getpid(), Signal::TERM)?;
    }
    Ok(())
}
