//! Takes drives out of service for a while, and puts them back with what they have.
//!
//! A drive that comes back gets what it missed and nothing else. Its path is remembered, as its
//! file is closed meanwhile: the drive may be unplugged.

use std::path::{Path, PathBuf};

use zoneweave_linux::Drive;
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{AdminError, MemberHealth, MemberStatus};

use super::Service;
use crate::error::{CliError, LifecycleError};
use crate::events::{Place, What};
use crate::job::JobKind;
use crate::session::{NamedDrive, random_uuid, refuse_worse_way_in_thread};
use crate::status::WaitingStatus;

/// A former member that is to return to its slot.
pub(super) struct Returning {
    slot: usize,
    uuid: MemberUuid,
    named: NamedDrive,
}

impl Service {
    /// Registers the last members of slots that were found at the start, unless their slots have
    /// other drives.
    pub(crate) fn expect_back(&self, former: Vec<(usize, NamedDrive)>) -> Result<(), CliError> {
        let members = self.volume.status().members;
        for (slot, named) in former {
            let state = members[slot].state;
            // Before the first write, the drive that is missing may still come.
            if state.is_in_service() || state == MemberHealth::Missing {
                continue;
            }
            let returning = Returning { slot, uuid: MemberUuid(random_uuid()?), named };
            self.wait_for_slot(&returning);
            self.former.borrow_mut().push(returning);
        }
        Ok(())
    }

    /// Puts back the former members that were found at the start.
    pub(super) async fn return_former(&self) {
        let former = self.former.take();
        for returning in former {
            // The log has the outcome.
            let _returned = self.put_back(returning).await;
        }
    }

    /// Refuses to take a member out where too few others would be found by the next start.
    pub(super) async fn refuse_lost_on_media(
        &self,
        slot: usize,
        force: bool,
    ) -> Result<(), CliError> {
        let members = self.volume.status().members;
        match force {
            true => Ok(()),
            false => self.slots.refuse_lost(&self.handle, &self.config, &members, slot).await,
        }
    }

    /// Takes a member out of service, and closes its drive.
    ///
    /// # Errors
    /// Also if the drive would not open again, unless by force.
    pub(super) async fn take_offline(&self, slot: usize, force: bool) -> Result<(), CliError> {
        let member = self.member_of(slot)?;
        let own = std::slice::from_ref(&member);
        let lost = self.slots.lost_on_media(&self.handle, self.config.array, own).await;
        if !lost.is_empty() && !force {
            return Err(LifecycleError::NotOnMedia { slot }.into());
        }
        let (named, place) = (self.slots.of(&member), self.place(slot));
        self.volume.fail(slot).await?;
        let Some(named) = named else { return Ok(()) };
        self.note(What::DriveOffline { place });
        self.slots.forget_member(&member);
        let mut offline = self.offline.borrow_mut();
        offline.retain(|(other, _)| *other != member.uuid);
        // It cannot be put back otherwise.
        if lost.is_empty() {
            offline.push((member.uuid, named.path));
        }
        Ok(())
    }

    /// Puts the former drive of a slot back.
    pub(super) async fn bring_online(
        &self,
        slot: usize,
        drive: Option<&Path>,
    ) -> Result<(), CliError> {
        let member = self.member_of(slot)?;
        if member.state.is_in_service() {
            let (drive, state) = (self.slots.label_of(&member), member.state);
            return Err(CliError::NotVacant { slot, drive, state });
        }
        let path = drive.map(Path::to_owned).or_else(|| self.last_path(&member));
        let path = path.ok_or(CliError::NoFormerDrive { slot })?;
        self.refuse_in_service(slot, &path)?;
        let opening = self.openings.acquire().await;
        Drive::inspect_in_thread(&self.ring, &path).await?;
        // Again, since another request may have used it meanwhile.
        self.refuse_in_service(slot, &path)?;
        let forgotten = self.slots.forget(&path);
        let drive = Drive::open_in_thread(&self.ring, &self.handle, &path).await?;
        drop(opening);
        let named = NamedDrive::new(path.display().to_string(), drive, &self.handle);
        refuse_worse_way_in_thread(&named, &self.ring, &self.handle).await?;
        let returning = Returning { slot, uuid: MemberUuid(random_uuid()?), named: named.clone() };
        self.wait_for_slot(&returning);
        let returned = self.put_back(returning).await;
        match (&returned, forgotten) {
            (Ok(()), _) => self.offline.borrow_mut().retain(|(other, _)| *other != member.uuid),
            (Err(_), Some(failed_member)) => self.slots.put(failed_member, named),
            (Err(_), None) => {}
        }
        self.slots.keep(&self.volume.status().members);
        returned
    }

    /// Shows a drive that returns, before it is a member.
    fn wait_for_slot(&self, returning: &Returning) {
        let Returning { slot, uuid, named } = returning;
        let drive = named.path.display().to_string();
        self.slots.waits(uuid.to_string(), named.clone());
        let slot = u8::try_from(*slot).unwrap_or(u8::MAX);
        let waiting = WaitingStatus { slot, drive, returns: true };
        self.waiting.borrow_mut().push((uuid.to_string(), waiting));
    }

    async fn put_back(&self, returning: Returning) -> Result<(), CliError> {
        let Returning { slot, uuid, named } = returning;
        let drive = &named.path.display();
        let place = Place::new(slot, drive);
        self.note(What::began(JobKind::Return, place.clone(), "returns, and gets what it missed"));
        let returned = self.volume.readd(slot, named.member.clone(), uuid).await;
        self.waiting.borrow_mut().retain(|(other, _)| *other != uuid.to_string());
        self.slots.ends_waiting(&uuid.to_string());
        let returned = returned.map_err(|error| self.explained_of(error, slot, &named));
        self.jobs.slot_ended(self.handle.now(), JobKind::Return, slot, drive, &returned);
        let words = ("has what it missed", "does not return");
        self.note(What::ended(JobKind::Return, place, &returned, words));
        returned
    }

    fn member_of(&self, slot: usize) -> Result<MemberStatus, CliError> {
        let members = self.volume.status().members;
        let columns = members.len();
        let member = members.into_iter().nth(slot);
        Ok(member.ok_or(AdminError::NoSuchSlot { slot, columns })?)
    }

    /// Path of the last drive of a member.
    fn last_path(&self, member: &MemberStatus) -> Option<PathBuf> {
        self.offline_path(member).or_else(|| self.slots.of(member).map(|named| named.path))
    }

    /// Path of the drive of a member that was taken offline.
    fn offline_path(&self, member: &MemberStatus) -> Option<PathBuf> {
        let offline = self.offline.borrow();
        offline.iter().find(|(other, _)| *other == member.uuid).map(|(_, path)| path.clone())
    }

    /// Slots whose drives were taken offline, with their paths.
    pub(super) fn offline_slots(&self) -> Vec<(u8, PathBuf)> {
        let members = self.volume.status().members;
        let offline = |member: &MemberStatus| Some((member.slot, self.offline_path(member)?));
        members.iter().filter_map(offline).collect()
    }
}
