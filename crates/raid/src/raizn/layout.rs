//! The arithmetic mapping of a logical zone to its columns (RAIZN §4.1, Fig. 2).
//!
//! A logical zone has one zone on each member, its *columns*. A stripe has D data units and P
//! parity units of `unit` blocks, one on each column, all at the same offset. Parity rotates from
//! stripe to stripe, and the first column rotates from zone to zone. Nothing is looked up.
//!
//! Offsets are blocks: *logical* ones in the logical zone, *column* ones in a member's zone.

use zoneweave_journal::SEARCHED_ZONES;
use zoneweave_zoned::{BlockCount, Geometry, ZoneId};

use crate::scheme::{Column, Role, Scheme, StripeId};

/// Zones of each member before its first column: those of the superblock log, two of which are in
/// use, and those of the parity log.
pub(crate) const RESERVED_ZONES: u32 = FIRST_LOG_ZONE + 3;
const _: () = assert!(LOG_ZONES == 3 && SEARCHED_ZONES == 4);

/// The first zone of the parity log, behind those that are searched for superblock records.
pub(crate) const FIRST_LOG_ZONE: u32 = 4;

/// Zones of each member's parity log: one is written, one may be the previous one until its
/// checkpoint is durable, and one is free for the checkpoint of the next start.
pub(crate) const LOG_ZONES: usize = 3;

/// The most blocks of a stripe unit: 128 KiB.
pub(crate) const UNIT_BLOCKS_MOST: u32 = 32;

/// The shape of every logical zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    scheme: Scheme,
    unit: u32,
    /// Stripes of a zone.
    stripes: u32,
    /// Logical zones.
    zones: u32,
}

/// The place of a logical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) stripe: StripeId,
    /// The number of its data unit in the stripe.
    pub(crate) role: Role,
    /// Its number in the unit.
    pub(crate) within: u32,
    pub(crate) column: Column,
    /// Its column offset.
    pub(crate) at: u32,
}

impl Layout {
    /// The shape on members with so many zones of so many blocks; `None` if no logical zone fits.
    #[must_use]
    pub(crate) fn new(scheme: Scheme, unit: u32, capacity: BlockCount, zones: u32) -> Option<Self> {
        let stripes = capacity.0.checked_div(unit)?;
        let zones = zones.checked_sub(RESERVED_ZONES)?;
        let blocks = u64::from(stripes) * u64::from(unit) * scheme.data() as u64;
        let fits = stripes > 0 && zones > 0 && blocks <= u64::from(u32::MAX / 2);
        fits.then_some(Self { scheme, unit, stripes, zones })
    }

    #[must_use]
    pub(crate) fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The zone of each member that holds its column of a logical zone.
    #[must_use]
    pub(crate) fn column_zone(zone: u32) -> ZoneId {
        ZoneId(RESERVED_ZONES + zone)
    }

    /// The logical zone whose column a zone of a member holds, if there are so many.
    #[must_use]
    pub(crate) fn zone_of(zone: ZoneId) -> Option<ZoneId> {
        zone.0.checked_sub(RESERVED_ZONES).map(ZoneId)
    }

    /// Whether a zone of a member holds a column.
    #[must_use]
    pub(crate) fn is_column(zone: ZoneId) -> bool {
        Self::zone_of(zone).is_some()
    }

    /// Blocks of a stripe unit.
    #[must_use]
    pub(crate) fn unit(&self) -> u32 {
        self.unit
    }

    /// Logical zones.
    #[must_use]
    pub(crate) fn zones(&self) -> u32 {
        self.zones
    }

    /// Data units of a stripe.
    #[must_use]
    pub(crate) fn data(&self) -> u32 {
        u32::try_from(self.scheme.data()).expect("at most 32 chunks")
    }

    /// Logical blocks of a stripe.
    #[must_use]
    pub(crate) fn stripe_blocks(&self) -> u32 {
        self.unit * self.data()
    }

    /// Logical blocks of a zone.
    #[must_use]
    pub(crate) fn zone_blocks(&self) -> u32 {
        self.stripes * self.stripe_blocks()
    }

    /// Blocks from the start of one logical zone to that of the next, as hosts address them.
    #[must_use]
    pub(crate) fn zone_size(&self) -> u32 {
        self.zone_blocks().next_power_of_two()
    }

    /// The address of a logical zone's first block, as hosts have it.
    #[must_use]
    pub(crate) fn first_of(&self, zone: u32) -> u64 {
        u64::from(zone) * u64::from(self.zone_size())
    }

    /// Blocks of a column.
    #[must_use]
    pub(crate) fn column_blocks(&self) -> u32 {
        self.stripes * self.unit
    }

    /// The stripe of a logical block.
    #[must_use]
    pub(crate) fn stripe_of(&self, block: u32) -> StripeId {
        StripeId(block / self.stripe_blocks())
    }

    /// The first logical block of a stripe.
    #[must_use]
    pub(crate) fn stripe_start(&self, stripe: StripeId) -> u32 {
        stripe.0 * self.stripe_blocks()
    }

    /// The first column offset of a stripe.
    #[must_use]
    pub(crate) fn row_start(&self, stripe: StripeId) -> u32 {
        stripe.0 * self.unit
    }

    /// The stripe of a column offset.
    #[must_use]
    pub(crate) fn stripe_at(&self, at: u32) -> StripeId {
        StripeId(at / self.unit)
    }

    /// The column of a role in a stripe.
    #[must_use]
    pub(crate) fn column_of(&self, zone: u32, stripe: StripeId, role: Role) -> Column {
        self.scheme.column_of(role, StripeId(zone + stripe.0))
    }

    /// The role of a column in a stripe.
    #[must_use]
    pub(crate) fn role_of(&self, zone: u32, stripe: StripeId, column: Column) -> Role {
        self.scheme.role_of(column, StripeId(zone + stripe.0))
    }

    /// The roles of parity.
    pub(crate) fn parity_roles(&self) -> impl Iterator<Item = Role> + use<> {
        (self.scheme.data()..self.scheme.columns()).map(Role::of)
    }

    /// The number of a parity role among these, 0 for P.
    #[must_use]
    pub(crate) fn parity_number(&self, role: Role) -> u8 {
        let number = role.index().checked_sub(self.scheme.data()).expect("a role of parity");
        u8::try_from(number).expect("at most 32 chunks")
    }

    /// The place of a logical block.
    #[must_use]
    pub(crate) fn place(&self, zone: u32, block: u32) -> Place {
        assert!(block < self.zone_blocks(), "block {block} of a zone of {}", self.zone_blocks());
        let stripe = self.stripe_of(block);
        let in_stripe = block - self.stripe_start(stripe);
        let role = Role::of((in_stripe / self.unit) as usize);
        let within = in_stripe % self.unit;
        let column = self.column_of(zone, stripe, role);
        Place { stripe, role, within, column, at: self.row_start(stripe) + within }
    }

    /// The number in its stripe of the block `within` of a data unit.
    #[must_use]
    pub(crate) fn in_stripe(&self, role: Role, within: u32) -> u32 {
        assert!(self.scheme.is_data(role), "{role:?} has no logical blocks");
        assert!(within < self.unit, "block {within} of a unit of {}", self.unit);
        u32::from(role.0) * self.unit + within
    }

    /// Data units with a block `within`, when the first `rest` blocks of the stripe are written.
    #[must_use]
    pub(crate) fn units_with(&self, within: u32, rest: u32) -> u32 {
        rest.saturating_sub(within).div_ceil(self.unit)
    }

    /// Column offset behind the last block of a column when the zone is written up to `end`: its
    /// data below `end`, and its parity of complete stripes.
    #[must_use]
    pub(crate) fn column_end(&self, zone: u32, column: Column, end: u32) -> u32 {
        assert!(end <= self.zone_blocks(), "the end {end} of a zone of {}", self.zone_blocks());
        let stripe = self.stripe_of(end);
        let rest = end - self.stripe_start(stripe);
        if rest == 0 {
            return self.row_start(stripe);
        }
        let role = self.role_of(zone, stripe, column);
        let partial = match self.scheme.is_data(role) {
            true => rest.saturating_sub(self.in_stripe(role, 0)).min(self.unit),
            false => 0,
        };
        let column_end = self.row_start(stripe) + partial;
        assert!(column_end <= self.column_blocks(), "{column} ends at {column_end} for {end}");
        column_end
    }

    /// Blocks of the longest unit of a stripe written up to `rest` of its blocks: parity has as
    /// many.
    #[must_use]
    pub(crate) fn parity_blocks(&self, rest: u32) -> u32 {
        rest.min(self.unit)
    }

    /// Zones that may be partly written, if a parity log is to have room for its checkpoint and to
    /// go on.
    #[must_use]
    pub(crate) fn active_most(&self, zone_capacity: BlockCount) -> u32 {
        (zone_capacity.0 / (4 * (self.unit + 1))).saturating_sub(1)
    }

    /// The pieces of a logical range, one for each unit that it touches: the place of the first
    /// block, and the length.
    pub(crate) fn pieces(
        &self,
        zone: u32,
        start: u32,
        blocks: u32,
    ) -> impl Iterator<Item = (u32, Place, u32)> + use<> {
        let layout = *self;
        let end = start + blocks;
        assert!(end <= layout.zone_blocks(), "blocks {start}..{end} of {}", layout.zone_blocks());
        let mut next = start;
        std::iter::from_fn(move || {
            let place = (next < end).then(|| layout.place(zone, next))?;
            let (at, length) = (next, (layout.unit - place.within).min(end - next));
            next += length;
            Some((at, place, length))
        })
    }
}

/// Active zones of each member that a zoned volume keeps for itself: two of the superblock log, and
/// three of the parity log while a start writes its own.
pub(crate) const ACTIVE_RESERVE: u32 = 5;

/// The geometry of the volume on members of these geometries.
///
/// The limits of open and active zones are the lowest of the members, less what the volume needs
/// for itself; `None` if nothing is left.
#[must_use]
pub(crate) fn volume_geometry<'a>(
    layout: &Layout,
    members: impl Iterator<Item = &'a Geometry> + Clone,
) -> Option<Geometry> {
    let least = |limit: fn(&Geometry) -> Option<u32>| members.clone().filter_map(limit).min();
    let usable = |limit: Option<u32>| match limit {
        None => Some(None),
        Some(limit) => limit.checked_sub(ACTIVE_RESERVE).filter(|left| *left > 0).map(Some),
    };
    let max_active = usable(least(|geometry| geometry.max_active))?;
    let max_open = usable(least(|geometry| geometry.max_open))?;
    let zone_capacity = BlockCount(layout.zone_blocks());
    Some(Geometry {
        oob: zoneweave_zoned::OobKind::None,
        max_open,
        max_active: max_active.or(max_open),
        append_limit: MAX_TRANSFER,
        max_transfer: MAX_TRANSFER,
        zone_size: BlockCount(layout.zone_size()),
        volatile_cache: members.clone().any(|geometry| geometry.volatile_cache),
        ..Geometry::new(layout.zones(), zone_capacity)
    })
}

/// The largest read, write or append of a zoned volume: 4 MiB.
const MAX_TRANSFER: BlockCount = BlockCount(1024);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layouts() -> impl Strategy<Value = Layout> {
        (1_usize..5, 1_usize..3, 1_u32..9, 1_u32..6).prop_map(|(data, parity, unit, stripes)| {
            let scheme = Scheme::new(data, parity).unwrap();
            Layout::new(scheme, unit, BlockCount(unit * stripes), RESERVED_ZONES + 7).unwrap()
        })
    }

    proptest! {
        /// Written one block after the other, each block lands at the end of its column, and each
        /// parity unit behind the last block of its stripe.
        #[test]
        fn columns_are_written_in_order(layout in layouts(), zone in 0_u32..7) {
            let mut ends = vec![0; layout.scheme().columns()];
            for block in 0..layout.zone_blocks() {
                for column in layout.scheme().iter() {
                    let end = layout.column_end(zone, column, block);
                    prop_assert_eq!(end, ends[column.index()], "block {} of {}", block, column);
                }
                let place = layout.place(zone, block);
                prop_assert_eq!(place.at, ends[place.column.index()]);
                ends[place.column.index()] += 1;
                if (block + 1) % layout.stripe_blocks() == 0 {
                    for role in layout.parity_roles() {
                        ends[layout.column_of(zone, place.stripe, role).index()] += layout.unit();
                    }
                }
            }
            prop_assert!(ends.iter().all(|end| *end == layout.column_blocks()));
        }

        #[test]
        fn pieces_cover_the_range_once(layout in layouts(), zone in 0_u32..7, at: u32, length: u32) {
            let start = at % layout.zone_blocks();
            let blocks = 1 + length % (layout.zone_blocks() - start);
            let mut next = start;
            for (at, place, length) in layout.pieces(zone, start, blocks) {
                prop_assert_eq!(at, next);
                for i in 0..length {
                    let one = layout.place(zone, at + i);
                    prop_assert_eq!((one.column, one.at), (place.column, place.at + i));
                }
                next += length;
            }
            prop_assert_eq!(next, start + blocks);
        }
    }
}
