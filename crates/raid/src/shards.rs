//! A volume over several arrays, each with an engine, drives and zones of its own.
//!
//! One engine uses one processor. For a faster volume, its blocks are striped over independent
//! arrays, [`UNIT_BLOCKS`] at a time: consecutive blocks of a request are consecutive in each
//! array.
//!
//! ```text
//!   volume    0..64  64..128  128..192  192..256 ...
//!   shard       0       1         0         1
//!   there     0..64   0..64    64..128   64..128
//! ```
//!
//! Invariants:
//! * The part of an array is fixed when it is created and recorded in its superblock ([`Shard`]);
//!   the code that combines shards compares these.
//! * Nothing is stored here: an array guarantees for its blocks the same as alone, and a flush
//!   covers all of them.
//! * Of concurrent overlapping requests, every shard has an order of its own.

mod range;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::TryFutureExt;
use futures_util::future::join_all;
use zoneweave_zoned::{
    BLOCK_BYTES, BlockDevice, BlockDeviceInfo, BlockError, BlockFuture, Extent, Lba,
};

use crate::log::format::ArrayUuid;
use range::{Range, Rounds};

/// Consecutive blocks of a volume in one shard: 256 KiB.
pub const UNIT_BLOCKS: u64 = 64;

/// The part of a volume that an array holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: u8,
    others: u8,
}

impl Shard {
    /// An array that is a volume by itself.
    pub const WHOLE: Self = Self { number: 0, others: 0 };

    /// Most shards of a volume.
    pub const MOST: usize = 256;

    /// Shard `number` of `of`; `None` if impossible.
    #[must_use]
    pub fn new(number: usize, of: usize) -> Option<Self> {
        let others = u8::try_from(of.checked_sub(1)?).ok()?;
        let number = u8::try_from(number).ok().filter(|number| *number <= others)?;
        Some(Self { number, others })
    }

    /// Its number, counted from zero.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.number
    }

    /// Number of shards of the volume.
    #[must_use]
    pub fn of(self) -> usize {
        usize::from(self.others) + 1
    }

    /// The volume's block that a block of this shard is.
    #[must_use]
    pub fn block_of_volume(self, block: Lba) -> Lba {
        Lba(Rounds::of(self.of()).whole(block.0, usize::from(self.number)))
    }

    /// UUID of the array that is this shard of a volume: the volume's, with the number as last
    /// byte.
    #[must_use]
    pub fn array(self, volume: ArrayUuid) -> ArrayUuid {
        let mut uuid = volume.0;
        if self.others > 0 {
            uuid[15] = self.number;
        }
        ArrayUuid(uuid)
    }

    /// UUID of the volume that an array is this shard of: that of its first shard.
    #[must_use]
    pub fn volume(self, array: ArrayUuid) -> ArrayUuid {
        Self { number: 0, ..self }.array(array)
    }
}

/// Blocks of a volume with so many shards, the smallest of which has `least`. An array that is a
/// volume by itself uses all of its blocks.
#[must_use]
pub const fn volume_blocks(least: u64, shards: usize) -> u64 {
    match shards {
        1 => least,
        _ => least / UNIT_BLOCKS * UNIT_BLOCKS * shards as u64,
    }
}

/// Blocks that each shard needs for a volume of `blocks`. An array that is a volume by itself needs
/// exactly these.
#[must_use]
pub const fn blocks_of_each(blocks: u64, shards: usize) -> u64 {
    match shards {
        1 => blocks,
        _ => blocks.div_ceil(shards as u64).next_multiple_of(UNIT_BLOCKS),
    }
}

/// A volume of several shards.
pub struct Shards {
    parts: Vec<Rc<dyn BlockDevice>>,
    rounds: Rounds,
    blocks: u64,
}

impl Shards {
    /// The volume of these shards, in the order of their numbers.
    ///
    /// # Panics
    /// If there are none, or too many.
    #[must_use]
    pub fn new(parts: Vec<Rc<dyn BlockDevice>>) -> Self {
        let least = parts.iter().map(|part| part.info().blocks).min().expect("a shard at least");
        assert!(parts.len() <= Shard::MOST, "a volume of {} shards", parts.len());
        let rounds = Rounds::of(parts.len());
        let blocks = volume_blocks(least, parts.len());
        Self { parts, rounds, blocks }
    }

    /// Runs an operation on a range, if it is valid.
    fn within<T: 'static>(
        &self,
        lba: Lba,
        blocks: u64,
        work: impl FnOnce(Range) -> BlockFuture<T>,
    ) -> BlockFuture<T> {
        match self.range(lba, blocks) {
            Ok(range) => work(range),
            Err(error) => ready(Err(error)),
        }
    }

    /// Checks a range.
    fn range(&self, lba: Lba, blocks: u64) -> Result<Range, BlockError> {
        let end = lba.0.checked_add(blocks).filter(|end| *end <= self.blocks);
        let beyond = BlockError::OutOfRange { lba, blocks, capacity: self.blocks };
        end.map(|end| Range { start: lba.0, end }).ok_or(beyond)
    }

    /// The data of a range, by shard.
    fn divided(&self, range: Range, data: Vec<Bytes>) -> Vec<Vec<Bytes>> {
        let mut of_shards = vec![Vec::new(); self.parts.len()];
        if let Some(shard) = self.rounds.only(range) {
            of_shards[shard] = data;
            return of_shards;
        }
        let mut data = VecDeque::from(data);
        for (shard, blocks) in self.rounds.units(range) {
            of_shards[shard].extend(take(&mut data, blocks));
        }
        assert!(data.is_empty(), "{} pieces are left of a write of {range:?}", data.len());
        of_shards
    }

    /// Sends a request to every shard with a part of the range, and waits for all of them. Answers
    /// are by shard; of several errors that of the first shard is returned.
    fn ask<T: Default + 'static>(
        &self,
        range: Range,
        mut ask: impl FnMut(usize, Range) -> BlockFuture<T>,
    ) -> BlockFuture<Vec<T>> {
        let asked: Vec<BlockFuture<T>> = (0..self.parts.len())
            .map(|shard| match self.rounds.part(range, shard) {
                there if there.blocks() > 0 => self.told(shard, ask(shard, there)),
                _ => ready(Ok(T::default())),
            })
            .collect();
        Box::pin(async move { join_all(asked).await.into_iter().collect() })
    }

    /// As [`Self::ask`], for requests without a result.
    fn change(
        &self,
        range: Range,
        mut ask: impl FnMut(usize, Range) -> BlockFuture<()>,
    ) -> BlockFuture<()> {
        match self.rounds.only(range) {
            Some(shard) => self.told(shard, ask(shard, self.rounds.part(range, shard))),
            None => Box::pin(self.ask(range, ask).map_ok(drop)),
        }
    }

    /// The answer of a shard, with its addresses converted to the volume's.
    fn told<T: 'static>(&self, shard: usize, asked: BlockFuture<T>) -> BlockFuture<T> {
        let rounds = self.rounds;
        Box::pin(asked.map_err(move |error| match error {
            BlockError::Unrecoverable { lba } => {
                BlockError::Unrecoverable { lba: Lba(rounds.whole(lba.0, shard)) }
            }
            other => other,
        }))
    }
}

fn ready<T: 'static>(answer: Result<T, BlockError>) -> BlockFuture<T> {
    Box::pin(std::future::ready(answer))
}

/// Takes so many blocks from the front of a list.
///
/// # Panics
/// If there are fewer: devices return as many blocks as were requested.
fn take(pieces: &mut VecDeque<Bytes>, blocks: u64) -> Vec<Bytes> {
    let mut bytes = usize::try_from(blocks).expect("held in memory") * BLOCK_BYTES;
    let mut taken = Vec::new();
    while bytes > 0 {
        let mut piece = pieces.pop_front().expect("as many blocks as were requested");
        let now = piece.split_to(bytes.min(piece.len()));
        bytes -= now.len();
        taken.push(now);
        if !piece.is_empty() {
            pieces.push_front(piece);
        }
    }
    taken
}

impl BlockDevice for Shards {
    fn info(&self) -> BlockDeviceInfo {
        let of_parts = || self.parts.iter().map(|part| part.info());
        BlockDeviceInfo {
            blocks: self.blocks,
            volatile_cache: of_parts().any(|info| info.volatile_cache),
            read_only: of_parts().any(|info| info.read_only),
        }
    }

    fn read(&self, lba: Lba, blocks: u32) -> BlockFuture<Vec<Bytes>> {
        self.within(lba, blocks.into(), |range| {
            let ask = |shard: usize, there: Range| {
                let blocks = u32::try_from(there.blocks()).expect("a part of 32 bits");
                self.parts[shard].read(Lba(there.start), blocks)
            };
            if let Some(shard) = self.rounds.only(range) {
                return self.told(shard, ask(shard, self.rounds.part(range, shard)));
            }
            let units = self.rounds.units(range);
            Box::pin(self.ask(range, ask).map_ok(|found| {
                let mut found: Vec<_> = found.into_iter().map(VecDeque::from).collect();
                units.flat_map(|(shard, blocks)| take(&mut found[shard], blocks)).collect()
            }))
        })
    }

    fn write(&self, lba: Lba, data: Vec<Bytes>, fua: bool) -> BlockFuture<()> {
        let bytes: usize = data.iter().map(Bytes::len).sum();
        self.within(lba, (bytes / BLOCK_BYTES) as u64, |range| {
            let mut of_shards = self.divided(range, data);
            self.change(range, |shard, there| {
                let data = std::mem::take(&mut of_shards[shard]);
                self.parts[shard].write(Lba(there.start), data, fua)
            })
        })
    }

    fn write_zeroes(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()> {
        self.within(lba, blocks, |range| {
            self.change(range, |shard, there| {
                self.parts[shard].write_zeroes(Lba(there.start), there.blocks(), fua)
            })
        })
    }

    fn trim(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()> {
        self.within(lba, blocks, |range| {
            self.change(range, |shard, there| {
                self.parts[shard].trim(Lba(there.start), there.blocks(), fua)
            })
        })
    }

    fn flush(&self) -> BlockFuture<()> {
        let all = Range { start: 0, end: self.blocks };
        self.change(all, |shard, _| self.parts[shard].flush())
    }

    fn extents(&self, lba: Lba, blocks: u64, limit: usize) -> BlockFuture<Vec<Extent>> {
        self.within(lba, blocks, |range| {
            let asked = self.ask(range, |shard, there| {
                self.parts[shard].extents(Lba(there.start), there.blocks(), limit)
            });
            let units = self.rounds.units(range);
            Box::pin(asked.map_ok(move |found| merged(units, found, limit)))
        })
    }
}

/// The extents of a range, merged from its parts, as far as all of these reach.
fn merged(
    units: impl Iterator<Item = (usize, u64)>,
    found: Vec<Vec<Extent>>,
    limit: usize,
) -> Vec<Extent> {
    let mut found: Vec<VecDeque<Extent>> = found.into_iter().map(VecDeque::from).collect();
    let mut merged: Vec<Extent> = Vec::new();
    for (shard, mut blocks) in units {
        while blocks > 0 {
            let Some(next) = found[shard].front_mut() else { return merged };
            let here = next.blocks.min(blocks);
            let full = merged.len() == limit;
            match merged.last_mut() {
                Some(last) if last.state == next.state => last.blocks += here,
                _ if full => return merged,
                _ => merged.push(Extent { blocks: here, state: next.state }),
            }
            next.blocks -= here;
            blocks -= here;
            if next.blocks == 0 {
                found[shard].pop_front();
            }
        }
    }
    merged
}
