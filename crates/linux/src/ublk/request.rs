//! The data of a request, and the trait of disks.

use std::future::Future;
use std::io::{IoSlice, IoSliceMut};
use std::pin::Pin;

use bytes::Bytes;
use rustix::io::Errno;
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount, BlockError, Status};

use super::abi::{IoDescriptor, data_position};
use crate::ring::Descriptor;
use crate::sys::blkzoned::BLOCK_SECTORS;

/// The kernel takes no more pieces in one call (`UIO_MAXIOV`).
const PIECES_MAX: usize = 1024;

/// The largest read or write, in sectors: 512 KiB.
pub(super) const SECTORS_MAX: u32 = 1024;

/// Blocks are this power of two.
pub(super) const BLOCK_SHIFT: u8 = 12;
const _: () = assert!(1 << BLOCK_SHIFT == BLOCK_BYTES);

/// The outcome of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Bytes read or written.
    pub(super) bytes: u32,
    /// Where an append went.
    pub(super) append_sector: u64,
}

/// The future of a request.
pub(super) type Answering = Pin<Box<dyn Future<Output = Result<Answer, Errno>>>>;

/// A served disk: starts requests in the order of the calls.
pub(super) trait Disk {
    fn take_up(&self, request: IoDescriptor, data: Data) -> Answering;
}

/// The data of a request, which stays in the kernel until it is copied.
///
/// It is copied by system calls of the thread that runs the engine: they move memory and wait for
/// nothing, and in a worker of the kernel they would take longer.
pub(super) struct Data {
    device: Descriptor,
    tag: u16,
    /// The most that a request of this device may have.
    bytes_max: u32,
}

impl Data {
    pub(super) fn new(device: &Descriptor, tag: u16, bytes_max: u32) -> Self {
        Self { device: device.clone(), tag, bytes_max }
    }

    /// The range of a request that has data, in blocks.
    pub(super) fn range(&self, request: &IoDescriptor) -> Result<(u64, u32), Errno> {
        let (start, blocks) = blocks_of(request)?;
        let blocks = u32::try_from(blocks).map_err(|_| Errno::INVAL)?;
        let bytes = u64::from(blocks) * BLOCK_BYTES as u64;
        if blocks == 0 || bytes > u64::from(self.bytes_max) {
            return Err(Errno::INVAL);
        }
        Ok((start, blocks))
    }

    /// Copies the data of a write from the kernel.
    pub(super) fn take(&self, blocks: u32) -> Result<Bytes, Errno> {
        let mut buffer = AlignedBuffer::unfilled(BlockCount(blocks));
        let (mut done, length) = (0, buffer.as_ref().len());
        while done < length {
            let into = &mut [IoSliceMut::new(&mut buffer.as_mut()[done..])];
            let position = data_position(self.tag) + done as u64;
            match rustix::io::preadv(&self.device, into, position) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(buffer.freeze())
    }

    /// Copies the data of a read to the kernel.
    pub(super) fn give(&self, pieces: &[Bytes]) -> Result<(), Errno> {
        let length: usize = pieces.iter().map(Bytes::len).sum();
        if length as u64 > u64::from(self.bytes_max) {
            return Err(Errno::INVAL);
        }
        let mut slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut rest = &mut slices[..];
        let mut done = 0;
        while done < length {
            let now = rest.len().min(PIECES_MAX);
            let position = data_position(self.tag) + done as u64;
            match rustix::io::pwritev(&self.device, &rest[..now], position) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => {
                    done += count;
                    IoSlice::advance_slices(&mut rest, count);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The range of a request, in blocks.
pub(super) fn blocks_of(request: &IoDescriptor) -> Result<(u64, u64), Errno> {
    let (start, sectors) = (request.start_sector, u64::from(request.sectors));
    if !start.is_multiple_of(BLOCK_SECTORS) || !sectors.is_multiple_of(BLOCK_SECTORS) {
        return Err(Errno::INVAL);
    }
    Ok((start / BLOCK_SECTORS, sectors / BLOCK_SECTORS))
}

/// The answer for a number of blocks done.
pub(super) fn done(blocks: u32) -> Answer {
    let bytes = BlockCount(blocks).data_bytes();
    Answer { bytes: u32::try_from(bytes).expect("at most 32 MiB"), append_sector: 0 }
}

/// The kernel's error code for a status: the block layer distinguishes few.
pub(super) fn errno(error: &BlockError) -> Errno {
    match error {
        BlockError::OutOfRange { .. } => Errno::INVAL,
        // The kernel's code for a medium error: a retry is of no use.
        BlockError::Unrecoverable { .. } => Errno::NODATA,
        BlockError::Device(status) => errno_of(*status),
        BlockError::ReadOnly { .. } | BlockError::ShuttingDown => Errno::IO,
    }
}

/// The same for a drive's answer.
pub(super) fn errno_of(status: Status) -> Errno {
    match status {
        Status::CapacityExceeded => Errno::NOSPC,
        Status::UnrecoveredRead | Status::Deallocated => Errno::NODATA,
        Status::TooManyOpen => Errno::TOOMANYREFS,
        Status::TooManyActive => Errno::OVERFLOW,
        _ => Errno::IO,
    }
}
