//! A thread for blocking system calls, so that the engine's thread never blocks.
//!
//! Invariants: calls run one at a time, in the order in which turns were requested. The thread's
//! queue holds at most one call, whose future was dropped. The ring has an operation in flight only
//! during a call.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};
use zoneweave_runtime::{Permit, Semaphore};

use crate::ring::{Descriptor, Ring};

/// A thread that makes calls `J` and brings answers `A`.
pub(crate) struct Worker<J, A> {
    ring: Ring,
    turn: Semaphore,
    calls: Option<SyncSender<(u64, J)>>,
    answers: Receiver<(u64, A)>,
    /// Counts answers; the ring waits for it.
    event: Descriptor,
    serials: Cell<u64>,
    /// Calls that were not answered yet.
    under_way: Cell<u64>,
    thread: Option<JoinHandle<()>>,
}

/// The right to make the next call.
pub(crate) struct Turn<'a, J, A> {
    worker: &'a Worker<J, A>,
    _permit: Permit,
}

impl<J: Send + 'static, A: Send + 'static> Worker<J, A> {
    /// Starts the thread.
    ///
    /// # Errors
    /// If there are no descriptors or threads left.
    pub(crate) fn start(
        ring: &Ring,
        name: &str,
        mut work: impl FnMut(J) -> A + Send + 'static,
    ) -> io::Result<Self> {
        let event = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let ours = Rc::new(event.try_clone()?);
        let (calls, taken) = sync_channel(1);
        let (told, answers) = channel();
        let run = move || {
            for (serial, call) in taken {
                if told.send((serial, work(call))).is_err() {
                    return;
                }
                // It fails only if so many answers wait that the ring is told anyway.
                let _ = rustix::io::write(&*event, &1_u64.to_ne_bytes());
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self {
            ring: ring.clone(),
            turn: Semaphore::new(1),
            calls: Some(calls),
            answers,
            event: ours,
            serials: Cell::new(0),
            under_way: Cell::new(0),
            thread: Some(thread),
        })
    }

    /// Waits until the calls before are done.
    pub(crate) async fn turn(&self) -> Turn<'_, J, A> {
        Turn { worker: self, _permit: self.turn.acquire().await }
    }

    async fn make(&self, call: J) -> io::Result<A> {
        let serial = self.serials.get();
        self.serials.set(serial + 1);
        let calls = self.calls.as_ref().expect("taken away at the end only");
        calls.try_send((serial, call)).map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
        self.under_way.set(self.under_way.get() + 1);
        loop {
            self.ring.readable(&self.event).await?;
            // Cleared before the answers are taken: a later answer counts again.
            let _ = rustix::io::read(&*self.event, &mut [0; 8]);
            loop {
                match self.answers.try_recv() {
                    Ok((answered, answer)) => {
                        self.under_way.set(self.under_way.get() - 1);
                        // An earlier answer belongs to a call whose future was dropped.
                        if answered == serial {
                            return Ok(answer);
                        }
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        return Err(io::ErrorKind::BrokenPipe.into());
                    }
                }
            }
        }
    }
}

impl<J: Send + 'static, A: Send + 'static> Turn<'_, J, A> {
    /// Makes a call.
    ///
    /// # Errors
    /// If the thread is gone, or busy with calls whose futures were dropped.
    pub(crate) async fn call(self, call: J) -> io::Result<A> {
        self.worker.make(call).await
    }
}

impl<J, A> Drop for Worker<J, A> {
    /// Joins the thread if it is idle, so that its descriptors are closed; otherwise it ends by
    /// itself.
    fn drop(&mut self) {
        drop(self.calls.take());
        if self.under_way.get() > 0 {
            return;
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use futures_util::future::join;
    use zoneweave_runtime::Executor;

    use super::*;

    async fn call(worker: &Worker<u32, u32>, number: u32) -> io::Result<u32> {
        worker.turn().await.call(number).await
    }

    #[test]
    fn calls_are_made_in_order_while_others_go_on() {
        let ring = Ring::new().unwrap();
        let executor = Executor::new(Rc::new(ring.clone()));
        let (go, wait) = channel();
        let mut last = 0;
        let work = move |number: u32| {
            wait.recv().unwrap();
            last += number;
            last
        };
        let worker = Worker::start(&ring, "test", work).unwrap();
        let outcome = executor.run(async {
            let calls = join(call(&worker, 1), call(&worker, 2));
            let other = async {
                // The executor is not held up by a call that waits.
                executor.handle().yield_now().await;
                go.send(()).unwrap();
                go.send(()).unwrap();
            };
            join(calls, other).await.0
        });
        assert_eq!((outcome.0.unwrap(), outcome.1.unwrap()), (1, 3));
    }

    #[test]
    fn a_call_that_was_given_up_does_not_answer_another_one() {
        let ring = Ring::new().unwrap();
        let executor = Executor::new(Rc::new(ring.clone()));
        let (go, wait) = channel();
        let work = move |number: u32| {
            wait.recv().unwrap();
            number
        };
        let worker = Worker::start(&ring, "test", work).unwrap();
        executor.run(async {
            assert!(futures_util::FutureExt::now_or_never(call(&worker, 1)).is_none());
            go.send(()).unwrap();
            go.send(()).unwrap();
            let mut answer = call(&worker, 2).await;
            while answer.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy) {
                answer = call(&worker, 2).await;
            }
            assert_eq!(answer.unwrap(), 2);
        });
    }
}
