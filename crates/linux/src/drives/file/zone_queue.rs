//! The order of changes to one zone: which commands may touch the file, and which record may be
//! published. Synchronous, without I/O.
//!
//! Entries are queued in the order in which the controller admitted them, each with the zone record
//! as it was right after. Invariants:
//! - A record is published only when everything up to its entry is stored, so a published write
//!   pointer always covers a hole-free prefix. One publication answers every entry it covers.
//! - Entries are divided into epochs. An entry touches the file only when no entry of an earlier
//!   epoch is left. A reset is an epoch of its own: earlier entries have left the file before its
//!   hole is punched, and later entries wait until it is punched.
//! - A failed write fails all later entries up to the next reset, because the prefix ends there; an
//!   epoch ends at that point too.

use std::collections::VecDeque;

use zoneweave_runtime::{Receiver, Sender, oneshot};
use zoneweave_zoned::{Status, ZoneRecord};

/// The name of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryId(u64);

/// Entries with the same number may touch the file together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Epoch(u64);

/// A number given to each change that frees an active-zone resource, in order of admission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(pub(super) u64);

impl Ticket {
    /// Before the first one.
    pub(super) const NONE: Self = Self(0);
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Blocks, which have to be stored first.
    Write,
    /// A change of the record only.
    State,
    /// A reset: the zone becomes empty, and its blocks are freed afterwards.
    Reset,
}

/// A change to be queued.
pub(super) struct Change {
    pub(super) kind: Kind,
    /// The zone's record right after it.
    pub(super) record: ZoneRecord,
    /// It must not be published before every ticket up to this one is.
    pub(super) after: Ticket,
    /// The tickets that its publication redeems.
    pub(super) tickets: Vec<Ticket>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its blocks are not all in the file yet.
    Storing,
    /// It can be published.
    Stored,
    /// A reset whose record is published and whose blocks are being freed.
    Freeing,
    /// It was answered with an error, but may still be writing to the file.
    Failed,
    /// Nothing is left to do.
    Done,
}

struct Entry {
    id: EntryId,
    epoch: Epoch,
    change: Change,
    phase: Phase,
    sender: Option<Sender<Result<(), Status>>>,
}

/// How a queued change is followed.
pub(super) struct Queued {
    pub(super) id: EntryId,
    pub(super) epoch: Epoch,
    /// The answer: when its record is published, or when it failed.
    pub(super) answer: Receiver<Result<(), Status>>,
}

/// A record to be written to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Publication {
    pub(super) record: ZoneRecord,
    /// One more than that of the record before.
    pub(super) sequence: u64,
    /// Every ticket up to this one must be redeemed before.
    pub(super) after: Ticket,
    last: EntryId,
}

/// The rollback after a failed write.
pub(super) struct Rollback {
    /// The zone's record after the rollback, if no reset follows.
    pub(super) record: ZoneRecord,
    /// Tickets of failed entries, for the change that settles the zone's state.
    pub(super) tickets: Vec<Ticket>,
}

pub(super) struct ZoneQueue {
    entries: VecDeque<Entry>,
    next_id: u64,
    epoch: Epoch,
    published: ZoneRecord,
    sequence: u64,
    publishing: bool,
}

impl ZoneQueue {
    /// The queue of an idle zone whose record is in the file.
    pub(super) fn new(published: ZoneRecord, sequence: u64) -> Self {
        let entries = VecDeque::new();
        Self { entries, next_id: 0, epoch: Epoch(0), published, sequence, publishing: false }
    }

    /// The record in the file.
    pub(super) fn published(&self) -> ZoneRecord {
        self.published
    }

    /// The latest entry, if any is left.
    pub(super) fn latest(&self) -> Option<EntryId> {
        self.entries.back().map(|entry| entry.id)
    }

    /// Whether an entry, and so everything before it, is done with.
    pub(super) fn is_past(&self, id: EntryId) -> bool {
        self.entries.front().is_none_or(|front| front.id > id)
    }

    pub(super) fn push(&mut self, change: Change) -> Queued {
        let (sender, answer) = oneshot();
        let reset = change.kind == Kind::Reset;
        if reset {
            self.epoch.0 += 1;
        }
        let (id, epoch) = (EntryId(self.next_id), self.epoch);
        let phase = if change.kind == Kind::State { Phase::Stored } else { Phase::Storing };
        self.entries.push_back(Entry { id, epoch, change, phase, sender: Some(sender) });
        self.next_id += 1;
        if reset {
            self.epoch.0 += 1;
        }
        Queued { id, epoch, answer }
    }

    /// Whether entries of an epoch may touch the file.
    pub(super) fn may_start(&self, epoch: Epoch) -> bool {
        self.entries.front().is_none_or(|front| front.epoch >= epoch)
    }

    /// Whether an entry failed because of another one; it need not touch the file any more.
    pub(super) fn has_failed(&self, id: EntryId) -> bool {
        self.find(id).is_none_or(|at| self.entries[at].phase == Phase::Failed)
    }

    /// The blocks of an entry are in the file, or freed again, or it gave up.
    pub(super) fn finished(&mut self, id: EntryId) {
        let Some(at) = self.find(id) else { return };
        match self.entries[at].phase {
            Phase::Storing => self.entries[at].phase = Phase::Stored,
            Phase::Failed | Phase::Freeing => self.entries[at].phase = Phase::Done,
            Phase::Stored | Phase::Done => {}
        }
        self.entries.retain(|entry| entry.phase != Phase::Done);
    }

    /// The blocks of an entry did not get into the file: it fails with everything behind it up to
    /// the next reset. `None` if a reset follows, so that nothing is left to be made good.
    pub(super) fn failed(&mut self, id: EntryId, status: Status) -> Option<Rollback> {
        let at = self.find(id)?;
        let record = match at.checked_sub(1).map(|before| &self.entries[before]) {
            Some(before) if before.phase != Phase::Failed => before.change.record,
            _ => self.published,
        };
        let mut tickets = Vec::new();
        for entry in self.entries.range_mut(at..) {
            if entry.change.kind == Kind::Reset {
                entry.change.tickets.append(&mut tickets);
                self.finished(id);
                return None;
            }
            tickets.append(&mut entry.change.tickets);
            answer(entry, Err(status));
            // A stored entry no longer touches the file.
            entry.phase = match entry.phase {
                Phase::Storing | Phase::Failed => Phase::Failed,
                Phase::Stored | Phase::Freeing | Phase::Done => Phase::Done,
            };
        }
        self.finished(id);
        self.epoch.0 += 1;
        Some(Rollback { record, tickets })
    }

    /// The next record to write, covering as many entries as possible. The caller writes it and
    /// then calls [`ZoneQueue::is_published`]; there is none before that.
    pub(super) fn next_publication(&mut self) -> Option<Publication> {
        if self.publishing {
            return None;
        }
        let epoch = self.entries.front()?.epoch;
        let covered = |entry: &&Entry| entry.phase == Phase::Stored && entry.epoch == epoch;
        let after =
            self.entries.iter().take_while(covered).map(|entry| entry.change.after).max()?;
        let last = self.entries.iter().take_while(covered).last()?;
        self.publishing = true;
        let (record, last) = (last.change.record, last.id);
        Some(Publication { record, sequence: self.sequence + 1, after, last })
    }

    /// The record is in the file: answers the entries that it covers, and returns the redeemed
    /// tickets.
    pub(super) fn is_published(&mut self, publication: Publication) -> Vec<Ticket> {
        assert!(self.publishing, "a record is published only after it was handed out");
        assert_eq!(publication.sequence, self.sequence + 1, "records are published in order");
        self.publishing = false;
        self.published = publication.record;
        self.sequence = publication.sequence;
        let mut tickets = Vec::new();
        for entry in &mut self.entries {
            if entry.id > publication.last {
                break;
            }
            tickets.append(&mut entry.change.tickets);
            answer(entry, Ok(()));
            let reset = entry.change.kind == Kind::Reset;
            entry.phase = if reset { Phase::Freeing } else { Phase::Done };
        }
        self.entries.retain(|entry| entry.phase != Phase::Done);
        tickets
    }

    /// The drive is lost: everything is answered with an error.
    pub(super) fn abandon(&mut self, status: Status) {
        for entry in &mut self.entries {
            answer(entry, Err(status));
        }
    }

    fn find(&self, id: EntryId) -> Option<usize> {
        self.entries.binary_search_by_key(&id, |entry| entry.id).ok()
    }
}

fn answer(entry: &mut Entry, result: Result<(), Status>) {
    if let Some(sender) = entry.sender.take() {
        sender.send(result);
    }
}

#[cfg(test)]
mod tests;
