//! Write amplification of garbage collection, beside its theoretical value.
//!
//! If all blocks are written with equal frequency and the segment with the fewest valid blocks is
//! relocated, the part *u* of a segment that is still valid when it is relocated solves `u = exp(-a
//! (1 - u))`. Here *a* is the space for each block of data (P. Desnoyers, SYSTOR'12; L. Xiang and
//! B. Kurkoski, 2010). Each block of users then costs `1 / (1 - u)` written blocks, or `a / (a +
//! W(-a exp(-a)))` with Lambert's function. If some blocks are written more often than others and
//! kept apart from them, the cost is lower.

use serde::Serialize;

use crate::log::engine::address::SegmentSlot;
use crate::log::engine::counters::{ClassCounters, Counters, ratio};
use crate::log::engine::limits::RESERVE_SEGMENTS;
use crate::log::engine::state::State;
use crate::log::write::state::Writes;

/// Classes of segments, by the stream and lifetime of their blocks.
pub const CLASSES: [&str; 4] = ["users_short", "users_long", "moved_short", "moved_long"];

/// Blocks written for each block written by users, since the start, with the theoretical value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Amplification {
    /// By users' writes, relocation and padding.
    pub data: f64,
    /// With parity: the load of the drives.
    pub with_parity: f64,
    /// Space for each block that holds data, without segments that are open or reserved for
    /// crashes.
    pub room: f64,
    /// The theoretical value of `data` if all blocks are written with equal frequency and the
    /// volume stays as full as it is; `None` without space beyond the data.
    pub uniform: Option<f64>,
    /// By class of segments, as in [`CLASSES`]; `None` for a class without freed segments.
    pub classes: [Option<f64>; 4],
    /// Whether users have written enough for these figures to be meaningful. A start relocates the
    /// partial segments of the stop before it, up to one for each open segment: until users have
    /// written as much, that dominates the counters.
    pub settled: bool,
}

/// Blocks written for each block of users if all are written with equal frequency and there are *a*
/// blocks of space for each; `None` without spare space.
#[must_use]
pub fn uniform_amplification(a: f64) -> Option<f64> {
    if a.is_nan() || a <= 1.0 {
        return None;
    }
    // Below this `u - exp(-a (1 - u))` grows, and is negative up to the root.
    let (mut low, mut high) = (0.0, 1.0 - a.ln() / a);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        let below = middle < (-a * (1.0 - middle)).exp();
        if below {
            low = middle;
        } else {
            high = middle;
        }
    }
    assert!(low < 1.0, "whole segments are relocated with {a} blocks of space for each of data");
    Some(1.0 / (1.0 - low))
}

/// The figures of the counters, for a volume in which so many blocks hold data.
#[must_use]
pub(in crate::log) fn amplification(state: &State, mapped_blocks: u64) -> Amplification {
    let counters = &state.counters;
    let user = counters.user_blocks_written;
    let data = user + counters.relocated_blocks + counters.padding_blocks;
    let written = |blocks| if user == 0 { 1.0 } else { ratio(blocks, user) };
    let room = ratio(state.room_for_data(), mapped_blocks.max(1));
    Amplification {
        data: written(data),
        with_parity: written(data + counters.parity_blocks),
        room,
        uniform: uniform_amplification(room),
        classes: classes(counters),
        settled: user >= state.writes.most_left_unfull(),
    }
}

fn classes(counters: &Counters) -> [Option<f64>; 4] {
    counters.classes.map(|class| class.amplification())
}

impl Writes {
    /// Segments that are open at a time.
    fn segments_filled(&self) -> u32 {
        let filled = self.user.lanes().count() + self.relocation.lanes().count();
        u32::try_from(filled).unwrap_or(u32::MAX)
    }

    /// Most data blocks that a stop may leave in partial segments.
    fn most_left_unfull(&self) -> u64 {
        u64::from(self.segments_filled()) * self.relocation_shape().data_blocks()
    }
}

impl State {
    /// The counters of a segment's class.
    pub(in crate::log) fn class_counters(&mut self, slot: SegmentSlot) -> &mut ClassCounters {
        let segment = &self.segments[slot];
        let class = ClassCounters::index(segment.stream, segment.lifetime);
        &mut self.counters.classes[class]
    }

    /// Counts a block relocated out of a segment, which may be free by now.
    pub(in crate::log) fn count_moved(&mut self, from: SegmentSlot) {
        if self.segments.get(from).is_some() {
            self.class_counters(from).moved_blocks += 1;
        }
    }

    /// Data blocks of all segments except open ones and those reserved for relocation.
    fn room_for_data(&self) -> u64 {
        let open = self.writes.segments_filled();
        let kept = RESERVE_SEGMENTS + u32::from(self.has_spare_zones());
        let segments = self.array.config.segment_slots().saturating_sub(kept.saturating_add(open));
        u64::from(segments) * self.writes.relocation_shape().data_blocks()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn theory_is_what_is_published() {
        let table =
            [(1.07, 7.82), (1.2, 3.19), (1.28, 2.48), (1.3, 2.36), (1.5, 1.72), (2.0, 1.26)];
        for (room, expected) in table {
            let found = uniform_amplification(room).unwrap();
            assert!((found - expected).abs() < 0.01, "{room}: {found}");
        }
        assert_eq!(uniform_amplification(1.0), None);
        assert_eq!(uniform_amplification(f64::NAN), None);
        assert!(uniform_amplification(1e9).is_some_and(|found| (found - 1.0).abs() < 1e-9));
    }

    #[test]
    fn a_class_costs_what_was_moved_out_of_its_segments() {
        assert_eq!(ClassCounters::default().amplification(), None);
        let class = ClassCounters { freed_blocks: 400, moved_blocks: 300, ..Default::default() };
        assert_eq!(class.amplification(), Some(4.0));
    }
}
