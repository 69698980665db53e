//! The stripes of a zone, from the first on, up to the end of the zone: docs/format.md section Z4.
//!
//! A start judges a zone from the first stripe on that a member lacks a block of. The blocks before
//! are written, so each of them that cannot be read is lost by itself. Behind, the first one that
//! cannot be read is the end of the zone.

use bytes::Bytes;

use crate::array::membership::Membership;
use crate::format::blocks::BLOCK_BYTES;
use crate::format::parity::Code;
use crate::format::zoned::{ZoneState, ZonedConfig};
use crate::report::{Findings, Location, Problem};
use crate::zoned::ZoneContents;
use crate::zoned::column::{Column, Context, Place};
use crate::zoned::decisions::Decisions;
use crate::zoned::layout::Layout;
use crate::zoned::log::{Logs, Sealed};

/// A zone to be checked.
pub(crate) struct Walk<'a> {
    pub(crate) membership: &'a Membership,
    pub(crate) layout: Layout,
    pub(crate) zoned: ZonedConfig,
    pub(crate) state: ZoneState,
    pub(crate) decisions: &'a Decisions,
    pub(crate) logs: &'a Logs,
}

/// A stripe as it was read.
struct Stripe {
    number: u32,
    /// By role, the blocks of its unit.
    units: Vec<Vec<Place>>,
}

impl Stripe {
    fn place(&self, role: u32, within: u32) -> &Place {
        &self.units[role as usize][within as usize]
    }

    /// Whether nothing of it is on any drive.
    fn is_empty(&self) -> bool {
        let mut places = self.units.iter().flatten();
        places.all(|place| matches!(place, Place::Unwritten | Place::Lost))
    }

    /// Whether a data block is in its place, by its number in the stripe.
    fn is_there(&self, layout: &Layout, number: u32) -> bool {
        self.place(number / layout.unit, number % layout.unit).block().is_some()
    }
}

/// Chunks of one block of each unit, by role.
type Chunks = Vec<Option<Sealed>>;

impl Walk<'_> {
    pub(crate) async fn run(
        &self,
        code: &Code,
        keep: bool,
        findings: &mut Findings,
    ) -> ZoneContents {
        let (layout, zone) = (&self.layout, self.state.zone);
        if self.state.resetting {
            return ZoneContents::default();
        }
        let most =
            self.state.finished.map_or(layout.zone_blocks(), |end| end.min(layout.zone_blocks()));
        let context = Context {
            array: self.membership.array,
            layout: *layout,
            zoned: self.zoned,
            state: &self.state,
            logs: self.logs,
        };
        let columns: Vec<_> = (0..layout.columns as usize)
            .map(|number| {
                let (members, decisions) = (self.membership, self.decisions);
                Column::of(members, self.zoned, layout, decisions, zone, number)
            })
            .collect();
        let held = self.held(&context, &columns, most);
        let written = columns.iter().flatten().map(|column| column.written).max().unwrap_or(0);
        let mut contents =
            ZoneContents { is_full: self.state.finished.is_some(), ..ZoneContents::default() };
        let mut number = 0;
        while contents.blocks < most {
            let stripe = self.read(&context, &columns, number).await;
            let first = number * layout.stripe_blocks();
            let until = most.min(first + layout.stripe_blocks());
            // A crash may come before the last parity of a finished zone is in its place: the log
            // still has it.
            let is_gone = || {
                let mut blocks = first..until;
                blocks.all(|block| self.readable(&context, &stripe, code, block).is_none())
            };
            if first < held && number * layout.unit >= written && stripe.is_empty() && is_gone() {
                self.lose_rest(held, &mut contents, findings);
                break;
            }
            for block in first..until {
                let found = match self.readable(&context, &stripe, code, block) {
                    Some(found) => {
                        let is_there = stripe.is_there(layout, block - first);
                        findings.report.counts.reconstructed_blocks += u64::from(!is_there);
                        found
                    }
                    None if block < held => {
                        contents.lost += 1;
                        findings.add(Location::default(), Problem::ZoneBlockLost { zone, block });
                        zeros()
                    }
                    None => break,
                };
                contents.blocks += 1;
                if keep {
                    contents.data.push(found.data);
                }
            }
            self.judge(&stripe, code, contents.blocks, findings);
            if contents.blocks < until {
                self.report_end(&stripe, contents.blocks, findings);
                break;
            }
            number += 1;
        }
        assert!(contents.blocks <= most, "zone {zone} is longer than it can be");
        assert!(contents.lost <= contents.blocks, "zone {zone} has lost more than it had");
        contents.is_full |= contents.blocks == layout.zone_blocks();
        let counts = &mut findings.report.counts;
        counts.stripes += u64::from(number);
        counts.mapped_blocks += u64::from(contents.blocks - contents.lost);
        counts.lost_blocks += u64::from(contents.lost);
        contents
    }

    /// Blocks that a start takes as written, whether or not they can be read.
    fn held(&self, context: &Context<'_>, columns: &[Option<Column<'_>>], most: u32) -> u32 {
        if self.state.finished.is_some() {
            return most;
        }
        let missing = columns.iter().flatten().map(|column| column.first_missing(context)).min();
        let stripe = missing.unwrap_or(0) / self.layout.unit;
        stripe * self.layout.stripe_blocks()
    }

    async fn read(
        &self,
        context: &Context<'_>,
        columns: &[Option<Column<'_>>],
        number: u32,
    ) -> Stripe {
        let layout = &self.layout;
        let mut units = vec![Vec::new(); layout.columns as usize];
        for (column, member) in columns.iter().enumerate() {
            let role = layout.role_of(self.state.zone, number, column) as usize;
            units[role] = match member {
                Some(member) => member.read(context, number).await,
                None => vec![Place::Lost; layout.unit as usize],
            };
        }
        Stripe { number, units }
    }

    /// Nothing is left of a finished zone from a stripe on: one finding for all of it, as its
    /// recorded length may be any.
    fn lose_rest(&self, end: u32, contents: &mut ZoneContents, findings: &mut Findings) {
        assert!(contents.blocks < end, "a zone that ends at {end} has {}", contents.blocks);
        let problem = Problem::ZoneCutShort { zone: self.state.zone, block: contents.blocks };
        findings.add(Location::default(), problem);
        contents.lost += end - contents.blocks;
        contents.blocks = end;
    }

    /// A block that is there, or can be reconstructed.
    fn readable(
        &self,
        context: &Context<'_>,
        stripe: &Stripe,
        code: &Code,
        block: u32,
    ) -> Option<Sealed> {
        let layout = &self.layout;
        let in_stripe = block - stripe.number * layout.stripe_blocks();
        let (role, within) = (in_stripe / layout.unit, in_stripe % layout.unit);
        if let Some(there) = stripe.place(role, within).block() {
            return Some(there.clone());
        }
        let right = |one: &Sealed| context.is_right(stripe.number, role, within, one);
        let whole = self.decoded(&self.chunks(stripe, within, None), code, role);
        if let Some(block) = whole.filter(right) {
            return Some(block);
        }
        let (zone, generation) = (self.state.zone, self.state.generation);
        let of = |units| (zone, generation, stripe.number, within, units);
        let mut included = self.logs.parity.range(of(role + 1)..=of(u32::MAX)).rev();
        included.find_map(|((.., units), _)| {
            let chunks = self.chunks(stripe, within, Some(*units));
            self.decoded(&chunks, code, role).filter(right)
        })
    }

    /// One block of each unit as partial parity of so many units includes them; as parity in place
    /// does without.
    fn chunks(&self, stripe: &Stripe, within: u32, partial: Option<u32>) -> Chunks {
        let layout = &self.layout;
        let (zone, generation) = (self.state.zone, self.state.generation);
        let included = partial.unwrap_or_else(|| self.in_place(stripe.number, within));
        let logged = partial.and_then(|units| {
            self.logs.parity.get(&(zone, generation, stripe.number, within, units))
        });
        let chunk = |role: u32| match role.checked_sub(layout.data) {
            None if role >= included => Some(zeros()),
            Some(parity) if partial.is_some() => logged?.get(&parity).cloned(),
            _ => stripe.place(role, within).block().cloned(),
        };
        (0..layout.columns).map(chunk).collect()
    }

    /// Data units that parity in place includes: fewer than all in the last stripe of a finished
    /// zone.
    fn in_place(&self, stripe: u32, within: u32) -> u32 {
        let first = stripe * self.layout.stripe_blocks();
        let rest = self.state.finished.map(|end| end.saturating_sub(first));
        let rest = rest.filter(|rest| *rest < self.layout.stripe_blocks());
        rest.map_or(self.layout.data, |rest| self.layout.units_with(within, rest))
    }

    /// The block of a role, from the chunks that are there.
    fn decoded(&self, chunks: &Chunks, code: &Code, role: u32) -> Option<Sealed> {
        let there = chunks.iter().enumerate().filter_map(|(at, one)| Some((at, one.as_ref()?)));
        let there: Vec<_> = there.take(self.layout.data as usize).collect();
        if there.len() < self.layout.data as usize {
            return None;
        }
        let data: Vec<_> = there.iter().map(|(role, one)| (*role, &one.data[..])).collect();
        let sums: Vec<_> = there.iter().map(|(role, one)| (*role, one.sum.to_le_bytes())).collect();
        let sums: Vec<_> = sums.iter().map(|(role, sum)| (*role, &sum[..])).collect();
        let data = code.decode(&data).swap_remove(role as usize);
        let sum = code.decode(&sums).swap_remove(role as usize);
        let sum = u32::from_le_bytes(sum.try_into().ok()?);
        Some(Sealed { data: data.into(), sum })
    }

    /// Reports damage of a stripe, and data and parity that differ.
    fn judge(&self, stripe: &Stripe, code: &Code, end: u32, findings: &mut Findings) {
        let layout = &self.layout;
        let first = stripe.number * layout.stripe_blocks();
        let is_in_place = end >= first + layout.stripe_blocks() || self.state.finished == Some(end);
        for within in 0..layout.unit {
            for role in 0..layout.columns {
                let problem = match stripe.place(role, within) {
                    Place::There(_) => {
                        findings.report.counts.verified_blocks += 1;
                        continue;
                    }
                    Place::Unwritten | Place::Lost => continue,
                    Place::Unreadable(status) => Problem::unreadable(*status),
                    Place::Damaged => Problem::ColumnBlockDamaged,
                    Place::Hole => Problem::Hole,
                };
                let at = stripe.number * layout.unit + within;
                findings.add(self.location(stripe.number, role, at), problem);
            }
            let units = self.in_place(stripe.number, within);
            if is_in_place && units > 0 && self.has_all(stripe, within, units) {
                self.compare(stripe, within, code, findings);
            }
        }
    }

    /// Whether parity at a place, and all data that it includes, is there.
    fn has_all(&self, stripe: &Stripe, within: u32, units: u32) -> bool {
        let roles = (0..units).chain(self.layout.data..self.layout.columns);
        roles.into_iter().all(|role| stripe.place(role, within).block().is_some())
    }

    /// Compares data with the parity in its place.
    fn compare(&self, stripe: &Stripe, within: u32, code: &Code, findings: &mut Findings) {
        let layout = &self.layout;
        let chunks = self.chunks(stripe, within, None);
        let data: Vec<_> = chunks[..layout.data as usize].iter().flatten().collect();
        assert!(data.len() == layout.data as usize, "all data of stripe {}", stripe.number);
        let bytes: Vec<_> = data.iter().map(|one| &one.data[..]).collect();
        let sums: Vec<_> = data.iter().map(|one| one.sum.to_le_bytes()).collect();
        let sums: Vec<_> = sums.iter().map(|sum| &sum[..]).collect();
        for role in layout.data..layout.columns {
            let Some(found) = &chunks[role as usize] else { continue };
            let same = code.encode(role as usize, &bytes) == found.data[..]
                && code.encode(role as usize, &sums) == found.sum.to_le_bytes();
            if !same {
                let (zone, block) =
                    (self.state.zone, stripe.number * layout.stripe_blocks() + within);
                let problem = match self.zoned.checksums {
                    true => Problem::ZoneParityDiffers { zone, block },
                    false => Problem::ZoneParityUnclear { zone, block },
                };
                let at = stripe.number * layout.unit + within;
                findings.add(self.location(stripe.number, role, at), problem);
            }
        }
    }

    /// A zone that ends before a damaged block has lost data.
    fn report_end(&self, stripe: &Stripe, end: u32, findings: &mut Findings) {
        let layout = &self.layout;
        let in_stripe = end - stripe.number * layout.stripe_blocks();
        let (role, within) = (in_stripe / layout.unit, in_stripe % layout.unit);
        let place = stripe.place(role, within);
        if matches!(place, Place::Damaged | Place::Hole | Place::Unreadable(_)) {
            let problem = Problem::ZoneCutShort { zone: self.state.zone, block: end };
            findings.add(Location::default(), problem);
        }
    }

    fn location(&self, stripe: u32, role: u32, at: u32) -> Location {
        let column = self.layout.column_of(self.state.zone, stripe, role);
        let member = self.membership.members.get(column).and_then(Option::as_ref);
        let drive = member.map(|member| Location::drive(member.drive.number));
        drive.unwrap_or_default().zone(Layout::column_zone(self.state.zone)).offset(at)
    }
}

/// A block that counts as zeros.
fn zeros() -> Sealed {
    Sealed { data: Bytes::from_static(&[0; BLOCK_BYTES]), sum: 0 }
}
