//! Results of system calls.

use std::io;

/// Turns the -1 of a system call into the error in `errno`.
pub(super) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
