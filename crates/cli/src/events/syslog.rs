//! Events for the journal of systemd and for syslog (RFC 3164), with their levels.

use std::env;
use std::os::unix::net::UnixDatagram;

use super::{Event, Level};
use crate::error::CliError;

/// Where syslog daemons listen.
const SOCKET: &str = "/dev/log";

/// The facility of daemons.
const DAEMON: u8 = 3;

/// A connection to syslog.
pub(crate) struct Syslog {
    socket: UnixDatagram,
}

impl Syslog {
    /// # Errors
    /// If no syslog listens.
    pub(crate) fn connect() -> Result<Self, CliError> {
        let failed = |error| CliError::System { action: "connect to syslog at /dev/log", error };
        let socket = UnixDatagram::unbound().map_err(failed)?;
        socket.connect(SOCKET).map_err(failed)?;
        // A daemon that hangs must not hold up the server.
        socket.set_nonblocking(true).map_err(failed)?;
        Ok(Self { socket })
    }

    /// Sends an event; it is dropped if syslog has ended or hangs.
    pub(crate) fn send(&self, event: &Event) {
        let priority = DAEMON * 8 + severity(event.level);
        let Event { array, text, .. } = event;
        let id = std::process::id();
        let line = format!("<{priority}>zoneweave[{id}]: {array}: {text}");
        let sent = self.socket.send(line.as_bytes());
        if sent.is_err() && self.socket.connect(SOCKET).is_ok() {
            // The daemon was restarted.
            let _ = self.socket.send(line.as_bytes());
        }
    }
}

/// Whether standard error is the stream to the journal that the environment names as DEVICE:INODE
/// (systemd.exec(5)).
pub(super) fn is_journal() -> bool {
    let named = env::var("JOURNAL_STREAM").ok();
    let stream = rustix::fs::fstat(std::io::stderr());
    let stream = stream.map(|stat| format!("{}:{}", stat.st_dev, stat.st_ino)).ok();
    named.is_some() && named == stream
}

/// The line of an event on standard error. The journal reads its level from the front, and has a
/// time of its own.
pub(super) fn line(event: &Event, to_journal: bool) -> String {
    let Event { array, text, .. } = event;
    match to_journal {
        true => format!("<{}>{array}: {text}", severity(event.level)),
        false => format!("{} {array}: {text}", crate::format::time(event.time_ns)),
    }
}

/// The severity of RFC 3164.
const fn severity(level: Level) -> u8 {
    match level {
        Level::Critical => 2,
        Level::Error => 3,
        Level::Warning => 4,
        Level::Notice => 5,
        Level::Info => 6,
    }
}
