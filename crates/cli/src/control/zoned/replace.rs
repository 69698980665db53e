//! Puts a drive into a slot of a served zoned volume, on request.

use std::path::Path;

use zoneweave_linux::Drive;
use zoneweave_raid::array::error::RebuildError;
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{MemberHealth, MemberStatus};
use zoneweave_raid::raizn::{ReplaceError, check_fit};
use zoneweave_raid::scheme::Column;
use zoneweave_zoned::{ZonedDevice, ZonedDeviceExt};

use super::ZonedService;
use crate::conditions::{refuse_of_other_slot, refuse_working, spared_of, volume_stopped};
use crate::drives::consent::{Consent, Destroyed, Holdings, Prospect, holdings, not_empty};
use crate::drives::failure::with_error;
use crate::drives::space::check_space;
use crate::error::CliError;
use crate::events::{Place, What};
use crate::job::JobKind;
use crate::session::{NamedDrive, random_uuid, refuse_worse_way_in_thread};
use crate::status::WaitingStatus;

impl ZonedService {
    pub(super) async fn replace(
        &self,
        slot: usize,
        path: &Path,
        destroy: bool,
        by_name: bool,
    ) -> Result<(), CliError> {
        let (named, forgotten) = self.open_new(slot, path, destroy).await?;
        let path = path.to_owned();
        let consent = Consent { all: destroy, named: if by_name { &[path][..] } else { &[] } };
        let replaced = self.put(slot, &named, consent).await;
        if let Some(failed_member) = forgotten.filter(|_| replaced.is_err()) {
            self.slots.put(failed_member, named);
        }
        self.slots.keep(&self.members());
        replaced
    }

    /// Checks a replacement, and says what it would overwrite. Nothing is changed.
    pub(super) async fn try_replace(
        &self,
        slot: usize,
        path: &Path,
        destroy: bool,
    ) -> Result<Prospect, CliError> {
        let (named, forgotten) = self.open_new(slot, path, destroy).await?;
        let holds = self.check_new(slot, &named, destroy).await;
        if let Some(failed_member) = forgotten {
            self.slots.put(failed_member, named.clone());
        }
        let destroys = holds?.iter().map(|holds| Destroyed::new(&named, holds)).collect();
        let healths: Vec<_> = self.members().iter().map(|member| member.state).collect();
        if healths[slot] == MemberHealth::Rebuilding {
            return Err(ReplaceError::AlreadyRebuilding { slot: Column::of(slot) }.into());
        }
        spared_of(self.config.scheme, &healths, slot)?;
        Ok(Prospect { name: self.config.name.clone(), health: healths[slot], destroys })
    }

    /// Opens a drive for a slot; with the UUID of the failed member whose drive it was.
    async fn open_new(
        &self,
        slot: usize,
        path: &Path,
        destroy: bool,
    ) -> Result<(NamedDrive, Option<String>), CliError> {
        let label = path.display().to_string();
        self.refuse_in_service(slot, path)?;
        let place = self.openings.acquire().await;
        // Before advising to fail a member: the new drive may not exist.
        Drive::inspect_in_thread(&self.ring, path).await?;
        // Again, since another request may have used it meanwhile, or filled the slot.
        self.refuse_in_service(slot, path)?;
        refuse_working(slot, self.slots.working(&self.members(), slot), destroy)?;
        let forgotten = self.slots.forget(path);
        let drive = Drive::open_in_thread(&self.ring, &self.handle, path).await?;
        drop(place);
        Ok((NamedDrive::new(label, drive, &self.handle), forgotten))
    }

    /// Refuses a slot that does not exist, and a drive that is in service.
    fn refuse_in_service(&self, slot: usize, path: &Path) -> Result<(), CliError> {
        self.column(slot)?;
        match self.slots.is_used(path, &self.members()) {
            true => Err(CliError::InService { label: path.display().to_string() }),
            false => Ok(()),
        }
    }

    /// Puts an open drive into a slot, with consent to overwrite its contents.
    async fn put(
        &self,
        slot: usize,
        named: &NamedDrive,
        consent: Consent<'_>,
    ) -> Result<(), CliError> {
        let holds = self.check_new(slot, named, consent.all).await?;
        if let Some(holds) = holds.filter(|holds| !consent.covers(named, holds)) {
            return Err(not_empty(named, &holds));
        }
        let uuid = MemberUuid(random_uuid()?);
        let drive = named.path.display().to_string();
        let before = self.place(slot);
        self.note(What::began(
            JobKind::Replace,
            before.clone(),
            format!("to be replaced by {drive}"),
        ));
        // Before it is a member, so that the status names the drive as soon as it is.
        self.slots.waits(uuid.to_string(), named.clone());
        let slot_number = u8::try_from(slot).unwrap_or(u8::MAX);
        let waiting = WaitingStatus { slot: slot_number, drive, returns: false };
        self.waiting.borrow_mut().push((uuid.to_string(), waiting));
        let column = self.column(slot)?;
        let replaced = self.volume.replace(column, named.drive.clone(), uuid).await;
        self.waiting.borrow_mut().retain(|(other, _)| *other != uuid.to_string());
        self.slots.ends_waiting(&uuid.to_string());
        let replaced = replaced.map_err(|error| self.explained(error, slot, named));
        let drive = named.path.display();
        self.jobs.slot_ended(self.handle.now(), JobKind::Replace, slot, &drive, &replaced);
        // A replacement that failed may have left the slot without a drive.
        let place = if replaced.is_ok() { self.place(slot) } else { before };
        let words = ("the replacement is rebuilt", "the replacement failed");
        self.note(What::ended(JobKind::Replace, place, &replaced, words));
        replaced
    }

    /// Checks an open drive for a slot; returns what it holds.
    async fn check_new(
        &self,
        slot: usize,
        named: &NamedDrive,
        destroy: bool,
    ) -> Result<Option<Holdings>, CliError> {
        refuse_worse_way_in_thread(named, &self.ring, &self.handle).await?;
        let holds = holdings(named).await?;
        let record = holds.as_ref().and_then(|holds| holds.record.as_ref());
        refuse_of_other_slot(&self.config, &self.members(), slot, named, record)?;
        let zones = named.drive.report().await;
        let failed = |status| self.explained(ReplaceError::DriveFailed(status), slot, named);
        let zones = zones.map_err(failed)?;
        check_fit(&self.config, self.volume.geometry(), named.drive.geometry(), &zones)?;
        assert!(!zones.is_empty(), "a drive without zones fits");
        check_space(named, &zones)?;
        // Again, since another replacement may have filled the slot meanwhile.
        refuse_working(slot, self.slots.working(&self.members(), slot), destroy)?;
        Ok(holds)
    }

    /// The error of a replacement, with the reason that the drive knows: to the engine a drive
    /// that is full, or whose file is gone, is only lost.
    fn explained(&self, error: ReplaceError, slot: usize, named: &NamedDrive) -> CliError {
        assert!(slot < self.config.scheme.columns(), "slot {slot} of {}", self.config.scheme);
        // Only in a rebuild is it the member of the slot.
        let (status, known) = match error {
            ReplaceError::DriveFailed(status) => (status, None),
            ReplaceError::Rebuild(RebuildError::DriveFailed(status)) => {
                (status, self.members().into_iter().nth(slot).and_then(|member| member.reason))
            }
            ReplaceError::Stopped(stopped)
            | ReplaceError::Rebuild(RebuildError::Stopped(stopped)) => {
                return volume_stopped(stopped, &self.told_members());
            }
            ReplaceError::Rebuild(RebuildError::SourceFailed { slot, status }) => {
                return self.slots.source_failed(&self.members(), slot, status);
            }
            other => return other.into(),
        };
        let told = || {
            let told = known.unwrap_or_else(|| status.to_string());
            with_error(&told, named.drive.write_error())
        };
        let reason = named.drive.failure().unwrap_or_else(told);
        CliError::NewDriveFailed { label: named.label.clone(), reason }
    }

    /// The error of a rebuild of these slots that went on, with the reason that the drive knows.
    pub(super) fn explained_rebuild(&self, error: RebuildError, slots: &[usize]) -> CliError {
        let error = ReplaceError::from(error);
        match self.slots.of_failed(&self.members(), slots) {
            Some((slot, named)) => self.explained(error, slot, &named),
            None => error.into(),
        }
    }

    /// The members, with the reasons that their drives know: to the engine a drive whose file was
    /// removed is only gone.
    fn told_members(&self) -> Vec<MemberStatus> {
        let mut members = self.members();
        for member in &mut members {
            member.reason = self.slots.failure_of(member).or_else(|| member.reason.take());
        }
        members
    }

    /// A slot with its drive.
    fn place(&self, slot: usize) -> Place {
        self.slots.place(&self.members(), slot)
    }
}
