//! Members in full service that have not all that was written to them: the status tells until it is
//! written again.

use crate::support::life::{assert_hit, assert_holds, live, one_life, put_all};
use crate::support::{Array, Shape};
use zoneweave_emulator::{BlockPart, Damage, Immediate};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::{MemberHealth, OpenOptions, SegmentPhase, Volume};
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{BlockDevice, Lba, ZoneAddress, ZoneId};

/// Blocks of full segments, and some more.
const BLOCKS: u64 = 300;

fn array() -> Array {
    let shape = Shape { zones: 60, volume_blocks: Some(1500), tabled: false, ..Shape::small() };
    Array::create(shape, &mut Random::new(11))
}

/// Segments that lack blocks on each member.
fn lacking(volume: &Volume) -> Vec<u32> {
    volume.status().members.iter().map(|member| member.segments_lacking).collect()
}

/// Segments that lacked blocks on each member at the start.
fn absent(volume: &Volume) -> Vec<u32> {
    volume.status().members.iter().map(|member| member.segments_absent_at_start).collect()
}

async fn rewritten(volume: &Volume, handle: &Handle) {
    while lacking(volume).iter().any(|segments| *segments > 0) {
        handle.sleep(Nanos::from_millis(1)).await;
    }
}

/// Starts an array whose last drive is older than the others; then another one is lost.
fn assert_told_and_rewritten(array: &Array, blocks: u64, version: u64) {
    live(array, async |volume, _, handle| {
        let status = volume.status();
        assert!(status.members.iter().all(|member| member.state == MemberHealth::Online));
        let found = lacking(volume);
        assert_eq!(found[..3], [0; 3]);
        assert!(found[3] > 0 && status.relocates, "{found:?}");
        // The start itself has written weak stripes again.
        let at_start = absent(volume);
        assert!(at_start[3] >= found[3], "{at_start:?}");
        assert_eq!((status.losses_left, &at_start[..3]), (0, &[0; 3][..]));
        rewritten(volume, handle).await;
        assert_eq!((volume.status().losses_left, absent(volume)), (1, at_start));
        assert_holds(volume, blocks, version).await;
    });
    live(array, async |volume, _, _| {
        assert_eq!((lacking(volume), absent(volume)), (vec![0; 4], vec![0; 4]));
    });
    one_life(array, &[0], OpenOptions::default(), async |volume, _, _| {
        assert_holds(volume, blocks, version).await;
    })
    .expect("the array starts");
}

/// The start was healthy without a word, and a drive that was lost meanwhile cost data.
#[test]
fn an_older_drive_lacks_segments_until_they_are_written_again() {
    let array = array();
    live(&array, async |volume, _, _| {
        put_all(volume, 60, 1).await;
        volume.close().await.unwrap();
    });
    let before = array.drives[3].fork(Immediate);
    live(&array, async |volume, _, _| {
        put_all(volume, BLOCKS, 2).await;
        volume.close().await.unwrap();
    });
    array.drives[3].come_back_stale(&before);
    assert_told_and_rewritten(&array, BLOCKS, 2);
    assert_hit(&[Mark::ColumnLost]);
}

/// The drive was put back to a snapshot that was taken in the middle of a segment.
#[test]
fn an_older_drive_lacks_the_rest_of_a_segment() {
    let array = array();
    let before = live(&array, async |volume, _, _| {
        put_all(volume, 1, 1).await;
        let before = array.drives[3].fork(Immediate);
        put_all(volume, 4, 2).await;
        before
    });
    array.drives[3].come_back_stale(&before);
    assert_told_and_rewritten(&array, 4, 2);
    assert_hit(&[Mark::ColumnShort]);
}

/// No crash makes a drive look old.
#[test]
fn a_drive_that_missed_nothing_lacks_nothing() {
    let array = array();
    for version in 1..6 {
        live(&array, async |volume, _, _| {
            assert_eq!(absent(volume), [0; 4]);
            assert_eq!((lacking(volume), volume.status().losses_left), (vec![0; 4], 1));
            put_all(volume, BLOCKS / version, version).await;
        });
    }
    one_life(&array, &[1], OpenOptions::default(), async |volume, _, _| {
        assert_eq!((lacking(volume), volume.status().losses_left), (vec![0; 4], 0));
    })
    .expect("the array starts");
}

/// A damaged block is on the other drives only, until its segment is written again.
#[test]
fn a_segment_with_a_damaged_block_lacks_redundancy() {
    let array = array();
    live(&array, async |volume, _, handle| {
        put_all(volume, BLOCKS, 1).await;
        let sealed = volume.segments().into_iter();
        let sealed = sealed.filter(|segment| segment.phase == SegmentPhase::Sealed);
        let oldest = sealed.min_by_key(|segment| segment.segment).unwrap();
        let zone = ZoneId(oldest.zones[1].unwrap());
        for offset in 1..8 {
            let how = Damage::Garbage { part: BlockPart::Data, seed: 7 };
            array.drives[1].corrupt(ZoneAddress::new(zone, offset), how);
        }
        let mut lba = 0;
        while volume.status().members[1].errors.repaired == 0 {
            volume.read(Lba(lba), 1).await.unwrap();
            lba += 1;
        }
        assert_eq!((lacking(volume), volume.status().losses_left), (vec![0, 1, 0, 0], 0));
        rewritten(volume, handle).await;
        assert_eq!(volume.status().losses_left, 1);
        assert_eq!(absent(volume), [0; 4]);
    });
}
