//! Losses beyond redundancy: if older contents would be served instead, the start is refused with
//! an explanation.

use crate::support::life::{assert_hit, assert_holds, live, one_life, put_all, refused};
use crate::support::{Array, Shape, contents, executor, offer, read_all};
use zoneweave_emulator::{CommandKind, FaultAction, Selector};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::format::Lineage;
use zoneweave_raid::log::recover::examine::lost_parts;
use zoneweave_raid::log::{OpenError, OpenOptions};
use zoneweave_raid::scheme::Arrangement;
use zoneweave_runtime::Random;
use zoneweave_zoned::{BlockCount, BlockDevice, Lba, Status, ZoneAddress, ZoneId};

#[test]
fn what_is_lost_and_unknown_is_accepted_by_force_only() {
    let array = Array::create(Shape { tabled: false, ..Shape::small() }, &mut Random::new(21));
    let zones = live(&array, async |volume, _, _| {
        put_all(volume, 18, 1).await;
        volume.segments()[0].zones.clone()
    });
    // Two chunks of one stripe of three data chunks and a parity chunk.
    for slot in [1, 2] {
        let zone = ZoneId(zones[slot].unwrap());
        array.drives[slot].set_unreadable(ZoneAddress::new(zone, 2), BlockCount(1));
    }
    let error = refused(&array, &[]);
    assert!(matches!(error, OpenError::Unaccounted { segments: 1, .. }), "{error}");
    let forced = OpenOptions { force: true, lineage: Lineage(1), ..OpenOptions::default() };
    let lost = one_life(&array, &[], forced, async |volume, report, _| {
        volume.flush().await.unwrap();
        report.unaccounted_segments
    });
    assert_eq!(lost.unwrap(), 1);
    assert_hit(&[Mark::ChunkBeyondRebuild, Mark::Unaccounted, Mark::UnaccountedRefused]);
}

/// An array whose process was killed after blocks were written twice, and the last block of each of
/// its zones.
fn killed_after_two_versions(tabled: bool) -> (Array, Vec<ZoneAddress>) {
    killed(Shape { tabled, ..Shape::small() })
}

fn killed(shape: Shape) -> (Array, Vec<ZoneAddress>) {
    let array = Array::create(shape, &mut Random::new(22));
    let zones = live(&array, async |volume, _, _| {
        for version in [1, 2] {
            put_all(volume, 9, version).await;
            volume.flush().await.unwrap();
        }
        volume.segments()[0].zones.clone()
    });
    let last = |(slot, zone): (usize, &Option<u32>)| {
        let zone = ZoneId(zone.unwrap());
        ZoneAddress::new(zone, array.drives[slot].zone(zone).write_pointer.0 - 1)
    };
    let last = zones.iter().enumerate().map(last).collect();
    (array, last)
}

/// What an examination says of a start.
fn examined(array: &Array) -> Option<OpenError> {
    let executor = executor();
    let handle = executor.handle();
    executor.run(async { lost_parts(&handle, &offer(&array.drives, &handle, &[])).await })
}

/// The last stripe that was acknowledged before a crash is damaged beyond repair: it is not one
/// that the crash cut short.
#[test]
fn a_stripe_that_may_have_counted_is_not_discarded_unasked() {
    for tabled in [false, true] {
        let (array, last) = killed_after_two_versions(tabled);
        for slot in [1, 2] {
            let offset = last[slot].offset.0;
            let read = Selector::next(CommandKind::Read).in_zone(last[slot].zone);
            // With others, and by itself.
            let read = read.touching(offset..offset + 1).times(2);
            array.drives[slot].inject(read, FaultAction::Fail(Status::UnrecoveredRead));
        }
        live(&array, async |volume, _, _| assert_holds(volume, 9, 2).await);
        let (array, last) = killed_after_two_versions(tabled);
        for slot in [1, 2] {
            array.drives[slot].set_unreadable(last[slot], BlockCount(1));
        }
        let names_both = |error: &OpenError| {
            let message = error.to_string();
            assert!(message.contains("which drive1 and drive2 do not return"), "{message}");
        };
        names_both(&examined(&array).expect("it would be refused"));
        let error = refused(&array, &[]);
        assert!(matches!(error, OpenError::Unaccounted { segments: 1, .. }), "{error}");
        names_both(&error);
        let forced = OpenOptions { force: true, lineage: Lineage(1), ..OpenOptions::default() };
        one_life(&array, &[], forced, async |_, _, _| ()).unwrap();
        // The loss stays on record.
        assert!(examined(&array).is_none());
        live(&array, async |volume, _, _| {
            let members = volume.status().members;
            let lost = members.iter().map(|member| member.errors.unrepairable);
            let lost: Vec<_> = lost.collect();
            assert!(lost.iter().sum::<u64>() > 0 && lost[0] == 0 && lost[3] == 0, "{lost:?}");
        });
        // Redundancy covers one of them.
        let (array, last) = killed_after_two_versions(tabled);
        array.drives[1].set_unreadable(last[1], BlockCount(1));
        assert!(examined(&array).is_none());
        live(&array, async |volume, _, _| assert_holds(volume, 9, 2).await);
    }
    // Both copies of one, of which nothing verifies.
    for tabled in [false, true] {
        let (array, last) = killed(Shape { tabled, data: 1, ..Shape::small() });
        for (drive, last) in array.drives.iter().zip(&last) {
            drive.set_unreadable(*last, BlockCount(1));
        }
        let error = refused(&array, &[]);
        assert!(matches!(error, OpenError::Unaccounted { segments: 1, .. }), "{error}");
    }
    assert_hit(&[Mark::DiscardedMayHaveCounted, Mark::UnaccountedRefused]);
}

/// No header of a segment can be read: it is not missing without a word.
#[test]
fn a_segment_without_headers_is_not_left_out_unasked() {
    let headers = |array: &Array, last: &[ZoneAddress], slots: usize| {
        for (drive, last) in array.drives.iter().zip(last).take(slots) {
            drive.set_unreadable(ZoneAddress::new(last.zone, 0), BlockCount(1));
        }
    };
    let (array, last) = killed_after_two_versions(true);
    for (drive, last) in array.drives.iter().zip(&last) {
        // As a header, and as a block behind one.
        let read = Selector::next(CommandKind::Read).in_zone(last.zone).touching(0..1);
        drive.inject(read.times(8), FaultAction::Fail(Status::Aborted));
    }
    live(&array, async |volume, _, _| assert_holds(volume, 9, 2).await);
    let (array, last) = killed_after_two_versions(true);
    headers(&array, &last, 4);
    let error = refused(&array, &[]);
    assert!(matches!(error, OpenError::Unaccounted { segments: 1, .. }), "{error}");
    let forced = OpenOptions { force: true, lineage: Lineage(1), ..OpenOptions::default() };
    one_life(&array, &[], forced, async |volume, _, _| assert_holds(volume, 9, 0).await).unwrap();
    // That is settled.
    live(&array, async |volume, _, _| assert_holds(volume, 9, 0).await);
    // One is enough.
    let (array, last) = killed_after_two_versions(true);
    headers(&array, &last, 3);
    live(&array, async |volume, _, _| assert_holds(volume, 9, 2).await);
    assert_hit(&[Mark::HiddenSegment, Mark::UnaccountedRefused]);
}

/// An array of two pairs of drives, of which drive 1 stored half of a chunk, and another chunk
/// behind it, out of step with the rows: both stripes were written elsewhere, and acknowledged.
/// With that, the zone.
fn killed_after_an_append_in_part() -> (Array, ZoneId) {
    let arrangement = Arrangement::Mirrored;
    let shape = Shape { data: 2, parity: 2, arrangement, chunk_blocks: 2, ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(23));
    let zone = live(&array, async |volume, _, _| {
        let version = |version, first: u64| {
            let blocks = (first..first + 4).map(|lba| contents(lba, version)).collect();
            volume.write(Lba(first), blocks, false)
        };
        for first in [0, 4] {
            version(1, first).await.unwrap();
        }
        let zone = ZoneId(volume.segments()[0].zones[1].unwrap());
        let append = Selector::next(CommandKind::Append).in_zone(zone);
        array.drives[1].inject(append, FaultAction::Partial(BlockCount(1)));
        let (one, other) = futures_util::future::join(version(2, 0), version(2, 8)).await;
        one.and(other).unwrap();
        zone
    });
    // A header, two chunks, a half and a whole one.
    assert_eq!(array.drives[1].zone(zone).write_pointer.0, 1 + 2 * 2 + 1 + 2);
    (array, zone)
}

/// A regression: chunks displaced by a torn append were taken for acknowledged, damaged chunks. A
/// start without the twin of that drive was refused, although nothing was lost.
#[test]
fn what_an_append_in_part_displaces_is_nothing_lost() {
    let (array, _) = killed_after_an_append_in_part();
    let report = one_life(&array, &[3], OpenOptions::default(), async |volume, report, _| {
        let versions = read_all(volume, 12).await.unwrap();
        assert_eq!(versions, [2, 2, 2, 2, 1, 1, 1, 1, 2, 2, 2, 2]);
        report.clone()
    });
    assert!(report.unwrap().discarded_stripes >= 2);
    live(&array, async |volume, _, _| {
        let versions = read_all(volume, 12).await.unwrap();
        assert_eq!(versions, [2, 2, 2, 2, 1, 1, 1, 1, 2, 2, 2, 2]);
    });
    // One that was acknowledged is damaged as well; or it cannot be told that none is.
    for offset in [1, 4, 5, 6] {
        let (array, zone) = killed_after_an_append_in_part();
        array.drives[1].set_unreadable(ZoneAddress::new(zone, offset), BlockCount(1));
        let error = refused(&array, &[3]);
        assert!(matches!(error, OpenError::Unaccounted { segments: 1, .. }), "{error}");
        live(&array, async |volume, _, _| {
            assert!(read_all(volume, 12).await.is_ok());
        });
    }
    assert_hit(&[Mark::DisplacedRows, Mark::DiscardedMayHaveCounted]);
}

/// Of two copies of a segment the zone of one is lost, and the header of the other cannot be read.
#[test]
fn what_one_copy_has_lost_and_the_other_cannot_tell_is_not_left_out_unasked() {
    let (array, last) = killed(Shape { data: 1, ..Shape::small() });
    array.drives[0].set_offline(last[0].zone);
    array.drives[1].set_unreadable(ZoneAddress::new(last[1].zone, 0), BlockCount(1));
    let error = refused(&array, &[]);
    assert!(matches!(error, OpenError::Unaccounted { segments: 1, .. }), "{error}");
}
