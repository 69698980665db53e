//! A drive, read block by block through media errors. A drive without metadata keeps it in frames
//! among its blocks (docs/format.md section 14).

mod frames;

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_zoned::{
    BlockCount, OobKind, Payload, Status, ZoneAddress, ZoneId, ZoneInfo, ZoneOffset, ZoneState,
    ZonedDevice, ZonedDeviceExt, is_zero,
};

use frames::Frames;

use crate::format::record::Record;

/// Zones that may hold superblock records.
const SUPERBLOCK_ZONES: usize = 4;

/// Blocks of each of them that are looked at.
const LOOKED_AT: u32 = 8;

/// One block with its metadata.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) data: Bytes,
    pub(crate) oob: Bytes,
    /// Its metadata is in the header of a frame, which may be written before the block.
    pub(crate) framed: bool,
}

/// A block, or the status of the failed read.
pub(crate) type ReadBlock = Result<Block, Status>;

/// Whether a block equals one that was never written, in a finished zone.
pub(crate) fn is_blank(block: &ReadBlock) -> bool {
    match block {
        Ok(block) => is_zero(&block.data) && is_zero(&block.oob),
        Err(status) => *status == Status::Deallocated,
    }
}

/// Whether a block may never have been written, in a finished zone. If a crash tore a frame, its
/// header has metadata for all its blocks.
pub(crate) fn may_be_unwritten(block: &ReadBlock) -> bool {
    let is_cut_off = |block: &Block| block.framed && is_zero(&block.data);
    is_blank(block) || block.as_ref().is_ok_and(is_cut_off)
}

/// A drive, and its zones as reported when it was opened.
pub(crate) struct Drive {
    device: Rc<dyn ZonedDevice>,
    /// Its position among the drives given.
    pub(crate) number: usize,
    zones: Vec<ZoneInfo>,
    /// The frames of a drive without metadata.
    frames: Option<Frames>,
}

impl Drive {
    pub(crate) async fn open(device: Rc<dyn ZonedDevice>, number: usize) -> Result<Self, Status> {
        let mut zones = device.report().await?;
        let frames = match device.geometry().oob {
            OobKind::None if !begins_zoned(&*device, &zones).await => {
                Some(Frames::find(&*device, &zones).await)
            }
            _ => None,
        };
        if let Some(frames) = frames {
            zones.iter_mut().for_each(|zone| *zone = frames.seen(*zone));
        }
        let mut drive = Self { device, number, zones, frames };
        for at in 0..drive.zones.len() {
            if drive.zones[at].state == ZoneState::ReadOnly {
                drive.zones[at].write_pointer = drive.written_of(drive.zones[at]).await;
            }
        }
        Ok(drive)
    }

    /// The write pointer of a read-only zone, which drives do not report (NVMe ZNS, zone state
    /// machine): the offset of the first blank block.
    async fn written_of(&self, zone: ZoneInfo) -> ZoneOffset {
        let (mut written, mut end) = (0, self.most(&zone));
        while written < end {
            let middle = written + (end - written) / 2;
            match is_blank(&self.read_one(zone.zone.0, middle).await) {
                true => end = middle,
                false => written = middle + 1,
            }
        }
        ZoneOffset(written)
    }

    /// Upper limit of the blocks of a zone: a drive may report nonsense.
    fn most(&self, zone: &ZoneInfo) -> u32 {
        let capacity = self.device.geometry().zone_capacity;
        let capacity = self.frames.map_or(capacity, |frames| frames.usable(capacity));
        zone.capacity.min(capacity).0
    }

    /// Blocks of the smallest write.
    pub(crate) fn unit(&self) -> u32 {
        self.frames.map_or(1, Frames::unit)
    }

    /// Readable zones, with their write pointers.
    pub(crate) fn readable_zones(&self) -> impl Iterator<Item = ZoneInfo> + '_ {
        let readable = self.zones.iter().filter(|zone| zone.state != ZoneState::Offline);
        readable.map(|zone| ZoneInfo {
            write_pointer: zone.write_pointer.min(ZoneOffset(self.most(zone))),
            ..*zone
        })
    }

    /// Whether no zone is offline.
    pub(crate) fn has_all_zones(&self) -> bool {
        self.zones.iter().all(|zone| zone.state != ZoneState::Offline)
    }

    /// Reads blocks of a zone, which must be below its write pointer.
    pub(crate) async fn read(&self, zone: u32, offset: u32, count: u32) -> Vec<ReadBlock> {
        if let Some(frames) = self.frames {
            return frames.read_all(&*self.device, zone, offset..offset + count).await;
        }
        let mut blocks = Vec::with_capacity(count as usize);
        let step = self.device.geometry().max_transfer.0.max(1);
        for first in (0..count).step_by(step as usize) {
            let at = ZoneAddress::new(ZoneId(zone), offset + first);
            let length = step.min(count - first);
            match self.device.read(at, BlockCount(length)).await {
                Ok(payload) => blocks.extend(split(&payload).map(Ok)),
                Err(_) => {
                    for block in 0..length {
                        blocks.push(self.read_one(at.zone.0, at.offset.0 + block).await);
                    }
                }
            }
        }
        blocks
    }

    pub(crate) async fn read_one(&self, zone: u32, offset: u32) -> Result<Block, Status> {
        if let Some(frames) = self.frames {
            return frames.read(&*self.device, zone, offset).await;
        }
        let payload =
            self.device.read(ZoneAddress::new(ZoneId(zone), offset), BlockCount(1)).await?;
        Ok(Block { data: payload.block(0), oob: payload.block_oob(0), framed: false })
    }
}

fn split(payload: &Payload) -> impl Iterator<Item = Block> + '_ {
    let block = |(at, data)| Block { data, oob: payload.block_oob(at), framed: false };
    payload.iter_blocks().enumerate().map(block)
}

/// Whether a drive without metadata is a member of a zoned volume, which has no frames: whether one
/// of the blocks where its superblock zones may begin is such a record.
async fn begins_zoned(device: &dyn ZonedDevice, zones: &[ZoneInfo]) -> bool {
    for info in zones.iter().filter(|info| info.state != ZoneState::Offline).take(SUPERBLOCK_ZONES)
    {
        let most = info.write_pointer.0.min(LOOKED_AT);
        for offset in 0..most {
            let at = ZoneAddress::new(info.zone, offset);
            let Ok(payload) = device.read(at, BlockCount(1)).await else { continue };
            if Record::parse(&payload.block(0), &[]).is_some() {
                return true;
            }
        }
    }
    false
}
