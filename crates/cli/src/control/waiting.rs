//! A client that waits for a job of a server: Ctrl-C ends the client, not the job.

use std::path::PathBuf;

use zoneweave_linux::Signals;

use crate::drives::paths::absolute;
use crate::error::CliError;
use crate::format::word;
use crate::output::Output;
use crate::session::Session;

/// Signals to a client that waits.
pub(crate) struct Waiting<'a> {
    session: &'a Session,
    /// They are those of a start for ever: one that is not handled here within 600 ms ends the
    /// process, also while the server is silent.
    signals: Signals,
    output: &'a Output,
    /// That the job goes on, and how to stop it.
    advice: String,
}

impl<'a> Waiting<'a> {
    /// Receives signals from now on. `job` is a noun; the verb `array STOP`, with its flags, ends
    /// it on the array of `drives`.
    ///
    /// # Errors
    /// If the kernel refuses a descriptor or a thread.
    pub(crate) fn new(
        session: &'a Session,
        output: &'a Output,
        job: &str,
        drives: &[PathBuf],
        (stop, flags): (&str, &str),
    ) -> Result<Self, CliError> {
        let drive = drives.first().map(|drive| absolute(drive)).transpose()?.unwrap_or_default();
        let advice = format!(
            "the {job} goes on in the server; to stop it: zoneweave array {stop} {} {flags}",
            word(drive.display())
        );
        let signals = Signals::new(&session.ring)
            .map_err(|error| CliError::System { action: "receive signals", error })?;
        Ok(Self { session, signals, output, advice })
    }

    /// Ends the process if a signal has arrived. Servers report several times a second, so this is
    /// called as often.
    pub(crate) fn check(&self) {
        if !self.signals.is_pending() {
            return;
        }
        // A descriptor that is readable can be read; without the ring, the second thread ends the
        // process.
        if let Ok(signal) = self.session.executor.run(self.signals.next()) {
            self.output.warning(&self.advice);
            signal.end_process();
        }
    }
}
