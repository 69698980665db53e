//! The lanes of a job: a beginning, an end, and one recorder.
//!
//! A lane is a task with one request in flight. It waits for its turn (rate limit, processor of its
//! thread), asks its stream for the next request, awaits it, records it, and starts over.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use zoneweave_runtime::{JoinHandle, Nanos};

use super::run::{Run, Started, Stream, next};
use super::scheduler::Scheduler;
use super::{Measurement, WorkloadError};

/// A running job.
pub struct Running {
    run: Rc<Run>,
    lanes: Vec<JoinHandle<()>>,
}

/// The processor that submits for one stream.
#[derive(Default)]
struct Thread {
    free_at: Cell<Nanos>,
}

/// Starts the lanes of the given streams.
pub(super) fn launch<S: Stream>(run: Rc<Run>, streams: Vec<S>) -> Running {
    let mut lanes = Vec::new();
    for stream in streams {
        let stream = Rc::new(RefCell::new(stream));
        let thread = Rc::<Thread>::default();
        let scheduler = run
            .pace
            .host
            .merging
            .map(|merging| Scheduler::start(run.clone(), stream.clone(), merging));
        for _ in 0..run.pace.queue_depth {
            let lane = Lane {
                run: run.clone(),
                stream: stream.clone(),
                thread: thread.clone(),
                scheduler: scheduler.clone(),
            };
            lanes.push(run.handle.spawn("workload lane", lane.work()));
        }
    }
    Running { run, lanes }
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
            self.turn().await;
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

    /// Waits until the rate and the processor of the thread allow a request.
    async fn turn(&self) {
        if let Some(rate) = self.run.pace.rate_bytes_per_second {
            let nanos =
                u128::from(self.run.request_bytes) * 1_000_000_000 / u128::from(rate.max(1));
            let due = self.run.due.get();
            self.run.due.set(due + Nanos(u64::try_from(nanos).unwrap_or(u64::MAX)));
            if due > self.run.handle.now() {
                self.run.handle.sleep_until(due).await;
            }
        }
        let host = &self.run.pace.host;
        let busy = host.submission_gap + host.submission;
        if busy > Nanos::ZERO {
            let free = self.thread.free_at.get().max(self.run.handle.now()) + busy;
            self.thread.free_at.set(free);
            self.run.handle.sleep_until(free).await;
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
