//! The life of a server as its service manager sees it.
//!
//! | phase | what is sent |
//! |---|---|
//! | starting | again and again: more time |
//! | serving | once: ready; again and again: alive, if the loops of all shards have turned |
//! | stopping | once: stopping; again and again: more time |
//!
//! A task of the executor that serves the clients sends it, three times in the time that the
//! manager allows. An executor that hangs sends nothing, and the manager ends the process.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zoneweave_linux::ServiceManager;
use zoneweave_runtime::{Handle, Nanos};

use crate::status::{ArrayStatus, VolumeStatus};

/// Messages in the time that the manager allows.
const BEATS: u32 = 3;

/// Longest period of messages.
const LONGEST_PERIOD: Duration = Duration::from_secs(10);

/// More time for a start or a stop, counted from the message.
const MORE_TIME: Duration = Duration::from_secs(60);

/// Period of a [`Pulse`].
const PULSE: Nanos = Nanos::from_millis(500);

/// Counts while the loop of a thread turns.
#[derive(Clone, Default)]
pub(super) struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// Starts counting in the loop of this thread.
    pub(super) fn start(&self, handle: &Handle) {
        let (pulse, own) = (self.clone(), handle.clone());
        handle.spawn_alone("pulse", async move {
            loop {
                pulse.0.fetch_add(1, Ordering::Relaxed);
                own.sleep(PULSE).await;
            }
        });
    }
}

/// Reports to the service manager, if there is one.
#[derive(Clone)]
pub(super) struct Lifecycle(Option<Rc<Shared>>);

struct Shared {
    manager: ServiceManager,
    handle: Handle,
    phase: Cell<Phase>,
    /// Whether the manager has been told that clients can connect.
    is_told: Cell<bool>,
    others: RefCell<Others>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Serving,
    Stopping,
}

/// The pulses of other threads, with their counts when all had advanced.
#[derive(Default)]
struct Others(Vec<(Pulse, u64)>);

impl Others {
    /// Whether all have advanced since they last had.
    fn advance(&mut self) -> bool {
        let counts = self.0.iter().map(|(pulse, _)| pulse.0.load(Ordering::Relaxed));
        let counts: Vec<_> = counts.collect();
        if self.0.iter().zip(&counts).any(|((_, last), now)| last == now) {
            return false;
        }
        self.0.iter_mut().zip(counts).for_each(|((_, last), now)| *last = now);
        true
    }
}

impl Lifecycle {
    /// A start of the array or drives described begins.
    pub(super) fn starting(handle: &Handle) -> Self {
        let Some(manager) = ServiceManager::of_environment() else { return Self(None) };
        manager.describe("starting");
        let (phase, others) = (Cell::new(Phase::Starting), RefCell::default());
        let (handle, is_told) = (handle.clone(), Cell::new(false));
        let shared = Rc::new(Shared { manager, handle, phase, is_told, others });
        let beating = shared.clone();
        shared.handle.spawn_alone("service manager", async move { beating.run().await });
        Self(Some(shared))
    }

    /// Also reports the loops of other threads.
    pub(super) fn watch(&self, pulses: Vec<Pulse>) {
        if let Some(shared) = &self.0 {
            // A pulse has never had no beat, so the first comparison is with its start.
            *shared.others.borrow_mut() =
                Others(pulses.into_iter().map(|pulse| (pulse, 0)).collect());
        }
    }

    /// Waits of this thread for another one, outside of the executor.
    pub(super) fn waits_for(&self, other: Pulse) -> Waits {
        let others = Others(vec![(other, 0)]);
        Waits { shared: self.0.clone(), others, told: None }
    }

    /// Clients can connect.
    pub(super) fn serving(&self, status: &str) {
        let Some(shared) = &self.0 else { return };
        assert_eq!(shared.phase.replace(Phase::Serving), Phase::Starting, "a server starts once");
        shared.manager.describe(status);
        shared.beat();
    }

    /// Describes the health of an array whenever it changes.
    pub(super) fn describe(&self, status: impl AsyncFn() -> ArrayStatus + 'static) {
        let Some(shared) = self.0.clone() else { return };
        let handle = shared.handle.clone();
        handle.spawn_alone("describe", async move {
            let mut last = String::new();
            loop {
                let line = line(&status().await);
                // The status of a volume that stops is of no use.
                if shared.phase.get() == Phase::Serving && line != last {
                    shared.manager.describe(&line);
                    last = line;
                }
                shared.handle.sleep(shared.period()).await;
            }
        });
    }

    /// Requests in flight are finished, and the process ends.
    pub(super) fn stopping(&self) {
        let Some(shared) = &self.0 else { return };
        shared.phase.set(Phase::Stopping);
        shared.manager.is_stopping();
        shared.manager.describe("stopping: finishing requests in flight");
        shared.beat();
    }
}

/// A wait for another thread, which needs more time as long as its loop turns.
pub(super) struct Waits {
    shared: Option<Rc<Shared>>,
    others: Others,
    /// When the manager was told last.
    told: Option<Nanos>,
}

impl Waits {
    /// The wait goes on. To be called several times a second.
    pub(super) fn turn(&mut self) {
        let Some(shared) = &self.shared else { return };
        assert!(shared.phase.get() != Phase::Serving, "a loop that serves waits for no thread");
        let now = shared.handle.now();
        let is_due = self.told.is_none_or(|told| now.since(told) >= shared.period());
        if is_due && self.others.advance() {
            shared.manager.needs(MORE_TIME);
            self.told = Some(now);
        }
    }
}

impl Shared {
    async fn run(&self) {
        loop {
            self.beat();
            self.handle.sleep(self.period()).await;
        }
    }

    fn beat(&self) {
        if self.phase.get() != Phase::Serving {
            return self.manager.needs(MORE_TIME);
        }
        // The queue of a busy manager may be full, and units wait for this message.
        if !self.is_told.get() {
            self.is_told.set(self.manager.is_ready());
        }
        if self.manager.watchdog().is_some() && self.others.borrow_mut().advance() {
            self.manager.is_alive();
        }
    }

    fn period(&self) -> Nanos {
        let allowed = self.manager.watchdog().map(|limit| limit / BEATS);
        let period = allowed.map_or(LONGEST_PERIOD, |period| period.min(LONGEST_PERIOD));
        Nanos(u64::try_from(period.as_nanos()).expect("at most LONGEST_PERIOD"))
    }
}

/// An array in a line.
fn line(status: &ArrayStatus) -> String {
    let ArrayStatus { name, health, why, .. } = status;
    let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    format!("{name} {}{why}", health.word())
}

/// A volume in a line, with the worst of its arrays.
pub(super) fn summary(status: &VolumeStatus) -> String {
    let worst = status.arrays().iter().max_by_key(|array| array.health);
    worst.map(line).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_lives_while_all_of_its_loops_turn() {
        let (one, other) = (Pulse::default(), Pulse::default());
        let mut others = Others(vec![(one.clone(), 0), (other.clone(), 0)]);
        let beat = |pulse: &Pulse| pulse.0.fetch_add(1, Ordering::Relaxed);
        assert!(!others.advance());
        beat(&one);
        assert!(!others.advance(), "one shard hangs");
        beat(&other);
        assert!(others.advance());
        assert!(!others.advance(), "a beat counts once");
        assert!(Others::default().advance(), "a volume of one array");
    }
}
