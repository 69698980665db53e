//! Seeded histories of files, names and crashes, with F1 to F3 as the oracle.
//!
//! A history is a drive, and successive lives of a store on it. In each life, clients work in
//! directories of their own at once, until a crash: the end of the process, or a power failure of
//! the drive. Recovery crashes too. After it, every directory must be one that its client allows.
//!
//! F3 has no check of its own: blocks that were reset too early are missing from a file.
//!
//! `FILESTORE_SEEDS=100000 cargo test -p zoneweave-filestore --features instrumented --test main
//! crash::` runs more of them, from `FILESTORE_SEED` on.

mod client;
mod model;
mod mutants;
pub(crate) mod rot;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use client::Client;
use model::Model;
use zoneweave_emulator::{FaultClass, FaultProfile, Jitter, RamDrive, SeededFaults};
use zoneweave_filestore::policy::{DualPoolPolicy, by_name};
use zoneweave_filestore::{FileStore, FormatOptions, OpenOptions};
use zoneweave_runtime::{Executor, Nanos, Random, VirtualTime};
use zoneweave_zoned::{BlockCount, Geometry, OobKind};

use crate::support::{UUID, check_offline};

/// Histories that once failed. A power failure took the last blocks of a full zone, which was
/// active again: no zone was left for the snapshot of the start. Truncations made copies worthless
/// that relocation had filled its reserve with: no space, with garbage.
const STORED: &[u64] = &[732, 26_109];

/// Policies of histories.
const POLICIES: [&str; 5] = ["lifetime", "sequential", "dual-pool", "least-worn", "wear-aware"];

/// Polls after which a history hangs.
const POLLS_MOST: u64 = 2_000_000;

/// What a history is made of.
struct History {
    random: Random,
    drive: RamDrive,
    models: Vec<Rc<RefCell<Model>>>,
    buffer: BlockCount,
    policy: &'static str,
    full_percent: u64,
    has_faults: bool,
    crashes: u64,
}

/// Counts of a history.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub crashes: u64,
}

/// Runs the history of a seed.
pub(crate) fn history(seed: u64) -> Outcome {
    let mut history = History::new(seed);
    let lives = 2 + history.random.below(4);
    for _ in 0..lives {
        history.live();
    }
    Outcome { crashes: history.crashes }
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut draw = |bound: u64| u32::try_from(random.below(bound)).unwrap();
        let (zones, capacity) = (7 + draw(10), BlockCount(12 + draw(20)));
        let mut geometry = Geometry::new(zones, capacity);
        let active = 3 + draw(5);
        (geometry.max_active, geometry.max_open) = (Some(active), Some(active));
        geometry.oob = [OobKind::Separate, OobKind::None][draw(2) as usize];
        geometry.volatile_cache = draw(3) > 0;
        geometry.max_transfer = BlockCount(2 + draw(7));
        let buffer = BlockCount(1 + draw(6));
        let (policy, has_faults) = (POLICIES[draw(6) as usize % 5], draw(5) == 0);
        let clients = 1 + draw(3);
        // Some fill the drive until there is no space.
        let full_percent = [70, 70, 60, 85, 200][draw(5) as usize];
        let timing = Jitter::new(random.next(), Nanos(1 + random.below(2000)));
        let drive = RamDrive::new(geometry, timing).unwrap();
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let device = drive.attach(&executor.handle());
        let mut options = FormatOptions::new(UUID);
        options.finish_percent = [0, 0, 20][usize::try_from(random.below(3)).unwrap()];
        executor.run(async {
            FileStore::format(&*device, &options).await.unwrap();
            let (store, _) =
                FileStore::open(executor.handle(), device, OpenOptions::default()).await.unwrap();
            for client in 0..clients {
                store.create_directory(&format!("/c{client}")).await.unwrap();
            }
        });
        drive.process_kill(0);
        let models = (0..clients).map(|_| Rc::default()).collect();
        Self { random, drive, models, buffer, policy, full_percent, has_faults, crashes: 0 }
    }

    /// One life of the store, up to a crash at any time.
    fn live(&mut self) {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let device = self.drive.attach(&handle);
        if self.has_faults {
            let profile = FaultProfile::default().with(FaultClass::Errored, 3000);
            let geometry = self.drive.geometry().clone();
            let faults = SeededFaults::new(profile, self.random.next(), &geometry);
            self.drive.faults(|plan| plan.set_seeded(Some(faults)));
        }
        // Wear hardly differs in a history.
        let policy = match self.policy {
            "dual-pool" => Box::new(DualPoolPolicy::new(0)),
            policy => by_name(policy).unwrap(),
        };
        let options = OpenOptions { policy, buffer: self.buffer, ..OpenOptions::default() };
        let polls_left = Cell::new(match self.random.below(4) {
            // Most crashes are early: recovery and the first changes are the risk.
            0 => self.random.below(60),
            1 => POLLS_MOST,
            _ => self.random.below(1500),
        });
        let is_limited = polls_left.get() < POLLS_MOST;
        let steps = 10 + u32::try_from(self.random.below(60)).unwrap();
        let mut random = self.random.fork();
        let models = self.models.clone();
        let (has_faults, full_percent) = (self.has_faults, self.full_percent);
        let life = async {
            let (store, _) = match FileStore::open(handle.clone(), device, options).await {
                Ok(opened) => opened,
                Err(error) if has_faults => {
                    let _crash_again = error;
                    return;
                }
                Err(error) => panic!("the store does not open: {error}"),
            };
            let mut joins = Vec::new();
            for (number, model) in models.iter().enumerate() {
                let root = format!("/c{number}");
                let Some(found) = read_tree(&store, &root, has_faults).await else { return };
                model.borrow_mut().adopt(&found);
                let client = Client {
                    store: store.clone(),
                    root,
                    model: model.clone(),
                    random: random.fork(),
                    writers: BTreeMap::new(),
                    full_percent,
                    has_faults,
                };
                joins.push(handle.spawn("client", client.run(steps)));
            }
            for join in joins {
                join.await;
            }
        };
        let stop = || {
            let left = polls_left.get();
            polls_left.set(left.saturating_sub(1));
            left == 0
        };
        let ended = executor.run_until(life, stop);
        assert!(ended.is_some() || is_limited, "the store hangs");
        self.drive.faults(|plan| plan.clear());
        self.crashes += 1;
        let seed = self.random.next();
        if self.random.per_mille(600) {
            self.drive.power_loss(seed);
        } else {
            self.drive.process_kill(seed);
        }
        let report = check_offline(&self.drive);
        assert!(report.clean && report.uuid.is_some(), "after a crash: {report:?}");
    }
}

/// Every path below a directory: files with their number and content.
async fn read_tree(
    store: &FileStore,
    root: &str,
    has_faults: bool,
) -> Option<BTreeMap<String, Option<(u64, Vec<u8>)>>> {
    let mut found = BTreeMap::new();
    let mut open = vec![String::new()];
    while let Some(directory) = open.pop() {
        let listed = store.list(&format!("{root}/{directory}")).unwrap();
        for (name, metadata) in listed {
            let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
            if metadata.is_directory {
                found.insert(path.clone(), None);
                open.push(path);
                continue;
            }
            let reader = store.open_file(&format!("{root}/{path}")).unwrap();
            let mut data = vec![0; usize::try_from(metadata.length).unwrap()];
            match reader.read_at(0, &mut data).await {
                Ok(count) => assert_eq!(count, data.len()),
                Err(_) if has_faults => return None,
                Err(error) => panic!("{root}/{path} cannot be read: {error}"),
            }
            found.insert(path, Some((metadata.id.0, data)));
        }
    }
    Some(found)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn crashes_lose_nothing_that_was_promised() {
    let first = number("FILESTORE_SEED").unwrap_or(1);
    let count = number("FILESTORE_SEEDS").unwrap_or(400);
    let mut crashes = 0;
    for seed in STORED.iter().copied().chain(first..first + count) {
        let outcome = std::panic::catch_unwind(|| history(seed));
        let Ok(outcome) = outcome else {
            panic!(
                "replay: FILESTORE_SEED={seed} FILESTORE_SEEDS=1 cargo test -p \
                 zoneweave-filestore --features instrumented --test main crash::"
            );
        };
        crashes += outcome.crashes;
    }
    println!("{count} histories, {crashes} crashes");
}
