//! Split brain: drives left behind are started by themselves, so that one array has two histories.
//!
//! Everything happens to copies. Such a start may serve data as old as its drives' last membership,
//! but nothing else. Offered together with the other drives, the history with the higher epoch
//! counts alone; at equal epochs the array does not start.

use std::cmp::Ordering;
use std::rc::Rc;

use zoneweave_emulator::RamDrive;
use zoneweave_raid::log::format::{Lineage, MemberState, SuperblockRecord};
use zoneweave_raid::log::{
    AssemblyError, DriveRole, OfferedDrive, OpenError, OpenOptions, Survey, Volume, open_array,
    survey,
};
use zoneweave_runtime::{Executor, Handle, VirtualTime};
use zoneweave_zoned::{BlockDevice, Lba};

use crate::pattern::{contents, version_of};
use crate::simulate::drives::attach::attach;
use crate::simulate::drives::drive::Seen;
use crate::simulate::run::foreign_drives::copy;
use crate::simulate::run::harness::Harness;
use crate::simulate::scenario::SplitBrain;

/// First version written on the other side: no user of the main history gets so far.
const VERSIONS_APART: u64 = 1 << 40;

/// Records the result of a start for its members.
pub(crate) fn record(harness: &Harness, found: &[Option<u64>]) {
    let writes = harness.oracle.borrow().writes();
    let seen = Rc::new(Seen { writes, found: found.to_vec() });
    harness.drives.borrow_mut().record_seen(&seen);
}

/// Starts drives left behind by themselves.
///
/// # Panics
///
/// If they serve wrong data, or count in the wrong history.
pub(crate) fn start(harness: &Harness, apart: SplitBrain) {
    let drives = harness.drives.borrow();
    if harness.shape.beyond || !drives.undamaged() {
        return;
    }
    let (mut left, mut kept, mut oldest) = (Vec::new(), Vec::new(), None::<Rc<Seen>>);
    for (slot, drive) in drives.in_slots.iter().enumerate() {
        if !drives.is_out(slot) {
            kept.push(copy(&drive.ram));
        } else if let Some(seen) = &drive.seen {
            left.push(copy(&drive.ram));
            let older = oldest.as_ref().is_none_or(|oldest| seen.writes < oldest.writes);
            oldest = if older { Some(seen.clone()) } else { oldest };
        }
    }
    drop(drives);
    let Some(oldest) = oldest else { return };
    for number in 0..apart.starts.max(1) {
        if !go_on(harness, &left, &oldest, apart.blocks, VERSIONS_APART + u64::from(number)) {
            return;
        }
    }
    compare(&kept, &left);
    harness.count(|tally| tally.split_brains += 1);
}

fn offer(drives: &[&RamDrive], handle: &Handle) -> Vec<OfferedDrive> {
    let label = |(number, drive): (usize, &&RamDrive)| OfferedDrive {
        device: attach(drive, handle),
        label: format!("copy {number}"),
    };
    drives.iter().enumerate().map(label).collect()
}

/// One start by force, which writes a version of its own; `false` if there are too few drives.
fn go_on(harness: &Harness, left: &[RamDrive], seen: &Seen, blocks: u32, version: u64) -> bool {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let offered = offer(&left.iter().collect::<Vec<_>>(), &executor.handle());
    let force = OpenOptions {
        force: true,
        lineage: Lineage(harness.shape.seed ^ version),
        ..OpenOptions::default()
    };
    executor.run(async {
        let opened = open_array(&executor.handle(), offered, force).await;
        let Ok((volume, _)) = opened else { return false };
        judge(harness, &volume, seen, version).await;
        for lba in 0..u64::from(blocks).min(harness.blocks.get()) {
            let written = volume.write(Lba(lba), vec![contents(lba, version)], false).await;
            written.expect("a volume that was started by force can be written");
        }
        volume.close().await.expect("it can be closed");
        true
    })
}

/// Each block must have the version from the time of membership, or a later one.
async fn judge(harness: &Harness, volume: &Volume, seen: &Seen, version: u64) {
    for (lba, found) in (0..).zip(&seen.found) {
        let data = volume.read(Lba(lba), 1).await;
        let data = data.expect("a split-off array has all of its data").concat();
        let read = version_of(lba, &data);
        let read = read.unwrap_or_else(|| {
            panic!("block {lba} of the split-off array has contents that were never written to it")
        });
        let written_apart = (VERSIONS_APART..version).contains(&read);
        let since = harness.oracle.borrow().written_since(seen.writes, lba, read);
        assert!(
            found.is_none_or(|found| found == read) || since || written_apart,
            "block {lba} of the split-off array reads as version {read}, and was {found:?} before"
        );
    }
}

/// Offers the drives of both histories together.
fn compare(kept: &[RamDrive], left: &[RamDrive]) {
    let (kept, left): (Vec<_>, Vec<_>) = (kept.iter().collect(), left.iter().collect());
    let (ours, theirs) = (look(&kept).membership, look(&left).membership);
    let (Some(ours), Some(theirs)) = (ours, theirs) else { return };
    if ours.lineage == theirs.lineage {
        return;
    }
    let both = look(&[&kept[..], &left[..]].concat());
    let (ours_are, theirs_are) = both.drives.split_at(kept.len());
    let (ours, theirs) = ((&ours, ours_are, &kept), (&theirs, theirs_are, &left));
    let refused = matches!(
        both.refusal,
        Some(
            OpenError::Array(AssemblyError::TwoHistories { .. })
                | OpenError::Array(AssemblyError::HistoryInDoubt { .. })
        )
    );
    let (winner, loser) = match ours.0.epoch.cmp(&theirs.0.epoch) {
        Ordering::Greater => (ours, theirs),
        Ordering::Less => (theirs, ours),
        Ordering::Equal if refused => return,
        Ordering::Equal => {
            match (never_counted(ours.0, theirs.2), never_counted(theirs.0, ours.2)) {
                (false, true) => (ours, theirs),
                (true, false) => (theirs, ours),
                _ => panic!("an array with two histories starts: {:?}", both.refusal),
            }
        }
    };
    let counting = both.membership.as_ref().map(|record| (record.lineage, record.epoch));
    let expected = Some((winner.0.lineage, winner.0.epoch));
    assert_eq!(counting, expected, "the wrong one of two histories counts");
    let counts = loser.1.iter().any(|drive| matches!(drive.role, DriveRole::Member { .. }));
    assert!(!counts, "drives of two histories count together: {:?}", both.drives);
}

/// Whether one of the drives of the other history is in service for `table`, at the same epoch. If
/// a start by force had begun the other history and told this drive, its epoch would be higher than
/// this one.
fn never_counted(table: &SuperblockRecord, others: &[&RamDrive]) -> bool {
    let in_service = |drive: &&RamDrive| {
        let own = look(&[*drive]).membership;
        let entry = own.and_then(|own| table.members.iter().find(|entry| entry.uuid == own.member));
        entry.is_some_and(|entry| entry.state != MemberState::Failed)
    };
    others.iter().any(in_service)
}

fn look(drives: &[&RamDrive]) -> Survey {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let offered = offer(drives, &executor.handle());
    executor.run(survey(offered))
}
