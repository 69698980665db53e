//! The members of the array and the decisions in their records: docs/format.md section 4.

use std::collections::{BTreeMap, BTreeSet};

use crate::array::epoch::{choose_epoch, newest_of_all, state_of};
use crate::array::records::{Candidate, Placed, scan};
use crate::drive::Drive;
use crate::format::config::Config;
use crate::format::faults::Faults;
use crate::format::fields::{Array, uuid_text};
use crate::format::narrow_list::NarrowList;
use crate::format::record::{Epoch, MemberState, Payload, Record, Seal};
use crate::report::{Findings, Location, Problem};

/// A drive of the array.
pub(crate) struct Member {
    pub(crate) drive: Drive,
    pub(crate) state: MemberState,
    pub(crate) since_epoch: u64,
    pub(crate) superblock_zones: Vec<u32>,
    /// Of a member of a zoned volume.
    pub(crate) records: Vec<Placed>,
}

/// The array according to its records.
pub(crate) struct Membership {
    pub(crate) array: Array,
    pub(crate) config: Config,
    pub(crate) epoch: Epoch,
    /// By slot.
    pub(crate) members: Vec<Option<Member>>,
    /// The newest seal of each segment, with the sequence of its record.
    pub(crate) seals: BTreeMap<u64, (u64, Seal)>,
    pub(crate) dead: BTreeSet<u64>,
    /// The newest narrow list, with the sequence of its record.
    pub(crate) narrow_list: Option<(u64, NarrowList)>,
    /// The UUIDs of the members by slot.
    uuids: Vec<[u8; 16]>,
    /// The newest faults that each member has, with the sequence of their record. Errors of a slot
    /// whose member the record does not list are left out.
    faults: BTreeMap<[u8; 16], (u64, Faults)>,
    /// How many scrubs are on record, with the sequence of that.
    pub(crate) scrubs: (u64, u64),
    pub(crate) sequence_ceiling: u64,
    pub(crate) segment_ceiling: u64,
}

/// Reads the records of every drive and combines them.
pub(crate) async fn read_membership(
    drives: Vec<Drive>,
    array: Option<[u8; 16]>,
    findings: &mut Findings,
) -> Option<Membership> {
    let mut candidates = Vec::new();
    for drive in drives {
        candidates.push(scan(drive, findings).await);
    }
    let Some(array) = array.map(Array).or_else(|| most_common_array(&candidates)) else {
        findings.add(Location::default(), Problem::NoArray);
        return None;
    };
    candidates.retain(|candidate| belongs(candidate, array, findings));
    for candidate in &mut candidates {
        candidate.records.retain(|placed| placed.record.array == array);
    }
    let Some((epoch, established)) = choose_epoch(&candidates) else {
        findings.add(Location::default(), Problem::NoArray);
        return None;
    };
    if !established {
        findings.add(Location::default(), Problem::NoMajority);
    }
    Some(assemble(candidates, epoch, findings))
}

/// The array on most drives; of two, the one with the lower UUID.
fn most_common_array(candidates: &[Candidate]) -> Option<Array> {
    let mut drives: BTreeMap<Array, usize> = BTreeMap::new();
    for candidate in candidates {
        let arrays: BTreeSet<_> = candidate.records.iter().map(|at| at.record.array).collect();
        arrays.into_iter().for_each(|array| *drives.entry(array).or_default() += 1);
    }
    drives
        .into_iter()
        .max_by_key(|(array, drives)| (*drives, std::cmp::Reverse(*array)))
        .map(|at| at.0)
}

/// Whether a drive carries a record of the array. A finding says why not.
fn belongs(candidate: &Candidate, array: Array, findings: &mut Findings) -> bool {
    if candidate.records.iter().any(|placed| placed.record.array == array) {
        return true;
    }
    let problem = match candidate.records.first() {
        Some(placed) => Problem::ForeignDrive { array: uuid_text(&placed.record.array.0) },
        None => Problem::NoRecords,
    };
    findings.add(Location::drive(candidate.drive.number), problem);
    false
}

/// Sorts drives into slots and collects the decisions of their records.
fn assemble(candidates: Vec<Candidate>, epoch: Epoch, findings: &mut Findings) -> Membership {
    let table = newest_of_all(&candidates, epoch).expect("the epoch was found in a record").clone();
    assert!(table.epoch == epoch, "a record of the chosen epoch");
    let mut membership = Membership {
        array: table.array,
        config: table.config.clone(),
        epoch,
        members: table.members.iter().map(|_| None).collect(),
        seals: BTreeMap::new(),
        dead: BTreeSet::new(),
        narrow_list: None,
        uuids: table.members.iter().map(|member| member.uuid).collect(),
        faults: BTreeMap::new(),
        scrubs: (0, 0),
        sequence_ceiling: table.sequence_ceiling,
        segment_ceiling: table.segment_ceiling,
    };
    let newest = candidates.iter().filter_map(|candidate| candidate.newest(None));
    let states: Vec<_> = newest.map(|own| state_of(&candidates, &table, own)).collect();
    for (candidate, state) in candidates.into_iter().zip(states) {
        let location = Location::drive(candidate.drive.number);
        let own = candidate.newest(None).expect("only drives with records are candidates").clone();
        if !has_one_identity(&candidate.records, &own) {
            findings.add(location, Problem::IdentityChanged);
        }
        let state = match state {
            Some(state) if state != MemberState::Failed => state,
            _ => {
                findings.add(location, Problem::NotAMember);
                continue;
            }
        };
        let slot = usize::from(own.slot);
        assert!(slot < membership.members.len(), "records of other slots do not parse");
        if membership.members[slot].is_some() {
            findings.add(location, Problem::DuplicateMember);
            continue;
        }
        membership.take_decisions(&candidate.records, findings);
        let Candidate { drive, superblock_zones, mut records, .. } = candidate;
        if table.config.zoned.is_none() {
            records.clear();
        }
        let since_epoch = table.members[slot].since_epoch;
        membership.members[slot] =
            Some(Member { drive, state, since_epoch, superblock_zones, records });
    }
    membership.report_missing(findings);
    membership
}

/// Whether all records of a drive are of one slot, and of one member at a time. A former member
/// that was re-added has a new name in newer epochs; its former records remain until their zone is
/// reset.
fn has_one_identity(records: &[Placed], own: &Record) -> bool {
    let is_own = |at: &&Placed| at.record.member == own.member;
    let first = records.iter().filter(is_own).map(|at| at.record.epoch.number).min();
    records.iter().all(|at| {
        let former = first.is_some_and(|first| at.record.epoch.number < first);
        at.record.slot == own.slot && (at.record.member == own.member || former)
    })
}

impl Membership {
    /// Adds faults that a member has. Those of a former membership of its drive do not count.
    fn take_faults(&mut self, record: &Record, faults: &Faults) {
        if !self.uuids.contains(&record.member) {
            return;
        }
        let newest = self.faults.get(&record.member).map_or(0, |(sequence, _)| *sequence);
        if newest > record.sequence {
            return;
        }
        let mut faults = faults.clone();
        for (slot, damaged) in faults.damaged.iter_mut().enumerate() {
            if record.members[slot].uuid != self.uuids[slot] {
                *damaged = (0, 0);
            }
        }
        self.faults.insert(record.member, (record.sequence, faults));
    }

    /// Damaged blocks on record that were restored, and that were not, and the number of lost
    /// ranges: what any member has.
    pub(crate) fn faults(&self) -> (u64, u64, u64) {
        let mut damaged = vec![(0, 0); self.uuids.len()];
        for (_, faults) in self.faults.values() {
            for (most, (restored, gone)) in damaged.iter_mut().zip(&faults.damaged) {
                *most = (most.0.max(*restored), most.1.max(*gone));
            }
        }
        let sum =
            |count: fn(&(u64, u64)) -> u64| damaged.iter().map(count).fold(0, u64::saturating_add);
        let (ranges, _) = self.lost_on_record();
        (sum(|damaged| damaged.0), sum(|damaged| damaged.1), ranges.len() as u64)
    }

    /// The lost ranges on record, as first block and number: what any member has. Also whether some
    /// were joined, with blocks between them that are not lost.
    pub(crate) fn lost_on_record(&self) -> (Vec<(u64, u64)>, bool) {
        let faults = || self.faults.values().map(|(_, faults)| faults);
        let mut all: Vec<_> = faults().flat_map(|faults| faults.lost.iter().copied()).collect();
        all.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (lba, blocks) in all {
            match ranges.last_mut() {
                Some(last) if lba <= last.0 + last.1 => {
                    last.1 = last.1.max(lba + blocks - last.0);
                }
                _ => ranges.push((lba, blocks)),
            }
        }
        (ranges, faults().any(|faults| faults.joined))
    }

    /// Adds the seals, dead segments and ceilings of a valid member's records.
    fn take_decisions(&mut self, records: &[Placed], findings: &mut Findings) {
        for Placed { record, location } in records {
            // Records from before a change of the name have the former one.
            let named = Config { name: self.config.name.clone(), ..record.config.clone() };
            if named != self.config {
                findings.add(*location, Problem::ConfigDiffers);
                continue;
            }
            self.sequence_ceiling = self.sequence_ceiling.max(record.sequence_ceiling);
            self.segment_ceiling = self.segment_ceiling.max(record.segment_ceiling);
            match &record.payload {
                Payload::State
                | Payload::SnapshotEnd(_)
                | Payload::Zones(_)
                | Payload::Published(_)
                | Payload::Rebuilt(_) => {}
                Payload::Destroyed => findings.add(*location, Problem::Destroyed),
                Payload::Dead(segments) => self.dead.extend(segments),
                Payload::NarrowList(list) => {
                    if self.narrow_list.as_ref().is_none_or(|(newest, _)| *newest < record.sequence)
                    {
                        self.narrow_list = Some((record.sequence, list.clone()));
                    }
                }
                Payload::Faults(faults) => self.take_faults(record, faults),
                Payload::Scrubs(scrubs) => {
                    self.scrubs = self.scrubs.max((record.sequence, *scrubs));
                }
                Payload::Seals(seals) => {
                    for seal in seals {
                        self.take_seal(seal, record.sequence, *location, findings);
                    }
                }
            }
        }
    }

    fn take_seal(&mut self, seal: &Seal, sequence: u64, at: Location, findings: &mut Findings) {
        let found = (sequence, seal.clone());
        let known = self.seals.entry(seal.segment).or_insert_with(|| found.clone());
        // Only a seal that leaves out every stripe may be followed by another.
        let older = if known.0 < found.0 { &known.1 } else { seal };
        if known.1 != *seal && !older.is_empty() {
            findings.add(at, Problem::SealsDiffer { sealed: seal.segment });
        }
        if known.0 < found.0 {
            *known = found;
        }
    }

    fn report_missing(&self, findings: &mut Findings) {
        for (slot, member) in (0..).zip(&self.members) {
            match member {
                Some(member) if member.state == MemberState::Online => continue,
                Some(_) => {}
                None => findings.add(Location::default(), Problem::MemberMissing { slot }),
            }
            findings.report.degraded = true;
        }
    }
}
