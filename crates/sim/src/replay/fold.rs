//! Mapping of requests of any device to a volume of another size.
//!
//! Addresses wrap at the volume's end. Each device starts at a different offset, so that hot blocks
//! of different devices do not coincide. A request becomes the blocks that it touches. A request
//! that would cross the end is moved back, so that it stays one request.

use zoneweave_zoned::{BLOCK_BYTES, Lba};

use super::{REQUEST_BYTES_MAX, TraceRequest};

/// Blocks of the largest request, which may begin within a block.
pub(super) const REQUEST_BLOCKS_MAX: u32 = 8193;

const _: () = assert!(REQUEST_BLOCKS_MAX as u64 == REQUEST_BYTES_MAX / BLOCK_BYTES as u64 + 1);

/// The first block and the length of a request on a volume of so many blocks.
pub(super) fn fold(request: &TraceRequest, volume_blocks: u64) -> (Lba, u32) {
    assert!(volume_blocks > 0, "a volume has blocks");
    let block = BLOCK_BYTES as u64;
    let first = request.offset_bytes / block;
    let last = (request.offset_bytes + (request.bytes - 1)) / block;
    let blocks = (last - first + 1).min(volume_blocks);
    let place = (u128::from(first) + u128::from(request.device)) % u128::from(volume_blocks);
    let place = u64::try_from(place).expect("it is below the volume's size");
    let place = place.min(volume_blocks - blocks);
    (Lba(place), u32::try_from(blocks).expect("a request is at most so large"))
}
