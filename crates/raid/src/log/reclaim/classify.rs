//! The lifetime class of a write, from the age of the block that it replaces.

use zoneweave_zoned::Lba;

use crate::instrument::marks::{Mark, mark};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::class::Lifetime;
use crate::log::engine::state::State;
use crate::log::format::StreamKind;
use crate::log::segment::table::SegmentTable;
use crate::log::write::state::Writes;

impl Writes {
    fn keep_apart(&mut self, apart: bool) {
        mark(if apart { Mark::LifetimesKeptApart } else { Mark::LifetimesMixed });
        self.user.tell_lifetimes(apart);
        self.relocation.tell_lifetimes(apart);
    }
}

impl SegmentTable {
    /// Expected lifetime of blocks relocated out of a segment. A block that outlived others of a
    /// short-lived segment is not yet long-lived.
    #[must_use]
    pub(super) fn lifetime_of_moved(&self, slot: SegmentSlot) -> Lifetime {
        match self[slot].stream {
            StreamKind::User => self[slot].lifetime,
            StreamKind::Relocation => Lifetime::Long,
        }
    }
}

impl State {
    /// Expected lifetime of so many blocks written by a user, from this one on; the default if it
    /// does not matter.
    pub(in crate::log) fn lifetime_of_write(&mut self, lba: Lba, blocks: u64) -> Lifetime {
        if self.writes.policy.lifetimes
            && self.reclaim.lifespans.watch(lba, self.writes.next_sequence)
        {
            self.writes.keep_apart(self.reclaim.lifespans.tell);
        }
        if !self.writes.user.tells_lifetimes_of(blocks) {
            return Lifetime::default();
        }
        let Some(pba) = self.mapping.index.get(lba) else { return Lifetime::Long };
        let segment = &self.segments[self.space.place(pba).slot];
        match segment.stream {
            StreamKind::User => {
                let born = segment.generation.sequence();
                self.reclaim.lifespans.of(self.writes.next_sequence.since(born))
            }
            StreamKind::Relocation => Lifetime::Long,
        }
    }

    /// Records the lifetime of a short-lived segment of users.
    pub(super) fn record_lifespan(&mut self, slot: SegmentSlot) {
        let segment = &self.segments[slot];
        if segment.stream == StreamKind::User && segment.lifetime == Lifetime::Short {
            assert!(
                segment.generation.sequence() < self.writes.next_sequence,
                "segment {} of generation {} dies before sequence {}",
                segment.id,
                segment.generation,
                self.writes.next_sequence
            );
            let first = !self.reclaim.lifespans.have_bound();
            let born = segment.generation.sequence();
            self.reclaim.lifespans.note(self.writes.next_sequence.since(born));
            if first && self.reclaim.lifespans.have_bound() {
                self.writes
                    .user
                    .tell_lifetimes(self.writes.policy.lifetimes && self.reclaim.lifespans.tell);
            }
        }
    }
}
