//! The rule of ZenFS (`ZonedBlockDevice::AllocateIOZone`), thresholds included.
//!
//! 1. Zones with less free space than the finish threshold are finished.
//! 2. Among open zones that nobody writes and that hold live data, the best match by lifetime is
//!    taken ([`best_match`]).
//! 3. If the match is worse than 50, or there is none, an empty zone is opened, the first by
//!    number. At the limit of active zones, a match of exactly 50 is taken after all; otherwise the
//!    zone with the least room is finished first.
//!
//! An open zone without live data is taken instead of an empty one: ZenFS resets such zones, which
//! would cost an erasure.
//!
//! Where ZenFS waits for a writer to release its zone, files share zones here: blocks carry the
//! number of their file. So a store works with a single data zone.

use zoneweave_zoned::ZoneId;

use super::{Choice, EmptyZone, Need, OpenZone, Policy, View, Wear};
use crate::hint::Lifetime;

/// The zone has files of the same lifetime (`LIFETIME_DIFF_COULD_BE_WORSE`).
const COULD_BE_WORSE: u32 = 50;

/// The file would outlive the others of the zone (`LIFETIME_DIFF_NOT_GOOD`).
const NOT_GOOD: u32 = 100;

/// ZenFS's policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct LifetimePolicy;

impl LifetimePolicy {
    /// The name in options.
    pub const NAME: &str = "lifetime";
}

impl Policy for LifetimePolicy {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// The first by number, as ZenFS has it.
    fn pick_empty(&mut self, _need: &Need, empty: &[EmptyZone], _wear: &Wear) -> Option<ZoneId> {
        empty.first().map(|zone| zone.zone)
    }
}

/// How badly a file fits a zone (`GetLifeTimeDiff`). A zone of longer lifetime fits, the closer the
/// better; the file dies before the others.
fn misfit(zone: Lifetime, file: Lifetime) -> u32 {
    if matches!(file, Lifetime::NotSet | Lifetime::None) {
        return if file == zone { 0 } else { NOT_GOOD };
    }
    match u32::from(zone.number()).checked_sub(u32::from(file.number())) {
        Some(0) => COULD_BE_WORSE,
        Some(longer) => longer,
        None => NOT_GOOD,
    }
}

/// The zone that fits best, with its misfit (`GetBestOpenZoneMatch`): of equals the last by number.
#[must_use]
pub fn best_match<'a>(
    lifetime: Lifetime,
    zones: impl Iterator<Item = &'a OpenZone>,
) -> Option<(ZoneId, u32)> {
    let with_data = zones.filter(|zone| zone.live > 0);
    let matches = with_data.map(|zone| (zone.zone, misfit(zone.lifetime, lifetime)));
    matches.reduce(|best, next| if best.1 < next.1 { best } else { next })
}

/// The rule, with the empty zone left to the policy.
pub(super) fn place<P: Policy + ?Sized>(policy: &mut P, need: &Need, view: &View<'_>) -> Choice {
    let idle = || view.open.iter().filter(|zone| !zone.is_busy);
    // The threshold of ZenFS applies to each allocation but those for logs. Without an empty zone
    // to be opened instead, the rest of a zone is the space that is left.
    let threshold = u64::from(view.capacity.0) * u64::from(view.finish_percent) / 100;
    if need.hints.lifetime != Lifetime::Short
        && !view.empty.is_empty()
        && let Some(zone) = idle().find(|zone| u64::from(zone.room.0) < threshold)
    {
        return Choice::Finish(zone.zone);
    }
    let best = best_match(need.hints.lifetime, idle());
    if let Some((zone, misfit)) = best
        && (misfit < COULD_BE_WORSE || (misfit == COULD_BE_WORSE && !view.may_open))
    {
        return Choice::Append(zone);
    }
    // ZenFS would have reset this zone when its last file was deleted, and opened it again.
    if let Some(zone) = idle().find(|zone| zone.live == 0) {
        return Choice::Append(zone.zone);
    }
    if view.may_open
        && let Some(zone) = policy.pick_empty(need, view.empty, &view.wear)
    {
        return Choice::Open(zone);
    }
    if !view.may_open
        && !view.empty.is_empty()
        && let Some(zone) = idle().min_by_key(|zone| zone.room)
    {
        return Choice::Finish(zone.zone);
    }
    // ZenFS waits here for a zone to be released, or reports no space.
    share(need, view)
}

/// The best zone of all, written by others or without live data.
fn share(need: &Need, view: &View<'_>) -> Choice {
    let lifetime = need.hints.lifetime;
    let best = view.open.iter().min_by_key(|zone| misfit(zone.lifetime, lifetime));
    best.map_or(Choice::Wait, |zone| Choice::Append(zone.zone))
}

#[cfg(test)]
mod tests {
    use zoneweave_zoned::BlockCount;

    use super::*;
    use crate::hint::Hints;

    fn open(zone: u32, lifetime: Lifetime, room: u32) -> OpenZone {
        let (zone, room) = (ZoneId(zone), BlockCount(room));
        OpenZone { zone, lifetime, room, live: 1, is_busy: false, resets: 0 }
    }

    fn choose(lifetime: Lifetime, open: &[OpenZone], empty: &[u32], may_open: bool) -> Choice {
        let hints = Hints { lifetime, ..Hints::default() };
        let empty: Vec<_> =
            empty.iter().map(|zone| EmptyZone { zone: ZoneId(*zone), resets: 0 }).collect();
        let view = View {
            open,
            empty: &empty,
            wear: Wear::default(),
            may_open,
            capacity: BlockCount(100),
            finish_percent: 10,
        };
        LifetimePolicy.place(&Need { hints, is_relocation: false }, &view)
    }

    use Lifetime::{Extreme, Long, Medium, NotSet, Short};

    #[test]
    fn a_file_goes_to_the_closest_longer_lifetime() {
        let zones = [open(2, Extreme, 50), open(3, Long, 50), open(4, Short, 50)];
        assert_eq!(choose(Medium, &zones, &[9], true), Choice::Append(ZoneId(3)));
        assert_eq!(choose(Long, &zones, &[9], true), Choice::Append(ZoneId(2)));
        // The same lifetime is a match of 50: an empty zone is better.
        assert_eq!(choose(Extreme, &zones, &[9], true), Choice::Open(ZoneId(9)));
    }

    #[test]
    fn equal_lifetimes_are_taken_at_the_limit_of_active_zones() {
        let zones = [open(2, Medium, 50), open(3, Medium, 30)];
        assert_eq!(choose(Medium, &zones, &[9], false), Choice::Append(ZoneId(3)));
        // Otherwise the zone with the least room is finished for an empty one.
        assert_eq!(choose(Long, &zones, &[9], false), Choice::Finish(ZoneId(3)));
        assert_eq!(choose(NotSet, &zones, &[], false), Choice::Append(ZoneId(2)));
    }

    #[test]
    fn files_without_a_hint_go_together() {
        let zones = [open(2, Medium, 50), open(3, NotSet, 50)];
        assert_eq!(choose(NotSet, &zones, &[9], true), Choice::Append(ZoneId(3)));
        assert_eq!(choose(Lifetime::None, &zones, &[9], true), Choice::Open(ZoneId(9)));
    }

    #[test]
    fn nearly_full_zones_are_finished_but_not_for_logs() {
        let zones = [open(2, Long, 9), open(3, Long, 50)];
        assert_eq!(choose(Medium, &zones, &[9], true), Choice::Finish(ZoneId(2)));
        assert_eq!(choose(Short, &zones, &[9], true), Choice::Append(ZoneId(3)));
    }

    #[test]
    fn an_open_zone_without_live_data_is_as_good_as_an_empty_one() {
        let zones = [open(2, Medium, 50), OpenZone { live: 0, ..open(3, Short, 50) }];
        assert_eq!(choose(Extreme, &zones, &[9], true), Choice::Append(ZoneId(3)));
        assert_eq!(choose(Short, &zones, &[9], true), Choice::Append(ZoneId(2)));
    }

    #[test]
    fn zones_of_other_writers_are_shared_rather_than_waited_for() {
        let zones = [OpenZone { is_busy: true, ..open(2, Short, 50) }];
        assert_eq!(choose(Medium, &zones, &[9], false), Choice::Append(ZoneId(2)));
        assert_eq!(choose(Medium, &[], &[], true), Choice::Wait);
    }
}
