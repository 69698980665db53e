//! One request, carried out by the engine's thread and answered from there.

use bytes::Bytes;
use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use zoneweave_zoned::{BLOCK_BYTES, BlockError, ByteDevice, Status};

/// A request and its reply. A request that is dropped is answered with an error.
pub(super) enum Request {
    Read { offset: u64, length: u32, reply: ReplyData },
    Write { offset: u64, data: Bytes, fua: bool, reply: ReplyWrite },
    Flush { reply: ReplyEmpty },
    Punch { offset: u64, length: u64, reply: ReplyEmpty },
    Zero { offset: u64, length: u64, reply: ReplyEmpty },
}

impl Request {
    pub(super) fn data_bytes(&self) -> u64 {
        match self {
            Self::Read { length, .. } => u64::from(*length),
            Self::Write { data, .. } => data.len() as u64,
            Self::Flush { .. } | Self::Punch { .. } | Self::Zero { .. } => 0,
        }
    }

    /// Carries the request out and answers it; returns whether it failed.
    pub(super) async fn serve(self, device: &ByteDevice) -> bool {
        match self {
            Self::Read { offset, length, reply } => match device.read(offset, length).await {
                Ok(pieces) => {
                    match pieces.as_slice() {
                        [whole] => reply.data(whole),
                        // The library takes but one slice.
                        pieces => reply.data(&pieces.concat()),
                    }
                    false
                }
                Err(error) => {
                    reply.error(errno(&error));
                    true
                }
            },
            Self::Write { offset, data, fua, reply } => {
                let length = u32::try_from(data.len()).expect("at most 1 MiB");
                match device.write(offset, vec![data], fua).await {
                    Ok(()) => reply.written(length),
                    Err(ref error) => {
                        reply.error(errno(error));
                        return true;
                    }
                }
                false
            }
            Self::Flush { reply } => end(reply, device.flush().await),
            Self::Punch { offset, length, reply } => {
                end(reply, punch(device, offset, length).await)
            }
            Self::Zero { offset, length, reply } => {
                end(reply, device.write_zeroes(offset, length, false).await)
            }
        }
    }
}

fn end(reply: ReplyEmpty, outcome: Result<(), BlockError>) -> bool {
    match &outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
    outcome.is_err()
}

/// Whole blocks are given up; parts of blocks, which stay, become zero.
async fn punch(device: &ByteDevice, offset: u64, length: u64) -> Result<(), BlockError> {
    let block = BLOCK_BYTES as u64;
    let end = offset + length;
    let first = offset.next_multiple_of(block).min(end);
    let last = (end / block * block).max(first);
    device.trim(first, last - first, false).await?;
    device.write_zeroes(offset, first - offset, false).await?;
    device.write_zeroes(last, end - last, false).await
}

fn errno(error: &BlockError) -> Errno {
    match error {
        BlockError::OutOfRange { .. } => Errno::EINVAL,
        BlockError::Device(Status::CapacityExceeded) => Errno::ENOSPC,
        BlockError::ReadOnly { .. } => Errno::EROFS,
        BlockError::Unrecoverable { .. } | BlockError::Device(_) | BlockError::ShuttingDown => {
            Errno::EIO
        }
    }
}
