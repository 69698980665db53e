//! All segments in memory, by slot, and which of them tasks have to act on.
//!
//! `segment` is one segment: `life` its phase and the task that works on it, `valid_blocks` what
//! the index maps of it, `span_entries` what no summary on media covers yet, `damage` which of its
//! blocks are damaged.

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use crate::log::engine::address::SegmentSlot;

mod count_damage;
mod damage;
mod life;
mod segment;
mod span_entries;
mod valid_blocks;

pub(in crate::log) use count_damage::DamagedBlock;
pub(in crate::log) use damage::{DAMAGE_BYTES_MOST, DamagedBlocks, Fate};
pub use life::Phase;
pub(in crate::log) use life::{Cursor, Work};
pub(in crate::log) use segment::{ColumnZone, Segment};

/// Segments by the tasks that look for them at every change. Examining all segments each time would
/// cost more than the tasks themselves.
#[derive(Default)]
pub(in crate::log) struct Standing {
    /// Segments that can be freed.
    pub(in crate::log) empty: BTreeSet<SegmentSlot>,
    /// Segments that can be freed or are being freed.
    pub(in crate::log) coming: BTreeSet<SegmentSlot>,
    /// Segments that have to be relocated at any cost.
    pub(in crate::log) urgent: BTreeSet<SegmentSlot>,
}

impl Standing {
    fn note(&mut self, slot: SegmentSlot, segment: Option<&Segment>) {
        let mut keep = |set: fn(&mut Self) -> &mut BTreeSet<SegmentSlot>, is_in: bool| match is_in {
            true => set(self).insert(slot),
            false => set(self).remove(&slot),
        };
        let is = |what: fn(&Segment) -> bool| segment.is_some_and(what);
        keep(|standing| &mut standing.empty, is(Segment::can_be_freed));
        keep(|standing| &mut standing.coming, is(Segment::comes_free));
        keep(|standing| &mut standing.urgent, is(Segment::must_be_moved));
    }
}

/// A segment in its slot.
pub(in crate::log) struct Entry {
    segment: Segment,
    /// Whether it is queued for reclassification in [`Standing`].
    is_queued: Cell<bool>,
}

#[derive(Default)]
pub(in crate::log) struct SegmentTable {
    slots: Vec<Option<Entry>>,
    vacant: BTreeSet<SegmentSlot>,
    /// Slots whose segments may have to be reclassified.
    changed: RefCell<Vec<SegmentSlot>>,
    standing: RefCell<Standing>,
}

impl SegmentTable {
    /// A table of `slots` empty slots.
    #[must_use]
    pub(in crate::log) fn new(slots: u32) -> Self {
        let vacant = (0..slots).map(SegmentSlot).collect();
        Self { slots: (0..slots).map(|_| None).collect(), vacant, ..Self::default() }
    }

    #[must_use]
    pub(in crate::log) fn vacant(&self) -> Option<SegmentSlot> {
        self.vacant.first().copied()
    }

    /// How many slots there are.
    #[must_use]
    pub(in crate::log) fn slots(&self) -> u64 {
        self.slots.len() as u64
    }

    /// How many slots are empty.
    #[must_use]
    pub(in crate::log) fn vacancies(&self) -> usize {
        self.vacant.len()
    }

    /// The segments by task, up to date.
    pub(in crate::log) fn standing(&self) -> Ref<'_, Standing> {
        let changed = self.changed.take();
        if !changed.is_empty() {
            let mut standing = self.standing.borrow_mut();
            for slot in changed {
                let entry = self.slots[slot.index()].as_ref();
                if let Some(entry) = entry {
                    entry.is_queued.set(false);
                }
                standing.note(slot, entry.map(|entry| &entry.segment));
            }
        }
        self.standing.borrow()
    }

    /// Puts a segment into an empty slot.
    pub(in crate::log) fn insert(&mut self, slot: SegmentSlot, segment: Segment) {
        let entry = Entry { segment, is_queued: Cell::new(true) };
        let before = self.slots[slot.index()].replace(entry);
        assert!(before.is_none(), "slot {} holds a segment", slot.0);
        let vacant = self.vacant.remove(&slot);
        assert!(vacant, "slot {} was not free", slot.0);
        self.changed.get_mut().push(slot);
    }

    /// Moves segments to other slots: the named ones to theirs, the others to free slots.
    ///
    /// # Panics
    /// If two are given the same slot.
    pub(in crate::log) fn rearrange(
        &mut self,
        wanted: impl Fn(&Segment) -> Option<SegmentSlot>,
    ) -> BTreeMap<SegmentSlot, SegmentSlot> {
        let slots = std::mem::take(&mut self.slots);
        *self = Self::new(u32::try_from(slots.len()).expect("slots are counted in 32 bits"));
        let segments = (0..).map(SegmentSlot).zip(slots);
        let segments = segments.filter_map(|(from, entry)| Some((from, entry?.segment)));
        let (named, others): (Vec<_>, Vec<_>) =
            segments.map(|(from, s)| (from, wanted(&s), s)).partition(|(_, to, _)| to.is_some());
        let mut moved = BTreeMap::new();
        for (from, to, segment) in named.into_iter().chain(others) {
            let to = to.or_else(|| self.vacant()).expect("as many slots as before");
            self.insert(to, segment);
            moved.insert(from, to);
        }
        assert!(
            self.vacant.len() + moved.len() == self.slots.len(),
            "{} segments and {} free slots of {}",
            moved.len(),
            self.vacant.len(),
            self.slots.len()
        );
        moved
    }

    /// Takes a segment out.
    pub(in crate::log) fn remove(&mut self, slot: SegmentSlot) -> Segment {
        let entry = self.slots[slot.index()].take().expect("a segment in the slot");
        let taken = self.vacant.insert(slot);
        assert!(taken, "slot {} was free", slot.0);
        let (id, phase) = (entry.segment.id, entry.segment.phase());
        assert!(phase == Phase::Dead, "segment {id} is {phase} when its slot is freed");
        self.changed.get_mut().push(slot);
        entry.segment
    }

    /// The segment in a slot, if there is one.
    #[must_use]
    pub(in crate::log) fn get(&self, slot: SegmentSlot) -> Option<&Segment> {
        Some(&self.slots.get(slot.index())?.as_ref()?.segment)
    }

    /// Returns the segment in a slot for changes.
    pub(in crate::log) fn get_mut(&mut self, slot: SegmentSlot) -> Option<&mut Segment> {
        let entry = self.slots.get_mut(slot.index())?.as_mut()?;
        if !entry.is_queued.replace(true) {
            self.changed.get_mut().push(slot);
        }
        Some(&mut entry.segment)
    }

    pub(in crate::log) fn iter(&self) -> impl Iterator<Item = (SegmentSlot, &Segment)> {
        let slots = (0..).map(SegmentSlot).zip(&self.slots);
        slots.filter_map(|(slot, entry)| Some((slot, &entry.as_ref()?.segment)))
    }

    /// Iterates over all segments for changes.
    pub(in crate::log) fn iter_mut(&mut self) -> impl Iterator<Item = (SegmentSlot, &mut Segment)> {
        let changed = self.changed.get_mut();
        let slots = (0..).map(SegmentSlot).zip(&mut self.slots);
        slots.filter_map(|(slot, entry)| Some((slot, entry.as_mut()?))).map(|(slot, entry)| {
            if !entry.is_queued.replace(true) {
                changed.push(slot);
            }
            (slot, &mut entry.segment)
        })
    }
}

impl std::ops::Index<SegmentSlot> for SegmentTable {
    type Output = Segment;
    fn index(&self, slot: SegmentSlot) -> &Segment {
        self.get(slot).expect("a segment in the slot")
    }
}

impl std::ops::IndexMut<SegmentSlot> for SegmentTable {
    fn index_mut(&mut self, slot: SegmentSlot) -> &mut Segment {
        self.get_mut(slot).expect("a segment in the slot")
    }
}
