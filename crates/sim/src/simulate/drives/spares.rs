//! Spares, and who sits where: the engine puts spares into slots by itself, and is asked which.
//!
//! Only in lives with spares: in others a drive sits where an administrator is about to put it.

use super::drive::Drive;
use super::slots::Drives;

impl Drives {
    /// A blank drive is kept ready in this life.
    pub(crate) fn add_spare(&mut self) -> &mut Drive {
        self.has_spares = true;
        let spare = self.make();
        self.spares.push(spare);
        self.spares.last_mut().expect("there is one")
    }

    /// Whether there were any in this life.
    pub(crate) fn has_spares(&self) -> bool {
        self.has_spares
    }

    /// The engine has another drive in a slot than was thought. Where it was before is on record by then.
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

    /// It is on record that a spare has become a working member.
    pub(crate) fn confirm_spare(&mut self, slot: usize) {
        self.out.remove(&slot);
    }
}
