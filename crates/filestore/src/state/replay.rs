//! Building the state from the records of the metadata log.
//!
//! Records are intact, but hostile: each entry is checked against the state that it changes, and
//! the result as a whole for blocks that two extents share.

use std::collections::BTreeMap;

use zoneweave_zoned::{BlockCount, ZoneAddress, ZoneId, ZoneOffset};

use super::extents::BlockRun;
use super::namespace::Namespace;
use super::zones::{Phase, ZoneTable};
use crate::error::Inconsistency;
use crate::format::{Entry, StoredPhase, StoredZone, Superblock};
use crate::ids::{FileId, Incarnation};

/// The state as records build it.
#[derive(Debug)]
pub(crate) struct Replay {
    /// The store.
    pub(crate) superblock: Superblock,
    /// Files and directories.
    pub(crate) namespace: Namespace,
    /// Zones in use, by number.
    pub(crate) zones: BTreeMap<ZoneId, StoredZone>,
    /// The lowest use of a zone that was never recorded.
    pub(crate) next_incarnation: Incarnation,
}

impl Replay {
    /// The state after all entries.
    ///
    /// # Errors
    /// The first contradiction.
    pub(crate) fn of<'a>(
        entries: impl IntoIterator<Item = &'a Entry>,
    ) -> Result<Self, Inconsistency> {
        let mut entries = entries.into_iter();
        let Some(Entry::Superblock(superblock)) = entries.next() else {
            return Err(Inconsistency::Superblock);
        };
        let mut replay = Self {
            superblock: superblock.clone(),
            namespace: Namespace::new(superblock.layout),
            zones: BTreeMap::new(),
            next_incarnation: Incarnation(1),
        };
        for entry in entries {
            replay.apply(entry)?;
        }
        Ok(replay)
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), Inconsistency> {
        match entry {
            Entry::Superblock(_) => Err(Inconsistency::Superblock),
            Entry::Counters { next_file, next_incarnation } => {
                if *next_file < self.namespace.next_file
                    || *next_incarnation < self.next_incarnation
                {
                    return Err(Inconsistency::Counter);
                }
                self.namespace.next_file = *next_file;
                self.next_incarnation = *next_incarnation;
                Ok(())
            }
            Entry::Zone(zone) => self.record_zone(zone),
            Entry::Extents { id, offset, hints, modified, extents } => {
                let unknown = Inconsistency::Kind(*id);
                let file = self.namespace.file_mut(*id).ok_or(unknown)?;
                if file.extents.length() != *offset {
                    return Err(Inconsistency::Extent(*id));
                }
                for extent in extents {
                    if !file.extents.push_stored(extent) {
                        return Err(Inconsistency::Extent(*id));
                    }
                }
                (file.hints, file.modified) = (*hints, *modified);
                file.recorded = file.extents.length();
                file.durable = file.recorded;
                Ok(())
            }
            Entry::Move { id, offset, bytes, from, to, blocks } => {
                let file = self.namespace.file_mut(*id).ok_or(Inconsistency::Kind(*id))?;
                let run = BlockRun { at: *from, blocks: *blocks };
                let moved = file.extents.relocate(*offset, *bytes, run, *to);
                if moved { Ok(()) } else { Err(Inconsistency::Extent(*id)) }
            }
            names => self.namespace.apply(names).map(drop),
        }
    }

    fn record_zone(&mut self, zone: &StoredZone) -> Result<(), Inconsistency> {
        let refused = Inconsistency::Zone(zone.zone);
        let is_metadata = self.superblock.metadata_zones.contains(&zone.zone);
        let capacity = self.superblock.zone_capacity.0;
        if zone.zone.0 >= self.superblock.zones || is_metadata || zone.known > capacity {
            return Err(refused);
        }
        if zone.incarnation.0 == u64::MAX {
            return Err(Inconsistency::Counter);
        }
        let is_later = |before: &StoredZone| before.incarnation <= zone.incarnation;
        if !self.zones.get(&zone.zone).is_none_or(is_later) {
            return Err(refused);
        }
        self.next_incarnation = self.next_incarnation.max(zone.incarnation.next());
        self.zones.insert(zone.zone, *zone);
        Ok(())
    }

    /// The table of zones, with the live blocks of all files counted.
    ///
    /// # Errors
    /// If an extent is in a zone that is not in use, beyond its end, or shares a block.
    pub(crate) fn zone_table(&self) -> Result<ZoneTable, Inconsistency> {
        let Superblock { zones, zone_capacity, write_unit, metadata_zones, .. } = self.superblock;
        let mut table = ZoneTable::new(zones, zone_capacity, write_unit, metadata_zones);
        for stored in self.zones.values() {
            let zone = table.get_mut(stored.zone);
            zone.phase = match stored.phase {
                StoredPhase::Open => Phase::Open,
                StoredPhase::Sealed => Phase::Sealed,
            };
            zone.incarnation = stored.incarnation;
            (zone.known, zone.lifetime) = (stored.known, stored.lifetime);
        }
        let mut used: BTreeMap<(ZoneId, ZoneOffset), u32> = BTreeMap::new();
        for (id, file) in self.namespace.files() {
            for run in file.extents.runs() {
                self.check_run(id, run)?;
                if used.insert((run.at.zone, run.at.offset), run.blocks.0).is_some() {
                    return Err(Inconsistency::Overlap(run.at.zone));
                }
            }
        }
        let pairs = used.iter().zip(used.iter().skip(1));
        for (((zone, offset), blocks), ((next_zone, next), _)) in pairs {
            if zone == next_zone && offset.0 + blocks > next.0 {
                return Err(Inconsistency::Overlap(*zone));
            }
        }
        for ((zone, offset), blocks) in used {
            let at = ZoneAddress { zone, offset };
            table.add_live(BlockRun { at, blocks: BlockCount(blocks) });
        }
        Ok(table)
    }

    fn check_run(&self, id: FileId, run: BlockRun) -> Result<(), Inconsistency> {
        if !self.zones.contains_key(&run.at.zone) {
            return Err(Inconsistency::Zone(run.at.zone));
        }
        let end = run.at.offset.0.checked_add(run.blocks.0);
        if end.is_none_or(|end| end > self.superblock.zone_capacity.0) {
            return Err(Inconsistency::Extent(id));
        }
        Ok(())
    }
}
