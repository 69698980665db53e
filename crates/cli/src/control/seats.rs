//! Which drive is which member.
//!
//! The engine alone knows who sits in a slot, and changes it at any time: a spare comes in, a replacement's turn comes after hours, or never. So
//! drives are found by what their member is called, not by a slot. A drive that only waits for its turn is nobody's
//! until the engine says so: what happens to it is not to be taken for what happens to the member in the slot.

use std::cell::RefCell;
use std::path::Path;

use zoneweave_raid::log::MemberStatus;

use crate::drives::paths::same_file;
use crate::session::NamedDrive;

/// A drive, and what it is called as a member.
struct Seat {
    uuid: String,
    named: NamedDrive,
    /// It is no member yet.
    waits: bool,
}

/// The drives of the members, those of failed ones too, and those that wait to be members.
#[derive(Default)]
pub(super) struct Seats(RefCell<Vec<Seat>>);

impl Seats {
    /// Those found at the start, by slot.
    pub(super) fn new(members: &[MemberStatus], slots: Vec<Option<NamedDrive>>) -> Self {
        let seats = Self::default();
        for (member, named) in members.iter().zip(slots) {
            if let Some(named) = named {
                seats.put(member.uuid.clone(), named);
            }
        }
        seats
    }

    /// A member's drive.
    pub(super) fn put(&self, uuid: String, named: NamedDrive) {
        self.0.borrow_mut().push(Seat { uuid, named, waits: false });
    }

    /// A drive waits to be a member, until that is [over](Self::ends_waiting).
    pub(super) fn waits(&self, uuid: String, named: NamedDrive) {
        self.0.borrow_mut().push(Seat { uuid, named, waits: true });
    }

    /// A drive has become a member, or never will be.
    pub(super) fn ends_waiting(&self, uuid: &str) {
        let mut seats = self.0.borrow_mut();
        seats.iter_mut().filter(|seat| seat.uuid == uuid).for_each(|seat| seat.waits = false);
    }

    /// Lets go of drives that are members no more.
    pub(super) fn keep(&self, members: &[MemberStatus]) {
        let is_member = |seat: &Seat| members.iter().any(|member| member.uuid == seat.uuid);
        self.0.borrow_mut().retain(|seat| seat.waits || is_member(seat));
    }

    /// A member's drive.
    pub(super) fn of(&self, member: &MemberStatus) -> Option<NamedDrive> {
        let seats = self.0.borrow();
        seats.iter().find(|seat| seat.uuid == member.uuid).map(|seat| seat.named.clone())
    }

    /// Why a member's drive answers no more, which nobody notices while nobody uses it.
    pub(super) fn failure_of(&self, member: &MemberStatus) -> Option<String> {
        self.of(member)?.drive.failure()
    }

    /// What people call a member's drive.
    pub(super) fn label_of(&self, member: &MemberStatus) -> String {
        self.of(member).map(|named| named.label).unwrap_or_default()
    }

    /// Whether a drive belongs to a member in service, or waits to.
    pub(super) fn is_used(&self, path: &Path, members: &[MemberStatus]) -> bool {
        let in_service = |member: &&MemberStatus| matches!(member.state, "online" | "rebuilding");
        let uses = |seat: &Seat| {
            seat.waits || members.iter().filter(in_service).any(|member| member.uuid == seat.uuid)
        };
        self.0.borrow().iter().any(|seat| uses(seat) && same_file(seat.named.drive.path(), path))
    }

    /// Whether a drive is here at all.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.0.borrow().iter().any(|seat| same_file(seat.named.drive.path(), path))
    }

    /// Lets go of a failed member's drive, so that it can be opened again: what that member is called.
    pub(super) fn forget(&self, path: &Path) -> Option<String> {
        let mut seats = self.0.borrow_mut();
        let at = seats.iter().position(|seat| same_file(seat.named.drive.path(), path))?;
        Some(seats.remove(at).uuid)
    }
}
