//! The inter-zone part of WA-Zone (section 4.1): a file gets a zone as worn as it is cold.
//!
//! Files have a hotness from 1 (hot) to [`LEVELS`] (cold). Levels 0 and 1 of the LSM tree, logs and
//! manifests have 1, deeper levels their number (equation 1). The range of resets is divided into
//! as many levels (equation 2). *Free zone allocation* (algorithm 1) opens a zone whose level is
//! the hotness, or the one nearest in wear. *Cold data migration* (algorithm 2) moves the files of
//! a zone out that is less worn than they are cold, so that hot files can use it.
//!
//! The algorithms as printed contradict themselves in places. The readings here:
//! - The searches of algorithm 1 end at the nearest level. As printed, they go on to the farthest.
//! - DM and DS are infinite if no zone is found. As printed, they have no value.
//! - Every zone has level 1 while R is 0, as at the start.
//! - Section 4.1 has migration after a file got a zone more worn than it is cold, and after it got
//!   a less worn one: [`Trigger`] selects. The smaller level of zone and file is searched.
//! - Algorithm 2 takes zones full of valid data, too: cold zones are full.
//! - The hotness of a zone is that of the lifetime that it was opened for.
//! - A migration triggers no other one.

use zoneweave_zoned::ZoneId;

use super::{EmptyZone, Need, Policy, UsedZone, Wear};
use crate::hint::{Hints, Lifetime};

/// Levels of hotness and of wear: the lifetimes of RocksDB 7.8 tell three kinds of tables apart.
const LEVELS: u8 = 3;

/// When cold files are migrated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trigger {
    /// A file got a zone more worn than it is cold (example of section 4.1, section 5.3): the less
    /// worn ones are held by cold files.
    #[default]
    MoreWorn,
    /// A file got a zone less worn than it is cold (section 4.1): it will hold back that zone.
    LessWorn,
}

/// Opens zones as worn as files are cold, and moves cold files out of zones with little wear.
#[derive(Clone, Copy, Debug, Default)]
pub struct WearAwarePolicy {
    trigger: Trigger,
    /// The level of wear that is to be searched for cold files.
    searched: Option<u8>,
}

impl WearAwarePolicy {
    /// The name in options.
    pub const NAME: &str = "wear-aware";

    /// A policy with one of the two readings of its trigger.
    #[must_use]
    pub const fn new(trigger: Trigger) -> Self {
        Self { trigger, searched: None }
    }
}

impl Policy for WearAwarePolicy {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn pick_empty(&mut self, need: &Need, empty: &[EmptyZone], wear: &Wear) -> Option<ZoneId> {
        let hotness = hotness(need.hints);
        let zone = free_zone(hotness, empty, wear)?;
        let level = level_of(zone.resets, wear);
        let triggers = match self.trigger {
            Trigger::MoreWorn => level > hotness,
            Trigger::LessWorn => level < hotness,
        };
        if triggers && !need.is_relocation {
            self.searched = Some(level.min(hotness));
        }
        Some(zone.zone)
    }

    fn moves_files(&self) -> bool {
        self.searched.is_some()
    }

    /// Of the searched level, a zone of the coldest files, with the least live data (algorithm 2).
    fn pick_used(
        &mut self,
        used: &[UsedZone],
        _empty: &[EmptyZone],
        wear: &Wear,
    ) -> Option<ZoneId> {
        let searched = self.searched.take()?;
        let colder = used.iter().filter(|zone| {
            level_of(zone.resets, wear) == searched && hotness_of(zone.lifetime) > searched
        });
        let coldest = colder.min_by_key(|zone| (LEVELS - hotness_of(zone.lifetime), zone.live));
        coldest.map(|zone| zone.zone)
    }
}

/// Equation 1, by the level of the LSM tree if it is known, by the lifetime otherwise.
fn hotness(hints: Hints) -> u8 {
    match hints.level {
        Some(level) => level.clamp(1, LEVELS),
        None => hotness_of(hints.lifetime),
    }
}

fn hotness_of(lifetime: Lifetime) -> u8 {
    match lifetime {
        Lifetime::NotSet | Lifetime::None | Lifetime::Short | Lifetime::Medium => 1,
        Lifetime::Long => 2,
        Lifetime::Extreme => LEVELS,
    }
}

/// The level of wear of a zone (equation 2).
fn level_of(resets: u64, wear: &Wear) -> u8 {
    assert!(resets >= wear.least && resets <= wear.most, "{resets} resets, of all {wear:?}");
    let range = u128::from(wear.most - wear.least);
    let above = u128::from(resets - wear.least) * u128::from(LEVELS);
    let segment = above.checked_div(range).unwrap_or(0);
    u8::try_from(segment + 1).map_or(LEVELS, |level| level.min(LEVELS))
}

/// Algorithm 1.
fn free_zone(hotness: u8, empty: &[EmptyZone], wear: &Wear) -> Option<EmptyZone> {
    assert!((1..=LEVELS).contains(&hotness), "hotness {hotness}");
    let level = |zone: &&EmptyZone| level_of(zone.resets, wear);
    let same = empty.iter().filter(|zone| level(zone) == hotness);
    if let Some(zone) = same.min_by_key(|zone| zone.resets) {
        return Some(*zone);
    }
    // The most worn zone of the nearest level below, and the least worn of the nearest above.
    let below = empty.iter().filter(|zone| level(zone) < hotness).max_by_key(|zone| zone.resets);
    let above = empty.iter().filter(|zone| level(zone) > hotness).min_by_key(|zone| zone.resets);
    // Distances to the borders of the level, times the number of levels.
    let levels = u128::from(LEVELS);
    let scaled = |resets: u64| u128::from(resets - wear.least) * levels;
    let range = u128::from(wear.most - wear.least);
    let to_below =
        |zone: &EmptyZone| (range * u128::from(hotness - 1)).abs_diff(scaled(zone.resets));
    let to_above = |zone: &EmptyZone| (range * u128::from(hotness)).abs_diff(scaled(zone.resets));
    match (below, above) {
        (Some(below), Some(above)) if to_below(below) <= to_above(above) => Some(*below),
        (below, None) => below.copied(),
        (_, above) => above.copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LEVEL: Hints = Hints { lifetime: Lifetime::NotSet, level: None, expected_bytes: 0 };

    /// All zones of a store, some of which are empty.
    fn pick(policy: &mut WearAwarePolicy, level: u8, all: &[u64], empty: &[u32]) -> Option<u32> {
        let hints = Hints { level: Some(level), ..NO_LEVEL };
        let need = Need { hints, is_relocation: false };
        let zone = |zone: &u32| EmptyZone { zone: ZoneId(*zone), resets: all[*zone as usize] };
        let empty: Vec<_> = empty.iter().map(zone).collect();
        let wear = all.iter().copied().collect();
        policy.pick_empty(&need, &empty, &wear).map(|zone| zone.0)
    }

    #[test]
    fn equal_wear_is_level_one() {
        let wear = [5, 5].into_iter().collect();
        assert_eq!(level_of(5, &wear), 1);
        let wear = [0, 9].into_iter().collect();
        assert_eq!([0, 2, 3, 5, 6, 9].map(|resets| level_of(resets, &wear)), [1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn hotness_is_that_of_equation_one() {
        let of = |level| hotness(Hints { level, ..NO_LEVEL });
        assert_eq!([Some(0), Some(1), Some(2), Some(3), Some(6)].map(of), [1, 1, 2, 3, 3]);
        assert_eq!(Lifetime::ALL.map(hotness_of), [1, 1, 1, 1, 2, 3]);
    }

    #[test]
    fn a_file_gets_a_zone_of_its_level_or_the_nearest_in_wear() {
        let mut policy = WearAwarePolicy::default();
        // Levels 1, 1, 2, 3, 3.
        let all = [0, 2, 4, 7, 9];
        assert_eq!(pick(&mut policy, 1, &all, &[0, 1, 2, 3, 4]), Some(0));
        assert_eq!(pick(&mut policy, 2, &all, &[0, 1, 2, 3, 4]), Some(2));
        assert_eq!(pick(&mut policy, 3, &all, &[0, 1, 2, 3, 4]), Some(3));
        // The borders of level 2 are 3 and 6: zone 1 is 1 below, zone 3 is 1 above.
        assert_eq!(pick(&mut policy, 2, &all, &[0, 1, 3, 4]), Some(1));
        assert_eq!(pick(&mut policy, 2, &all, &[0, 3, 4]), Some(3));
        // As printed, the search would end at the farthest level.
        assert_eq!(pick(&mut policy, 3, &all, &[0, 2]), Some(2));
        assert_eq!(pick(&mut policy, 1, &all, &[2, 4]), Some(2));
        assert_eq!(pick(&mut policy, 1, &all, &[]), None);
    }

    #[test]
    fn cold_files_are_migrated_after_the_trigger_and_once() {
        let all = [0, 2, 4, 7, 9];
        let wear = all.into_iter().collect();
        let used =
            |zone, lifetime, live, resets| UsedZone { zone: ZoneId(zone), lifetime, live, resets };
        let zones = [
            used(0, Lifetime::Long, 1, 0),
            used(1, Lifetime::Extreme, 9, 2),
            used(2, Lifetime::Extreme, 1, 4),
        ];
        let mut policy = WearAwarePolicy::new(Trigger::MoreWorn);
        assert_eq!(pick(&mut policy, 1, &all, &[1, 4]), Some(1));
        assert!(!policy.moves_files(), "the level was right");
        assert_eq!(pick(&mut policy, 1, &all, &[4]), Some(4));
        assert!(policy.moves_files());
        // The coldest of level 1, although fuller.
        assert_eq!(policy.pick_used(&zones, &[], &wear), Some(ZoneId(1)));
        assert_eq!(policy.pick_used(&zones, &[], &wear), None);
        let mut policy = WearAwarePolicy::new(Trigger::LessWorn);
        assert_eq!(pick(&mut policy, 1, &all, &[4]), Some(4));
        assert!(!policy.moves_files());
        assert_eq!(pick(&mut policy, 3, &all, &[2]), Some(2));
        assert_eq!(policy.pick_used(&zones, &[], &wear), Some(ZoneId(2)));
    }
}
