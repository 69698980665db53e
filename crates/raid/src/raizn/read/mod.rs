//! Reads: each block is verified, or reconstructed (`reconstruct`). `degraded` reads what that
//! takes for users.

mod degraded;
mod reconstruct;

use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use zoneweave_zoned::{BlockCount, Payload, Status, ZoneAddress};

use crate::array::format::config::Checksums;
use crate::array::format::numbers::Generation;
use crate::array::io::MemberIo;
use crate::array::repair::faults::RecordsFaults;
use crate::instrument::marks::{Mark, mark};
use crate::raizn::core::Core;
use crate::raizn::format::metadata::{BlockMetadata, Kind};
use crate::raizn::layout::{Layout, Place};
use crate::raizn::read::degraded::Known;
use crate::raizn::stripe::Block;
use crate::scheme::Column;

/// A read that a reset of the zone has to wait for, from its admission on.
pub(crate) struct Reader {
    pub(crate) core: Rc<Core>,
    pub(crate) zone: u32,
    /// Resets admitted before it.
    pub(crate) resets: u64,
}

impl Reader {
    /// Admits a read.
    pub(crate) fn begin(core: &Rc<Core>, zone: u32) -> Self {
        let mut state = core.state.borrow_mut();
        let logical = &mut state.logical[zone as usize];
        let resets = logical.resets_admitted;
        *logical.readers.entry(resets).or_default() += 1;
        Self { core: core.clone(), zone, resets }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        {
            let mut state = self.core.state.borrow_mut();
            let logical = &mut state.logical[self.zone as usize];
            let readers = logical.readers.get_mut(&self.resets).expect("it was counted");
            *readers -= 1;
            if *readers > 0 {
                return;
            }
            logical.readers.remove(&self.resets);
        }
        self.core.pump(self.zone);
    }
}

impl Core {
    /// Reads blocks that are written, once their writes have completed.
    pub(crate) async fn read_written(
        self: &Rc<Self>,
        reader: &Reader,
        start: u32,
        blocks: u32,
    ) -> Result<Vec<Bytes>, Status> {
        let zone = reader.zone;
        loop {
            let changed = {
                let state = self.state.borrow();
                let logical = &state.logical[zone as usize];
                if (logical.resets_done, logical.completed) >= (reader.resets, start + blocks) {
                    break;
                }
                if state.array.stopped.is_some() {
                    return Err(Self::STOPPED);
                }
                logical.changed.clone()
            };
            changed.wait().await;
        }
        let mut stripes: Vec<Vec<(Place, u32)>> = Vec::new();
        for (_, place, length) in self.layout.pieces(zone, start, blocks) {
            match stripes.last_mut() {
                Some(pieces) if pieces[0].0.stripe == place.stripe => pieces.push((place, length)),
                _ => stripes.push(vec![(place, length)]),
            }
        }
        let reads = stripes.iter().map(|pieces| self.read_stripe(reader, pieces));
        let mut data = Vec::with_capacity(blocks as usize);
        for found in join_all(reads).await {
            data.extend(found?.into_iter().map(|block| block.data));
        }
        Ok(data)
    }

    /// Reads pieces of data units of a stripe.
    async fn read_stripe(
        self: &Rc<Self>,
        reader: &Reader,
        pieces: &[(Place, u32)],
    ) -> Result<Vec<Block>, Status> {
        let zone = reader.zone;
        let lost = self.state.borrow().lost_columns(zone);
        let mut known = Known::new();
        if !pieces.iter().any(|(place, _)| lost.contains(place.column)) {
            let reads = pieces.iter();
            let reads =
                reads.map(|(place, length)| self.fetch(zone, place.column, place.at, *length));
            let found = join_all(reads).await;
            if found.iter().flatten().all(Option::is_some) {
                return Ok(found.into_iter().flatten().flatten().collect());
            }
            for ((place, _), found) in pieces.iter().zip(found) {
                let found = (place.within..).zip(found);
                known.extend(found.map(|(within, block)| ((place.role, within), block)));
            }
        }
        mark(Mark::ZonedReadDecoded);
        let blocks = self.read_degraded(zone, pieces, known).await;
        let mut places = pieces.iter().flat_map(|(place, length)| {
            let places = place.at..place.at + length;
            places.map(move |at| (place.column, at))
        });
        for block in &blocks {
            let (column, at) = places.next().expect("a place for each block");
            if block.is_none() {
                self.judge_later(reader, column, at);
            }
        }
        assert!(places.next().is_none(), "{} blocks of a stripe were read", blocks.len());
        let blocks: Option<Vec<Block>> = blocks.into_iter().collect();
        blocks.ok_or(Status::UnrecoveredRead)
    }

    /// Reads blocks of a column. `None` for a block that cannot be read or does not verify.
    pub(crate) async fn fetch(
        self: &Rc<Self>,
        zone: u32,
        column: Column,
        at: u32,
        count: u32,
    ) -> Vec<Option<Block>> {
        let told = self.fetch_told(zone, column, at, count).await;
        told.into_iter().map(Result::ok).collect()
    }

    /// Reads blocks of a column, or why each was not read: a block that does not verify, or that
    /// its parity log has lost, is as one that the drive cannot read.
    pub(crate) async fn fetch_told(
        self: &Rc<Self>,
        zone: u32,
        column: Column,
        at: u32,
        count: u32,
    ) -> Vec<Result<Block, Status>> {
        let mut found = Vec::with_capacity(count as usize);
        let mut next = at;
        while next < at + count {
            let (is_lost, is_junk, until) = {
                let state = self.state.borrow();
                let (is_junk, until) = state.logical[zone as usize].is_junk(column, next);
                (state.lost_columns(zone).contains(column), is_junk, until)
            };
            let end = until.min(at + count);
            if is_lost {
                found.resize(count as usize, Err(Status::DeviceGone));
                break;
            }
            if is_junk {
                let state = self.state.borrow();
                let relocated = &state.logical[zone as usize].columns[column.index()].relocated;
                let there = |at| relocated.get(&at).cloned().ok_or(Status::UnrecoveredRead);
                found.extend((next..end).map(there));
            } else {
                found.extend(self.fetch_in_place(zone, column, next..end).await);
            }
            next = end;
        }
        assert!(found.len() == count as usize, "{} of {count} blocks of {column}", found.len());
        found
    }

    /// Reads blocks in their places.
    async fn fetch_in_place(
        self: &Rc<Self>,
        zone: u32,
        column: Column,
        at: Range<u32>,
    ) -> Vec<Result<Block, Status>> {
        let address = |at: u32| ZoneAddress::new(Layout::column_zone(zone), at);
        let count = at.end - at.start;
        let verified = |at: u32, payload: &Payload| {
            let blocks = self.verified(zone, column, at, payload).into_iter();
            blocks.map(|block| block.ok_or(Status::UnrecoveredRead))
        };
        let whole = match self.read_zone(column, address(at.start), BlockCount(count)).await {
            Ok(payload) => return verified(at.start, &payload).collect(),
            Err(status) => status,
        };
        if count == 1 {
            return vec![Err(whole)];
        }
        // Only some of the blocks may be unreadable.
        let mut found = Vec::with_capacity(count as usize);
        for at in at {
            match self.read_zone(column, address(at), BlockCount(1)).await {
                Ok(one) => found.extend(verified(at, &one)),
                Err(status) => found.push(Err(status)),
            }
        }
        found
    }

    /// The blocks of a payload that verify.
    fn verified(&self, zone: u32, column: Column, at: u32, read: &Payload) -> Vec<Option<Block>> {
        let generation = self.state.borrow().logical[zone as usize].record.generation;
        let mut wrong = 0;
        let blocks = read.iter_blocks().enumerate();
        let blocks: Vec<_> = blocks
            .map(|(index, data)| {
                let at = at + u32::try_from(index).expect("a short read");
                let block = self.verify(zone, generation, column, at, data, read.oob_of(index));
                // A hole is no error of the drive that holds it.
                wrong += u64::from(block.is_none() && !self.is_hole(read, index));
                block
            })
            .collect();
        if wrong > 0 {
            self.state.borrow_mut().array.members[column.index()].errors.checksum += wrong;
            self.schedule_fault_record();
        }
        blocks
    }

    /// A block of a column, if it is the one that belongs there.
    pub(crate) fn verify(
        &self,
        zone: u32,
        generation: Generation,
        column: Column,
        at: u32,
        data: Bytes,
        oob: &[u8],
    ) -> Option<Block> {
        if self.checksums == Checksums::None {
            return Some(Block { data, sum: 0 });
        }
        let found = BlockMetadata::open(self.seed, oob, &data)?;
        let (kind, block) = self.identity(zone, column, at);
        let expected = BlockMetadata { sum: found.sum, zone, generation, block, kind };
        (found == expected).then_some(Block { data, sum: found.sum })
    }

    /// Whether a block that was read stands for one that a rebuild could not make.
    fn is_hole(&self, read: &Payload, index: usize) -> bool {
        let found = BlockMetadata::open(self.seed, read.oob_of(index), &read.block(index));
        found.is_some_and(|found| found.kind == Kind::Hole)
    }

    /// The kind of the block at a place, and its number in the metadata.
    pub(crate) fn identity(&self, zone: u32, column: Column, at: u32) -> (Kind, u32) {
        let layout = &self.layout;
        let stripe = layout.stripe_at(at);
        let role = layout.role_of(zone, stripe, column);
        let within = at - layout.row_start(stripe);
        match layout.scheme().is_data(role) {
            true => (Kind::Data, layout.stripe_start(stripe) + layout.in_stripe(role, within)),
            false => (Kind::Parity, at),
        }
    }
}
