//! The places of a logical zone's blocks: docs/format.md, *The zoned volume*.

use crate::format::config::Config;
use crate::format::zoned::ZonedConfig;

/// The first zone of a member's parity log.
pub(crate) const LOG_ZONES: std::ops::Range<u32> = 4..7;

/// The shape of the logical zones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) data: u32,
    pub(crate) columns: u32,
    pub(crate) unit: u32,
    /// Stripes of a zone.
    pub(crate) stripes: u32,
    /// Logical zones.
    pub(crate) zones: u32,
}

impl Layout {
    /// `None` for an impossible volume.
    pub(crate) fn new(config: &Config, zoned: ZonedConfig) -> Option<Self> {
        let scheme = config.shape.scheme;
        let (data, columns) = (scheme.data_chunks, scheme.width());
        let stripes = config.zone_capacity / zoned.unit;
        let zones = config.zones.checked_sub(LOG_ZONES.end)?;
        let blocks = u64::from(stripes) * u64::from(zoned.unit) * u64::from(data);
        let possible = stripes > 0 && zones > 0 && blocks <= u64::from(u32::MAX / 2);
        possible.then_some(Self { data, columns, unit: zoned.unit, stripes, zones })
    }

    /// The zone of each member that is its column of a logical zone.
    pub(crate) fn column_zone(zone: u32) -> u32 {
        LOG_ZONES.end + zone
    }

    /// Logical blocks of a stripe.
    pub(crate) fn stripe_blocks(&self) -> u32 {
        self.data * self.unit
    }

    /// Logical blocks of a zone.
    pub(crate) fn zone_blocks(&self) -> u32 {
        self.stripes * self.stripe_blocks()
    }

    pub(crate) fn column_of(&self, zone: u32, stripe: u32, role: u32) -> usize {
        let turns = [role, stripe, zone].map(|turn| turn % self.columns);
        (turns.iter().sum::<u32>() % self.columns) as usize
    }

    pub(crate) fn role_of(&self, zone: u32, stripe: u32, column: usize) -> u32 {
        let roles = 0..self.columns;
        let mut roles = roles.filter(|role| self.column_of(zone, stripe, *role) == column);
        roles.next().expect("each column has a role")
    }

    /// Data units with a block `within` if the first `rest` blocks of a stripe are written.
    pub(crate) fn units_with(&self, within: u32, rest: u32) -> u32 {
        rest.saturating_sub(within).div_ceil(self.unit).min(self.data)
    }
}
