//! Finds the members of an array with a zoned volume among drives, without writing.

use std::path::PathBuf;

use zoneweave_raid::array::format::config::VolumeKind;
use zoneweave_raid::array::start::membership::MembershipRecord;
use zoneweave_raid::log::{DriveRole, OfferedDrive};
use zoneweave_raid::raizn::{self, OpenError, Survey};
use zoneweave_store::missing_slots;
use zoneweave_zoned::{Geometry, ZonedDevice};

use crate::conditions::position_of;
use crate::drives::membership::membership_of;
use crate::error::CliError;
use crate::session::{Access, Drives, NamedDrive, Session};

/// The drives of an array with a zoned volume.
pub(crate) struct Found {
    pub drives: Drives,
    pub survey: Survey,
    pub membership: MembershipRecord,
}

impl Found {
    /// Which of the drives given is the drive of a slot.
    pub(crate) fn position_of(&self, slot: usize) -> Option<usize> {
        position_of(&self.survey.drives, slot)
    }

    /// The volume as a drive, with the limits of its members.
    ///
    /// # Errors
    /// If the drives allow too few open or active zones.
    pub(crate) fn geometry(&self) -> Result<Geometry, OpenError> {
        let drives = self.drives.opened.iter().zip(&self.survey.drives);
        let is_member = |role: &DriveRole| matches!(role, DriveRole::Member { .. });
        let members = drives.filter(|(_, verdict)| is_member(&verdict.role));
        let geometries = members.map(|(named, _)| named.drive.geometry());
        raizn::geometry(&self.membership.config, geometries)
    }

    /// Checks that every member in service but `but` is present, because a start without a member
    /// takes it out of service.
    ///
    /// # Errors
    /// The slots that are missing.
    pub(crate) fn refuse_missing(&self, but: Option<usize>) -> Result<(), CliError> {
        let mut missing = missing_slots(&self.membership, &self.survey.drives);
        missing.retain(|slot| Some(usize::from(*slot)) != but);
        match missing.is_empty() {
            true => Ok(()),
            false => {
                let name = self.membership.config.name.clone();
                let error = CliError::missing(name, missing, self.survey.refusal.is_none());
                Err(error.because_of(self.drives.first_failure()))
            }
        }
    }
}

impl Found {
    /// Refuses to report data as lost only because its drives were not named.
    ///
    /// # Errors
    /// If the drives are too few to read the volume.
    pub(crate) fn refuse_few_named(&self) -> Result<(), CliError> {
        let slots = 0..self.membership.members.len();
        let present = slots.filter(|slot| self.position_of(*slot).is_some()).count();
        let needed = self.membership.config.scheme.data();
        match present < needed {
            true => {
                let name = self.membership.config.name.clone();
                Err(CliError::FewNamed {
                    name,
                    why: format!("it needs {needed} drives to be read"),
                })
            }
            false => Ok(()),
        }
    }
}

/// Surveys drives; `None` if fewer of them belong to arrays with a zoned volume than to others.
///
/// # Errors
/// If no drive can be opened, or if the array's valid history cannot be determined.
pub(crate) fn find(session: &Session, paths: &[PathBuf]) -> Result<Option<Found>, CliError> {
    let mut looks = 1..LOOKS;
    let (drives, zoned) = loop {
        let drives = session.open_some(paths, Access::Look)?;
        let zoned = are_zoned(session, &drives);
        if zoned.is_some() || looks.next().is_none() {
            break (drives, zoned);
        }
    };
    if zoned != Some(true) {
        return Ok(None);
    }
    let survey = session.executor.run(raizn::survey(offer(&drives.opened)));
    match survey.membership.clone() {
        Some(membership) => Ok(Some(Found { drives, survey, membership })),
        None => Err(refused(survey.refusal)),
    }
}

/// The error of an array whose valid history cannot be determined.
fn refused(refusal: Option<OpenError>) -> CliError {
    refusal.map_or(CliError::NoArray, CliError::from)
}

/// Looks at drives that seem to be members of no array. A server that moves its records to the
/// other superblock zone once a drive was opened leaves neither the old nor the new ones to be
/// found.
const LOOKS: u32 = 3;

/// Whether more of the drives are members of arrays with a zoned volume than of others; `None` if
/// none is a member.
fn are_zoned(session: &Session, drives: &Drives) -> Option<bool> {
    let (mut zoned, mut others) = (0, 0);
    for named in &drives.opened {
        let membership = session.executor.run(membership_of(named));
        match membership.ok().flatten().map(|membership| membership.config.volume) {
            Some(VolumeKind::Zoned(_)) => zoned += 1,
            Some(VolumeKind::Log(_)) => others += 1,
            None => {}
        }
    }
    (zoned + others > 0).then_some(zoned > others)
}

/// Refuses drives of an array with a zoned volume, where a block volume is needed.
pub(crate) fn refuse_zoned(session: &Session, drives: &Drives) -> Result<(), CliError> {
    if are_zoned(session, drives) != Some(true) {
        return Ok(());
    }
    let survey = session.executor.run(raizn::survey(offer(&drives.opened)));
    let name = survey.membership.map(|membership| membership.config.name);
    Err(CliError::IsZoned { name: name.unwrap_or_default() })
}

/// Drives as a zoned volume takes them.
pub(crate) fn offer(drives: &[NamedDrive]) -> Vec<OfferedDrive> {
    let offered = |named: &NamedDrive| OfferedDrive {
        device: named.drive.clone(),
        label: named.label.clone(),
    };
    drives.iter().map(offered).collect()
}
