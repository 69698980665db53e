//! Blocks that rot while a store is down: no byte is wrong, none is lost in silence, and none is
//! unreadable that was not in a block that rotted.

use std::collections::BTreeMap;
use std::rc::Rc;

use zoneweave_emulator::{BlockPart, Damage};
use zoneweave_filestore::format::BlockLayout;
use zoneweave_filestore::instrument::marks::{self, Mark};
use zoneweave_filestore::{FileStore, OpenOptions, OpenReport, StoreError};
use zoneweave_runtime::{Executor, VirtualTime};
use zoneweave_zoned::{ZoneAddress, ZoneId};

use super::model::{Entry, File, Model};
use super::{History, number};
use crate::support::check_offline;

/// Bytes that are read at once: the borders of damage are known to within as many.
const STEP: usize = 32;

/// A file as found: its number and bytes, `None` where a read fails.
type Contents = (u64, Vec<Option<u8>>);
type Tree = BTreeMap<String, Option<Contents>>;

/// What damage cost a client.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Blocks that synced files have fewer, at least.
    missing_blocks: u64,
    unreadable_bytes: u64,
    /// Stretches of unreadable bytes.
    stretches: u64,
}

pub(crate) fn rotten_history(seed: u64) {
    let mut history = History::new(seed);
    history.has_faults = false;
    for _ in 0..=history.random.below(3) {
        history.live();
    }
    let rotten = history.rot();
    let checked = check_offline(&history.drive);
    assert!(checked.tally.violations == 0, "damage is no contradiction: {checked:?}");
    let unknown_before = marks_of(Mark::EndsUnknown);
    let (first, report) = history.look();
    let payload = BlockLayout::for_drive(history.drive.geometry().oob).payload_bytes() as u64;
    let costs = history.models.iter().zip(&first);
    let costs: Vec<Cost> = costs.map(|(model, tree)| model.borrow().judge(tree, payload)).collect();
    let total = |part: fn(&Cost) -> u64| costs.iter().map(part).sum::<u64>();
    let missing = total(|cost| cost.missing_blocks);
    let told = report.damaged_blocks + report.unclaimed_blocks;
    assert!(told <= rotten, "{report:?}, {rotten} rotted");
    assert!(missing <= told + report.cut_off_blocks, "{missing} lost, {report:?}");
    let is_damaged = told > 0 || total(|cost| cost.unreadable_bytes) > 0;
    assert!(checked.clean != is_damaged, "{report:?}, and the checker says {checked:?}");
    let (second, later) = history.look();
    assert_eq!((later.damaged_blocks, later.unclaimed_blocks), (0, 0));
    // Behind a block that was cut, the borders of damage are unknown, and more is unreadable.
    let is_known = cfg!(feature = "instrumented") && marks_of(Mark::EndsUnknown) == unknown_before;
    assert!(first == second || !is_known, "another start reads other bytes");
    let borders = 2 * STEP as u64 * total(|cost| cost.stretches);
    let unreadable = total(|cost| cost.unreadable_bytes);
    assert!(
        !is_known || unreadable <= rotten * payload + borders,
        "{unreadable} bytes are unreadable after {rotten} blocks rotted"
    );
}

fn marks_of(mark: Mark) -> u64 {
    marks::counts().into_iter().filter(|(other, _)| *other == mark).map(|(_, count)| count).sum()
}

impl History {
    /// Damages some blocks of data zones; returns how many.
    fn rot(&mut self) -> u64 {
        let geometry = self.drive.geometry().clone();
        let zones = (2..geometry.zones).map(|zone| (ZoneId(zone), self.drive.zone(ZoneId(zone))));
        let written: Vec<ZoneAddress> = zones
            .flat_map(|(zone, info)| {
                (0..info.write_pointer.0.min(geometry.zone_capacity.0))
                    .map(move |block| ZoneAddress::new(zone, block))
            })
            .collect();
        if written.is_empty() {
            return 0;
        }
        let mut rotten = std::collections::BTreeSet::new();
        let mut at = usize::try_from(self.random.below(written.len() as u64)).unwrap();
        for _ in 0..1 + self.random.below(4) {
            if rotten.insert(written[at]) {
                let seed = self.random.next();
                let part = [BlockPart::Data, BlockPart::Both][usize::from(seed.is_multiple_of(2))];
                let damage = match seed % 3 {
                    0 => Damage::BitFlip { part, seed },
                    _ => Damage::Garbage { part, seed },
                };
                self.drive.corrupt(written[at], damage);
            }
            // Neighbours rot together, now and then.
            at = match self.random.below(2) {
                0 => (at + 1) % written.len(),
                _ => usize::try_from(self.random.below(written.len() as u64)).unwrap(),
            };
        }
        rotten.len() as u64
    }

    /// Opens the store, and reads everything.
    fn look(&mut self) -> (Vec<Tree>, OpenReport) {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let device = self.drive.attach(&handle);
        let found = executor.run(async {
            let opened = FileStore::open(handle.clone(), device, OpenOptions::default()).await;
            let (store, report) = opened.unwrap();
            let mut trees = Vec::new();
            for client in 0..self.models.len() {
                trees.push(read_tree(&store, &format!("/c{client}")).await);
            }
            (trees, report)
        });
        self.drive.process_kill(self.random.next());
        found
    }
}

async fn read_tree(store: &FileStore, root: &str) -> Tree {
    let mut found = BTreeMap::new();
    let mut open = vec![String::new()];
    while let Some(directory) = open.pop() {
        for (name, metadata) in store.list(&format!("{root}/{directory}")).unwrap() {
            let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
            if metadata.is_directory {
                found.insert(path.clone(), None);
                open.push(path);
                continue;
            }
            let content = read_file(store, &format!("{root}/{path}"), metadata.length).await;
            found.insert(path, Some((metadata.id.0, content)));
        }
    }
    found
}

async fn read_file(store: &FileStore, path: &str, length: u64) -> Vec<Option<u8>> {
    let reader = store.open_file(path).unwrap();
    let mut whole = vec![0; usize::try_from(length).unwrap()];
    if reader.read_at(0, &mut whole).await.is_ok() {
        return whole.into_iter().map(Some).collect();
    }
    let mut content = Vec::new();
    for offset in (0..length).step_by(STEP) {
        let mut data = vec![0; STEP.min(usize::try_from(length - offset).unwrap())];
        match reader.read_at(offset, &mut data).await {
            Ok(count) => {
                assert_eq!(count, data.len());
                content.extend(data.into_iter().map(Some));
            }
            Err(StoreError::Damaged { .. }) => content.extend(data.iter().map(|_| None)),
            Err(error) => panic!("{path}: {error}"),
        }
    }
    content
}

impl Model {
    /// Checks a directory against what is allowed, apart from damage, and returns its cost.
    fn judge(&self, found: &Tree, payload: u64) -> Cost {
        let after = self.pending.clone().map(|change| change.apply(&self.names));
        let candidates = [Some(&self.names), after.as_ref()];
        let costs = candidates.into_iter().flatten().filter_map(|names| {
            let is_same = names.len() == found.len()
                && names.iter().zip(found).all(|((path, entry), (other, file))| {
                    path == other && (*entry == Entry::Directory) == file.is_none()
                });
            is_same.then_some(())?;
            let files = names.iter().filter_map(|(path, entry)| match entry {
                Entry::File(file) => Some((*file, found[path].as_ref()?)),
                Entry::Directory => None,
            });
            // A file with two names is damaged once.
            let files: BTreeMap<usize, &Contents> = files.collect();
            let costs =
                files.iter().map(|(file, (_, bytes))| self.files[*file].cost(bytes, payload));
            let costs = costs.collect::<Option<Vec<Cost>>>()?;
            Some(costs.iter().fold(Cost::default(), |sum, cost| Cost {
                missing_blocks: sum.missing_blocks + cost.missing_blocks,
                unreadable_bytes: sum.unreadable_bytes + cost.unreadable_bytes,
                stretches: sum.stretches + cost.stretches,
            }))
        });
        // A file that a new one may have replaced is not missed.
        costs.min_by_key(|cost| cost.missing_blocks).expect("names or bytes are wrong")
    }
}

impl File {
    /// The cost of damage if the readable bytes are right.
    fn cost(&self, found: &[Option<u8>], payload: u64) -> Option<Cost> {
        let agrees = found
            .iter()
            .zip(&self.content)
            .all(|(found, byte)| found.is_none_or(|found| found == *byte));
        let least = self.cut.map_or(self.synced, |cut| cut.min(self.synced));
        let missing = least.saturating_sub(found.len()) as u64;
        let stretch = |pair: &&[Option<u8>]| pair[0].is_some() && pair[1].is_none();
        let first = u64::from(found.first().is_some_and(Option::is_none));
        let cost = Cost {
            missing_blocks: missing.div_ceil(payload),
            unreadable_bytes: found.iter().filter(|byte| byte.is_none()).count() as u64,
            stretches: found.windows(2).filter(stretch).count() as u64 + first,
        };
        // The tag of a last block that is damaged may have a wrong length.
        let beyond = found.get(self.content.len()..).unwrap_or_default();
        let is_damage = beyond.iter().all(Option::is_none) && beyond.len() as u64 <= payload;
        (agrees && is_damage).then_some(cost)
    }
}

#[test]
fn rot_of_any_block_is_told() {
    let first = number("FILESTORE_SEED").unwrap_or(1);
    let count = number("FILESTORE_SEEDS").unwrap_or(300);
    for seed in first..first + count {
        if std::panic::catch_unwind(|| rotten_history(seed)).is_err() {
            panic!(
                "replay: FILESTORE_SEED={seed} FILESTORE_SEEDS=1 cargo test -p \
                 zoneweave-filestore --features instrumented --test main crash::rot"
            );
        }
    }
}
