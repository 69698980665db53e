//! Random write areas on media: overwriting, committing, and losses by a power failure.

use std::collections::BTreeSet;

use zoneweave_runtime::Random;
use zoneweave_zoned::{Status, ZoneOffset, ZrwaGeometry};

use super::*;

/// Areas of 8 blocks, in steps of 4.
fn with_areas(volatile_cache: bool) -> RamDrive {
    let zrwa = ZrwaGeometry { size: BlockCount(8), flush_granularity: BlockCount(4), resources: 2 };
    let geometry = Geometry { zrwa: Some(zrwa), ..geometry(volatile_cache) };
    RamDrive::new(geometry, Immediate).unwrap()
}

fn all_tags(drive: &RamDrive, blocks: u32) -> Vec<u8> {
    tags(&drive.peek(at(0), BlockCount(blocks)))
}

#[test]
fn blocks_are_overwritten_until_they_are_committed() {
    let drive = with_areas(false);
    with_drive(&drive, async |device| {
        device.manage(ZONE, ZoneAction::OpenWithZrwa).await.unwrap();
        assert_eq!(
            device.append(ZONE, filled([1]), false).await,
            Err(Status::InvalidZoneOperation)
        );
        device.write(at(1), filled([1, 2, 3]), false).await.unwrap();
        device.write(at(2), filled([9]), false).await.unwrap();
        let read = device.read(at(0), BlockCount(5)).await.unwrap();
        assert_eq!(tags(&read), [0, 1, 9, 3, 0]);
        device.write(at(8), filled([4, 5]), false).await.unwrap();
        assert_eq!(drive.zone(ZONE).write_pointer, ZoneOffset(4));
        assert_eq!(device.write(at(3), filled([7]), false).await, Err(Status::ZoneInvalidWrite));
        let last = ZoneOffset(7);
        device.manage(ZONE, ZoneAction::FlushZrwa { last }).await.unwrap();
        device.manage(ZONE, ZoneAction::Finish).await.unwrap();
        let read = device.read(at(0), BlockCount(11)).await.unwrap();
        assert_eq!(tags(&read), [0, 1, 9, 3, 0, 0, 0, 0, 4, 5, 0]);
        assert_eq!(drive.zone(ZONE).write_pointer, ZoneOffset(10));
        device.manage(ZONE, ZoneAction::Reset).await.unwrap();
        assert_eq!(all_tags(&drive, 11), [0; 11]);
    });
}

#[test]
fn a_protected_cache_keeps_what_completed() {
    let drive = with_areas(false);
    with_drive(&drive, async |device| {
        device.manage(ZONE, ZoneAction::OpenWithZrwa).await.unwrap();
        device.write(at(3), filled([1]), false).await.unwrap();
        device.write(at(3), filled([2]), false).await.unwrap();
    });
    drive.power_loss(1);
    assert_eq!(drive.zone(ZONE).state, ZoneState::Closed);
    assert_eq!(all_tags(&drive, 5), [0, 0, 0, 2, 0]);
    with_drive(&drive, async |device| {
        device.write(at(0), filled([5]), false).await.unwrap();
    });
    assert_eq!(all_tags(&drive, 5), [5, 0, 0, 2, 0]);
}

#[test]
fn a_volatile_cache_loses_single_blocks_of_an_area() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let drive = with_areas(true);
        with_drive(&drive, async |device| {
            device.manage(ZONE, ZoneAction::OpenWithZrwa).await.unwrap();
            device.write(at(0), filled([1, 1]), false).await.unwrap();
            device.flush().await.unwrap();
            device.write(at(1), filled([2, 2]), false).await.unwrap();
            device.write(at(4), filled([3]), true).await.unwrap();
        });
        drive.power_loss(seed);
        let tags = all_tags(&drive, 5);
        assert_eq!((tags[0], tags[3], tags[4]), (1, 0, 3), "what was promised");
        outcomes.insert((tags[1], tags[2]));
        assert_eq!(drive.zone(ZONE).write_pointer, ZoneOffset(0));
    }
    let expected = [(1, 0), (1, 2), (2, 0), (2, 2)];
    assert!(outcomes.iter().eq(&expected), "{outcomes:?}");
}

#[test]
fn an_area_that_lost_everything_is_an_empty_zone() {
    let mut states = BTreeSet::new();
    for seed in 0..20 {
        let drive = with_areas(true);
        with_drive(&drive, async |device| {
            device.manage(ZONE, ZoneAction::OpenWithZrwa).await.unwrap();
            device.write(at(2), filled([1]), false).await.unwrap();
        });
        drive.power_loss(seed);
        states.insert(drive.zone(ZONE).state);
    }
    assert!(states.iter().eq(&[ZoneState::Empty, ZoneState::Closed]));
}

/// Allowed contents of a block after a power failure: the last durable value, or any later one.
#[derive(Clone, Default)]
struct Block {
    now: u8,
    possible: BTreeSet<u8>,
}

/// Writes anywhere in the area, flushes, commits and power failures. Every block has its latest
/// value, or after a power failure one of the values since it was last durable.
#[test]
fn random_writes_survive_as_promised() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let volatile = random.per_mille(600);
        let drive = with_areas(volatile);
        let mut blocks = vec![Block { possible: [0].into(), ..Block::default() }; 60];
        for round in 0..4_u8 {
            with_drive(&drive, async |device| {
                let opened = device.manage(ZONE, ZoneAction::OpenWithZrwa).await;
                for number in 0..random.below(20) {
                    let tag = 1 + round * 60 + u8::try_from(number).unwrap();
                    step(&*device, &drive, &mut random, &mut blocks, tag).await;
                }
                assert!(opened.is_ok() || drive.zone(ZONE).state == ZoneState::Full);
            });
            let held = all_tags(&drive, 60);
            assert!(blocks.iter().map(|block| block.now).eq(held.iter().copied()), "{seed}");
            drive.power_loss(random.next());
            for (offset, (block, tag)) in blocks.iter_mut().zip(all_tags(&drive, 60)).enumerate() {
                let found = block.possible.contains(&tag);
                assert!(found, "seed {seed}: block {offset} is {tag}, of {:?}", block.possible);
                *block = Block { now: tag, possible: [tag].into() };
            }
        }
    }
}

async fn step(
    device: &dyn ZonedDevice,
    drive: &RamDrive,
    random: &mut Random,
    blocks: &mut [Block],
    tag: u8,
) {
    let volatile = device.geometry().volatile_cache;
    let pointer = drive.zone(ZONE).write_pointer.0;
    let offset = pointer + u32::try_from(random.below(12)).unwrap();
    match random.below(8) {
        0 => {
            device.flush().await.unwrap();
            blocks.iter_mut().for_each(|block| block.possible = [block.now].into());
        }
        1 => {
            let last = ZoneOffset(pointer + 3);
            let _ = device.manage(ZONE, ZoneAction::FlushZrwa { last }).await;
        }
        _ => {
            let fua = random.per_mille(200);
            if device.write(at(offset), filled([tag; 3]), fua).await.is_ok() {
                for block in &mut blocks[offset as usize..offset as usize + 3] {
                    block.now = tag;
                    if fua || !volatile {
                        block.possible.clear();
                    }
                    block.possible.insert(tag);
                }
            }
        }
    }
    // Blocks that the write pointer passed are on flash.
    let pointer = drive.zone(ZONE).write_pointer.0;
    for block in &mut blocks[..pointer as usize] {
        block.possible = [block.now].into();
    }
}
