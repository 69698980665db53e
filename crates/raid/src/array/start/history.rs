//! The past by the records of the members: faults and scrubs.

use std::cmp::Reverse;

use crate::array::format::errors::MemberErrors;
use crate::array::format::faults::Faults;
use crate::array::format::record::{MemberEntry, MemberState, SuperblockRecord, VolumeBody};
use crate::array::format::scrubs::Scrubs;
use crate::array::start::assemble::Drive;
use crate::array::state::Array;
use crate::instrument::marks::{Mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};

/// The records that the present members wrote as such. A drive that was re-added still has records
/// of its former membership. A death among them may be one that no other member knows: it never
/// counted, and the segment has gone on without it. Whatever counts is on record with every member
/// in service.
pub(crate) fn of_members<'a, B: VolumeBody>(
    chosen: &'a SuperblockRecord<B>,
    drives: &'a [Option<Drive<B>>],
    slots: &'a [Option<usize>],
) -> impl Iterator<Item = &'a SuperblockRecord<B>> {
    let placed = slots.iter().zip(&chosen.members);
    let placed = placed.filter_map(|(at, entry)| Some((drives[(*at)?].as_ref()?, entry)));
    placed.flat_map(|(drive, entry)| {
        let records = drive.records.scan.records.iter().map(|(_, record)| record);
        records.filter(|record| {
            let is_former = record.member != entry.uuid;
            mark_if(Mark::FormerDecisionLeftOut, || is_former);
            !is_former || mutant(Mutant::FormerDecisionBelieved)
        })
    })
}

/// The past by the records. Nothing depends on it.
#[derive(Default)]
pub(crate) struct History {
    /// The newest faults, if there ever were any.
    pub(crate) faults: Option<Faults>,
    /// The newest scrubs.
    pub(crate) scrubs: Scrubs,
}

impl History {
    /// That of the present members. A record of another configuration may be sealed as well as any:
    /// its slots and ranges are not those of this array.
    pub(crate) fn of<B: VolumeBody>(
        chosen: &SuperblockRecord<B>,
        drives: &[Option<Drive<B>>],
        slots: &[Option<usize>],
    ) -> Self {
        let records = || {
            of_members(chosen, drives, slots).filter(|record| {
                let is_ours = record.config.is_same_but_for_name(&chosen.config);
                mark_if(Mark::OtherHistoryLeftOut, || !is_ours);
                is_ours
            })
        };
        Self { faults: newest_faults(records(), &chosen.members), scrubs: newest_scrubs(records()) }
    }

    /// Has an array go on with it.
    pub(crate) fn enter(self, array: &mut Array) {
        if let Some(faults) = self.faults {
            array.take_faults(faults);
        }
        array.scrubs = self.scrubs;
    }
}

/// The newest faults in records. The errors of a slot are those of the drive that is its member: a
/// crash may have cut the record of a replacement short, and the drive before counts.
fn newest_faults<'a, B: VolumeBody + 'a>(
    records: impl Iterator<Item = &'a SuperblockRecord<B>>,
    members: &[MemberEntry],
) -> Option<Faults> {
    let faults = records.filter_map(|record| Some((record, record.body.faults()?)));
    let mut newest_first: Vec<_> = faults.collect();
    newest_first.sort_by_key(|(record, _)| Reverse(record.record_sequence));
    let mut faults = newest_first.first()?.1.clone();
    for (slot, now) in members.iter().enumerate() {
        let is_of = |record: &SuperblockRecord<B>| record.members[slot].uuid == now.uuid;
        let own = newest_first.iter().find(|(record, _)| is_of(record));
        faults.errors[slot] = own.map_or(MemberErrors::default(), |(_, own)| own.errors[slot]);
    }
    let newest = faults.clone();
    // A fault that a member in service still has was not cleared: an order to clear needs every
    // member.
    let in_service = members.iter().filter(|member| member.state != MemberState::Failed);
    for member in in_service {
        let own = newest_first.iter().find(|(record, _)| record.member == member.uuid);
        let Some((record, own)) = own else { continue };
        faults.lose_all_of(own);
        for (slot, now) in members.iter().enumerate() {
            if record.members[slot].uuid == now.uuid {
                faults.errors[slot] = faults.errors[slot].most(&own.errors[slot]);
            }
        }
    }
    mark_if(Mark::ClearNotBelieved, || faults.lost != newest.lost);
    mark_if(Mark::FaultsRead, || !faults.are_none());
    Some(faults)
}

/// The newest scrubs in records.
fn newest_scrubs<'a, B: VolumeBody + 'a>(
    records: impl Iterator<Item = &'a SuperblockRecord<B>>,
) -> Scrubs {
    let scrubs = records.filter_map(|record| Some((record.record_sequence, record.body.scrubs()?)));
    scrubs.max_by_key(|(sequence, _)| *sequence).map(|(_, found)| found.clone()).unwrap_or_default()
}
