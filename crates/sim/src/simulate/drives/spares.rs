//! Spares: the engine assigns them to slots by itself, and reports the assignment.
//!
//! Used in lives with spares only. In other lives a replacement sits in its slot as soon as an
//! administrator requests it.

use super::drive::Drive;
use super::slots::Drives;

impl Drives {
    /// Adds a blank drive as a spare of this life.
    pub(crate) fn add_spare(&mut self) -> &mut Drive {
        self.has_spares = true;
        let spare = self.make();
        self.spares.push(spare);
        self.spares.last_mut().expect("there is one")
    }

    /// Whether this life has spares.
    pub(crate) fn has_spares(&self) -> bool {
        self.has_spares
    }

    /// Follows an assignment of the engine: a known drive now sits in this slot. The previous drive
    /// of the slot is recorded as replaced by then.
    pub(crate) fn seat(&mut self, slot: usize, is_member: impl Fn(u64) -> bool) {
        let is_member = |drive: &Drive| is_member(drive.number);
        if is_member(&self.in_slots[slot]) {
            return;
        }
        if let Some(at) = self.spares.iter().position(is_member) {
            let new = self.spares.remove(at);
            self.former.push(std::mem::replace(&mut self.in_slots[slot], new));
        } else if let Some(at) = self.former.iter().position(is_member) {
            std::mem::swap(&mut self.former[at], &mut self.in_slots[slot]);
        } else {
            return;
        }
        self.out.insert(slot);
    }

    /// A drive that was put back has become another member. It is a former one if a spare was
    /// assigned to its slot meanwhile, and failed.
    pub(crate) fn renumber(&mut self, old: u64, new: u64) {
        let mut drives = self.in_slots.iter_mut().chain(&mut self.former);
        let drive = drives.find(|drive| drive.number == old);
        drive.expect("a drive that was put back is kept").number = new;
    }

    /// It is recorded that a spare has become a working member.
    pub(crate) fn confirm_spare(&mut self, slot: usize) {
        self.out.remove(&slot);
    }
}
