//! Retries while a file, drive or socket is busy. A killed process holds its drives and sockets
//! until the kernel has ended its last operations. That takes as long as a slow disk takes to
//! complete its queue. So a busy resource is retried for up to five seconds.

use std::fs::File;
use std::io;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// Tries to get something; `None` if somebody else keeps it.
///
/// # Errors
/// Of every other kind than that it is in use (`EBUSY`, `EWOULDBLOCK`).
pub(crate) fn retry<T>(get: impl FnMut() -> io::Result<T>) -> io::Result<Option<T>> {
    retry_for(PAUSE * ATTEMPTS, get)
}

/// As [`retry`], for another time; at least once.
pub(crate) fn retry_for<T>(
    patience: Duration,
    mut get: impl FnMut() -> io::Result<T>,
) -> io::Result<Option<T>> {
    let attempts = patience.as_millis().div_ceil(PAUSE.as_millis()).max(1);
    for attempt in 0..attempts {
        if attempt > 0 {
            thread::sleep(PAUSE);
        }
        match get() {
            Err(error) if is_busy(&error) => {}
            got => return got.map(Some),
        }
    }
    Ok(None)
}

/// Locks a file exclusively (`flock`); `None` if another process keeps it locked.
pub(crate) fn lock(file: &File) -> io::Result<Option<()>> {
    retry(|| Ok(flock(file, FlockOperation::NonBlockingLockExclusive)?))
}

/// Whether another process keeps a file locked. The lock is tried in shared mode, which is given
/// back at once, and for which [`lock`] waits.
pub(crate) fn is_locked(file: &File, patience: Duration) -> bool {
    let tried = retry_for(patience, || Ok(flock(file, FlockOperation::NonBlockingLockShared)?));
    matches!(tried, Ok(None))
}

fn is_busy(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EWOULDBLOCK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_had_and_other_errors_are_told() {
        let mut left = [libc::EBUSY, libc::EWOULDBLOCK].into_iter();
        let mut get = || left.next().map_or(Ok(7), |code| Err(io::Error::from_raw_os_error(code)));
        assert_eq!(retry(&mut get).expect("no error"), Some(7));
        let failed = retry(|| Err::<(), _>(io::Error::from_raw_os_error(libc::EIO)));
        assert_eq!(failed.expect_err("an error").raw_os_error(), Some(libc::EIO));
    }
}
