//! The baseline RAIZN-SPDK of the ZapRAID paper (section 5.1): partial parity before each
//! acknowledgement.
//!
//! A block device over zoned drives. A segment is one zone of every drive, with rotating parity.
//! The blocks of a request are written to a segment at once by Zone Write, in chunks or parts of
//! chunks. In parallel the parity of the incomplete stripe is appended to a metadata zone of the
//! drive that will hold the stripe's parity. The request that completes a stripe writes the whole
//! parity chunk instead.
//!
//! A request is acknowledged when all of that is done, and only then the segment's next request
//! begins (Table 4: the wait phase). Each drive has two metadata zones: a full one is reset while
//! the other one is in use.
//!
//! This baseline exists for measurements only: parity blocks are blank, there is no recovery and no
//! garbage collection, and the array is full when its zones are.

mod metadata;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::{join, join_all, try_join_all};
use zoneweave_raid::log::Lanes;
use zoneweave_runtime::{Handle, Semaphore};
use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, BlockDevice, BlockDeviceInfo, BlockError, BlockFuture, Extent, Lba,
    Payload, Status, ZoneAction, ZoneAddress, ZoneId, ZoneOffset, ZonedDevice, ZonedDeviceExt,
    zero_blocks,
};

use super::{all_data, in_one_piece, nothing_to_flush, unsupported};

use self::metadata::{METADATA_ZONES, Metadata};

pub(crate) struct RaiznSpdk(Rc<Inner>);

struct Inner {
    drives: Vec<Rc<dyn ZonedDevice>>,
    metadata: Vec<Metadata>,
    small: Class,
    large: Class,
    large_from: u64,
    /// The next zone, of every drive, that no segment has.
    next_zone: Cell<u32>,
    /// The location of each block.
    map: RefCell<Vec<Option<(usize, ZoneAddress)>>>,
}

/// Segments that are written in turn.
struct Class {
    segments: Vec<Segment>,
    turn: Cell<usize>,
}

struct Segment {
    chunk_blocks: u32,
    /// One request at a time.
    one: Semaphore,
    place: Cell<Option<Place>>,
}

/// The write position of a segment.
#[derive(Clone, Copy)]
struct Place {
    zone: ZoneId,
    stripe: u32,
    /// Data blocks of the stripe that are written.
    filled: u32,
}

/// A part of a request that lies in one chunk.
struct Piece {
    drive: usize,
    at: ZoneAddress,
    /// The first block, counted from the request's first.
    from: u32,
    blocks: u32,
}

impl Class {
    fn new(lanes: Lanes) -> Self {
        let segment = |_| Segment {
            chunk_blocks: lanes.chunk_blocks,
            one: Semaphore::new(1),
            place: Cell::new(None),
        };
        Self { segments: (0..lanes.count).map(segment).collect(), turn: Cell::new(0) }
    }

    fn next(&self) -> &Segment {
        let turn = self.turn.get();
        self.turn.set((turn + 1) % self.segments.len());
        &self.segments[turn]
    }
}

impl RaiznSpdk {
    /// An array of empty drives with single parity.
    pub(crate) fn new(
        handle: &Handle,
        drives: Vec<Rc<dyn ZonedDevice>>,
        small: Lanes,
        large: Lanes,
        blocks: u64,
    ) -> Self {
        assert!(small.count + large.count > 0, "an array writes somewhere");
        let map = vec![None; usize::try_from(blocks).expect("usize is 64 bits wide")];
        Self(Rc::new(Inner {
            metadata: drives.iter().map(|drive| Metadata::new(handle, drive)).collect(),
            drives,
            small: Class::new(small),
            large: Class::new(large),
            large_from: large.chunk_blocks.into(),
            next_zone: Cell::new(METADATA_ZONES),
            map: RefCell::new(map),
        }))
    }
}

impl Inner {
    fn class_for(&self, blocks: u32) -> &Class {
        let large = u64::from(blocks) >= self.large_from || self.small.segments.is_empty();
        if large && !self.large.segments.is_empty() { &self.large } else { &self.small }
    }

    async fn write(&self, lba: Lba, data: Bytes) -> Result<(), BlockError> {
        let blocks = BlockCount::of_data_bytes(data.len()).0;
        let segment = self.class_for(blocks).next();
        let _alone = segment.one.acquire().await;
        let mut done = 0;
        while done < blocks {
            let place = self.place(segment).await?;
            let room = self.stripe_blocks(segment) - place.filled;
            let part = room.min(blocks - done);
            let pieces = self.pieces(segment, place, part);
            self.write_part(segment, place, &pieces, &slice(&data, done, part)).await?;
            let mut map = self.map.borrow_mut();
            for piece in &pieces {
                for block in 0..piece.blocks {
                    let at = lba.plus((done + piece.from + block).into()).index();
                    let offset = piece.at.offset.plus(BlockCount(block));
                    map[at] = Some((piece.drive, ZoneAddress { offset, ..piece.at }));
                }
            }
            done += part;
        }
        Ok(())
    }

    /// Writes a part of a request, and the parity that goes with it.
    async fn write_part(
        &self,
        segment: &Segment,
        place: Place,
        pieces: &[Piece],
        data: &Bytes,
    ) -> Result<(), Status> {
        let writes = pieces.iter().map(|piece| {
            let data = slice(data, piece.from, piece.blocks);
            self.drives[piece.drive].write(piece.at, payload(data), false)
        });
        let part: u32 = pieces.iter().map(|piece| piece.blocks).sum();
        let parity = async {
            let drive = self.parity_drive(place.stripe);
            let chunk = segment.chunk_blocks;
            if place.filled + part < self.stripe_blocks(segment) {
                return self.metadata[drive].append(blank(part.min(chunk))).await;
            }
            let at = self.address(segment, place);
            self.drives[drive].write(at, blank(chunk), false).await.map(drop)
        };
        let (data, parity) = join(join_all(writes), parity).await;
        data.into_iter().collect::<Result<Vec<_>, _>>()?;
        parity?;
        let mut place = Place { filled: place.filled + part, ..place };
        assert!(place.filled <= self.stripe_blocks(segment), "a request part ends with its stripe");
        if place.filled == self.stripe_blocks(segment) {
            place = Place { stripe: place.stripe + 1, filled: 0, ..place };
        }
        segment.place.set(Some(place));
        Ok(())
    }

    /// The write position of a segment; opens a new zone where the last one is full.
    async fn place(&self, segment: &Segment) -> Result<Place, Status> {
        let geometry = self.drives[0].geometry();
        let stripes = geometry.zone_capacity.0 / segment.chunk_blocks;
        if let Some(place) = segment.place.get() {
            if place.stripe < stripes {
                return Ok(place);
            }
            if !geometry.zone_capacity.0.is_multiple_of(segment.chunk_blocks) {
                let finish =
                    |drive: &Rc<dyn ZonedDevice>| drive.manage(place.zone, ZoneAction::Finish);
                try_join_all(self.drives.iter().map(finish)).await?;
            }
        }
        let zone = self.next_zone.get();
        if zone >= geometry.zones {
            return Err(Status::ZoneFull);
        }
        self.next_zone.set(zone + 1);
        let place = Place { zone: ZoneId(zone), stripe: 0, filled: 0 };
        segment.place.set(Some(place));
        Ok(place)
    }

    fn stripe_blocks(&self, segment: &Segment) -> u32 {
        (self.columns() - 1) * segment.chunk_blocks
    }

    fn columns(&self) -> u32 {
        u32::try_from(self.drives.len()).unwrap_or(u32::MAX)
    }

    fn parity_drive(&self, stripe: u32) -> usize {
        (self.columns() - 1 - stripe % self.columns()) as usize
    }

    fn address(&self, segment: &Segment, place: Place) -> ZoneAddress {
        let offset = ZoneOffset(place.stripe * segment.chunk_blocks);
        ZoneAddress { zone: place.zone, offset }
    }

    /// The next blocks of a stripe, chunk by chunk.
    fn pieces(&self, segment: &Segment, place: Place, blocks: u32) -> Vec<Piece> {
        let chunk = segment.chunk_blocks;
        let first = self.address(segment, place);
        let mut pieces = Vec::new();
        let mut done = 0;
        while done < blocks {
            let (column, within) = ((place.filled + done) / chunk, (place.filled + done) % chunk);
            let drive = (self.parity_drive(place.stripe) + 1 + column as usize) % self.drives.len();
            let part = (chunk - within).min(blocks - done);
            let at = ZoneAddress { offset: first.offset.plus(BlockCount(within)), ..first };
            pieces.push(Piece { drive, at, from: done, blocks: part });
            done += part;
        }
        pieces
    }

    async fn read(&self, lba: Lba) -> Result<Bytes, BlockError> {
        let found = self.map.borrow()[lba.index()];
        let Some((drive, at)) = found else { return Ok(zero_blocks(BlockCount(1))) };
        Ok(self.drives[drive].read(at, BlockCount(1)).await?.block(0))
    }
}

impl BlockDevice for RaiznSpdk {
    fn info(&self) -> BlockDeviceInfo {
        let blocks = self.0.map.borrow().len() as u64;
        BlockDeviceInfo { blocks, volatile_cache: false, read_only: false }
    }

    fn read(&self, lba: Lba, blocks: u32) -> BlockFuture<Vec<Bytes>> {
        let inner = self.0.clone();
        Box::pin(async move {
            let reads = (0..u64::from(blocks)).map(|block| inner.read(lba.plus(block)));
            try_join_all(reads).await
        })
    }

    fn write(&self, lba: Lba, data: Vec<Bytes>, _fua: bool) -> BlockFuture<()> {
        let inner = self.0.clone();
        Box::pin(async move { inner.write(lba, in_one_piece(&data)).await })
    }

    fn write_zeroes(&self, _lba: Lba, _blocks: u64, _fua: bool) -> BlockFuture<()> {
        unsupported()
    }

    fn trim(&self, _lba: Lba, _blocks: u64, _fua: bool) -> BlockFuture<()> {
        unsupported()
    }

    fn flush(&self) -> BlockFuture<()> {
        nothing_to_flush()
    }

    fn extents(&self, _lba: Lba, blocks: u64, _limit: usize) -> BlockFuture<Vec<Extent>> {
        all_data(blocks)
    }
}

fn slice(data: &Bytes, from: u32, blocks: u32) -> Bytes {
    data.slice(from as usize * BLOCK_BYTES..(from + blocks) as usize * BLOCK_BYTES)
}

fn payload(data: Bytes) -> Payload {
    let oob = vec![0; BlockCount::of_data_bytes(data.len()).oob_bytes()];
    Payload::new(data, oob.into())
}

fn blank(blocks: u32) -> Payload {
    payload(zero_blocks(BlockCount(blocks)))
}

#[cfg(test)]
mod tests {
    use zoneweave_emulator::{Preset, RamDrive};
    use zoneweave_runtime::{Executor, Random, VirtualTime};
    use zoneweave_zoned::OobKind;

    use super::*;

    /// Zones so small that segments and metadata zones wrap many times.
    fn drives(handle: &Handle) -> Vec<RamDrive> {
        let preset = Preset::by_name("zn540-4tb").unwrap();
        let mut geometry = preset.geometry().clone();
        (geometry.zones, geometry.zone_capacity) = (64, BlockCount(37));
        geometry.oob = OobKind::Separate;
        let drive = |seed| RamDrive::new(geometry.clone(), preset.timing_of(&geometry, seed));
        let _ = handle;
        (1..=4).map(|seed| drive(seed).unwrap()).collect()
    }

    #[test]
    fn what_was_written_is_read() {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let drives = drives(&handle);
        let attached = drives.iter().map(|drive| -> Rc<dyn ZonedDevice> { drive.attach(&handle) });
        let small = Lanes { count: 2, chunk_blocks: 2 };
        let large = Lanes { count: 1, chunk_blocks: 4 };
        let array = RaiznSpdk::new(&handle, attached.collect(), small, large, 100);
        executor.run(async {
            let mut random = Random::new(1);
            let mut model = [0u8; 100];
            for round in 0..40_u8 {
                let mut writes = Vec::new();
                for part in 0..20_u8 {
                    let blocks = [1, 1, 2, 4, 5][usize::try_from(random.below(5)).unwrap()];
                    let fill = round.wrapping_mul(20).wrapping_add(part);
                    let first = part * 5;
                    let data = vec![fill; blocks * BLOCK_BYTES];
                    writes.push(array.write(Lba(first.into()), vec![data.into()], false));
                    model[first.into()..usize::from(first) + blocks].fill(fill);
                }
                try_join_all(writes).await.unwrap();
            }
            for (lba, fill) in model.iter().enumerate() {
                let read = array.read(Lba(lba as u64), 1).await.unwrap();
                assert!(read[0].iter().all(|byte| byte == fill), "block {lba}");
            }
        });
    }
}
