//! Dead segments, and the zones that may still hold their blocks.
//!
//! A dead segment has to be remembered as long as any of its blocks may be read, or it would return
//! with blocks trimmed since. The death is recorded before the first of its zones is reset, and is
//! usually obsolete once the last reset is durable. No record marks that, so a start finds the
//! deaths of all segments freed since the last snapshot.
//!
//! The start examines every zone and resets those of dead segments. After that, only an *unclear*
//! zone, whose content cannot be identified because it is unreadable, could bring a segment back. A
//! death therefore names the zones of its segment, and a start keeps it only while one of these is
//! unclear: `settle`.
//!
//! # Why that is safe
//!
//! Blocks of a segment are in the zones that it has when it dies, and in zones with a failed or
//! unrecognised copy of a column.
//!
//! * A zone of the segment is named. The name is dropped when the zone was durably reset. It is
//!   also dropped when the zone turns out to be empty or another segment's (it was reset then),
//!   when it is offline, which is permanent, or when the drive was replaced. Contents of a drive
//!   that was taken out of service never count again. Names refer to the drives in the record's own
//!   member table. (The new drive may be the old one: a zone of it that could not be erased is not
//!   used, `members/replace`. Builds from before used it, and recorded that such a segment may be
//!   *anywhere* on it.)
//! * A zone is given to a segment only after its own reset and that of all zones of its former
//!   segment. So of several deaths that name a zone, only the last recorded can have blocks in it:
//!   `of_records` drops the other names. A snapshot repeats only current names, for all drives at
//!   one moment, so it does not change that order. (An unclear zone is assigned to the segment
//!   whose headers list it, although they may refer to a replaced drive. That segment will name the
//!   zone too when it dies, so the earlier death becomes *anywhere*.)
//! * Copies are made of segments older than the drive's membership, and begin and end while the
//!   segment is alive. If such a segment dies while the drive has an unclear zone, or a copy that
//!   could not be reset, the death records that it may be *anywhere* on the drive, and stays while
//!   there is such a zone.
//!
//! # Why they do not add up
//!
//! Each zone is named by one death, and a death is kept only if it names an unclear zone or one
//! that could not be reset. Each of these costs the array that zone, and a drive that has lost too
//! many is evicted (`members/eviction`). Deaths marked *anywhere* are of segments older than a
//! current membership: their number is fixed when it begins, and deaths on a replaced drive no
//! longer count. Neither number grows with starts.
//!
//! Earlier builds recorded deaths without zones. These are kept while any zone is unclear, and none
//! is added.

use std::collections::{BTreeMap, BTreeSet};

use zoneweave_zoned::ZoneId;

use crate::log::format::{Death, Generation, MemberEntry, RecordBody, Remains, SuperblockRecord};
use crate::scheme::{Column, ColumnSet};

/// Zones whose content cannot be identified, as a start finds them.
#[derive(Debug, Default)]
pub(in crate::log) struct Unclear {
    /// Unclear zones that are left alone.
    pub zones: BTreeSet<(Column, ZoneId)>,
    /// Zones assigned by the headers of other columns, which may refer to a drive that was replaced
    /// since.
    pub taken: BTreeSet<(Column, ZoneId)>,
    /// Columns of drives that are not in service, whose zones were not examined.
    pub unseen: ColumnSet,
}

impl Unclear {
    /// Columns with such zones.
    #[must_use]
    pub(in crate::log) fn columns(&self) -> ColumnSet {
        self.zones.iter().chain(&self.taken).map(|(column, _)| *column).collect()
    }
}

/// Segments recorded dead whose blocks may remain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::log) struct Deaths {
    /// By generation, which blocks behind a damaged header still carry: the possible remains, by
    /// column.
    named: BTreeMap<Generation, Vec<Remains>>,
    /// Generations recorded dead by an earlier build, without zones.
    unnamed: BTreeSet<Generation>,
}

impl Deaths {
    /// The deaths in the records, in their order, of an array with these members. Every death is
    /// known until [`Deaths::settle`].
    #[must_use]
    pub(in crate::log) fn of_records<'a>(
        records: impl IntoIterator<Item = &'a SuperblockRecord>,
        members: &[MemberEntry],
    ) -> Self {
        let mut deaths = Self::default();
        // The last segment that had each zone.
        let mut last: BTreeMap<(Column, ZoneId), Generation> = BTreeMap::new();
        for record in records {
            match &record.body {
                RecordBody::Dead(generations) => deaths.unnamed.extend(generations),
                RecordBody::Deaths(some) => {
                    let names = record.members.iter().zip(members);
                    let same: Vec<_> = names.map(|(then, now)| then.uuid == now.uuid).collect();
                    for death in some {
                        let known = deaths.named.entry(death.generation);
                        let known = known.or_insert_with(|| vec![Remains::Nothing; members.len()]);
                        enter(known, death, &same, &mut last);
                    }
                }
                _ => {}
            }
        }
        for (generation, remains) in &mut deaths.named {
            for (column, remains) in remains.iter_mut().enumerate() {
                if let Remains::In(zone) = *remains
                    && last.get(&(Column::of(column), zone)) != Some(generation)
                {
                    *remains = Remains::Nothing;
                }
            }
        }
        deaths
    }

    /// Whether a segment is dead, by its generation.
    #[must_use]
    pub(in crate::log) fn contains(&self, generation: Generation) -> bool {
        self.named.contains_key(&generation) || self.unnamed.contains(&generation)
    }

    /// Records the death of a segment.
    pub(in crate::log) fn mark_dead(&mut self, death: Death) {
        let (generation, columns) = (death.generation, death.remains.len());
        assert!(
            self.named.values().next().is_none_or(|known| known.len() == columns),
            "segment of generation {generation} dies on {columns} columns, and others on more or fewer"
        );
        self.named.insert(death.generation, death.remains);
    }

    /// Records that a dead segment has blocks in a zone, in an array of so many columns.
    pub(in crate::log) fn find(
        &mut self,
        generation: Generation,
        columns: usize,
        column: Column,
        zone: ZoneId,
    ) {
        assert!(column.index() < columns, "remains on {column} of {columns}");
        let remains = self.named.entry(generation);
        let remains = remains.or_insert_with(|| vec![Remains::Nothing; columns]);
        remains[column.index()] = remains[column.index()].or(Remains::In(zone));
    }

    /// Forgets deaths whose segments can have blocks only in zones that were found to hold some
    /// ([`Deaths::find`]). Returns `true` if an unclear zone keeps any death.
    pub(in crate::log) fn settle(&mut self, unclear: &Unclear) -> bool {
        let columns = unclear.columns();
        for remains in self.named.values_mut() {
            for (column, remains) in remains.iter_mut().enumerate() {
                let column = Column::of(column);
                let unseen = unclear.unseen.contains(column);
                *remains = match *remains {
                    // When the segment that the zone is assigned to dies, that one will name it,
                    // too.
                    Remains::In(zone) if unclear.taken.contains(&(column, zone)) => {
                        Remains::Anywhere
                    }
                    Remains::In(zone) if unseen || unclear.zones.contains(&(column, zone)) => {
                        Remains::In(zone)
                    }
                    Remains::Anywhere if unseen || columns.contains(column) => Remains::Anywhere,
                    _ => Remains::Nothing,
                };
            }
        }
        if columns.is_empty() {
            self.unnamed.clear();
        }
        self.drop_done();
        let none = self.named.is_empty() && self.unnamed.is_empty();
        !(columns.is_empty() || none)
    }

    /// Records that zones were durably reset.
    pub(in crate::log) fn record_reset(&mut self, zones: &BTreeSet<(Column, ZoneId)>) {
        for remains in self.named.values_mut() {
            for (column, remains) in remains.iter_mut().enumerate() {
                if matches!(*remains, Remains::In(zone) if zones.contains(&(Column::of(column), zone)))
                {
                    *remains = Remains::Nothing;
                }
            }
        }
        self.drop_done();
    }

    /// Records that the zones of a segment were durably reset, except on some columns.
    pub(in crate::log) fn record_freed(&mut self, generation: Generation, but: ColumnSet) {
        let remains = self.named.get_mut(&generation).into_iter().flatten();
        for (column, remains) in remains.enumerate() {
            if matches!(remains, Remains::In(_)) && !but.contains(Column::of(column)) {
                *remains = Remains::Nothing;
            }
        }
        self.drop_done();
    }

    /// Records that a slot has another drive, or the same one again, erased.
    pub(in crate::log) fn record_replaced(&mut self, column: Column) {
        self.named.values_mut().for_each(|remains| remains[column.index()] = Remains::Nothing);
        self.drop_done();
    }

    fn drop_done(&mut self) {
        self.named.retain(|_, remains| remains.iter().any(|one| *one != Remains::Nothing));
    }

    /// The records that contain all deaths.
    #[must_use]
    pub(in crate::log) fn records(&self) -> Vec<RecordBody> {
        let unnamed: Vec<_> = self.unnamed.iter().copied().collect();
        let unnamed = unnamed.chunks(RecordBody::MAX_DEAD);
        let named = self.named.iter().map(|(generation, remains)| Death {
            generation: *generation,
            remains: remains.clone(),
        });
        let mut bodies: Vec<_> = unnamed.map(|some| RecordBody::Dead(some.to_vec())).collect();
        bodies.extend(RecordBody::of_deaths(named));
        bodies
    }
}

/// Merges a record of a death into the known remains; `same` marks the columns whose drives are
/// still those of the record.
fn enter(
    known: &mut [Remains],
    death: &Death,
    same: &[bool],
    last: &mut BTreeMap<(Column, ZoneId), Generation>,
) {
    for (column, ((told, same), known)) in death.remains.iter().zip(same).zip(known).enumerate() {
        let told = if *same { *told } else { Remains::Nothing };
        if let Remains::In(zone) = told {
            last.insert((Column::of(column), zone), death.generation);
        }
        *known = known.or(told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::format::{
        ArrayConfig, Epoch, Lineage, MemberState, MemberUuid, SegmentId, Sequence,
    };
    use crate::scheme::Scheme;

    fn members(uuids: [u8; 2]) -> Vec<MemberEntry> {
        let entry = |byte| MemberEntry {
            uuid: MemberUuid([byte; 16]),
            state: MemberState::Online,
            since_epoch: Epoch::FIRST,
        };
        uuids.map(entry).to_vec()
    }

    fn death(generation: u64, zones: [u32; 2]) -> Death {
        let remains = zones.map(|zone| Remains::In(ZoneId(zone))).to_vec();
        Death { generation: Generation(generation), remains }
    }

    fn record(uuids: [u8; 2], body: RecordBody) -> SuperblockRecord {
        let members = members(uuids);
        SuperblockRecord {
            config: ArrayConfig { scheme: Scheme::new(1, 1).unwrap(), ..ArrayConfig::sample() },
            lineage: Lineage(1),
            epoch: Epoch::FIRST,
            epoch_tag: 1,
            record_sequence: 1,
            slot: Column(0),
            member: members[0].uuid,
            members,
            sequence_ceiling: Sequence::FIRST,
            segment_ceiling: SegmentId(1),
            body,
        }
    }

    /// The remaining deaths if some zones are unclear.
    fn settled(records: &[SuperblockRecord], unclear: &[(usize, u32)]) -> Deaths {
        let mut deaths = Deaths::of_records(records, &members([1, 2]));
        let zones = unclear.iter().map(|(column, zone)| (Column::of(*column), ZoneId(*zone)));
        let kept = deaths.settle(&Unclear { zones: zones.collect(), ..Unclear::default() });
        assert_eq!(kept, deaths != Deaths::default());
        deaths
    }

    #[test]
    fn a_death_is_kept_for_a_zone_that_was_the_segments_last() {
        let deaths = [death(4, [7, 8]), death(5, [9, 7])];
        let records = [
            record([1, 2], RecordBody::Deaths(vec![deaths[0].clone()])),
            // An older segment, with a column rebuilt into a zone of the other one.
            record([1, 2], RecordBody::Deaths(vec![death(3, [6, 8])])),
            record([1, 2], RecordBody::Deaths(vec![deaths[1].clone()])),
        ];
        let known = Deaths::of_records(&records, &members([1, 2]));
        assert!([3, 4, 5].map(Generation).into_iter().all(|dead| known.contains(dead)));
        for (unclear, expected) in [((0, 7), 4), ((1, 8), 3), ((1, 7), 5), ((0, 9), 5)] {
            let deaths = settled(&records, &[unclear]);
            let left: Vec<_> = deaths.named.keys().copied().collect();
            assert_eq!(left, [Generation(expected)], "with {unclear:?} unclear");
        }
        for unclear in [&[][..], &[(0, 8)], &[(1, 9)]] {
            assert_eq!(settled(&records, unclear), Deaths::default());
        }
    }

    #[test]
    fn names_are_those_of_the_drives_that_the_record_lists() {
        let records = [record([1, 9], RecordBody::Deaths(vec![death(4, [7, 8])]))];
        assert!(settled(&records, &[(0, 7)]).contains(Generation(4)));
        assert_eq!(settled(&records, &[(1, 8)]), Deaths::default());
    }

    #[test]
    fn what_may_be_anywhere_stays_while_any_zone_is_unclear() {
        let remains = vec![Remains::Anywhere, Remains::Nothing];
        let anywhere = Death { generation: Generation(4), remains };
        let records = [record([1, 2], RecordBody::Deaths(vec![anywhere.clone()]))];
        assert!(settled(&records, &[(0, 1)]).contains(Generation(4)));
        assert_eq!(settled(&records, &[(1, 1)]), Deaths::default());
        let mut deaths = Deaths::default();
        deaths.mark_dead(anywhere);
        deaths.record_freed(Generation(4), ColumnSet::default());
        assert!(deaths.contains(Generation(4)), "no reset of its zones tells where else it is");
        deaths.record_replaced(Column(0));
        assert_eq!(deaths, Deaths::default());
    }

    /// A segment whose headers list a zone of a former drive may be assigned that of a dead one,
    /// and die.
    #[test]
    fn a_zone_that_is_taken_for_anothers_keeps_the_death_that_names_it() {
        let records = [record([1, 2], RecordBody::Deaths(vec![death(4, [7, 8])]))];
        let mut deaths = Deaths::of_records(&records, &members([1, 2]));
        let taken = [(Column(1), ZoneId(8))].into();
        assert!(deaths.settle(&Unclear { taken, ..Unclear::default() }));
        let snapshot = deaths.records().into_iter().map(|body| record([1, 2], body));
        let other = record([1, 2], RecordBody::Deaths(vec![death(3, [6, 8])]));
        let records: Vec<_> = snapshot.chain([other]).collect();
        let deaths = settled(&records, &[(1, 8)]);
        assert!(deaths.contains(Generation(3)) && deaths.contains(Generation(4)));
    }

    /// They stay while any zone is unclear, as earlier builds named none.
    #[test]
    fn deaths_without_zones_are_kept_as_they_are() {
        let unnamed = || RecordBody::Dead([4, 5].map(Generation).to_vec());
        let old = [record([1, 2], unnamed())];
        let mut deaths = settled(&old, &[(0, 1)]);
        assert_eq!(deaths.records(), [unnamed()]);
        assert_eq!(settled(&old, &[]), Deaths::default());
        deaths.find(Generation(4), 2, Column(1), ZoneId(3));
        deaths.record_reset(&[(Column(1), ZoneId(3))].into());
        assert_eq!(deaths.records(), [unnamed()]);
    }

    #[test]
    fn a_death_goes_with_the_last_zone_that_is_reset() {
        let mut deaths = Deaths::default();
        deaths.mark_dead(death(4, [7, 8]));
        deaths.record_freed(Generation(4), [Column(1)].into_iter().collect());
        let left =
            Death { remains: vec![Remains::Nothing, Remains::In(ZoneId(8))], ..death(4, [7, 8]) };
        assert_eq!(deaths.records(), [RecordBody::Deaths(vec![left])]);
        deaths.record_reset(&[(Column(0), ZoneId(8)), (Column(1), ZoneId(7))].into());
        assert!(deaths.contains(Generation(4)));
        deaths.record_reset(&[(Column(1), ZoneId(8))].into());
        assert_eq!(deaths, Deaths::default());
    }

    /// The zones of a drive out of service were not examined.
    #[test]
    fn names_stay_where_nobody_has_looked() {
        let records = [record([1, 2], RecordBody::Deaths(vec![death(4, [7, 8])]))];
        let mut deaths = Deaths::of_records(&records, &members([1, 2]));
        deaths.settle(&Unclear {
            unseen: ColumnSet::default().with(Column(1)),
            ..Unclear::default()
        });
        let left =
            Death { remains: vec![Remains::Nothing, Remains::In(ZoneId(8))], ..death(4, [7, 8]) };
        assert_eq!(deaths.records(), [RecordBody::Deaths(vec![left])]);
    }
}
