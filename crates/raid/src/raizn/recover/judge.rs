//! How far a zone is readable after a crash, and its contents behind the last stripe that every
//! member holds.
//!
//! Every member's column ends at its own write pointer. A block is *there* if its column has it,
//! or the parity log has it relocated. A missing block is reconstructed from parity in place, or
//! from partial parity that includes it, if the other blocks that the parity includes are there.
//! The zone is readable up to the first block that is neither there nor can be reconstructed.
//!
//! Records of several members go together, although they end at different blocks: a checkpoint
//! repeats the parity of one member as of a later end than the records of the others have. So
//! parity counts by the data blocks that it includes: parity of one place of the units includes
//! the first few units of the stripe, and is the same for every end that includes as many.
//!
//! Acknowledged data is always readable: its own write logged parity for an end behind it, and all
//! blocks before that end were on all members. RAIZN takes the highest write pointer, and checks
//! the last stripe only (§4.3): with several stripes in flight, holes may be in any of them.

use std::collections::BTreeMap;

use zoneweave_zoned::Status;

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::raizn::core::Core;
use crate::raizn::format::log_record::LogKind;
use crate::raizn::recover::media::LogRecord;
use crate::raizn::stripe::{Block, StripeBuffer};
use crate::scheme::{Column, Role, StripeId};

/// A column behind the last stripe that every member holds.
#[derive(Default)]
pub(crate) struct ColumnTail {
    /// Whether the member has its column.
    pub(crate) is_present: bool,
    /// Column offset behind the last block that was written in place.
    pub(crate) write_pointer: u32,
    /// The blocks that are there, by column offset.
    pub(crate) blocks: BTreeMap<u32, Block>,
    /// Places of which the drive has said nothing, and how it failed the read.
    pub(crate) unread: BTreeMap<u32, Status>,
}

impl ColumnTail {
    /// Whether a block is in its place, or may be: it is not known to be missing.
    #[must_use]
    pub(crate) fn may_have(&self, at: u32) -> bool {
        self.blocks.contains_key(&at) || self.unread.contains_key(&at)
    }
}

/// Partial parity at one place of a stripe's units.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Included {
    stripe: StripeId,
    /// The block of each unit.
    within: u32,
    /// Data units that the parity includes, from the first one on.
    units: u32,
}

/// Partial parity of the zone: the block of each parity unit by its number.
#[derive(Default)]
pub(crate) struct PartialParity(BTreeMap<Included, BTreeMap<u8, Block>>);

/// What a crash left of a zone.
pub(crate) struct ZoneTail {
    pub(crate) zone: u32,
    /// The first stripe that a member lacks a block of.
    pub(crate) first_stripe: StripeId,
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
        let rest = end - layout.stripe_start(stripe);
        for (within, block) in (within..).zip(&record.blocks) {
            let included = Included { stripe, within, units: layout.units_with(within, rest) };
            self.0.entry(included).or_default().insert(parity, block.clone());
        }
    }

    /// What parity of one place of a stripe's units includes, the most first.
    fn included(&self, stripe: StripeId, within: u32) -> impl Iterator<Item = Included> {
        let of = |units| Included { stripe, within, units };
        self.0.range(of(0)..=of(u32::MAX)).rev().map(|(included, _)| *included)
    }
}

impl Core {
    /// Finds the readable part of a zone.
    pub(crate) fn judge(&self, tail: &ZoneTail) -> Readable {
        let layout = &self.layout;
        let first = layout.stripe_start(tail.first_stripe);
        let most = tail.finished.unwrap_or_else(|| layout.zone_blocks());
        assert!(most <= layout.zone_blocks(), "zone {} ends at {most} on record", tail.zone);
        let columns = layout.scheme().columns();
        assert!(tail.columns.len() == columns, "{} of {columns} columns", tail.columns.len());
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
        let held: u32 = stripes.iter().map(StripeBuffer::filled).sum();
        assert!(held == end - first, "{held} blocks for {first}..{end} of zone {}", tail.zone);
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
        let included = tail.parity.included(stripe, within);
        let mut rebuilt =
            included.filter(|one| one.units > u32::from(wanted.0)).filter_map(|one| {
                let chunks = self.chunks(tail, stripe, within, Some(one));
                self.decode(&chunks, wanted).filter(right)
            });
        let rebuilt = rebuilt.next();
        mark_if(Mark::ZonedDecodedPartial, || rebuilt.is_some());
        rebuilt
    }

    /// The blocks of a stripe at one place of its units, by role, as partial parity includes them;
    /// with parity in place if there is none.
    fn chunks(
        &self,
        tail: &ZoneTail,
        stripe: StripeId,
        within: u32,
        partial: Option<Included>,
    ) -> Vec<Option<Block>> {
        let layout = &self.layout;
        let in_place = |role: Role| {
            let column = layout.column_of(tail.zone, stripe, role);
            let at = layout.row_start(stripe) + within;
            tail.columns[column.index()].blocks.get(&at).cloned()
        };
        // The parity of a finished zone's last stripe is in place, and counts what was written.
        let last = tail.finished.filter(|end| layout.stripe_of(*end) == stripe);
        let last = last.map(|end| layout.units_with(within, end - layout.stripe_start(stripe)));
        let units = partial.map(|one| one.units).or(last);
        let logged = partial.and_then(|one| tail.parity.0.get(&one));
        let roles = (0..layout.scheme().columns()).map(Role::of);
        let chunks = roles.map(|role| match layout.scheme().is_data(role) {
            true if units.is_some_and(|units| u32::from(role.0) >= units) => Some(Block::zeros()),
            true => in_place(role),
            false if partial.is_none() => in_place(role),
            false => logged.and_then(|blocks| blocks.get(&layout.parity_number(role)).cloned()),
        });
        chunks.collect()
    }
}
