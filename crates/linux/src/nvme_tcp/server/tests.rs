//! The server against an initiator in another thread.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bytes::Bytes;
use zoneweave_emulator::{Immediate, RamDrive};
use zoneweave_nvmf::host::{Dialect, HOST_NQN, HostCommand, Initiator, Reply};
use zoneweave_runtime::Executor;
use zoneweave_zoned::{
    BlockCount, BlockDevice, BlockDeviceInfo, BlockFuture, Extent, Geometry, Lba, OobKind,
};

use super::*;
use crate::memory_device::MemoryDevice;
use crate::odd_device::OddDevice;

const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:test";

fn raw(address: SocketAddr) -> Initiator<TcpStream> {
    Initiator::new(TcpStream::connect(address).unwrap(), Dialect::default())
}

fn admin_queue(address: SocketAddr, dialect: Dialect) -> (Initiator<TcpStream>, u16) {
    Initiator::admin(TcpStream::connect(address).unwrap(), dialect, NQN)
}

fn io_queue(
    address: SocketAddr,
    dialect: Dialect,
    controller: u16,
    queue: u16,
) -> Initiator<TcpStream> {
    let stream = TcpStream::connect(address).unwrap();
    Initiator::io(stream, dialect, NQN, controller, queue)
}

const QUICK: NvmeTcpLimits = NvmeTcpLimits {
    connections: 4,
    handshakes: 2,
    handshake_time: Nanos::from_millis(300),
    controllers: 2,
    in_flight_bytes: 64 << 10,
    shutdown_time: Nanos::from_millis(300),
};

/// Serves `device` while `hosts` run in another thread, then shuts down.
fn serve<T: Send + 'static>(
    device: impl FnOnce(&Handle) -> NvmeTcpDevice,
    limits: NvmeTcpLimits,
    hosts: impl FnOnce(SocketAddr) -> T + Send + 'static,
) -> (T, NvmeTcpStatus) {
    let ring = Ring::new().unwrap();
    let executor = Executor::new(Rc::new(ring.clone()));
    let handle = executor.handle();
    let volume = NvmeTcpVolume {
        nqn: NQN.to_owned(),
        uuid: [0xA5; 16],
        optimal_blocks: 0,
        device: device(&handle),
        hosts: Hosts::Listed(BTreeSet::from([HOST_NQN.to_owned()])),
    };
    let endpoint = Endpoint::Tcp(([127, 0, 0, 1], 0).into());
    let listener = Listener::start(&endpoint).unwrap();
    let server = NvmeTcpServer::start(&ring, &handle, volume, listener, limits);
    let address = server.address();
    let thread = thread::spawn(move || hosts(address));
    let status = executor.run(async {
        while !thread.is_finished() {
            handle.sleep(Nanos::from_millis(2)).await;
        }
        let status = server.status();
        server.shutdown().await;
        status
    });
    (thread.join().unwrap(), status)
}

fn memory(_: &Handle) -> NvmeTcpDevice {
    NvmeTcpDevice::Blocks(MemoryDevice::new(1024))
}

#[test]
fn written_data_is_seen_on_another_queue_and_by_another_host() {
    let (_, status) = serve(memory, NvmeTcpLimits::default(), |address| {
        let dialect = Dialect { header_digest: true, data_digest: true, alignment: 0 };
        let (mut admin, controller) = admin_queue(address, dialect);
        let mut writer = io_queue(address, dialect, controller, 1);
        let mut reader = io_queue(address, dialect, controller, 2);
        let data: Vec<u8> = (0..1_u32 << 20).map(|at| (at >> 8).to_le_bytes()[0] ^ 0x5A).collect();
        writer.done(&HostCommand::blocks(0x01, 100, 256), &data);
        writer.done(&HostCommand::blocks(0x01, 99, 1).with(&[7; 4096]), &[]);
        assert!(reader.read(&HostCommand::blocks(0x02, 100, 256)) == data);
        writer.done(&HostCommand::new(0x00, 1, 0), &[]);
        let (_other_admin, other) = admin_queue(address, Dialect::default());
        assert_ne!(other, controller);
        let mut reader = io_queue(address, Dialect::default(), other, 1);
        assert_eq!(reader.read(&HostCommand::blocks(0x02, 99, 1)), [7; 4096]);
        admin.done(&HostCommand::property_set(0x14, 0x0046_4001), &[]);
        assert_eq!(admin.wait_for_shutdown(), 0b1001);
    });
    assert_eq!((status.requests, status.misbehaved), (5, 0));
}

#[test]
fn many_requests_share_the_memory_of_a_connection() {
    serve(memory, QUICK, |address| {
        let (_admin, controller) = admin_queue(address, Dialect::default());
        let mut host = io_queue(address, Dialect::default(), controller, 1);
        // 30 writes and reads of 64 KiB each, where one has the whole budget.
        for turn in 0..15_u16 {
            host.start(turn * 2, &HostCommand::blocks(0x01, u64::from(turn) * 16, 16));
            host.start(turn * 2 + 1, &HostCommand::blocks(0x02, u64::from(turn) * 16, 16));
        }
        let mut completed = BTreeSet::new();
        while completed.len() < 30 {
            match host.reply() {
                Reply::Ready(id, transfer, 0, length) => {
                    host.send_data(id, transfer, &vec![3; length as usize]);
                }
                Reply::Data(_, 0, data) => assert_eq!(data.len(), 65_536),
                Reply::Completion { command, status: 0, .. } => {
                    assert!(completed.insert(command));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(host.read(&HostCommand::blocks(0x02, 0, 16)), [3; 65_536]);
    });
}

#[test]
fn requests_complete_out_of_order_and_errors_are_told() {
    let odd = |handle: &Handle| NvmeTcpDevice::Blocks(OddDevice::writable(handle));
    serve(odd, QUICK, |address| {
        let (_admin, controller) = admin_queue(address, Dialect::default());
        let mut host = io_queue(address, Dialect::default(), controller, 1);
        host.start(11, &HostCommand::blocks(0x02, 1, 1));
        host.start(22, &HostCommand::blocks(0x02, 2, 1));
        host.start(33, &HostCommand::blocks(0x01, 0, 1).with(&[0; 4096]));
        host.start(44, &HostCommand::new(0x00, 1, 0));
        // Never answered; the server closes all the same.
        host.start(55, &HostCommand::blocks(0x02, 3, 1));
        let mut failed = BTreeSet::new();
        let last = loop {
            match host.reply() {
                Reply::Data(id, ..) => break id,
                Reply::Completion { command, status, .. } => failed.insert((command, status)),
                other => panic!("{other:?}"),
            };
        };
        assert_eq!(last, 11, "it took the longest");
        assert_eq!(failed, [(22, 0x281), (33, 0x280), (44, 0x281)].into());
    });
}

/// A drive in memory of 8 zones of 48 blocks, 64 apart.
fn zoned(handle: &Handle) -> NvmeTcpDevice {
    let geometry = Geometry { oob: OobKind::None, ..Geometry::new(8, BlockCount(48)) };
    let drive = RamDrive::new(geometry, Immediate).unwrap();
    NvmeTcpDevice::Zones(drive.attach(handle))
}

#[test]
fn zones_are_written_appended_reported_and_reset() {
    serve(zoned, NvmeTcpLimits::default(), |address| {
        let (_admin, controller) = admin_queue(address, Dialect::default());
        let mut host = io_queue(address, Dialect::default(), controller, 1);
        host.done(&HostCommand::blocks(0x01, 128, 4), &[1; 16_384]);
        let append = HostCommand::blocks(0x7D, 128, 2);
        assert_eq!(host.done(&append, &[2; 8192]), 132, "behind the blocks that were written");
        assert_eq!(host.read(&HostCommand::blocks(0x02, 130, 4))[8192..], [2; 8192]);
        assert_eq!(host.refused(&HostCommand::blocks(0x01, 128, 1).with(&[3; 4096])), 0x1BC);
        let report = |host: &mut Initiator<TcpStream>, options: u32, first: u32| {
            let command = HostCommand::new(0x7A, 1, 1024).dword(10, first).dword(12, 255);
            host.read(&command.dword(13, options))
        };
        let zones = report(&mut host, 0, 64);
        assert_eq!(zones[..8], 7_u64.to_le_bytes(), "from the second zone on");
        let third = &zones[128..192];
        assert_eq!((third[0], third[1] >> 4, third[8], third[16], third[24]), (2, 2, 48, 128, 134));
        assert!(zones[64 * 8..].iter().all(|byte| *byte == 0), "behind the last zone");
        let manage =
            |lba: u32, options: u32| HostCommand::new(0x79, 1, 0).dword(10, lba).dword(13, options);
        host.done(&manage(192, 3), &[]);
        assert_eq!(
            report(&mut host, 3 << 8, 0)[..8],
            1_u64.to_le_bytes(),
            "one is explicitly open"
        );
        host.done(&manage(0, 0x104), &[]);
        assert_eq!(report(&mut host, 1 << 8, 0)[..8], 8_u64.to_le_bytes(), "all are empty");
        assert_eq!(host.refused(&manage(192, 5)), 0x1BF);
        assert_eq!(host.refused(&HostCommand::new(0x08, 1, 0)), 0x001);
        host.done(&HostCommand::new(0x00, 1, 0), &[]);
    });
}

#[test]
fn misbehaving_hosts_do_not_disturb_others() {
    let (_, status) = serve(memory, QUICK, |address| {
        let (_admin, controller) = admin_queue(address, Dialect::default());
        let mut honest = io_queue(address, Dialect::default(), controller, 1);
        // Another protocol, a host that says nothing in time, and one that is not in the list.
        let mut other = raw(address);
        other.send(&b"GET / HTTP/1.1\r\n\r\n".repeat(10_000));
        assert_eq!(other.reply(), Reply::Termination(2, 0), "it is told, whatever it has sent");
        other.send_and_expect_end(&[]);
        raw(address).send_and_expect_end(&[]);
        let mut stranger = raw(address);
        stranger.open();
        let connect = HostCommand::connect(0, 0xFFFF, NQN, "nqn.2014-08.org.x:stranger");
        assert_eq!(stranger.refused(&connect), 0x184);
        drop(stranger);
        honest.done(&HostCommand::blocks(0x01, 5, 1).with(&[9; 4096]), &[]);
        assert_eq!(honest.read(&HostCommand::blocks(0x02, 5, 1)), [9; 4096]);
    });
    assert_eq!((status.misbehaved, status.requests), (2, 2));
}

#[test]
fn queues_end_with_their_controllers() {
    serve(memory, QUICK, |address| {
        let (admin, controller) = admin_queue(address, Dialect::default());
        let mut host = io_queue(address, Dialect::default(), controller, 1);
        host.start(1, &HostCommand::blocks(0x01, 0, 3));
        assert!(matches!(host.reply(), Reply::Ready(1, 1, 0, 12_288)));
        drop(admin);
        host.send_and_expect_end(&[]);
        // A host that is silent for longer than it had promised.
        let silent = HostCommand::connect(0, 0xFFFF, NQN, HOST_NQN).dword(12, 1);
        let mut admin = raw(address);
        admin.open();
        admin.done(&silent, &[]);
        admin.send_and_expect_end(&[]);
    });
}

/// A trim that lasts until it is released, over memory.
struct LateTrim {
    memory: Rc<dyn BlockDevice>,
    handle: Handle,
    steps: Arc<Steps>,
}

#[derive(Default)]
struct Steps {
    has_begun: AtomicBool,
    is_released: AtomicBool,
    has_ended: AtomicBool,
}

impl BlockDevice for LateTrim {
    fn info(&self) -> BlockDeviceInfo {
        self.memory.info()
    }

    fn read(&self, lba: Lba, blocks: u32) -> BlockFuture<Vec<Bytes>> {
        self.memory.read(lba, blocks)
    }

    fn write(&self, lba: Lba, data: Vec<Bytes>, fua: bool) -> BlockFuture<()> {
        self.memory.write(lba, data, fua)
    }

    fn write_zeroes(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()> {
        self.memory.write_zeroes(lba, blocks, fua)
    }

    fn trim(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()> {
        let (memory, handle, steps) =
            (self.memory.clone(), self.handle.clone(), self.steps.clone());
        Box::pin(async move {
            steps.has_begun.store(true, Ordering::Release);
            while !steps.is_released.load(Ordering::Acquire) {
                handle.sleep(Nanos::from_millis(1)).await;
            }
            let trimmed = memory.trim(lba, blocks, fua).await;
            steps.has_ended.store(true, Ordering::Release);
            trimmed
        })
    }

    fn flush(&self) -> BlockFuture<()> {
        self.memory.flush()
    }

    fn extents(&self, lba: Lba, blocks: u64, most: usize) -> BlockFuture<Vec<Extent>> {
        self.memory.extents(lba, blocks, most)
    }
}

fn until(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        thread::yield_now();
    }
}

/// A host that lost its connection repeats its commands on the next one, and goes on.
#[test]
fn a_late_change_does_not_undo_a_newer_one() {
    let steps = Arc::new(Steps::default());
    let told = steps.clone();
    let late = move |handle: &Handle| {
        let (memory, handle) = (MemoryDevice::new(1024), handle.clone());
        let memory: Rc<dyn BlockDevice> = memory;
        NvmeTcpDevice::Blocks(Rc::new(LateTrim { memory, handle, steps }))
    };
    serve(late, NvmeTcpLimits::default(), move |address| {
        let (admin, controller) = admin_queue(address, Dialect::default());
        let mut host = io_queue(address, Dialect::default(), controller, 1);
        // One range: attributes, blocks, first block.
        let range = [&0_u32.to_le_bytes()[..], &8_u32.to_le_bytes(), &0_u64.to_le_bytes()].concat();
        host.start(1, &HostCommand::new(0x09, 1, 0).dword(11, 1 << 2).with(&range));
        until(&told.has_begun);
        drop(admin);
        host.send_and_expect_end(&[]);
        let (_admin, controller) = admin_queue(address, Dialect::default());
        let mut host = io_queue(address, Dialect::default(), controller, 1);
        host.start(1, &HostCommand::blocks(0x01, 3, 1).with(&[7; 4096]));
        told.is_released.store(true, Ordering::Release);
        assert!(matches!(host.reply(), Reply::Completion { command: 1, status: 0, .. }));
        until(&told.has_ended);
        assert_eq!(host.read(&HostCommand::blocks(0x02, 3, 1)), [7; 4096]);
    });
}
