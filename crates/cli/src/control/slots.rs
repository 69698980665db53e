//! The drives of the members.
//!
//! Only the engine knows the member in a slot, and it may change at any time: a spare is taken, or
//! a replacement begins hours after it was requested. So drives are found by the UUID of their
//! member, not by slot. A drive that waits to become a member belongs to no slot yet: its failure
//! must not be taken for that of the member in the slot.

use std::cell::RefCell;
use std::path::Path;

use futures_util::future::join_all;
use zoneweave_raid::log::format::{ArrayConfig, ArrayUuid};
use zoneweave_raid::log::{MemberHealth, MemberStatus};
use zoneweave_raid::scheme::Column;
use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{Status, ZonedDeviceExt};

use super::ServedDrive;
use crate::conditions::refuse_lost_on_media;
use crate::drives::membership::membership_of;
use crate::error::{CliError, NewMemberError};
use crate::events::Place;
use crate::session::NamedDrive;
use crate::status::served::SlotDrive;
use crate::wait::until;

/// Time limit for all drives to report their zones to the status, which is shown without them then.
const REPORT_TIME: Nanos = Nanos::from_secs(1);

/// Looks for the records of a member.
const LOOKS: u32 = 3;

/// Drives opened at once, each in a thread; more requests wait.
pub(super) const OPENINGS: u64 = 4;

/// A drive with the UUID of its member.
struct Slot {
    uuid: String,
    named: NamedDrive,
    /// Not a member yet.
    waits: bool,
}

/// The drives of all members, including failed ones, and drives that wait to become members.
#[derive(Default)]
pub(super) struct Slots(RefCell<Vec<Slot>>);

impl Slots {
    /// The drives found at the start; `drives` is by slot.
    pub(super) fn new(members: &[MemberStatus], drives: Vec<Option<NamedDrive>>) -> Self {
        let slots = Self::default();
        for (member, named) in members.iter().zip(drives) {
            if let Some(named) = named {
                slots.put(member.uuid.clone(), named);
            }
        }
        slots
    }

    /// Adds the drive of a member.
    pub(super) fn put(&self, uuid: String, named: NamedDrive) {
        self.0.borrow_mut().push(Slot { uuid, named, waits: false });
    }

    /// Adds a drive that waits to become a member, until [`Self::ends_waiting`].
    pub(super) fn waits(&self, uuid: String, named: NamedDrive) {
        self.0.borrow_mut().push(Slot { uuid, named, waits: true });
    }

    /// Ends the wait of a drive: it has become a member, or never will.
    pub(super) fn ends_waiting(&self, uuid: &str) {
        let mut slots = self.0.borrow_mut();
        slots.iter_mut().filter(|slot| slot.uuid == uuid).for_each(|slot| slot.waits = false);
    }

    /// Drops drives that are no longer members.
    pub(super) fn keep(&self, members: &[MemberStatus]) {
        let is_member = |slot: &Slot| members.iter().any(|member| member.uuid == slot.uuid);
        self.0.borrow_mut().retain(|slot| slot.waits || is_member(slot));
    }

    /// The drive of a member.
    pub(super) fn of(&self, member: &MemberStatus) -> Option<NamedDrive> {
        let slots = self.0.borrow();
        slots.iter().find(|slot| slot.uuid == member.uuid).map(|slot| slot.named.clone())
    }

    /// The slot of a rebuild that has failed, with its drive: the first one out of service.
    pub(super) fn of_failed(
        &self,
        members: &[MemberStatus],
        rebuilt: &[usize],
    ) -> Option<(usize, NamedDrive)> {
        let is_lost =
            |slot: &&usize| members.get(**slot).is_some_and(|member| !member.state.is_in_service());
        let slot = *rebuilt.iter().find(is_lost).or(rebuilt.first())?;
        Some((slot, self.of(members.get(slot)?)?))
    }

    /// The drives of the members for the status, without their zones.
    pub(super) fn drives(&self, members: &[MemberStatus]) -> Vec<Option<SlotDrive>> {
        let shown =
            |NamedDrive { label, path, drive, .. }| SlotDrive { label, path, drive, zones: None };
        members.iter().map(|member| self.of(member).map(shown)).collect()
    }

    /// The drives of the members for the status, with their zones.
    pub(super) async fn reported(
        &self,
        clock: &Handle,
        members: &[MemberStatus],
    ) -> Vec<Option<SlotDrive>> {
        let mut slots = self.drives(members);
        assert_eq!(slots.len(), members.len(), "a place for each member's drive");
        // All at once: drives that hang must not hide the state of the others, nor add up.
        let reports = slots.iter_mut().flatten().map(|slot| async {
            // A header that was just overwritten is told at once, not when a watch finds it.
            let reported = async {
                slot.drive.look_at_header().await;
                slot.drive.report().await
            };
            let zones = until(clock.sleep(REPORT_TIME), reported).await;
            slot.zones = zones.and_then(Result::ok);
        });
        join_all(reports).await;
        slots
    }

    /// Slots in service whose drives the next start would not have: what says on media that they
    /// are members cannot be read any more. A drive that does not answer in time is not among them.
    pub(super) async fn lost_on_media(
        &self,
        clock: &Handle,
        array: ArrayUuid,
        members: &[MemberStatus],
    ) -> Vec<u8> {
        let in_service = members.iter().filter(|member| member.state.is_in_service());
        let drives = in_service.filter_map(|member| Some((member.slot, self.of(member)?)));
        let looks = drives.map(|(slot, named)| async move {
            let looked = until(clock.sleep(REPORT_TIME), is_lost_on_media(&named, array)).await;
            looked.unwrap_or(false).then_some(slot)
        });
        let lost: Vec<_> = join_all(looks).await.into_iter().flatten().collect();
        assert!(lost.len() <= members.len(), "each member is looked at once");
        lost
    }

    /// Refuses to take the drive of a slot out where too few others would be found by the next
    /// start.
    pub(super) async fn refuse_lost(
        &self,
        clock: &Handle,
        config: &ArrayConfig,
        members: &[MemberStatus],
        slot: usize,
    ) -> Result<(), CliError> {
        let lost = self.lost_on_media(clock, config.array, members).await;
        Ok(refuse_lost_on_media(config.scheme, members, &lost, slot)?)
    }

    /// Why the drive of a member failed; an idle drive fails without any request noticing.
    pub(super) fn failure_of(&self, member: &MemberStatus) -> Option<String> {
        self.of(member)?.drive.failure()
    }

    /// All drives, and `others` that are no members, each with the UUID of its member.
    pub(super) fn served(
        &self,
        members: &[MemberStatus],
        others: impl IntoIterator<Item = (String, NamedDrive)>,
    ) -> Vec<ServedDrive> {
        let in_service = |uuid: &String| {
            members.iter().any(|member| member.uuid == *uuid && member.state.is_in_service())
        };
        let slots = self.0.borrow();
        let all = slots.iter().map(|slot| (slot.uuid.clone(), slot.named.clone())).chain(others);
        let served = all.map(|(member, NamedDrive { path, identity, .. })| ServedDrive {
            in_service: in_service(&member),
            member,
            path,
            identity,
        });
        served.collect()
    }

    /// The label of a member's drive.
    pub(super) fn label_of(&self, member: &MemberStatus) -> String {
        self.of(member).map(|named| named.label).unwrap_or_default()
    }

    /// The label of a slot's drive, if it is online and works.
    pub(super) fn working(&self, members: &[MemberStatus], slot: usize) -> Option<String> {
        let member = members.get(slot).filter(|member| member.state == MemberHealth::Online)?;
        self.failure_of(member).is_none().then(|| self.label_of(member))
    }

    /// The slots that are being rebuilt, with their drives.
    pub(super) fn rebuilding(&self, members: &[MemberStatus]) -> Vec<Place> {
        let slots = 0..members.len();
        let rebuilding = slots.filter(|slot| members[*slot].state == MemberHealth::Rebuilding);
        rebuilding.map(|slot| self.place(members, slot)).collect()
    }

    /// A slot with its drive.
    pub(super) fn place(&self, members: &[MemberStatus], slot: usize) -> Place {
        Place::new(slot, members.get(slot).map(|member| self.label_of(member)).unwrap_or_default())
    }

    /// The error of a rebuild that the drive of this slot has stopped.
    pub(super) fn source_failed(
        &self,
        members: &[MemberStatus],
        slot: Column,
        status: Status,
    ) -> CliError {
        let drive = members.get(slot.index()).map(|member| self.label_of(member));
        let drive = drive.unwrap_or_default();
        NewMemberError::SourceFailed { slot: slot.index(), drive, status }.into()
    }

    /// Whether a drive belongs to a member in service, or waits to become one.
    pub(super) fn is_used(&self, path: &Path, members: &[MemberStatus]) -> bool {
        let in_service = |member: &&MemberStatus| member.state.is_in_service();
        let uses = |slot: &Slot| {
            slot.waits || members.iter().filter(in_service).any(|member| member.uuid == slot.uuid)
        };
        self.0.borrow().iter().any(|slot| uses(slot) && slot.named.identity.is_at(path))
    }

    /// Whether a drive is known at all.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.0.borrow().iter().any(|slot| slot.named.identity.is_at(path))
    }

    /// Drops the drive of a member, whatever its path leads to by now.
    pub(super) fn forget_member(&self, member: &MemberStatus) {
        self.0.borrow_mut().retain(|slot| slot.uuid != member.uuid);
    }

    /// Drops the drive of a failed member, so that it can be opened again; returns the member's
    /// UUID.
    pub(super) fn forget(&self, path: &Path) -> Option<String> {
        let mut slots = self.0.borrow_mut();
        let at = slots.iter().position(|slot| slot.named.identity.is_at(path))?;
        Some(slots.remove(at).uuid)
    }
}

/// Whether a drive carries nothing any more by which a start knows it as a member of the array.
async fn is_lost_on_media(named: &NamedDrive, array: ArrayUuid) -> bool {
    named.drive.look_at_header().await;
    if named.drive.header_lost() {
        return true;
    }
    // The engine may move the records during a look.
    for _ in 0..LOOKS {
        match membership_of(named).await {
            Ok(Some(record)) => return record.config.array != array,
            Ok(None) => {}
            Err(_) => return true,
        }
    }
    true
}

/// Whether a slot is being rebuilt.
pub(super) fn is_any_rebuilding(members: &[MemberStatus]) -> bool {
    members.iter().any(|member| member.state == MemberHealth::Rebuilding)
}
