//! Scrub: reads every written block, compares the parity of complete stripes, and moves damaged
//! blocks to the parity log.
//!
//! A block is *damaged* if its drive cannot read it, or if it does not verify. It is rebuilt as a
//! degraded read does, and `relocate` moves it. Where every block of a stripe can be read and
//! parity still differs, nothing shows which of them is wrong: the scrub reports the address, and
//! changes nothing. With checksums that is a bug; without them it may be silent corruption.
//!
//! Users go first: while they send commands, each batch is followed by a pause of its own length.

use std::ops::Range;
use std::rc::Rc;

use futures_util::future::join_all;
use serde::Serialize;
use zoneweave_runtime::Nanos;

use crate::array::repair::rebuild::Progress;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark};
use crate::raizn::core::Core;
use crate::raizn::read::Reader;
use crate::raizn::relocate::Relocated;
use crate::raizn::stripe::{Block, StripeBuffer};
use crate::scheme::{Column, ColumnSet, Role};

/// Blocks of a column that are read at a time: 256 KiB.
const BLOCKS_AT_A_TIME: u32 = 64;

/// Longest pause for users after a batch.
const PAUSE_MOST: Nanos = Nanos::from_millis(100);

/// Places with wrong parity that are listed; more are only counted.
const LISTED_MOST: usize = 16;

/// Findings of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ScrubReport {
    /// Logical zones with data.
    pub zones: u64,
    /// Blocks read and verified, parity included.
    pub blocks: u64,
    /// Blocks that were damaged or unreadable.
    pub damaged: u64,
    /// Damaged blocks that were rebuilt and moved to the parity log.
    pub relocated: u64,
    /// Damaged blocks that are rebuilt whenever they are read: the parity log has no room for them,
    /// or their drive failed meanwhile.
    pub left: u64,
    /// Damaged blocks that cannot be rebuilt.
    pub unrepairable: u64,
    /// Places of stripes whose parity is wrong although every block could be read.
    pub mismatches: u64,
    /// The first of them.
    pub mismatched: Vec<Mismatch>,
}

/// A place of a stripe with wrong parity: one block of each unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Mismatch {
    /// Logical zone.
    pub zone: u32,
    /// The block of the first data unit, in the zone; the others are a stripe unit apart.
    pub block: u32,
}

/// Stripes of a zone as they were read.
struct Batch {
    zone: u32,
    stripes: Range<u32>,
    /// Logical blocks of the zone that count.
    completed: u32,
    /// Whether the parity of a partial stripe is in its place.
    is_finished: bool,
    /// Members without their column, before or after the reads.
    lost: ColumnSet,
    /// By slot: blocks from the start of the first stripe on.
    columns: Vec<Vec<Option<Block>>>,
}

impl Core {
    /// Scrubs the volume while it is in use.
    ///
    /// # Errors
    /// If the volume stops, or is closed.
    pub(crate) async fn scrub(self: &Rc<Self>) -> Result<ScrubReport, StopReason> {
        let _admin = self.admin.acquire().await;
        let mut report = ScrubReport::default();
        let scrubbed = self.scrub_zones(&mut report).await;
        self.scrub_progress.set(None);
        scrubbed?;
        self.state.borrow().array.stopped.map_or(Ok(report), Err)
    }

    async fn scrub_zones(self: &Rc<Self>, report: &mut ScrubReport) -> Result<(), StopReason> {
        let total = self.layout.zones();
        for zone in 0..total {
            let progress = Progress { done: zone.into(), total: total.into() };
            self.scrub_progress.set(Some(progress));
            let (mut next, before) = (0, report.blocks);
            loop {
                self.check_scrub_goes_on()?;
                let (begun, commands) = (self.handle.now(), self.user_commands());
                let Some(scrubbed) = self.scrub_batch(zone, next, report).await? else { break };
                assert!(scrubbed > next, "a batch of no stripes of zone {zone}");
                next = scrubbed;
                self.give_way(begun, commands).await;
            }
            report.zones += u64::from(report.blocks > before);
        }
        Ok(())
    }

    pub(crate) fn check_scrub_goes_on(&self) -> Result<(), StopReason> {
        let closing = self.closing.get().then_some(StopReason::ShuttingDown);
        self.state.borrow().array.stopped.or(closing).map_or(Ok(()), Err)
    }

    /// Commands of users since the start.
    fn user_commands(&self) -> u64 {
        let state = self.state.borrow();
        state.admitted + state.reads
    }

    /// Pauses if users sent commands during a batch.
    async fn give_way(&self, begun: Nanos, commands: u64) {
        if self.user_commands() > commands {
            mark(Mark::ZonedScrubGaveWay);
            self.handle.sleep(self.handle.now().since(begun).min(PAUSE_MOST)).await;
        }
    }

    /// Scrubs the next stripes of a zone. Returns the stripe behind them; `None` at the end.
    async fn scrub_batch(
        self: &Rc<Self>,
        zone: u32,
        first: u32,
        report: &mut ScrubReport,
    ) -> Result<Option<u32>, StopReason> {
        // A reset waits for the batch and its repairs.
        let reader = Reader::begin(self, zone);
        self.resets_before_ended(&reader).await?;
        let Some(batch) = self.read_batch(zone, first).await else { return Ok(None) };
        let mut clean = vec![true; batch.stripes.len()];
        for column in self.layout.scheme().iter().filter(|column| !batch.lost.contains(*column)) {
            let blocks = &batch.columns[column.index()];
            report.blocks += blocks.len() as u64;
            let start = self.layout.row_start(batch.stripes.start);
            let damaged = (start..).zip(blocks).filter(|(_, block)| block.is_none());
            for (at, _) in damaged {
                clean[(self.layout.stripe_at(at) - batch.stripes.start) as usize] = false;
                report.damaged += 1;
                self.repair(zone, column, at, report).await?;
            }
        }
        for (stripe, is_clean) in batch.stripes.clone().zip(clean) {
            // Parity of a stripe without some of its columns shows nothing.
            if is_clean && batch.lost.is_empty() {
                self.compare_parity(&batch, stripe, report);
            }
        }
        Ok(Some(batch.stripes.end))
    }

    /// Waits for resets that were admitted before a read.
    async fn resets_before_ended(&self, reader: &Reader) -> Result<(), StopReason> {
        loop {
            self.check_scrub_goes_on()?;
            let changed = {
                let state = self.state.borrow();
                let logical = &state.logical[reader.zone as usize];
                if logical.resets_done >= reader.resets {
                    return Ok(());
                }
                logical.changed.clone()
            };
            changed.wait().await;
        }
    }

    /// Reads stripes of a zone up to its completed writes; `None` if there are no more.
    async fn read_batch(self: &Rc<Self>, zone: u32, first: u32) -> Option<Batch> {
        let layout = &self.layout;
        let (completed, is_finished, lost) = {
            let state = self.state.borrow();
            let logical = &state.logical[zone as usize];
            // While a finish is under way, its parity may not be in place.
            let is_finished = logical.record.finished.is_some() && !logical.blocked;
            (logical.completed, is_finished, state.lost_columns(zone))
        };
        let stripes = first
            ..(completed.div_ceil(layout.stripe_blocks()))
                .min(first + (BLOCKS_AT_A_TIME / layout.unit()).max(1));
        if stripes.is_empty() {
            return None;
        }
        assert!(stripes.end <= layout.stripe_of(layout.zone_blocks()), "stripes of the zone");
        let (start, end) = (layout.row_start(stripes.start), layout.row_start(stripes.end));
        let reads = layout.scheme().iter().map(|column| async move {
            let last = self.column_end_of(zone, column, completed, is_finished).min(end);
            match lost.contains(column) || last <= start {
                true => Vec::new(),
                false => self.fetch(zone, column, start, last - start).await,
            }
        });
        let columns = join_all(reads).await;
        let lost = lost.union(self.state.borrow().lost_columns(zone));
        Some(Batch { zone, stripes, completed, is_finished, lost, columns })
    }

    /// Rebuilds a damaged block, and moves it to the parity log.
    async fn repair(
        self: &Rc<Self>,
        zone: u32,
        column: Column,
        at: u32,
        report: &mut ScrubReport,
    ) -> Result<(), StopReason> {
        let layout = &self.layout;
        let stripe = layout.stripe_at(at);
        let role = layout.role_of(zone, stripe, column);
        let within = at - layout.row_start(stripe);
        let rebuilt = self.reconstruct(zone, stripe, role, within..within + 1).await;
        let Some(block) = rebuilt.into_iter().next().flatten() else {
            report.unrepairable += 1;
            return Ok(());
        };
        match self.relocate_damaged(zone, column, at, block).await? {
            Relocated::Moved => {
                mark(Mark::ZonedScrubRelocated);
                report.relocated += 1;
                self.state.borrow_mut().array.members[column.index()].errors.repaired += 1;
            }
            Relocated::Left => report.left += 1,
        }
        Ok(())
    }

    /// Compares the parity of a stripe whose blocks are all there.
    fn compare_parity(&self, batch: &Batch, stripe: u32, report: &mut ScrubReport) {
        let layout = &self.layout;
        let first = layout.stripe_start(stripe);
        let rest = (batch.completed - first).min(layout.stripe_blocks());
        if rest < layout.stripe_blocks() && !batch.is_finished {
            return;
        }
        let at = layout.row_start(stripe) - layout.row_start(batch.stripes.start);
        let there = |role: Role, within: u32| {
            let column = layout.column_of(batch.zone, stripe, role);
            batch.columns[column.index()].get((at + within) as usize).cloned().flatten()
        };
        let mut buffer = StripeBuffer::new(stripe);
        for number in 0..rest {
            let role = Role::of((number / layout.unit()) as usize);
            let Some(block) = there(role, number % layout.unit()) else { return };
            buffer.push(block);
        }
        let within = 0..layout.parity_blocks(rest);
        let right = buffer.parity(layout, &self.code, rest, within);
        let mut wrong = vec![false; layout.unit() as usize];
        for (role, parity) in layout.parity_roles().zip(right) {
            for (within, right) in (0..).zip(parity.into_blocks()) {
                let same = |found: &Block| found.data == right.data && found.sum == right.sum;
                wrong[within as usize] |= !there(role, within).is_some_and(|found| same(&found));
            }
        }
        let wrong = (0..).zip(wrong).filter(|(_, is_wrong)| *is_wrong).map(|(within, _)| within);
        for within in wrong {
            mark(Mark::ZonedScrubMismatch);
            report.mismatches += 1;
            if report.mismatched.len() < LISTED_MOST {
                report.mismatched.push(Mismatch { zone: batch.zone, block: first + within });
            }
        }
    }
}
