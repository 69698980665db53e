//! The hot spares of a server.

use std::path::{Path, PathBuf};

use zoneweave_linux::Drive;
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{ReplaceError, SpareState as TakenState, VolumeStatus};
use zoneweave_zoned::ZonedDeviceExt;

use super::Service;
use crate::conditions::check_fit;
use crate::drives::consent::holdings;
use crate::drives::paths::absolute;
use crate::drives::space::check_space;
use crate::error::{CliError, LifecycleError};
use crate::events::{Place, What};
use crate::job::JobKind;
use crate::session::{NamedDrive, random_uuid, refuse_worse_way_in_thread};
use crate::status::{SpareState, SpareStatus};

/// A current or former spare.
pub(super) struct KeptSpare {
    /// UUID as a member; zeros if it was refused.
    member: MemberUuid,
    uuid: String,
    label: String,
    /// Absolute path.
    path: PathBuf,
    /// The drive, until it is a member or given up.
    pub(super) waiting: Option<NamedDrive>,
    /// Why it was refused at the start, or is of no use any more.
    refused: Option<String>,
    /// Whether the end of its rebuild is recorded.
    ended: bool,
}

impl KeptSpare {
    /// Whether it waits, and is the drive at a path.
    fn waits_at(&self, path: &Path) -> bool {
        self.waiting.as_ref().is_some_and(|named| named.identity.is_at(path))
    }

    /// Whether it was given up, and its drive was at a path. That drive may be another one's now.
    fn was_given_up_at(&self, path: &Path) -> bool {
        self.waiting.is_none() && self.refused.is_some() && self.path == path
    }

    /// The drive that waits, with its future UUID.
    pub(super) fn waiting(&self) -> Option<(String, NamedDrive)> {
        Some((self.uuid.clone(), self.waiting.clone()?))
    }
}

impl Service {
    /// Adds a hot spare.
    pub(crate) fn keep_spare(&self, named: NamedDrive) -> Result<(), CliError> {
        let member = MemberUuid(random_uuid()?);
        let path = named.path.clone();
        self.volume.add_spare(named.member.clone(), member)?;
        let (uuid, label) = (member.to_string(), named.label.clone());
        let known = |spare: &KeptSpare| spare.uuid == uuid;
        assert!(!self.spares.borrow().iter().any(known), "a UUID is drawn once");
        let waiting = Some(named);
        // The spare that was given up is replaced.
        self.spares.borrow_mut().retain(|old| !old.was_given_up_at(&path));
        self.spares.borrow_mut().push(KeptSpare {
            member,
            uuid,
            label,
            path,
            waiting,
            refused: None,
            ended: false,
        });
        Ok(())
    }

    /// Opens a drive and adds it as a hot spare.
    ///
    /// # Errors
    /// If it is in use, holds something, or does not fit.
    pub(super) async fn add_spare(&self, path: &Path) -> Result<(), CliError> {
        let label = path.display().to_string();
        self.refuse_used(path)?;
        let place = self.openings.acquire().await;
        Drive::inspect_in_thread(&self.ring, path).await?;
        // Again, since another request may have used it meanwhile.
        self.refuse_used(path)?;
        let drive = Drive::open_in_thread(&self.ring, &self.handle, path).await?;
        drop(place);
        let named = NamedDrive::new(label.clone(), drive, &self.handle);
        refuse_worse_way_in_thread(&named, &self.ring, &self.handle).await?;
        if let Some(holds) = holdings(&named).await? {
            return Err(LifecycleError::NotBlank { label, holds: holds.text }.into());
        }
        let zones = named.member.report().await;
        let zones = zones.map_err(|status| CliError::DriveFailed { label, status })?;
        check_fit(&self.config, &named, &zones)?;
        check_space(&named, &zones)?;
        let drive = named.label.clone();
        self.keep_spare(named)?;
        self.note(What::SpareAdded { drive });
        Ok(())
    }

    /// Refuses a drive that is a member in service, or a spare already.
    fn refuse_used(&self, path: &Path) -> Result<(), CliError> {
        if self.slots.is_used(path, &self.volume.status().members) {
            return Err(CliError::InService { label: path.display().to_string() });
        }
        match self.spares.borrow().iter().any(|spare| spare.waits_at(path)) {
            true => Err(ReplaceError::SpareAlready.into()),
            false => Ok(()),
        }
    }

    /// Gives back a hot spare, whose drive is closed; dismisses one that was given up.
    ///
    /// # Errors
    /// If the drive is no spare, or was used meanwhile.
    pub(super) fn remove_spare(&self, path: &Path) -> Result<(), CliError> {
        // One that was taken a moment ago is a member.
        self.look_at_spares();
        let mut spares = self.spares.borrow_mut();
        let none = || LifecycleError::NoSpare { label: path.display().to_string() };
        let waits = spares.iter().position(|spare| spare.waits_at(path));
        let given_up = || {
            let path = absolute(path).ok()?;
            spares.iter().position(|spare| spare.was_given_up_at(&path))
        };
        let at = waits.or_else(given_up).ok_or_else(none)?;
        assert!(
            waits.is_none() || spares[at].member != MemberUuid::default(),
            "a spare that was refused does not wait"
        );
        if waits.is_some() && !self.volume.remove_spare(spares[at].member) {
            return Err(none().into());
        }
        let drive = spares.remove(at).label;
        drop(spares);
        self.note(What::SpareRemoved { drive });
        Ok(())
    }

    /// Records a spare that was given at the start, and is none.
    pub(crate) fn refuse_spare(&self, path: &Path, reason: &str) {
        let (label, path) = (path.display().to_string(), absolute(path));
        let path = path.unwrap_or_else(|_| PathBuf::from(&label));
        let (uuid, refused) = (String::new(), Some(reason.to_owned()));
        self.note(What::SpareUnusable { drive: label.clone(), reason: reason.to_owned() });
        self.spares.borrow_mut().push(KeptSpare {
            member: MemberUuid::default(),
            uuid,
            label,
            path,
            waiting: None,
            refused,
            ended: false,
        });
    }

    /// Records spares that have become members, and drops spares that were given up.
    pub(super) fn look_at_spares(&self) {
        self.record_rebuilds();
        self.give_up_lost();
        let VolumeStatus { members, spares, .. } = self.volume.status();
        for spare in self.spares.borrow_mut().iter_mut().filter(|spare| spare.waiting.is_some()) {
            let drive = &spare.label;
            let slot = members.iter().position(|member| member.uuid == spare.uuid);
            let taken = spares.taken.iter().find(|taken| taken.uuid == spare.uuid);
            let reason = taken.and_then(|taken| taken.reason.as_ref());
            let what = match (slot, reason) {
                (Some(slot), _) => {
                    if let Some(named) = spare.waiting.take() {
                        self.slots.put(spare.uuid.clone(), named);
                    }
                    let slot = u8::try_from(slot).expect("an array has at most 32 slots");
                    What::SpareTaken { slot, drive: drive.clone() }
                }
                (None, Some(reason)) => {
                    let failure = spare.waiting.take().and_then(|named| named.drive.failure());
                    let reason = failure.unwrap_or_else(|| reason.clone());
                    spare.refused = Some(reason.clone());
                    What::SpareUnusable { drive: drive.clone(), reason }
                }
                (None, None) => continue,
            };
            self.events.note(what);
        }
    }

    /// Gives up spares whose drives are gone. While they wait they get no request that could fail,
    /// so they are looked at like the drives of members.
    fn give_up_lost(&self) {
        for spare in self.spares.borrow_mut().iter_mut() {
            let failure = spare.waiting.as_ref().and_then(|named| named.drive.failure());
            let Some(reason) = failure else { continue };
            // One that was taken a moment ago is a member.
            if !self.volume.remove_spare(spare.member) {
                continue;
            }
            spare.waiting = None;
            spare.refused = Some(reason.clone());
            self.events.note(What::SpareUnusable { drive: spare.label.clone(), reason });
        }
    }

    /// Records the ends of the rebuilds of spares.
    fn record_rebuilds(&self) {
        let taken = self.volume.status().spares.taken;
        for spare in self.spares.borrow_mut().iter_mut().filter(|spare| !spare.ended) {
            let Some(taken) = taken.iter().find(|taken| taken.uuid == spare.uuid) else { continue };
            let slot = taken.slot;
            let reason = self.failure_of(&spare.uuid).or_else(|| taken.reason.clone());
            let reason = reason.unwrap_or_default();
            spare.ended = taken.state != TakenState::Rebuilding;
            if spare.ended {
                let is_rebuilt = taken.state == TakenState::Rebuilt;
                let result = if is_rebuilt { Ok(()) } else { Err(reason) };
                let (now, kind) = (self.handle.now(), JobKind::Rebuild);
                self.jobs.slot_ended(now, kind, slot.into(), &spare.label, &result);
                let words = ("the spare is rebuilt", "the spare is not rebuilt");
                self.events.note(What::ended(
                    kind,
                    Place::new(slot.into(), &spare.label),
                    &result,
                    words,
                ));
            }
        }
    }

    /// Why the drive of a spare that became a member failed, as far as the drive knows: to a
    /// rebuild it is only gone. The reason of the slot is that of the drive before.
    fn failure_of(&self, uuid: &str) -> Option<String> {
        let members = self.volume.status().members;
        self.slots.failure_of(members.iter().find(|member| member.uuid == *uuid)?)
    }

    /// The status of each spare.
    pub(super) fn spares(&self) -> Vec<SpareStatus> {
        let taken = self.volume.status().spares.taken;
        let tell = |spare: &KeptSpare| {
            let taken = taken.iter().find(|taken| taken.uuid == spare.uuid);
            SpareStatus {
                drive: spare.label.clone(),
                path: Some(spare.path.clone()),
                state: match (taken, &spare.refused) {
                    (Some(taken), _) => taken.state.into(),
                    (None, Some(_)) => SpareState::GivenUp,
                    (None, None) => SpareState::Waiting,
                },
                slot: taken.map(|taken| taken.slot),
                reason: spare.refused.clone().or_else(|| {
                    let told = taken?.reason.as_ref()?;
                    Some(self.failure_of(&spare.uuid).unwrap_or_else(|| told.clone()))
                }),
            }
        };
        self.spares.borrow().iter().map(tell).collect()
    }
}
