//! Puts a drive into a slot, on request.

use std::path::Path;

use zoneweave_linux::Drive;
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{AdminError, MemberHealth, ReplaceError, VolumeStatus};
use zoneweave_raid::scheme::Column;
use zoneweave_zoned::{Status, ZonedDeviceExt};

use super::Service;
use crate::conditions::{check_fit, explained, refuse_of_other_slot, refuse_working, spared_of};
use crate::drives::consent::{Consent, Destroyed, Holdings, Prospect, holdings, not_empty};
use crate::drives::space::check_space;
use crate::error::CliError;
use crate::events::{Place, What};
use crate::job::JobKind;
use crate::session::{NamedDrive, random_uuid, refuse_worse_way_in_thread};
use crate::status::WaitingStatus;

impl Service {
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
        self.slots.keep(&self.volume.status().members);
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
        let healths: Vec<_> =
            self.volume.status().members.iter().map(|member| member.state).collect();
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
        // Again, since another request may have used it meanwhile.
        self.refuse_in_service(slot, path)?;
        refuse_working(slot, self.slots.working(&self.volume.status().members, slot), destroy)?;
        let forgotten = self.slots.forget(path);
        let drive = Drive::open_in_thread(&self.ring, &self.handle, path).await?;
        drop(place);
        Ok((NamedDrive::new(label, drive, &self.handle), forgotten))
    }

    /// Refuses a slot that does not exist, and a drive that is in service.
    pub(super) fn refuse_in_service(&self, slot: usize, path: &Path) -> Result<(), CliError> {
        let members = self.volume.status().members;
        if slot >= members.len() {
            return Err(AdminError::NoSuchSlot { slot, columns: members.len() }.into());
        }
        if self.slots.is_used(path, &members) {
            return Err(CliError::InService { label: path.display().to_string() });
        }
        Ok(())
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
        let replaced = self.volume.replace(slot, named.member.clone(), uuid).await;
        self.waiting.borrow_mut().retain(|(other, _)| *other != uuid.to_string());
        self.slots.ends_waiting(&uuid.to_string());
        let replaced = replaced.map_err(|error| self.explained_of(error, slot, named));
        self.jobs.slot_ended(
            self.handle.now(),
            JobKind::Replace,
            slot,
            &named.path.display(),
            &replaced,
        );
        // A replacement that failed may have left the slot without a drive.
        let place = if replaced.is_ok() { self.place(slot) } else { before };
        let words = ("the replacement is rebuilt", "the replacement failed");
        self.note(What::ended(JobKind::Replace, place, &replaced, words));
        replaced
    }

    /// The status of the volume, where the reasons of members are those that their drives know: to
    /// the engine a drive whose file was removed is only gone.
    pub(super) fn told_status(&self) -> VolumeStatus {
        let mut status = self.volume.status();
        for member in &mut status.members {
            member.reason = self.slots.failure_of(member).or_else(|| member.reason.take());
        }
        status
    }

    /// The error of a replacement of a slot's drive by this one, with the reason that drives know.
    pub(super) fn explained_of(
        &self,
        error: ReplaceError,
        slot: usize,
        named: &NamedDrive,
    ) -> CliError {
        let status = self.told_status();
        match error {
            ReplaceError::SourceFailed { slot, status: failed } => {
                self.slots.source_failed(&status.members, slot, failed)
            }
            error => explained(error, slot, named, &status),
        }
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
        let members = self.volume.status().members;
        refuse_of_other_slot(&self.config, &members, slot, named, record)?;
        let zones = named.member.report().await;
        let zones = zones.map_err(|status| failed(named, &status))?;
        check_fit(&self.config, named, &zones)?;
        check_space(named, &zones)?;
        // Again, since the slot may have come back meanwhile.
        refuse_working(slot, self.slots.working(&self.volume.status().members, slot), destroy)?;
        Ok(holds)
    }

    /// A slot with its drive.
    pub(super) fn place(&self, slot: usize) -> Place {
        self.slots.place(&self.volume.status().members, slot)
    }
}

fn failed(named: &NamedDrive, status: &Status) -> CliError {
    let reason = named.drive.failure().unwrap_or_else(|| status.to_string());
    CliError::NewDriveFailed { label: named.label.clone(), reason }
}
