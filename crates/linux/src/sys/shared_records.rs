//! Records in memory that a driver writes and this process reads.

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use zerocopy::FromBytes;

/// A table of records that a driver fills in, mapped for reading.
pub(crate) struct SharedRecords<T> {
    start: NonNull<T>,
    count: usize,
    /// The kernel rounds it up to whole pages.
    mapped_bytes: usize,
}

impl<T: FromBytes + Copy> SharedRecords<T> {
    /// Maps `count` records at the start of a device's memory.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn map(device: impl AsFd, count: usize) -> io::Result<Self> {
        let mapped_bytes = count * size_of::<T>();
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses an address that nothing else is at, and the mapping is used
        // through this structure alone, which ends it.
        let start =
            unsafe { mmap(std::ptr::null_mut(), mapped_bytes, ProtFlags::READ, flags, device, 0)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { start, count, mapped_bytes })
    }

    /// The contents of a record. The driver may be changing it: then fields may be inconsistent.
    ///
    /// # Panics
    /// If there is no such record.
    pub(crate) fn read(&self, index: usize) -> T {
        assert!(index < self.count, "record {index} of {}", self.count);
        // SAFETY: the record lies inside the mapping, which starts at a page boundary and lasts as
        // long as `self`. Any bytes are a value of `T`, and this process never writes them.
        unsafe { self.start.add(index).read_volatile() }
    }
}

impl<T> Drop for SharedRecords<T> {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made by `map`, and no reference into it was given away.
        let ended = unsafe { munmap(self.start.as_ptr().cast(), self.mapped_bytes) };
        assert!(ended.is_ok(), "a mapping of ours ends");
    }
}
