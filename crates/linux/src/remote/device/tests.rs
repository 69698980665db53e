//! A device of one thread, used by another.

use std::cell::Cell;
use std::future::{pending, ready};
use std::sync::mpsc::channel;
use std::thread;

use futures_util::future::join_all;
use zoneweave_runtime::Executor;
use zoneweave_zoned::{ExtentState, zero_blocks};

use super::*;
use crate::memory_device::MemoryDevice;

/// Runs `client` here with a device that another thread serves until `end` is done there.
fn with_device<T>(
    device: impl FnOnce(&Handle) -> Rc<dyn BlockDevice> + Send + 'static,
    end: impl AsyncFnOnce(&Handle) + Send + 'static,
    client: impl AsyncFnOnce(RemoteDevice, Handle) -> T,
) -> T {
    let (give, given) = channel();
    let engine = thread::spawn(move || {
        let ring = Ring::new().unwrap();
        let executor = Executor::new(Rc::new(ring.clone()));
        let handle = executor.handle();
        let (link, _) = DeviceLink::new(&ring, &handle, device(&handle)).unwrap();
        give.send(link).unwrap();
        executor.run(end(&handle));
    });
    let ring = Ring::new().unwrap();
    let executor = Executor::new(Rc::new(ring.clone()));
    let handle = executor.handle();
    let device = given.recv().unwrap().connect(&ring, &handle).unwrap();
    let outcome = executor.run(client(device, handle));
    engine.join().unwrap();
    outcome
}

/// Until everything that was lent was given back.
async fn all_done(handle: &Handle) {
    while !handle.task_names().is_empty() {
        handle.sleep(zoneweave_runtime::Nanos::from_millis(1)).await;
    }
}

fn block(byte: u8) -> Vec<Bytes> {
    vec![Bytes::from(vec![byte; 4096])]
}

#[test]
fn every_kind_of_request_is_answered() {
    with_device(
        |_| MemoryDevice::new(64),
        all_done,
        async |device, _| {
            assert_eq!(device.info().blocks, 64);
            device.write(Lba(3), block(7), false).await.unwrap();
            device.write(Lba(4), block(8), true).await.unwrap();
            device.flush().await.unwrap();
            assert_eq!(device.read(Lba(3), 2).await.unwrap(), [block(7), block(8)].concat());
            device.trim(Lba(3), 1, false).await.unwrap();
            device.write_zeroes(Lba(5), 1, false).await.unwrap();
            let states: Vec<_> =
                device.extents(Lba(0), 64, 9).await.unwrap().iter().map(|e| e.state).collect();
            assert_eq!(states, [ExtentState::Hole, ExtentState::Data, ExtentState::Hole]);
            let beyond = BlockError::OutOfRange { lba: Lba(64), blocks: 1, capacity: 64 };
            assert_eq!(device.read(Lba(64), 1).await, Err(beyond));
        },
    );
}

#[test]
fn one_at_a_time_nobody_oversleeps() {
    with_device(
        |_| MemoryDevice::new(64),
        all_done,
        async |device, _| {
            for number in 0..20_000_u64 {
                device.write(Lba(number % 64), block(1), false).await.unwrap();
            }
        },
    );
}

/// Counts requests in flight, and answers in the next turn.
struct Counting {
    handle: Handle,
    now: Rc<Cell<u64>>,
    most: Rc<Cell<u64>>,
}

impl BlockDevice for Counting {
    fn info(&self) -> BlockDeviceInfo {
        BlockDeviceInfo { blocks: 1 << 20, volatile_cache: false, read_only: true }
    }

    fn read(&self, lba: Lba, _: u32) -> BlockFuture<Vec<Bytes>> {
        let (handle, now) = (self.handle.clone(), self.now.clone());
        now.set(now.get() + 1);
        self.most.set(self.most.get().max(now.get()));
        Box::pin(async move {
            if lba.0 == 0 {
                pending::<()>().await;
            }
            handle.yield_now().await;
            now.set(now.get() - 1);
            Ok(vec![zero_blocks(zoneweave_zoned::BlockCount(1))])
        })
    }

    fn write(&self, _: Lba, _: Vec<Bytes>, _: bool) -> BlockFuture<()> {
        unreachable!("nothing is written")
    }

    fn write_zeroes(&self, _: Lba, _: u64, _: bool) -> BlockFuture<()> {
        unreachable!("nothing is written")
    }

    fn trim(&self, _: Lba, _: u64, _: bool) -> BlockFuture<()> {
        unreachable!("nothing is written")
    }

    /// The largest number in flight.
    fn flush(&self) -> BlockFuture<()> {
        let kept = self.most.get() <= REQUESTS_MAX;
        Box::pin(ready(if kept { Ok(()) } else { Err(BlockError::ShuttingDown) }))
    }

    fn extents(&self, _: Lba, _: u64, _: usize) -> BlockFuture<Vec<Extent>> {
        unreachable!("nobody asks")
    }
}

fn counting(handle: &Handle) -> Rc<dyn BlockDevice> {
    Rc::new(Counting { handle: handle.clone(), now: Rc::default(), most: Rc::default() })
}

#[test]
fn so_many_are_under_way_at_the_most() {
    with_device(counting, all_done, async |device, _| {
        let reads = (1..=3 * REQUESTS_MAX).map(|lba| device.read(Lba(lba), 1));
        assert!(join_all(reads).await.iter().all(Result::is_ok));
        device.flush().await.unwrap();
    });
}

#[test]
fn a_device_that_is_gone_answers_what_was_asked_and_what_is_asked_later() {
    let (stop, stopped) = channel();
    with_device(
        counting,
        async move |handle| {
            while stopped.try_recv().is_err() {
                handle.yield_now().await;
            }
        },
        async |device, _| {
            let never = device.read(Lba(0), 1);
            device.read(Lba(1), 1).await.unwrap();
            stop.send(()).unwrap();
            assert_eq!(never.await, Err(BlockError::ShuttingDown));
            assert_eq!(device.flush().await, Err(BlockError::ShuttingDown));
        },
    );
}

#[test]
fn a_link_that_nobody_takes_up_ends() {
    let ring = Ring::new().unwrap();
    let executor = Executor::new(Rc::new(ring.clone()));
    let handle = executor.handle();
    let (link, given_back) = DeviceLink::new(&ring, &handle, MemoryDevice::new(1)).unwrap();
    let (late, _) = DeviceLink::new(&ring, &handle, MemoryDevice::new(1)).unwrap();
    drop(link);
    executor.run(given_back);
    drop(executor);
    let executor = Executor::new(Rc::new(ring.clone()));
    let device = late.connect(&ring, &executor.handle()).unwrap();
    assert_eq!(executor.run(device.flush()), Err(BlockError::ShuttingDown));
}
