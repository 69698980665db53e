//! The executor: a slab of tasks and a queue of those to poll.
//!
//! A task is polled only after its waker was called, in waking order, at most once per call
//! however often it was woken. A main future that can never finish (no ready task, no timer, no
//! I/O) is a bug in the program and panics with the names of the tasks that wait.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use slab::Slab;

use crate::{Nanos, Progress, Reactor, Receiver, Sleep, Wait, oneshot};

type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// A slab index together with the serial number of the task that held it when it was woken.
#[derive(Clone, Copy, PartialEq, Eq)]
struct TaskKey {
    slot: usize,
    serial: u64,
}

struct Task {
    name: &'static str,
    serial: u64,
    /// Taken out while the task is being polled.
    parts: Option<TaskParts>,
}

/// The parts needed to poll a task.
struct TaskParts {
    future: LocalFuture,
    woken: Arc<TaskWaker>,
    /// `woken` as a waker, made once.
    waker: Waker,
}

#[derive(Default)]
struct ReadyQueue {
    keys: Mutex<VecDeque<TaskKey>>,
    /// The length of `keys`, readable without the lock.
    len: AtomicUsize,
}

impl ReadyQueue {
    fn push(&self, key: TaskKey) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.push_back(key);
        self.len.store(keys.len(), Ordering::Release);
    }

    /// Takes all keys in exchange for an empty queue, so that one lock serves all.
    fn take(&self, empty: &mut VecDeque<TaskKey>) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *keys, empty);
        self.len.store(0, Ordering::Release);
    }

    /// Puts taken keys back, before the newer ones.
    fn put_back(&self, taken: &mut VecDeque<TaskKey>) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        taken.append(&mut keys);
        std::mem::swap(&mut *keys, taken);
        self.len.store(keys.len(), Ordering::Release);
    }

    fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }
}

struct TaskWaker {
    queue: Arc<ReadyQueue>,
    key: TaskKey,
    queued: AtomicBool,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.queue.push(self.key);
        }
    }
}

struct MainWaker(AtomicBool);

impl Wake for MainWaker {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

struct Shared {
    reactor: Rc<dyn Reactor>,
    tasks: RefCell<Slab<Task>>,
    ready: Arc<ReadyQueue>,
    serials: Cell<u64>,
}

/// Owns the tasks and runs them.
pub struct Executor {
    shared: Rc<Shared>,
}

/// A handle to the executor for tasks: the clock, timers, and spawning.
#[derive(Clone)]
pub struct Handle {
    shared: Rc<Shared>,
}

/// The result of a spawned task; dropping it lets the task run on by itself.
pub struct JoinHandle<T>(Receiver<T>);

impl<T> Future for JoinHandle<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(context).map(|value| value.expect("a task runs to its end"))
    }
}

impl Executor {
    /// An executor without tasks on the given reactor.
    #[must_use]
    pub fn new(reactor: Rc<dyn Reactor>) -> Self {
        let shared = Shared {
            reactor,
            tasks: RefCell::default(),
            ready: Arc::default(),
            serials: Cell::new(0),
        };
        Self { shared: Rc::new(shared) }
    }

    /// A handle for tasks and devices.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { shared: self.shared.clone() }
    }

    /// Runs tasks until `main` is done. Tasks that still wait stay and go on with the next call.
    ///
    /// # Panics
    /// If `main` waits while no task is ready, no timer is pending and no I/O is in flight.
    pub fn run<F: Future>(&self, main: F) -> F::Output {
        self.run_until(main, || false).expect("never told to stop")
    }

    /// Runs until `main` is done, or until `stop` says so after some task was polled: then
    /// `None`. A simulated crash stops an engine between any two steps this way.
    ///
    /// # Panics
    /// As [`Executor::run`].
    pub fn run_until<F: Future>(
        &self,
        main: F,
        mut stop: impl FnMut() -> bool,
    ) -> Option<F::Output> {
        let mut main = pin!(main);
        let woken = Arc::new(MainWaker(AtomicBool::new(true)));
        let waker = Waker::from(woken.clone());
        let mut round = VecDeque::new();
        loop {
            if woken.0.swap(false, Ordering::AcqRel) {
                let polled = main.as_mut().poll(&mut Context::from_waker(&waker));
                if let Poll::Ready(output) = polled {
                    return Some(output);
                }
            }
            // Tasks woken in this round wait for the next, so that I/O is never starved.
            if self.shared.ready.len() > 0 {
                self.shared.ready.take(&mut round);
            }
            while let Some(key) = round.pop_front() {
                self.shared.poll_one(key);
                if stop() {
                    self.shared.ready.put_back(&mut round);
                    return None;
                }
            }
            let runnable = woken.0.load(Ordering::Acquire) || self.shared.ready.len() > 0;
            let wait = if runnable { Wait::No } else { Wait::Yes };
            let progress = self.shared.reactor.turn(wait);
            if stop() {
                return None;
            }
            assert!(
                progress == Progress::Some || runnable,
                "every task waits and nothing is going to happen: {:?} and main",
                self.shared.task_names()
            );
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // Tasks hold handles to the executor: the cycle is cut here. A task that is dropped may
        // wake or spawn others, hence the loop.
        loop {
            let tasks = self.shared.tasks.take();
            if tasks.is_empty() {
                break;
            }
            drop(tasks);
        }
    }
}

impl Shared {
    fn poll_one(&self, key: TaskKey) {
        let mut parts = {
            let mut tasks = self.tasks.borrow_mut();
            let Some(task) = tasks.get_mut(key.slot).filter(|task| task.serial == key.serial)
            else {
                return;
            };
            let Some(parts) = task.parts.take() else { return };
            parts
        };
        parts.woken.queued.store(false, Ordering::Release);
        let polled = parts.future.as_mut().poll(&mut Context::from_waker(&parts.waker));
        let finished = match polled {
            Poll::Pending => {
                if let Some(task) = self.tasks.borrow_mut().get_mut(key.slot) {
                    assert!(task.parts.is_none(), "only the poll that took the parts returns them");
                    task.parts = Some(parts);
                }
                None
            }
            Poll::Ready(()) => {
                drop(parts);
                self.tasks.borrow_mut().try_remove(key.slot)
            }
        };
        drop(finished);
    }

    fn task_names(&self) -> Vec<String> {
        let mut counts = std::collections::BTreeMap::new();
        for (_, task) in self.tasks.borrow().iter() {
            *counts.entry(task.name).or_insert(0_u32) += 1;
        }
        counts.iter().map(|(name, count)| format!("{count} x {name}")).collect()
    }
}

impl Handle {
    /// The current time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.shared.reactor.now()
    }

    /// A time no earlier than the last round of tasks: see [`Reactor::recent`].
    #[must_use]
    pub fn recent(&self) -> Nanos {
        self.shared.reactor.recent()
    }

    /// The reactor underneath, for devices that add timers of their own.
    #[must_use]
    pub fn reactor(&self) -> Rc<dyn Reactor> {
        self.shared.reactor.clone()
    }

    /// The tasks besides main, as `2 x name`, to look for leaks.
    #[must_use]
    pub fn task_names(&self) -> Vec<String> {
        self.shared.task_names()
    }

    /// Starts a task. `name` appears in deadlock reports.
    pub fn spawn<T: 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        let (sender, receiver) = oneshot();
        self.start(name, Box::pin(async move { sender.send(future.await) }));
        JoinHandle(receiver)
    }

    /// Starts a task without a handle to its result.
    pub fn spawn_alone(&self, name: &'static str, future: impl Future<Output = ()> + 'static) {
        self.start(name, Box::pin(future));
    }

    fn start(&self, name: &'static str, future: LocalFuture) {
        let serial = self.shared.serials.get();
        self.shared.serials.set(serial + 1);
        let mut tasks = self.shared.tasks.borrow_mut();
        let entry = tasks.vacant_entry();
        let key = TaskKey { slot: entry.key(), serial };
        let queue = self.shared.ready.clone();
        let woken = Arc::new(TaskWaker { queue, key, queued: AtomicBool::new(true) });
        let parts = TaskParts { future, waker: woken.clone().into(), woken };
        entry.insert(Task { name, serial, parts: Some(parts) });
        self.shared.ready.push(key);
    }

    /// Waits for a span of time.
    pub fn sleep(&self, span: Nanos) -> Sleep {
        self.sleep_until(self.now() + span)
    }

    /// Waits for a point in time.
    pub fn sleep_until(&self, deadline: Nanos) -> Sleep {
        Sleep::new(self.shared.reactor.clone(), deadline)
    }

    /// Lets every other ready task run once.
    pub async fn yield_now(&self) {
        let mut yielded = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VirtualTime;

    fn executor() -> Executor {
        Executor::new(Rc::new(VirtualTime::new()))
    }

    #[test]
    fn virtual_time_jumps_to_the_next_timer() {
        let executor = executor();
        let handle = executor.handle();
        let end = executor.run(async {
            handle.sleep(Nanos::from_secs(3600)).await;
            handle.now()
        });
        assert_eq!(end, Nanos::from_secs(3600));
    }

    #[test]
    fn tasks_run_in_waking_order() {
        let executor = executor();
        let handle = executor.handle();
        let log = Rc::new(RefCell::new(Vec::new()));
        let output = log.clone();
        executor.run(async move {
            let spawn = |id: u64, at: u64| {
                let (log, inner) = (log.clone(), handle.clone());
                handle.spawn("sleeper", async move {
                    inner.sleep(Nanos(at)).await;
                    log.borrow_mut().push(id);
                })
            };
            let joins = [spawn(1, 30), spawn(2, 10), spawn(3, 10), spawn(4, 20)];
            for join in joins {
                join.await;
            }
        });
        assert_eq!(*output.borrow(), [2, 3, 4, 1]);
    }

    #[test]
    #[should_panic(expected = "1 x stuck")]
    fn a_deadlock_names_the_waiting_tasks() {
        let executor = executor();
        let handle = executor.handle();
        let (sender, receiver) = oneshot::<()>();
        executor.run(async move {
            let join = handle.spawn("stuck", receiver);
            join.await;
            drop(sender);
        });
    }

    #[test]
    fn dropping_the_executor_drops_waiting_tasks() {
        let executor = executor();
        let handle = executor.handle();
        let witness = Rc::new(());
        let inside = witness.clone();
        let inner = handle.clone();
        let join = handle.spawn("waiter", async move {
            inner.sleep(Nanos::from_secs(1)).await;
            drop(inside);
        });
        executor.run(handle.yield_now());
        drop((executor, handle, join));
        assert_eq!(Rc::strong_count(&witness), 1);
    }

    #[test]
    fn whoever_stops_finds_the_others_where_they_were() {
        let executor = executor();
        let handle = executor.handle();
        let log = Rc::new(RefCell::new(Vec::new()));
        for name in 0..4 {
            let (inner, log) = (handle.clone(), log.clone());
            handle.spawn_alone("counts", async move {
                for _ in 0..2 {
                    log.borrow_mut().push(name);
                    inner.yield_now().await;
                }
            });
        }
        let stopped = executor.run_until(std::future::pending::<()>(), || log.borrow().len() == 2);
        assert_eq!((stopped, log.borrow().clone()), (None, vec![0, 1]));
        executor.run(async {
            while log.borrow().len() < 8 {
                handle.yield_now().await;
            }
        });
        assert_eq!(*log.borrow(), [0, 1, 2, 3, 0, 1, 2, 3]);
    }

    #[test]
    fn a_reused_slot_is_not_woken_for_its_former_task() {
        let executor = executor();
        let handle = executor.handle();
        executor.run(async {
            let (sender, receiver) = oneshot::<u8>();
            let first = handle.spawn("first", receiver);
            sender.send(1);
            assert_eq!(first.await, Some(1));
            assert_eq!(handle.spawn("second", async { 2 }).await, 2);
        });
    }
}
