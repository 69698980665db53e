//! Reads of stripes of which blocks are lost: what they return, and how many commands they take.

use zoneweave_emulator::{BlockPart, Damage, RamDrive};
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::raizn::Volume;
use zoneweave_raid::scheme::{Column, Scheme};
use zoneweave_zoned::{
    BlockCount, Geometry, Status, ZoneAction, ZoneAddress, ZoneId, ZonedDeviceExt,
};

use crate::raizn::drives::{FIRST_COLUMN, UNIT, create_as, executor, start, timing, write};
use crate::raizn::model::block;
use crate::support::life::assert_hit;

/// Complete stripes of the first zone. In the first one, and in every one that has as many before
/// it as there are drives, data unit 0 is on drive 0.
const STRIPES: u32 = 10;

/// A block of the first column of a drive.
const fn place(at: u32) -> ZoneAddress {
    ZoneAddress::new(ZoneId(FIRST_COLUMN), at)
}

const FLIPPED: Damage = Damage::BitFlip { part: BlockPart::Data, seed: 7 };

/// Runs a test on a volume whose first zone is written.
fn run(data: usize, parity: usize, test: impl AsyncFnOnce(&[RamDrive], &Volume)) {
    crate::support::instrument();
    let scheme = Scheme::new(data, parity).unwrap();
    let geometry = Geometry::new(FIRST_COLUMN + 4, BlockCount(240));
    let new = |seed| RamDrive::new(geometry.clone(), timing(seed)).unwrap();
    let drives: Vec<_> = (0..scheme.columns() as u64).map(new).collect();
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        create_as(&drives, &handle, UNIT, scheme).await;
        let volume = start(&drives, &handle).await;
        let stripe = u32::try_from(data).unwrap() * UNIT;
        write(&volume, 0, 0, STRIPES * stripe).await.unwrap();
        test(&drives[..], &volume).await;
    });
}

/// Reads blocks of the first zone; returns the commands that this takes, and the blocks that these
/// read.
async fn reads_of(drives: &[RamDrive], volume: &Volume, start: u32, blocks: u32) -> (u64, u64) {
    let counted = || {
        let counters = drives.iter().map(RamDrive::counters);
        let sums = (0_u64, 0_u64);
        counters.fold(sums, |(reads, blocks), of| (reads + of.reads, blocks + of.read_blocks))
    };
    let before = counted();
    let at = ZoneAddress::new(ZoneId(0), start);
    let read = volume.read(at, BlockCount(blocks)).await.unwrap();
    let tags = u64::from(start) + 1..;
    assert!(tags.zip(read.iter_blocks()).all(|(tag, found)| found == block(tag)));
    let after = counted();
    (after.0 - before.0, after.1 - before.1)
}

/// Of 4+1, seven units of a stripe were read where four are enough.
#[test]
fn a_degraded_read_of_stripes_takes_as_many_units_as_an_intact_one() {
    for (data, parity) in [(4, 1), (3, 2)] {
        run(data, parity, async |drives, volume| {
            let units = u32::try_from(data).unwrap();
            let stripe = units * UNIT;
            let one = (u64::from(units), u64::from(stripe));
            let all = (u64::from(STRIPES) * one.0, u64::from(STRIPES) * one.1);
            assert_eq!(reads_of(drives, volume, 0, STRIPES * stripe).await, all);
            volume.fail(Column::of(0)).await.unwrap();
            for at in 0..STRIPES {
                let reads = reads_of(drives, volume, at * stripe, stripe).await;
                assert_eq!(reads, one, "stripe {at} of {data}+{parity}");
            }
            assert_eq!(reads_of(drives, volume, 0, STRIPES * stripe).await, all);
        });
    }
    assert_hit(&[Mark::ZonedReadShared]);
}

#[test]
fn a_degraded_read_takes_no_block_that_it_does_not_need() {
    run(4, 1, async |drives, volume| {
        volume.fail(Column::of(0)).await.unwrap();
        // The last block of the lost unit needs four others. The first block of the next unit is
        // at another place, and is the second read of that unit.
        assert_eq!(reads_of(drives, volume, UNIT - 1, 2).await, (5, 5));
        // None of these are lost.
        assert_eq!(reads_of(drives, volume, UNIT, 3 * UNIT).await, (3, u64::from(3 * UNIT)));
    });
}

#[test]
fn a_damaged_block_costs_a_block_of_parity() {
    run(4, 1, async |drives, volume| {
        drives[0].corrupt(place(2), FLIPPED);
        let blocks = u64::from(4 * UNIT + 1);
        assert_eq!(reads_of(drives, volume, 0, 4 * UNIT).await, (5, blocks));
        assert_eq!(volume.status().members[0].errors.checksum, 1);
    });
    assert_hit(&[Mark::ZonedReadExtended]);
}

/// A damaged block among those that a lost unit is reconstructed from.
#[test]
fn the_second_parity_unit_takes_the_place_of_a_damaged_block() {
    run(3, 2, async |drives, volume| {
        volume.fail(Column::of(0)).await.unwrap();
        drives[1].corrupt(place(2), FLIPPED);
        // Two units of data and one of parity, and a block of the other one.
        let blocks = u64::from(3 * UNIT + 1);
        assert_eq!(reads_of(drives, volume, 0, 3 * UNIT).await, (4, blocks));
        assert_eq!(volume.status().members[1].errors.checksum, 1, "it is read once");
    });
    assert_hit(&[Mark::ZonedReadShared, Mark::ZonedReadExtended]);
}

#[test]
fn a_degraded_read_fails_where_too_much_is_lost_and_nowhere_else() {
    run(4, 1, async |drives, volume| {
        volume.fail(Column::of(0)).await.unwrap();
        drives[1].corrupt(place(2), FLIPPED);
        let (whole, damaged) = ((0, 4 * UNIT), (UNIT + 2, 1));
        for (start, blocks) in [whole, (2, 1), damaged] {
            let at = ZoneAddress::new(ZoneId(0), start);
            let read = volume.read(at, BlockCount(blocks)).await;
            assert_eq!(read.err(), Some(Status::UnrecoveredRead), "{blocks} blocks at {start}");
        }
        for (start, blocks) in [(0, 2), (3, UNIT - 1), (UNIT + 3, 2 * UNIT)] {
            reads_of(drives, volume, start, blocks).await;
        }
    });
}

/// The stripe has no parity in its place until the zone is finished.
#[test]
fn a_partial_stripe_is_read_from_memory_until_its_zone_is_finished() {
    run(4, 1, async |drives, volume| {
        volume.fail(Column::of(0)).await.unwrap();
        let start = STRIPES * 4 * UNIT;
        write(volume, 0, start, UNIT + 1).await.unwrap();
        assert_eq!(reads_of(drives, volume, start, UNIT + 1).await, (1, 1));
        volume.manage(ZoneId(0), ZoneAction::Finish).await.unwrap();
        // The block of the second unit, and parity.
        let blocks = u64::from(UNIT + 1);
        assert_eq!(reads_of(drives, volume, start, UNIT + 1).await, (2, blocks));
    });
}
