//! A volume of shards is compared with a single device.

use std::cell::RefCell;

use proptest::prelude::*;
use zoneweave_zoned::{BlockCount, ExtentState, zero_blocks};

use super::*;

/// A device in memory that answers immediately; one of its blocks may be lost.
struct Simple {
    blocks: RefCell<Vec<Option<Bytes>>>,
    lost: Option<u64>,
    flushes: std::cell::Cell<u32>,
}

impl Simple {
    fn new(blocks: usize, lost: Option<u64>) -> Rc<Self> {
        Rc::new(Self { blocks: RefCell::new(vec![None; blocks]), lost, flushes: 0.into() })
    }
}

fn at(lba: Lba) -> usize {
    usize::try_from(lba.0).unwrap()
}

impl BlockDevice for Simple {
    fn info(&self) -> BlockDeviceInfo {
        let blocks = self.blocks.borrow().len() as u64;
        BlockDeviceInfo { blocks, volatile_cache: self.lost.is_some(), read_only: false }
    }

    fn read(&self, lba: Lba, blocks: u32) -> BlockFuture<Vec<Bytes>> {
        if let Some(lost) =
            self.lost.filter(|lost| (lba.0..lba.0 + u64::from(blocks)).contains(lost))
        {
            return ready(Err(BlockError::Unrecoverable { lba: Lba(lost) }));
        }
        let found = self.blocks.borrow()[at(lba)..][..blocks as usize].to_vec();
        // In pieces of one and of two blocks, so that some have to be cut.
        let found = found.chunks(2).map(|two| {
            let zero = zero_blocks(BlockCount(1));
            let whole: Vec<_> = two.iter().map(|one| one.clone().unwrap_or(zero.clone())).collect();
            Bytes::from(whole.concat())
        });
        ready(Ok(found.collect()))
    }

    fn write(&self, lba: Lba, data: Vec<Bytes>, _: bool) -> BlockFuture<()> {
        let data = data.concat();
        for (block, at) in data.chunks(BLOCK_BYTES).zip(at(lba)..) {
            self.blocks.borrow_mut()[at] = Some(Bytes::copy_from_slice(block));
        }
        ready(Ok(()))
    }

    fn write_zeroes(&self, lba: Lba, blocks: u64, _: bool) -> BlockFuture<()> {
        let end = at(lba) + usize::try_from(blocks).unwrap();
        self.blocks.borrow_mut()[at(lba)..end].fill(None);
        ready(Ok(()))
    }

    fn trim(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()> {
        self.write_zeroes(lba, blocks, fua)
    }

    fn flush(&self) -> BlockFuture<()> {
        self.flushes.set(self.flushes.get() + 1);
        ready(Ok(()))
    }

    fn extents(&self, lba: Lba, blocks: u64, limit: usize) -> BlockFuture<Vec<Extent>> {
        let held = self.blocks.borrow();
        let states = held[at(lba)..][..usize::try_from(blocks).unwrap()].iter().map(|block| {
            let state = if block.is_some() { ExtentState::Data } else { ExtentState::Hole };
            vec![Extent { blocks: 1, state }]
        });
        let states: Vec<_> = states.collect();
        let one_by_one = (0..states.len()).map(|at| (at, 1));
        ready(Ok(merged(one_by_one, states, limit)))
    }
}

fn now<T>(answer: BlockFuture<T>) -> Result<T, BlockError> {
    futures_util::FutureExt::now_or_never(answer).expect("answered at once")
}

fn of(parts: &[Rc<Simple>]) -> Shards {
    let mut devices: Vec<Rc<dyn BlockDevice>> = Vec::new();
    for part in parts {
        devices.push(part.clone());
    }
    Shards::new(devices)
}

#[test]
fn a_volume_is_as_large_as_its_smallest_shard_allows() {
    let shards = of(&[Simple::new(130, None), Simple::new(300, Some(7))]);
    let info = shards.info();
    assert_eq!((info.blocks, info.volatile_cache), (256, true));
    let beyond = BlockError::OutOfRange { lba: Lba(250), blocks: 7, capacity: 256 };
    assert_eq!(now(shards.read(Lba(250), 7)), Err(beyond.clone()));
    assert_eq!(now(shards.trim(Lba(250), 7, false)), Err(beyond.clone()));
    assert_eq!(now(shards.extents(Lba(250), 7, 1)), Err(beyond.clone()));
    let data = vec![zero_blocks(BlockCount(7))];
    assert_eq!(now(shards.write(Lba(250), data, false)), Err(beyond));
    let overflowing = BlockError::OutOfRange { lba: Lba(u64::MAX), blocks: 2, capacity: 256 };
    assert_eq!(now(shards.write_zeroes(Lba(u64::MAX), 2, false)), Err(overflowing));
}

#[test]
fn a_lost_block_is_told_where_the_volume_has_it() {
    let shards = of(&[Simple::new(256, None), Simple::new(256, Some(70))]);
    // The shard's second unit is the volume's fourth.
    let lost = Err(BlockError::Unrecoverable { lba: Lba(3 * 64 + 6) });
    assert_eq!(now(shards.read(Lba(3 * 64 + 6), 1)), lost);
    assert_eq!(now(shards.read(Lba(0), 512)), lost);
    assert!(now(shards.read(Lba(0), 3 * 64 + 6)).is_ok());
}

#[test]
fn a_flush_is_for_every_shard() {
    let parts = [Simple::new(64, None), Simple::new(64, None), Simple::new(64, None)];
    now(of(&parts).flush()).unwrap();
    assert!(parts.iter().all(|part| part.flushes.get() == 1));
}

#[test]
fn shards_know_their_volume() {
    let volume = ArrayUuid([7; 16]);
    assert_eq!(Shard::WHOLE.array(volume), volume);
    assert_eq!(Shard::WHOLE.volume(volume), volume);
    let (first, third) = (Shard::new(0, 3).unwrap(), Shard::new(2, 3).unwrap());
    assert_ne!(first.array(volume), third.array(volume));
    assert_eq!(third.volume(third.array(volume)), first.array(volume));
    assert!(Shard::new(3, 3).is_none() && Shard::new(0, 0).is_none());
    assert!(Shard::new(255, Shard::MOST).is_some() && Shard::new(0, Shard::MOST + 1).is_none());
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Write,
    Trim,
    Zero,
}

proptest! {
    #[test]
    fn shards_are_as_one_device(
        shards in 1..5_usize,
        acts in prop::collection::vec(
            (prop_oneof![Just(Act::Write), Just(Act::Trim), Just(Act::Zero)], 0..700_u64, 1..200_u64),
            1..20,
        ),
        limit in 1..9_usize,
    ) {
        let blocks = 1024 / shards / 64 * 64 * shards;
        let volume = of(&vec![(); shards].iter().map(|()| Simple::new(1024 / shards, None)).collect::<Vec<_>>());
        let one = Simple::new(blocks, None);
        for (number, (act, start, length)) in (1_u8..).zip(acts) {
            let (lba, data) = (Lba(start), vec![Bytes::from(vec![number; usize::try_from(length).unwrap() * BLOCK_BYTES])]);
            let both: [&dyn BlockDevice; 2] = [&volume, &*one];
            for device in both {
                now(match act {
                    Act::Write => device.write(lba, data.clone(), false),
                    Act::Trim => device.trim(lba, length, false),
                    Act::Zero => device.write_zeroes(lba, length, false),
                }).unwrap();
            }
            let count = u32::try_from(length).unwrap();
            prop_assert_eq!(now(volume.read(lba, count)).unwrap().concat(), now(one.read(lba, count)).unwrap().concat());
            let (told, whole) = (now(volume.extents(Lba(0), blocks as u64, limit)).unwrap(), now(one.extents(Lba(0), blocks as u64, usize::MAX)).unwrap());
            // The answer is a prefix; its last extent may be cut short.
            let (last, first) = told.split_last().unwrap();
            prop_assert_eq!(first, &whole[..first.len()]);
            let goes_on = whole[first.len()];
            prop_assert!(last.state == goes_on.state && last.blocks <= goes_on.blocks);
        }
        let count = u32::try_from(blocks).unwrap();
        prop_assert_eq!(now(volume.read(Lba(0), count)).unwrap().concat(), now(one.read(Lba(0), count)).unwrap().concat());
    }
}
