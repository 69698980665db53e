//! The roles of drives in an array with a zoned volume, found without writing to them.

use std::rc::Rc;

use zoneweave_zoned::{Status, ZonedDevice};

use crate::array::format::envelope::ArrayUuid;
use crate::array::format::faults::Faults;
use crate::array::format::record::SuperblockRecord;
use crate::array::format::scrubs::Scrubs;
use crate::array::offered::OfferedDrive;
use crate::array::repair::destroy::{self, DestroyError};
use crate::array::start::assemble::{
    Drive, DriveVerdict, name_other_version, newest_records, place_members, read_drives,
};
use crate::array::start::destroyed::refuse_destroyed;
use crate::array::start::drive_records::read_records;
use crate::array::start::history::History;
use crate::array::start::membership::MembershipRecord;
use crate::array::start::quorum::choose;
use crate::raizn::format::body::ZonedBody;
use crate::raizn::recover::error::OpenError;
use crate::raizn::recover::open::{check_members, shape};

/// The newest membership that a drive carries, of any array with a zoned volume; `None` if it is
/// not a member of one.
///
/// # Errors
/// If the drive does not even report its zones.
pub async fn membership_of(device: &dyn ZonedDevice) -> Result<Option<MembershipRecord>, Status> {
    let records = read_records::<ZonedBody>(device).await?;
    Ok(records.newest().map(MembershipRecord::of))
}

/// Roles of drives, found without writing to them or starting anything.
#[derive(Debug)]
pub struct Survey {
    /// The role of each drive, in the order offered.
    pub drives: Vec<DriveVerdict>,
    /// The membership that counts; `None` if no drive carries one.
    pub membership: Option<MembershipRecord>,
    /// Why the volume would not start from these drives; `None` if it would.
    pub refusal: Option<OpenError>,
    /// The faults on record, if there ever were any.
    pub faults: Option<Faults>,
    /// The newest scrubs.
    pub scrubs: Scrubs,
}

/// Identifies the array of the drives, and checks whether its volume would start.
pub async fn survey(offered: Vec<OfferedDrive>) -> Survey {
    let (drives, mut verdicts) = read_drives(offered).await;
    let newest = newest_records(&drives);
    let refusal = refuse_destroyed(&newest).and_then(|()| choose(&newest, false)).err();
    let refusal = refusal.map(|error| name_other_version(error, &verdicts).into());
    // Where the volume would not start, the membership that force would choose is the most
    // informative.
    let Ok((chosen, _)) = choose(&newest, true) else {
        let (faults, scrubs) = (None, Scrubs::default());
        return Survey { drives: verdicts, membership: None, refusal, faults, scrubs };
    };
    let chosen = chosen.clone();
    let placed = place_members(&chosen, &drives, &newest, &mut verdicts);
    let found = placed.as_ref().map(|slots| History::of(&chosen, &drives, slots));
    let History { faults, scrubs } = found.unwrap_or_default();
    let refusal = refusal.or_else(|| match placed {
        Err(error) => Some(error.into()),
        Ok(slots) => check(&chosen, &drives, &slots).err(),
    });
    let membership = Some(MembershipRecord::of(&chosen));
    Survey { drives: verdicts, membership, refusal, faults, scrubs }
}

/// Checks that enough members are there, and that their limits suffice.
fn check(
    chosen: &SuperblockRecord<ZonedBody>,
    drives: &[Option<Drive<ZonedBody>>],
    slots: &[Option<usize>],
) -> Result<(), OpenError> {
    check_members(chosen, slots)?;
    let ours = slots.iter().flatten().filter_map(|at| drives[*at].as_ref());
    shape(&chosen.config, ours.map(|drive| drive.offered.device.geometry())).map(|_| ())
}

/// Checks that a member of an array can be marked, as far as that is known without a write. Check
/// all members before the first is marked.
///
/// # Errors
/// A [`DestroyError`] with the reason.
pub async fn check_markable(
    device: &dyn ZonedDevice,
    array: ArrayUuid,
) -> Result<(), DestroyError> {
    destroy::check_markable::<ZonedBody>(device, array).await
}

/// Marks a member of an array that is being destroyed, durably. Mark all members before one of them
/// is erased.
///
/// # Errors
/// A [`DestroyError`] with the reason.
pub async fn mark_destroyed(
    device: &dyn ZonedDevice,
    array: ArrayUuid,
) -> Result<(), DestroyError> {
    destroy::mark_destroyed::<ZonedBody>(device, array).await
}

/// Erases a marked member.
///
/// # Errors
/// A [`DestroyError`] with the reason.
pub async fn erase_destroyed(
    device: &Rc<dyn ZonedDevice>,
    array: ArrayUuid,
) -> Result<(), DestroyError> {
    destroy::erase_destroyed::<ZonedBody>(device, array).await
}

/// Erases a drive that its array, if it has one, then misses.
///
/// # Errors
/// A [`DestroyError`] with the reason.
pub async fn erase_alone(device: &Rc<dyn ZonedDevice>) -> Result<(), DestroyError> {
    destroy::erase_alone::<ZonedBody>(device).await
}
