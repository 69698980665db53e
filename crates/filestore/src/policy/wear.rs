//! Policies that level wear.
//!
//! *Least worn* opens the empty zone with the fewest resets, as eZNS does. It levels the zones that
//! are free now and then; a zone full of cold files keeps its count for good.
//!
//! *Dual pool* also opens the most worn empty zone for cold files, and moves the files of a zone
//! whose count lags behind the mean. So hot files use the zones that cold ones held, and cold files
//! rest in worn zones. The threshold bounds the blocks that are moved: a zone is moved once for as
//! many resets of the others.

use zoneweave_zoned::ZoneId;

use super::{EmptyZone, Need, Policy, UsedZone, Wear};
use crate::hint::Lifetime;

/// Resets that a zone in use may lag behind the mean: a replay of RocksDB's workloads leveled best
/// with 2 to 8.
const LAG: u64 = 4;

/// Opens the least worn empty zone.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastWornPolicy;

impl LeastWornPolicy {
    /// The name in options.
    pub const NAME: &str = "least-worn";
}

impl Policy for LeastWornPolicy {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn pick_empty(&mut self, _need: &Need, empty: &[EmptyZone], _wear: &Wear) -> Option<ZoneId> {
        least_worn(empty)
    }
}

/// Opens the least worn empty zone for hot files and the most worn one for cold files, and moves
/// cold files out of zones that lag behind.
#[derive(Clone, Copy, Debug)]
pub struct DualPoolPolicy {
    lag: u64,
}

impl DualPoolPolicy {
    /// The name in options.
    pub const NAME: &str = "dual-pool";

    /// A policy that lets zones in use lag so many resets behind the mean.
    #[must_use]
    pub const fn new(lag: u64) -> Self {
        Self { lag }
    }
}

impl Default for DualPoolPolicy {
    fn default() -> Self {
        Self::new(LAG)
    }
}

impl Policy for DualPoolPolicy {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn pick_empty(&mut self, need: &Need, empty: &[EmptyZone], _wear: &Wear) -> Option<ZoneId> {
        if need.hints.lifetime == Lifetime::Extreme {
            return empty.iter().max_by_key(|zone| zone.resets).map(|zone| zone.zone);
        }
        least_worn(empty)
    }

    fn moves_files(&self) -> bool {
        true
    }

    /// The least worn one, if it lags behind the mean and behind the empty zone that its files
    /// would get. Without the latter, cold files on a store whose worn zones are all full would
    /// move from one little worn zone to another for ever.
    fn pick_used(&mut self, used: &[UsedZone], empty: &[EmptyZone], wear: &Wear) -> Option<ZoneId> {
        let least = used.iter().min_by_key(|zone| zone.resets)?;
        let most_worn = empty.iter().map(|zone| zone.resets).max()?;
        if most_worn <= least.resets.saturating_add(self.lag) {
            return None;
        }
        let bound = (u128::from(least.resets) + u128::from(self.lag)) * wear.zones;
        (bound < wear.total).then_some(least.zone)
    }

    /// They have outlived the others, whatever was expected.
    fn lifetime_of_moved(&self, _lifetime: Lifetime) -> Lifetime {
        Lifetime::Extreme
    }
}

/// Of equals the first by number.
fn least_worn(empty: &[EmptyZone]) -> Option<ZoneId> {
    empty.iter().min_by_key(|zone| zone.resets).map(|zone| zone.zone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::Hints;

    fn pick(policy: &mut dyn Policy, lifetime: Lifetime, resets: &[u64]) -> Option<u32> {
        let need = Need { hints: Hints { lifetime, ..Hints::default() }, is_relocation: false };
        let zones = (0..).zip(resets);
        let empty: Vec<_> =
            zones.map(|(zone, resets)| EmptyZone { zone: ZoneId(zone), resets: *resets }).collect();
        let wear = resets.iter().copied().collect();
        policy.pick_empty(&need, &empty, &wear).map(|zone| zone.0)
    }

    #[test]
    fn hot_files_get_the_least_worn_zone_and_cold_ones_the_most_worn() {
        let resets = [5, 2, 9, 2];
        for lifetime in Lifetime::ALL {
            assert_eq!(pick(&mut LeastWornPolicy, lifetime, &resets), Some(1));
            let is_cold = lifetime == Lifetime::Extreme;
            let expected = Some(if is_cold { 2 } else { 1 });
            assert_eq!(pick(&mut DualPoolPolicy::default(), lifetime, &resets), expected);
        }
        assert_eq!(pick(&mut LeastWornPolicy, Lifetime::Short, &[]), None);
        assert_eq!(pick(&mut DualPoolPolicy::default(), Lifetime::Extreme, &[]), None);
    }

    #[test]
    fn files_leave_the_least_worn_zone_once_it_lags_behind_the_mean() {
        let used = |resets: &[u64]| {
            let zone = |(zone, resets): (u32, &u64)| UsedZone {
                zone: ZoneId(zone),
                lifetime: Lifetime::NotSet,
                live: 1,
                resets: *resets,
            };
            (0..).zip(resets).map(zone).collect::<Vec<_>>()
        };
        let pick = |lag, resets: &[u64], empty: &[u64]| {
            let wear = resets.iter().copied().collect();
            let empty = empty.iter().map(|resets| EmptyZone { zone: ZoneId(9), resets: *resets });
            let empty: Vec<_> = empty.collect();
            DualPoolPolicy::new(lag).pick_used(&used(resets), &empty, &wear).map(|zone| zone.0)
        };
        assert_eq!(pick(4, &[9, 1, 9], &[9]), Some(1));
        assert_eq!(pick(6, &[9, 1, 9], &[9]), None);
        assert_eq!(pick(0, &[3, 3, 3], &[9]), None);
        assert_eq!(pick(0, &[], &[9]), None);
        // Worn zones are full of cold files already: the empty ones are as little worn.
        assert_eq!(pick(4, &[90, 1, 90], &[2, 5]), None);
        assert_eq!(pick(4, &[90, 1, 90], &[2, 6]), Some(1));
        assert_eq!(pick(4, &[90, 1, 90], &[]), None);
    }
}
