//! A block volume as a disk.

use std::rc::Rc;

use rustix::io::Errno;
use zoneweave_zoned::{BLOCK_BYTES, BlockDevice, BlockError, Lba};

use super::abi::{
    ATTRIBUTE_FUA, ATTRIBUTE_READ_ONLY, ATTRIBUTE_VOLATILE_CACHE, BasicParameters,
    DiscardParameters, IoDescriptor, Operation, PARAMETERS_BASIC, PARAMETERS_DISCARD, Parameters,
};
use super::request::{
    Answer, Answering, BLOCK_SHIFT, Data, Disk, SECTORS_MAX, blocks_of, done, errno,
};
use crate::sys::blkzoned::BLOCK_SECTORS;

/// The largest discard or write of zeros: 1 GiB, so that none takes long.
const RANGE_SECTORS_MAX: u32 = 1 << 21;

/// Serves a block device.
pub(super) struct BlockDisk {
    pub(super) device: Rc<dyn BlockDevice>,
}

impl BlockDisk {
    /// The disk's parameters for the driver.
    pub(super) fn parameters(&self, optimal_bytes: u64) -> Parameters {
        let info = self.device.info();
        let mut attributes = 0;
        if info.read_only {
            attributes |= ATTRIBUTE_READ_ONLY;
        }
        if info.volatile_cache {
            attributes |= ATTRIBUTE_VOLATILE_CACHE | ATTRIBUTE_FUA;
        }
        let basic = BasicParameters {
            attributes,
            logical_block_shift: BLOCK_SHIFT,
            physical_block_shift: BLOCK_SHIFT,
            optimal_io_shift: shift_of(optimal_bytes),
            least_io_shift: BLOCK_SHIFT,
            sectors_max: SECTORS_MAX,
            chunk_sectors: 0,
            device_sectors: info.blocks * BLOCK_SECTORS,
            virtual_boundary_mask: 0,
        };
        let discard = DiscardParameters {
            alignment: 0,
            granularity: 1 << BLOCK_SHIFT,
            discard_sectors_max: RANGE_SECTORS_MAX,
            zeroes_sectors_max: RANGE_SECTORS_MAX,
            segments_max: 1,
            reserved: 0,
        };
        let types = PARAMETERS_BASIC | PARAMETERS_DISCARD;
        Parameters { types, basic, discard, ..Parameters::default() }
    }
}

/// The kernel takes powers of two only: the largest that is no more than this.
fn shift_of(bytes: u64) -> u8 {
    let shift = bytes.max(BLOCK_BYTES as u64).ilog2();
    u8::try_from(shift).expect("below 64")
}

impl Disk for BlockDisk {
    fn take_up(&self, request: IoDescriptor, data: Data) -> Answering {
        let device = self.device.clone();
        Box::pin(async move { answer(&*device, request, data).await })
    }
}

/// The range of a request without data, inside the device.
fn range(device: &dyn BlockDevice, request: &IoDescriptor) -> Result<(u64, u64), Errno> {
    let (start, blocks) = blocks_of(request)?;
    let end = start.checked_add(blocks).filter(|end| *end <= device.info().blocks);
    if end.is_none() || blocks == 0 { Err(Errno::INVAL) } else { Ok((start, blocks)) }
}

async fn answer(
    device: &dyn BlockDevice,
    request: IoDescriptor,
    data: Data,
) -> Result<Answer, Errno> {
    let told = |error: BlockError| errno(&error);
    let fua = request.is_fua();
    match request.operation().ok_or(Errno::OPNOTSUPP)? {
        Operation::Read => {
            let (start, blocks) = data.range(&request)?;
            let pieces = device.read(Lba(start), blocks).await.map_err(told)?;
            data.give(&pieces)?;
            Ok(done(blocks))
        }
        Operation::Write => {
            let (start, blocks) = data.range(&request)?;
            let written = vec![data.take(blocks)?];
            device.write(Lba(start), written, fua).await.map_err(told)?;
            Ok(done(blocks))
        }
        Operation::Flush => {
            device.flush().await.map_err(told)?;
            Ok(Answer::default())
        }
        Operation::Discard => {
            let (start, blocks) = range(device, &request)?;
            device.trim(Lba(start), blocks, fua).await.map_err(told)?;
            Ok(Answer::default())
        }
        Operation::WriteZeroes => {
            let (start, blocks) = range(device, &request)?;
            device.write_zeroes(Lba(start), blocks, fua).await.map_err(told)?;
            Ok(Answer::default())
        }
        _ => Err(Errno::OPNOTSUPP),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_device::MemoryDevice;

    #[test]
    fn the_kernel_is_told_what_the_volume_is() {
        let disk = BlockDisk { device: MemoryDevice::new(1000) };
        let told = disk.parameters(48 << 10);
        assert_eq!(told.basic.device_sectors, 8000);
        assert_eq!(told.basic.attributes, ATTRIBUTE_VOLATILE_CACHE | ATTRIBUTE_FUA);
        assert_eq!((told.basic.optimal_io_shift, told.basic.logical_block_shift), (15, 12));
        assert_eq!(disk.parameters(0).basic.optimal_io_shift, 12);
    }

    #[test]
    fn ranges_are_whole_blocks_of_the_volume() {
        let device = MemoryDevice::new(1000);
        let asked = |start_sector, sectors| {
            range(&*device, &IoDescriptor { start_sector, sectors, ..IoDescriptor::default() })
        };
        assert_eq!(asked(16, 7984), Ok((2, 998)));
        for (start, sectors) in [(16, 7992), (4, 8), (8, 4), (8, 0), (u64::MAX - 7, 8)] {
            assert_eq!(asked(start, sectors), Err(Errno::INVAL), "{start} {sectors}");
        }
    }
}
