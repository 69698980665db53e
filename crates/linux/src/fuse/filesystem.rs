//! The file system of one file, as the kernel sees it. It runs in the thread that reads requests,
//! and answers only those that need no device.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyOpen, ReplyWrite,
    TimeOrNow, WriteFlags,
};
use rustix::process::{getegid, geteuid};
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount};

use super::mailbox::Mailbox;
use super::request::Request;

/// The kernel's largest read or write.
pub(super) const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// How long the kernel may cache the file's attributes, which never change.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Requests that the kernel may have under way without anybody waiting for each.
const BACKGROUND_MAX: u16 = 128;

/// The only file: the root of the mount.
pub(super) struct OneFile {
    mailbox: Arc<Mailbox>,
    attributes: FileAttr,
}

impl OneFile {
    pub(super) fn new(mailbox: Arc<Mailbox>, bytes: u64, read_only: bool) -> Self {
        let now = SystemTime::now();
        let attributes = FileAttr {
            ino: INodeNo::ROOT,
            size: bytes,
            blocks: bytes / 512,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind: FileType::RegularFile,
            perm: if read_only { 0o400 } else { 0o600 },
            nlink: 1,
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            rdev: 0,
            blksize: u32::try_from(BLOCK_BYTES).expect("4096"),
            flags: 0,
        };
        Self { mailbox, attributes }
    }

    /// The part of a range that is inside the file.
    fn clip(&self, offset: u64, length: u64) -> u64 {
        self.attributes.size.saturating_sub(offset).min(length)
    }
}

impl Filesystem for OneFile {
    fn init(&mut self, _: &fuser::Request, config: &mut KernelConfig) -> io::Result<()> {
        let refused = |nearest| io::Error::other(format!("the kernel wants {nearest:?}"));
        config.set_max_write(TRANSFER_BYTES_MAX).map_err(refused)?;
        config.set_max_background(BACKGROUND_MAX).map_err(|least| refused(u32::from(least)))?;
        // A feature that an older kernel lacks costs only time.
        for wanted in [
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_MAX_PAGES,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        Ok(())
    }

    fn destroy(&mut self) {
        self.mailbox.close();
    }

    fn getattr(&self, _: &fuser::Request, _: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&REMEMBERED, &self.attributes);
    }

    /// Attributes are fixed; only the size matters to callers.
    fn setattr(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if size.is_some_and(|size| size != self.attributes.size) {
            return reply.error(Errno::EPERM);
        }
        reply.attr(&REMEMBERED, &self.attributes);
    }

    fn open(&self, _: &fuser::Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        self.mailbox.opened();
        reply.opened(FileHandle(0), flags);
    }

    fn release(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.mailbox.released();
        reply.ok();
    }

    fn read(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let length = self.clip(offset, u64::from(size.min(TRANSFER_BYTES_MAX)));
        let length = u32::try_from(length).expect("no more than was asked for");
        if length == 0 {
            return reply.data(&[]);
        }
        let (end, file) = (offset + u64::from(length), self.attributes.size);
        assert!(end <= file, "a read up to {end} of a file of {file} bytes");
        self.mailbox.put(Request::Read { offset, length, reply });
    }

    fn write(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if data.is_empty() {
            return reply.written(0);
        }
        if self.clip(offset, data.len() as u64) < data.len() as u64 {
            return reply.error(Errno::ENOSPC);
        }
        let (end, file) = (offset + data.len() as u64, self.attributes.size);
        assert!(end <= file, "a write up to {end} of a file of {file} bytes");
        let blocks = u32::try_from(data.len().div_ceil(BLOCK_BYTES)).expect("at most 1 MiB");
        let mut buffer = AlignedBuffer::unfilled(BlockCount(blocks));
        buffer.as_mut()[..data.len()].copy_from_slice(data);
        let data = buffer.freeze().slice(..data.len());
        // With direct I/O the kernel sends no flush after O_DSYNC writes (O_SYNC has its bit).
        let fua = flags.0 & libc::O_DSYNC != 0;
        self.mailbox.put(Request::Write { offset, data, fua, reply });
    }

    fn flush(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        self.mailbox.put(Request::Flush { reply });
    }

    fn fsync(&self, _: &fuser::Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.mailbox.put(Request::Flush { reply });
    }

    fn fallocate(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let inside = self.clip(offset, length);
        let keeps = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        match mode & !libc::FALLOC_FL_KEEP_SIZE {
            libc::FALLOC_FL_PUNCH_HOLE => {
                self.mailbox.put(Request::Punch { offset, length: inside, reply });
            }
            // The file does not grow.
            _ if inside < length && !keeps => reply.error(Errno::ENOSPC),
            libc::FALLOC_FL_ZERO_RANGE => {
                self.mailbox.put(Request::Zero { offset, length: inside, reply });
            }
            // Every block of the device is allocated already.
            0 => reply.ok(),
            _ => reply.error(Errno::EOPNOTSUPP),
        }
    }
}
