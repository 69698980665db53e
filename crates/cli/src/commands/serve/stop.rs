//! The signals that end a start.

use zoneweave_linux::{Signal, Signals};

use super::lifecycle::Lifecycle;
use crate::error::CliError;
use crate::session::Session;
use crate::wait::unless;

/// Ends waits of a start when a signal arrives, and shows the service manager how far it is.
pub(super) struct Stop<'a> {
    pub(super) session: &'a Session,
    pub(super) signals: &'a Signals,
    pub(super) lifecycle: &'a Lifecycle,
}

impl Stop<'_> {
    /// Waits for a signal.
    pub(super) async fn wait(&self) -> CliError {
        match self.signals.next().await {
            Ok(signal) => CliError::Stopped { signal },
            Err(error) => CliError::System { action: "wait for a signal", error },
        }
    }

    /// Runs work to its end, or until a signal.
    pub(super) fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, CliError> {
        self.session.executor.run(unless(self.wait(), work))
    }

    /// Checks for a signal, where the thread waits for something else.
    pub(super) fn check(&self) -> Result<(), CliError> {
        match self.signals.is_pending() {
            true => Err(self.session.executor.run(self.wait())),
            false => Ok(()),
        }
    }
}

/// Ends the process by the signal that ended a start: its parent did not ask for an exit code.
pub(super) fn end_if_stopped(error: &CliError) {
    if let CliError::Stopped { signal } = error {
        Signal::end_process(*signal);
    }
}
