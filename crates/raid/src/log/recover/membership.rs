//! Which version of the membership counts.
//!
//! The newest record of each drive tells a version of the membership (an epoch). The version that
//! more than half of all members carry is the array's; where none is (a crash fell between the
//! writes of one), the newest one whose members are present in a majority, but none from before
//! one that may have counted. Records of other arrays and other lineages count for nothing, but
//! for a lineage that a crash kept from some of those that it lists.
//!
//! Of several lineages the one counts that has come furthest. A version that a forced start left
//! behind before it counted takes none any further.
//!
//! A drive whose newest record may be in a block that cannot be read may carry any newer version:
//! an older one that a majority seems to carry does not count where a newer one may have.

use std::collections::BTreeMap;

use crate::log::format::{MemberEntry, MemberState, MemberUuid, SuperblockRecord};
use crate::log::recover::{OpenError, OpenOptions};
use crate::marks::{Mark, mark, mark_if};
use crate::mutants::{Mutant, mutant};

/// Identifies a version of the membership.
type Version = (u64, u64, u64);

fn version(record: &SuperblockRecord) -> Version {
    (record.epoch, record.epoch_tag, record.lineage)
}

/// Whether a drive, of which `own` is the newest record, is one of those among whom `table` tells
/// who is in service. A forced start makes strangers of the drives it is made without, and its table
/// calls them failed. One that it lists and that is behind it is one that a crash kept it from, if it
/// still has the other one in service: a start by force without that one would have called it failed.
pub(super) fn follows(own: &SuperblockRecord, table: &SuperblockRecord) -> bool {
    let kept_from = || own.epoch < table.epoch && has_in_service(own, table.member);
    own.config.array == table.config.array && (own.lineage == table.lineage || kept_from())
}

fn state_of(table: &SuperblockRecord, member: MemberUuid) -> Option<MemberState> {
    table.members.iter().find(|entry| entry.uuid == member).map(|entry| entry.state)
}

fn has_in_service(table: &SuperblockRecord, member: MemberUuid) -> bool {
    state_of(table, member).is_some_and(|state| state != MemberState::Failed)
}

/// Whether a forced start went on without this version, which never counted: a drive that it lists
/// in service was started by force without the one that carries it, and never had it, since a forced
/// start makes an epoch above all that its drives have seen.
fn was_left_behind(version: &SuperblockRecord, ours: &[&SuperblockRecord]) -> bool {
    ours.iter().any(|own| {
        own.lineage != version.lineage
            && own.epoch <= version.epoch
            && has_in_service(version, own.member)
            && state_of(own, version.member) == Some(MemberState::Failed)
            && !mutant(Mutant::LeftBehindCounts)
    })
}

/// The newest record that a drive has, as far as it can be read.
#[derive(Clone, Copy)]
pub(super) struct Newest<'a> {
    /// The record.
    pub(super) record: &'a SuperblockRecord,
    /// Whether there may be a newer one.
    pub(super) may_hide_newer: bool,
}

/// The newest record of the membership's valid version, and whether choosing it took force.
pub(super) fn choose<'a>(
    newest: &[Option<Newest<'a>>],
    options: &OpenOptions,
) -> Result<(&'a SuperblockRecord, bool), OpenError> {
    let records: Vec<_> = newest.iter().flatten().map(|newest| newest.record).collect();
    let array = most_common(records.iter().map(|record| record.config.array));
    let array = array.ok_or(OpenError::NoArray)?;
    mark_if(Mark::OtherArrayLeftOut, || records.iter().any(|r| r.config.array != array));
    let ours: Vec<_> = records.into_iter().filter(|r| r.config.array == array).collect();
    let hides_newer = |own: &SuperblockRecord| {
        newest.iter().flatten().any(|at| at.record.member == own.member && at.may_hide_newer)
    };
    let lineage = choose_lineage(&ours)?;
    let mut versions: BTreeMap<Version, Vec<&SuperblockRecord>> = BTreeMap::new();
    for record in ours.iter().filter(|record| record.lineage == lineage) {
        versions.entry(version(record)).or_default().push(record);
    }
    let total = ours[0].config.scheme.columns();
    let latest = |carriers: &[&'a SuperblockRecord]| {
        carriers.iter().copied().max_by_key(|record| record.record_sequence).expect("not empty")
    };
    let present = |record: &SuperblockRecord| {
        let listed = record.members.iter().filter(|member| member.state != MemberState::Failed);
        let is_here = |member: &&MemberEntry| {
            ours.iter().any(|own| own.member == member.uuid && follows(own, record))
        };
        listed.filter(is_here).count()
    };
    // A commit counts once every member that its table calls in service has it: a version that
    // some of those here do not carry never counted, and older ones may be gone back to.
    let may_have_counted = |record: &SuperblockRecord| {
        let in_service = |own: &&&SuperblockRecord| {
            let mut listed = record.members.iter().filter(|m| m.state != MemberState::Failed);
            listed.any(|m| m.uuid == own.member) && follows(own, record)
        };
        // Two versions of one epoch come from starts of which neither knew of the other's.
        let has_it = |own: &&SuperblockRecord| {
            own.epoch > record.epoch || version(own) == version(record) || hides_newer(own)
        };
        ours.iter().filter(in_service).all(has_it)
    };
    let newest_first = || versions.values().rev();
    let carried = newest_first().position(|carriers| carriers.len() * 2 > total);
    if let Some(at) = carried {
        let overtaken = newest_first().take(at).any(|carriers| may_have_counted(carriers[0]));
        mark_if(Mark::CarriedVersionOvertaken, || overtaken);
        if !overtaken {
            return Ok((latest(newest_first().nth(at).expect("it was found")), false));
        }
    }
    for (older, carriers) in newest_first().enumerate() {
        if present(carriers[0]) * 2 > total {
            mark(if older > 0 { Mark::OlderVersionTaken } else { Mark::VersionOfPresentMajority });
            return Ok((latest(carriers), false));
        }
        if may_have_counted(carriers[0]) {
            mark_if(Mark::NoWayBackBehindVersion, || {
                versions.values().any(|carriers| present(carriers[0]) * 2 > total)
            });
            break;
        }
    }
    let last = versions.values().next_back().expect("at least one record");
    let record = latest(last);
    if options.force {
        mark(Mark::ForcedStart);
        return Ok((record, true));
    }
    let (present, name) = (present(record), record.config.name.clone());
    if present < record.config.scheme.data() {
        return Err(too_few(record, present));
    }
    mark(Mark::NoQuorumRefused);
    Err(OpenError::NoQuorum { name, present, total })
}

/// The history that went on: the one with an epoch above all epochs of the others, which a forced
/// start makes. Two that both went on cannot be told apart here.
fn choose_lineage(records: &[&SuperblockRecord]) -> Result<u64, OpenError> {
    let counts = |record: &&&SuperblockRecord| !was_left_behind(record, records);
    let mut counting: Vec<_> = records.iter().filter(counts).collect();
    mark_if(Mark::VersionLeftBehind, || counting.len() < records.len());
    if counting.is_empty() {
        counting = records.iter().collect();
    }
    let mut epochs: BTreeMap<u64, u64> = BTreeMap::new();
    for record in counting {
        let epoch = epochs.entry(record.lineage).or_default();
        *epoch = (*epoch).max(record.epoch);
    }
    let last = epochs.values().max().copied().unwrap_or(0);
    let mut latest = epochs.iter().filter(|(_, epoch)| **epoch == last);
    match (latest.next(), latest.next()) {
        (Some((lineage, _)), None) => Ok(*lineage),
        _ => {
            mark(Mark::TwoHistoriesRefused);
            Err(OpenError::TwoHistories { name: records[0].config.name.clone() })
        }
    }
}

pub(super) fn too_few(record: &SuperblockRecord, present: usize) -> OpenError {
    mark(Mark::TooFewMembersRefused);
    OpenError::TooFewMembers {
        name: record.config.name.clone(),
        present,
        total: record.config.scheme.columns(),
        needed: record.config.scheme.data(),
        missing: match record.config.scheme.is_mirrored() {
            true => "one of each pair, slots c and c + k; see `zoneweave array list`".to_owned(),
            false => "see `zoneweave array list` for what each drive is".to_owned(),
        },
    }
}

fn most_common<T: Ord + Copy>(items: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    items.for_each(|item| *counts.entry(item).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(item, _)| item)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Column, Scheme};
    use crate::log::format::{ArrayConfig, RecordBody};

    const DRIVES: u8 = 6;

    /// The newest record of a drive of an array of three and three, the members outside `failed` in service.
    fn record(slot: u8, lineage: u64, epoch: u64, failed: &[u8]) -> SuperblockRecord {
        let state = |slot| match failed.contains(&slot) {
            true => MemberState::Failed,
            false => MemberState::Online,
        };
        let member = |slot: u8| MemberUuid([slot + 1; 16]);
        let entry = |slot| MemberEntry { uuid: member(slot), state: state(slot), since_epoch: 1 };
        SuperblockRecord {
            config: ArrayConfig { scheme: Scheme::new(3, 3).unwrap(), ..ArrayConfig::sample() },
            lineage,
            epoch,
            epoch_tag: 7,
            record_sequence: epoch * 10 + lineage,
            slot: Column(slot),
            member: member(slot),
            members: (0..DRIVES).map(entry).collect(),
            sequence_ceiling: 100,
            segment_ceiling: 10,
            body: RecordBody::State,
        }
    }

    fn chosen(records: &[SuperblockRecord], force: bool) -> Result<(u64, u64), OpenError> {
        let newest = |record| Some(Newest { record, may_hide_newer: false });
        let newest: Vec<_> = records.iter().map(newest).collect();
        let options = OpenOptions { force, ..OpenOptions::default() };
        choose(&newest, &options).map(|(record, _)| (record.lineage, record.epoch))
    }

    /// A drive failed, and a crash kept the record of that from half of the others. These were started by force, and
    /// came to the same epoch: theirs counts, for the other one never did.
    #[test]
    fn a_record_that_never_counted_makes_no_second_history() {
        let before = |slot| record(slot, 1, 5, &[]);
        let unfinished = |slot| record(slot, 1, 6, &[0]);
        let forced = |slot| record(slot, 2, 6, &[0, 1, 2]);
        let records =
            [before(0), unfinished(1), unfinished(2), forced(3), forced(4), forced(5)].to_vec();
        assert_eq!(chosen(&records, true).unwrap(), (2, 6));
        assert!(matches!(chosen(&records, false), Err(OpenError::NoQuorum { present: 3, .. })));
        // Another drive failed while that was recorded, and one of those started by force later was to stay: they
        // never were told, so their history is no part of the other one.
        let further = |slot| record(slot, 1, 7, &[0, 4]);
        let records = [before(0), further(1), further(2), forced(3), forced(4), forced(5)].to_vec();
        assert_eq!(chosen(&records, true).unwrap(), (2, 6));
        assert!(!follows(&forced(3), &further(1)));
    }

    /// Both halves were started by force: neither of them lists a drive of the other one.
    #[test]
    fn two_histories_that_both_count_are_refused() {
        let ours = |slot| record(slot, 2, 6, &[3, 4, 5]);
        let theirs = |slot| record(slot, 3, 6, &[0, 1, 2]);
        let records = [ours(0), ours(1), ours(2), theirs(3), theirs(4), theirs(5)].to_vec();
        for force in [false, true] {
            let refused = chosen(&records, force);
            assert!(matches!(refused, Err(OpenError::TwoHistories { .. })), "{refused:?}");
        }
    }

    /// A forced start was cut short: whom it lists goes with it, unless that one was started by force itself.
    #[test]
    fn whom_a_crash_kept_a_lineage_from_follows_it() {
        let forced = record(3, 2, 6, &[0, 1, 2]);
        assert!(follows(&record(4, 1, 5, &[]), &forced));
        assert!(!follows(&record(4, 1, 6, &[]), &forced));
        assert!(!follows(&record(4, 3, 5, &[0, 1, 2, 3]), &forced));
        assert!(follows(&record(4, 2, 5, &[3]), &forced), "one lineage");
    }
}
