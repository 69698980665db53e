//! Signals as a file descriptor, and the death by one.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};

use super::result::{check, check_number};

/// A set of signals.
pub(crate) fn set_of(signals: &[libc::c_int]) -> io::Result<libc::sigset_t> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `set` is valid for writing a signal set; the call initialises all of it.
    check(unsafe { libc::sigemptyset(set.as_mut_ptr()) })?;
    for &signal in signals {
        // SAFETY: `set` was initialised by `sigemptyset`.
        check(unsafe { libc::sigaddset(set.as_mut_ptr(), signal) })?;
    }
    // SAFETY: `set` was initialised by `sigemptyset`.
    Ok(unsafe { set.assume_init() })
}

/// Changes the mask of this thread.
fn mask(how: libc::c_int, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: `set` is an initialised signal set, and the old mask is not requested.
    check_number(unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) })
}

/// Blocks `signals` for this thread and returns a descriptor from which they are read.
///
/// Threads started later inherit the mask, so call this before starting any.
pub(crate) fn signal_descriptor(signals: &[libc::c_int]) -> io::Result<OwnedFd> {
    let set = set_of(signals)?;
    mask(libc::SIG_BLOCK, &set)?;
    // SAFETY: `set` is an initialised signal set; -1 requests a new descriptor.
    let descriptor = check(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) })?;
    // SAFETY: the kernel just made this descriptor, and it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Whether the process was started with this signal ignored, as by `nohup`.
pub(crate) fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: no new action is set, and `action` is valid for writing the present one.
    if unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call succeeded, so it has written all of `action`.
    unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Ignores a signal from now on.
pub(crate) fn ignore(signal: libc::c_int) {
    // SAFETY: no handler is set that could run.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Takes a pending signal out, without waiting.
pub(crate) fn take_pending(signals: &[libc::c_int]) -> Option<libc::c_int> {
    let set = set_of(signals).ok()?;
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `set` and `at_once` are initialised, and no details are requested.
    let taken =
        unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const at_once) };
    (taken > 0).then_some(taken)
}

/// Ends the process by the default action of a signal, so that its parent sees which one.
pub(crate) fn die_of(signal: libc::c_int) -> ! {
    // SAFETY: the default action replaces no handler of ours; it may have been ignored.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    if let Ok(set) = set_of(&[signal]) {
        // If the mask stays, the exit code below reports the signal.
        let _ = mask(libc::SIG_UNBLOCK, &set);
    }
    // SAFETY: sends a signal to this process, which has no handlers.
    unsafe { libc::kill(libc::getpid(), signal) };
    // SAFETY: ends the process without running anything of it, as the signal would.
    unsafe { libc::_exit(128 + signal) }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use zoneweave_runtime::Executor;

    use crate::{Ring, Signal, Signals};

    #[test]
    fn signals_are_received_instead_of_ending_the_process() {
        // A shell without job control starts background processes with SIGINT ignored, and nohup
        // with SIGHUP.
        for number in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            // SAFETY: the default disposition refers to no memory of this process.
            assert_ne!(unsafe { libc::signal(number, libc::SIG_DFL) }, libc::SIG_ERR);
        }
        let ring = Ring::new().unwrap();
        let signals = Signals::new(&ring).unwrap();
        let executor = Executor::new(Rc::new(ring));
        signals.serving();
        for (number, signal) in [
            (libc::SIGTERM, Signal::Terminate),
            (libc::SIGINT, Signal::Interrupt),
            (libc::SIGHUP, Signal::HangUp),
        ] {
            assert!(!super::is_ignored(number));
            // SAFETY: raising a signal that this thread just blocked runs no handler.
            assert_eq!(unsafe { libc::raise(number) }, 0);
            assert_eq!(executor.run(signals.next()).unwrap(), signal);
        }
        // SAFETY: as above.
        assert_eq!(unsafe { libc::raise(libc::SIGHUP) }, 0);
        assert_eq!(super::take_pending(&[libc::SIGTERM, libc::SIGHUP]), Some(libc::SIGHUP));
        assert_eq!(super::take_pending(&[libc::SIGTERM, libc::SIGHUP]), None);
        let polled = Signals::without_ring().unwrap();
        polled.serving();
        assert!(!polled.is_pending() && polled.take().is_none());
        // SAFETY: as above.
        assert_eq!(unsafe { libc::raise(libc::SIGINT) }, 0);
        assert!(polled.is_pending());
        assert_eq!((polled.take(), polled.is_pending()), (Some(Signal::Interrupt), false));
    }
}
