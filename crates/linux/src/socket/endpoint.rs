//! Where a server listens: a unix socket for its owner, or a TCP port of this machine.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, Mode, RenameFlags, fchmod, renameat_with};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use thiserror::Error;

use crate::host::busy;
use crate::ring::Descriptor;
use crate::socket::connect::try_connect;
use crate::socket::peer_credentials::stranger_at;

/// Connections the kernel keeps for us while we do not accept.
const BACKLOG: i32 = 128;

/// The send buffer of a unix socket. With the default of 208 KiB, only three replies to reads of 64
/// KiB fit, and the sender had to be woken for the rest. The kernel may grant less.
const SEND_BYTES: usize = 1 << 20;

/// An address to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket, for the server's user and root.
    Unix(PathBuf),
    /// A port of a loopback address.
    Tcp(SocketAddr),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// Why an address cannot be listened at.
#[derive(Debug, Error)]
pub enum EndpointError {
    /// Anybody could connect.
    #[error(
        "{address} can be reached from other machines, and volumes are served without encryption: \
         listen at 127.0.0.1 or [::1], or at a unix socket, and tunnel (for example with ssh -L)"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// Another server answers there.
    #[error("{} is in use by a running server: stop it, or choose another path", .path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// A process listens there, and accepts nobody.
    #[error(
        "a server listens at {} and accepts no connection: it may be stopped or hung; end it, or \
         choose another path", .path.display()
    )]
    Hung {
        /// The socket.
        path: PathBuf,
    },
    /// Something that is no socket is in the way.
    #[error("{} exists and is not a socket: remove it, or choose another path", .path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// Unix socket addresses are short.
    #[error("{} is longer than the 107 bytes of a unix socket address: choose a shorter path",
        .path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
    },
    /// The kernel refused.
    #[error("cannot listen at {endpoint}: {error}")]
    Listen {
        /// The address.
        endpoint: Endpoint,
        /// The kernel's error.
        #[source]
        error: io::Error,
    },
}

/// A listening socket; dropping it removes the file of a unix socket, if that is still the same
/// file.
///
/// The NBD and vhost-user servers and the control socket all use it, with the same access checks.
pub struct Listener {
    endpoint: Endpoint,
    socket: Descriptor,
    /// The file of a unix socket.
    file: Option<FileId>,
}

/// A file, independent of its name. The kernel does not reuse the numbers while the socket is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        Ok(Self { device: found.dev(), inode: found.ino() })
    }
}

fn listen(endpoint: &Endpoint) -> Result<Listener, EndpointError> {
    let failed = |error: io::Error| EndpointError::Listen { endpoint: endpoint.clone(), error };
    match endpoint {
        Endpoint::Tcp(address) => {
            if !address.ip().is_loopback() {
                return Err(EndpointError::NotLoopback { address: *address });
            }
            let listener = listen_tcp(*address).map_err(failed)?;
            let Endpoint::Tcp(local) = listener.endpoint else { unreachable!("a TCP port") };
            assert!(local.ip().is_loopback(), "a port is bound at the address that was checked");
            Ok(listener)
        }
        Endpoint::Unix(path) => {
            let address = SocketAddrUnix::new(path)
                .map_err(|_| EndpointError::PathTooLong { path: path.clone() })?;
            make_directory(path).map_err(failed)?;
            remove_stale(path)?;
            let socket = listen_unix(path, &address).map_err(|error| match error {
                // Another server was faster.
                Errno::EXIST | Errno::ADDRINUSE => EndpointError::InUse { path: path.clone() },
                other => failed(other.into()),
            })?;
            let file = Some(FileId::of(path).map_err(failed)?);
            Ok(Listener { endpoint: endpoint.clone(), socket: Rc::new(socket), file })
        }
    }
}

fn listen_tcp(address: SocketAddr) -> io::Result<Listener> {
    let listener = TcpListener::bind(address)?;
    let endpoint = Endpoint::Tcp(listener.local_addr()?);
    Ok(Listener { endpoint, socket: Rc::new(listener.into()), file: None })
}

/// Creates the socket's directory, private to this user, if it does not exist.
fn make_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
        }
        _ => Ok(()),
    }
}

/// The answer of a socket that exists.
enum Probe {
    /// Its server died.
    Stale,
    /// Its server does not accept.
    Hung,
}

/// Attempts to connect to a server that does not accept: three seconds of them.
const UNANSWERED_MAX: u32 = 30;

/// Removes the socket of a server that died; anything else in its place is left alone.
fn remove_stale(path: &Path) -> Result<(), EndpointError> {
    let failed = |error| EndpointError::Listen { endpoint: Endpoint::Unix(path.to_owned()), error };
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if !metadata.file_type().is_socket() {
        return Err(EndpointError::NotASocket { path: path.to_owned() });
    }
    let probed = FileId::of(path).map_err(failed)?;
    let mut unanswered = 0;
    let nobody_listens = || match try_connect(path) {
        Err(Errno::CONNREFUSED) => Ok(Probe::Stale),
        // Its queue of connections is full.
        Err(Errno::AGAIN) if unanswered >= UNANSWERED_MAX => Ok(Probe::Hung),
        Err(Errno::AGAIN) => {
            unanswered += 1;
            Err(Errno::BUSY.into())
        }
        Ok(_) => {
            unanswered = 0;
            Err(Errno::BUSY.into())
        }
        Err(error) => Err(error.into()),
    };
    match busy::retry(nobody_listens).map_err(failed)? {
        // Another server may have replaced it since.
        Some(Probe::Stale) if FileId::of(path).ok() != Some(probed) => Ok(()),
        Some(Probe::Stale) => fs::remove_file(path).map_err(failed),
        Some(Probe::Hung) => Err(EndpointError::Hung { path: path.to_owned() }),
        None => Err(EndpointError::InUse { path: path.to_owned() }),
    }
}

/// Listens at a path. The socket gets this name only when it listens, so that no client of a
/// visible socket is refused: with `bind` at the name itself, clients are refused until `listen`,
/// on a loaded machine for a second and more.
fn listen_unix(path: &Path, address: &SocketAddrUnix) -> Result<OwnedFd, Errno> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // Before the socket has a name, so that other users can connect at no time.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    let hidden = hidden_name(path);
    let Ok(hidden_address) = SocketAddrUnix::new(&hidden) else {
        // No room for another name.
        rustix::net::bind(&socket, address)?;
        rustix::net::listen(&socket, BACKLOG)?;
        return Ok(socket);
    };
    rustix::net::bind(&socket, &hidden_address)?;
    let named = rustix::net::listen(&socket, BACKLOG).and_then(|()| give_name(&hidden, path));
    if let Err(error) = named {
        // The error that led here is the one to report.
        let _ = fs::remove_file(&hidden);
        return Err(error);
    }
    Ok(socket)
}

/// A name beside `path` that no other socket of this machine has.
fn hidden_name(path: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!(".{:x}.{count:x}", std::process::id()))
}

/// Renames a socket, never over another one.
fn give_name(hidden: &Path, path: &Path) -> Result<(), Errno> {
    match renameat_with(CWD, hidden, CWD, path, RenameFlags::NOREPLACE) {
        // File systems that know no flags still have hard links, which replace nothing either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::link(hidden, path)?;
            rustix::fs::unlink(hidden)
        }
        renamed => renamed,
    }
}

impl Listener {
    /// Starts to listen.
    ///
    /// # Errors
    /// [`EndpointError`] says why, and how to fix it.
    pub fn start(endpoint: &Endpoint) -> Result<Self, EndpointError> {
        listen(endpoint)
    }

    /// Starts to listen at a TCP port that other machines may reach: for servers that know their
    /// clients, and say that nothing is encrypted.
    ///
    /// # Errors
    /// [`EndpointError::Listen`] if the kernel refuses.
    pub fn start_public(address: SocketAddr) -> Result<Self, EndpointError> {
        let failed = |error| EndpointError::Listen { endpoint: Endpoint::Tcp(address), error };
        listen_tcp(address).map_err(failed)
    }

    /// The address, with the port that the kernel chose for a TCP port of 0.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The socket to accept from.
    #[must_use]
    pub fn socket(&self) -> &Descriptor {
        &self.socket
    }

    /// Checks the peer's user, and sets socket options for short and for large replies.
    ///
    /// # Errors
    /// If the peer of a unix socket is another user, or is gone already.
    pub fn prepare(&self, socket: &OwnedFd) -> io::Result<()> {
        match self.endpoint {
            Endpoint::Tcp(_) => sockopt::set_tcp_nodelay(socket, true)?,
            Endpoint::Unix(_) => {
                assert!(self.file.is_some(), "a unix socket was bound to a file");
                if stranger_at(socket)?.is_some() {
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                sockopt::set_socket_send_buffer_size(socket, SEND_BYTES)?;
            }
        }
        Ok(())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Endpoint::Unix(path) = &self.endpoint else { return };
        // Somebody may have removed it, and another server may listen there since.
        if self.file.is_some() && FileId::of(path).ok() == self.file {
            // If the file is gone, another process removed it.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn addresses_of_other_machines_are_refused() {
        for address in ["0.0.0.0:0", "192.168.1.1:10809", "[::]:0"] {
            let refused = listen(&Endpoint::Tcp(address.parse().unwrap()));
            assert!(matches!(refused, Err(EndpointError::NotLoopback { .. })));
        }
        let listener = listen(&Endpoint::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
        assert!(matches!(listener.endpoint, Endpoint::Tcp(address) if address.port() != 0));
    }

    #[test]
    fn a_unix_socket_is_private_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/er/socket");
        let listener = listen(&Endpoint::Unix(path.clone())).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        drop(listener);
        assert!(!path.exists());
    }

    /// The socket of a server that was killed accepts connections until the kernel has ended its
    /// operations.
    #[test]
    fn a_socket_that_is_about_to_be_left_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let dying = UnixListener::bind(&path).unwrap();
        let accepts_once = std::thread::spawn(move || drop(dying.accept()));
        let listener = listen(&Endpoint::Unix(path.clone())).unwrap();
        accepts_once.join().unwrap();
        UnixStream::connect(&path).expect("the new server is found");
        drop(listener);
    }

    /// The socket was bound at its name and listened a moment later: on a loaded machine, clients
    /// that had seen the file were refused for a second.
    #[test]
    fn a_visible_socket_refuses_no_client() {
        let directory = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..200).map(|at| directory.path().join(at.to_string())).collect();
        // Kept until the clients have ended: a socket that is being removed may refuse.
        let mut listeners = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for path in &paths {
                    let connected = loop {
                        match UnixStream::connect(path) {
                            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                            other => break other,
                        }
                    };
                    connected.unwrap();
                }
            });
            let listen = |path: &PathBuf| listen(&Endpoint::Unix(path.clone())).unwrap();
            listeners.extend(paths.iter().map(listen));
        });
    }

    /// `connect` waits while the queue of connections is full, without end if nobody accepts.
    #[test]
    fn a_server_that_accepts_nobody_is_no_reason_to_wait() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let hung = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&hung, 0).unwrap();
        let refused = listen(&Endpoint::Unix(path.clone()));
        assert!(matches!(refused, Err(EndpointError::Hung { .. })), "{:?}", refused.err());
        assert!(path.exists());
    }

    #[test]
    fn a_path_without_room_for_another_name_is_bound_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let length = 107 - directory.path().as_os_str().len() - 3;
        let deep = directory.path().join("d".repeat(length));
        fs::create_dir(&deep).unwrap();
        let path = deep.join("s");
        assert!(SocketAddrUnix::new(hidden_name(&path)).is_err());
        let listener = listen(&Endpoint::Unix(path.clone())).unwrap();
        UnixStream::connect(&path).expect("it listens");
        drop(listener);
        assert_eq!(fs::read_dir(&deep).unwrap().count(), 0);
    }

    #[test]
    fn the_socket_of_another_server_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let endpoint = Endpoint::Unix(path.clone());
        let first = listen(&endpoint).unwrap();
        fs::remove_file(&path).unwrap();
        let second = listen(&endpoint).unwrap();
        drop(first);
        UnixStream::connect(&path).expect("the second server is found");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        drop(second);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn stale_sockets_are_replaced_and_everything_else_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let endpoint = Endpoint::Unix(path.clone());
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a dead server leaves its socket");
        let listener = listen(&endpoint).unwrap();
        assert!(matches!(listen(&endpoint), Err(EndpointError::InUse { .. })));
        drop(listener);
        fs::write(&path, "precious").unwrap();
        assert!(matches!(listen(&endpoint), Err(EndpointError::NotASocket { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        let long = Endpoint::Unix(directory.path().join("x".repeat(120)));
        assert!(matches!(listen(&long), Err(EndpointError::PathTooLong { .. })));
    }
}
