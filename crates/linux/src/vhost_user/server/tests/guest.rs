//! A virtual machine in a thread of the test: a driver that can put anything into its queues.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vhost::vhost_user::{Frontend, VhostUserFrontend, VhostUserProtocolFeatures};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtio_queue::desc::RawDescriptor;
use virtio_queue::desc::split::Descriptor;
use vm_memory::mmap::MmapRegion;
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap};
use vmm_sys_util::eventfd::EventFd;

/// The guest's memory; in the addresses of its process it begins at `USER`.
const MEMORY_BYTES: u64 = 8 << 20;
const USER: u64 = 0x7f00_0000_0000;

pub(super) const DESCRIPTORS: u64 = 0x1000;
const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x3000;
/// Where headers, data and statuses are.
pub(super) const HEADER: u64 = 0x1_0000;
pub(super) const STATUS: u64 = 0x1_1000;
pub(super) const DATA: u64 = 0x10_0000;

/// The feature of disks that are flushed.
const FLUSHES: u32 = 9;

pub(super) const QUEUE_SIZE: u16 = 16;
pub(super) const NEXT: u16 = 1;
pub(super) const WRITABLE: u16 = 2;

pub(super) const READ: u32 = 0;
pub(super) const WRITE: u32 = 1;
pub(super) const FLUSH: u32 = 4;
pub(super) const GET_ID: u32 = 8;
pub(super) const DISCARD: u32 = 11;
pub(super) const WRITE_ZEROES: u32 = 13;

pub(super) struct Guest {
    pub(super) control: Frontend,
    pub(super) memory: GuestMemoryMmap,
    pub(super) file: File,
    kick: EventFd,
    call: EventFd,
    error: EventFd,
    available: u16,
    used: u16,
}

fn region(file: &File) -> VhostUserMemoryRegionInfo {
    VhostUserMemoryRegionInfo {
        guest_phys_addr: 0,
        memory_size: MEMORY_BYTES,
        userspace_addr: USER,
        mmap_offset: 0,
        mmap_handle: file.as_raw_fd(),
    }
}

/// Waits for an event. The server has made the counter non-blocking for both sides.
fn wait(event: &EventFd) {
    while let Err(error) = event.read() {
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        std::thread::yield_now();
    }
}

impl Guest {
    /// Connects and agrees on features.
    pub(super) fn connect(path: &Path) -> Self {
        let mut control = Frontend::connect(path, 64).unwrap();
        control.set_owner().unwrap();
        let features = control.get_features().unwrap();
        // Without counting by index, so that every answer is told.
        control.set_features(features & !(1 << 29)).unwrap();
        let known = control.get_protocol_features().unwrap();
        let wanted = VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD
            | VhostUserProtocolFeatures::REPLY_ACK;
        assert!(known.contains(wanted));
        control.set_protocol_features(wanted).unwrap();
        control.set_hdr_flags(vhost::vhost_user::message::VhostUserHeaderFlag::NEED_REPLY);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("guest", flags).unwrap());
        ftruncate(&file, MEMORY_BYTES).unwrap();
        let mapped = FileOffset::new(file.try_clone().unwrap(), 0);
        let length = usize::try_from(MEMORY_BYTES).unwrap();
        let mapped = MmapRegion::from_file(mapped, length).unwrap();
        let mapped = GuestRegionMmap::new(mapped, GuestAddress(0)).unwrap();
        let memory = GuestMemoryMmap::from_regions(vec![mapped]).unwrap();
        let event = || EventFd::new(0).unwrap();
        let (kick, call, error) = (event(), event(), event());
        Self { control, memory, file, kick, call, error, available: 0, used: 0 }
    }

    /// Agrees on features anew, without flushes.
    pub(super) fn do_without_flush(&self) {
        let features = self.control.get_features().unwrap();
        self.control.set_features(features & !(1 << 29) & !(1 << FLUSHES)).unwrap();
    }

    /// Connects, and starts queue 0 where a former server left it.
    pub(super) fn start(path: &Path) -> Self {
        let mut guest = Self::connect(path);
        guest.share();
        guest.start_queue(0);
        guest
    }

    pub(super) fn share(&self) {
        self.control.set_mem_table(&[region(&self.file)]).unwrap();
    }

    pub(super) fn start_queue(&mut self, base: u16) {
        let config = VringConfigData {
            queue_max_size: 1024,
            queue_size: QUEUE_SIZE,
            flags: 0,
            desc_table_addr: USER + DESCRIPTORS,
            avail_ring_addr: USER + AVAILABLE,
            used_ring_addr: USER + USED,
            log_addr: None,
        };
        self.control.set_vring_num(0, QUEUE_SIZE).unwrap();
        self.control.set_vring_base(0, base).unwrap();
        self.control.set_vring_addr(0, &config).unwrap();
        self.control.set_vring_call(0, &self.call).unwrap();
        self.control.set_vring_err(0, &self.error).unwrap();
        self.control.set_vring_kick(0, &self.kick).unwrap();
        self.control.set_vring_enable(0, true).unwrap();
    }

    pub(super) fn describe(&self, number: u16, at: u64, bytes: u32, flags: u16, next: u16) {
        let descriptor = RawDescriptor::from(Descriptor::new(at, bytes, flags, next));
        self.memory
            .write_obj(descriptor, GuestAddress(DESCRIPTORS + u64::from(number) * 16))
            .unwrap();
    }

    /// Makes the chain that starts with a descriptor available.
    pub(super) fn offer(&mut self, head: u16) {
        let place = AVAILABLE + 4 + u64::from(self.available % QUEUE_SIZE) * 2;
        self.memory.write_obj(head, GuestAddress(place)).unwrap();
        self.available = self.available.wrapping_add(1);
        self.jump_to(self.available);
    }

    /// So many chains were offered already, before this server.
    pub(super) fn claim(&mut self, index: u16) {
        self.available = index;
        self.memory.write_obj(index, GuestAddress(AVAILABLE + 2)).unwrap();
    }

    /// Claims that so many chains are available.
    pub(super) fn jump_to(&self, index: u16) {
        self.memory.write_obj(index, GuestAddress(AVAILABLE + 2)).unwrap();
        self.kick.write(1).unwrap();
    }

    /// Waits for an answer: its chain, and the number of bytes written.
    pub(super) fn answer(&mut self) -> (u32, u32) {
        while self.memory.read_obj::<u16>(GuestAddress(USED + 2)).unwrap() == self.used {
            wait(&self.call);
        }
        let place = GuestAddress(USED + 4 + u64::from(self.used % QUEUE_SIZE) * 8);
        self.used = self.used.wrapping_add(1);
        let next = place.0 + 4;
        (self.memory.read_obj(place).unwrap(), self.memory.read_obj(GuestAddress(next)).unwrap())
    }

    /// Forgets that it was told of answers.
    pub(super) fn forget_told(&self) {
        while self.call.read().is_ok() {}
    }

    /// Waits until it is told of answers.
    pub(super) fn told(&self) {
        wait(&self.call);
    }

    /// Waits until the queue is given up.
    pub(super) fn given_up(&self) {
        wait(&self.error);
    }

    pub(super) fn header(&self, kind: u32, sector: u64) {
        self.memory.write_obj(kind, GuestAddress(HEADER)).unwrap();
        self.memory.write_obj(sector, GuestAddress(HEADER + 8)).unwrap();
        self.memory.write_obj(0xAA_u8, GuestAddress(STATUS)).unwrap();
    }

    pub(super) fn status(&self) -> u8 {
        self.memory.read_obj(GuestAddress(STATUS)).unwrap()
    }

    /// A normal request with its data in one piece; returns the status and the other bytes written.
    pub(super) fn request(&mut self, kind: u32, sector: u64, bytes: u32, reads: bool) -> (u8, u32) {
        self.header(kind, sector);
        self.describe(0, HEADER, 16, NEXT, 1);
        let direction = if reads { WRITABLE } else { 0 };
        self.describe(1, DATA, bytes, NEXT | direction, 2);
        self.describe(2, STATUS, 1, WRITABLE, 0);
        self.offer(0);
        let (head, written) = self.answer();
        assert_eq!(head, 0);
        (self.status(), written)
    }

    pub(super) fn write(&mut self, sector: u64, data: &[u8]) -> u8 {
        self.memory.write_slice(data, GuestAddress(DATA)).unwrap();
        self.request(WRITE, sector, u32::try_from(data.len()).unwrap(), false).0
    }

    pub(super) fn read(&mut self, sector: u64, bytes: u32) -> Vec<u8> {
        let expected = (0, bytes + 1);
        assert_eq!(self.request(READ, sector, bytes, true), expected);
        let mut data = vec![0; bytes as usize];
        self.memory.read_slice(&mut data, GuestAddress(DATA)).unwrap();
        data
    }

    /// A discard or a write of zeros.
    pub(super) fn range(&mut self, kind: u32, sector: u64, sectors: u32, flags: u32) -> u8 {
        self.memory.write_obj(sector, GuestAddress(DATA)).unwrap();
        self.memory.write_obj(sectors, GuestAddress(DATA + 8)).unwrap();
        self.memory.write_obj(flags, GuestAddress(DATA + 12)).unwrap();
        self.request(kind, 0, 16, false).0
    }
}
