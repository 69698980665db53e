//! The served device: its description for hosts, and its requests.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_nvmf::{
    Done, Namespace, Operation, Status, TRANSFER_BYTES_MAX, Zones, deallocate_ranges,
};
use zoneweave_zoned::{BLOCK_BYTES, BlockDevice, BlockError, Lba, ZonedDevice};

use super::zoned;

/// A device to serve.
#[derive(Clone)]
pub enum NvmeTcpDevice {
    /// Blocks that can be written in any order.
    Blocks(Rc<dyn BlockDevice>),
    /// A zoned drive with Zone Append; the metadata of its blocks stays empty.
    Zones(Rc<dyn ZonedDevice>),
}

impl NvmeTcpDevice {
    /// The namespace that hosts see.
    pub(super) fn namespace(&self, uuid: [u8; 16], optimal_blocks: u16) -> Namespace {
        match self {
            Self::Blocks(device) => {
                let info = device.info();
                Namespace {
                    blocks: info.blocks,
                    read_only: info.read_only,
                    volatile_cache: info.volatile_cache,
                    uuid,
                    optimal_blocks,
                    zones: None,
                }
            }
            Self::Zones(device) => {
                let geometry = device.geometry();
                let transfer_blocks = u32::try_from(TRANSFER_BYTES_MAX / BLOCK_BYTES);
                let transfer_blocks = transfer_blocks.expect("a few hundred");
                // A limit that no host can reach is none.
                let limit = |zones: Option<u32>| zones.filter(|zones| *zones < geometry.zones);
                let size = u64::from(geometry.zone_size.0);
                let zones = Zones {
                    size,
                    max_open: limit(geometry.max_open),
                    max_active: limit(geometry.max_active),
                    append_blocks: geometry.append_limit.0.min(transfer_blocks),
                    reads_across: geometry.reads_across_zones,
                };
                Namespace {
                    blocks: size * u64::from(geometry.zones),
                    read_only: false,
                    volatile_cache: geometry.volatile_cache,
                    uuid,
                    optimal_blocks,
                    zones: Some(zones),
                }
            }
        }
    }

    pub(super) async fn flush(&self) -> Result<(), Status> {
        self.run(Operation::Flush, Bytes::new()).await.map(drop)
    }

    /// Runs an operation on the data of the host.
    pub(super) async fn run(&self, operation: Operation, data: Bytes) -> Result<Done, Status> {
        match self {
            Self::Blocks(device) => {
                run_blocks(&**device, operation, data).await.map_err(|error| status_of(&error))
            }
            Self::Zones(device) => {
                let outcome = zoned::run(&**device, operation, data).await;
                outcome.map_err(|status| Status::new(status.value()))
            }
        }
    }
}

async fn run_blocks(
    device: &dyn BlockDevice,
    operation: Operation,
    data: Bytes,
) -> Result<Done, BlockError> {
    match operation {
        Operation::Read { lba, blocks } => {
            return Ok(Done::Data(device.read(Lba(lba), blocks).await?));
        }
        Operation::Write { lba, fua, .. } => device.write(Lba(lba), vec![data], fua).await?,
        Operation::Flush => device.flush().await?,
        Operation::WriteZeroes { lba, blocks, fua } => {
            device.write_zeroes(Lba(lba), blocks.into(), fua).await?;
        }
        Operation::Deallocate { fua, .. } => {
            let capacity = device.info().blocks;
            let beyond = BlockError::OutOfRange { lba: Lba(0), blocks: 0, capacity };
            for (lba, blocks) in deallocate_ranges(&data, capacity).map_err(|_| beyond)? {
                device.trim(Lba(lba), blocks.into(), fua).await?;
            }
        }
        Operation::Append { .. } | Operation::ManageZone { .. } | Operation::ReportZones { .. } => {
            unreachable!("a namespace without zones has no such commands");
        }
    }
    Ok(Done::Plain)
}

fn status_of(error: &BlockError) -> Status {
    match error {
        BlockError::OutOfRange { .. } => Status::LBA_OUT_OF_RANGE,
        BlockError::Unrecoverable { .. } => Status::UNRECOVERED_READ,
        BlockError::ReadOnly { .. } => Status::WRITE_PROTECTED,
        BlockError::Device(status) => Status::new(status.value()),
        BlockError::ShuttingDown => Status::INTERNAL_PATH,
    }
}
