//! The ring against the kernel of the machine that runs the tests.

use std::io;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_runtime::{Executor, Nanos};
use zoneweave_zoned::{AlignedBuffer, BlockCount};

use super::*;
use crate::ring::{DeviceCommand, Lent, Opcode};

fn setup() -> (Ring, Executor) {
    let ring = Ring::new().expect("the tests need io_uring");
    (ring.clone(), Executor::new(Rc::new(ring)))
}

fn socket_pair() -> (Descriptor, Descriptor) {
    let (left, right) = UnixStream::pair().unwrap();
    (Rc::new(left.into()), Rc::new(right.into()))
}

/// Polls an operation once, so that the kernel has it; it is not done by that.
async fn begin(mut operation: Pin<&mut impl Future>) {
    std::future::poll_fn(|context| {
        assert!(operation.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[test]
fn files_are_written_synced_read_and_punched() {
    let (ring, executor) = setup();
    let file: Descriptor = Rc::new(tempfile::tempfile().unwrap().into());
    executor.run(async {
        let pieces: Vec<_> =
            (0..3000_u32).map(|i| Bytes::from(vec![i.to_le_bytes()[0]; 7])).collect();
        ring.write_all_at(&file, pieces, 5).await.unwrap();
        ring.sync_data(&file).await.unwrap();
        let buffer = AlignedBuffer::zeroed(BlockCount(6));
        let buffer = ring.read_exact_at(&file, buffer, 21_005, 0).await.unwrap();
        assert_eq!(buffer.as_ref()[..5], [0; 5]);
        assert!((0..3000).all(|i| buffer.as_ref()[5 + i * 7 + 6] == i.to_le_bytes()[0]));
        ring.punch_hole(&file, 4096..8192).await.unwrap();
        let buffer = ring.read_exact_at(&file, buffer, 4097, 4095).await.unwrap();
        assert_ne!(buffer.as_ref()[0], 0);
        assert_eq!(buffer.as_ref()[1..4097], [0; 4096]);
        let beyond = ring.read_exact_at(&file, buffer, 10, 21_000).await;
        assert_eq!(beyond.err().unwrap().kind(), io::ErrorKind::UnexpectedEof);
    });
}

#[test]
fn entries_grow_only_while_nothing_is_under_way_and_do_the_same() {
    let (ring, executor) = setup();
    let (left, right) = socket_pair();
    executor.run(async {
        let mut receiving =
            Box::pin(ring.receive(&left, AlignedBuffer::zeroed(BlockCount(1)), 0..4096));
        begin(receiving.as_mut()).await;
        assert!(matches!(ring.take_commands(), Err(RingError::Busy)));
        ring.send_all(&right, vec![Bytes::from_static(b"now")]).await.unwrap();
        receiving.await.unwrap();
        ring.take_commands().unwrap();
        ring.take_commands().unwrap();
        ring.send_all(&right, vec![Bytes::from_static(b"large")]).await.unwrap();
        let buffer = AlignedBuffer::zeroed(BlockCount(1));
        let (buffer, count) = ring.receive(&left, buffer, 0..4096).await.unwrap();
        assert_eq!(&buffer.as_ref()[..count], b"large");
    });
}

#[test]
fn a_file_that_takes_no_commands_says_so() {
    let (ring, executor) = setup();
    ring.take_commands().unwrap();
    let file: Descriptor = Rc::new(tempfile::tempfile().unwrap().into());
    let data = Lent::In(AlignedBuffer::zeroed(BlockCount(1)), 4096);
    let command = DeviceCommand {
        opcode: Opcode(2),
        namespace: 1,
        dwords: [0; 6],
        data,
        metadata: Lent::Nothing,
        timeout_ms: 1000,
    };
    let done = executor.run(ring.command(&file, command));
    assert_eq!(done.status.unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
    assert!(matches!(done.data, Lent::In(..)));
}

#[test]
fn timers_fire_while_operations_wait() {
    let (ring, executor) = setup();
    let (left, _right) = socket_pair();
    let handle = executor.handle();
    let started = handle.now();
    let receiving = handle.spawn("receiver", {
        let ring = ring.clone();
        async move { drop(ring.receive(&left, AlignedBuffer::zeroed(BlockCount(1)), 0..1).await) }
    });
    executor.run(handle.sleep(Nanos::from_millis(20)));
    assert!(handle.now().since(started) >= Nanos::from_millis(20));
    drop((executor, handle, receiving));
    assert_eq!(Rc::strong_count(&ring.0), 1);
}

#[test]
fn a_long_send_is_resumed_until_the_peer_has_it_all() {
    let (ring, executor) = setup();
    let (left, right) = socket_pair();
    let handle = executor.handle();
    let data: Vec<_> =
        (0..2000_usize).map(|i| Bytes::from(vec![i.to_le_bytes()[0]; 5000])).collect();
    let expected = data.concat();
    let sender = ring.clone();
    let sending = handle.spawn("sender", async move { sender.send_all(&left, data).await });
    let received = executor.run(async {
        let mut received = Vec::new();
        let mut buffer = AlignedBuffer::zeroed(BlockCount(16));
        loop {
            let count;
            (buffer, count) = ring.receive(&right, buffer, 100..65_000).await.unwrap();
            if count == 0 {
                return received;
            }
            received.extend_from_slice(&buffer.as_ref()[100..100 + count]);
        }
    });
    assert!(received == expected);
    executor.run(sending).unwrap();
}

#[test]
fn dropped_operations_give_their_memory_back_only_at_completion() {
    let (ring, executor) = setup();
    let (left, right) = socket_pair();
    let handle = executor.handle();
    executor.run(async {
        let mut receiving =
            Box::pin(ring.receive(&left, AlignedBuffer::zeroed(BlockCount(1)), 0..4096));
        begin(receiving.as_mut()).await;
        drop(receiving);
        assert_eq!(ring.0.slots.borrow().len(), 1);
        while !ring.0.slots.borrow().is_empty() {
            handle.sleep(Nanos::from_millis(1)).await;
        }
        // The cancelled receive took nothing from the stream.
        ring.send_all(&right, vec![Bytes::from_static(b"later")]).await.unwrap();
        let buffer = AlignedBuffer::zeroed(BlockCount(1));
        let (buffer, count) = ring.receive(&left, buffer, 0..4096).await.unwrap();
        assert_eq!(&buffer.as_ref()[..count], b"later");
    });
}

#[test]
fn more_operations_than_fit_wait_their_turn() {
    let ring = Ring::with_options(RingOptions { entries: 4, in_flight: 8 }).unwrap();
    let executor = Executor::new(Rc::new(ring.clone()));
    let handle = executor.handle();
    let file: Descriptor = Rc::new(tempfile::tempfile().unwrap().into());
    let writes: Vec<_> = (0..500_u64)
        .map(|i| {
            let (ring, file) = (ring.clone(), file.clone());
            let data = vec![Bytes::from(i.to_le_bytes().to_vec())];
            handle.spawn("write", async move { ring.write_all_at(&file, data, i * 8).await })
        })
        .collect();
    executor.run(async {
        for write in writes {
            write.await.unwrap();
        }
        assert!(!ring.0.queues.borrow().waits());
        let buffer = AlignedBuffer::zeroed(BlockCount(1));
        let buffer = ring.read_exact_at(&file, buffer, 4000, 0).await.unwrap();
        let numbers =
            buffer.as_ref()[..4000].chunks(8).map(|b| u64::from_le_bytes(b.try_into().unwrap()));
        assert!(numbers.eq(0..500));
    });
}

#[test]
fn an_abandoned_accept_closes_the_socket_it_got() {
    use std::io::Read;
    use std::os::unix::net::UnixListener;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let (ring, executor) = setup();
    let listener: Descriptor = Rc::new(UnixListener::bind(&path).unwrap().into());
    let mut client = UnixStream::connect(&path).unwrap();
    executor.run(async {
        // Submitted and, since a connection waits, completed, before the future is dropped.
        let mut accepting = Box::pin(ring.accept(&listener));
        std::future::poll_fn(|context| {
            assert!(accepting.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        ring.0.queues.borrow_mut().submit();
        drop(accepting);
    });
    drop((executor, ring, listener));
    assert_eq!(client.read(&mut [0; 1]).unwrap_or(0), 0);
}

#[test]
fn a_ring_without_work_is_idle() {
    let (ring, _executor) = setup();
    assert_eq!(ring.turn(Wait::Yes), Progress::Idle);
    assert_eq!(ring.turn(Wait::No), Progress::Some);
}
