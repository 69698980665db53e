//! Drives that are held up cost readers little: others answer for them, and never wrongly.

use crate::support::life::one_life;
use crate::support::{Array, Shape, contents, version_of};
use zoneweave_emulator::{BlockPart, CommandKind, Damage, FaultAction, Preset, RamDrive, Selector};
use zoneweave_raid::log::{Counters, Hedging, OpenOptions, Volume};
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{BlockCount, BlockDevice, Geometry, Lba, ZoneAddress, ZoneId};

/// Reads of one test.
const READS: usize = 4000;

const BLOCKS: u64 = 6000;

/// 3 + 1 drives of a preset, with small zones.
fn array_of(preset: &str, zones: u32, volume_blocks: u64) -> Array {
    let shape = Shape {
        zones,
        zone_blocks: 1024,
        group_rows: 256,
        tabled: false,
        volume_blocks: Some(volume_blocks),
        ..Shape::small()
    };
    let drive = |seed| {
        let mut geometry = Geometry::new(zones, BlockCount(shape.zone_blocks));
        geometry.volatile_cache = false;
        let timing = Preset::by_name(preset).unwrap().timing_of(&geometry, seed);
        RamDrive::new(geometry, timing).unwrap()
    };
    Array::on(shape, (1..=4).map(drive).collect(), &mut Random::new(5))
}

/// Writes everything once, and waits until nothing of it is in write buffers.
async fn fill(volume: &Volume, handle: &Handle) {
    for lba in (0..BLOCKS).step_by(30) {
        let data = (lba..lba + 30).map(|lba| contents(lba, 1)).collect();
        volume.write(Lba(lba), data, false).await.unwrap();
    }
    volume.flush().await.unwrap();
    handle.sleep(Nanos::from_millis(100)).await;
}

/// Percentiles, in us.
#[derive(Debug)]
struct Tail {
    p50: u64,
    p99: u64,
    p999: u64,
    counters: Counters,
}

/// Reads blocks one at a time, each of which holds a version from a range.
async fn read_some(volume: &Volume, handle: &Handle, versions: [u64; 2]) -> Tail {
    let mut random = Random::new(9);
    let mut latencies = Vec::with_capacity(READS);
    for _ in 0..READS {
        let lba = random.below(BLOCKS);
        let begun = handle.now();
        let data = volume.read(Lba(lba), 1).await.expect("nothing is lost");
        latencies.push(handle.now().since(begun).0 / 1000);
        let version = version_of(lba, &data[0]);
        assert!((versions[0]..=versions[1]).contains(&version), "block {lba}: {version}");
    }
    latencies.sort_unstable();
    let at = |part: usize| latencies[latencies.len() * part / 1000];
    Tail { p50: at(500), p99: at(990), p999: at(999), counters: volume.status().counters }
}

/// The measurements of a test without hedging and with it.
fn with_and_without(
    preset: &str,
    zones: u32,
    test: impl AsyncFn(&Array, &Volume, &Handle) -> Tail,
) -> [Tail; 2] {
    [Hedging::OFF, Hedging::default()].map(|hedging| {
        let array = array_of(preset, zones, BLOCKS);
        let options = OpenOptions { hedging, ..OpenOptions::default() };
        let life = one_life(&array, &[], options, async |volume, _, handle| {
            fill(volume, handle).await;
            test(&array, volume, handle).await
        });
        life.expect("the array starts")
    })
}

#[test]
fn a_slow_drive_does_not_make_the_volume_slow() {
    let [without, with] = with_and_without("zn540-1tb", 8, async |array, volume, handle| {
        read_some(volume, handle, [1, 1]).await;
        array.drives[1].set_slowness(20);
        read_some(volume, handle, [1, 1]).await
    });
    assert!(without.p99 > 10 * without.p50, "{without:?}");
    assert!(with.p99 < 4 * with.p50, "{with:?}");
    assert!(with.counters.reads_around > 500, "{with:?}");
}

#[test]
fn a_read_that_is_late_is_answered_by_others() {
    let [without, with] = with_and_without("zn540-1tb", 8, async |array, volume, handle| {
        read_some(volume, handle, [1, 1]).await;
        let read = Selector::next(CommandKind::Read);
        for at in 0..20 {
            let stall = FaultAction::Slow(Nanos::from_millis(20));
            array.drives[1].inject(read.clone().after(at * 50), stall);
        }
        read_some(volume, handle, [1, 1]).await
    });
    assert!(without.p999 > 10_000, "{without:?}");
    assert_eq!(without.counters.reads_hedged, 0);
    assert!(with.p999 < 1000 && with.counters.hedges_won > 5, "{with:?}");
}

#[test]
fn reads_go_around_drives_that_reset_zones() {
    // With fewer zones everything is moved all the time, and every drive is held up.
    let [without, with] = with_and_without("femu", 10, async |_, volume, handle| {
        let writer = volume.clone();
        handle.spawn("writer", async move {
            let mut random = Random::new(4);
            loop {
                let lba = random.below(BLOCKS / 8) * 8;
                let data = (lba..lba + 8).map(|lba| contents(lba, 2)).collect();
                if writer.write(Lba(lba), data, false).await.is_err() {
                    return;
                }
            }
        });
        handle.sleep(Nanos::from_millis(2000)).await;
        read_some(volume, handle, [1, 2]).await
    });
    assert!(without.counters.segments_reclaimed > 10, "{without:?}");
    assert!(with.p99 < without.p99 && with.p999 < without.p999, "{without:?} {with:?}");
}

/// Blocks reconstructed around a drive are verified like all others; if they fail, the drive itself
/// is read.
#[test]
fn what_is_rebuilt_from_damage_is_not_returned() {
    let array = array_of("zn540-1tb", 8, BLOCKS);
    let life = one_life(&array, &[], OpenOptions::default(), async |volume, _, handle| {
        fill(volume, handle).await;
        read_some(volume, handle, [1, 1]).await;
        for zone in 2..8 {
            for offset in (1..1000).step_by(7) {
                let at = ZoneAddress::new(ZoneId(zone), offset);
                if array.drives[2].zone(ZoneId(zone)).write_pointer > at.offset {
                    array.drives[2].corrupt(at, Damage::BitFlip { part: BlockPart::Data, seed: 3 });
                }
            }
        }
        array.drives[1].set_slowness(20);
        read_some(volume, handle, [1, 1]).await
    });
    let tail = life.expect("the array starts");
    assert!(tail.counters.reads_around > 100, "{tail:?}");
}
