//! The metadata log: one task writes the changes of all callers, as many in a record as fit.
//!
//! Changes are queued in the order in which they were applied. While a record is being written,
//! more are queued; the next record takes all that fit. If the metadata zone is full, or fails, a
//! snapshot of the state goes to its twin: it contains every change that was queued by then.

use std::rc::Rc;

use zoneweave_journal::{Appended, TwinLog};
use zoneweave_zoned::{BlockCount, Status, ZoneAction, ZonedDeviceExt};

use super::core::{Core, FromByte, Item, State, Ticket};
use crate::error::{StopReason, StoreError};
use crate::format::{Entry, Part, RecordBuilder, StoredPhase, StoredZone};
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::state::snapshot::snapshot;
use crate::state::{BlockRun, Phase};

impl State {
    /// Queues a change, whose blocks are free once it is durable. The caller has applied it, and
    /// then calls [`Core::run_journal`].
    pub(crate) fn record(&mut self, entry: Option<Entry>, freed: Vec<BlockRun>) -> Ticket {
        assert!(self.journal.durable <= self.journal.last, "durable before it was queued");
        let early = match entry {
            Some(Entry::Move { .. }) => mutant(Mutant::ResetBeforeMoveRecorded),
            _ => mutant(Mutant::ResetBeforeRecord),
        };
        let freed = if early {
            freed.into_iter().for_each(|run| self.zones.free(run));
            Vec::new()
        } else {
            freed
        };
        self.journal.last.0 += 1;
        let ticket = self.journal.last;
        self.journal.items.push_back(Item { ticket, entry, freed });
        ticket
    }

    /// Removes the first items, which are durable, and frees their blocks.
    fn settle(&mut self, count: usize) {
        for item in self.journal.items.drain(..count) {
            assert!(item.ticket > self.journal.durable, "{:?} is durable twice", item.ticket);
            self.journal.durable = item.ticket;
            for run in item.freed {
                self.zones.free(run);
            }
        }
    }

    /// The zones of a snapshot.
    fn stored_zones(&self) -> Vec<StoredZone> {
        let in_use = self.zones.iter().filter_map(|(zone, entry)| {
            let phase = match entry.phase {
                Phase::Opening | Phase::Open | Phase::Sealing => StoredPhase::Open,
                Phase::Sealed => StoredPhase::Sealed,
                _ => return None,
            };
            let known = match phase {
                StoredPhase::Sealed => entry.next.0,
                StoredPhase::Open if mutant(Mutant::SnapshotKnowsAll) => entry.next.0,
                StoredPhase::Open => {
                    let first = self.first_unrecorded(zone, FromByte::Durable);
                    first.unwrap_or(entry.next.0)
                }
            };
            let (incarnation, lifetime) = (entry.incarnation, entry.lifetime);
            Some(StoredZone { zone, phase, incarnation, known, lifetime })
        });
        in_use.collect()
    }

    /// The entries of a snapshot, and all that they contain counts as recorded.
    fn snapshot_entries(&mut self) -> Vec<Entry> {
        let zones = self.stored_zones();
        let entries = snapshot(&self.superblock, &self.namespace, zones, self.next_incarnation);
        for id in self.dirty.clone() {
            if let Some(file) = self.namespace.file_mut(id).filter(|file| file.links > 0) {
                file.recorded = file.recorded.max(file.durable);
            }
            self.forget_if_clean(id);
        }
        entries
    }
}

impl Core {
    /// Starts the journal task if there are changes and it does not run.
    pub(crate) fn run_journal(self: &Rc<Self>) {
        if mutant(Mutant::ResetBeforeRecord) || mutant(Mutant::ResetBeforeMoveRecorded) {
            self.reset_unneeded();
        }
        let mut state = self.state_mut();
        if state.journal.is_running || state.journal.items.is_empty() || state.stopped.is_some() {
            return;
        }
        state.journal.is_running = true;
        drop(state);
        self.handle.spawn_alone("journal", self.clone().write_changes());
    }

    /// Waits until a change is durable.
    ///
    /// # Errors
    /// If the store stopped before.
    pub(crate) async fn until_durable(self: &Rc<Self>, ticket: Ticket) -> Result<(), StoreError> {
        self.run_journal();
        if mutant(Mutant::AckBeforeRecord) {
            return Ok(());
        }
        loop {
            {
                let state = self.state();
                if state.journal.durable >= ticket {
                    return Ok(());
                }
                state.check_running()?;
            }
            self.journal_moved.wait().await;
        }
    }

    async fn write_changes(self: Rc<Self>) {
        loop {
            let (record, count) = {
                let mut state = self.state_mut();
                let (record, count) = first_record(&state.journal.items);
                if count == 0 {
                    state.journal.is_running = false;
                    return;
                }
                (record, count)
            };
            if count > 1 {
                mark(Mark::ChangesShareRecord);
            }
            let written =
                if record.is_empty() { Ok(count) } else { self.write(record, count).await };
            match written {
                Ok(count) => self.state_mut().settle(count),
                Err(reason) => {
                    self.state_mut().journal.is_running = false;
                    return self.stop(reason);
                }
            }
            self.journal_moved.open();
            self.space_changed.open();
            self.reset_unneeded();
            self.retry_reclaim();
            self.run_reclaim();
        }
    }

    /// Writes a record of the first `count` changes; returns how many are durable.
    async fn write(&self, record: RecordBuilder, count: usize) -> Result<usize, StopReason> {
        let mut log = self.log.borrow().clone();
        if log.has_room(self.device.geometry()) {
            let sequence = self.take_sequences(1);
            let has_metadata = self.has_metadata();
            let payload = record.payload(self.owner, sequence, Part::Log, has_metadata);
            // After an error, the record may be on media: the snapshot contains its changes too.
            let appended = log.append(&*self.device, payload).await;
            self.log.replace(log.clone());
            if appended == Ok(Appended::Written) {
                self.state_mut().counters.metadata += 1;
                return Ok(count);
            }
        }
        self.write_snapshot(log).await
    }

    fn take_sequences(&self, count: u64) -> u64 {
        let first = self.next_sequence.get();
        self.next_sequence.set(first + count);
        first
    }

    /// Writes a snapshot to the other metadata zone; returns how many changes it contains.
    pub(crate) async fn write_snapshot(&self, mut log: TwinLog) -> Result<usize, StopReason> {
        let (entries, count) = {
            let mut state = self.state_mut();
            (state.snapshot_entries(), state.journal.items.len())
        };
        let records = RecordBuilder::pack(&entries);
        drop(entries);
        let most = log.zone_records(self.device.geometry());
        let length = u32::try_from(records.len()).map_err(|_| StopReason::MetadataFull)?;
        if length > most {
            return Err(StopReason::MetadataFull);
        }
        let first = self.take_sequences(u64::from(length));
        let payload = |index: u32| {
            let part = match length - 1 - index {
                0 => Part::SnapshotEnd { before: index },
                _ => Part::Snapshot,
            };
            let record = &records[index as usize];
            record.payload(self.owner, first + u64::from(index), part, self.has_metadata())
        };
        if mutant(Mutant::SnapshotSwitchedEarly) {
            let _reset = self.device.manage(log.current(), ZoneAction::Reset).await;
        }
        let stop = |status: Status| StopReason::Journal(status);
        log.switch(&*self.device, length, payload).await.map_err(stop)?;
        mark(Mark::SnapshotTaken);
        // The snapshot is durable. If the old zone cannot be reset now, the next switch does it.
        let _later = log.reset_old(&*self.device).await;
        self.log.replace(log);
        let mut state = self.state_mut();
        state.counters.metadata += u64::from(length);
        state.counters.snapshots += 1;
        Ok(count)
    }
}

/// As many of the first changes as fit into a record, and their number.
fn first_record(items: &std::collections::VecDeque<Item>) -> (RecordBuilder, usize) {
    let mut record = RecordBuilder::default();
    let fits = |item: &&Item| item.entry.as_ref().is_none_or(|entry| record.push(entry));
    let count = items.iter().take_while(fits).count();
    (record, count)
}

/// Bytes of entries that a snapshot may have: half of a metadata zone. Records lose up to a quarter
/// at their ends, as an entry with extents may have 3 KiB, and the log needs room behind it.
pub(crate) fn snapshot_limit(zone_records: u32) -> u64 {
    BlockCount(zone_records).data_bytes() as u64 / 2
}
