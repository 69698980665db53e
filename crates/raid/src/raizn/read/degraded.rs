//! Reads of users from a stripe with lost blocks: each block is read once, for all of its uses.
//!
//! A request may want several units of a stripe, one of which is lost. It is reconstructed from the
//! blocks that the request returns, and from the ones that are missing to these. If one of them is
//! lost as well, because its read fails or it does not verify, others take its place, as far as
//! there are any.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use futures_util::future::join_all;

use crate::instrument::marks::{Mark, mark_if};
use crate::raizn::core::Core;
use crate::raizn::layout::Place;
use crate::raizn::read::reconstruct::WantedUnit;
use crate::raizn::stripe::Block;
use crate::scheme::{Role, StripeId};

/// Blocks of a stripe by unit and number in it; `None` for lost ones.
pub(crate) type Known = BTreeMap<(Role, u32), Option<Block>>;

/// A read of a stripe.
struct StripeRead<'a> {
    zone: u32,
    stripe: StripeId,
    /// The blocks to be returned: the first one in a unit, and how many follow.
    pieces: &'a [(Place, u32)],
    known: Known,
    /// Blocks of the stripe that are written.
    rest: u32,
}

impl StripeRead<'_> {
    /// The blocks to be returned, in order.
    fn wanted(&self) -> Vec<(Role, u32)> {
        let pieces = self.pieces.iter().map(|(place, length)| {
            let blocks = place.within..place.within + length;
            blocks.map(move |within| (place.role, within))
        });
        pieces.flatten().collect()
    }

    /// A block that is there.
    fn there(&self, role: Role, within: u32) -> Option<Block> {
        self.known.get(&(role, within)).cloned().flatten()
    }
}

impl Core {
    /// Reads pieces of a stripe, and reconstructs what is lost of them. `known` has the blocks
    /// read before. Returns their blocks in order, without those of which too many others are lost.
    pub(crate) async fn read_degraded(
        self: &Rc<Self>,
        zone: u32,
        pieces: &[(Place, u32)],
        known: Known,
    ) -> Vec<Option<Block>> {
        let layout = &self.layout;
        let stripe = pieces.first().expect("a read wants something").0.stripe;
        assert!(pieces.iter().all(|(place, _)| place.stripe == stripe), "pieces of {stripe}");
        let mut read = StripeRead { zone, stripe, pieces, known, rest: 0 };
        loop {
            let runs = self.next_reads(&mut read);
            if runs.is_empty() {
                break;
            }
            mark_if(Mark::ZonedReadExtended, || read.known.values().any(Option::is_none));
            let reads = runs.iter().map(|(role, within)| {
                let column = layout.column_of(zone, stripe, *role);
                let at = layout.row_start(stripe) + within.start;
                self.fetch(zone, column, at, within.end - within.start)
            });
            let found = join_all(reads).await;
            for ((role, within), found) in runs.into_iter().zip(found) {
                assert!(found.len() == within.len(), "{} blocks of {within:?}", found.len());
                let found = within.zip(found).map(|(within, block)| ((role, within), block));
                read.known.extend(found);
            }
        }
        let wanted = read.wanted();
        let is_shared = |role: Role, within: u32| {
            let mut others = wanted.iter().filter(|other| **other != (role, within));
            others.any(|(other, row)| *row == within && read.there(*other, within).is_some())
        };
        let blocks = wanted.iter().map(|&(role, within)| {
            let there = read.there(role, within);
            there.or_else(|| {
                mark_if(Mark::ZonedReadShared, || is_shared(role, within));
                let unit = WantedUnit { zone, stripe, role, rest: read.rest };
                self.rebuild_block(unit, within, |other| read.there(other, within))
            })
        });
        blocks.collect()
    }

    /// The blocks that are read next: those to be returned, and as many others as lost ones are
    /// reconstructed from. Nothing, once all of them are known or cannot be had.
    fn next_reads(&self, read: &mut StripeRead<'_>) -> Vec<(Role, Range<u32>)> {
        let (layout, scheme) = (&self.layout, self.layout.scheme());
        let (zone, stripe) = (read.zone, read.stripe);
        let state = self.state.borrow();
        let logical = &state.logical[zone as usize];
        let lost = state.lost_columns(zone);
        let is_lost = |role: Role| lost.contains(layout.column_of(zone, stripe, role));
        let buffer = logical.stripe(stripe);
        let rest = logical.completed.saturating_sub(layout.stripe_start(stripe));
        read.rest = rest;
        let mut next: BTreeSet<(Role, u32)> = BTreeSet::new();
        let mut rows: BTreeSet<u32> = BTreeSet::new();
        for (role, within) in read.wanted() {
            let found = read.known.get(&(role, within)).map(Option::is_some);
            let buffered = buffer.and_then(|buffer| buffer.block(layout.in_stripe(role, within)));
            match (found, buffered) {
                (Some(true), _) => {}
                (None, _) if !is_lost(role) => _ = next.insert((role, within)),
                (_, Some(block)) => _ = read.known.insert((role, within), Some(block.clone())),
                (_, None) => _ = rows.insert(within),
            }
        }
        let known = &read.known;
        for within in rows {
            // Data behind the end counts as zeros.
            let is_zero =
                |role: Role| scheme.is_data(role) && layout.in_stripe(role, within) >= rest;
            let is_gone = |role: Role| match known.get(&(role, within)) {
                Some(found) => found.is_none(),
                None => is_lost(role),
            };
            let sources = (0..scheme.columns()).map(Role::of);
            let sources = sources.filter(|role| is_zero(*role) || !is_gone(*role));
            let sources: Vec<Role> = sources.take(scheme.data()).collect();
            if sources.len() < scheme.data() {
                continue;
            }
            assert!(sources.len() == scheme.data(), "{} sources of a block", sources.len());
            let is_unread = |role: &Role| !is_zero(*role) && !known.contains_key(&(*role, within));
            next.extend(sources.into_iter().filter(is_unread).map(|role| (role, within)));
        }
        runs_of(next)
    }
}

/// Blocks of a stripe, as runs of blocks of a unit.
fn runs_of(blocks: BTreeSet<(Role, u32)>) -> Vec<(Role, Range<u32>)> {
    let mut runs: Vec<(Role, Range<u32>)> = Vec::new();
    let count = blocks.len();
    for (role, within) in blocks {
        match runs.last_mut() {
            Some((last, run)) if *last == role && run.end == within => run.end += 1,
            _ => runs.push((role, within..within + 1)),
        }
    }
    let joined: usize = runs.iter().map(|(_, run)| run.len()).sum();
    assert!(joined == count, "{joined} of {count} blocks are in a run");
    runs
}
