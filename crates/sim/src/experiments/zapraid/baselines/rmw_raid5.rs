//! RAID-5 on conventional drives with in-place updates: read, modify, write.
//!
//! The layout is that of Linux md: chunks rotate over the drives, and so does parity. A partial
//! stripe write reads the old data and its parity, and then writes both; writes to one stripe are
//! serialized. It exists for measurements only: parity is not computed, since computing takes no
//! time here, and no drive is ever lost.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::{try_join, try_join_all};
use zoneweave_runtime::Semaphore;
use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, BlockDevice, BlockDeviceInfo, BlockError, BlockFuture, Extent, Lba,
};

use super::{all_data, in_one_piece, nothing_to_flush, unsupported};

/// Locks; stripes share them.
const LOCKS: usize = 4096;

pub(crate) struct RmwRaid5(Rc<Inner>);

struct Inner {
    drives: Vec<Rc<dyn BlockDevice>>,
    chunk_blocks: u64,
    blocks: u64,
    locks: Vec<Semaphore>,
}

/// A part of a request that lies in one chunk.
struct Piece {
    stripe: u64,
    drive: usize,
    parity_drive: usize,
    at: Lba,
    /// The first block, counted from the request's first.
    from: u32,
    blocks: u32,
}

impl RmwRaid5 {
    /// An array of so many blocks over drives that are large enough.
    pub(crate) fn new(drives: Vec<Rc<dyn BlockDevice>>, chunk_blocks: u32, blocks: u64) -> Self {
        let locks = (0..LOCKS).map(|_| Semaphore::new(1)).collect();
        let chunk_blocks = u64::from(chunk_blocks);
        Self(Rc::new(Inner { drives, chunk_blocks, blocks, locks }))
    }
}

impl Inner {
    fn pieces(&self, lba: Lba, blocks: u32) -> Vec<Piece> {
        let columns = self.drives.len() as u64;
        let mut pieces = Vec::new();
        let mut done = 0;
        while done < blocks {
            let block = lba.0 + u64::from(done);
            let (chunk, within) = (block / self.chunk_blocks, block % self.chunk_blocks);
            let (stripe, column) = (chunk / (columns - 1), chunk % (columns - 1));
            let parity = columns - 1 - stripe % columns;
            let room = u32::try_from(self.chunk_blocks - within).unwrap_or(u32::MAX);
            let part = room.min(blocks - done);
            let index = |drive: u64| usize::try_from(drive).expect("usize is 64 bits wide");
            pieces.push(Piece {
                stripe,
                drive: index((parity + 1 + column) % columns),
                parity_drive: index(parity),
                at: Lba(stripe * self.chunk_blocks + within),
                from: done,
                blocks: part,
            });
            done += part;
        }
        pieces
    }

    async fn write(&self, piece: &Piece, data: Bytes) -> Result<(), BlockError> {
        let lock = usize::try_from(piece.stripe).expect("usize is 64 bits wide") % LOCKS;
        let _alone = self.locks[lock].acquire().await;
        let (drive, parity) = (&self.drives[piece.drive], &self.drives[piece.parity_drive]);
        let (at, blocks) = (piece.at, piece.blocks);
        let (_, old) = try_join(drive.read(at, blocks), parity.read(at, blocks)).await?;
        let written = drive.write(at, vec![data], false);
        try_join(written, parity.write(at, old, false)).await.map(drop)
    }

    async fn read(&self, piece: &Piece) -> Result<Vec<Bytes>, BlockError> {
        self.drives[piece.drive].read(piece.at, piece.blocks).await
    }
}

impl BlockDevice for RmwRaid5 {
    fn info(&self) -> BlockDeviceInfo {
        BlockDeviceInfo { blocks: self.0.blocks, volatile_cache: false, read_only: false }
    }

    fn read(&self, lba: Lba, blocks: u32) -> BlockFuture<Vec<Bytes>> {
        let inner = self.0.clone();
        Box::pin(async move {
            let pieces = inner.pieces(lba, blocks);
            let found = try_join_all(pieces.iter().map(|piece| inner.read(piece))).await?;
            Ok(found.into_iter().flatten().collect())
        })
    }

    fn write(&self, lba: Lba, data: Vec<Bytes>, _fua: bool) -> BlockFuture<()> {
        let inner = self.0.clone();
        Box::pin(async move {
            let data = in_one_piece(&data);
            let pieces = inner.pieces(lba, BlockCount::of_data_bytes(data.len()).0);
            let writes = pieces.iter().map(|piece| {
                let from = piece.from as usize * BLOCK_BYTES;
                let part = data.slice(from..from + piece.blocks as usize * BLOCK_BYTES);
                inner.write(piece, part)
            });
            try_join_all(writes).await.map(drop)
        })
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

#[cfg(test)]
mod tests {
    use zoneweave_emulator::{ConventionalConfig, ConventionalDrive};
    use zoneweave_runtime::{Executor, VirtualTime};

    use super::*;

    #[test]
    fn what_was_written_is_read_and_each_write_is_four_commands() {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let config = ConventionalConfig::sn640_960gb().with_superblock_rows(1);
        let drive = |_| ConventionalDrive::new(config.clone()).unwrap();
        let drives: Vec<_> = (0..4).map(drive).collect();
        let attached =
            drives.iter().map(|drive| -> Rc<dyn BlockDevice> { Rc::new(drive.attach(&handle)) });
        let array = RmwRaid5::new(attached.collect(), 2, 300);
        executor.run(async {
            // Two blocks of one chunk, and one of the next stripe.
            let fill =
                |fill: u8, blocks: usize| vec![Bytes::from(vec![fill; blocks * BLOCK_BYTES])];
            array.write(Lba(4), fill(7, 2), false).await.unwrap();
            array.write(Lba(5), fill(9, 2), false).await.unwrap();
            let read: Vec<u8> = array.read(Lba(4), 3).await.unwrap().concat();
            let bytes: Vec<u8> = read.chunks(BLOCK_BYTES).map(|block| block[0]).collect();
            assert_eq!(bytes, [7, 9, 9]);
        });
        let pieces = array.0.pieces(Lba(5), 2);
        let places: Vec<_> = pieces.iter().map(|one| (one.stripe, one.at, one.blocks)).collect();
        assert_eq!(places, [(0, Lba(1), 1), (1, Lba(2), 1)]);
    }
}
