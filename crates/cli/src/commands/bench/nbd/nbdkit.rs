//! nbdkit with its memory plugin, as a child process.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::client;
use crate::error::CliError;

/// Time limit until it listens.
const START_LIMIT: Duration = Duration::from_secs(10);

/// A running nbdkit, killed when dropped, and when this process ends.
pub(super) struct Nbdkit {
    child: Child,
    socket: PathBuf,
}

impl Nbdkit {
    /// Starts it with a size in bytes; `None` if it is not installed.
    pub(super) fn start(socket: PathBuf, bytes: u64) -> Result<Option<Self>, CliError> {
        let mut asking = Command::new("nbdkit");
        asking.args(["memory", "--dump-plugin"]).stdin(Stdio::null());
        let asked = asking.stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !asked.is_ok_and(|status| status.success()) {
            return Ok(None);
        }
        let failed = |error| CliError::System { action: "start nbdkit", error };
        let mut command = Command::new("nbdkit");
        command.args(["--foreground", "--exit-with-parent", "--unix"]).arg(&socket);
        command.args(["memory", &bytes.to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().map_err(failed)?;
        let mut nbdkit = Self { child, socket };
        let started = Instant::now();
        while client::try_out(&nbdkit.socket).is_err() {
            let ended = nbdkit.child.try_wait().map_err(failed)?;
            if ended.is_some() || started.elapsed() > START_LIMIT {
                return Err(failed(io::Error::other("it does not listen on its socket")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Some(nbdkit))
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// CPU time, including ended threads, in steps of 10 ms.
    pub(super) fn processor_time(&self) -> Result<u64, CliError> {
        stat_ns(&Path::new("/proc").join(self.child.id().to_string()).join("stat"))
    }
}

impl Drop for Nbdkit {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of a process, from its `stat` file.
fn stat_ns(path: &Path) -> Result<u64, CliError> {
    let broken = |error| CliError::File { path: path.to_owned(), action: "read", error };
    let text = std::fs::read_to_string(path).map_err(broken)?;
    let behind_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields = behind_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    // The kernel reports 100 ticks per second to processes, whatever its own tick is.
    Ok(ticks * 10_000_000)
}
