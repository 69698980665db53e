//! An index whose pages are mostly on media when users are served: requests wait for their pages,
//! and in the end the index equals that of a start from summaries.

use std::num::NonZeroU32;

use crate::support::life::{assert_hit, one_life};
use crate::support::model::Model;
use crate::support::{Array, contents, is_of, large, read_all};
use zoneweave_emulator::{CommandKind, FaultAction, FaultPlan, RamDrive, Selector};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::format::{ContentKind, Lineage};
use zoneweave_raid::log::{Lanes, OpenOptions, WriteChoice, WritePolicy};
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{
    BlockCount, BlockDevice, BlockError, Lba, Status, ZoneAddress, ZoneId, ZoneState,
};

/// One page at a time that nobody asks for.
fn on_demand() -> OpenOptions {
    let policy = WritePolicy::adaptive(Lanes { count: 2, chunk_blocks: 1 }, Lanes::default());
    OpenOptions {
        writes: WriteChoice::Policy(policy),
        checkpoint_share: Some(8),
        index_on_demand: NonZeroU32::new(1),
        ..OpenOptions::default()
    }
}

fn by_lists() -> OpenOptions {
    OpenOptions { ignore_checkpoint: true, ..on_demand() }
}

/// Nothing is read before it is asked for, and users' requests meet pages in any state.
#[test]
fn users_need_not_wait_for_the_index() {
    let array = large();
    let mut model = Model::new(array.blocks);
    // Where room is scarce everything is read first.
    let mut lives_on_demand = 0;
    for life in 1..=8_u64 {
        let lived = one_life(&array, &[], on_demand(), async |volume, report, _| {
            lives_on_demand += u32::from(report.absent_pages > 8);
            for _ in 0..2_000 {
                model.step(volume, life).await;
            }
            volume.flush().await.unwrap();
            volume.assert_consistent();
            assert_eq!(read_all(volume, array.blocks).await.unwrap(), model.versions);
        });
        lived.unwrap();
    }
    assert!(lives_on_demand > 3, "{lives_on_demand}");
    let replayed = one_life(&array, &[], by_lists(), async |volume, report, _| {
        assert_eq!((report.checkpoint, report.absent_pages), (None, 0));
        read_all(volume, array.blocks).await.unwrap()
    });
    assert_eq!(replayed.unwrap(), model.versions);
}

/// Blocks written since the checkpoint, into ranges that were empty before, are near none of its
/// pages, and are entered without a request for them.
#[test]
fn what_no_checkpoint_knows_is_entered_in_the_end() {
    let array = large();
    let mut versions = vec![0; usize::try_from(array.blocks).unwrap()];
    let lives = [(0..6_000, Some(8)), (20_000..21_000, Some(u32::MAX))];
    for (blocks, checkpoint_share) in lives {
        let options = OpenOptions { checkpoint_share, ..on_demand() };
        let filled = one_life(&array, &[], options, async |volume, _, _| {
            for lba in blocks.clone().chain(blocks.clone()).step_by(8) {
                let data = (lba..lba + 8).map(|lba| contents(lba, 1)).collect();
                volume.write(Lba(lba), data, false).await.unwrap();
            }
            volume.flush().await.unwrap();
        });
        filled.unwrap();
        for lba in blocks {
            versions[usize::try_from(lba).unwrap()] = 1;
        }
    }
    let started = one_life(&array, &[], on_demand(), async |volume, report, handle| {
        assert!(report.checkpoint.is_some() && report.absent_pages > 2, "{report:?}");
        // Until nothing goes on any more.
        handle.sleep(Nanos::from_secs(10)).await;
        assert_hit(&[Mark::DeferredWithoutPage, Mark::IndexResident]);
        volume.assert_consistent();
        assert_eq!(volume.status().counters.user_blocks_written, 0);
        assert_eq!(read_all(volume, array.blocks).await.unwrap(), versions);
    });
    started.unwrap();
}

/// Segments found by a start are retained until the index is complete; then free ones are
/// reclaimed.
#[test]
fn what_is_not_known_yet_is_not_reclaimed() {
    let array = large();
    let mut model = Model::new(array.blocks);
    let mut reclaimed = 0;
    for life in 1..=3_u64 {
        let lived = one_life(&array, &[], on_demand(), async |volume, _, _| {
            for _ in 0..9_000 {
                model.step(volume, life).await;
            }
            volume.flush().await.unwrap();
            reclaimed += volume.status().counters.segments_reclaimed;
            volume.assert_consistent();
        });
        lived.unwrap();
    }
    assert!(reclaimed > 100, "{reclaimed} segments");
    let found = one_life(&array, &[], on_demand(), async |volume, _, _| {
        read_all(volume, array.blocks).await.unwrap()
    });
    assert_eq!(found.unwrap(), model.versions);
}

/// An array whose pages are mostly on media at the next start, with its contents.
fn filled() -> (Array, Model) {
    let array = large();
    let mut model = Model::new(array.blocks);
    let filled = one_life(&array, &[], on_demand(), async |volume, _, _| {
        for _ in 0..4_000 {
            model.step(volume, 1).await;
        }
        volume.flush().await.unwrap();
    });
    filled.unwrap();
    (array, model)
}

/// A page that is unreadable after users are served is an error for requests that need it, and ends
/// writes; the next start does without the checkpoint.
#[test]
fn a_page_that_is_gone_is_an_error() {
    let (array, _) = filled();
    let damage = || {
        // Wherever pages came to be.
        for drive in &array.drives {
            let zones = (2..array.shape.zones).map(ZoneId);
            for zone in zones.filter(|zone| drive.zone(*zone).state != ZoneState::Empty) {
                drive.set_unreadable(ZoneAddress::new(zone, 1), BlockCount(250));
            }
        }
    };
    let lived = one_life(&array, &[], on_demand(), async |volume, report, _| {
        assert!(report.absent_pages > 8, "{report:?}");
        damage();
        let last = Lba(array.blocks - 1);
        let read = volume.read(last, 1).await;
        assert!(matches!(read, Err(BlockError::Unrecoverable { .. })), "{read:?}");
        let data = vec![contents(last.0, 2)];
        let written = volume.write(last, data, true).await;
        assert!(written.is_err(), "{written:?}");
    });
    lived.unwrap();
    let forced = OpenOptions { force: true, lineage: Lineage(3), ..on_demand() };
    let found = one_life(&array, &[], forced, async |_, report, _| report.checkpoint);
    assert_eq!(found.unwrap(), None);
}

/// Without redundancy, a drive's controller is reset when users are served already: its pages are
/// waited for.
#[test]
fn a_page_that_a_drive_does_not_tell_for_a_while_is_not_lost() {
    let (array, mut model) = filled();
    let lived = one_life(&array, &[], on_demand(), async |volume, _, handle| {
        volume.fail(0).await.unwrap();
        let reads = Selector::next(CommandKind::Read).always();
        array.drives[1].inject(reads, FaultAction::Fail(Status::Aborted));
        assert!(volume.status().absent_pages > 4, "{:?}", volume.status());
        handle.sleep(Nanos::from_secs(3)).await;
        array.drives[1].faults(FaultPlan::clear);
        assert_eq!(read_all(volume, array.blocks).await.unwrap(), model.versions);
        model.step(volume, 2).await;
        assert_eq!(volume.status().absent_pages, 0);
    });
    lived.unwrap();
    assert_hit(&[Mark::MovedBlockAwaited]);
}

/// Loses blocks of users in complete segments: two of every stripe, as far as neither is of a
/// checkpoint.
fn lose_blocks_of_users(array: &Array) -> u64 {
    let mut lost = 0;
    for zone in (2..array.shape.zones).map(ZoneId) {
        let two = &array.drives[..2];
        if two.iter().any(|drive| drive.zone(zone).state != ZoneState::Full) {
            continue;
        }
        for row in 1..array.shape.zone_blocks {
            let at = ZoneAddress::new(zone, row);
            let is_of_users =
                |drive: &RamDrive| is_of(ContentKind::Data, &drive.peek(at, BlockCount(1)));
            if two.iter().all(is_of_users) {
                two.iter().for_each(|drive| drive.set_unreadable(at, BlockCount(1)));
                lost += 1;
            }
        }
    }
    lost
}

/// A lost block is an error for requests for it, even if its age decides about a page entry:
/// everything else is served.
#[test]
fn blocks_lost_behind_pages_are_errors_and_no_more() {
    let mut lives_on_demand = 0;
    for crash in 0..10 {
        let array = large();
        let mut model = Model::new(array.blocks);
        let filled = one_life(&array, &[], on_demand(), async |volume, _, _| {
            for _ in 0..8_000 + crash * 331 {
                model.step(volume, 1).await;
            }
        });
        filled.unwrap();
        assert!(lose_blocks_of_users(&array) > 100);
        let served = one_life(&array, &[], on_demand(), async |volume, report, _| {
            assert!(report.checkpoint.is_some(), "{report:?}");
            lives_on_demand += u32::from(report.absent_pages > 8);
            let mut errors = 0;
            for (lba, version) in (0..).zip(&model.versions) {
                match volume.read(Lba(lba), 1).await {
                    Ok(read) => assert_eq!(read[0], contents(lba, *version), "block {lba}"),
                    Err(BlockError::Unrecoverable { .. }) => errors += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            assert!((1..array.blocks / 2).contains(&errors), "{errors} lost");
            volume.write(Lba(7), vec![contents(7, 2)], true).await.unwrap();
        });
        served.unwrap();
    }
    assert!(lives_on_demand > 2, "{lives_on_demand}");
}

/// Loses the stripes with blocks of checkpoints in segments that are not complete.
fn lose_newest_pages(array: &Array) -> u64 {
    let mut lost = 0;
    for zone in (2..array.shape.zones).map(ZoneId) {
        let open = |drive: &RamDrive| drive.zone(zone).state.is_active();
        if !array.drives.iter().any(open) {
            continue;
        }
        for row in 1..array.shape.zone_blocks {
            let at = ZoneAddress::new(zone, row);
            let holds =
                |drive: &RamDrive| is_of(ContentKind::Mapping, &drive.peek(at, BlockCount(1)));
            if array.drives.iter().any(holds) {
                array.drives.iter().for_each(|drive| drive.set_unreadable(at, BlockCount(1)));
                lost += 1;
            }
        }
    }
    lost
}

/// A block that a page points at was lost since, with the ones behind it: neither zeros nor any
/// other data that was never written is read.
#[test]
fn what_is_lost_behind_a_page_is_looked_for_in_the_lists() {
    let array = large();
    let filled = one_life(&array, &[], on_demand(), async |volume, _, _| {
        for round in 1..4 {
            for lba in (0..6_000).step_by(8) {
                let data = (lba..lba + 8).map(|lba| contents(lba, round)).collect();
                volume.write(Lba(lba), data, false).await.unwrap();
            }
        }
        volume.flush().await.unwrap();
    });
    filled.unwrap();
    assert!(lose_newest_pages(&array) > 0, "no block of a checkpoint in an open segment");
    let forced = OpenOptions { force: true, lineage: Lineage(3), ..on_demand() };
    let started = one_life(&array, &[], forced, async |volume, report, _| {
        assert_eq!(report.checkpoint, None);
        for lba in 0..6_000 {
            if let Ok(read) = volume.read(Lba(lba), 1).await {
                assert!((1..4).any(|round| read[0] == contents(lba, round)), "block {lba}");
            }
        }
    });
    started.unwrap();
}

/// Pages of another size tell of other blocks than a start would take them for: it does without.
/// There are as many of them here, so that directories look alike.
#[test]
fn pages_of_another_size_count_for_nothing() {
    let array = large();
    let mut model = Model::new(array.blocks);
    let filled = one_life(&array, &[], on_demand(), async |volume, _, _| {
        model.fill(volume, 1).await;
        volume.flush().await.unwrap();
    });
    filled.unwrap();
    let options = OpenOptions { index_page_entries: NonZeroU32::new(950), ..on_demand() };
    let started = one_life(&array, &[], options, async |volume, report, _| {
        assert_eq!((report.checkpoint, report.absent_pages), (None, 0));
        assert_eq!(read_all(volume, array.blocks).await.unwrap(), model.versions);
    });
    started.unwrap();
}
