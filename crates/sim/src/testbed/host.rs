//! The host's time for commands of a volume, spent by one thread.
//!
//! In virtual time computing is free. So experiments with a volume charge each drive command with
//! the time of a polling driver, on one thread for all drives: 0.5 us per submission and 0.45 us
//! per completion. These are the values of the measurements that the drives' timing was fitted to
//! ([`Host::SPDK`]). A start also processes the blocks it reads, at a cost that depends on their
//! kind ([`Looks`]).

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_raid::log::format::{BlockIdentity, BlockType, ContentKind, Envelope, Oob, Place};
use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{
    BLOCK_BYTES, BlockDevice, BlockDeviceInfo, BlockFuture, Command, Completion, Extent, Geometry,
    Lba, Outcome, Reply, ZonedDevice, completion,
};

use crate::workload::Host;

/// One thread of the host.
pub(crate) struct Thread {
    handle: Handle,
    host: Host,
    /// End of the work accepted so far.
    free: Cell<Nanos>,
    /// Total working time.
    busy: Cell<Nanos>,
}

impl Thread {
    pub(crate) fn new(handle: &Handle, host: Host) -> Rc<Self> {
        Rc::new(Self { handle: handle.clone(), host, free: Cell::default(), busy: Cell::default() })
    }

    /// Adds work after the accepted work; returns its end.
    fn work(&self, time: Nanos) -> Nanos {
        let done = self.free.get().max(self.handle.now()) + time;
        self.free.set(done);
        self.busy.set(self.busy.get() + time);
        done
    }

    /// Total working time.
    pub(crate) fn busy(&self) -> Nanos {
        self.busy.get()
    }
}

/// Processor time per block read, by its kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looks {
    /// A page of the index, with all its entries.
    pub(crate) page: Nanos,
    /// A directory of pages.
    pub(crate) directory: Nanos,
    /// A block of a list, with all its entries.
    pub(crate) list: Nanos,
    /// A chunk's block.
    pub(crate) chunk: Nanos,
    /// A header or a superblock record.
    pub(crate) other: Nanos,
}

impl Looks {
    /// Computing is free.
    pub(crate) const FREE: Self = Self {
        page: Nanos::ZERO,
        directory: Nanos::ZERO,
        list: Nanos::ZERO,
        chunk: Nanos::ZERO,
        other: Nanos::ZERO,
    };

    fn at(&self, outcome: &Outcome) -> Nanos {
        let Ok(Reply::Read(payload)) = outcome else { return Nanos::ZERO };
        let oobs: Vec<_> =
            (0..payload.blocks().0 as usize).map(|at| Oob::parse(&payload.block_oob(at))).collect();
        // With parity in between, the blocks are read for other purposes than the index.
        let of_index = oobs.iter().all(|oob| oob.as_ref().is_some_and(is_of_index));
        let looked_at = |(at, oob): (usize, &Option<Oob>)| match oob {
            None => self.other,
            Some(oob) => match oob.place {
                Place::Index => self.list,
                Place::Chunk if of_index => {
                    let is_page = Envelope::open(&payload.block(at), BlockType::Mapping).is_ok();
                    if is_page { self.page } else { self.directory }
                }
                Place::Chunk => self.chunk,
                _ => self.other,
            },
        };
        oobs.iter().enumerate().map(looked_at).fold(Nanos::ZERO, |all, one| all + one)
    }
}

/// Whether a chunk's block belongs to an index checkpoint.
fn is_of_index(oob: &Oob) -> bool {
    let identity = BlockIdentity::decode(&oob.coded);
    oob.place == Place::Chunk
        && identity.is_some_and(|identity| identity.kind == ContentKind::Mapping)
}

/// A drive whose commands are charged to a thread.
pub(crate) struct Charged {
    thread: Rc<Thread>,
    drive: Rc<dyn ZonedDevice>,
    looks: Looks,
}

impl Charged {
    pub(crate) fn new(thread: &Rc<Thread>, drive: Rc<dyn ZonedDevice>, looks: Looks) -> Rc<Self> {
        Rc::new(Self { thread: thread.clone(), drive, looks })
    }
}

impl ZonedDevice for Charged {
    fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }

    fn submit(&self, command: Command) -> Completion {
        let (responder, answer) = completion();
        let (thread, drive, looks) = (self.thread.clone(), self.drive.clone(), self.looks);
        // Charged now, so that the thread works in the order of requests.
        let submitted = thread.work(thread.host.submission);
        self.thread.handle.spawn("host", async move {
            thread.handle.sleep_until(submitted).await;
            let outcome = drive.submit(command).await;
            let completed = thread.work(thread.host.submission_gap + looks.at(&outcome));
            thread.handle.sleep_until(completed).await;
            responder.complete(outcome);
        });
        answer
    }
}

/// A volume whose writes are charged to a thread: the engine's whole time for a block.
pub(crate) struct ChargedWrites {
    pub(crate) thread: Rc<Thread>,
    pub(crate) volume: Rc<dyn BlockDevice>,
    pub(crate) each: Nanos,
}

impl BlockDevice for ChargedWrites {
    fn info(&self) -> BlockDeviceInfo {
        self.volume.info()
    }

    fn read(&self, lba: Lba, blocks: u32) -> BlockFuture<Vec<Bytes>> {
        self.volume.read(lba, blocks)
    }

    fn write(&self, lba: Lba, data: Vec<Bytes>, fua: bool) -> BlockFuture<()> {
        let blocks = data.iter().map(Bytes::len).sum::<usize>() / BLOCK_BYTES;
        let done = self.thread.work(Nanos(self.each.0 * blocks as u64));
        let (thread, volume) = (self.thread.clone(), self.volume.clone());
        Box::pin(async move {
            thread.handle.sleep_until(done).await;
            volume.write(lba, data, fua).await
        })
    }

    fn write_zeroes(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()> {
        self.volume.write_zeroes(lba, blocks, fua)
    }

    fn trim(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()> {
        self.volume.trim(lba, blocks, fua)
    }

    fn flush(&self) -> BlockFuture<()> {
        self.volume.flush()
    }

    fn extents(&self, lba: Lba, blocks: u64, limit: usize) -> BlockFuture<Vec<Extent>> {
        self.volume.extents(lba, blocks, limit)
    }
}
