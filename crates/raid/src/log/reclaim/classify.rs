//! The lifetime class of a write, from the age of the block that it replaces.

use zoneweave_zoned::Lba;

use crate::instrument::marks::{Mark, mark};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::state::State;
use crate::log::format::StreamKind;
use crate::log::write::lane::Lifetime;

impl State {
    /// Expected lifetime of so many blocks written by a user, from this one on; the default if it
    /// does not matter.
    pub(in crate::log) fn lifetime_of_write(&mut self, lba: Lba, blocks: u64) -> Lifetime {
        if self.policy.lifetimes && self.lifespans.watch(lba, self.next_sequence) {
            self.keep_apart(self.lifespans.tell);
        }
        if !self.user.tells_lifetimes_of(blocks) {
            return Lifetime::default();
        }
        let Some(pba) = self.index.get(lba) else { return Lifetime::Long };
        let segment = &self.segments[self.space.place(pba).slot];
        match segment.stream {
            StreamKind::User => self.lifespans.of(self.next_sequence - segment.generation),
            StreamKind::Relocation => Lifetime::Long,
        }
    }

    fn keep_apart(&mut self, apart: bool) {
        mark(if apart { Mark::LifetimesKeptApart } else { Mark::LifetimesMixed });
        self.user.tell_lifetimes(apart);
        self.relocation.tell_lifetimes(apart);
    }

    /// Expected lifetime of blocks relocated out of a segment. A block that outlived others of a
    /// short-lived segment is not yet long-lived.
    #[must_use]
    pub(super) fn lifetime_of_moved(&self, slot: SegmentSlot) -> Lifetime {
        match self.segments[slot].stream {
            StreamKind::User => self.segments[slot].lifetime,
            StreamKind::Relocation => Lifetime::Long,
        }
    }

    /// Records the lifetime of a short-lived segment of users.
    pub(super) fn note_lifespan(&mut self, slot: SegmentSlot) {
        let segment = &self.segments[slot];
        if segment.stream == StreamKind::User && segment.lifetime == Lifetime::Short {
            let first = !self.lifespans.have_bound();
            self.lifespans.note(self.next_sequence - segment.generation);
            if first && self.lifespans.have_bound() {
                self.user.tell_lifetimes(self.policy.lifetimes && self.lifespans.tell);
            }
        }
    }
}
