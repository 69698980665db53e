//! An index with a memory limit: every request is answered, nothing is lost, and memory stays
//! within the limit.

use std::num::NonZeroU32;

use crate::support::life::{assert_hit, one_life};
use crate::support::model::Model;
use crate::support::{Array, Shape, contents, is_of, large, read_all};
use futures_util::future::join_all;
use zoneweave_emulator::{CommandKind, FaultAction, FaultPlan, Selector};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::format::{ContentKind, Lineage};
use zoneweave_raid::log::{Lanes, OpenOptions, Volume, WriteChoice, WritePolicy};
use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::{
    BlockCount, BlockDevice, BlockError, Lba, Status, ZoneAddress, ZoneId, ZoneState,
};

const BLOCKS: u64 = 30_000;

/// Blocks that a page tells the places of.
const PAGE_ENTRIES: usize = 960;

/// Memory of a page.
const PAGE_BYTES: u64 = PAGE_ENTRIES as u64 * 4 + 16;

/// Filled to the last block that there is room for beside 58 pages.
fn full(seed: u64) -> Array {
    let shape = Shape {
        zones: 16,
        zone_blocks: 64,
        group_rows: 8,
        tabled: false,
        volume_blocks: Some(1856),
        ..Shape::small()
    };
    Array::create(shape, &mut Random::new(seed))
}

/// Memory for some pages.
fn limited(pages: u64) -> OpenOptions {
    let policy = WritePolicy::adaptive(Lanes { count: 2, chunk_blocks: 1 }, Lanes::default());
    OpenOptions {
        writes: WriteChoice::Policy(policy),
        checkpoint_share: Some(8),
        index_memory: Some(pages * PAGE_BYTES),
        ..OpenOptions::default()
    }
}

#[test]
fn whatever_is_asked_for_is_there() {
    for pages in [0, 4, 16] {
        let array = large();
        let mut model = Model::new(BLOCKS);
        for life in 1..6 {
            let lived = one_life(&array, &[], limited(pages), async |volume, _, _| {
                if life == 1 {
                    model.fill(volume, 1).await;
                }
                for _ in 0..1500 {
                    model.step(volume, life + 1).await;
                }
                if life % 2 == 0 {
                    volume.close().await.unwrap();
                } else {
                    volume.flush().await.unwrap();
                }
                volume.status()
            });
            let status = lived.unwrap();
            assert!(status.counters.index_pages_read > 0, "{pages} pages, life {life}");
            assert!(status.counters.index_pages_written > 0, "{pages} pages, life {life}");
        }
        one_life(&array, &[], OpenOptions::default(), async |volume, _, _| {
            assert_eq!(read_all(volume, BLOCKS).await.unwrap(), model.versions);
        })
        .unwrap();
    }
}

/// Most of a volume is trimmed at once: its tombstones are relocated a few pages at a time.
#[test]
fn large_trims_are_moved_in_parts() {
    let array = large();
    let mut model = Model::new(BLOCKS);
    let lived = one_life(&array, &[], limited(4), async |volume, _, _| {
        model.fill(volume, 1).await;
        volume.trim(Lba(0), BLOCKS - 2000, false).await.unwrap();
        model.part(0, BLOCKS - 2000).fill(0);
        for version in 2..14 {
            for lba in (BLOCKS - 2000..BLOCKS).step_by(100) {
                let data = (lba..lba + 100).map(|lba| contents(lba, version)).collect();
                volume.write(Lba(lba), data, false).await.unwrap();
                model.part(lba, 100).fill(version);
            }
        }
        for lba in (0..BLOCKS).step_by(100) {
            model.check(volume, lba, 100).await;
        }
        volume.close().await.unwrap();
    });
    lived.unwrap();
}

/// Writes fail, and segments are given up, while the pages of their blocks are absent.
#[test]
fn segments_are_given_up_while_pages_are_away() {
    let array = large();
    let mut model = Model::new(BLOCKS);
    let mut random = Random::new(8);
    let lived = one_life(&array, &[], limited(0), async |volume, _, _| {
        model.fill(volume, 1).await;
        for round in 0..80 {
            for drive in &array.drives {
                let zone = ZoneId(2 + u32::try_from(random.below(58)).unwrap());
                let row = 8 + u32::try_from(random.below(200)).unwrap();
                let next = Selector::next(CommandKind::Write).in_zone(zone).touching(row..row + 1);
                drive.inject(next, FaultAction::Fail(Status::InternalError));
            }
            for _ in 0..60 {
                model.step(volume, 2 + round).await;
            }
        }
        assert_eq!(read_all(volume, BLOCKS).await.unwrap(), model.versions);
        volume.status()
    });
    let status = lived.unwrap();
    assert!(status.counters.segments_abandoned > 20, "{:?}", status.counters);
    assert_hit(&[Mark::PageMoved, Mark::PageChangedWhileLeaving]);
}

/// Segments with relocated blocks are given up one after the other on a full array, while the pages
/// of these blocks are absent. The relocations are undone, and there is space again.
#[test]
fn a_full_array_survives_failures_in_a_row() {
    for seed in [13, 25] {
        let array = full(seed);
        let mut model = Model::new(array.blocks);
        let mut random = Random::new(seed);
        let options = || OpenOptions {
            index_page_entries: NonZeroU32::new(32),
            writes: WriteChoice::AsMade,
            ..limited(0)
        };
        let lived = one_life(&array, &[], options(), async |volume, _, _| {
            model.fill(volume, 1).await;
            for round in 2..60 {
                for _ in 0..if round % 6 == 0 { 6 } else { 0 } {
                    let drive = &array.drives[usize::try_from(random.below(4)).unwrap()];
                    let zone = ZoneId(2 + u32::try_from(random.below(14)).unwrap());
                    let row = 8 + u32::try_from(random.below(50)).unwrap();
                    let next =
                        Selector::next(CommandKind::Write).in_zone(zone).touching(row..row + 1);
                    drive.inject(next, FaultAction::Fail(Status::InternalError));
                }
                for _ in 0..40 {
                    model.step(volume, round).await;
                }
            }
            assert_eq!(read_all(volume, array.blocks).await.unwrap(), model.versions);
            volume.status().counters.segments_abandoned
        });
        assert!(lived.unwrap() > 20);
    }
    assert_hit(&[Mark::MovesTakenBackLate, Mark::RoomByTakingBack]);
}

/// An unreadable page is an error for requests that need it, and ends writes; the next start does
/// without checkpoints.
#[test]
fn a_page_that_is_gone_is_an_error() {
    let array = large();
    let mut model = Model::new(BLOCKS);
    let lived = one_life(&array, &[], limited(0), async |volume, _, _| {
        model.fill(volume, 1).await;
        volume.flush().await.unwrap();
        for drive in &array.drives[..2] {
            let zones = (2..array.shape.zones).map(ZoneId);
            for zone in zones.filter(|zone| drive.zone(*zone).state != ZoneState::Empty) {
                drive.set_unreadable(ZoneAddress::new(zone, 1), BlockCount(250));
            }
        }
        let read = volume.read(Lba(0), 1).await;
        assert!(matches!(read, Err(BlockError::Unrecoverable { .. })), "{read:?}");
        // Some pages lie elsewhere; the first one that is missing ends writes, also those whose
        // pages are there.
        let mut missing = 0;
        for lba in (0..BLOCKS).step_by(PAGE_ENTRIES) {
            let written = volume.write(Lba(lba), vec![contents(lba, 2)], true).await;
            assert!(written.is_err() || missing == 0, "block {lba} after {missing} refused");
            missing += usize::from(written.is_err());
        }
        assert!(missing > 0);
    });
    lived.unwrap();
    let forced = OpenOptions { force: true, lineage: Lineage(3), ..limited(0) };
    let found = one_life(&array, &[], forced, async |_, report, _| report.checkpoint);
    assert_eq!(found.unwrap(), None);
}

/// Without redundancy left, a drive's controller is reset while pages are requested that only it
/// has: the requests wait, and no page is lost.
#[test]
fn a_page_that_a_drive_does_not_tell_for_a_while_is_not_lost() {
    let array = large();
    let mut model = Model::new(BLOCKS);
    let lived = one_life(&array, &[], limited(0), async |volume, _, handle| {
        model.fill(volume, 1).await;
        volume.fail(0).await.unwrap();
        let reads = Selector::next(CommandKind::Read).always();
        array.drives[1].inject(reads, FaultAction::Fail(Status::Aborted));
        let ask = |lba| {
            let volume = volume.clone();
            handle.spawn("ask", async move { volume.read(Lba(lba), 1).await })
        };
        let asked: Vec<_> = (0..BLOCKS).step_by(PAGE_ENTRIES).map(ask).collect();
        handle.sleep(Nanos::from_secs(3)).await;
        array.drives[1].faults(FaultPlan::clear);
        join_all(asked).await;
        model.step(volume, 2).await;
        assert_eq!(read_all(volume, array.blocks).await.unwrap(), model.versions);
    });
    lived.unwrap();
    assert_hit(&[Mark::MovedBlockAwaited]);
}

/// Loses the blocks of pages that a drive holds, in segments that are complete.
fn lose_pages(array: &Array, drive: usize) {
    let drive = &array.drives[drive];
    let zones = (2..array.shape.zones).map(ZoneId);
    for zone in zones.filter(|zone| drive.zone(*zone).state == ZoneState::Full) {
        for at in (1..array.shape.zone_blocks).map(|row| ZoneAddress::new(zone, row)) {
            if is_of(ContentKind::Mapping, &drive.peek(at, BlockCount(1))) {
                drive.set_unreadable(at, BlockCount(1));
            }
        }
    }
}

/// Number of lost blocks; the others must have their contents.
async fn lost_blocks(volume: &Volume, model: &mut Model) -> u64 {
    let mut lost = 0;
    for lba in 0..BLOCKS {
        match volume.read(Lba(lba), 1).await {
            Ok(data) => assert_eq!(data[0], contents(lba, model.part(lba, 1)[0]), "block {lba}"),
            Err(BlockError::Unrecoverable { .. }) => lost += 1,
            Err(error) => panic!("{error}"),
        }
    }
    lost
}

/// Without redundancy, a lost block of a page loses the page: writes end, and requests for its
/// blocks get errors. Other pages stay readable, and all blocks are once the next start has read
/// the summaries.
#[test]
fn pages_without_redundancy_are_lost_one_by_one() {
    let shape = Shape { parity: 0, ..large().shape };
    let array = Array::create(shape, &mut Random::new(4));
    let mut model = Model::new(BLOCKS);
    let lived = one_life(&array, &[], limited(4), async |volume, _, _| {
        model.fill(volume, 1).await;
        for _ in 0..2000 {
            model.step(volume, 2).await;
        }
        // Pages written so far get into complete segments, before they are relocated to one that is
        // not.
        for lba in (BLOCKS - 900..BLOCKS).step_by(4) {
            let data = (lba..lba + 4).map(|lba| contents(lba, 3)).collect();
            volume.write(Lba(lba), data, false).await.unwrap();
        }
        model.part(BLOCKS - 900, 900).fill(3);
        volume.flush().await.unwrap();
        lose_pages(&array, 0);
        let lost = lost_blocks(volume, &mut model).await;
        assert!((960..=BLOCKS / 2).contains(&lost), "{lost} lost");
        // Of a page that is there: of the others nothing can be said.
        let mut there = 0;
        while volume.read(Lba(there), 1).await.is_err() {
            there += 1;
        }
        let written = volume.write(Lba(there), vec![contents(there, 6)], true).await;
        assert!(matches!(written, Err(BlockError::ReadOnly { .. })), "{written:?}");
    });
    lived.unwrap();
    let started = one_life(&array, &[], limited(4), async |volume, report, _| {
        assert_eq!(report.checkpoint, None);
        assert_eq!(read_all(volume, BLOCKS).await.unwrap(), model.versions);
        volume.write(Lba(5000), vec![contents(5000, 6)], true).await.unwrap();
    });
    started.unwrap();
    assert_hit(&[Mark::PageAwayUnreadable]);
}

/// However many ask for pages that a start has left on media, no more are in memory than there are
/// to be.
#[test]
fn requests_for_absent_pages_wait_for_frames() {
    let array = large();
    let mut model = Model::new(BLOCKS);
    let options = || OpenOptions {
        index_page_entries: NonZeroU32::new(16),
        index_memory: Some(8 * (16 * 4 + 16)),
        index_on_demand: NonZeroU32::new(1),
        ..limited(0)
    };
    let filled = one_life(&array, &[], options(), async |volume, _, _| {
        for version in 1..4 {
            model.fill(volume, version).await;
        }
        volume.flush().await.unwrap();
    });
    filled.unwrap();
    let started = one_life(&array, &[], options(), async |volume, report, _| {
        assert!(report.absent_pages > 1000, "{report:?}");
        let reads = (0..BLOCKS).step_by(16).map(|lba| volume.read(Lba(lba), 1));
        for (lba, read) in (0..BLOCKS).step_by(16).zip(join_all(reads).await) {
            assert_eq!(read.unwrap()[0], contents(lba, 3));
        }
        volume.status().index_pages.unwrap()
    });
    let pages = started.unwrap();
    assert!(pages.held_most < 400, "{pages:?}");
    assert_hit(&[Mark::FramesAwaitedByAbsent]);
}

/// While dirty pages are being written, clean ones are dropped: a request for a page does not wait
/// for the writes.
#[test]
fn pages_go_while_others_are_being_written() {
    let array = large();
    let mut model = Model::new(BLOCKS);
    let lived = one_life(&array, &[], limited(8), async |volume, _, handle| {
        model.fill(volume, 1).await;
        for page in 0..4 {
            volume.write(Lba(page * 960), vec![contents(page * 960, 2)], false).await.unwrap();
            model.part(page * 960, 1).fill(2);
        }
        for drive in &array.drives {
            let writes = Selector::next(CommandKind::Write).always();
            drive.inject(writes, FaultAction::Slow(Nanos::from_millis(1000)));
        }
        let (began, written) = (handle.now(), volume.status().counters.index_pages_written);
        for page in (4..31).cycle().take(200) {
            model.check(volume, page * 960, 1).await;
        }
        let status = volume.status();
        assert!(handle.now() - began < Nanos::from_millis(1000), "reads waited for writes");
        assert_eq!(status.counters.index_pages_written, written);
        status.index_pages.unwrap()
    });
    let pages = lived.unwrap();
    assert!(pages.held < 12, "{pages:?}");
    assert_hit(&[Mark::PageLeftOutBeside]);
}

#[test]
fn a_volume_without_room_for_its_pages_is_refused() {
    let shape = Shape { zones: 60, zone_blocks: 256, group_rows: 64, ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(4));
    let options = OpenOptions {
        writes: WriteChoice::AsMade,
        index_memory: Some(0),
        index_page_entries: NonZeroU32::new(8),
        ..OpenOptions::default()
    };
    let refused = one_life(&array, &[], options, async |_, _, _| ()).unwrap_err();
    assert!(refused.to_string().contains("leaves too little space"), "{refused}");
    one_life(&array, &[], OpenOptions::default(), async |_, _, _| ()).unwrap();
}
