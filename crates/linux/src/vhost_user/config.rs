//! Features and the configuration space of a virtio disk (VIRTIO 1.2, section 5.2).

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{Immutable, IntoBytes};
use zoneweave_zoned::{BLOCK_BYTES, BlockDeviceInfo};

/// Bytes of a sector, in which virtio counts.
pub(super) const SECTOR_BYTES: u64 = 512;
const BLOCK_SECTORS: u64 = BLOCK_BYTES as u64 / SECTOR_BYTES;

/// Queues that a virtual machine may use. An unused queue costs nothing.
pub const QUEUES_MAX: u16 = 64;
/// Entries of a queue.
pub(super) const QUEUE_SIZE_MAX: u16 = 1024;

/// Pieces of data that a request may have.
pub(super) const SEGMENTS_MAX: u32 = 126;

/// Ranges in one discard or one write of zeros.
pub(super) const RANGES_MAX: u32 = 16;
/// The largest range of a discard: 1 GiB, so that none takes long.
pub(super) const RANGE_SECTORS_MAX: u32 = 1 << 21;

const FEATURE_SEGMENTS_MAX: u64 = 1 << 2;
const FEATURE_READ_ONLY: u64 = 1 << 5;
const FEATURE_BLOCK_SIZE: u64 = 1 << 6;
pub(super) const FEATURE_FLUSH: u64 = 1 << 9;
const FEATURE_TOPOLOGY: u64 = 1 << 10;
const FEATURE_QUEUES: u64 = 1 << 12;
const FEATURE_DISCARD: u64 = 1 << 13;
const FEATURE_WRITE_ZEROES: u64 = 1 << 14;
const FEATURE_INDIRECT: u64 = 1 << 28;
pub(super) const FEATURE_EVENT_INDEX: u64 = 1 << 29;
const FEATURE_VERSION_1: u64 = 1 << 32;

/// The disk's features. A volatile cache is always reported: without one, a flush is harmless.
pub(super) fn features(info: &BlockDeviceInfo) -> u64 {
    let always = FEATURE_SEGMENTS_MAX
        | FEATURE_BLOCK_SIZE
        | FEATURE_FLUSH
        | FEATURE_TOPOLOGY
        | FEATURE_QUEUES
        | FEATURE_INDIRECT
        | FEATURE_EVENT_INDEX
        | FEATURE_VERSION_1;
    let more =
        if info.read_only { FEATURE_READ_ONLY } else { FEATURE_DISCARD | FEATURE_WRITE_ZEROES };
    always | more
}

/// The configuration space.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Layout {
    capacity_sectors: U64,
    segment_bytes_max: U32,
    segments_max: U32,
    /// Cylinders, heads and sectors, which guests ignore.
    geometry: U32,
    block_bytes: U32,
    physical_block_shift: u8,
    alignment_offset: u8,
    least_io_blocks: U16,
    optimal_io_blocks: U32,
    write_back: u8,
    unused: u8,
    queues: U16,
    discard_sectors_max: U32,
    discard_ranges_max: U32,
    discard_alignment_sectors: U32,
    zeroes_sectors_max: U32,
    zeroes_ranges_max: U32,
    zeroes_may_unmap: u8,
    unused2: [u8; 3],
}

const _: () = assert!(size_of::<Layout>() == 60);

/// The largest configuration space of the protocol. Bytes behind the structure are zero.
pub(super) const SPACE_BYTES: usize = 256;

/// The configuration space of a device.
pub(super) fn space(info: &BlockDeviceInfo, optimal_bytes: u64) -> [u8; SPACE_BYTES] {
    let optimal = u32::try_from(optimal_bytes / BLOCK_BYTES as u64).unwrap_or(0);
    let ranges = if info.read_only { 0 } else { RANGES_MAX };
    let range_sectors = if info.read_only { 0 } else { RANGE_SECTORS_MAX };
    let alignment = u32::try_from(BLOCK_SECTORS).expect("eight");
    let layout = Layout {
        capacity_sectors: U64::new(info.blocks * BLOCK_SECTORS),
        segment_bytes_max: U32::ZERO,
        // A request has a header and a status besides, and the smallest usual queue has 128
        // entries.
        segments_max: U32::new(SEGMENTS_MAX),
        geometry: U32::ZERO,
        block_bytes: U32::new(u32::try_from(BLOCK_BYTES).expect("4096")),
        physical_block_shift: 0,
        alignment_offset: 0,
        least_io_blocks: U16::new(1),
        optimal_io_blocks: U32::new(optimal),
        write_back: 1,
        unused: 0,
        queues: U16::new(QUEUES_MAX),
        discard_sectors_max: U32::new(range_sectors),
        discard_ranges_max: U32::new(ranges),
        discard_alignment_sectors: U32::new(alignment),
        zeroes_sectors_max: U32::new(range_sectors),
        zeroes_ranges_max: U32::new(ranges),
        zeroes_may_unmap: u8::from(!info.read_only),
        unused2: [0; 3],
    };
    let mut bytes = [0; SPACE_BYTES];
    bytes[..size_of::<Layout>()].copy_from_slice(layout.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_is_told_what_the_volume_is() {
        let info = BlockDeviceInfo { blocks: 1000, volatile_cache: false, read_only: false };
        let told = space(&info, 48 << 10);
        assert_eq!(told[..8], 8000_u64.to_le_bytes());
        assert_eq!(told[12..16], 126_u32.to_le_bytes());
        assert_eq!(told[20..24], 4096_u32.to_le_bytes());
        assert_eq!(told[28..32], 12_u32.to_le_bytes());
        assert_eq!(told[34..36], 64_u16.to_le_bytes());
        assert_eq!(told[36..40], (1_u32 << 21).to_le_bytes());
        assert_eq!((told[56], &told[60..64]), (1, &[0; 4][..]));
        assert_ne!(features(&info) & FEATURE_FLUSH, 0);
        let read_only = features(&BlockDeviceInfo { read_only: true, ..info });
        assert_eq!(read_only & (FEATURE_DISCARD | FEATURE_READ_ONLY), FEATURE_READ_ONLY);
    }
}
