//! Places the blocks of a write: data and complete parity in their columns, parity of a partial
//! stripe and blocks whose places hold junk in the parity log.

use std::ops::Range;
use std::rc::Rc;

use zoneweave_zoned::BlockCount;

use crate::array::format::config::Checksums;
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::raizn::core::{Core, State};
use crate::raizn::format::log_record::{LogHeader, LogKind};
use crate::raizn::format::metadata::{BlockMetadata, Kind, data_sum};
use crate::raizn::parity_log::LogWrite;
use crate::raizn::stripe::{Block, StripeBuffer};
use crate::raizn::zone::{ColumnWrite, Operation, PendingWrite};
use crate::scheme::{Column, StripeId};

/// Blocks of one kind for consecutive places of a column.
struct Placed<'a> {
    column: Column,
    /// Column offset of the first.
    at: u32,
    kind: Kind,
    /// Logical block of the first, for data.
    block: u32,
    blocks: &'a [Block],
}

impl Core {
    /// Submits a write: everything it needs is queued when this returns.
    pub(crate) fn issue(&self, state: &mut State, zone: u32, write: PendingWrite) {
        let PendingWrite { start, payload, fua, responder } = write;
        let BlockCount(blocks) = payload.blocks();
        let logical = &mut state.logical[zone as usize];
        assert!(start == logical.submitted, "a write at {start}, not {}", logical.submitted);
        let generation = logical.record.generation;
        let end = start + blocks;
        let operation = Rc::new(Operation::new(zone, end, fua));
        logical.operations.push_back((operation.clone(), responder, start));
        logical.submitted = end;
        let sum = |block: u32, data: &[u8]| match self.checksums {
            Checksums::None => 0,
            Checksums::Metadata => data_sum(self.seed, zone, generation, block, data),
        };
        let blocks: Vec<Block> = (start..end)
            .zip(payload.iter_blocks())
            .map(|(block, data)| Block { sum: sum(block, &data), data })
            .collect();
        let mut next = start;
        while next < end {
            let stripe = self.layout.stripe_of(next);
            let until = end.min(self.layout.stripe_start(stripe.next()));
            let part = &blocks[(next - start) as usize..(until - start) as usize];
            self.place_data(state, zone, next, part, &operation);
            self.buffer_stripe(state, zone, stripe, part);
            self.place_parity(state, zone, next..until, &operation);
            next = until;
        }
        operation.waiting.set(operation.waiting.get() - 1);
    }

    /// Adds blocks to the buffer of their stripe.
    fn buffer_stripe(&self, state: &mut State, zone: u32, stripe: StripeId, blocks: &[Block]) {
        let stripes = &mut state.logical[zone as usize].stripes;
        if stripes.back().is_none_or(|last| last.stripe != stripe) {
            let follows = stripes.back().is_none_or(|last| last.stripe.next() == stripe);
            assert!(follows, "stripe {stripe} does not follow");
            stripes.push_back(StripeBuffer::new(stripe));
        }
        let buffer = stripes.back_mut().expect("one was pushed");
        blocks.iter().for_each(|block| buffer.push(block.clone()));
        assert!(buffer.filled() <= self.layout.stripe_blocks(), "a stripe has too many blocks");
    }

    fn place_data(
        &self,
        state: &mut State,
        zone: u32,
        start: u32,
        blocks: &[Block],
        operation: &Rc<Operation>,
    ) {
        let count = count_of(blocks.len());
        for (block, place, length) in self.layout.pieces(zone, start, count) {
            let first = (block - start) as usize;
            let blocks = &blocks[first..first + length as usize];
            let (column, at) = (place.column, place.at);
            let placed = Placed { column, at, kind: Kind::Data, block, blocks };
            self.put(state, zone, placed, operation);
        }
    }

    /// Queues the parity of a stripe after a write to a range of its blocks.
    fn place_parity(
        &self,
        state: &mut State,
        zone: u32,
        written: Range<u32>,
        operation: &Rc<Operation>,
    ) {
        let layout = &self.layout;
        let stripe = layout.stripe_of(written.start);
        let first = layout.stripe_start(stripe);
        let rest = written.end - first;
        let is_complete = rest == layout.stripe_blocks();
        let within = match is_complete {
            true => 0..layout.unit(),
            false => self.changed_blocks(written.start - first..rest),
        };
        let buffer = state.logical[zone as usize].stripe(stripe).expect("it is in memory");
        let parity = buffer.parity(layout, &self.code, rest, within.clone());
        for (role, parity) in layout.parity_roles().zip(parity) {
            let column = layout.column_of(zone, stripe, role);
            let blocks: Vec<Block> = parity.into_blocks().collect();
            if is_complete {
                let at = layout.row_start(stripe);
                let placed = Placed { column, at, kind: Kind::Parity, block: at, blocks: &blocks };
                self.put(state, zone, placed, operation);
            } else if !state.lost_columns(zone).contains(column) {
                let kind = LogKind::Parity {
                    parity: layout.parity_number(role),
                    end: written.end,
                    within: within.start,
                };
                self.log(state, zone, column, kind, &blocks, operation);
            }
        }
    }

    /// Queues the parity of a zone's partial stripe for its place in the columns, where no data
    /// will follow. `None` if there is no partial stripe.
    pub(crate) fn queue_last_parity(&self, state: &mut State, zone: u32) -> Option<Rc<Operation>> {
        let layout = &self.layout;
        let logical = &state.logical[zone as usize];
        let end = logical.completed;
        let stripe = layout.stripe_of(end);
        let rest = end - layout.stripe_start(stripe);
        let buffer = logical.stripe(stripe).filter(|_| rest > 0)?;
        let within = 0..layout.parity_blocks(rest);
        let parity = buffer.parity(layout, &self.code, rest, within);
        let operation = Rc::new(Operation::new(zone, end, false));
        for (role, parity) in layout.parity_roles().zip(parity) {
            let column = layout.column_of(zone, stripe, role);
            let (at, blocks) = (layout.row_start(stripe), parity.into_blocks().collect::<Vec<_>>());
            // A finish that is repeated after a crash may find some of it in place.
            let next = state.logical[zone as usize].columns[column.index()].next;
            let there = (next.saturating_sub(at) as usize).min(blocks.len());
            let (at, blocks) = (at + count_of(there), &blocks[there..]);
            let placed = Placed { column, at, kind: Kind::Parity, block: at, blocks };
            self.put(state, zone, placed, &operation);
        }
        operation.waiting.set(operation.waiting.get() - 1);
        Some(operation)
    }

    /// The blocks of parity units that a write to a range of a stripe's blocks changes.
    pub(crate) fn changed_blocks(&self, written: Range<u32>) -> Range<u32> {
        let unit = self.layout.unit();
        let (first, last) = (written.start, written.end - 1);
        match first / unit == last / unit {
            true => first % unit..last % unit + 1,
            false => 0..self.layout.parity_blocks(written.end),
        }
    }

    /// Queues blocks for their places in a column, or for the parity log where these hold junk.
    fn put(&self, state: &mut State, zone: u32, placed: Placed<'_>, operation: &Rc<Operation>) {
        let Placed { column, at, kind, block, blocks } = placed;
        let logical = &mut state.logical[zone as usize];
        let next = &mut logical.columns[column.index()].next;
        assert!(*next == at, "a write at {at} of {column}, not {next}");
        *next = at + count_of(blocks.len());
        if state.lost_columns(zone).contains(column) {
            return;
        }
        let mut rest = blocks;
        let mut at = at;
        while !rest.is_empty() {
            let (is_junk, until) = state.logical[zone as usize].is_junk(column, at);
            let length = rest.len().min((until - at) as usize);
            let (part, behind) = rest.split_at(length);
            if is_junk {
                self.relocate(state, zone, column, at, part, operation);
            } else {
                let block = block + count_of(blocks.len() - rest.len());
                let write = self.column_write(
                    state,
                    zone,
                    Placed { column, at, kind, block, blocks: part },
                    operation,
                );
                state.logical[zone as usize].columns[column.index()].queue.push_back(write);
            }
            rest = behind;
            at += count_of(length);
        }
    }

    fn column_write(
        &self,
        state: &State,
        zone: u32,
        placed: Placed<'_>,
        operation: &Rc<Operation>,
    ) -> ColumnWrite {
        let generation = state.logical[zone as usize].record.generation;
        let mut oob = Vec::new();
        if self.checksums == Checksums::Metadata {
            for (block, contents) in (placed.block..).zip(placed.blocks) {
                let Block { sum, data } = contents;
                let metadata =
                    BlockMetadata { sum: *sum, zone, generation, block, kind: placed.kind };
                oob.extend_from_slice(&metadata.seal(self.seed, data));
            }
        }
        operation.waiting.set(operation.waiting.get() + 1);
        ColumnWrite {
            at: placed.at,
            data: placed.blocks.iter().map(|block| block.data.clone()).collect(),
            oob,
            blocks: count_of(placed.blocks.len()),
            operation: operation.clone(),
        }
    }

    /// Keeps blocks whose places hold junk in memory, and queues them for the parity log.
    fn relocate(
        &self,
        state: &mut State,
        zone: u32,
        column: Column,
        at: u32,
        blocks: &[Block],
        operation: &Rc<Operation>,
    ) {
        mark(Mark::ZonedBlockRelocated);
        let relocated = &mut state.logical[zone as usize].columns[column.index()].relocated;
        let before = relocated.len();
        relocated.extend((at..).zip(blocks.iter().cloned()));
        let added = count_of(relocated.len() - before);
        state.logs[column.index()].relocated += added;
        self.log(state, zone, column, LogKind::Relocated { at }, blocks, operation);
    }

    /// Queues a record for the parity log of a member.
    fn log(
        &self,
        state: &mut State,
        zone: u32,
        column: Column,
        kind: LogKind,
        blocks: &[Block],
        operation: &Rc<Operation>,
    ) {
        if matches!(kind, LogKind::Parity { .. }) && mutant(Mutant::ZonedParityNotAwaited) {
            let record = self.log_write(state, zone, kind, blocks, None);
            state.logs[column.index()].queue.push_back(record);
            return;
        }
        operation.waiting.set(operation.waiting.get() + 1);
        let record = self.log_write(state, zone, kind, blocks, Some(operation.clone()));
        state.logs[column.index()].enqueue(record, operation);
    }

    /// A record of the parity log.
    pub(crate) fn log_write(
        &self,
        state: &State,
        zone: u32,
        kind: LogKind,
        blocks: &[Block],
        operation: Option<Rc<Operation>>,
    ) -> LogWrite {
        let sums = blocks.iter().map(|block| [self.seed.checksum(&[&block.data]), block.sum]);
        let header = LogHeader {
            zone,
            generation: state.logical[zone as usize].record.generation,
            mount: state.published,
            kind,
            sums: sums.collect(),
        };
        let mut data = vec![header.encode(self.array)];
        data.extend(blocks.iter().map(|block| block.data.clone()));
        LogWrite { blocks: header.blocks() + 1, data, operation }
    }
}

/// A number of blocks of a stripe.
fn count_of(blocks: usize) -> u32 {
    u32::try_from(blocks).expect("at most a stripe")
}
