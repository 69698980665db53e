//! The limit of files that a process may have open.
//!
//! A server needs some for clients and requests when the drives, the sockets and the ring have
//! theirs. Without them it would serve nobody, after a start that had changed the array.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::CliError;

/// Descriptors for clients and requests: a client has one, opening a drive takes three.
const SPARE: u64 = 16;

const EMFILE: i32 = rustix::io::Errno::MFILE.raw_os_error();

/// Raises the limit as far as the system allows.
pub(super) fn raise_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where it is refused, the check below decides.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Checks that enough descriptors are left.
///
/// # Errors
/// If fewer than [`SPARE`] are left.
pub(super) fn check() -> Result<(), CliError> {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return Ok(()) };
    let left = match fs::read_dir("/proc/self/fd") {
        Ok(entries) => limit.saturating_sub(entries.count() as u64),
        // Not even the directory can be opened.
        Err(error) if error.raw_os_error() == Some(EMFILE) => 0,
        // Nothing is known without /proc.
        Err(_) => return Ok(()),
    };
    if left >= SPARE {
        return Ok(());
    }
    Err(CliError::FewDescriptors { limit, left, needed: SPARE })
}
