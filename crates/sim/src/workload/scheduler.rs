//! The block layer's scheduler: one write of a stream in flight, waiting writes are merged.
//!
//! Measurements of mq-deadline show that half of the requests in flight become one write while the
//! other half wait (merged fractions of 50, 75, 87.5 and 93.75 % at depths 4 to 32). So a merged
//! write takes at most half of the queue depth here, too.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use zoneweave_runtime::{Nanos, Sender, oneshot};
use zoneweave_zoned::BLOCK_BYTES;

use super::host::Merging;
use super::run::{Run, Started, Stream, next};

/// The bytes of a completed request, or `None` if the job is over.
type Answer = Sender<Option<u64>>;

pub(super) struct Scheduler {
    waiting: RefCell<VecDeque<Answer>>,
    idle: RefCell<Option<Sender<()>>>,
    lanes: Cell<u32>,
}

impl Scheduler {
    /// Starts the task that dispatches writes; it ends when every lane has left.
    pub(super) fn start<S: Stream>(
        run: Rc<Run>,
        stream: Rc<RefCell<S>>,
        merging: Merging,
    ) -> Rc<Self> {
        let scheduler = Rc::new(Self {
            waiting: RefCell::default(),
            idle: RefCell::default(),
            lanes: Cell::new(run.pace.queue_depth),
        });
        let dispatcher = Dispatcher { scheduler: scheduler.clone(), run, stream, merging };
        let handle = dispatcher.run.handle.clone();
        // Lanes wait for their answers, not for this task.
        drop(handle.spawn("workload scheduler", dispatcher.work()));
        scheduler
    }

    /// Hands in a request and waits until its write is done.
    pub(super) async fn request(&self) -> Option<u64> {
        let (answer, answered) = oneshot();
        self.waiting.borrow_mut().push_back(answer);
        self.wake();
        answered.await.flatten()
    }

    /// A lane makes no more requests.
    pub(super) fn leave(&self) {
        self.lanes.set(self.lanes.get() - 1);
        self.wake();
    }

    fn wake(&self) {
        if let Some(idle) = self.idle.borrow_mut().take() {
            idle.send(());
        }
    }
}

struct Dispatcher<S: Stream> {
    scheduler: Rc<Scheduler>,
    run: Rc<Run>,
    stream: Rc<RefCell<S>>,
    merging: Merging,
}

impl<S: Stream> Dispatcher<S> {
    async fn work(self) {
        let most = self.most();
        while self.scheduler.lanes.get() > 0 {
            let batch: Vec<Answer> = {
                let mut waiting = self.scheduler.waiting.borrow_mut();
                let count = waiting.len().min(most);
                waiting.drain(..count).collect()
            };
            if batch.is_empty() {
                let (sender, woken) = oneshot();
                self.scheduler.idle.replace(Some(sender));
                woken.await;
                continue;
            }
            self.write(batch).await;
        }
    }

    /// Maximum requests of a write.
    fn most(&self) -> usize {
        let largest = u64::from(self.merging.largest.0) * BLOCK_BYTES as u64;
        let fit = usize::try_from(largest / self.run.request_bytes).unwrap_or(usize::MAX);
        let half = usize::try_from(self.run.pace.queue_depth / 2).unwrap_or(usize::MAX);
        fit.min(half).max(1)
    }

    async fn write(&self, mut batch: Vec<Answer>) {
        let requests = u32::try_from(batch.len()).expect("at most the queue depth");
        let cost = match requests {
            1 => self.merging.single,
            _ => self.merging.merged + Nanos(self.merging.each.0 * u64::from(requests)),
        };
        self.run.handle.sleep(cost).await;
        let Some(Started { reply, bytes }) = next(&self.stream, requests).await else {
            self.run.stop();
            return;
        };
        self.run.count_command(u64::from(requests));
        if let Err(error) = reply.await {
            self.run.fail(error);
            return;
        }
        // The end of a zone cuts a write short: the remaining requests go first next time.
        let done = usize::try_from(bytes.div_ceil(self.run.request_bytes)).unwrap_or(usize::MAX);
        let left = batch.split_off(done.min(batch.len()));
        for answer in batch {
            answer.send(Some(self.run.request_bytes));
        }
        for answer in left.into_iter().rev() {
            self.scheduler.waiting.borrow_mut().push_front(answer);
        }
    }
}
