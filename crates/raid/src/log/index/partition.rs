//! A part of the volume whose index is being built from segments and pages.

use std::collections::BTreeSet;

use zoneweave_zoned::Lba;

use crate::instrument::marks::{Mark, mark_if};
use crate::log::engine::address::{BlockPlace, Page, Pba};
use crate::log::engine::state::State;
use crate::log::format::{IndexEntry, Sequence, TrimExtent};
use crate::log::index::deferred::{Deferred, Entry};
use crate::log::index::map::{self};
use crate::log::index::sequences::Sequences;
use crate::log::segment::scanned::WeakBlock;
use crate::log::segment::table::Phase;

/// A block of a weak stripe that is newer than every valid version.
pub(in crate::log) struct Candidate {
    pub(in crate::log) place: BlockPlace,
    /// For data: the block of the volume.
    pub(in crate::log) lba: Lba,
    /// For tombstones: the extents that it hides.
    pub(in crate::log) hides: Vec<TrimExtent>,
}

/// Orders copies with the same sequence. A copy in a segment that may be dead ranks last.
type Rank = (bool, bool, i128);

pub(super) fn rank(state: &State, pba: Pba) -> Rank {
    let segment = &state.segments[state.space.place(pba).slot];
    let sealed = segment.phase() == Phase::Sealed;
    let age = i128::from(segment.id.0);
    (!segment.suspect, sealed, if sealed { age } else { -age })
}

/// The part of the index being built.
pub(in crate::log) struct Partition {
    start: u64,
    end: u64,
    /// Sequence of each block. For entries from a page it is an upper bound.
    pub(in crate::log) sequences: Sequences,
    /// Replayed entries, unless they are entered at once.
    pub(in crate::log) deferred: Option<Deferred>,
    /// Entries of pages whose exact sequence is known.
    exact: BTreeSet<Lba>,
    /// Copies of equal sequence that were not chosen, with that sequence.
    equal: Vec<(Lba, Sequence, Pba)>,
    /// Copies that record a lost block: they are no duplicates of others.
    pub(in crate::log) lost: BTreeSet<Pba>,
    /// Whether the limit of remembered duplicates is reached.
    twins_full: bool,
    /// Blocks whose newest version, according to a page, is in a replayed segment whose summary
    /// lacks it: only a weak stripe may still hold it.
    promised: Vec<Lba>,
}

impl Partition {
    pub(in crate::log) fn new(
        start: u64,
        end: u64,
        sequences: Sequences,
        twins_full: bool,
    ) -> Self {
        let (equal, lost) = (Vec::new(), BTreeSet::new());
        assert!(start <= end, "a partition of blocks {start} to {end}");
        let (exact, promised) = (BTreeSet::new(), Vec::new());
        let deferred = None;
        Self { start, end, sequences, deferred, exact, equal, lost, twins_full, promised }
    }

    /// Whether summaries describe more blocks than can wait for their pages: one trim may cover
    /// many.
    pub(in crate::log) fn is_told_too_much(&mut self) -> bool {
        let most = DEFERRED_MOST.max(self.end / DEFERRED_PART);
        self.deferred.as_mut().is_some_and(|deferred| deferred.exceeds(most))
    }

    /// Enters replayed entries of some pages, from now on at once; returns the rest.
    pub(in crate::log) fn enter_for(&mut self, state: &mut State, pages: &[Page]) -> Deferred {
        let mut deferred = self.deferred.take().expect("kept aside so far");
        for page in pages {
            for Entry { lba, sequence, pba } in deferred.take(deferred.group_of(*page)) {
                self.add(state, lba, sequence, pba);
            }
        }
        deferred
    }

    /// The sequence of the replayed version of a block.
    pub(super) fn known(&self, state: &State, lba: Lba) -> Option<Sequence> {
        state.mapping.index.get(lba)?;
        Some(self.sequences.get(lba))
    }

    /// Records an upper bound for the sequence of an entry.
    pub(super) fn bound(&mut self, lba: Lba, sequence: Sequence) {
        let part = self.start..self.end;
        assert!(part.contains(&lba.0), "block {lba} is not in {part:?}");
        self.sequences.set(lba, sequence);
    }

    /// As [`bound`](Self::bound), for all mapped entries of a page.
    pub(super) fn bound_all(&mut self, first: Lba, entries: &[map::Entry], sequence: Sequence) {
        self.sequences.set_all(first, entries, sequence);
    }

    /// Records that a block was written before the page that maps it, wherever its newest version
    /// is. A settled segment may hold an older one that the page lacks, and a weak trim hides that.
    pub(super) fn mark_written(&mut self, lba: Lba) {
        if self.sequences.get(lba) == Sequence::NONE {
            self.sequences.set(lba, Sequence::FIRST);
        }
    }

    /// Records that some stripe must hold a version of this block.
    pub(super) fn record_promised(&mut self, lba: Lba) {
        let part = self.start..self.end;
        assert!(part.contains(&lba.0), "block {lba} is not in {part:?}");
        self.promised.push(lba);
    }

    /// Whether there are more of them than crashes leave.
    pub(super) fn has_many_promised(&self) -> bool {
        self.promised.len() > PROMISED_MOST
    }

    /// Whether no stripe holds a version of some promised block. Then an older version may be the
    /// valid one, and only summaries can show it.
    pub(in crate::log) fn lacks_what_was_promised(&self) -> bool {
        self.promised.iter().any(|lba| self.sequences.get(*lba) <= Sequence::FIRST)
    }

    /// Records that a copy marks a lost block.
    pub(super) fn mark_lost(&mut self, pba: Pba) {
        self.lost.insert(pba);
    }

    /// Records that the exact sequence of a page's entry is known.
    pub(super) fn mark_exact(&mut self, lba: Lba) {
        self.exact.insert(lba);
    }

    /// The entry of a block if its age relative to a sequence is unknown.
    pub(super) fn unclear(&self, state: &State, lba: Lba, sequence: Sequence) -> Option<Pba> {
        let pba = state.mapping.index.get(lba)?;
        let covered = state.segments[state.space.place(pba).slot].is_in_checkpoint();
        let newer = sequence > self.sequences.get(lba);
        (covered && !newer && !self.exact.contains(&lba)).then_some(pba)
    }

    pub(in crate::log) fn add(
        &mut self,
        state: &mut State,
        lba: Lba,
        sequence: Sequence,
        pba: Pba,
    ) {
        if !(self.start..self.end).contains(&lba.0) {
            return;
        }
        if let Some(deferred) = &mut self.deferred {
            return deferred.push(Entry { lba, sequence, pba });
        }
        let known = self.sequences.get(lba);
        if sequence < known {
            return;
        }
        // The index is read only where it may show a duplicate.
        match (sequence == known).then(|| state.mapping.index.get(lba)).flatten() {
            Some(other) => {
                let preferred = rank(state, pba) > rank(state, other);
                mark_if(Mark::EqualCopyPreferred, || preferred && sequence > Sequence::NONE);
                self.record_duplicate(lba, sequence, if preferred { other } else { pba });
                if !preferred {
                    return;
                }
            }
            // A sequence of zero is recorded too, although none was ever assigned: it is known.
            None => self.sequences.set(lba, sequence),
        }
        state.mapping.index.set(lba, Some(pba));
    }

    fn record_duplicate(&mut self, lba: Lba, sequence: Sequence, pba: Pba) {
        if !self.twins_full && !self.lost.contains(&pba) {
            self.equal.push((lba, sequence, pba));
            self.twins_full = self.equal.len() >= Duplicates::MOST;
        }
    }

    /// Whether a weak block, or part of the extents that a weak tombstone block hides, is newer
    /// than the valid version.
    pub(in crate::log) fn is_newer(
        &self,
        block: &WeakBlock,
        extents: Option<&[TrimExtent]>,
    ) -> bool {
        let newer = |lba: u64, sequence: Sequence| sequence > self.sequences.get(Lba(lba));
        let lba = block.entry.lba.0;
        match extents {
            Some(extents) => extents
                .iter()
                .any(|extent| self.within(extent).any(|lba| newer(lba, extent.sequence))),
            None => (self.start..self.end).contains(&lba) && newer(lba, block.entry.sequence),
        }
    }

    /// The duplicates of the chosen copies.
    pub(in crate::log) fn take_twins(&mut self, twins: &mut Duplicates) {
        for (lba, sequence, pba) in std::mem::take(&mut self.equal) {
            if self.sequences.get(lba) == sequence {
                twins.add(lba, pba);
            }
        }
    }

    pub(in crate::log) fn within(&self, extent: &TrimExtent) -> std::ops::Range<u64> {
        let end = extent.lba.0 + extent.blocks;
        extent.lba.0.max(self.start)..end.min(self.end).max(self.start)
    }

    /// Whether a weak data block is newer than the valid version.
    pub(in crate::log) fn add_weak(&mut self, entry: &IndexEntry) -> bool {
        if !(self.start..self.end).contains(&entry.lba.0) {
            return false;
        }
        let newer = entry.sequence > self.sequences.get(entry.lba);
        mark_if(Mark::WeakBlockSuperseded, || !newer && entry.sequence > Sequence::NONE);
        if newer {
            self.sequences.set(entry.lba, entry.sequence);
        }
        newer
    }

    /// The parts of weak extents that are newer than the valid version.
    pub(in crate::log) fn add_weak_trims(&mut self, extents: &[TrimExtent]) -> Vec<TrimExtent> {
        let mut hides: Vec<TrimExtent> = Vec::new();
        // End of the range to which the last part may extend: it also hides blocks that were never
        // written.
        let mut reach = 0;
        for extent in extents {
            for lba in self.within(extent) {
                let known = self.sequences.get(Lba(lba));
                if extent.sequence <= known {
                    continue;
                }
                self.sequences.set(Lba(lba), extent.sequence);
                // A block that was never written needs no tombstone.
                if known == Sequence::NONE {
                    reach += u64::from(reach == lba);
                    continue;
                }
                match hides.last_mut() {
                    Some(last) if reach == lba && last.sequence == extent.sequence => {
                        last.blocks = lba + 1 - last.lba.0;
                    }
                    _ => hides.push(TrimExtent { lba: Lba(lba), blocks: 1, ..*extent }),
                }
                reach = lba + 1;
            }
        }
        hides
    }
}

/// Limit of deferred entries: about 100 MiB. On large volumes it is an eighth of the blocks, which
/// takes less memory than the index.
const DEFERRED_MOST: u64 = 1 << 22;

const DEFERRED_PART: u64 = 8;

/// Limit of blocks whose newest version only weak stripes may hold; beyond it all summaries are
/// read.
const PROMISED_MOST: usize = 1 << 21;

/// Copies that the index does not point at, although they are as new as the ones that it does.
#[derive(Default)]
pub(in crate::log) struct Duplicates {
    pub(in crate::log) copies: Vec<(Lba, Pba)>,
}

impl Duplicates {
    /// Limit of remembered duplicates, about 100 MiB.
    pub(in crate::log) const MOST: usize = 1 << 20;

    /// Whether no more of them are remembered.
    pub(in crate::log) fn is_full(&self) -> bool {
        self.copies.len() >= Self::MOST
    }

    /// Records a copy that is as new as the chosen one.
    pub(in crate::log) fn add(&mut self, lba: Lba, pba: Pba) {
        if !self.is_full() {
            self.copies.push((lba, pba));
        }
    }
}
