//! Who belongs to the array and what its records decided: docs/format.md section 4.

use std::collections::{BTreeMap, BTreeSet};

use zoneweave_zoned::ZoneState;

use crate::blocks::{BlockType, open_envelope};
use crate::drive::{Drive, ReadBlock};
use crate::fields::{Array, uuid_text};
use crate::record::{Config, Epoch, MemberEntry, MemberState, Payload, Record, Seal};
use crate::report::{Findings, Location, Problem};
use crate::roster::Roster;

/// Zones at the start of a drive among which its superblock zones are.
const ZONES_SCANNED: usize = 4;

/// Records that a zone takes.
const RECORDS_PER_ZONE: u32 = 1024;

/// Blocks read at a time while records are looked for.
const SCAN_BLOCKS: u32 = 256;

/// A record and where it is.
struct Placed {
    record: Record,
    location: Location,
}

/// A drive that carries records.
struct Candidate {
    drive: Drive,
    superblock_zones: Vec<u32>,
    records: Vec<Placed>,
    /// A newer record than its newest may be in a block that cannot be read: the last one of its
    /// zone, or all of the other zone.
    may_hide_newer: bool,
}

/// A drive that counts.
pub(crate) struct Member {
    pub(crate) drive: Drive,
    pub(crate) state: MemberState,
    pub(crate) since_epoch: u64,
    pub(crate) superblock_zones: Vec<u32>,
}

/// The array as its records tell it.
pub(crate) struct Membership {
    pub(crate) array: Array,
    pub(crate) config: Config,
    pub(crate) epoch: Epoch,
    /// By slot.
    pub(crate) members: Vec<Option<Member>>,
    /// The newest seal of each segment, with the sequence of its record.
    pub(crate) seals: BTreeMap<u64, (u64, Seal)>,
    pub(crate) dead: BTreeSet<u64>,
    /// The newest roster, with the sequence of its record.
    pub(crate) roster: Option<(u64, Roster)>,
    pub(crate) sequence_ceiling: u64,
    pub(crate) segment_ceiling: u64,
}

/// Reads the records of every drive and decides what they say together.
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

/// Reads the superblock zones of a drive.
async fn scan(drive: Drive, findings: &mut Findings) -> Candidate {
    let (mut records, mut superblock_zones) = (Vec::new(), Vec::new());
    let zones: Vec<_> = drive.readable_zones().take(ZONES_SCANNED).collect();
    // Of each zone with records: the newest, and whether the last block is damaged.
    let mut ends = Vec::new();
    let mut unknown_zones = 0;
    for info in zones {
        let unit = drive.unit();
        let (zone, written) = (info.zone.0, info.write_pointer.0.min(RECORDS_PER_ZONE * unit));
        let (mut found, mut damaged, mut is_segment) = (Vec::new(), Vec::new(), false);
        for first in (0..written).step_by(SCAN_BLOCKS as usize) {
            let blocks = drive.read(zone, first, SCAN_BLOCKS.min(written - first)).await;
            if first == 0 && blocks.first().is_some_and(begins_segment) {
                is_segment = true;
                break;
            }
            let begin_unit = |(offset, _): &(u32, _)| offset.is_multiple_of(unit);
            for (offset, block) in (first..).zip(blocks).filter(begin_unit) {
                let location = Location::drive(drive.number).zone(zone).offset(offset);
                match block.map(|block| Record::parse(&block.data, &block.oob)) {
                    Ok(Some(record)) => found.push(Placed { record, location }),
                    Ok(None) => damaged.push((location, Problem::RecordDamaged)),
                    Err(status) => damaged.push((location, Problem::unreadable(status))),
                }
            }
        }
        let Some(newest) = found.iter().map(|placed| placed.record.sequence).max() else {
            unknown_zones += u32::from(written > 0 && !is_segment);
            continue;
        };
        let end = Location::drive(drive.number).zone(zone).offset((written - 1) / unit * unit);
        ends.push((newest, damaged.iter().any(|(at, _)| *at == end)));
        superblock_zones.push(zone);
        records.append(&mut found);
        damaged.into_iter().for_each(|(location, problem)| findings.add(location, problem));
    }
    leave_out_former(&drive, &mut records);
    // With records in two zones there is no third one that could hold any.
    let other_unreadable = ends.len() == 1 && unknown_zones > 0;
    let end_damaged = ends.iter().max().is_some_and(|(_, damaged)| *damaged);
    let may_hide_newer = other_unreadable || end_damaged;
    Candidate { drive, superblock_zones, records, may_hide_newer }
}

/// Leaves out records of former memberships, in zones that were read-only when the drive was put in and so could not be
/// erased; not newer ones of the same history.
fn leave_out_former(drive: &Drive, records: &mut Vec<Placed>) {
    let read_only = drive.readable_zones().filter(|info| info.state == ZoneState::ReadOnly);
    let read_only: BTreeSet<_> = read_only.map(|info| Some(info.zone.0)).collect();
    let writable = records.iter().filter(|placed| !read_only.contains(&placed.location.zone));
    let newest = writable.max_by_key(|placed| (placed.record.epoch, placed.record.sequence));
    let Some(present) = newest.map(|placed| placed.record.clone()) else { return };
    let is_former = |record: &Record| {
        let other_history = record.epoch.lineage != present.epoch.lineage;
        let older = record.epoch.number <= present.epoch.number || other_history;
        record.array != present.array || record.member != present.member && older
    };
    records
        .retain(|placed| !read_only.contains(&placed.location.zone) || !is_former(&placed.record));
}

/// Whether the first block of a zone is a segment header, so that the zone holds no records.
fn begins_segment(block: &ReadBlock) -> bool {
    let Ok(block) = block else { return false };
    open_envelope(&block.data, BlockType::Header).is_some()
}

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

/// Whether a drive carries a record of the array; says so if not.
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

/// The epoch that the array is in, and whether a majority carries or makes it.
fn choose_epoch(candidates: &[Candidate]) -> Option<(Epoch, bool)> {
    let mut epochs: BTreeSet<Epoch> =
        candidates.iter().flat_map(|at| at.records.iter().map(|at| at.record.epoch)).collect();
    // A forced start makes an epoch above all it has seen: what is of other lineages is left behind, and so is
    // what it has not seen, if that never counted. Nothing is sure where two have come as far, or where it takes
    // drives that may hide a newer record to tell them apart: nobody should start the array then.
    let leading = |in_doubt| leading_lineages(candidates, &epochs, in_doubt);
    let lineages = leading(true);
    let lineage = *lineages.last()?;
    let sure = lineages.len() == 1 && leading(false) == lineages;
    epochs.retain(|epoch| epoch.lineage == lineage);
    let columns = candidates.first()?.newest(None)?.config.shape.columns() as usize;
    let carried = |epoch: &&Epoch| {
        let carriers = candidates.iter().filter(|at| at.newest(Some(**epoch)).is_some());
        carriers.count() * 2 > columns
    };
    let with_majority_present = |epoch: &&Epoch| {
        let Some(table) = newest_of_all(candidates, **epoch) else { return false };
        let in_service = candidates.iter().filter(|at| {
            let own = at.newest(None).and_then(|own| state_of(candidates, table, own));
            own.is_some_and(|state| state != MemberState::Failed)
        });
        in_service.count() * 2 > columns
    };
    // Behind an epoch that may have counted there is no going back.
    let may_have_counted = |epoch: &Epoch| {
        let Some(table) = newest_of_all(candidates, *epoch) else { return false };
        let newest = candidates.iter().filter_map(|at| Some((at, at.newest(None)?)));
        let mut in_service = newest.filter(|(_, own)| {
            let state = state_of(candidates, table, own);
            state.is_some_and(|state| state != MemberState::Failed)
        });
        in_service.all(|(at, own)| {
            own.epoch == *epoch || own.epoch.number > epoch.number || at.may_hide_newer
        })
    };
    if let Some(epoch) = epochs.iter().rev().find(carried) {
        let mut newer = epochs.iter().rev().take_while(|newer| *newer > epoch);
        if !newer.any(may_have_counted) {
            return Some((*epoch, sure));
        }
    }
    for epoch in epochs.iter().rev() {
        if with_majority_present(&epoch) {
            return Some((*epoch, sure));
        }
        if may_have_counted(epoch) {
            break;
        }
    }
    epochs.last().map(|epoch| (*epoch, false))
}

/// The lineages with the highest epoch of those that were not passed over.
fn leading_lineages(
    candidates: &[Candidate],
    epochs: &BTreeSet<Epoch>,
    in_doubt: bool,
) -> BTreeSet<u64> {
    let may_lead = |epoch: &&Epoch| !is_passed_over(candidates, **epoch, in_doubt);
    let highest = epochs.iter().rev().find(may_lead).or(epochs.last()).map(|epoch| epoch.number);
    let of_highest = |epoch: &&Epoch| Some(epoch.number) == highest;
    let mut leading: Vec<_> = epochs.iter().filter(of_highest).collect();
    if leading.iter().any(may_lead) {
        leading.retain(may_lead);
    }
    leading.into_iter().map(|epoch| epoch.lineage).collect()
}

/// Whether an epoch was not known to a drive that its table has in service when that drive was started by
/// force, without those that carry it: such a start makes an epoch above all that its drives know, and this one
/// is not below. A newer record that such a drive may hide could be of this epoch, and one that a carrier may hide
/// could be of one after it that counted: with a drive in doubt the answer is no, unless `in_doubt` believes it.
fn is_passed_over(candidates: &[Candidate], epoch: Epoch, in_doubt: bool) -> bool {
    let Some(table) = newest_of_all(candidates, epoch) else { return false };
    let is_believed = |at: &&Candidate| in_doubt || !at.may_hide_newer;
    if !carriers(candidates, epoch).all(|carrier| is_believed(&carrier)) {
        return false;
    }
    let newest = candidates.iter().filter(is_believed).filter_map(|at| at.newest(None));
    let mut apart =
        newest.filter(|own| own.epoch.lineage != epoch.lineage && own.epoch.number <= epoch.number);
    apart.any(|own| table.has_in_service(own) && !knows_any(own, candidates, epoch))
}

/// The drives that carry an epoch.
fn carriers(candidates: &[Candidate], epoch: Epoch) -> impl Iterator<Item = &Candidate> {
    candidates.iter().filter(move |at| at.newest(Some(epoch)).is_some())
}

/// Whether a record has a drive in service that carries an epoch. A drive that was started by force without all
/// that carry an epoch it is listed in has none: they are failed to it, or were replaced since.
fn knows_any(own: &Record, candidates: &[Candidate], epoch: Epoch) -> bool {
    let mut newest = carriers(candidates, epoch).filter_map(|at| at.newest(None));
    newest.any(|carrier| own.has_in_service(carrier))
}

/// The state that a table gives to the drive whose newest record is `own`.
fn state_of(candidates: &[Candidate], table: &Record, own: &Record) -> Option<MemberState> {
    // A crash may have kept a new lineage from some of those that it lists. One that was started by force apart
    // has none of those in service that carry it.
    let same_history = own.epoch.lineage == table.epoch.lineage
        || own.epoch.number < table.epoch.number && knows_any(own, candidates, table.epoch);
    table.entry_of(own).filter(|_| same_history).map(|entry| entry.state)
}

fn newest_of_all(candidates: &[Candidate], epoch: Epoch) -> Option<&Record> {
    candidates.iter().filter_map(|at| at.newest(Some(epoch))).max_by_key(|record| record.sequence)
}

impl Candidate {
    /// Its newest record, of the given epoch or of all.
    fn newest(&self, epoch: Option<Epoch>) -> Option<&Record> {
        let records = self.records.iter().map(|placed| &placed.record);
        let of_epoch = records.filter(|record| epoch.is_none_or(|epoch| record.epoch == epoch));
        of_epoch.max_by_key(|record| (record.epoch, record.sequence))
    }
}

impl Record {
    /// Whether this record's table calls the drive in service whose record is `own`.
    fn has_in_service(&self, own: &Self) -> bool {
        self.entry_of(own).is_some_and(|entry| entry.state != MemberState::Failed)
    }

    /// What this record's table says of the drive whose record is `own`.
    fn entry_of(&self, own: &Self) -> Option<&MemberEntry> {
        self.members.get(usize::from(own.slot)).filter(|entry| entry.uuid == own.member)
    }
}

/// Sorts drives into slots and collects what their records decided.
fn assemble(candidates: Vec<Candidate>, epoch: Epoch, findings: &mut Findings) -> Membership {
    let table = newest_of_all(&candidates, epoch).expect("the epoch was found in a record").clone();
    let mut membership = Membership {
        array: table.array,
        config: table.config.clone(),
        epoch,
        members: table.members.iter().map(|_| None).collect(),
        seals: BTreeMap::new(),
        dead: BTreeSet::new(),
        roster: None,
        sequence_ceiling: table.sequence_ceiling,
        segment_ceiling: table.segment_ceiling,
    };
    let newest = candidates.iter().filter_map(|candidate| candidate.newest(None));
    let states: Vec<_> = newest.map(|own| state_of(&candidates, &table, own)).collect();
    for (candidate, state) in candidates.into_iter().zip(states) {
        let location = Location::drive(candidate.drive.number);
        let own = candidate.newest(None).expect("only drives with records are candidates").clone();
        let same = |at: &Placed| (at.record.slot, at.record.member) == (own.slot, own.member);
        if !candidate.records.iter().all(same) {
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
        if membership.members[slot].is_some() {
            findings.add(location, Problem::DuplicateMember);
            continue;
        }
        membership.take_decisions(&candidate.records, findings);
        let Candidate { drive, superblock_zones, .. } = candidate;
        let since_epoch = table.members[slot].since_epoch;
        membership.members[slot] = Some(Member { drive, state, since_epoch, superblock_zones });
    }
    membership.note_missing(findings);
    membership
}

impl Membership {
    /// Adds the seals, dead segments and ceilings of a valid member's records.
    fn take_decisions(&mut self, records: &[Placed], findings: &mut Findings) {
        for Placed { record, location } in records {
            if record.config != self.config {
                findings.add(*location, Problem::ConfigDiffers);
                continue;
            }
            self.sequence_ceiling = self.sequence_ceiling.max(record.sequence_ceiling);
            self.segment_ceiling = self.segment_ceiling.max(record.segment_ceiling);
            match &record.payload {
                Payload::State | Payload::SnapshotEnd => {}
                Payload::Dead(segments) => self.dead.extend(segments),
                Payload::Roster(roster) => {
                    if self.roster.as_ref().is_none_or(|(newest, _)| *newest < record.sequence) {
                        self.roster = Some((record.sequence, roster.clone()));
                    }
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
        // Only one that left everything out may be followed by another.
        let older = if known.0 < found.0 { &known.1 } else { seal };
        if known.1 != *seal && !older.is_empty() {
            findings.add(at, Problem::SealsDiffer { sealed: seal.segment });
        }
        if known.0 < found.0 {
            *known = found;
        }
    }

    fn note_missing(&self, findings: &mut Findings) {
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
