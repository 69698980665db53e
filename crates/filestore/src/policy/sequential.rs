//! Empty zones in turn: all zones are opened once before one is opened again.

use zoneweave_zoned::ZoneId;

use super::{EmptyZone, Need, Policy, Wear};

/// Opens empty zones in the order of their numbers, and begins anew behind the last.
#[derive(Clone, Copy, Debug, Default)]
pub struct SequentialPolicy {
    /// The zone after the last one that was opened.
    next: ZoneId,
}

impl SequentialPolicy {
    /// The name in options.
    pub const NAME: &str = "sequential";
}

impl Policy for SequentialPolicy {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn pick_empty(&mut self, _need: &Need, empty: &[EmptyZone], _wear: &Wear) -> Option<ZoneId> {
        let behind = empty.iter().find(|zone| zone.zone >= self.next);
        let zone = behind.or(empty.first())?.zone;
        self.next = ZoneId(zone.0 + 1);
        Some(zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::Hints;

    #[test]
    fn empty_zones_take_turns() {
        let need = Need { hints: Hints::default(), is_relocation: false };
        let zones = |list: &[u32]| {
            list.iter().map(|zone| EmptyZone { zone: ZoneId(*zone), resets: 0 }).collect::<Vec<_>>()
        };
        let mut policy = SequentialPolicy::default();
        let mut pick = |list: &[u32]| {
            policy.pick_empty(&need, &zones(list), &Wear::default()).map(|zone| zone.0)
        };
        assert_eq!(pick(&[2, 3, 5]), Some(2));
        assert_eq!(pick(&[2, 3, 5]), Some(3));
        assert_eq!(pick(&[2, 5]), Some(5));
        assert_eq!(pick(&[2, 5]), Some(2));
        assert_eq!(pick(&[]), None);
    }
}
