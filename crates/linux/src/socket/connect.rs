//! Connecting to a unix socket without waiting for a server that does not accept.

use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Connects at once, for a stream whose reads and writes wait.
///
/// # Errors
/// `EAGAIN` if the server's queue of connections is full, where the blocking call waits without
/// end; the status of the kernel otherwise.
pub fn try_connect(path: &Path) -> Result<UnixStream, Errno> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &address).map_err(|error| match error {
        // Linux refuses at once if the queue is full; later means the same here.
        Errno::INPROGRESS => Errno::AGAIN,
        other => other,
    })?;
    rustix::io::ioctl_fionbio(&socket, false)?;
    Ok(UnixStream::from(socket))
}
