//! Counts damaged blocks in the errors of their members, each place once.

use zoneweave_zoned::ZoneOffset;

use crate::log::engine::address::SegmentSlot;
use crate::log::engine::state::State;
use crate::log::segment::table::damage::{DAMAGE_BYTES_MOST, DamagedBlocks, Fate, forget_all};
use crate::scheme::Column;

/// A damaged block, as somebody has found it.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct DamagedBlock {
    pub(in crate::log) column: Column,
    pub(in crate::log) offset: ZoneOffset,
    /// Whether the drive returned it without an error.
    pub(in crate::log) is_readable: bool,
}

impl State {
    /// Counts a damaged block of a segment, unless it is known. Returns what was known of it.
    pub(in crate::log) fn count_damage(
        &mut self,
        slot: SegmentSlot,
        block: DamagedBlock,
        fate: Fate,
    ) -> Option<Fate> {
        let DamagedBlock { column, offset, is_readable } = block;
        self.bound_damage(slot, column);
        let segment = &mut self.segments[slot];
        let bits = DamagedBlocks::bits_of(&segment.geometry);
        let before = segment.damage.note(column, offset, fate, bits);
        if fate != Fate::Found {
            segment.mark_damaged();
        }
        let errors = &mut self.array.members[column.index()].errors;
        errors.checksum += u64::from(before.is_none() && is_readable);
        if before.is_some_and(|before| before >= fate) {
            return before;
        }
        match fate {
            Fate::Found => {}
            Fate::Restored => errors.repaired += 1,
            Fate::Lost => {
                // The errors may have been cleared since.
                let was_restored = u64::from(before == Some(Fate::Restored));
                errors.repaired = errors.repaired.saturating_sub(was_restored);
                errors.unrepairable += 1;
                // A scrub takes each damaged block that it meets for one that can be restored.
                self.losses_unmet += 1 - was_restored;
            }
        }
        before
    }

    /// Damage that is met again counts again.
    pub(in crate::log) fn forget_damage(&mut self) {
        self.segments.iter_mut().for_each(|(_, segment)| segment.damage = DamagedBlocks::default());
    }

    /// Bounds the memory before damage of another zone is known.
    fn bound_damage(&mut self, slot: SegmentSlot, column: Column) {
        let segment = &self.segments[slot];
        if segment.damage.has(column) {
            return;
        }
        let added = DamagedBlocks::bytes_most(&segment.geometry);
        let others = self.segments.iter().filter(|(other, _)| *other != slot);
        let taken: u64 = others.map(|(_, segment)| segment.damage.bytes()).sum();
        if taken + added > DAMAGE_BYTES_MOST {
            let others = self.segments.iter_mut().filter(|(other, _)| *other != slot);
            forget_all(others.map(|(_, segment)| &mut segment.damage));
        }
    }
}
