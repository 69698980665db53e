//! The byte device over a device that is slow in random ways, against a vector of bytes.

use std::cell::RefCell;

use proptest::prelude::*;
use zoneweave_runtime::{Executor, Handle, Nanos, Random, VirtualTime};

use super::*;
use crate::{BlockFuture, Extent, zero_blocks};

const BLOCKS: u64 = 8;

/// Every request takes effect at a random moment after it was made, except that overlapping
/// changes keep their order: all the trait promises, and no more.
struct SlowDevice {
    handle: Handle,
    random: RefCell<Random>,
    blocks: Rc<RefCell<Vec<Option<Bytes>>>>,
    /// When the last change of each block takes effect.
    busy_until: RefCell<Vec<Nanos>>,
}

impl SlowDevice {
    fn new(handle: Handle, seed: u64) -> Self {
        let blocks = usize::try_from(BLOCKS).unwrap();
        Self {
            handle,
            random: RefCell::new(Random::new(seed)),
            blocks: Rc::new(RefCell::new(vec![None; blocks])),
            busy_until: RefCell::new(vec![Nanos::ZERO; blocks]),
        }
    }

    fn some_time(&self) -> Nanos {
        self.handle.now() + Nanos(1 + self.random.borrow_mut().below(100))
    }

    fn change(&self, lba: Lba, contents: Vec<Option<Bytes>>) -> BlockFuture<()> {
        let mut busy_until = self.busy_until.borrow_mut();
        let busy = &mut busy_until[lba.index()..lba.index() + contents.len()];
        let earlier = busy.iter().max().map_or(Nanos::ZERO, |busy| *busy + Nanos(1));
        let at = self.some_time().max(earlier);
        busy.fill(at);
        let (handle, blocks) = (self.handle.clone(), self.blocks.clone());
        let effect = self.handle.spawn("change", async move {
            handle.sleep_until(at).await;
            blocks.borrow_mut()[lba.index()..][..contents.len()].clone_from_slice(&contents);
        });
        Box::pin(async move {
            effect.await;
            Ok(())
        })
    }
}

impl BlockDevice for SlowDevice {
    fn info(&self) -> BlockDeviceInfo {
        BlockDeviceInfo { blocks: BLOCKS, volatile_cache: false, read_only: false }
    }

    fn read(&self, lba: Lba, blocks: u32) -> BlockFuture<Vec<Bytes>> {
        let (handle, at, contents) = (self.handle.clone(), self.some_time(), self.blocks.clone());
        Box::pin(async move {
            handle.sleep_until(at).await;
            let contents = contents.borrow();
            let range = &contents[lba.index()..][..BlockCount(blocks).index()];
            Ok(range.iter().map(|b| b.clone().unwrap_or(zero_blocks(BlockCount(1)))).collect())
        })
    }

    fn write(&self, lba: Lba, data: Vec<Bytes>, _fua: bool) -> BlockFuture<()> {
        let payload = crate::Payload { data, oob: Bytes::new() };
        payload.assert_whole();
        self.change(lba, payload.iter_blocks().map(Some).collect())
    }

    fn write_zeroes(&self, lba: Lba, blocks: u64, _fua: bool) -> BlockFuture<()> {
        self.change(lba, vec![None; index(blocks)])
    }

    fn trim(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()> {
        self.write_zeroes(lba, blocks, fua)
    }

    fn flush(&self) -> BlockFuture<()> {
        Box::pin(async { Ok(()) })
    }

    fn extents(&self, lba: Lba, blocks: u64, limit: usize) -> BlockFuture<Vec<Extent>> {
        let contents = self.blocks.borrow();
        let extents = contents[lba.index()..][..index(blocks)].iter().map(|block| Extent {
            blocks: 1,
            state: if block.is_some() { ExtentState::Data } else { ExtentState::Hole },
        });
        let extents = extents.take(limit).collect();
        Box::pin(async move { Ok(extents) })
    }
}

#[derive(Clone, Debug)]
enum Change {
    Write(Span, u8, usize),
    Zero(Span),
    Trim(Span),
}

fn span() -> impl Strategy<Value = Span> {
    let bound = prop_oneof![
        3 => 0..=BLOCKS * BLOCK,
        1 => (0..=BLOCKS).prop_map(|block| block * BLOCK),
        // Many requests in the same two blocks.
        3 => 2 * BLOCK..4 * BLOCK,
    ];
    (bound.clone(), bound).prop_map(|(a, b)| Span { start: a.min(b), end: a.max(b) })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        5 => (span(), 1..=255_u8, 1..9000_usize).prop_map(|(s, b, p)| Change::Write(s, b, p)),
        1 => span().prop_map(Change::Zero),
        1 => span().prop_map(Change::Trim),
    ]
}

fn apply(model: &mut [u8], change: &Change) {
    let (span, byte) = match change {
        Change::Write(span, byte, _) => (*span, *byte),
        Change::Zero(span) => (*span, 0),
        Change::Trim(span) => {
            let whole = span.whole();
            (Span { start: whole.start * BLOCK, end: whole.end * BLOCK }, 0)
        }
    };
    model[index(span.start)..index(span.end).max(index(span.start))].fill(byte);
}

/// Makes a change as a front end does that knows whole blocks only, if it is of whole blocks.
async fn perform_aligned(device: &dyn BlockDevice, change: &Change) -> bool {
    let (Change::Write(span, ..) | Change::Zero(span) | Change::Trim(span)) = *change;
    let (blocks, lba) = (span.touched(), Lba(span.touched().start));
    if !span.is_aligned() || blocks.is_empty() {
        return false;
    }
    let length = blocks.end - blocks.start;
    let result = match change {
        Change::Write(_, byte, _) => {
            let data = Bytes::from(vec![*byte; index(span.end - span.start)]);
            device.write(lba, vec![data], false).await
        }
        Change::Zero(_) => device.write_zeroes(lba, length, false).await,
        Change::Trim(_) => device.trim(lba, length, false).await,
    };
    result.unwrap();
    true
}

async fn perform(device: &ByteDevice, change: Change) {
    let result = match change {
        Change::Write(span, byte, piece_bytes) => {
            let data = vec![byte; index(span.end - span.start)];
            let pieces = data.chunks(piece_bytes).map(|piece| Bytes::from(piece.to_vec()));
            device.write(span.start, pieces.collect(), false).await
        }
        Change::Zero(span) => device.write_zeroes(span.start, span.end - span.start, false).await,
        Change::Trim(span) => device.trim(span.start, span.end - span.start, false).await,
    };
    result.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Requests made one after the other, all in flight together, end up as if they had been
    /// executed in that order.
    #[test]
    fn concurrent_changes_take_effect_in_order(
        changes in prop::collection::vec(change(), 1..20),
        seed: u64,
        reads in prop::collection::vec(span(), 5),
    ) {
        assert_in_order(changes, seed, reads);
    }
}

fn assert_in_order(changes: Vec<Change>, seed: u64, reads: Vec<Span>) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    // Two front ends of bytes and one of blocks, which takes the byte device for any block device.
    let slow = Rc::new(SlowDevice::new(handle.clone(), seed));
    let shared: Rc<dyn BlockDevice> = Rc::new(ByteDevice::new(slow));
    let fronts = [0, 1].map(|_| Rc::new(ByteDevice::new(shared.clone())));
    let device = &fronts[0];
    let mut model = vec![0; index(BLOCKS * BLOCK)];
    executor.run(async {
        let mut joins = Vec::new();
        for (at, change) in changes.into_iter().enumerate() {
            apply(&mut model, &change);
            let (front, shared) = (fronts[at % 2].clone(), shared.clone());
            joins.push(handle.spawn("request", async move {
                if at % 3 > 0 || !perform_aligned(&*shared, &change).await {
                    perform(&front, change).await;
                }
            }));
        }
        for join in joins {
            join.await;
        }
        for span in reads.into_iter().chain([Span { start: 0, end: BLOCKS * BLOCK }]) {
            let length = u32::try_from(span.end - span.start).unwrap();
            let read = device.read(span.start, length).await.unwrap().concat();
            assert!(read == model[index(span.start)..index(span.end)], "{span:?}");
            let extents = device.extents(span.start, u64::from(length), 100).await.unwrap();
            let covered: u64 = extents.iter().map(|extent| extent.length_bytes).sum();
            assert_eq!(covered, u64::from(length));
        }
    });
}

fn with_device<T>(test: impl AsyncFnOnce(&ByteDevice) -> T) -> T {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let device = ByteDevice::new(Rc::new(SlowDevice::new(executor.handle(), 1)));
    executor.run(test(&device))
}

/// A partial write delayed an aligned write behind it; a trim of blocks which only the aligned
/// write touched saw no partial claim in its way, overtook it, and was lost.
#[test]
fn a_waiting_change_is_not_overtaken() {
    let changes = [
        Change::Write(Span { start: 2 * BLOCK, end: 2 * BLOCK + 1 }, 1, 1),
        Change::Write(Span { start: 0, end: 3 * BLOCK }, 1, 4096),
        Change::Trim(Span { start: 0, end: 2 * BLOCK }),
    ];
    assert_in_order(changes.to_vec(), 0, vec![Span { start: 0, end: BLOCKS * BLOCK }]);
}

/// Two front ends had claims of their own: one read a block to change a part of it, the other one
/// wrote the block meanwhile, and that was undone.
#[test]
fn a_change_by_one_front_end_is_not_undone_by_another() {
    let part = Change::Write(Span { start: 2 * BLOCK, end: 2 * BLOCK + 1 }, 1, 1);
    let whole = Change::Write(Span { start: 0, end: 4 * BLOCK }, 2, 4096);
    for seed in 0..50 {
        let changes = [part.clone(), part.clone(), part.clone(), whole.clone()];
        assert_in_order(changes.to_vec(), seed, Vec::new());
        let other_part = Change::Write(Span { start: 2 * BLOCK + 7, end: 2 * BLOCK + 9 }, 3, 1);
        assert_in_order(vec![part.clone(), other_part], seed, Vec::new());
    }
}

#[test]
fn requests_beyond_the_end_are_refused() {
    with_device(async |device| {
        let size = device.size_bytes();
        assert!(device.read(size, 0).await.unwrap().is_empty());
        assert!(matches!(device.read(size, 1).await, Err(BlockError::OutOfRange { .. })));
        assert!(matches!(
            device.trim(u64::MAX, 2, false).await,
            Err(BlockError::OutOfRange { .. })
        ));
        let byte = vec![Bytes::from_static(b"x")];
        assert!(device.write(size - 1, byte.clone(), false).await.is_ok());
        assert!(matches!(
            device.write(size, byte, false).await,
            Err(BlockError::OutOfRange { .. })
        ));
    });
}

#[test]
fn trimming_part_of_a_block_keeps_it() {
    with_device(async |device| {
        device.write(0, vec![Bytes::from(vec![7; 3 * BLOCK_BYTES])], false).await.unwrap();
        device.trim(100, 2 * BLOCK, false).await.unwrap();
        let read = device.read(0, 3 * 4096).await.unwrap().concat();
        assert!(read[..BLOCK_BYTES].iter().all(|&b| b == 7));
        assert!(read[BLOCK_BYTES..2 * BLOCK_BYTES].iter().all(|&b| b == 0));
        assert!(read[2 * BLOCK_BYTES..].iter().all(|&b| b == 7));
    });
}
