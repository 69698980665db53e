//! An index that takes less memory than it needs: whatever is asked for is there, nothing is lost, and
//! memory stays within what was asked for.

#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod support;

use std::num::NonZeroU32;

use support::life::{assert_hit, one_life};
use support::model::Model;
use support::{Array, Shape, contents, read_all};
use zoneweave_emulator::{CommandKind, FaultAction, Selector};
use zoneweave_raid::log::{Lanes, OpenOptions, WriteChoice, WritePolicy};
use zoneweave_raid::marks::Mark;
use zoneweave_runtime::Random;
use zoneweave_zoned::{
    BlockCount, BlockDevice, BlockError, Lba, Status, ZoneAddress, ZoneId, ZoneState,
};

const BLOCKS: u64 = 30_000;

/// Memory of a page.
const PAGE_BYTES: u64 = 960 * 4 + 16;

/// Of 32 pages.
fn large() -> Array {
    let shape = Shape {
        zones: 60,
        zone_blocks: 256,
        group_rows: 64,
        tabled: false,
        volume_blocks: Some(BLOCKS),
        ..Shape::small()
    };
    Array::create(shape, &mut Random::new(4))
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

/// Most of a volume is trimmed at once: what tells of that is moved a few pages at a time.
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

/// Writes fail, and segments are given up, while pages of what was in them are away.
#[test]
fn segments_are_given_up_while_pages_are_away() {
    let array = large();
    let mut model = Model::new(BLOCKS);
    let mut random = Random::new(8);
    let lived = one_life(&array, &[], limited(0), async |volume, _, _| {
        model.fill(volume, 1).await;
        for round in 0..80 {
            let drive = &array.drives[usize::try_from(round % 4).unwrap()];
            let next = Selector::next(CommandKind::Write).after(random.below(100));
            drive.inject(next, FaultAction::Fail(Status::InternalError));
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

/// A page that cannot be read any more is an error for whoever needs it, and ends writes; the next start does without
/// checkpoints.
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
        let written = volume.write(Lba(5000), vec![contents(5000, 2)], true).await;
        assert!(written.is_err(), "{written:?}");
    });
    lived.unwrap();
    let forced = OpenOptions { force: true, lineage: 3, ..limited(0) };
    let found = one_life(&array, &[], forced, async |_, report, _| report.checkpoint);
    assert_eq!(found.unwrap(), None);
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
    assert!(refused.to_string().contains("leaves too little room"), "{refused}");
    one_life(&array, &[], OpenOptions::default(), async |_, _, _| ()).unwrap();
}
