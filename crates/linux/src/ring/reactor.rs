//! The reactor: operations from submission to completion, timers, and waiting.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use io_uring::types::{CancelBuilder, Fd};
use io_uring::{opcode, squeue};
use slab::Slab;
use zoneweave_runtime::{Nanos, Progress, Reactor, Receiver, Sender, TimerQueue, Wait, oneshot};

use super::doorbell::Doorbell;
use super::held::{Finished, Held};
use super::options::{RingError, RingOptions};
use super::queues::{Completed, Queues};

/// An open file or socket; operations in flight keep it open.
pub type Descriptor = Rc<OwnedFd>;

/// The user data of cancellations, whose completions are ignored.
const CANCELLATION: u64 = u64::MAX;

/// The user data of waiting for the doorbell.
const DOORBELL: u64 = u64::MAX - 1;

/// How long a dropped ring waits for the kernel to give operations back.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// Turns after which an operation without hurry is submitted: about as many as a request takes if
/// its drives answer at once.
const TURNS_MOST: u32 = 16;

/// How long is waited awake: sleeping and being woken takes some 20 us in a virtual machine, and a
/// client that does the same has sent its next request after as much again.
const AWAKE_MOST: Duration = Duration::from_micros(50);

/// Threads of this process that wait awake now.
static AWAKE: AtomicUsize = AtomicUsize::new(0);

/// A handle to the ring; clones share it.
#[derive(Clone)]
pub struct Ring(pub(super) Rc<Inner>);

pub(super) struct Inner {
    started: Instant,
    /// The time of the last turn.
    recent: Cell<Nanos>,
    timers: TimerQueue,
    queues: RefCell<Queues>,
    /// `None` once the memory was leaked because the kernel kept an operation.
    slots: RefCell<Slab<Slot>>,
    /// Entries pushed without a completion so far.
    in_flight: Cell<usize>,
    options: RingOptions,
    waited: Cell<Waited>,
    /// The last wait was so short that the next one is begun awake.
    waits_are_short: Cell<bool>,
    /// How many threads of this process may spin at once: one processor is left to the threads they
    /// wait for.
    awake_most: usize,
    doorbell: OnceCell<Arc<Doorbell>>,
    /// Whether the kernel waits for the doorbell: one of the operations in flight.
    listens: Cell<bool>,
    serials: Cell<u32>,
    completions: RefCell<Vec<Completed>>,
}

/// Turns since the last system call, and whether the next turn must make one.
#[derive(Clone, Copy, Default)]
struct Waited {
    turns: u32,
    hurry: bool,
}

struct Slot {
    serial: u32,
    held: Held,
    sender: Sender<Finished>,
    /// Closed only after the operation is done with it.
    _descriptor: Descriptor,
}

/// Whether to wait for an operation whose future is dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OnDrop {
    /// It completes by itself soon.
    Abandon,
    /// It may wait for ever.
    Cancel,
}

impl Ring {
    /// A ring of the default size.
    ///
    /// # Errors
    /// [`RingError`] says why the kernel refuses a ring.
    pub fn new() -> Result<Self, RingError> {
        Self::with_options(RingOptions::default())
    }

    /// A ring of a chosen size.
    ///
    /// # Errors
    /// As [`Ring::new`].
    pub fn with_options(options: RingOptions) -> Result<Self, RingError> {
        let queues = RefCell::new(options.build()?);
        Ok(Self(Rc::new(Inner {
            started: Instant::now(),
            recent: Cell::new(Nanos::ZERO),
            timers: TimerQueue::new(),
            queues,
            slots: RefCell::default(),
            in_flight: Cell::new(0),
            options,
            waited: Cell::default(),
            waits_are_short: Cell::new(false),
            awake_most: std::thread::available_parallelism().map_or(0, |cores| cores.get() - 1),
            doorbell: OnceCell::new(),
            listens: Cell::new(false),
            serials: Cell::new(0),
            completions: RefCell::default(),
        })))
    }

    /// Makes the ring's entries large enough for NVMe commands.
    ///
    /// # Errors
    /// As [`Ring::new`]; [`RingError::Busy`] if operations with small entries are in flight.
    pub(crate) fn take_commands(&self) -> Result<(), RingError> {
        let inner = &*self.0;
        if inner.queues.borrow().are_large() {
            return Ok(());
        }
        if inner.in_flight.get() > 0 || inner.queues.borrow().waits() {
            return Err(RingError::Busy);
        }
        inner.queues.replace(inner.options.build_large()?);
        Ok(())
    }

    /// The ring's doorbell. While others have it, the ring may wait though nothing is under way.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub(crate) fn doorbell(&self) -> io::Result<Arc<Doorbell>> {
        if let Some(doorbell) = self.0.doorbell.get() {
            return Ok(doorbell.clone());
        }
        let doorbell = Arc::new(Doorbell::new()?);
        Ok(self.0.doorbell.get_or_init(|| doorbell).clone())
    }

    /// As [`Ring::start`], without hurry: submitted with the next system call, or some turns later.
    pub(super) fn start_without_hurry(
        &self,
        descriptor: &Descriptor,
        held: Held,
        on_drop: OnDrop,
        build: impl FnOnce(Fd, &mut Held) -> squeue::Entry,
    ) -> Operation {
        let (operation, entry) = self.begin(descriptor, held, on_drop, build);
        let inner = &*self.0;
        inner.queues.borrow_mut().push(entry.user_data(operation.user_data));
        inner.feed();
        operation
    }

    /// Puts `held` into the slab, builds the entry that points to it, and queues it.
    pub(super) fn start(
        &self,
        descriptor: &Descriptor,
        held: Held,
        on_drop: OnDrop,
        build: impl FnOnce(Fd, &mut Held) -> squeue::Entry,
    ) -> Operation {
        let (operation, entry) = self.begin(descriptor, held, on_drop, build);
        self.0.enqueue(entry.user_data(operation.user_data));
        operation
    }

    /// Puts `held` into the slab and builds the entry that points to it.
    ///
    /// `build` must take every pointer it puts into the entry from the `Held` it is given: that
    /// is the memory kept until the completion.
    pub(super) fn begin<E>(
        &self,
        descriptor: &Descriptor,
        held: Held,
        on_drop: OnDrop,
        build: impl FnOnce(Fd, &mut Held) -> E,
    ) -> (Operation, E) {
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
        let ring = self.clone();
        (Operation { ring, receiver, user_data, on_drop, finished: false }, entry)
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

    fn recent(&self) -> Nanos {
        self.0.recent.get()
    }

    fn timers(&self) -> &TimerQueue {
        &self.0.timers
    }

    fn turn(&self, wait: Wait) -> Progress {
        let inner = &*self.0;
        inner.feed();
        let until_timer = inner.timers.next_deadline().map(|deadline| deadline.since(self.now()));
        if wait == Wait::No || until_timer == Some(Nanos::ZERO) {
            inner.submit_in_time();
        } else if inner.is_idle() && until_timer.is_none() {
            return Progress::Idle;
        } else if inner.doorbell.get().is_some_and(|doorbell| doorbell.answer()) {
            inner.submit_in_time();
        } else {
            let limit = until_timer.map(|span| Duration::from_nanos(span.0));
            inner.wait(limit);
            inner.waited.set(Waited::default());
        }
        inner.reap();
        let now = self.now();
        inner.recent.set(now);
        inner.timers.fire_due(now);
        Progress::Some
    }
}

impl Inner {
    /// Makes a system call if one is due. Operations without hurry wait for others, or until no
    /// task can run; but for a limited number of turns, because some task may always be able to
    /// run.
    fn submit_in_time(&self) {
        let Waited { turns, hurry } = self.waited.get();
        let mut queues = self.queues.borrow_mut();
        if !hurry && turns < TURNS_MOST && !queues.has_work() {
            self.waited.set(Waited { turns: turns + 1, hurry });
            return;
        }
        queues.submit();
        self.waited.set(Waited::default());
    }

    /// Whether neither the kernel nor another thread can make progress.
    fn is_idle(&self) -> bool {
        let rung_by_others =
            self.doorbell.get().is_some_and(|doorbell| Arc::strong_count(doorbell) > 1);
        self.in_flight.get() == usize::from(self.listens.get()) && !rung_by_others
    }

    /// Submits everything, and waits: spinning for a while, if the last wait was short.
    fn wait(&self, limit: Option<Duration>) {
        let started = Instant::now();
        if self.waits_are_short.get() && limit.is_none_or(|limit| limit > AWAKE_MOST) {
            let awake = AWAKE.fetch_add(1, Ordering::Relaxed);
            let came = awake < self.awake_most && self.wait_awake(started);
            AWAKE.fetch_sub(1, Ordering::Relaxed);
            if came {
                return;
            }
        }
        self.sleep(limit.map(|limit| limit.saturating_sub(started.elapsed())));
        self.waits_are_short.set(self.awake_most > 0 && started.elapsed() < AWAKE_MOST);
    }

    /// Whether something came before it was too late to wait awake.
    fn wait_awake(&self, started: Instant) -> bool {
        let doorbell = self.doorbell.get();
        let mut queues = self.queues.borrow_mut();
        queues.submit();
        while started.elapsed() < AWAKE_MOST {
            if doorbell.is_some_and(|doorbell| doorbell.is_rung()) {
                return true;
            }
            if queues.has_news() {
                queues.submit();
                // The kernel may have found nothing to do, and may report work again for ever:
                // sleeping ends that.
                return queues.has_completions();
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Waits in the kernel, unless the doorbell was rung.
    fn sleep(&self, limit: Option<Duration>) {
        let Some(doorbell) = self.doorbell.get() else {
            return self.queues.borrow().submit_and_wait(limit);
        };
        if !self.listens.replace(true) {
            // Ahead of the backlog, which may wait for as long as the doorbell is silent.
            self.queues.borrow_mut().push_first(doorbell.poll().user_data(DOORBELL));
            self.feed();
        }
        doorbell.fall_asleep();
        if !doorbell.is_rung() {
            self.queues.borrow().submit_and_wait(limit);
        }
        doorbell.wake_up();
    }

    fn hurry(&self) {
        self.waited.set(Waited { hurry: true, ..self.waited.get() });
    }

    fn enqueue(&self, entry: squeue::Entry) {
        self.hurry();
        self.queues.borrow_mut().push(entry);
        self.feed();
    }

    pub(super) fn enqueue_large(&self, entry: squeue::Entry128) {
        self.hurry();
        self.queues.borrow_mut().push_large(entry);
        self.feed();
    }

    fn feed(&self) {
        let limit = self.options.in_flight + usize::from(self.listens.get());
        let fed = self.queues.borrow_mut().feed(self.in_flight.get(), limit);
        self.in_flight.set(fed);
    }

    /// Delivers all completions.
    fn reap(&self) {
        let mut completions = self.completions.take();
        self.queues.borrow_mut().completions(&mut completions);
        for completed in completions.drain(..) {
            assert!(self.in_flight.get() > 0, "each completion is of an operation in flight");
            self.in_flight.set(self.in_flight.get() - 1);
            match completed.user_data {
                CANCELLATION => {}
                DOORBELL => {
                    self.listens.set(false);
                    self.doorbell.get().expect("listened to").clear();
                }
                _ => self.finish(completed),
            }
        }
        self.completions.replace(completions);
        self.feed();
    }

    fn finish(&self, completed: Completed) {
        let Completed { user_data, result, extra } = completed;
        let index = usize::try_from(user_data & u64::from(u32::MAX)).expect("32 bits");
        let slot = self.slots.borrow_mut().remove(index);
        assert!(u64::from(slot.serial) == user_data >> 32, "a completion of another operation");
        slot.sender.send(Finished::new(result, extra, slot.held));
    }

    fn cancel(&self, user_data: u64) {
        let entry = opcode::AsyncCancel::new(user_data).build();
        self.enqueue(entry.user_data(CANCELLATION));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queues.get_mut().forget_backlog();
        let everything = opcode::AsyncCancel2::new(CancelBuilder::any().all()).build();
        self.enqueue(everything.user_data(CANCELLATION));
        let started = Instant::now();
        while self.in_flight.get() > 0 && started.elapsed() < DRAIN_LIMIT {
            self.queues.borrow().submit_and_wait(Some(DRAIN_LIMIT / 50));
            self.reap();
        }
        if self.in_flight.get() > 0 {
            std::mem::forget(self.slots.take());
        }
    }
}

/// An operation under way.
pub(super) struct Operation {
    ring: Ring,
    receiver: Receiver<Finished>,
    pub(super) user_data: u64,
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

#[cfg(test)]
mod tests;
