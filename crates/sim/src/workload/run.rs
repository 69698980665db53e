//! The common part of all jobs: streams with lanes, a beginning, an end, and one recorder.
//!
//! A lane is a task with one request in flight. It waits for its turn (rate limit, processor of its
//! thread), asks its stream for the next request, awaits it, records it, and starts over.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use zoneweave_runtime::{Handle, JoinHandle, Nanos, Receiver};

use super::scheduler::Scheduler;
use super::{Measurement, Pace, Recorder, WorkloadError};

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

/// A running job.
pub struct Running {
    run: Rc<Run>,
    lanes: Vec<JoinHandle<()>>,
}

/// The state shared by the lanes of a job.
pub(super) struct Run {
    pub handle: Handle,
    pub pace: Pace,
    /// Bytes of a full request.
    pub request_bytes: u64,
    begins: Nanos,
    ends: Nanos,
    stopped: Cell<bool>,
    /// Completion time of the last counted request.
    last: Cell<Nanos>,
    /// Earliest time of the next request under the rate limit.
    due: Cell<Nanos>,
    commands: Cell<u64>,
    requests: Cell<u64>,
    recorder: RefCell<Recorder>,
    error: RefCell<Option<WorkloadError>>,
}

/// The processor that submits for one stream.
#[derive(Default)]
struct Thread {
    free_at: Cell<Nanos>,
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

    /// Starts the lanes of the given streams.
    pub(super) fn launch<S: Stream>(self: Rc<Self>, streams: Vec<S>) -> Running {
        let mut lanes = Vec::new();
        for stream in streams {
            let stream = Rc::new(RefCell::new(stream));
            let thread = Rc::<Thread>::default();
            let scheduler = self
                .pace
                .host
                .merging
                .map(|merging| Scheduler::start(self.clone(), stream.clone(), merging));
            for _ in 0..self.pace.queue_depth {
                let lane = Lane {
                    run: self.clone(),
                    stream: stream.clone(),
                    thread: thread.clone(),
                    scheduler: scheduler.clone(),
                };
                lanes.push(self.handle.spawn("workload lane", lane.work()));
            }
        }
        Running { run: self, lanes }
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

    fn record(&self, started: Nanos, bytes: u64) {
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

    /// Waits until the rate and the processor of the thread allow a request.
    async fn turn(&self, thread: &Thread) {
        if let Some(rate) = self.pace.rate_bytes_per_second {
            let nanos = u128::from(self.request_bytes) * 1_000_000_000 / u128::from(rate.max(1));
            let due = self.due.get();
            self.due.set(due + Nanos(u64::try_from(nanos).unwrap_or(u64::MAX)));
            if due > self.handle.now() {
                self.handle.sleep_until(due).await;
            }
        }
        let host = &self.pace.host;
        let busy = host.submission_gap + host.submission;
        if busy > Nanos::ZERO {
            let free = thread.free_at.get().max(self.handle.now()) + busy;
            thread.free_at.set(free);
            self.handle.sleep_until(free).await;
        }
    }
}

impl Running {
    /// Ends the job after the requests in flight.
    pub fn stop(&self) {
        self.run.stop();
    }

    /// Number of measured requests so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.run.recorder.borrow().operations()
    }

    /// Waits for the end of the job.
    ///
    /// # Errors
    /// If a command failed.
    pub async fn finish(self) -> Result<Measurement, WorkloadError> {
        let started = self.run.handle.now();
        for lane in self.lanes {
            lane.await;
        }
        let run = self.run;
        if let Some(error) = run.error.borrow_mut().take() {
            return Err(error);
        }
        // A job that was stopped, or ran out of work, ended with its last request.
        let ended = if run.stopped.get() { run.last.get() } else { run.ends.max(started) };
        let recorder = run.recorder.borrow();
        Ok(Measurement {
            figures: recorder.figures(ended.min(run.ends).since(run.begins)),
            seconds: recorder.seconds().to_vec(),
            commands_per_request: ratio(run.commands.get(), run.requests.get()),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

struct Lane<S: Stream> {
    run: Rc<Run>,
    stream: Rc<RefCell<S>>,
    thread: Rc<Thread>,
    scheduler: Option<Rc<Scheduler>>,
}

impl<S: Stream> Lane<S> {
    async fn work(self) {
        while self.run.goes_on() {
            self.run.turn(&self.thread).await;
            if !self.run.goes_on() {
                break;
            }
            let submission = self.run.pace.host.submission;
            let started = Nanos(self.run.handle.now().0.saturating_sub(submission.0));
            let bytes = match &self.scheduler {
                Some(scheduler) => scheduler.request().await,
                None => self.request().await,
            };
            let Some(bytes) = bytes else { break };
            let overhead = self.run.pace.host.overhead;
            if overhead > Nanos::ZERO {
                self.run.handle.sleep(overhead).await;
            }
            self.run.record(started, bytes);
        }
        if let Some(scheduler) = &self.scheduler {
            scheduler.leave();
        }
    }

    /// Sends a request and waits for it; returns its bytes, or `None` if the job is over.
    async fn request(&self) -> Option<u64> {
        let Some(Started { reply, bytes }) = next(&self.stream, 1).await else {
            self.run.stop();
            return None;
        };
        self.run.count_command(1);
        match reply.await {
            Ok(()) => Some(bytes),
            Err(error) => {
                self.run.fail(error);
                None
            }
        }
    }
}
