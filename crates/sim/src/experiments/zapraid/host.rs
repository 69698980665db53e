//! What the host adds to commands of a volume: the time of one thread for each.
//!
//! In virtual time computing is free. A volume's experiments charge each command to a drive what a polling
//! driver takes for it, on one thread for all drives: 0.5 us for a submission and 0.45 us for a
//! completion, as in the measurements that the drives' timing was fitted to ([`Host::SPDK`]).

use std::cell::Cell;
use std::rc::Rc;

use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{Command, Completion, Geometry, ZonedDevice, completion};

use crate::workload::Host;

/// One thread of the host.
pub(crate) struct Thread {
    handle: Handle,
    host: Host,
    /// When it is done with what it was given so far.
    free: Cell<Nanos>,
    /// What it worked in all.
    busy: Cell<Nanos>,
}

impl Thread {
    pub(crate) fn new(handle: &Handle, host: Host) -> Rc<Self> {
        Rc::new(Self { handle: handle.clone(), host, free: Cell::default(), busy: Cell::default() })
    }

    /// Works for so long, after what it has to do already; returns when it is done.
    fn work(&self, time: Nanos) -> Nanos {
        let done = self.free.get().max(self.handle.now()) + time;
        self.free.set(done);
        self.busy.set(self.busy.get() + time);
        done
    }

    /// How long it worked so far.
    pub(crate) fn busy(&self) -> Nanos {
        self.busy.get()
    }
}

/// A drive whose commands take a thread's time.
pub(crate) struct Charged {
    thread: Rc<Thread>,
    drive: Rc<dyn ZonedDevice>,
    /// For each block that is read: whoever reads it has to look at it.
    block: Nanos,
}

impl Charged {
    pub(crate) fn new(thread: &Rc<Thread>, drive: Rc<dyn ZonedDevice>, block: Nanos) -> Rc<Self> {
        Rc::new(Self { thread: thread.clone(), drive, block })
    }
}

impl ZonedDevice for Charged {
    fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }

    fn submit(&self, command: Command) -> Completion {
        let (responder, answer) = completion();
        let (thread, drive) = (self.thread.clone(), self.drive.clone());
        // Taken now, so that the thread does things in the order in which it was asked to.
        let read = match command {
            Command::Read { blocks, .. } => Nanos(self.block.0 * u64::from(blocks.0)),
            _ => Nanos::ZERO,
        };
        let submitted = thread.work(thread.host.submission);
        self.thread.handle.spawn("host", async move {
            thread.handle.sleep_until(submitted).await;
            let outcome = drive.submit(command).await;
            let completed = thread.work(thread.host.submission_gap + read);
            thread.handle.sleep_until(completed).await;
            responder.complete(outcome);
        });
        answer
    }
}
