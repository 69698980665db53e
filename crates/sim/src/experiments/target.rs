//! Common interface of the two kinds of drives: ranges that are written front to back.
//!
//! On the zoned drive a range is a zone. On the conventional drive it has the size of a zone, and a
//! trim takes the place of a reset.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_zoned::{
    BlockCount, BlockDevice, BlockFuture, Command, Completion, Lba, Payload, ZoneAction,
    ZoneAddress, ZoneId, ZonedDevice,
};

use crate::workload::WorkloadError;

/// A drive divided into ranges.
#[derive(Clone)]
pub(super) enum Target {
    Zoned(Rc<dyn ZonedDevice>),
    Block { device: Rc<dyn BlockDevice>, range_blocks: u64 },
}

impl Target {
    pub(super) fn range_blocks(&self) -> u64 {
        match self {
            Self::Zoned(device) => u64::from(device.geometry().zone_capacity.0),
            Self::Block { range_blocks, .. } => *range_blocks,
        }
    }

    /// Whole ranges of the drive.
    pub(super) fn ranges(&self) -> u64 {
        match self {
            Self::Zoned(device) => u64::from(device.geometry().zones),
            Self::Block { device, range_blocks } => device.info().blocks / range_blocks,
        }
    }

    /// Resets or trims a range.
    pub(super) fn clear(&self, range: u64) -> Reply {
        match self {
            Self::Zoned(device) => {
                let zone = zone(range);
                let action = ZoneAction::Reset;
                Reply::zoned(device.submit(Command::Manage { zone, action }), "a reset", zone)
            }
            Self::Block { device, range_blocks } => {
                Reply(Answer::Changed(device.trim(Lba(range * range_blocks), *range_blocks, false)))
            }
        }
    }

    /// Writes the next blocks of a range; the caller knows the write position.
    pub(super) fn write(&self, range: u64, offset: u64, data: Bytes) -> Reply {
        match self {
            Self::Zoned(device) => {
                let (at, payload) = (address(range, offset), Payload::new(data, Bytes::new()));
                let answer = device.submit(Command::Write { at, payload, fua: false });
                Reply::zoned(answer, "a write", at.zone)
            }
            Self::Block { device, range_blocks } => {
                let lba = Lba(range * range_blocks + offset);
                Reply(Answer::Changed(device.write(lba, vec![data], false)))
            }
        }
    }

    /// Reads a block of a range.
    pub(super) fn read(&self, range: u64, offset: u64) -> Reply {
        match self {
            Self::Zoned(device) => {
                let at = address(range, offset);
                let answer = device.submit(Command::Read { at, blocks: BlockCount(1) });
                Reply::zoned(answer, "a read", at.zone)
            }
            Self::Block { device, range_blocks } => {
                Reply(Answer::Read(device.read(Lba(range * range_blocks + offset), 1)))
            }
        }
    }
}

/// A command in flight.
pub(super) struct Reply(Answer);

enum Answer {
    Zoned { answer: Completion, operation: &'static str, zone: ZoneId },
    Changed(BlockFuture<()>),
    Read(BlockFuture<Vec<Bytes>>),
}

impl Reply {
    fn zoned(answer: Completion, operation: &'static str, zone: ZoneId) -> Self {
        Self(Answer::Zoned { answer, operation, zone })
    }

    pub(super) async fn done(self) -> Result<(), WorkloadError> {
        match self.0 {
            Answer::Zoned { answer, operation, zone } => {
                let failed = |status| WorkloadError::Drive { operation, zone, status };
                answer.await.map(drop).map_err(failed)
            }
            Answer::Changed(answer) => Ok(answer.await?),
            Answer::Read(answer) => Ok(answer.await.map(drop)?),
        }
    }
}

fn zone(range: u64) -> ZoneId {
    ZoneId(u32::try_from(range).expect("zones are counted in 32 bits"))
}

fn address(range: u64, offset: u64) -> ZoneAddress {
    ZoneAddress::new(zone(range), u32::try_from(offset).expect("zones are counted in 32 bits"))
}
