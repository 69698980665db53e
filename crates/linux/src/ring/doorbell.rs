//! Wakes the thread of a ring from another thread.
//!
//! Invariant: no ring of the doorbell is missed. The ring's thread announces that it goes to sleep
//! before it looks for the last time; another thread sets `rung` before it looks whether the ring
//! sleeps.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use io_uring::types::Fd;
use io_uring::{opcode, squeue};
use rustix::event::{EventfdFlags, eventfd};

/// The doorbell of a ring; any thread may ring it.
pub(crate) struct Doorbell {
    rung: AtomicBool,
    asleep: AtomicBool,
    /// Wakes the ring when it sleeps in the kernel.
    event: OwnedFd,
}

impl Doorbell {
    pub(super) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { rung: AtomicBool::new(false), asleep: AtomicBool::new(false), event })
    }

    /// Makes the ring's thread run the tasks that were woken before.
    pub(crate) fn ring(&self) {
        self.rung.store(true, Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst) {
            // It fails only if the counter is full, and then the ring is told anyway.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Whether it was rung.
    pub(super) fn is_rung(&self) -> bool {
        self.rung.load(Ordering::SeqCst)
    }

    /// Whether it was rung since this was asked the last time.
    pub(super) fn answer(&self) -> bool {
        self.is_rung() && self.rung.swap(false, Ordering::SeqCst)
    }

    /// Says that the thread is about to sleep; it must look once more then.
    pub(super) fn fall_asleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }

    pub(super) fn wake_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// An operation that completes when the ring must wake.
    pub(super) fn poll(&self) -> squeue::Entry {
        let events = u32::from(libc::POLLIN.cast_unsigned());
        opcode::PollAdd::new(Fd(self.event.as_raw_fd()), events).build()
    }

    /// Lets it wait for the next one.
    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }
}
