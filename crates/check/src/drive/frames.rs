//! The frames of drives without metadata: docs/format.md section 14.

use bytes::Bytes;
use zoneweave_zoned::{
    BlockCount, Status, ZoneAddress, ZoneId, ZoneInfo, ZoneOffset, ZonedDevice, ZonedDeviceExt,
    is_zero,
};

use crate::drive::Block;
use crate::format::fields::Fields;

const MAGIC: [u8; 8] = *b"ZNFRAME\0";
const VERSION: u16 = 1;
const EXPONENTS: std::ops::RangeInclusive<u8> = 2..=6;
const USUAL_EXPONENT: u8 = 3;
const OOB_BYTES: usize = 64;
const HEAD_BYTES: usize = 64;

/// The size of the frames of a drive, as a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frames {
    exponent: u8,
}

impl Frames {
    /// The size in the header of the first zone that begins with one; else the usual size.
    pub(crate) async fn find(device: &dyn ZonedDevice, zones: &[ZoneInfo]) -> Self {
        for zone in zones {
            let at = ZoneAddress { zone: zone.zone, offset: ZoneOffset(0) };
            let Ok(payload) = device.read(at, BlockCount(1)).await else { continue };
            let block = payload.block(0);
            let exponent = Fields(&block).u8(10);
            let frames = Self { exponent };
            let is_one = EXPONENTS.contains(&exponent)
                && matches!(frames.metadata(&block, zone.zone.0, 0), Some(Metadata::Of(_)));
            if is_one {
                return frames;
            }
        }
        Self { exponent: USUAL_EXPONENT }
    }

    /// Blocks of a frame after its header.
    pub(crate) fn unit(self) -> u32 {
        self.size() - 1
    }

    fn size(self) -> u32 {
        1 << self.exponent
    }

    /// Blocks of data in a number of blocks.
    pub(crate) fn usable(self, blocks: BlockCount) -> BlockCount {
        BlockCount(blocks.0 / self.size() * self.unit())
    }

    /// A zone with capacity and write pointer in blocks of data.
    pub(crate) fn seen(self, zone: ZoneInfo) -> ZoneInfo {
        let capacity = self.usable(zone.capacity);
        let (whole, part) =
            (zone.write_pointer.0 / self.size(), zone.write_pointer.0 % self.size());
        let written = whole * self.unit() + part.saturating_sub(1);
        let write_pointer = ZoneOffset(written.min(capacity.0));
        ZoneInfo { capacity, write_pointer, ..zone }
    }

    /// Reads one block, and its metadata from the frame's header.
    pub(crate) async fn read(
        self,
        device: &dyn ZonedDevice,
        zone: u32,
        block: u32,
    ) -> Result<Block, Status> {
        let metadata = self.header(device, zone, block / self.unit()).await?;
        self.read_behind(device, zone, block, &metadata).await
    }

    /// Reads consecutive blocks, and each header that can be read once.
    pub(crate) async fn read_all(
        self,
        device: &dyn ZonedDevice,
        zone: u32,
        blocks: std::ops::Range<u32>,
    ) -> Vec<Result<Block, Status>> {
        let mut read = Vec::with_capacity(blocks.len());
        let mut known = None;
        for block in blocks {
            let frame = block / self.unit();
            let metadata = match known.take().filter(|(of, _)| *of == frame) {
                Some((_, metadata)) => metadata,
                None => match self.header(device, zone, frame).await {
                    Ok(metadata) => metadata,
                    Err(status) => {
                        read.push(Err(status));
                        continue;
                    }
                },
            };
            read.push(self.read_behind(device, zone, block, &metadata).await);
            known = Some((frame, metadata));
        }
        read
    }

    /// What the header of a frame says.
    async fn header(
        self,
        device: &dyn ZonedDevice,
        zone: u32,
        frame: u32,
    ) -> Result<Metadata, Status> {
        let header = read_block(device, zone, frame * self.size()).await?;
        self.metadata(&header, zone, frame).ok_or(Status::UnrecoveredRead)
    }

    /// Reads one block of which the frame's header is known.
    async fn read_behind(
        self,
        device: &dyn ZonedDevice,
        zone: u32,
        block: u32,
        metadata: &Metadata,
    ) -> Result<Block, Status> {
        let (frame, within) = (block / self.unit(), block % self.unit());
        let read = read_block(device, zone, frame * self.size() + 1 + within).await;
        match metadata {
            Metadata::Blank => {
                Ok(Block { data: read?, oob: Bytes::from_static(&[0; OOB_BYTES]), framed: true })
            }
            Metadata::Of(all) => {
                let lost = |status| match status {
                    Status::Deallocated => Status::UnrecoveredRead,
                    other => other,
                };
                let at = within as usize * OOB_BYTES;
                Ok(Block {
                    data: read.map_err(lost)?,
                    oob: all.slice(at..at + OOB_BYTES),
                    framed: true,
                })
            }
        }
    }

    /// The metadata in a header, if the header is intact and belongs to this frame.
    fn metadata(self, block: &Bytes, zone: u32, frame: u32) -> Option<Metadata> {
        if is_zero(block) {
            return Some(Metadata::Blank);
        }
        let fields = Fields(block);
        let end = HEAD_BYTES + self.unit() as usize * OOB_BYTES;
        let genuine = fields.bytes::<8>(0) == MAGIC
            && fields.u16(8) == VERSION
            && fields.u8(10) == self.exponent
            && u32::from(fields.u8(11)) <= self.unit()
            && fields.u32(16) == zone
            && fields.u32(20) == frame;
        if !genuine {
            return None;
        }
        let mut covered = block[..end].to_vec();
        covered[12..16].fill(0);
        let intact = crc32c::crc32c(&covered) == fields.u32(12);
        intact.then(|| Metadata::Of(block.slice(HEAD_BYTES..end)))
    }
}

/// Reads one block of a drive, wherever it is.
async fn read_block(device: &dyn ZonedDevice, zone: u32, offset: u32) -> Result<Bytes, Status> {
    let at = ZoneAddress::new(ZoneId(zone), offset);
    device.read(at, BlockCount(1)).await.map(|payload| payload.block(0))
}

enum Metadata {
    /// The frame was never written.
    Blank,
    /// 64 bytes for each of its blocks.
    Of(Bytes),
}
