//! The membership that a drive carries, whatever volume its array has.

use zoneweave_raid::array::start::membership::MembershipRecord;
use zoneweave_raid::log::recover::records::read_records;
use zoneweave_raid::raizn;
use zoneweave_zoned::Status;

use crate::session::NamedDrive;

/// The newest membership that a drive carries; `None` if it is not a member.
pub(crate) async fn membership_of(named: &NamedDrive) -> Result<Option<MembershipRecord>, Status> {
    let records = read_records(&*named.member).await?;
    match records.newest() {
        Some(record) => Ok(Some(MembershipRecord::of(record))),
        // A zoned volume keeps nothing among its blocks, so it has the drive as it is.
        None => raizn::membership_of(&*named.drive).await,
    }
}
