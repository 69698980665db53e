//! The free zones of one member.

use std::collections::BTreeSet;

use zoneweave_zoned::ZoneId;

/// Zones ready to be written, least worn first.
#[derive(Debug, Default)]
pub(crate) struct ZonePool {
    free: BTreeSet<(u64, ZoneId)>,
}

impl ZonePool {
    /// Adds a zone that was reset `resets` times.
    pub(crate) fn add(&mut self, zone: ZoneId, resets: u64) {
        let new = self.free.insert((resets, zone));
        assert!(new, "{zone} is free twice");
    }

    /// Takes the least worn zone.
    pub(crate) fn take(&mut self) -> Option<(ZoneId, u64)> {
        self.take_other_than(None)
    }

    /// Takes the least worn zone other than one.
    pub(crate) fn take_other_than(&mut self, except: Option<ZoneId>) -> Option<(ZoneId, u64)> {
        let other = |(_, zone): &&(u64, ZoneId)| Some(*zone) != except;
        let (resets, zone) = self.free.iter().find(other).copied()?;
        self.free.remove(&(resets, zone));
        Some((zone, resets))
    }

    /// Number of free zones.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.free.len()
    }
}
