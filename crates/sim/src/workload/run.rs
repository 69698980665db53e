//! The state of a job and the interface of its streams, for lanes and scheduler.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use zoneweave_runtime::{Handle, Nanos, Receiver};

use super::{Pace, Recorder, WorkloadError};

/// A request in flight.
pub(super) struct Started<F> {
    pub reply: F,
    pub bytes: u64,
}

/// The answer of a stream to a request for work.
pub(super) enum Next<F> {
    /// A request was sent.
    Started(Started<F>),
    /// Earlier requests must complete first; ask again then.
    Wait(Receiver<()>),
    /// The stream is done.
    Nothing,
}

/// The source of requests: one thread of the host, working on one place of the device.
pub(super) trait Stream: 'static {
    type Reply: Future<Output = Result<(), WorkloadError>>;

    /// Sends the next `requests` requests as one command, or fewer where the zone ends.
    fn start(&mut self, requests: u32) -> Next<Self::Reply>;
}

/// Sends the next requests of a stream as soon as possible; `None` if the stream is done.
pub(super) async fn next<S: Stream>(
    stream: &RefCell<S>,
    requests: u32,
) -> Option<Started<S::Reply>> {
    loop {
        let next = stream.borrow_mut().start(requests);
        match next {
            Next::Started(started) => return Some(started),
            Next::Wait(woken) => drop(woken.await),
            Next::Nothing => return None,
        }
    }
}

/// The state shared by the lanes of a job.
pub(super) struct Run {
    pub handle: Handle,
    pub pace: Pace,
    /// Bytes of a full request.
    pub request_bytes: u64,
    pub(super) begins: Nanos,
    pub(super) ends: Nanos,
    pub(super) stopped: Cell<bool>,
    /// Completion time of the last counted request.
    pub(super) last: Cell<Nanos>,
    /// Earliest time of the next request under the rate limit.
    pub(super) due: Cell<Nanos>,
    pub(super) commands: Cell<u64>,
    pub(super) requests: Cell<u64>,
    pub(super) recorder: RefCell<Recorder>,
    pub(super) error: RefCell<Option<WorkloadError>>,
}

impl Run {
    pub(super) fn new(handle: &Handle, pace: Pace, request_bytes: u64) -> Rc<Self> {
        let begins = handle.now() + pace.length.warm_up;
        Rc::new(Self {
            handle: handle.clone(),
            begins,
            ends: begins + pace.length.duration,
            pace,
            request_bytes,
            stopped: Cell::new(false),
            last: Cell::new(begins),
            due: Cell::new(handle.now()),
            commands: Cell::new(0),
            requests: Cell::new(0),
            recorder: RefCell::default(),
            error: RefCell::default(),
        })
    }

    pub(super) fn goes_on(&self) -> bool {
        !self.stopped.get() && self.handle.now() < self.ends
    }

    pub(super) fn stop(&self) {
        self.stopped.set(true);
    }

    pub(super) fn fail(&self, error: WorkloadError) {
        self.error.borrow_mut().get_or_insert(error);
        self.stop();
    }

    /// Counts a command to the device that carries so many requests.
    pub(super) fn count_command(&self, requests: u64) {
        self.commands.set(self.commands.get() + 1);
        self.requests.set(self.requests.get() + requests);
    }

    pub(super) fn record(&self, started: Nanos, bytes: u64) {
        let now = self.handle.now();
        let mut recorder = self.recorder.borrow_mut();
        let over = now > self.ends || recorder.operations() >= self.pace.length.operations;
        if now < self.begins || over {
            return;
        }
        recorder.record_at(now.since(self.begins), now.since(started), bytes);
        self.last.set(now);
        if recorder.operations() >= self.pace.length.operations {
            self.stop();
        }
    }
}
