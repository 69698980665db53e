//! How far a zone is readable after a crash, and its contents behind the last stripe that every
//! member holds.
//!
//! Every member's column ends at its own write pointer. A block is *there* if its column has it,
//! or the parity log has it relocated. A missing block is reconstructed from parity in place, or
//! from partial parity that includes it: any record of its stripe that ends behind it, if the
//! other blocks that the record includes are there. The zone is readable up to the first block
//! that is neither there nor can be reconstructed.
//!
//! Acknowledged data is always readable: its own write logged parity for an end behind it, and all
//! blocks before that end were on all members. RAIZN takes the highest write pointer, and checks
//! the last stripe only (§4.3): with several stripes in flight, holes may be in any of them.

use std::collections::BTreeMap;

use zoneweave_zoned::{BlockCount, zero_blocks};

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::raizn::core::Core;
use crate::raizn::format::log_record::LogKind;
use crate::raizn::recover::log_scan::LogRecord;
use crate::raizn::stripe::{Block, StripeBuffer};
use crate::scheme::{Column, Role};

/// A column behind the last stripe that every member holds.
#[derive(Default)]
pub(crate) struct ColumnTail {
    /// Whether the member has its column.
    pub(crate) is_present: bool,
    /// Column offset behind the last block that was written in place.
    pub(crate) write_pointer: u32,
    /// The blocks that are there, by column offset.
    pub(crate) blocks: BTreeMap<u32, Block>,
}

/// Partial parity of the zone: by stripe and end, the blocks of each parity unit by their number.
#[derive(Default)]
pub(crate) struct PartialParity(BTreeMap<(u32, u32), BTreeMap<(u8, u32), Block>>);

/// What a crash left of a zone.
pub(crate) struct ZoneTail {
    pub(crate) zone: u32,
    /// The first stripe that a member lacks a block of.
    pub(crate) first_stripe: u32,
    /// By slot.
    pub(crate) columns: Vec<ColumnTail>,
    pub(crate) parity: PartialParity,
    /// The length of a finished zone.
    pub(crate) finished: Option<u32>,
}

/// The readable part of a zone.
pub(crate) struct Readable {
    /// Logical block behind its last one.
    pub(crate) end: u32,
    /// The data from the tail's first stripe on.
    pub(crate) stripes: Vec<StripeBuffer>,
}

impl PartialParity {
    /// Adds a record of a member's log.
    pub(crate) fn add(&mut self, core: &Core, zone: u32, column: Column, record: &LogRecord) {
        let LogKind::Parity { parity, end, within } = record.header.kind else { return };
        let layout = &core.layout;
        let stripe = layout.stripe_of(end);
        let role = Role::of(layout.scheme().data() + usize::from(parity));
        if layout.column_of(zone, stripe, role) != column {
            return;
        }
        let blocks = self.0.entry((stripe, end)).or_default();
        let records = (within..).zip(record.blocks.iter().cloned());
        blocks.extend(records.map(|(within, block)| ((parity, within), block)));
    }
}

impl Core {
    /// Finds the readable part of a zone.
    pub(crate) fn judge(&self, tail: &ZoneTail) -> Readable {
        let layout = &self.layout;
        let first = layout.stripe_start(tail.first_stripe);
        let most = tail.finished.unwrap_or_else(|| layout.zone_blocks());
        let mut stripes: Vec<StripeBuffer> = Vec::new();
        let mut end = first;
        while end < most {
            let Some(block) = self.readable_block(tail, end) else { break };
            let stripe = layout.stripe_of(end);
            if stripes.last().is_none_or(|last| last.stripe != stripe) {
                stripes.push(StripeBuffer::new(stripe));
            }
            stripes.last_mut().expect("one was pushed").push(block);
            end += 1;
        }
        Readable { end, stripes }
    }

    /// A block that is there, or that can be reconstructed.
    fn readable_block(&self, tail: &ZoneTail, block: u32) -> Option<Block> {
        let place = self.layout.place(tail.zone, block);
        let there = tail.columns[place.column.index()].blocks.get(&place.at);
        if let Some(there) = there {
            return Some(there.clone());
        }
        let (stripe, wanted, within) = (place.stripe, place.role, place.within);
        let right = |rebuilt: &Block| self.is_right(tail.zone, stripe, wanted, within, rebuilt);
        let whole = self.chunks(tail, stripe, within, None);
        if let Some(rebuilt) = self.decode(&whole, wanted).filter(right) {
            mark(Mark::ZonedDecodedWhole);
            return Some(rebuilt);
        }
        let ends = tail.parity.0.range((stripe, block + 1)..(stripe + 1, 0)).rev();
        let mut rebuilt = ends.filter_map(|((_, end), _)| {
            let chunks = self.chunks(tail, stripe, within, Some(*end));
            self.decode(&chunks, wanted).filter(right)
        });
        let rebuilt = rebuilt.next();
        mark_if(Mark::ZonedDecodedPartial, || rebuilt.is_some());
        rebuilt
    }

    /// The blocks of a stripe at one place of its units, by role, as parity for an end counts them;
    /// with parity in place if there is no end.
    fn chunks(
        &self,
        tail: &ZoneTail,
        stripe: u32,
        within: u32,
        end: Option<u32>,
    ) -> Vec<Option<Block>> {
        let layout = &self.layout;
        let in_place = |role: Role| {
            let column = layout.column_of(tail.zone, stripe, role);
            let at = layout.row_start(stripe) + within;
            tail.columns[column.index()].blocks.get(&at).cloned()
        };
        // The parity of a finished zone's last stripe is in place, and counts what was written.
        let last = tail.finished.filter(|end| layout.stripe_of(*end) == stripe);
        let counted = end.or(last).map(|end| end - layout.stripe_start(stripe));
        let logged = end.and_then(|end| tail.parity.0.get(&(stripe, end)));
        let roles = (0..layout.scheme().columns()).map(Role::of);
        let chunks = roles.map(|role| match layout.scheme().is_data(role) {
            true if counted.is_some_and(|rest| layout.in_stripe(role, within) >= rest) => {
                Some(Block { data: zero_blocks(BlockCount(1)), sum: 0 })
            }
            true => in_place(role),
            false if end.is_none() => in_place(role),
            false => {
                let parity = layout.parity_number(role);
                logged.and_then(|blocks| blocks.get(&(parity, within)).cloned())
            }
        });
        chunks.collect()
    }
}
