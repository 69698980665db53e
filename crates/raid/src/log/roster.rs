//! Which narrow segments are alive: every drive has a list of all of them.
//!
//! Fewer drives tell of a narrow segment than of others, so what they tell is not enough. The list does: a segment is on it, durably,
//! before its header is written, and off it with the record of its death. A start believes
//!
//! * a segment that is listed, even where no header of it can be read any more;
//! * none that is not listed, whatever a drive says that comes back as it was before its death.
//!
//! The list is one record, and no more segments are opened than it holds. Should there be others, as builds from before may have made
//! them, the newest are those not listed, and these are believed by their headers.

use std::collections::{BTreeMap, BTreeSet};

use crate::layout::{ColumnSet, Scheme};
use crate::log::format::{RecordBody, Roster as Listed, SegmentHeader, SuperblockRecord};
use crate::log::state::State;
use crate::mutants::{Mutant, mutant};

/// The narrow segments that are alive.
#[derive(Default)]
pub(super) struct Roster {
    /// What their headers say, by generation.
    alive: BTreeMap<u64, SegmentHeader>,
    /// Of those with smaller generations records list all that were alive when the array was started.
    below: u64,
    /// Whether there was any since.
    used: bool,
}

impl Roster {
    /// The newest among some records.
    #[must_use]
    pub(super) fn of_records<'a>(records: impl IntoIterator<Item = &'a SuperblockRecord>) -> Self {
        let rosters = records.into_iter().filter_map(|record| match &record.body {
            RecordBody::Roster(roster) => Some((record.record_sequence, roster)),
            _ => None,
        });
        let newest = rosters.max_by_key(|(sequence, _)| *sequence);
        let Some((_, Listed { below, segments })) = newest else { return Self::default() };
        let alive = segments.iter().map(|header| (header.generation, header.clone())).collect();
        Self { alive, below: *below, used: true }
    }

    /// Whether a segment that is not on some columns would be listed if it were alive, and is not.
    #[must_use]
    pub(super) fn excludes(&self, generation: u64, absent: ColumnSet) -> bool {
        let told = !absent.is_empty() && generation < self.below;
        told && !self.lists(generation)
    }

    /// Whether a segment is listed.
    #[must_use]
    pub(super) fn lists(&self, generation: u64) -> bool {
        self.alive.contains_key(&generation)
    }

    /// What the header of a listed segment says.
    #[must_use]
    pub(super) fn header(&self, generation: u64) -> Option<&SegmentHeader> {
        self.alive.get(&generation)
    }

    /// What the headers of all that are listed say, the newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &SegmentHeader> {
        self.alive.values().rev()
    }

    /// Enters a segment that comes to be, or was found.
    pub(super) fn enter(&mut self, header: &SegmentHeader) {
        if header.geometry.scheme().is_narrow() {
            self.used = true;
            self.alive.insert(header.generation, header.clone());
        }
    }

    /// Takes a segment out that dies.
    pub(super) fn bury(&mut self, generation: u64) {
        self.alive.remove(&generation);
    }

    /// Takes out all but these.
    pub(super) fn keep(&mut self, generations: &BTreeSet<u64>) {
        self.alive.retain(|generation, _| generations.contains(generation));
    }

    /// The record that lists them, of an array of this scheme in which no generation was given out from `next` on; `None` as long as
    /// there never was any.
    #[must_use]
    fn record(&self, scheme: Scheme, next: u64) -> Option<RecordBody> {
        if !self.used {
            return None;
        }
        let most = RecordBody::listed_most(scheme);
        let mut segments: Vec<_> = self.alive.values().take(most).cloned().collect();
        let left_out = self.alive.keys().nth(most);
        if mutant(Mutant::RosterForgotten) {
            segments.clear();
        }
        Some(RecordBody::Roster(Listed { below: *left_out.unwrap_or(&next), segments }))
    }
}

impl State {
    /// The record that lists the narrow segments that are alive.
    #[must_use]
    pub(super) fn roster_record(&self) -> Option<RecordBody> {
        self.roster.record(self.scheme(), self.next_sequence)
    }

    /// Whether another narrow segment could be listed.
    #[must_use]
    pub(super) fn may_list_another(&self) -> bool {
        self.roster.alive.len() < RecordBody::listed_most(self.scheme())
    }
}
