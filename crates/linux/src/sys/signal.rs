//! Signals as a file descriptor.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};

use super::result::check;

/// Blocks `signals` for this thread and returns a descriptor from which they are read.
///
/// Threads started later inherit the mask, so call this before starting any.
pub(crate) fn signal_descriptor(signals: &[libc::c_int]) -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `set` is valid for writing a signal set; the call initialises all of it.
    check(unsafe { libc::sigemptyset(set.as_mut_ptr()) })?;
    for &signal in signals {
        // SAFETY: `set` was initialised by `sigemptyset`.
        check(unsafe { libc::sigaddset(set.as_mut_ptr(), signal) })?;
    }
    // SAFETY: `set` is initialised, and the old mask is not requested.
    let error =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    // SAFETY: `set` is an initialised signal set; -1 requests a new descriptor.
    let descriptor = check(unsafe { libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC) })?;
    // SAFETY: the kernel just made this descriptor, and it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use zoneweave_runtime::Executor;

    use crate::{Ring, Signal, Signals};

    #[test]
    fn signals_are_received_instead_of_ending_the_process() {
        let ring = Ring::new().unwrap();
        let signals = Signals::new(&ring).unwrap();
        let executor = Executor::new(Rc::new(ring));
        for (number, signal) in
            [(libc::SIGTERM, Signal::Terminate), (libc::SIGINT, Signal::Interrupt)]
        {
            // SAFETY: raising a signal that this thread just blocked runs no handler.
            assert_eq!(unsafe { libc::raise(number) }, 0);
            assert_eq!(executor.run(signals.next()).unwrap(), signal);
        }
    }
}
