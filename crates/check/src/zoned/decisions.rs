//! The states of zones in records: docs/format.md section Z1.

use std::collections::BTreeMap;

use crate::array::records::Placed;
use crate::format::record::Payload;
use crate::format::zoned::{REBUILT_ZONES, Rebuilt, ZoneState};

/// The decisions in the records of all valid members.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    pub(crate) zones: BTreeMap<u32, ZoneState>,
    pub(crate) published: Option<u64>,
    rebuilt: BTreeMap<(u32, u32), Rebuilt>,
}

impl Decisions {
    /// Those of each member's newest closed snapshot and of later records; of several about one
    /// thing the latest.
    pub(crate) fn of<'a>(members: impl Iterator<Item = &'a [Placed]>) -> Self {
        let mut records: Vec<_> = members.flat_map(since_snapshot).collect();
        records.sort_by_key(|placed| placed.record.sequence);
        let mut found = Self::default();
        for Placed { record, .. } in records {
            match &record.payload {
                Payload::Zones(zones) => {
                    found.zones.extend(zones.iter().map(|zone| (zone.zone, zone.clone())));
                }
                Payload::Published(mount) => found.published = Some(*mount),
                Payload::Rebuilt(rebuilt) => {
                    found.rebuilt.insert((rebuilt.slot, rebuilt.first), rebuilt.clone());
                }
                _ => {}
            }
        }
        found
    }

    /// The state of a zone.
    pub(crate) fn zone(&self, zone: u32) -> ZoneState {
        let known = self.zones.get(&zone).cloned();
        known.unwrap_or(ZoneState { zone, ..ZoneState::default() })
    }

    /// Whether a zone has the column of a member which is being rebuilt.
    pub(crate) fn has_column(&self, slot: u32, zone: u32) -> bool {
        let first = zone - zone % REBUILT_ZONES;
        self.rebuilt.get(&(slot, first)).is_some_and(|rebuilt| rebuilt.has(zone))
    }
}

/// The records of a member's newest closed snapshot, and later ones.
fn since_snapshot(records: &[Placed]) -> impl Iterator<Item = &Placed> {
    let closed = records.iter().filter_map(|placed| {
        let Payload::SnapshotEnd(count) = placed.record.payload else { return None };
        let first = placed.location.offset?.checked_sub(count)?;
        let in_zone = |one: &&Placed| one.location.zone == placed.location.zone;
        let first = records.iter().filter(in_zone).find(|at| at.location.offset == Some(first))?;
        Some((placed.record.sequence, first.record.sequence))
    });
    let since = closed.max().map_or(u64::MAX, |(_, first)| first);
    records.iter().filter(move |placed| placed.record.sequence >= since)
}
