//! Results of system calls.

use std::io;

/// Turns the -1 of a system call into the error in `errno`.
pub(super) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Turns the error number that some functions of the C library return into an error.
pub(super) fn check_number(number: libc::c_int) -> io::Result<()> {
    if number == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(number)) }
}
