//! The states of zones in superblock records.

use std::collections::BTreeMap;

use crate::array::format::record::SuperblockRecord;
use crate::instrument::marks::{Mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::raizn::format::body::{Mount, REBUILT_ZONES, ZonedBody};
use crate::raizn::format::zone_record::ZoneRecord;
use crate::scheme::Column;

/// What the records of all members say. Later records replace earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    pub(crate) zones: BTreeMap<u32, ZoneRecord>,
    pub(crate) published: Option<Mount>,
    rebuilt: BTreeMap<(Column, u32), Vec<u8>>,
}

impl Decisions {
    /// Those of closed snapshots and the records behind them.
    pub(crate) fn of<'a>(
        records: impl IntoIterator<Item = &'a SuperblockRecord<ZonedBody>>,
    ) -> Self {
        let mut records: Vec<_> = records.into_iter().collect();
        records.sort_by_key(|record| record.record_sequence);
        let mut found = Self::default();
        for record in records {
            match &record.body {
                ZonedBody::Zones(zones) => {
                    found.zones.extend(zones.0.iter().map(|zone| (zone.zone, zone.clone())));
                }
                ZonedBody::Published(published) => found.published = Some(published.0),
                ZonedBody::Rebuilt(rebuilt) => {
                    let key = (rebuilt.column, rebuilt.first);
                    found.rebuilt.insert(key, rebuilt.bits.clone());
                }
                ZonedBody::State
                | ZonedBody::SnapshotEnd { .. }
                | ZonedBody::Destroyed
                | ZonedBody::Faults(_)
                | ZonedBody::Scrubs(_)
                | ZonedBody::Stopped(_) => {}
            }
        }
        found
    }

    /// Whether a zone has the column of a member that is being rebuilt.
    pub(crate) fn is_rebuilt(&self, column: Column, zone: u32) -> bool {
        let first = zone - zone % REBUILT_ZONES;
        let bits = self.rebuilt.get(&(column, first));
        let at = (zone - first) as usize;
        let listed =
            bits.and_then(|bits| bits.get(at / 8)).is_some_and(|byte| byte >> (at % 8) & 1 == 1);
        mark_if(Mark::ZonedRebuiltListed, || listed);
        listed || mutant(Mutant::ZonedRebuiltTrusted)
    }
}
