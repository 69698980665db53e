//! Drives that were named for an array and are none of its members, while a member is missing.
//!
//! They are more likely a mistake than a lost drive: a file system that is not mounted, or a file
//! that was restored to the wrong place. A start beside them would take the member out of service.

use zoneweave_raid::log::format::{ArrayConfig, MemberEntry, MemberState};
use zoneweave_raid::log::{DriveRole, DriveVerdict};

use crate::conditions::position_of;
use crate::error::{CliError, NewMemberError};

/// Refuses such drives. Drives beside a whole array are left alone.
///
/// # Errors
/// What they hold, and which slot is missing.
pub(crate) fn refuse_strangers(
    config: &ArrayConfig,
    members: &[MemberEntry],
    verdicts: &[DriveVerdict],
) -> Result<(), CliError> {
    let strangers = verdicts.iter().filter_map(|verdict| {
        let holds = match verdict.role {
            DriveRole::Blank => "holds nothing",
            DriveRole::Unknown => "holds data, but no superblock",
            DriveRole::Foreign { array } if array != config.array => "belongs to another array",
            DriveRole::OtherVersion { .. } => "belongs to an array in another format version",
            _ => return None,
        };
        Some((verdict.label.clone(), holds.to_owned()))
    });
    let strangers: Vec<_> = strangers.collect();
    let missing = first_missing(members, verdicts).filter(|_| !strangers.is_empty());
    match missing {
        None => Ok(()),
        Some(slot) => {
            Err(NewMemberError::Strangers { strangers, name: config.name.clone(), slot }.into())
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
