//! The narrow list: every drive has a list of all narrow segments that are alive.
//!
//! A narrow segment is on fewer drives than others, so their zones alone are insufficient evidence.
//! The list makes up for that: a segment is durably on it before its header is written, and leaves
//! it with the record of its death. A start trusts
//!
//! * a segment on the list, even if none of its headers can be read any more;
//! * no other narrow segment, even if a drive returns in its state before the segment's death.
//!
//! The list is one record, and no more segments are opened than it can hold. Earlier builds may
//! have made more. The newest are then missing from the list, and these are trusted by their
//! headers.

use std::collections::{BTreeMap, BTreeSet};

use crate::instrument::mutants::{Mutant, mutant};
use crate::log::format::{
    Generation, NarrowListRecord, RecordBody, SegmentHeader, SuperblockRecord,
};
use crate::log::segment::dead::Deaths;
use crate::scheme::ColumnSet;

/// The narrow segments that are alive.
#[derive(Default)]
pub(in crate::log) struct NarrowList {
    /// Headers by generation.
    pub(in crate::log) alive: BTreeMap<Generation, SegmentHeader>,
    /// All live segments with generations below this were listed when the array was started.
    below: Generation,
    /// Whether any narrow segment existed since.
    used: bool,
    /// Whether live segments missing from the list are known.
    complete: bool,
}

impl NarrowList {
    /// The newest list among some records.
    #[must_use]
    pub(in crate::log) fn of_records<'a>(
        records: impl IntoIterator<Item = &'a SuperblockRecord>,
    ) -> Self {
        let lists = records.into_iter().filter_map(|record| match &record.body {
            RecordBody::NarrowList(list) => Some((record.record_sequence, list)),
            _ => None,
        });
        let newest = lists.max_by_key(|(sequence, _)| *sequence);
        let Some((_, NarrowListRecord { below, segments })) = newest else {
            return Self::default();
        };
        let alive = segments.iter().map(|header| (header.generation, header.clone())).collect();
        Self { alive, below: *below, used: true, complete: false }
    }

    /// Whether a segment absent from some columns must be on the list if alive, and is not.
    #[must_use]
    pub(super) fn excludes(&self, generation: Generation, absent: ColumnSet) -> bool {
        let told = !absent.is_empty() && generation < self.below;
        told && !self.lists(generation)
    }

    /// Whether a segment is listed.
    #[must_use]
    pub(in crate::log) fn lists(&self, generation: Generation) -> bool {
        self.alive.contains_key(&generation)
    }

    /// The header of a listed segment.
    #[must_use]
    pub(in crate::log) fn header(&self, generation: Generation) -> Option<&SegmentHeader> {
        self.alive.get(&generation)
    }

    /// The headers of all listed segments, newest first.
    pub(in crate::log) fn newest_first(&self) -> impl Iterator<Item = &SegmentHeader> {
        self.alive.values().rev()
    }

    /// Adds a segment that is about to be opened, or was found.
    pub(in crate::log) fn enter(&mut self, header: &SegmentHeader) {
        if header.geometry.scheme().is_narrow() {
            self.used = true;
            self.alive.insert(header.generation, header.clone());
        }
    }

    /// Removes a segment that dies.
    pub(in crate::log) fn mark_dead(&mut self, generation: Generation) {
        self.alive.remove(&generation);
    }

    /// Removes segments that are recorded dead: a death is recorded without another list.
    pub(in crate::log) fn leave_out(&mut self, dead: &Deaths) {
        self.alive.retain(|generation, _| !dead.contains(*generation));
    }

    /// Removes all but these, which are all that were found.
    pub(in crate::log) fn keep(&mut self, generations: &BTreeSet<Generation>) {
        self.complete = true;
        self.alive.retain(|generation, _| generations.contains(generation));
    }

    /// The record of the list, in an array where `next` is the next generation to be assigned;
    /// `None` if there never was a narrow segment.
    #[must_use]
    pub(super) fn record(&self, next: Generation) -> Option<RecordBody> {
        if !self.used {
            return None;
        }
        let mut room = RecordBody::LISTED_BYTES;
        let left_out = self.alive.iter().find(|(_, header)| {
            let bytes = NarrowListRecord::bytes_of(header.geometry.scheme().columns());
            let fits = bytes <= room;
            room -= if fits { bytes } else { 0 };
            !fits
        });
        let left_out = left_out.map(|(generation, _)| *generation);
        // Before the search for segments, the list is only complete up to `below`.
        let told = if self.complete { next } else { self.below };
        let below = left_out.map_or(told, |generation| generation.min(told));
        let mut segments: Vec<_> =
            self.alive.range(..below).map(|(_, header)| header.clone()).collect();
        let columns = segments.iter().map(|header| header.geometry.scheme().columns());
        let bytes: usize = columns.map(NarrowListRecord::bytes_of).sum();
        assert!(bytes <= RecordBody::LISTED_BYTES, "a list of {bytes} bytes in a record");
        if mutant(Mutant::RosterForgotten) {
            segments.clear();
        }
        Some(RecordBody::NarrowList(NarrowListRecord { below, segments }))
    }
}

#[cfg(test)]
mod tests {
    use zoneweave_zoned::BlockCount;

    use super::*;
    use crate::log::engine::geometry::SegmentGeometry;
    use crate::log::format::{Epoch, SegmentId, StreamKind};
    use crate::scheme::{Column, Scheme};

    fn scheme() -> Scheme {
        Scheme::new(3, 1).unwrap()
    }

    fn header(generation: u64) -> SegmentHeader {
        header_on(generation, &[Column(0), Column(2)])
    }

    fn header_on(generation: u64, columns: &[Column]) -> SegmentHeader {
        let narrow = scheme().on(columns.iter().copied().collect()).unwrap();
        SegmentHeader {
            segment: SegmentId(generation),
            generation: Generation(generation),
            epoch: Epoch::FIRST,
            stream: StreamKind::User,
            tabled: false,
            geometry: SegmentGeometry::new(narrow, BlockCount(64), 1, 8).unwrap(),
            zone_capacity: BlockCount(64),
            zones: vec![None; 4],
        }
    }

    /// Generations in a record, and the bound below which it is complete.
    fn listed(list: &NarrowList, next: u64) -> Option<(u64, Vec<u64>)> {
        list.record(Generation(next)).map(|record| match record {
            RecordBody::NarrowList(NarrowListRecord { below, segments }) => {
                (below.0, segments.iter().map(|header| header.generation.0).collect())
            }
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn what_does_not_fit_is_not_told_to_be_dead() {
        let mut list = NarrowList::default();
        list.keep(&BTreeSet::new());
        assert_eq!(listed(&list, 7), None, "there never was any");
        let most = RecordBody::listed_most(scheme()) as u64;
        (1..=most).for_each(|generation| list.enter(&header(generation)));
        assert_eq!(listed(&list, 100), Some((100, (1..=most).collect())));
        list.enter(&header(most + 1));
        list.enter(&header(most + 2));
        assert_eq!(listed(&list, 100), Some((most + 1, (1..=most).collect())));
        (1..=most + 2).for_each(|generation| list.mark_dead(Generation(generation)));
        assert_eq!(listed(&list, 100), Some((100, Vec::new())), "there was one");
    }

    /// The format allows it; this engine makes none.
    #[test]
    fn segments_on_more_columns_are_listed_as_far_as_they_fit() {
        let mut list = NarrowList::default();
        list.keep(&BTreeSet::new());
        let columns = [Column(0), Column(1), Column(3)];
        (1..=60).for_each(|generation| list.enter(&header_on(generation, &columns)));
        let (below, segments) = listed(&list, 100).unwrap();
        assert_eq!(segments, (1..below).collect::<Vec<_>>());
        assert_eq!(segments.len(), RecordBody::LISTED_BYTES / NarrowListRecord::bytes_of(3));
    }

    #[test]
    fn a_start_that_has_not_looked_tells_no_more_than_it_was_told() {
        let mut list = NarrowList { below: Generation(9), used: true, ..NarrowList::default() };
        list.alive.insert(Generation(5), header(5));
        list.enter(&header(12));
        assert_eq!(listed(&list, 100), Some((9, vec![5])));
        assert!(list.excludes(Generation(4), header(4).geometry.scheme().absent()));
        assert!(!list.excludes(Generation(11), header(11).geometry.scheme().absent()));
        assert!(!list.excludes(Generation(4), ColumnSet::default()), "it is on all drives");
        list.keep(&[5, 12].map(Generation).into());
        assert_eq!(listed(&list, 100), Some((100, vec![5, 12])));
    }
}
