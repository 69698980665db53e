//! A member's column of a logical zone.

use zoneweave_zoned::{Status, ZoneState as DriveZone};

use crate::array::membership::{Member, Membership};
use crate::drive::{Drive, ReadBlock, is_blank};
use crate::format::fields::Array;
use crate::format::record::MemberState;
use crate::format::zoned::{DATA, HOLE, Junk, Metadata, PARITY, ZoneState, ZonedConfig};
use crate::zoned::decisions::Decisions;
use crate::zoned::layout::Layout;
use crate::zoned::log::{Logs, Sealed};

/// A place of a column.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// The member lacks the column.
    Lost,
    /// Nothing of the zone was written there.
    Unwritten,
    /// The block cannot be read.
    Unreadable(Status),
    /// The block does not verify.
    Damaged,
    /// A rebuild could not make the block.
    Hole,
    There(Sealed),
}

impl Place {
    pub(crate) fn block(&self) -> Option<&Sealed> {
        match self {
            Self::There(block) => Some(block),
            _ => None,
        }
    }
}

/// The column that a member has of a zone.
pub(crate) struct Column<'a> {
    pub(crate) number: usize,
    drive: &'a Drive,
    /// The write pointer.
    pub(crate) written: u32,
}

impl<'a> Column<'a> {
    /// The column of a slot; `None` if it is lost.
    pub(crate) fn of(
        membership: &'a Membership,
        zoned: ZonedConfig,
        layout: &Layout,
        decisions: &Decisions,
        zone: u32,
        number: usize,
    ) -> Option<Self> {
        let member: &Member = membership.members.get(number)?.as_ref()?;
        let slot = u32::try_from(number).ok()?;
        if member.state == MemberState::Rebuilding && !decisions.has_column(slot, zone) {
            return None;
        }
        let physical = Layout::column_zone(zone);
        let info = member.drive.readable_zones().find(|info| info.zone.0 == physical)?;
        // Nothing but its write pointer would show what a read-only column holds.
        if info.state == DriveZone::ReadOnly && !zoned.checksums {
            return None;
        }
        let written = info.write_pointer.0.min(layout.stripes * layout.unit);
        Some(Self { number, drive: &member.drive, written })
    }

    /// The first place without its block: behind the last one, or with junk and nothing in the
    /// parity log. A start judges the zone from its stripe on.
    pub(crate) fn first_missing(&self, context: &Context<'_>) -> u32 {
        let holds = |junk: &&Junk| usize::from(junk.column) == self.number;
        let junk = context.state.junk.iter().filter(holds);
        let mut places = junk.flat_map(|junk| junk.start..junk.end.min(self.written));
        let missing = places.find(|at| context.relocated(self.number, *at).block().is_none());
        missing.unwrap_or(self.written)
    }

    /// Reads the column's unit of a stripe.
    pub(crate) async fn read(&self, context: &Context<'_>, stripe: u32) -> Vec<Place> {
        let unit = context.layout.unit;
        let start = stripe * unit;
        let there = self.written.saturating_sub(start).min(unit);
        let physical = Layout::column_zone(context.state.zone);
        let mut read = Vec::new();
        if there > 0 {
            read = self.drive.read(physical, start, there).await;
        }
        let mut places = Vec::with_capacity(unit as usize);
        for at in start..start + unit {
            let place = match context.is_junk(self.number, at) {
                true => context.relocated(self.number, at),
                false => match read.get((at - start) as usize) {
                    None => Place::Unwritten,
                    // A finished drive zone has blank blocks below its write pointer.
                    Some(block)
                        if context.is_behind(self.number, at)
                            || context.state.finished.is_some() && is_unwritten(block) =>
                    {
                        Place::Unwritten
                    }
                    Some(Ok(block)) => context.verify(self.number, at, &block.data, &block.oob),
                    Some(Err(status)) => Place::Unreadable(*status),
                },
            };
            places.push(place);
        }
        places
    }
}

/// Whether a block was never written: those with checksums have metadata.
fn is_unwritten(block: &ReadBlock) -> bool {
    block.as_ref().map_or(true, |block| !block.oob.is_empty()) && is_blank(block)
}

/// What decides about the blocks of a zone.
pub(crate) struct Context<'a> {
    pub(crate) array: Array,
    pub(crate) layout: Layout,
    pub(crate) zoned: ZonedConfig,
    pub(crate) state: &'a ZoneState,
    pub(crate) logs: &'a Logs,
}

impl Context<'_> {
    fn is_junk(&self, column: usize, at: u32) -> bool {
        let holds = |junk: &&Junk| usize::from(junk.column) == column;
        self.state.junk.iter().filter(holds).any(|junk| (junk.start..junk.end).contains(&at))
    }

    /// Whether a place is behind the end of a finished zone.
    fn is_behind(&self, column: usize, at: u32) -> bool {
        let Some(end) = self.state.finished else { return false };
        let stripe = at / self.layout.unit;
        let rest = end.saturating_sub(stripe.saturating_mul(self.layout.stripe_blocks()));
        let within = at % self.layout.unit;
        match self.layout.role_of(self.state.zone, stripe, column) {
            role if role < self.layout.data => role * self.layout.unit + within >= rest,
            _ => within >= rest,
        }
    }

    /// The block of a place with junk.
    fn relocated(&self, column: usize, at: u32) -> Place {
        let key = (self.state.zone, self.state.generation, column, at);
        self.logs.relocated.get(&key).cloned().map_or(Place::Unwritten, Place::There)
    }

    /// What is in a place: the block that belongs there, or another.
    fn verify(&self, column: usize, at: u32, data: &bytes::Bytes, oob: &[u8]) -> Place {
        if !self.zoned.checksums {
            return Place::There(Sealed { data: data.clone(), sum: 0 });
        }
        let Some(found) = Metadata::parse(self.array, oob, data) else { return Place::Damaged };
        let stripe = at / self.layout.unit;
        let role = self.layout.role_of(self.state.zone, stripe, column);
        let within = at % self.layout.unit;
        let (kind, block) = match role < self.layout.data {
            true => {
                let first = stripe * self.layout.stripe_blocks();
                (DATA, first + role * self.layout.unit + within)
            }
            false => (PARITY, at),
        };
        let (zone, generation) = (self.state.zone, self.state.generation);
        let expected = Metadata { sum: found.sum, zone, generation, block, kind };
        match found {
            _ if found == expected => Place::There(Sealed { data: data.clone(), sum: found.sum }),
            _ if found == (Metadata { kind: HOLE, ..expected }) => Place::Hole,
            _ => Place::Damaged,
        }
    }

    /// Whether a reconstructed data block is the one with the reconstructed checksum.
    pub(crate) fn is_right(&self, stripe: u32, role: u32, within: u32, block: &Sealed) -> bool {
        let first = stripe * self.layout.stripe_blocks();
        let number = first + role * self.layout.unit + within;
        let (zone, generation) = (self.state.zone, self.state.generation);
        let sum = |data: &[u8]| self.array.zoned_checksum(zone, number, generation, data);
        !self.zoned.checksums || sum(&block.data) == block.sum
    }
}
