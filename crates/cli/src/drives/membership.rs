//! The membership that a drive carries, whatever volume its array has.

use std::collections::{BTreeMap, BTreeSet};

use zoneweave_raid::array::start::membership::MembershipRecord;
use zoneweave_raid::log::format::{ArrayUuid, MemberState, MemberUuid};
use zoneweave_raid::log::recover::records::read_records;
use zoneweave_raid::raizn;
use zoneweave_zoned::Status;

use crate::session::NamedDrive;

/// The newest membership that a drive carries; `None` if it is not a member.
///
/// A server that uses the drive may move its records to the other superblock zone during a look,
/// which then finds neither the old nor the new ones. A second look finds the new ones.
pub(crate) async fn membership_of(named: &NamedDrive) -> Result<Option<MembershipRecord>, Status> {
    match look(named).await? {
        Some(membership) => Ok(Some(membership)),
        None => look(named).await,
    }
}

async fn look(named: &NamedDrive) -> Result<Option<MembershipRecord>, Status> {
    let records = read_records(&*named.member).await?;
    match records.newest() {
        Some(record) => Ok(Some(MembershipRecord::of(record))),
        // A zoned volume keeps nothing among its blocks, so it has the drive as it is.
        None => raizn::membership_of(&*named.drive).await,
    }
}

/// Members in service, of the arrays of some records, of which none of the records is. The newest
/// record of each array counts: drives that were replaced still know themselves as members.
pub(crate) fn absent_members<'a>(
    records: impl IntoIterator<Item = &'a MembershipRecord>,
) -> BTreeSet<MemberUuid> {
    let mut newest: BTreeMap<ArrayUuid, &MembershipRecord> = BTreeMap::new();
    let mut present = BTreeSet::new();
    for record in records {
        present.insert(record.member);
        let known = newest.entry(record.config.array).or_insert(record);
        if record.epoch > known.epoch {
            *known = record;
        }
    }
    let entries = newest.values().flat_map(|record| &record.members);
    let in_service = entries.filter(|entry| entry.state != MemberState::Failed);
    in_service.map(|entry| entry.uuid).filter(|uuid| !present.contains(uuid)).collect()
}
