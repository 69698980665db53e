//! The epoch that an array is in, by the records of all drives: docs/format.md section 4.

use std::collections::BTreeSet;

use crate::array::records::Candidate;
use crate::format::record::{Epoch, MemberState, Record};

/// The epoch that the array is in, and whether that is certain: a majority of the members carries
/// it or can form it, and no other history has come as far.
pub(crate) fn choose_epoch(candidates: &[Candidate]) -> Option<(Epoch, bool)> {
    let mut epochs: BTreeSet<Epoch> =
        candidates.iter().flat_map(|at| at.records.iter().map(|at| at.record.epoch)).collect();
    // A forced start makes an epoch above every epoch on its drives. Other lineages are left
    // behind, and so are epochs that it did not see if they never counted. The choice is uncertain
    // if two lineages reach the same epoch, or if only drives that may hide a newer record decide
    // between them.
    let leading = |in_doubt| leading_lineages(candidates, &epochs, in_doubt);
    let lineages = leading(true);
    let lineage = *lineages.last()?;
    let sure = lineages.len() == 1 && leading(false) == lineages;
    epochs.retain(|epoch| epoch.lineage == lineage);
    let columns = candidates.first()?.newest(None)?.config.shape.columns() as usize;
    let carried = |epoch: &&Epoch| {
        let holders = candidates.iter().filter(|at| at.newest(Some(**epoch)).is_some());
        holders.count() * 2 > columns
    };
    let with_majority_present = |epoch: &&Epoch| {
        let Some(table) = newest_of_all(candidates, **epoch) else { return false };
        let in_service = candidates.iter().filter(|at| {
            let own = at.newest(None).and_then(|own| state_of(candidates, table, own));
            own.is_some_and(|state| state != MemberState::Failed)
        });
        in_service.count() * 2 > columns
    };
    // An array never returns to an epoch before one that may have counted.
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

/// The lineages with the highest epoch among epochs that were not passed over.
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

/// Whether a forced start passed an epoch over: a drive that the epoch's table has in service was
/// started without the holders of the epoch and did not know it. Such a start makes an epoch above
/// all that its drives know, and the epoch of that drive is not above this one.
///
/// A record that such a drive hides could be of this epoch, and a record that a holder hides could
/// be of a later epoch that counted. With such a drive the answer is no, unless `in_doubt` trusts
/// it.
fn is_passed_over(candidates: &[Candidate], epoch: Epoch, in_doubt: bool) -> bool {
    let Some(table) = newest_of_all(candidates, epoch) else { return false };
    let is_believed = |at: &&Candidate| in_doubt || !at.may_hide_newer;
    if !holders(candidates, epoch).all(|holder| is_believed(&holder)) {
        return false;
    }
    let newest = candidates.iter().filter(is_believed).filter_map(|at| at.newest(None));
    let mut apart =
        newest.filter(|own| own.epoch.lineage != epoch.lineage && own.epoch.number <= epoch.number);
    apart.any(|own| table.has_in_service(own) && !knows_any(own, candidates, epoch))
}

/// The drives with a record of an epoch.
fn holders(candidates: &[Candidate], epoch: Epoch) -> impl Iterator<Item = &Candidate> {
    candidates.iter().filter(move |at| at.newest(Some(epoch)).is_some())
}

/// Whether a holder of an epoch is in service by a record. After a forced start without any
/// holder there is none: the records of the started drives call the holders failed, or others
/// replaced them.
fn knows_any(own: &Record, candidates: &[Candidate], epoch: Epoch) -> bool {
    let mut newest = holders(candidates, epoch).filter_map(|at| at.newest(None));
    newest.any(|holder| own.has_in_service(holder))
}

/// The state that a table gives to the drive whose newest record is `own`.
pub(crate) fn state_of(
    candidates: &[Candidate],
    table: &Record,
    own: &Record,
) -> Option<MemberState> {
    // A crash may have kept a new lineage from some drives that it lists. A drive of a separate
    // forced start has none of its holders in service.
    let same_history = own.epoch.lineage == table.epoch.lineage
        || own.epoch.number < table.epoch.number && knows_any(own, candidates, table.epoch);
    table.entry_of(own).filter(|_| same_history).map(|entry| entry.state)
}

pub(crate) fn newest_of_all(candidates: &[Candidate], epoch: Epoch) -> Option<&Record> {
    candidates.iter().filter_map(|at| at.newest(Some(epoch))).max_by_key(|record| record.sequence)
}
