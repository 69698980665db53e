//! The server against virtual machines in other threads, honest and hostile ones.

mod guest;

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::thread;

use vhost::vhost_user::VhostUserFrontend;
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserInflight};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo};
use vm_memory::{Bytes, GuestAddress};
use zoneweave_runtime::Executor;

use super::*;
use crate::memory_device::MemoryDevice;
use guest::{
    DATA, DESCRIPTORS, DISCARD, FLUSH, GET_ID, Guest, HEADER, NEXT, QUEUE_SIZE, READ, STATUS,
    WRITABLE, WRITE, WRITE_ZEROES,
};

const BLOCKS: u64 = 4096;
const SECTORS: u64 = BLOCKS * 8;

/// Serves a disk in memory while `guest` runs in another thread, then shuts down.
fn serve<T: Send + 'static>(
    guest: impl FnOnce(&Path) -> T + Send + 'static,
) -> (T, VhostUserStatus) {
    serve_device(MemoryDevice::new(BLOCKS), guest)
}

fn serve_device<T: Send + 'static>(
    device: Rc<MemoryDevice>,
    guest: impl FnOnce(&Path) -> T + Send + 'static,
) -> (T, VhostUserStatus) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let ring = Ring::new().unwrap();
    let executor = Executor::new(Rc::new(ring.clone()));
    let handle = executor.handle();
    let options =
        VhostUserOptions { serial: "a disk of memory, really".to_owned(), optimal_bytes: 0 };
    let listener = Listener::start(&Endpoint::Unix(path.clone())).unwrap();
    let server = VhostUserServer::start(&ring, &handle, device, listener, options);
    let socket = path.clone();
    let thread = thread::spawn(move || guest(&socket));
    let status = executor.run(async {
        while !thread.is_finished() {
            handle.sleep(Nanos::from_millis(2)).await;
        }
        let status = server.status();
        server.shutdown().await;
        status
    });
    assert!(!path.exists());
    (thread.join().unwrap(), status)
}

#[test]
fn a_guest_writes_and_reads_in_sectors() {
    let (_still_connected, status) = serve(|path| {
        let mut guest = Guest::start(path);
        let data: Vec<_> = (0..2_500_096_u32).map(|i| (i % 251) as u8).collect();
        // More than a piece, unaligned at both ends.
        assert_eq!(guest.write(3, &data), 0);
        assert!(guest.read(3, 2_500_096) == data);
        assert_eq!(guest.read(2, 512), [0; 512]);
        assert_eq!(guest.write(8, &[7; 4096]), 0);
        assert_eq!(guest.read(4, 512), data[512..1024]);
        assert_eq!(guest.request(FLUSH, 0, 0, false).0, 0);
        assert_eq!(guest.read(8, 4096), [7; 4096]);
        assert_eq!(guest.range(WRITE_ZEROES, 9, 2, 1), 0);
        assert_eq!(guest.range(DISCARD, 16, 8, 0), 0);
        let expected = [&[7; 512][..], &[0; 1024], &[7; 2560], &[0; 4096]].concat();
        assert!(guest.read(8, 8192) == expected);
        assert_eq!(guest.request(GET_ID, 0, 20, true), (0, 21));
        let mut id = [0; 20];
        guest.memory.read_slice(&mut id, GuestAddress(DATA)).unwrap();
        assert_eq!(&id, b"a disk of memory, re");
        guest
    });
    assert_eq!((status.requests, status.failed, status.misbehaved), (11, 0, 0));
    assert!(status.connected);
}

#[test]
fn what_a_guest_that_does_not_flush_writes_is_durable_when_it_is_answered() {
    let durable = |flushes: bool| {
        let device = MemoryDevice::new(BLOCKS);
        serve_device(device.clone(), move |path| {
            let mut guest = Guest::connect(path);
            if !flushes {
                guest.do_without_flush();
            }
            guest.share();
            guest.start_queue(0);
            assert_eq!(guest.write(0, &[1; 4096]), 0);
            assert_eq!(guest.range(WRITE_ZEROES, 8, 8, 0), 0);
            assert_eq!(guest.range(DISCARD, 16, 8, 0), 0);
            assert_eq!(guest.read(0, 4096), [1; 4096]);
        });
        device.durable_changes()
    };
    assert_eq!(durable(true), 0);
    assert!(durable(false) >= 2);
}

#[test]
fn what_cannot_be_done_is_an_error_of_the_request() {
    let (_, status) = serve(|path| {
        let mut guest = Guest::start(path);
        assert_eq!(guest.request(READ, SECTORS, 512, true), (1, 1));
        assert_eq!(guest.request(READ, u64::MAX / 512, 512, true).0, 1);
        assert_eq!(guest.request(WRITE, u64::MAX, 512, false).0, 1);
        assert_eq!(guest.request(READ, 0, 100, true).0, 1);
        assert_eq!(guest.request(WRITE, SECTORS - 1, 1024, false).0, 1);
        assert_eq!(guest.request(77, 0, 512, false).0, 2);
        assert_eq!(guest.range(DISCARD, 0, 8, 1), 2);
        assert_eq!(guest.range(WRITE_ZEROES, 0, 8, 2), 2);
        assert_eq!(guest.range(DISCARD, SECTORS - 8, 16, 0), 1);
        assert_eq!(guest.range(DISCARD, 0, u32::MAX, 0), 1);
        assert_eq!(guest.request(DISCARD, 0, 17, false).0, 1);
        assert_eq!(guest.request(DISCARD, 0, 17 * 16, false).0, 1);
        assert_eq!(guest.write(0, &[1; 512]), 0);
    });
    assert_eq!((status.requests, status.failed, status.misbehaved), (13, 12, 0));
}

#[test]
fn chains_that_make_no_sense_are_answered() {
    let (_, status) = serve(|path| {
        let mut guest = Guest::start(path);
        // A loop of readable descriptors: there is no place for a status.
        guest.describe(0, HEADER, 16, NEXT, 1);
        guest.describe(1, DATA, 16, NEXT, 0);
        guest.offer(0);
        assert_eq!(guest.answer(), (0, 0));
        // A loop of data: gigabytes of it.
        guest.header(READ, 0);
        guest.describe(2, DATA, 1 << 31, NEXT | WRITABLE, 2);
        guest.describe(0, HEADER, 16, NEXT, 2);
        guest.offer(0);
        assert_eq!(guest.answer(), (0, 0));
        // Something to be read behind something to be written.
        guest.describe(0, HEADER, 16, NEXT, 1);
        guest.describe(1, STATUS, 1, NEXT | WRITABLE, 2);
        guest.describe(2, DATA, 512, 0, 0);
        guest.offer(0);
        assert_eq!(guest.answer(), (0, 0));
        // A short header, nested indirect tables, a next index out of range.
        guest.header(READ, 0);
        guest.describe(0, HEADER, 15, NEXT, 1);
        guest.describe(1, STATUS, 1, WRITABLE, 0);
        guest.offer(0);
        assert_eq!((guest.answer(), guest.status()), ((0, 1), 1));
        guest.describe(0, DATA, 32, 4, 0);
        guest.describe(1, DATA, 512, NEXT, QUEUE_SIZE);
        guest.offer(0);
        assert_eq!(guest.answer(), (0, 0));
        guest.offer(1);
        assert_eq!(guest.answer(), (1, 0));
        // An indirect table with more pieces than a guest may use.
        let table = u16::try_from((DATA - DESCRIPTORS) / 16).unwrap();
        for number in 0..200 {
            guest.describe(table + number, STATUS, 1, NEXT | WRITABLE, number + 1);
        }
        guest.describe(0, DATA, 200 * 16, 4, 0);
        guest.offer(0);
        assert_eq!(guest.answer(), (0, 0));
        // Addresses outside the guest's memory.
        for (nowhere, bytes) in [(8 << 20, 512), ((8 << 20) - 256, 512), (u64::MAX - 100, 512)] {
            guest.header(READ, 0);
            guest.describe(0, HEADER, 16, NEXT, 1);
            guest.describe(1, nowhere, bytes, NEXT | WRITABLE, 2);
            guest.describe(2, STATUS, 1, WRITABLE, 0);
            guest.offer(0);
            assert_eq!((guest.answer(), guest.status()), ((0, 1), 1));
            guest.header(WRITE, 0);
            guest.describe(1, nowhere, bytes, NEXT, 2);
            guest.offer(0);
            assert_eq!((guest.answer(), guest.status()), ((0, 1), 1));
        }
        guest.describe(2, u64::MAX, 1, WRITABLE, 0);
        guest.offer(0);
        assert_eq!(guest.answer(), (0, 0));
        assert_eq!(guest.read(0, 512), [0; 512]);
    });
    assert_eq!(status.misbehaved, 0);
}

#[test]
fn a_queue_that_makes_no_sense_is_given_up_until_it_is_set_up_again() {
    let (_, status) = serve(|path| {
        let mut guest = Guest::start(path);
        assert_eq!(guest.write(0, &[5; 512]), 0);
        guest.jump_to(1 + QUEUE_SIZE + 1);
        guest.given_up();
        guest.jump_to(1);
        guest.start_queue(1);
        assert_eq!(guest.read(0, 512), [5; 512]);
        // A chain beyond the table, which cannot be given back.
        guest.offer(QUEUE_SIZE);
        guest.given_up();
        // Memory without the queue in it.
        let file = guest.file.try_clone().unwrap();
        let elsewhere = VhostUserMemoryRegionInfo {
            guest_phys_addr: 1 << 32,
            memory_size: 1 << 20,
            userspace_addr: 1 << 32,
            mmap_offset: 0,
            mmap_handle: file.as_raw_fd(),
        };
        guest.control.set_mem_table(&[elsewhere]).unwrap();
        guest.start_queue(3);
        guest.given_up();
    });
    assert_eq!(status.misbehaved, 3);
}

#[test]
fn messages_that_make_no_sense_end_the_connection_and_the_next_is_served() {
    let (_, status) = serve(|path| {
        let hung_up = |bytes: &[u8]| {
            let mut socket = UnixStream::connect(path).unwrap();
            socket.write_all(bytes).unwrap();
            assert_eq!(socket.read(&mut [0; 16]).unwrap_or(0), 0);
        };
        let message = |number: u32, flags: u32, body: &[u8]| {
            let size = u32::try_from(body.len()).unwrap();
            [&number.to_ne_bytes(), &flags.to_ne_bytes(), &size.to_ne_bytes(), body].concat()
        };
        hung_up(&[0xFF; 64]);
        hung_up(&message(200, 1, &[]));
        hung_up(&message(8, 1, &[0; 5000]));
        // Queue 64, a size that is no power of two, a table of regions without files.
        hung_up(&message(8, 1, &[64, 0, 0, 0, 8, 0, 0, 0]));
        hung_up(&message(8, 1, &[0, 0, 0, 0, 9, 0, 0, 0]));
        hung_up(&message(5, 1, &[1; 40]));
        hung_up(&message(2, 1, &[0xFF; 8]));
        let mut guest = Guest::start(path);
        assert_eq!(guest.read(0, 512), [0; 512]);
        // One virtual machine at a time.
        hung_up(&[]);
        assert_eq!(guest.read(0, 512), [0; 512]);
        let flags = VhostUserConfigFlags::empty();
        let (_, told) = guest.control.get_config(0, 60, flags, &[0; 60]).unwrap();
        assert_eq!(told[..8], SECTORS.to_le_bytes());
        assert_eq!(guest.control.get_queue_num().unwrap(), 64);
    });
    assert_eq!(status.misbehaved, 8);
}

/// A server was killed: some requests were taken and not answered, and not in the order in which
/// they were offered.
#[test]
fn what_a_killed_server_left_is_done_by_the_next_one_and_nothing_else() {
    let (_, status) = serve(|path| {
        let mut guest = Guest::start(path);
        let asked = VhostUserInflight::new(0, 0, 1, QUEUE_SIZE);
        let (told, memory) = guest.control.get_inflight_fd(&asked).unwrap();
        guest.control.set_inflight_fd(&told, memory.as_raw_fd()).unwrap();
        assert_eq!(guest.write(0, &[1; 512]), 0);
        assert_eq!(guest.read(0, 512), [1; 512]);
        let table = |at: u64, bytes: &[u8]| memory.write_at(bytes, at).unwrap();
        let answers = || {
            let mut found = [0; 2];
            memory.read_exact_at(&mut found, 14).unwrap();
            u16::from_le_bytes(found)
        };
        assert_eq!(answers(), 2);
        // Three writes of the same sector, in different chains. The chain at 3 was taken first,
        // then that at 9. The chain at 6 was answered, and another request has reused its slot in
        // the available ring.
        for head in [3_u16, 6, 9] {
            let header = HEADER + 64 * u64::from(head);
            let data = DATA + 4096 * u64::from(head);
            guest.memory.write_obj(WRITE, GuestAddress(header)).unwrap();
            guest.memory.write_obj(8_u64, GuestAddress(header + 8)).unwrap();
            guest.memory.write_slice(&[head.to_le_bytes()[0]; 512], GuestAddress(data)).unwrap();
            guest.describe(head, header, 16, NEXT, head + 1);
            guest.describe(head + 1, data, 512, NEXT, head + 2);
            guest.describe(head + 2, STATUS, 1, WRITABLE, 0);
        }
        let _ = guest.control.get_vring_base(0).unwrap();
        for (head, counter) in [(3, 7_u64), (9, 8)] {
            table(16 + 16 * head, &[1]);
            table(16 + 16 * head + 8, &counter.to_le_bytes());
        }
        guest.control.set_inflight_fd(&told, memory.as_raw_fd()).unwrap();
        guest.claim(4);
        guest.start_queue(2);
        assert_eq!((guest.answer().0, guest.answer().0), (3, 9));
        assert_eq!(guest.read(8, 512), [9; 512]);
        assert_eq!(answers(), 5);
        let mut marks = vec![0; 16 * usize::from(QUEUE_SIZE)];
        memory.read_exact_at(&mut marks, 16).unwrap();
        assert!(marks.iter().step_by(16).all(|mark| *mark == 0));
    });
    assert_eq!((status.failed, status.misbehaved), (0, 0));
}

/// A server was killed after an answer and before it signalled the guest. A guest with event
/// indexes gets no signal for later answers until it has seen this one.
#[test]
fn a_guest_is_told_of_answers_that_a_killed_server_did_not_tell_of() {
    let (mut guest, _) = serve(|path| {
        let mut guest = Guest::start(path);
        assert_eq!(guest.write(0, &[5; 512]), 0);
        let _ = guest.control.get_vring_base(0).unwrap();
        guest
    });
    guest.forget_told();
    serve(move |path| {
        guest.control = Guest::connect(path).control;
        guest.share();
        guest.start_queue(1);
        guest.told();
    });
}

#[test]
fn a_guest_goes_on_where_the_last_server_stopped() {
    let (mut guest, _) = serve(|path| {
        let mut guest = Guest::start(path);
        assert_eq!(guest.write(0, &[5; 512]), 0);
        // A guest that asks gets the queue position, and no requests in flight.
        assert_eq!(guest.control.get_vring_base(0).unwrap(), 1);
        // Nothing is taken until it is started again.
        guest.header(READ, 0);
        guest.offer(0);
        assert_eq!(guest.control.get_vring_base(0).unwrap(), 1);
        guest.start_queue(1);
        guest.answer();
        guest
    });
    serve(move |path| {
        let next = Guest::connect(path);
        guest.control = next.control;
        guest.share();
        guest.start_queue(2);
        assert_eq!(guest.read(0, 512), [0; 512], "another disk");
    });
}
