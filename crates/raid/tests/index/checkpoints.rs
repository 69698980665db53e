//! Checkpoints of the index: the work that they save a start, their cost, and starts with a damaged
//! one.

use crate::support::life::{live, one_life};
use crate::support::{Array, contents, large, read_all};
use zoneweave_raid::log::format::Lineage;
use zoneweave_raid::log::{Lanes, OpenOptions, OpenReport, Volume, WriteChoice, WritePolicy};
use zoneweave_runtime::Random;
use zoneweave_zoned::{BlockCount, BlockDevice, Lba, ZoneAddress, ZoneId, ZoneState};

/// Blocks of a request.
const REQUEST: usize = 8;

/// Writes the whole volume, one request after the other.
async fn fill(volume: &Volume, blocks: u64, version: u64) {
    for lba in (0..blocks).step_by(REQUEST) {
        let data =
            (lba..blocks.min(lba + REQUEST as u64)).map(|lba| contents(lba, version)).collect();
        volume.write(Lba(lba), data, false).await.unwrap();
    }
}

/// The report of a start.
fn start(array: &Array, options: OpenOptions) -> OpenReport {
    one_life(array, &[], options, async |_, report, _| report.clone()).unwrap()
}

fn without() -> OpenOptions {
    OpenOptions { ignore_checkpoint: true, ..OpenOptions::default() }
}

#[test]
fn a_start_reads_what_was_written_since() {
    let array = large();
    let blocks = array.blocks;
    live(&array, async |volume, _, _| {
        fill(volume, blocks, 1).await;
        let counters = volume.status().counters;
        assert!(counters.checkpoints > 0);
        let share = counters.checkpoint_blocks * 1000 / counters.user_blocks_written;
        assert!(share <= 20, "{share} per mille of what users wrote");
    });
    let report = start(&array, OpenOptions::default());
    assert!(report.checkpoint.is_some());
    assert!(report.replayed_segments * 4 < report.segments, "{report:?}");
    live(&array, async |volume, _, _| {
        assert!(read_all(volume, blocks).await.unwrap().iter().all(|version| *version == 1));
    });
    let all = start(&array, without());
    assert_eq!((all.checkpoint, all.replayed_segments), (None, all.segments));
    // The start that ignored it wrote a snapshot without it.
    assert_eq!(start(&array, OpenOptions::default()).checkpoint, None);
}

#[test]
fn those_who_want_none_write_none() {
    let array = large();
    let none = || OpenOptions { checkpoint_share: None, ..OpenOptions::default() };
    let filled = one_life(&array, &[], none(), async |volume, _, _| {
        fill(volume, array.blocks, 1).await;
        assert_eq!(volume.status().counters.checkpoint_blocks, 0);
    });
    filled.unwrap();
    assert_eq!(start(&array, OpenOptions::default()).checkpoint, None);
}

/// Overwrites and relocations in several open segments, over many checkpoints; each of them agrees
/// with the summaries.
#[test]
fn a_checkpoint_tells_what_the_lists_tell() {
    let array = large();
    let blocks = array.blocks;
    let small = Lanes { count: 2, chunk_blocks: 1 };
    let policy = WritePolicy::adaptive(small, Lanes::default());
    let options = OpenOptions {
        writes: WriteChoice::Policy(policy),
        checkpoint_share: Some(8),
        ..OpenOptions::default()
    };
    let mut random = Random::new(11);
    let mut expected = vec![0; usize::try_from(blocks).unwrap()];
    for life in 1..=6_u64 {
        let before = expected.clone();
        let lived = one_life(&array, &[], options.clone(), async |volume, report, _| {
            assert_eq!(report.checkpoint.is_some(), life > 1);
            assert_eq!(read_all(volume, blocks).await.unwrap(), before);
            for _ in 0..3_000 {
                let lba = random.below(blocks);
                let length = (1 + random.below(12)).min(blocks - lba);
                let range = lba..lba + length;
                if random.per_mille(100) {
                    volume.trim(Lba(lba), length, false).await.unwrap();
                    range.for_each(|lba| expected[usize::try_from(lba).unwrap()] = 0);
                } else {
                    let data = range.clone().map(|lba| contents(lba, life)).collect();
                    volume.write(Lba(lba), data, false).await.unwrap();
                    range.for_each(|lba| expected[usize::try_from(lba).unwrap()] = life);
                }
            }
            volume.flush().await.unwrap();
            volume.assert_consistent();
        });
        lived.unwrap();
    }
    let replayed = one_life(&array, &[], without(), async |volume, _, _| {
        read_all(volume, blocks).await.unwrap()
    });
    assert_eq!(replayed.unwrap(), expected);
}

/// A start that finds a block of the checkpoint damaged beyond repair replays all lists instead.
#[test]
fn a_damaged_checkpoint_costs_time_only() {
    let array = large();
    let blocks = array.blocks;
    live(&array, async |volume, _, _| fill(volume, blocks, 1).await);
    assert!(start(&array, OpenOptions::default()).checkpoint.is_some());
    // Most blocks of two columns cannot be read: no block of a stripe there can be rebuilt.
    for drive in &array.drives[..2] {
        let zones = (2..array.shape.zones).map(ZoneId);
        for zone in zones.filter(|zone| drive.zone(*zone).state != ZoneState::Empty) {
            drive.set_unreadable(ZoneAddress::new(zone, 1), BlockCount(200));
        }
    }
    let forced = OpenOptions { force: true, lineage: Lineage(3), ..OpenOptions::default() };
    assert_eq!(start(&array, forced).checkpoint, None);
}
