//! Segments that are filled beside others of their size have no more under way than drives that are
//! as fast with small writes need.

use std::cell::Cell;
use std::rc::Rc;

use crate::support::life::{assert_holds, one_life, open_segments, put, put_many, with};
use crate::support::{Array, Shape, contents};
use zoneweave_emulator::{CommandKind, FaultAction, Selector};
use zoneweave_raid::log::{Lanes, Volume, WritePolicy};
use zoneweave_runtime::{Nanos, Random};
use zoneweave_zoned::{BlockDevice, Lba};

async fn write(volume: &Volume, lba: u64, blocks: u64, version: u64) {
    let data = (lba..lba + blocks).map(|lba| contents(lba, version)).collect();
    volume.write(Lba(lba), data, false).await.unwrap();
}

/// A fifth segment with chunks of the same size begins when one of four has nothing under way any
/// more.
#[test]
fn no_more_than_four_segments_of_a_size_are_written_at_a_time() {
    let shape = Shape { zones: 24, zone_blocks: 80, volume_blocks: Some(300), ..Shape::small() };
    let array = Array::without_limits(shape);
    let five = Lanes { count: 5, chunk_blocks: 1 };
    let policy =
        WritePolicy { even_blocks: Some(1), ..WritePolicy::adaptive(five, Lanes::default()) };
    let life = one_life(&array, &[], with(policy), async |volume, _, handle| {
        let rows = |volume: &Volume| -> Vec<u32> {
            open_segments(volume).iter().map(|segment| segment.rows_started).collect()
        };
        put_many(volume, handle, 1, 60, 1).await;
        let before = rows(volume);
        assert_eq!(before.len(), 5);
        let hang = FaultAction::Slow(Nanos::from_secs(1));
        array.drives[1].inject(Selector::next(CommandKind::Write).times(5), hang);
        let (again, spawner) = (volume.clone(), handle.clone());
        let writes =
            handle.spawn("writes", async move { put_many(&again, &spawner, 1, 60, 2).await });
        handle.sleep(Nanos::from_millis(500)).await;
        let now = rows(volume);
        let begun = now.iter().zip(before).filter(|(now, before)| *now > before).count();
        assert_eq!(begun, 4);
        writes.await;
        assert_holds(volume, 60, 2).await;
    });
    life.expect("the array starts");
}

/// The longest that one of 500 requests of two blocks waited beside 96 of one block at a time, by
/// how many of these were done meanwhile. Eight segments are for the small ones and one for the
/// large ones, with chunks of the same size.
fn most_ahead_of_a_large_one(even_blocks: Option<u32>) -> u64 {
    let volume_blocks = Some(12_000);
    let shape = Shape { zones: 30, zone_blocks: 6000, volume_blocks, ..Shape::small() };
    let array = Array::without_limits(shape);
    let lanes = |count| Lanes { count, chunk_blocks: 1 };
    let policy = WritePolicy {
        even_blocks,
        lifetimes: false,
        large_from_blocks: 2,
        ..WritePolicy::adaptive(lanes(8), lanes(1))
    };
    let life = one_life(&array, &[], with(policy), async |volume, _, handle| {
        let (done, over) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(false)));
        let small = (0..96).map(|at| {
            let (volume, done, over) = (volume.clone(), done.clone(), over.clone());
            let mut random = Random::new(at);
            handle.spawn("small", async move {
                while !over.get() {
                    put(&volume, 2 + random.below(11_000), 2).await.unwrap();
                    done.set(done.get() + 1);
                }
            })
        });
        let small: Vec<_> = small.collect();
        let mut most = 0;
        for _ in 0..500 {
            handle.sleep(Nanos::from_millis(1)).await;
            let before = done.get();
            write(volume, 0, 2, 3).await;
            most = most.max(done.get() - before);
        }
        over.set(true);
        for one in small {
            one.await;
        }
        most
    });
    life.expect("the array starts")
}

/// A segment for other requests does not hold back a segment.
#[test]
fn segments_for_other_requests_hold_up_none() {
    let (without, with) = (most_ahead_of_a_large_one(None), most_ahead_of_a_large_one(Some(1)));
    assert!(
        with < 4 * without.max(100),
        "{with} small ones went ahead of a large one, {without} without a bound"
    );
}
