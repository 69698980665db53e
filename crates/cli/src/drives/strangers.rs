//! Drives that were named for an array and are none of its members, while a member is missing.
//!
//! They are more likely a mistake than a lost drive: a file system that is not mounted, or a file
//! that was restored to the wrong place. A start beside them would take the member out of service.

use zoneweave_raid::log::format::{ArrayConfig, MemberEntry, MemberState};
use zoneweave_raid::log::{DriveRole, DriveVerdict};

use crate::conditions::position_of;
use crate::error::{CliError, NewMemberError};

/// Refuses the first such drive. Drives beside a whole array are left alone.
///
/// # Errors
/// What it holds, and which slot is missing.
pub(crate) fn refuse_strangers(
    config: &ArrayConfig,
    members: &[MemberEntry],
    verdicts: &[DriveVerdict],
) -> Result<(), CliError> {
    let stranger = verdicts.iter().find_map(|verdict| {
        let holds = match verdict.role {
            DriveRole::Blank => "holds nothing",
            DriveRole::Unknown => "holds data, but no superblock",
            DriveRole::Foreign { array } if array != config.array => "belongs to another array",
            DriveRole::OtherVersion { .. } => "belongs to an array in another format version",
            _ => return None,
        };
        Some((&verdict.label, holds))
    });
    let missing = first_missing(members, verdicts);
    match stranger.zip(missing) {
        None => Ok(()),
        Some(((label, holds), slot)) => {
            let (label, holds, name) = (label.clone(), holds.to_owned(), config.name.clone());
            Err(NewMemberError::Stranger { label, holds, name, slot }.into())
        }
    }
}

/// The first slot in service whose drive is not among those given.
pub(crate) fn first_missing(members: &[MemberEntry], verdicts: &[DriveVerdict]) -> Option<usize> {
    let is_missing = |(slot, member): &(usize, &MemberEntry)| {
        member.state != MemberState::Failed && position_of(verdicts, *slot).is_none()
    };
    members.iter().enumerate().find(is_missing).map(|(slot, _)| slot)
}
