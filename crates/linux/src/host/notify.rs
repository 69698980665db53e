//! Messages to the service manager, by the protocol of sd_notify(3): lines of `NAME=value` in
//! datagrams to the socket that the environment names.
//!
//! A message that cannot be sent at once is dropped: a server neither waits for its manager nor
//! ends because of it.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The service manager that started this process.
pub struct ServiceManager {
    socket: UnixDatagram,
    address: SocketAddr,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// The manager that the environment names; `None` if there is none.
    #[must_use]
    pub fn of_environment() -> Option<Self> {
        let address = std::env::var_os("NOTIFY_SOCKET")?;
        let text = |name: &str| std::env::var(name).ok();
        Self::at(&address, text("WATCHDOG_PID").as_deref(), text("WATCHDOG_USEC").as_deref())
    }

    fn at(address: &OsStr, process: Option<&str>, watchdog_us: Option<&str>) -> Option<Self> {
        let address = match address.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            [b'/', ..] => SocketAddr::from_pathname(address),
            _ => return None,
        };
        let socket = UnixDatagram::unbound().ok()?;
        // A manager that hangs does not make its services hang.
        socket.set_nonblocking(true).ok()?;
        let is_own = process.is_none_or(|process| process == std::process::id().to_string());
        let watchdog = watchdog_us.filter(|_| is_own).and_then(|text| text.parse().ok());
        let watchdog = watchdog.filter(|us| *us > 0).map(Duration::from_micros);
        Some(Self { socket, address: address.ok()?, watchdog })
    }

    /// The time within which the manager expects [`ServiceManager::is_alive`] again and again; it
    /// ends the process otherwise.
    #[must_use]
    pub const fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Clients can connect. Returns whether the message was sent.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.send("READY=1")
    }

    /// The process ends on purpose.
    pub fn is_stopping(&self) {
        self.send("STOPPING=1");
    }

    /// The process works.
    pub fn is_alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// A start or stop takes at least this much longer.
    pub fn needs(&self, more: Duration) {
        self.send(&format!("EXTEND_TIMEOUT_USEC={}", more.as_micros()));
    }

    /// A line for people.
    pub fn describe(&self, status: &str) {
        let line = status.split(['\n', '\0']).next().unwrap_or_default();
        self.send(&format!("STATUS={line}"));
    }

    fn send(&self, message: &str) -> bool {
        self.socket.send_to_addr(message.as_bytes(), &self.address).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 256];
        let length = socket.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn messages_arrive_at_a_path_and_at_an_abstract_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let name = format!("zoneweave-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).expect("a name");
        for (socket, address) in [
            (UnixDatagram::bind(&path), path.clone().into_os_string()),
            (UnixDatagram::bind_addr(&abstract_name), format!("@{name}").into()),
        ] {
            let socket = socket.expect("a socket");
            let manager = ServiceManager::at(&address, None, None).expect("a manager");
            assert!(manager.is_ready());
            manager.describe("two\nlines");
            manager.needs(Duration::from_secs(2));
            assert_eq!(received(&socket), "READY=1");
            assert_eq!(received(&socket), "STATUS=two");
            assert_eq!(received(&socket), "EXTEND_TIMEOUT_USEC=2000000");
        }
    }

    #[test]
    fn a_watchdog_of_another_process_is_none_of_ours() {
        let watchdog = |process: Option<&str>, us: &str| {
            let manager = ServiceManager::at(OsStr::new("/nowhere"), process, Some(us));
            manager.expect("an address").watchdog()
        };
        let own = std::process::id().to_string();
        assert_eq!(watchdog(Some(&own), "1500"), Some(Duration::from_micros(1500)));
        assert_eq!(watchdog(None, "1500"), Some(Duration::from_micros(1500)));
        assert_eq!(watchdog(Some("1"), "1500"), None);
        assert!(watchdog(None, "0").is_none() && watchdog(None, "x").is_none());
    }

    #[test]
    fn a_manager_that_is_gone_disturbs_nobody() {
        let manager = ServiceManager::at(OsStr::new("/nowhere"), None, None).expect("an address");
        manager.is_alive();
        assert!(!manager.is_ready());
        assert!(ServiceManager::at(OsStr::new("vsock:1:2"), None, None).is_none());
    }
}
