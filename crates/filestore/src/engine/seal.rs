//! The end of a zone: it takes no more blocks, and the extents of all files in it go on record, so
//! that no start has to scan it.

use std::rc::Rc;

use zoneweave_zoned::{Status, ZoneId, ZonedDeviceExt};

use super::core::{Core, FromByte, State, Ticket};
use crate::error::StoreError;
use crate::format::{Entry, StoredPhase, StoredZone};
use crate::ids::{FileId, Version};
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::state::Phase;
use crate::state::snapshot::extents;

impl Core {
    /// Seals a zone that takes no more blocks, once its writes have ended.
    pub(crate) fn start_sealing(self: &Rc<Self>, zone: ZoneId) {
        let core = self.clone();
        self.handle.spawn_alone("zone sealing", async move {
            // A store that stopped seals nothing: the next start scans the zone.
            let _stopped = core.seal(zone).await;
            core.space_changed.open();
        });
    }

    async fn seal(self: &Rc<Self>, zone: ZoneId) -> Result<(), StoreError> {
        let is_partial = {
            let state = self.state();
            let entry = state.zones.get(zone);
            assert!(entry.phase == Phase::Sealing, "{zone} is {:?}", entry.phase);
            assert!(entry.in_flight == 0, "{zone} is being written");
            entry.must_finish || entry.next.0 < state.zones.capacity().0
        };
        if is_partial {
            self.finish(zone).await;
        }
        loop {
            self.make_durable().await.map_err(StoreError::Device)?;
            let (sealed, ticket) = {
                let mut state = self.state_mut();
                state.check_running()?;
                let sealed = state.record_extents_in(zone);
                let sealed = sealed || mutant(Mutant::SealedUnrecorded);
                if sealed {
                    state.record_sealed(zone);
                }
                (sealed, state.journal.last)
            };
            if sealed {
                self.until_durable(ticket).await?;
                let mut state = self.state_mut();
                let entry = state.zones.get_mut(zone);
                assert!(entry.phase == Phase::Sealing, "{zone} is {:?}", entry.phase);
                entry.phase = Phase::Sealed;
                drop(state);
                self.reset_unneeded();
                self.run_reclaim();
                return Ok(());
            }
            mark(Mark::SealWaits);
            self.run_journal();
            self.state_mut().zones.get_mut(zone).waits_for_files = true;
            self.space_changed.open();
            self.writes_ended.wait().await;
            self.state_mut().zones.get_mut(zone).waits_for_files = false;
        }
    }

    /// Makes all bytes durable that files have by now.
    ///
    /// # Errors
    /// The status of the drive's flush.
    pub(crate) async fn make_durable(&self) -> Result<(), Status> {
        if !self.device.geometry().volatile_cache {
            return Ok(());
        }
        let reached: Vec<(FileId, Version, u64)> = {
            let state = self.state();
            let files = state.dirty.iter().filter_map(|id| Some((*id, state.namespace.file(*id)?)));
            files.map(|(id, file)| (id, file.version, file.extents.length())).collect()
        };
        self.device.flush().await?;
        let mut state = self.state_mut();
        for (id, version, length) in reached {
            // Bytes behind a truncation since then are not flushed.
            if let Some(file) = state.namespace.file_mut(id)
                && file.version == version
            {
                assert!(length <= file.extents.length(), "{id} became shorter");
                file.durable = file.durable.max(length);
            }
        }
        Ok(())
    }
}

impl State {
    /// Queues the extents of files with blocks in a zone, as far as they are durable. Returns
    /// whether all blocks of files in the zone are on record then.
    fn record_extents_in(&mut self, zone: ZoneId) -> bool {
        let in_zone = |id: &&FileId| {
            let file = self.namespace.file(**id);
            file.is_some_and(|file| {
                let unrecorded = file.extents.iter().filter(|e| e.end() > file.recorded);
                file.links > 0 && unrecorded.into_iter().any(|extent| extent.at.zone == zone)
            })
        };
        let files: Vec<FileId> = self.dirty.iter().filter(in_zone).copied().collect();
        for id in files {
            self.record_extents(id);
        }
        self.first_unrecorded(zone, FromByte::Recorded).is_none()
    }

    /// Queues the extents of a file that are durable and not on record.
    pub(crate) fn record_extents(&mut self, id: FileId) -> Option<Ticket> {
        let file = self.namespace.file_mut(id).filter(|file| file.links > 0)?;
        let all = mutant(Mutant::ExtentsBeforeFlush);
        let until = if all { file.extents.length() } else { file.durable };
        if until <= file.recorded {
            return None;
        }
        let entries = extents(id, file, file.recorded, until);
        file.recorded = until;
        let mut last = None;
        for entry in entries {
            last = Some(self.record(Some(entry), Vec::new()));
        }
        self.forget_if_clean(id);
        last
    }

    /// Drops a file from those with blocks that are not on record, if all are.
    pub(crate) fn forget_if_clean(&mut self, id: FileId) {
        let is_clean = match self.namespace.file(id) {
            Some(file) => file.recorded == file.extents.length(),
            None => true,
        };
        let is_written = self.writers.get(&id).is_some_and(|writer| !writer.pending.is_empty());
        if is_clean && !is_written {
            self.dirty.remove(&id);
        }
    }

    fn record_sealed(&mut self, zone: ZoneId) {
        let entry = self.zones.get(zone);
        let (phase, known) = (StoredPhase::Sealed, entry.next.0);
        let (incarnation, lifetime) = (entry.incarnation, entry.lifetime);
        let stored = StoredZone { zone, phase, incarnation, known, lifetime };
        self.record(Some(Entry::Zone(stored)), Vec::new());
    }
}
