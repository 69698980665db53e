//! The io_uring reactor: one ring for drives, sockets, signals and time.
//!
//! Invariants:
//! - Memory lent to the kernel (a buffer, an iovec array, the descriptor itself) belongs to the
//!   ring's slab from submission to completion. Dropping the future of an operation abandons its
//!   result, never its memory. Operations that may wait for ever (accept, receive, poll) are
//!   cancelled when dropped, so that shutdown does not wait for a silent peer.
//! - A user-data value names one operation for ever: a slab index and a serial number, so a late
//!   cancellation cannot hit the operation that took the place over.
//! - At most `in_flight` operations are in the kernel; further ones wait in order in a backlog.
//! - Dropping the last handle cancels what can be cancelled and waits for the rest. Should the
//!   kernel not give an operation back, its memory is leaked rather than freed under it.
#![allow(unsafe_code, reason = "submission hands raw pointers to the kernel")]

mod file;
mod held;
mod options;
mod socket;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use slab::Slab;
use zoneweave_runtime::{Nanos, Progress, Reactor, Receiver, Sender, TimerQueue, Wait, oneshot};

use held::{Finished, Held};
pub use options::{RingError, RingOptions};

/// An open file or socket; operations in flight keep it open.
pub type Descriptor = Rc<OwnedFd>;

/// The user data of cancellations, whose completions mean nothing.
const CANCELLATION: u64 = u64::MAX;

/// How long a dropped ring waits for the kernel to give operations back.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// A handle to the ring; clones share it.
#[derive(Clone)]
pub struct Ring(Rc<Inner>);

struct Inner {
    started: Instant,
    timers: TimerQueue,
    uring: RefCell<IoUring>,
    /// `None` once the memory was leaked because the kernel kept an operation.
    slots: RefCell<Slab<Slot>>,
    backlog: RefCell<VecDeque<squeue::Entry>>,
    /// Entries pushed whose completions have not been seen.
    in_flight: Cell<usize>,
    in_flight_limit: usize,
    serials: Cell<u32>,
    completions: RefCell<Vec<(u64, i32)>>,
}

struct Slot {
    serial: u32,
    held: Held,
    sender: Sender<Finished>,
    /// Closed only after the operation is done with it.
    _descriptor: Descriptor,
}

/// Whether an operation whose future is dropped is worth waiting for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnDrop {
    /// It completes by itself soon.
    Abandon,
    /// It may wait for ever.
    Cancel,
}

impl Ring {
    /// A ring of the default size.
    ///
    /// # Errors
    /// [`RingError`] tells why the kernel has no ring for this process.
    pub fn new() -> Result<Self, RingError> {
        Self::with_options(RingOptions::default())
    }

    /// A ring of a chosen size.
    ///
    /// # Errors
    /// As [`Ring::new`].
    pub fn with_options(options: RingOptions) -> Result<Self, RingError> {
        let uring = options.build()?;
        Ok(Self(Rc::new(Inner {
            started: Instant::now(),
            timers: TimerQueue::new(),
            uring: RefCell::new(uring),
            slots: RefCell::default(),
            backlog: RefCell::default(),
            in_flight: Cell::new(0),
            in_flight_limit: options.in_flight,
            serials: Cell::new(0),
            completions: RefCell::default(),
        })))
    }

    /// Puts `held` into the slab, builds the entry that points to it, and queues it.
    ///
    /// `build` must take every pointer it puts into the entry from the `Held` it is given: that
    /// is the memory kept until the completion.
    fn start(
        &self,
        descriptor: &Descriptor,
        held: Held,
        on_drop: OnDrop,
        build: impl FnOnce(Fd, &mut Held) -> squeue::Entry,
    ) -> Operation {
        let inner = &*self.0;
        let (sender, receiver) = oneshot();
        let serial = inner.serials.get();
        inner.serials.set(serial.wrapping_add(1) & (u32::MAX >> 1));
        let mut slots = inner.slots.borrow_mut();
        let slot = Slot { serial, held, sender, _descriptor: descriptor.clone() };
        let index = slots.insert(slot);
        let user_data = user_data(index, serial);
        let entry = build(Fd(descriptor.as_raw_fd()), &mut slots[index].held);
        drop(slots);
        inner.enqueue(entry.user_data(user_data));
        Operation { ring: self.clone(), receiver, user_data, on_drop, finished: false }
    }
}

fn user_data(index: usize, serial: u32) -> u64 {
    let index = u32::try_from(index).expect("fewer than 2^32 operations");
    u64::from(serial) << 32 | u64::from(index)
}

impl Reactor for Ring {
    fn now(&self) -> Nanos {
        let elapsed = self.0.started.elapsed().as_nanos();
        Nanos(u64::try_from(elapsed).expect("584 years of nanoseconds fit 64 bits"))
    }

    fn timers(&self) -> &TimerQueue {
        &self.0.timers
    }

    fn turn(&self, wait: Wait) -> Progress {
        let inner = &*self.0;
        inner.feed();
        let until_timer = inner.timers.next_deadline().map(|deadline| deadline.since(self.now()));
        if wait == Wait::No || until_timer == Some(Nanos::ZERO) {
            inner.submit();
        } else if inner.in_flight.get() == 0 && until_timer.is_none() {
            return Progress::Idle;
        } else {
            inner.submit_and_wait(until_timer.map(|span| Duration::from_nanos(span.0)));
        }
        inner.reap();
        inner.timers.fire_due(self.now());
        Progress::Some
    }
}

impl Inner {
    fn enqueue(&self, entry: squeue::Entry) {
        self.backlog.borrow_mut().push_back(entry);
        self.feed();
    }

    /// Moves entries from the backlog to the submission queue, in order, as far as they fit.
    fn feed(&self) {
        let mut backlog = self.backlog.borrow_mut();
        while self.in_flight.get() < self.in_flight_limit {
            let Some(entry) = backlog.front() else { return };
            if !self.push(entry) {
                self.submit();
                if !self.push(entry) {
                    return;
                }
            }
            backlog.pop_front();
        }
    }

    fn push(&self, entry: &squeue::Entry) -> bool {
        // SAFETY: every pointer in the entry was taken by `Ring::start` from a `Held` in the slab,
        // which stays there, with its descriptor, until `reap` sees the completion; a ring that
        // is dropped earlier leaks the slab. Heap memory does not move when the slab grows.
        let pushed = unsafe { self.uring.borrow_mut().submission().push(entry) }.is_ok();
        if pushed {
            self.in_flight.set(self.in_flight.get() + 1);
        }
        pushed
    }

    /// Tells the kernel about new entries and lets it post completions, without waiting.
    fn submit(&self) {
        let mut uring = self.uring.borrow_mut();
        let queue = uring.submission();
        let needed = !queue.is_empty() || queue.taskrun() || queue.cq_overflow();
        drop(queue);
        if needed {
            accept_interruption(uring.submitter().submit());
        }
    }

    fn submit_and_wait(&self, limit: Option<Duration>) {
        let uring = self.uring.borrow();
        let submitter = uring.submitter();
        accept_interruption(match limit {
            None => submitter.submit_and_wait(1),
            Some(limit) => {
                let span = Timespec::from(limit);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&span))
            }
        });
    }

    /// Delivers every completion that is there.
    fn reap(&self) {
        let mut completions = self.completions.take();
        {
            let mut uring = self.uring.borrow_mut();
            completions.extend(uring.completion().map(|entry| (entry.user_data(), entry.result())));
        }
        for (user_data, result) in completions.drain(..) {
            self.in_flight.set(self.in_flight.get() - 1);
            if user_data != CANCELLATION {
                self.finish(user_data, result);
            }
        }
        self.completions.replace(completions);
        self.feed();
    }

    fn finish(&self, user_data: u64, result: i32) {
        let index = usize::try_from(user_data & u64::from(u32::MAX)).expect("32 bits");
        let slot = self.slots.borrow_mut().remove(index);
        assert!(u64::from(slot.serial) == user_data >> 32, "a completion of another operation");
        slot.sender.send(Finished::new(result, slot.held));
    }

    fn cancel(&self, user_data: u64) {
        let entry = opcode::AsyncCancel::new(user_data).build();
        self.enqueue(entry.user_data(CANCELLATION));
    }
}

/// Waiting may end early for reasons that are not errors: a signal, the time limit, a completion
/// queue that must be emptied first. The caller's loop comes back.
fn accept_interruption(result: io::Result<usize>) {
    let Err(error) = result else { return };
    let passing = matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::ETIME | libc::EAGAIN | libc::EBUSY)
    );
    assert!(passing, "io_uring_enter failed, which no I/O can cause: {error}");
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.backlog.get_mut().clear();
        let everything = opcode::AsyncCancel2::new(CancelBuilder::any().all()).build();
        self.enqueue(everything.user_data(CANCELLATION));
        let started = Instant::now();
        while self.in_flight.get() > 0 && started.elapsed() < DRAIN_LIMIT {
            self.submit_and_wait(Some(DRAIN_LIMIT / 50));
            self.reap();
        }
        if self.in_flight.get() > 0 {
            std::mem::forget(self.slots.take());
        }
    }
}

/// An operation under way.
struct Operation {
    ring: Ring,
    receiver: Receiver<Finished>,
    user_data: u64,
    on_drop: OnDrop,
    finished: bool,
}

impl Future for Operation {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Finished> {
        let polled = Pin::new(&mut self.receiver).poll(context);
        self.finished = polled.is_ready();
        polled.map(|finished| finished.expect("the ring outlives its operations"))
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if !self.finished && self.on_drop == OnDrop::Cancel {
            self.ring.0.cancel(self.user_data);
        }
    }
}
