//! Opening without waiting for the other end of a pipe or for a modem's carrier.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Opens a file for reading, and for writing if `writable`, without blocking. Callers check the
/// file type on the open file, because the path may lead elsewhere by then.
pub(crate) fn open_nonblocking(path: &Path, writable: bool) -> io::Result<File> {
    let file =
        OpenOptions::new().read(true).write(writable).custom_flags(libc::O_NONBLOCK).open(path)?;
    // Operations of the ring would give up instead of waiting, too.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}
