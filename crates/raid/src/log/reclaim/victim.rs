//! Picks the segment that is relocated next.
//!
//! Leftovers and damaged segments come first, at any cost. Otherwise the aim is space. *Greedy*
//! takes the segment with the fewest valid blocks. *Cost-benefit* also considers the age of its
//! blocks (LFS, section 5.1 of its paper): a young segment is likely to lose more by itself. While
//! users wait for space, or are about to, the choice is greedy, as the proof in `engine/limits`
//! requires.
//!
//! A segment with blocks that only an absent member can give waits for that one. The last resort
//! takes it all the same, and these blocks are lost: users wait for space, and nothing else yields
//! any, or segments that wait have taken the reserve of relocation.

use crate::instrument::marks::{Mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::limits::RESERVE_SEGMENTS;
use crate::log::engine::state::State;
use crate::log::format::StreamKind;
use crate::log::reclaim::space::Need;
use crate::log::segment::table::Segment;
use crate::log::write::policy::lanes::Collection;
use crate::log::write::state::Writes;

impl Writes {
    /// Whether relocating a segment frees more space than it takes: a segment of the current shape
    /// must hold its valid blocks and more. Its own capacity is irrelevant: another policy may have
    /// written it with such large chunks that it never held more.
    fn gains(&self, segment: &Segment) -> bool {
        let target = self.relocation_shape();
        let needed = segment.valid() + target.stripe_blocks() as u64;
        let is_full = needed > segment.geometry.data_blocks();
        needed <= target.data_blocks() && !(is_full && mutant(Mutant::GainByOwnSize))
    }

    /// Blocks freed for each relocated one, times the age as an estimate of how long they would
    /// have stayed.
    fn benefit(&self, segment: &Segment) -> u128 {
        assert!(segment.valid() > 0, "segment {} has nothing to relocate", segment.id);
        assert!(
            segment.generation.sequence() < self.next_sequence,
            "segment {} of generation {} is newer than sequence {}",
            segment.id,
            segment.generation,
            self.next_sequence
        );
        let age = u128::from(self.next_sequence.since(segment.generation.sequence()));
        let freed = u128::from(self.blocks_in_place_of(segment).saturating_sub(segment.valid()));
        // In parts of 65,536; an age has at most 64 bits, blocks of a segment at most 37.
        ((age * freed) << 16) / u128::from(segment.valid())
    }
}

impl State {
    /// Whether space comes without another relocation, or from a segment that a task still holds.
    /// All of these end by themselves, and open the gate that the collector waits for.
    fn may_yield_soon(&self) -> bool {
        let is_held = |segment: &Segment| {
            let is_taken = segment.is_busy() || segment.in_flight() > 0;
            is_taken && segment.is_closed() && !segment.waits()
        };
        let yields = |segment: &Segment| {
            is_held(segment) && self.writes.gains(segment) && self.frees_what_is_scarce(segment)
        };
        !self.reclaim.moving.is_empty()
            || self.coming_free() > 0
            || self.segments.iter().any(|(_, segment)| yields(segment))
    }

    /// Whether blocks that stayed where they are have taken the reserve of relocation: a segment
    /// that keeps blocks takes space and yields none. From then on, each relocation has to empty
    /// its segment, as the proof in `engine/limits` requires.
    pub(in crate::log) fn is_reserve_taken(&self) -> bool {
        self.free_segments() + self.coming_free() < RESERVE_SEGMENTS
    }

    /// The waiting segment with the fewest blocks, if space has to come from one. It yields a whole
    /// segment for a few blocks. Another one might have to give up as many, and yield less.
    fn waiting_victim(&self, need: Need) -> Option<SegmentSlot> {
        if need != Need::Segments || !self.is_reserve_taken() || self.may_yield_soon() {
            return None;
        }
        let waiting = self.segments.iter().filter(|(_, segment)| {
            let yields = self.writes.gains(segment) && self.frees_what_is_scarce(segment);
            segment.waits() && segment.may_be_moved() && yields
        });
        let victim = waiting.min_by_key(|(slot, segment)| (segment.valid(), *slot)).map(first);
        mark_if(Mark::AwaitedBlocksGivenUpEarly, || victim.is_some());
        victim
    }

    /// The segment to be relocated next, if any.
    #[must_use]
    pub(super) fn victim(&self, need: Need) -> Option<SegmentSlot> {
        if let Some(waiting) = self.waiting_victim(need) {
            return Some(waiting);
        }
        let urgent: Vec<_> = self.segments.standing().urgent.iter().copied().collect();
        let least = urgent.into_iter().min_by_key(|slot| (self.segments[*slot].valid(), *slot));
        if least.is_some() || need == Need::Nothing {
            return least;
        }
        let worth_it = |segment: &Segment| match need {
            Need::Nothing => false,
            Need::Lanes => segment.valid() * 2 <= self.writes.blocks_in_place_of(segment),
            Need::Segments => self.writes.gains(segment),
        };
        let candidates = self.segments.iter();
        let candidates = candidates
            .filter(|(_, s)| s.may_be_moved() && worth_it(s) && self.frees_what_is_scarce(s));
        let scarce = self.free_segments() <= self.reserve_for(StreamKind::User);
        let (waiting, candidates): (Vec<_>, Vec<_>) =
            candidates.partition(|(_, segment)| segment.waits());
        let is_last_resort = need == Need::Segments
            && scarce
            && candidates.is_empty()
            && !waiting.is_empty()
            && !self.may_yield_soon();
        mark_if(Mark::AwaitedBlocksGivenUp, || is_last_resort);
        let candidates = if is_last_resort { waiting } else { candidates }.into_iter();
        if self.writes.policy.collection == Collection::Greedy || scarce {
            return candidates.min_by_key(|(slot, segment)| (segment.valid(), *slot)).map(first);
        }
        let mut least = u64::MAX;
        let candidates = candidates.inspect(|(_, segment)| least = least.min(segment.valid()));
        let best = candidates.max_by_key(|(slot, segment)| (self.writes.benefit(segment), *slot));
        mark_if(Mark::OlderVictim, || best.is_some_and(|(_, segment)| segment.valid() > least));
        best.map(first)
    }
}

fn first((slot, _): (SegmentSlot, &Segment)) -> SegmentSlot {
    slot
}
