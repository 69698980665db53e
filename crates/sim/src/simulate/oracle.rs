//! The allowed versions of every block.
//!
//! Each write gives its blocks a version of their own. For each version of each block the oracle
//! keeps two moments: the end of the first request that proves the version (its write, or a read
//! that returned it), and the beginning of the last such request. Version *a* came before *b* if a
//! request of *a* ended before one of *b* began. A history is linearizable exactly if no two
//! versions came before each other (Gibbons and Korach 1997, for values written once). So each read
//! is checked as it ends.
//!
//! A crash keeps promised data. After a killed process everything acknowledged is promised; after a
//! power failure, flushed, written-through and FUA data. A version found afterwards is *pinned*: it
//! was read, so it is a promise by itself, and no later crash or lost drive may change it.

use std::collections::{BTreeMap, BTreeSet};

/// A moment of the history: requests begin and end one after the other.
pub(crate) type Moment = u64;

const NEVER: Moment = Moment::MAX;

/// One version of one block.
#[derive(Clone, Copy, Debug)]
struct Version {
    number: u64,
    /// The version that it reads as: itself, or 0 for zeros.
    reads_as: u64,
    submitted: Moment,
    acknowledged: Moment,
    /// The earliest end of a request that proves it.
    proven: Moment,
    /// The latest beginning of its write or of a read that returned it.
    seen: Moment,
    /// Whether it must survive a power loss.
    promised: bool,
}

impl Version {
    /// The version of a block at the beginning, or after a recovery.
    fn settled(reads_as: u64, now: Moment) -> Self {
        Self {
            number: reads_as,
            reads_as,
            submitted: now,
            acknowledged: now,
            proven: now,
            seen: now,
            promised: true,
        }
    }

    fn came_before(&self, other: &Self) -> bool {
        self.proven < other.seen
    }
}

/// The range of a write, for histories that lose more than redundancy covers.
#[derive(Clone, Copy, Debug)]
struct Extent {
    lba: u64,
    blocks: u64,
    zeros: bool,
}

/// The part of the history that survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Survives {
    /// Everything acknowledged.
    Acknowledged,
    /// Everything promised to be durable.
    Durable,
}

/// The history of a volume.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oracle {
    clock: Moment,
    writes: Vec<Extent>,
    blocks: BTreeMap<u64, Vec<Version>>,
    /// Begin of the reads in flight.
    reading: BTreeSet<Moment>,
    /// More was lost than the redundancy covers: blocks may read as any earlier version.
    beyond: bool,
}

impl Oracle {
    /// The next moment.
    pub(crate) fn tick(&mut self) -> Moment {
        self.clock += 1;
        self.clock
    }

    /// A read begins.
    pub(crate) fn begin_read(&mut self) -> Moment {
        let now = self.tick();
        self.reading.insert(now);
        now
    }

    /// A read that began at `began` has ended, and was checked.
    pub(crate) fn end_read(&mut self, began: Moment) {
        self.reading.remove(&began);
    }

    /// From now on blocks may have lost any number of versions, but must still read as one of them.
    pub(crate) fn lose_promises(&mut self) {
        self.beyond = true;
    }

    /// A write, or with `zeros` a trim, is submitted; returns its version.
    pub(crate) fn submit(&mut self, lba: u64, blocks: u64, zeros: bool) -> u64 {
        let now = self.tick();
        self.writes.push(Extent { lba, blocks, zeros });
        let number = self.writes.len() as u64;
        let version = Version {
            number,
            reads_as: if zeros { 0 } else { number },
            submitted: now,
            acknowledged: NEVER,
            proven: NEVER,
            seen: now,
            promised: false,
        };
        for lba in lba..lba + blocks {
            let versions = self.blocks.entry(lba);
            versions.or_insert_with(|| vec![Version::settled(0, 0)]).push(version);
        }
        number
    }

    /// A write was acknowledged; `promised` if that implies durability.
    pub(crate) fn acknowledge(&mut self, number: u64, promised: bool) {
        let now = self.tick();
        assert!(number > 0, "version 0 is the state before any write");
        let index = usize::try_from(number - 1).expect("an index into a vector");
        let Extent { lba, blocks, .. } = self.writes[index];
        for lba in lba..lba + blocks {
            let versions = self.blocks.get_mut(&lba).expect("submitted");
            // It may have been superseded already.
            let Some(version) = versions.iter_mut().find(|one| one.number == number) else {
                continue;
            };
            version.acknowledged = now;
            version.proven = version.proven.min(now);
            version.promised |= promised;
        }
        // Reads in flight may still return these versions.
        let began = self.reading.first().copied().unwrap_or(now);
        for lba in lba..lba + blocks {
            self.blocks.entry(lba).and_modify(|versions| forget_superseded(versions, began));
        }
    }

    /// A flush that began at `began` promises everything acknowledged before.
    pub(crate) fn flushed(&mut self, began: Moment) {
        assert!(began <= self.clock, "a flush that ends has begun");
        for versions in self.blocks.values_mut() {
            for version in versions.iter_mut().filter(|one| one.acknowledged < began) {
                version.promised = true;
            }
        }
    }

    /// A read that began at `began` returned `reads_as`.
    ///
    /// # Errors
    ///
    /// If that version is not allowed, with the reason.
    pub(crate) fn read(&mut self, lba: u64, reads_as: u64, began: Moment) -> Result<(), String> {
        let now = self.tick();
        assert!(began < now, "a read that ends has begun");
        if self.beyond {
            return self.once_written(lba, reads_as);
        }
        let Some(versions) = self.blocks.get_mut(&lba) else { return never_written(lba, reads_as) };
        let mut fitting = Vec::new();
        for (index, version) in versions.iter().enumerate() {
            if version.reads_as != reads_as {
                continue;
            }
            let (proven, seen) = (version.proven.min(now), version.seen.max(began));
            let read = Version { proven, seen, ..*version };
            let contradicted = versions.iter().any(|other| {
                other.number != read.number && other.came_before(&read) && read.came_before(other)
            });
            if !contradicted {
                fitting.push((index, read));
            }
        }
        match fitting[..] {
            [] => Err(format!("block {lba} reads as version {reads_as}: {}", describe(versions))),
            [(index, read)] => {
                versions[index] = read;
                Ok(())
            }
            // Zeros, written more than once: the version is ambiguous.
            _ => Ok(()),
        }
    }

    /// A block was found after a crash; from now on it is that version.
    ///
    /// # Errors
    ///
    /// If that version is not allowed, with the reason.
    pub(crate) fn settle(
        &mut self,
        lba: u64,
        reads_as: u64,
        survives: Survives,
    ) -> Result<(), String> {
        let now = self.tick();
        if self.beyond {
            return self.once_written(lba, reads_as);
        }
        let Some(versions) = self.blocks.get_mut(&lba) else { return never_written(lba, reads_as) };
        let allowed = may_be_found(versions, reads_as, survives);
        if !allowed {
            let history = describe(versions);
            return Err(format!(
                "after a crash, block {lba} reads as version {reads_as}, although {survives:?} data \
                 survives: {history}"
            ));
        }
        versions.clear();
        versions.push(Version::settled(reads_as, now));
        // The crash cut these reads short.
        self.reading.clear();
        Ok(())
    }

    /// The versions allowed after a crash now, for each block ever written.
    pub(crate) fn promises(&self, survives: Survives) -> Vec<(u64, Vec<u64>)> {
        let allowed = |versions: &Vec<Version>| {
            let mut numbers: Vec<_> = versions.iter().map(|one| one.reads_as).collect();
            numbers.sort_unstable();
            numbers.dedup();
            numbers.retain(|reads_as| may_be_found(versions, *reads_as, survives));
            numbers
        };
        self.blocks.iter().map(|(lba, versions)| (*lba, allowed(versions))).collect()
    }

    /// Number of submitted writes.
    pub(crate) fn writes(&self) -> usize {
        self.writes.len()
    }

    /// Whether a write after the first `writes` may have left this version of a block.
    pub(crate) fn written_since(&self, writes: usize, lba: u64, reads_as: u64) -> bool {
        let mut since = (1..).zip(&self.writes).skip(writes);
        since.any(|(number, extent)| {
            let version = if extent.zeros { 0 } else { number };
            version == reads_as && (extent.lba..extent.lba + extent.blocks).contains(&lba)
        })
    }

    fn once_written(&self, lba: u64, reads_as: u64) -> Result<(), String> {
        let written = reads_as == 0
            || usize::try_from(reads_as - 1)
                .ok()
                .and_then(|index| self.writes.get(index))
                .is_some_and(|extent| (extent.lba..extent.lba + extent.blocks).contains(&lba));
        match written {
            true => Ok(()),
            false => Err(format!(
                "block {lba} reads as version {reads_as}, which was never written to it"
            )),
        }
    }
}

/// Whether a crash may leave this version: no surviving version is newer.
fn may_be_found(versions: &[Version], reads_as: u64, survives: Survives) -> bool {
    let survivor = |other: &&Version| match survives {
        Survives::Acknowledged => other.proven != NEVER,
        Survives::Durable => other.promised,
    };
    versions.iter().filter(|one| one.reads_as == reads_as).any(|found| {
        let mut others = versions.iter().filter(survivor);
        !others.any(|other| other.number != found.number && found.came_before(other))
    })
}

/// Drops versions older than one that was promised before every read in flight began: nothing may
/// return them any more, crash or not.
fn forget_superseded(versions: &mut Vec<Version>, reading_since: Moment) {
    let settled = |one: &&Version| one.promised && one.acknowledged < reading_since;
    let floor = versions.iter().filter(settled).map(|one| one.submitted).max().unwrap_or(0);
    versions.retain(|one| one.proven >= floor);
}

fn never_written(lba: u64, reads_as: u64) -> Result<(), String> {
    match reads_as {
        0 => Ok(()),
        _ => Err(format!("block {lba} reads as version {reads_as}, and was never written")),
    }
}

fn describe(versions: &[Version]) -> String {
    let moment = |moment: Moment| match moment {
        NEVER => "-".to_owned(),
        moment => moment.to_string(),
    };
    let describe = |one: &Version| {
        format!(
            "version {}{} submitted {} acknowledged {}{} in effect before {} and after {}",
            one.number,
            if one.reads_as == 0 { " (zeros)" } else { "" },
            one.submitted,
            moment(one.acknowledged),
            if one.promised { " (durable)" } else { "" },
            moment(one.proven),
            one.seen,
        )
    };
    versions.iter().map(describe).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledged(oracle: &mut Oracle, promised: bool) -> u64 {
        let version = oracle.submit(5, 1, false);
        oracle.acknowledge(version, promised);
        version
    }

    #[test]
    fn a_read_never_goes_back() {
        let mut oracle = Oracle::default();
        let old = acknowledged(&mut oracle, false);
        let (one, two) = (oracle.submit(5, 1, false), oracle.submit(5, 1, false));
        let mut reads = |version| {
            let began = oracle.tick();
            oracle.read(5, version, began).is_ok()
        };
        assert!(reads(old), "the others may not have taken effect");
        assert!(reads(two));
        assert!(!reads(old));
        assert!(reads(one), "may have come after the other");
        assert!(!reads(two), "and then not before it as well");
        assert!(!reads(99));
    }

    #[test]
    fn overlapping_reads_may_disagree() {
        let mut oracle = Oracle::default();
        let old = acknowledged(&mut oracle, false);
        let new = oracle.submit(5, 1, false);
        let began = oracle.tick();
        oracle.read(5, new, began).unwrap();
        oracle.read(5, old, began).unwrap();
        let began = oracle.tick();
        oracle.read(5, old, began).unwrap_err();
    }

    #[test]
    fn a_lost_power_takes_what_was_not_promised() {
        for (survives, allowed) in [(Survives::Acknowledged, false), (Survives::Durable, true)] {
            let mut oracle = Oracle::default();
            let promised = acknowledged(&mut oracle, true);
            let lost = acknowledged(&mut oracle, false);
            assert_eq!(oracle.settle(5, promised, survives).is_ok(), allowed);
            if allowed {
                oracle.settle(5, lost, survives).unwrap_err();
                oracle.settle(5, promised, survives).unwrap();
            }
            oracle.settle(5, 0, survives).unwrap_err();
        }
    }

    #[test]
    fn a_flush_promises_what_was_acknowledged_before_it_began() {
        let mut oracle = Oracle::default();
        let (covered, late) = (oracle.submit(5, 1, false), oracle.submit(6, 1, true));
        oracle.acknowledge(covered, false);
        let began = oracle.tick();
        oracle.acknowledge(late, false);
        oracle.flushed(began);
        oracle.settle(5, 0, Survives::Durable).unwrap_err();
        oracle.settle(5, covered, Survives::Durable).unwrap();
        oracle.settle(6, 0, Survives::Durable).unwrap();
    }

    #[test]
    fn what_was_found_after_a_crash_is_pinned() {
        let mut oracle = Oracle::default();
        let unacknowledged = oracle.submit(5, 1, false);
        oracle.settle(5, unacknowledged, Survives::Durable).unwrap();
        oracle.settle(5, 0, Survives::Durable).unwrap_err();
    }

    #[test]
    fn beyond_the_redundancy_versions_vanish_but_none_is_made_up() {
        let mut oracle = Oracle::default();
        let version = acknowledged(&mut oracle, true);
        oracle.lose_promises();
        oracle.settle(5, 0, Survives::Acknowledged).unwrap();
        oracle.settle(5, version, Survives::Acknowledged).unwrap();
        oracle.settle(6, version, Survives::Acknowledged).unwrap_err();
    }
}
