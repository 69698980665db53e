//! Several segments open at a time, of several shapes, and changed from one start to the next.

#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod support;

use support::life::{assert_holds, live, one_life};
use support::{Array, Shape, contents};
use zoneweave_raid::log::{
    LaneOptions, Lanes, OpenError, OpenOptions, PolicyError, SegmentStatus, Volume, WritePolicy,
};
use zoneweave_runtime::{Handle, Random};
use zoneweave_zoned::{BlockDevice, Lba};

const SMALL: Lanes = Lanes { count: 2, chunk_blocks: 1 };
const LARGE: Lanes = Lanes { count: 1, chunk_blocks: 2 };

fn with(policy: WritePolicy) -> OpenOptions {
    OpenOptions { policy: Some(policy), ..OpenOptions::default() }
}

fn roomy() -> Array {
    let shape = Shape { zones: 16, zone_blocks: 40, volume_blocks: Some(300), ..Shape::small() };
    Array::create(shape, &mut Random::new(4))
}

/// Many requests at a time, of `blocks` blocks each.
async fn put_many(volume: &Volume, handle: &Handle, blocks: u64, requests: u64, version: u64) {
    let writes = (0..requests).map(|at| {
        let (volume, lba) = (volume.clone(), at * blocks);
        handle.spawn("write", async move {
            let data = (lba..lba + blocks).map(|lba| contents(lba, version)).collect();
            volume.write(Lba(lba), data, false).await.unwrap();
        })
    });
    for write in writes.collect::<Vec<_>>() {
        write.await;
    }
}

fn open_segments(volume: &Volume) -> Vec<SegmentStatus> {
    volume.segments().into_iter().filter(|segment| segment.phase == "open").collect()
}

/// Small requests go to the segments with small chunks, to one of them by Zone Append; large ones to
/// those with large chunks.
#[test]
fn each_class_of_requests_has_segments_of_its_own() {
    let array = roomy();
    let policy = WritePolicy::zapraid(SMALL, LARGE, 4);
    let life = one_life(&array, &[], with(policy), async |volume, _, handle| {
        put_many(volume, handle, 1, 40, 1).await;
        let shapes = |volume: &Volume| {
            let mut shapes: Vec<_> = open_segments(volume)
                .into_iter()
                .map(|segment| (segment.chunk_blocks, segment.appended))
                .collect();
            shapes.sort_unstable();
            shapes
        };
        assert_eq!(shapes(volume), [(1, false), (1, true)]);
        put_many(volume, handle, 2, 20, 2).await;
        assert_eq!(shapes(volume), [(1, false), (1, true), (2, false)]);
        assert_holds(volume, 40, 2).await;
    });
    life.expect("the array starts");
    live(&array, async |volume, _, _| assert_holds(volume, 40, 2).await);
}

/// What one policy has written others read, move and go on from.
#[test]
fn policies_can_be_changed_at_every_start() {
    let array = roomy();
    let policies = [
        WritePolicy::zone_write(SMALL, LARGE),
        WritePolicy::zone_append(SMALL, LARGE),
        WritePolicy::zapraid(SMALL, LARGE, 8),
        WritePolicy::zapraid(Lanes { count: 1, chunk_blocks: 2 }, Lanes::default(), 256),
    ];
    let mut version = 0;
    for policy in policies.iter().cycle().take(12) {
        let life = one_life(&array, &[], with(policy.clone()), async |volume, _, handle| {
            if version > 0 {
                assert_holds(volume, 280, version).await;
            }
            for _ in 0..4 {
                version += 1;
                put_many(volume, handle, 1 + version % 4, 280 / (1 + version % 4), version).await;
            }
            volume.assert_consistent();
        });
        life.expect("the array starts");
    }
}

/// Where there is no room for a segment of each class, one serves both.
#[test]
fn a_full_volume_is_written_through_whatever_segment_is_open() {
    let shape = Shape { zones: 8, ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(4));
    let policy = WritePolicy {
        small: vec![LaneOptions::zone_write(1); 2],
        large: vec![LaneOptions::zone_append(1, 4)],
        relocation: LaneOptions::zone_write(1),
        large_from_blocks: 2,
    };
    let life = one_life(&array, &[], with(policy), async |volume, _, handle| {
        for version in 1..12 {
            let blocks = 1 + version % 2;
            put_many(volume, handle, blocks, array.blocks / blocks, version).await;
        }
        assert!(open_segments(volume).len() <= 2, "one for users, one for what is moved");
    });
    life.expect("the array starts");
}

/// A policy that does not fit is refused before anything is written.
#[test]
fn a_policy_that_does_not_fit_is_refused() {
    let array = roomy();
    let before: Vec<_> =
        array.drives.iter().map(|drive| drive.zone(zoneweave_zoned::ZoneId(0))).collect();
    let huge = WritePolicy::zone_write(SMALL, Lanes { count: 1, chunk_blocks: 39 });
    let refused = one_life(&array, &[], with(huge), async |_, _, _| ()).unwrap_err();
    assert!(matches!(refused, OpenError::Policy(PolicyError::TooFull { chunk_blocks: 39, .. })));
    let after: Vec<_> =
        array.drives.iter().map(|drive| drive.zone(zoneweave_zoned::ZoneId(0))).collect();
    assert_eq!(before, after);
}
