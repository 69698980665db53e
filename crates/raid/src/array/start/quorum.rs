//! Chooses the version of the membership that counts.
//!
//! Rules, in this order. The newest record of each drive carries a version of the membership (an
//! epoch).
//! * The version that more than half of all members carry is the array's.
//! * If there is none (a crash fell between the writes of one commit), the newest version counts
//!   whose members are present in a majority. A version older than one that may have counted never
//!   does.
//! * Records of other arrays and other lineages are ignored, except on a drive that the lineage
//!   lists and that a crash kept from learning of it.
//!
//! Of several lineages the one with the highest epoch counts. A version that a forced start
//! abandoned, before it counted, does not raise its lineage's epoch. If it is unknown whether one
//! was abandoned, the start is refused.
//!
//! A drive whose newest record may be in an unreadable block may carry any newer version: an older
//! version does not count, even with an apparent majority, where a newer one may exist.

use std::collections::{BTreeMap, BTreeSet};

use crate::array::error::AssemblyError;
use crate::array::format::numbers::{Epoch, Lineage};
use crate::array::format::record::{MemberEntry, MemberState, MemberUuid, SuperblockRecord};
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};

/// Identifies a version of the membership.
type Version = (Epoch, u64, Lineage);

fn version<B>(record: &SuperblockRecord<B>) -> Version {
    (record.epoch, record.epoch_tag, record.lineage)
}

/// The newest record that a drive has, as far as it can be read.
pub(crate) struct Newest<'a, B> {
    pub(crate) record: &'a SuperblockRecord<B>,
    /// Whether there may be a newer one.
    pub(crate) may_hide_newer: bool,
}

impl<B> Clone for Newest<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Newest<'_, B> {}

/// Whether the drive with the newest record `own` belongs to the history of `table`. A forced start
/// leaves out absent drives, and its table marks them failed. A drive that the table lists, but
/// whose record is of an older lineage, was kept from the start by a crash. The sign is that its
/// own record has in service one of the present drives that carry the table's version: a forced
/// start without these would have marked them failed.
pub(crate) fn is_same_history<B>(
    own: &SuperblockRecord<B>,
    table: &SuperblockRecord<B>,
    present: &[Newest<'_, B>],
) -> bool {
    let kept_from = || own.epoch < table.epoch && knows_a_holder(own, table, present);
    own.config.array == table.config.array && (own.lineage == table.lineage || kept_from())
}

/// Whether the record `own` has in service one of the present drives that carry the version of
/// `table`.
///
/// A drive that took part in a separate forced start has none of them in service. With one of them
/// present its epoch would be above the version's, so all were absent, and its record marks them
/// failed, or no longer lists them after a replacement.
///
/// None of them can have obtained the version later either. Drives obtain a version from starts
/// that make them members. To reach further drives without the separated drive, a start would first
/// have put that one out of service, in a version of its own. Hence only holders of this very
/// version count, not others of its lineage.
///
/// A drive that a crash kept from the version has in service the drives that were members as far as
/// it knows. Some may have failed or joined since, in records that only it or only the others have.
/// A drive without any holder in service is left out: that costs one drive, while merging two
/// histories would mix their writes.
fn knows_a_holder<B>(
    own: &SuperblockRecord<B>,
    table: &SuperblockRecord<B>,
    present: &[Newest<'_, B>],
) -> bool {
    holders(table, present).any(|holder| has_in_service(own, holder.record.member))
}

fn holders<'a, B>(
    table: &SuperblockRecord<B>,
    present: &'a [Newest<'a, B>],
) -> impl Iterator<Item = &'a Newest<'a, B>> {
    let (array, wanted) = (table.config.array, version(table));
    present.iter().filter(move |at| at.record.config.array == array && version(at.record) == wanted)
}

pub(crate) fn has_in_service<B>(table: &SuperblockRecord<B>, member: MemberUuid) -> bool {
    let entry = table.members.iter().find(|entry| entry.uuid == member);
    entry.is_some_and(|entry| entry.state != MemberState::Failed)
}

/// Whether a forced start went on without this version, which then never counted. The proof is a
/// drive that the version lists in service, but that was started by force without its holders. It
/// never had the version, since a forced start mints an epoch above all epochs of its drives.
///
/// A drive that may hide a newer record may have had the version after all, which then counted; a
/// holder of the version may hide a later one that counted. Such drives are used as proof only if
/// `in_doubt`.
fn was_left_behind<B>(
    version: &SuperblockRecord<B>,
    present: &[Newest<'_, B>],
    in_doubt: bool,
) -> bool {
    let believed = |at: &&Newest<'_, B>| in_doubt || !at.may_hide_newer;
    let never_had_it = |own: &SuperblockRecord<B>| {
        own.lineage != version.lineage
            && own.epoch <= version.epoch
            && has_in_service(version, own.member)
            && !knows_a_holder(own, version, present)
    };
    holders(version, present).all(|holder| believed(&holder))
        && present.iter().filter(believed).any(|at| never_had_it(at.record))
        && !mutant(Mutant::LeftBehindCounts)
}

/// The newest record of the membership's valid version, and whether choosing it took force.
pub(crate) fn choose<'a, B>(
    newest: &[Option<Newest<'a, B>>],
    force: bool,
) -> Result<(&'a SuperblockRecord<B>, bool), AssemblyError> {
    let all = || newest.iter().flatten();
    let array = most_common(all().map(|at| at.record.config.array));
    let array = array.ok_or(AssemblyError::NoArray)?;
    mark_if(Mark::OtherArrayLeftOut, || all().any(|at| at.record.config.array != array));
    let ours: Vec<_> = all().filter(|at| at.record.config.array == array).copied().collect();
    assert!(!ours.is_empty(), "array {array} is on no drive");
    let lineage = choose_lineage(&ours)?;
    let mut versions: BTreeMap<Version, Vec<&SuperblockRecord<B>>> = BTreeMap::new();
    for record in ours.iter().map(|at| at.record).filter(|record| record.lineage == lineage) {
        versions.entry(version(record)).or_default().push(record);
    }
    let total = ours[0].record.config.scheme.columns();
    assert!(!versions.is_empty(), "lineage {lineage} is on none of {total} drives");
    let latest = |holders: &[&'a SuperblockRecord<B>]| {
        holders.iter().copied().max_by_key(|record| record.record_sequence).expect("not empty")
    };
    let present = |record: &SuperblockRecord<B>| {
        let listed = record.members.iter().filter(|member| member.state != MemberState::Failed);
        let is_here = |member: &&MemberEntry| {
            let is_it = |own: &SuperblockRecord<B>| own.member == member.uuid;
            ours.iter().any(|at| is_it(at.record) && is_same_history(at.record, record, &ours))
        };
        listed.filter(is_here).count()
    };
    // A commit counts once every member in service by its own table has it. A version that some
    // such member here does not carry never counted, and the start may use an older one.
    let may_have_counted = |record: &SuperblockRecord<B>| {
        let in_service = |at: &&Newest<'_, B>| {
            has_in_service(record, at.record.member) && is_same_history(at.record, record, &ours)
        };
        // Two versions of one epoch come from starts unaware of each other.
        let has_it = |at: &Newest<'_, B>| {
            let own = at.record;
            own.epoch > record.epoch || version(own) == version(record) || at.may_hide_newer
        };
        ours.iter().filter(in_service).all(has_it)
    };
    let newest_first = || versions.values().rev();
    let carried = newest_first().position(|holders| holders.len() * 2 > total);
    if let Some(at) = carried {
        let overtaken = newest_first().take(at).any(|holders| may_have_counted(holders[0]));
        mark_if(Mark::CarriedVersionOvertaken, || overtaken);
        if !overtaken {
            return Ok((latest(newest_first().nth(at).expect("it was found")), false));
        }
    }
    for (older, holders) in newest_first().enumerate() {
        if present(holders[0]) * 2 > total {
            mark(if older > 0 { Mark::OlderVersionTaken } else { Mark::VersionOfPresentMajority });
            return Ok((latest(holders), false));
        }
        if may_have_counted(holders[0]) {
            mark_if(Mark::NoWayBackBehindVersion, || {
                versions.values().any(|holders| present(holders[0]) * 2 > total)
            });
            break;
        }
    }
    let last = versions.values().next_back().expect("at least one record");
    let record = latest(last);
    if force {
        mark(Mark::ForcedStart);
        return Ok((record, true));
    }
    let (present, name) = (present(record), record.config.name.clone());
    if present < record.config.scheme.data() {
        return Err(too_few(record, present));
    }
    mark(Mark::NoQuorumRefused);
    Err(AssemblyError::NoQuorum { name, present, total })
}

/// The history that went on: the one with an epoch above all epochs of the others, which a forced
/// start mints. If two went on, they cannot be ranked here, and neither can they if the proof is a
/// drive that may hide a newer record. Refusing is the safe side: the drive in doubt can be left
/// out, while data overwritten by a stale history is lost.
fn choose_lineage<B>(present: &[Newest<'_, B>]) -> Result<Lineage, AssemblyError> {
    let (sure, in_doubt) = (furthest(present, false), furthest(present, true));
    let name = present[0].record.config.name.clone();
    if sure != in_doubt {
        mark(Mark::TwoHistoriesRefused);
        let hiding = present.iter().filter(|at| at.may_hide_newer);
        let slots: BTreeSet<_> = hiding.map(|at| at.record.slot.0).collect();
        let slots: Vec<_> = slots.iter().map(ToString::to_string).collect();
        return Err(AssemblyError::HistoryInDoubt { name, slots: slots.join(", ") });
    }
    match (sure.first(), sure.len()) {
        (Some(lineage), 1) => Ok(*lineage),
        _ => {
            mark(Mark::TwoHistoriesRefused);
            Err(AssemblyError::TwoHistories { name })
        }
    }
}

/// The lineages with the highest epoch of all versions that were not left behind.
fn furthest<B>(present: &[Newest<'_, B>], in_doubt: bool) -> BTreeSet<Lineage> {
    let records = || present.iter().map(|at| at.record);
    let counts = |record: &&SuperblockRecord<B>| !was_left_behind(record, present, in_doubt);
    let mut counting: Vec<_> = records().filter(counts).collect();
    mark_if(Mark::VersionLeftBehind, || counting.len() < present.len());
    if counting.is_empty() {
        counting = records().collect();
    }
    let last = counting.iter().map(|record| record.epoch).max();
    let furthest = counting.iter().filter(|record| Some(record.epoch) == last);
    let lineages: BTreeSet<_> = furthest.map(|record| record.lineage).collect();
    assert!(!lineages.is_empty(), "no history among {} drives", present.len());
    lineages
}

pub(crate) fn too_few<B>(record: &SuperblockRecord<B>, present: usize) -> AssemblyError {
    mark(Mark::TooFewMembersRefused);
    AssemblyError::TooFewMembers {
        name: record.config.name.clone(),
        present,
        total: record.config.scheme.columns(),
        needed: record.config.scheme.data(),
        missing: match record.config.scheme.is_mirrored() {
            true => "one of each pair, slots c and c + k; see `zoneweave array list`".to_owned(),
            false => "see `zoneweave array list` for the role of each drive".to_owned(),
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
    use crate::array::format::config::ArrayConfig;
    use crate::array::format::numbers::{SegmentId, Sequence};
    use crate::scheme::{Column, Scheme};

    const DRIVES: u8 = 6;

    /// The newest record of a drive of an array of three and three, the members outside `failed` in
    /// service.
    fn record(slot: u8, lineage: u64, epoch: u64, failed: &[u8]) -> SuperblockRecord<()> {
        let state = |slot| match failed.contains(&slot) {
            true => MemberState::Failed,
            false => MemberState::Online,
        };
        let member = |slot: u8| MemberUuid([slot + 1; 16]);
        let entry = |slot| MemberEntry {
            uuid: member(slot),
            state: state(slot),
            since_epoch: Epoch::FIRST,
        };
        SuperblockRecord {
            config: ArrayConfig { scheme: Scheme::new(3, 3).unwrap(), ..ArrayConfig::sample() },
            lineage: Lineage(lineage),
            epoch: Epoch(epoch),
            epoch_tag: 7,
            record_sequence: epoch * 10 + lineage,
            slot: Column(slot),
            member: member(slot),
            members: (0..DRIVES).map(entry).collect(),
            sequence_ceiling: Sequence(100),
            segment_ceiling: SegmentId(10),
            body: (),
        }
    }

    fn chosen(records: &[SuperblockRecord<()>], force: bool) -> Result<(u64, u64), AssemblyError> {
        chosen_in_doubt(records, &[], force)
    }

    /// The same where the newest records of the drives of slots `hiding` may be hidden.
    fn chosen_in_doubt(
        records: &[SuperblockRecord<()>],
        hiding: &[u8],
        force: bool,
    ) -> Result<(u64, u64), AssemblyError> {
        let hides = |record: &SuperblockRecord<()>| hiding.contains(&record.slot.0);
        let newest = |record| Some(Newest { record, may_hide_newer: hides(record) });
        let newest: Vec<_> = records.iter().map(newest).collect();
        choose(&newest, force).map(|(record, _)| (record.lineage.0, record.epoch.0))
    }

    /// A record of an array whose drives in `slots` were replaced.
    fn replaced(mut record: SuperblockRecord<()>, slots: &[u8]) -> SuperblockRecord<()> {
        for slot in slots {
            let entry = &mut record.members[usize::from(*slot)];
            *entry = MemberEntry { uuid: MemberUuid([0x70 + slot; 16]), ..*entry };
            entry.state = MemberState::Rebuilding;
        }
        record
    }

    fn newest_of(records: &[SuperblockRecord<()>]) -> Vec<Newest<'_, ()>> {
        records.iter().map(|record| Newest { record, may_hide_newer: false }).collect()
    }

    fn assert_refused(result: Result<(u64, u64), AssemblyError>) {
        assert!(matches!(result, Err(AssemblyError::TwoHistories { .. })), "{result:?}");
    }

    fn assert_in_doubt(result: Result<(u64, u64), AssemblyError>, of: &str) {
        let named =
            matches!(&result, Err(AssemblyError::HistoryInDoubt { slots, .. }) if slots == of);
        assert!(named, "{result:?}");
    }

    /// A drive failed, and a crash kept the record of that from half of the others. These were
    /// started by force and reached the same epoch. Theirs counts, as the other version never did.
    #[test]
    fn a_record_that_never_counted_makes_no_second_history() {
        let before = |slot| record(slot, 1, 5, &[]);
        let unfinished = |slot| record(slot, 1, 6, &[0]);
        let forced = |slot| record(slot, 2, 6, &[0, 1, 2]);
        let records =
            [before(0), unfinished(1), unfinished(2), forced(3), forced(4), forced(5)].to_vec();
        assert_eq!(chosen(&records, true).unwrap(), (2, 6));
        assert!(matches!(chosen(&records, false), Err(AssemblyError::NoQuorum { present: 3, .. })));
        // Another drive failed during that commit, and the drives later started by force had one of
        // them in service. They never got the record, so their history is no part of the other.
        let further = |slot| record(slot, 1, 7, &[0, 4]);
        let records = [before(0), further(1), further(2), forced(3), forced(4), forced(5)].to_vec();
        assert_eq!(chosen(&records, true).unwrap(), (2, 6));
        assert!(!is_same_history(&forced(3), &further(1), &newest_of(&records)));
    }

    /// Both halves were started by force: neither lists a drive of the other.
    #[test]
    fn two_histories_that_both_count_are_refused() {
        let ours = |slot| record(slot, 2, 6, &[3, 4, 5]);
        let theirs = |slot| record(slot, 3, 6, &[0, 1, 2]);
        let records = [ours(0), ours(1), ours(2), theirs(3), theirs(4), theirs(5)].to_vec();
        for force in [false, true] {
            assert_refused(chosen(&records, force));
        }
    }

    /// The drives of the forced start have since been replaced for the drives left behind: the
    /// table no longer lists those.
    #[test]
    fn a_version_left_behind_does_not_count_once_its_holders_were_replaced() {
        for epoch in [7, 8] {
            let unfinished = |slot| record(slot, 1, epoch, &[0]);
            let forced = |slot| replaced(record(slot, 2, 7, &[0]), &[1, 2]);
            let records = [unfinished(1), unfinished(2), forced(3), forced(4), forced(5)];
            assert_eq!(chosen(&records, true).unwrap(), (2, 7));
        }
    }

    /// One crash kept a drive from a forced start; an earlier crash had left only that drive with
    /// the record of another's failure. It follows the new version, whichever holder is examined.
    #[test]
    fn a_drive_that_knows_one_of_those_that_carry_a_version_follows_it() {
        let (kept_from, forced) = (record(2, 1, 5, &[0]), |slot| record(slot, 2, 7, &[3, 4, 5]));
        for [first, second] in [[0, 1], [1, 0]] {
            let records = [forced(first), forced(second), kept_from.clone()];
            assert_eq!(chosen(&records, true).unwrap(), (2, 7));
            let refused = chosen(&records, false);
            assert!(
                matches!(refused, Err(AssemblyError::NoQuorum { present: 3, .. })),
                "{refused:?}"
            );
        }
        // A drive started apart by force has none of them in service.
        let apart = record(2, 3, 6, &[0, 1]);
        for [first, second] in [[0, 1], [1, 0]] {
            let refused = chosen(&[forced(first), forced(second), apart.clone()], false);
            assert!(
                !matches!(refused, Err(AssemblyError::NoQuorum { present: 3, .. })),
                "{refused:?}"
            );
        }
        let left_out = replaced(record(2, 3, 6, &[0]), &[1]);
        assert!(!is_same_history(&left_out, &forced(0), &newest_of(&[forced(0), forced(1)])));
    }

    /// A drive with an unreadable newest record may have had the version, and may carry a later
    /// one.
    #[test]
    fn a_version_in_doubt_is_not_left_behind() {
        for epoch in [6, 7] {
            let unfinished = |slot| record(slot, 1, epoch, &[0]);
            let forced = |slot| record(slot, 2, 6, &[0, 1, 2]);
            let records = [
                record(0, 1, 5, &[]),
                unfinished(1),
                unfinished(2),
                forced(3),
                forced(4),
                forced(5),
            ];
            for force in [false, true] {
                assert_in_doubt(chosen_in_doubt(&records, &[3, 4, 5], force), "3, 4, 5");
                assert_in_doubt(chosen_in_doubt(&records, &[2], force), "2");
            }
            // One certain drive is enough; drives that neither carry the version nor prove anything
            // are ignored.
            assert_eq!(chosen_in_doubt(&records, &[0, 3, 4], true).unwrap(), (2, 6));
        }
        // Nothing was left behind: the higher epoch identifies the history that went on.
        let records = [record(1, 1, 5, &[]), record(3, 2, 6, &[1]), record(4, 2, 6, &[1])];
        assert_eq!(chosen_in_doubt(&records, &[1, 3, 4], true).unwrap(), (2, 6));
    }

    /// A forced start was cut short: the drives that it lists follow it, except one that was itself
    /// started apart by force.
    #[test]
    fn whom_a_crash_kept_a_lineage_from_follows_it() {
        let forced = record(3, 2, 6, &[0, 1, 2]);
        let present = newest_of(std::slice::from_ref(&forced));
        let is_same_history = |own: &SuperblockRecord<()>| is_same_history(own, &forced, &present);
        assert!(is_same_history(&record(4, 1, 5, &[])));
        assert!(!is_same_history(&record(4, 1, 6, &[])));
        assert!(!is_same_history(&record(4, 3, 5, &[0, 1, 2, 3])));
        assert!(is_same_history(&record(4, 2, 5, &[3])), "one lineage");
    }
}
