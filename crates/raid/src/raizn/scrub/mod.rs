//! Scrub: reads every written block, compares the parity of complete stripes, and moves damaged
//! blocks to the parity log. It is a job of the array, zone by zone.
//!
//! A block that was not read, or does not verify, is read once more. It is *damaged* if its drive
//! says that it cannot return it, or if it does not verify again. It is rebuilt as a degraded read
//! does, and `relocate` moves it for good. Any other failed read may be of the way to the drive:
//! the block is only counted. Where every block of a stripe can be read and parity still differs,
//! nothing shows which of them is wrong: the scrub reports the address, and changes nothing. With
//! checksums that is a bug; without them it may be silent corruption.
//!
//! Users go first: while they send commands, each batch is followed by a pause of its own length.

pub(crate) mod findings;
pub(crate) mod lost;
pub(crate) mod relocate;

use std::ops::Range;
use std::rc::Rc;

use futures_util::future::join_all;
use zoneweave_runtime::{Nanos, Semaphore};
use zoneweave_zoned::{BlockCount, Status, ZoneAddress};

use crate::array::io::{MemberIo, is_answer};
use crate::array::repair::faults::RecordsFaults;
use crate::array::repair::scrub::{Scrub, ScrubState, ScrubUnits};
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark};
use crate::raizn::core::Core;
use crate::raizn::layout::Layout;
use crate::raizn::read::Reader;
use crate::raizn::scrub::findings::{Mismatch, ScrubReport};
use crate::raizn::scrub::relocate::Relocated;
use crate::raizn::stripe::{Block, StripeBuffer};
use crate::scheme::{Column, ColumnSet, Role, StripeId};

/// Blocks of a column that are read at a time: 256 KiB.
const BLOCKS_AT_A_TIME: u32 = 64;

/// Longest pause for users after a batch.
const PAUSE_MOST: Nanos = Nanos::from_millis(100);

/// A zone from a stripe on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZonePart {
    zone: u32,
    stripe: u32,
}

/// A zone under scrub.
struct ZoneScrub<'a> {
    zone: u32,
    report: &'a mut ScrubReport,
}

/// Stripes of a zone as they were read.
struct Batch {
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

impl Batch {
    /// By row: the members without a block there.
    fn missing(&self) -> Vec<ColumnSet> {
        let rows = self.columns.iter().map(Vec::len).max().unwrap_or(0);
        let mut missing = vec![self.lost; rows];
        for (column, blocks) in self.columns.iter().enumerate() {
            for (missing, block) in missing.iter_mut().zip(blocks) {
                if block.is_none() {
                    *missing = missing.with(Column::of(column));
                }
            }
        }
        missing
    }
}

/// A block that was not read or did not verify, after another look.
enum Again {
    /// It is there: the failure has passed.
    Sound(Block),
    Damaged,
    /// Its zone is offline: it is damaged with many others, for which the parity log has no room.
    Offline,
    /// It was not read, which says nothing about the media.
    Unread,
}

impl ScrubUnits for Core {
    type Unit = ZonePart;
    type Report = ScrubReport;

    fn scrub_state(&self) -> &ScrubState {
        &self.scrub
    }

    fn membership_permit(&self) -> &Semaphore {
        &self.admin
    }

    fn check_scrub(&self) -> Result<(), StopReason> {
        let closing = self.closing.get().then_some(StopReason::ShuttingDown);
        self.state.borrow().array.stopped.or(closing).map_or(Ok(()), Err)
    }

    async fn scrub_unit(
        self: &Rc<Self>,
        part: ZonePart,
        report: &mut ScrubReport,
    ) -> Result<Option<ZonePart>, StopReason> {
        self.record_unread(report);
        let ZonePart { zone, mut stripe } = part;
        let mut scrub = ZoneScrub { zone, report };
        loop {
            self.check_scrub()?;
            let (begun, commands) = (self.handle.now(), self.user_commands());
            let Some(scrubbed) = self.scrub_batch(&mut scrub, stripe).await? else { break };
            let is_stopping = self.scrub.is_stopping();
            assert!(scrubbed > stripe || is_stopping, "a batch of no stripes of zone {zone}");
            scrub.report.zones += u64::from(stripe == 0 && scrubbed > 0);
            stripe = scrubbed;
            if self.is_interrupted() {
                self.record_unread(report);
                return Ok(Some(ZonePart { zone, stripe }));
            }
            self.give_way(begun, commands).await;
        }
        self.record_unread(report);
        Ok(None)
    }
}

impl Core {
    /// Scrubs the volume while it is in use.
    ///
    /// # Errors
    /// If the volume stops, or is closed.
    pub(crate) async fn scrub(self: &Rc<Self>) -> Result<ScrubReport, StopReason> {
        let mut report = ScrubReport::default();
        let Some(mut scrub) = Scrub::begin(self).await? else {
            return Ok(ScrubReport { stopped: true, ..report });
        };
        let zones: Vec<_> =
            (0..self.layout.zones()).map(|zone| ZonePart { zone, stripe: 0 }).collect();
        report.stopped = !scrub.units(&zones, 0, &mut report).await?;
        drop(scrub);
        self.state.borrow().array.stopped.map_or(Ok(report), Err)
    }

    /// Records the slots without a drive.
    fn record_unread(&self, report: &mut ScrubReport) {
        report.unread = report.unread.union(self.state.borrow().missing());
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

    /// Scrubs the next stripes of a zone. Returns the stripe behind them; `None` at the end. If the
    /// scrub is to end, that is the first of them.
    async fn scrub_batch(
        self: &Rc<Self>,
        scrub: &mut ZoneScrub<'_>,
        first: u32,
    ) -> Result<Option<u32>, StopReason> {
        let zone = scrub.zone;
        // A reset waits for the batch and its repairs.
        let reader = Reader::begin(self, zone);
        self.resets_before_ended(&reader).await?;
        let Some(mut batch) = self.read_batch(zone, first).await else { return Ok(None) };
        let start = self.layout.row_start(StripeId(batch.stripes.start));
        let mut clean = vec![true; batch.stripes.len()];
        let missing = batch.missing();
        for column in self.layout.scheme().iter().filter(|column| !batch.lost.contains(*column)) {
            for (at, block) in (start..).zip(&mut batch.columns[column.index()]) {
                if block.is_none() {
                    // On failing media, a batch may take minutes.
                    self.check_scrub()?;
                    if self.scrub.is_stopping() {
                        return Ok(Some(first));
                    }
                    let missing = missing[(at - start) as usize];
                    *block = self.look_again(scrub, column, at, missing).await?;
                }
                let stripe = self.layout.stripe_at(at).0 - batch.stripes.start;
                clean[stripe as usize] &= block.is_some();
                scrub.report.blocks += u64::from(block.is_some());
            }
        }
        batch.lost = batch.lost.union(self.state.borrow().lost_columns(zone));
        scrub.report.unread = scrub.report.unread.union(batch.lost);
        for (stripe, is_clean) in batch.stripes.clone().zip(clean) {
            // Parity of a stripe without some of its columns shows nothing.
            if is_clean && batch.lost.is_empty() {
                self.compare_parity(&batch, StripeId(stripe), scrub);
            }
        }
        Ok(Some(batch.stripes.end))
    }

    /// Waits for resets that were admitted before a read.
    async fn resets_before_ended(&self, reader: &Reader) -> Result<(), StopReason> {
        loop {
            self.check_scrub()?;
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
        assert!(stripes.end <= layout.stripe_of(layout.zone_blocks()).0, "stripes of the zone");
        let [start, end] = [stripes.start, stripes.end].map(|at| layout.row_start(StripeId(at)));
        let reads = layout.scheme().iter().map(|column| async move {
            let last = self.column_end_of(zone, column, completed, is_finished).min(end);
            match lost.contains(column) || last <= start {
                true => Vec::new(),
                false => self.fetch(zone, column, start, last - start).await,
            }
        });
        let columns = join_all(reads).await;
        let lost = lost.union(self.state.borrow().lost_columns(zone));
        Some(Batch { stripes, completed, is_finished, lost, columns })
    }

    /// Reads a block once more, and repairs it if it is damaged. Returns it if it is sound.
    /// `missing` are the members whose blocks of the place were not read.
    async fn look_again(
        self: &Rc<Self>,
        scrub: &mut ZoneScrub<'_>,
        column: Column,
        at: u32,
        missing: ColumnSet,
    ) -> Result<Option<Block>, StopReason> {
        match self.read_again(scrub.zone, column, at).await {
            Again::Sound(block) => {
                mark(Mark::ZonedScrubFailurePassed);
                return Ok(Some(block));
            }
            Again::Damaged => {
                scrub.report.damaged += 1;
                self.repair(scrub, column, at).await?;
            }
            Again::Offline => {
                scrub.report.damaged += 1;
                let can_rebuild = self.layout.scheme().survives(missing)
                    || self.rebuilt(scrub.zone, column, at).await.is_some();
                match can_rebuild {
                    true => scrub.report.left += 1,
                    false => self.count_lost(scrub, column, at).await,
                }
            }
            Again::Unread => self.count_failed_read(scrub, column),
        }
        Ok(None)
    }

    /// Counts a block that was not read; all of a lost column are unread.
    fn count_failed_read(&self, scrub: &mut ZoneScrub<'_>, column: Column) {
        if !self.state.borrow().lost_columns(scrub.zone).contains(column) {
            mark(Mark::ZonedScrubReadFailed);
            scrub.report.failed_reads += 1;
        }
    }

    async fn read_again(self: &Rc<Self>, zone: u32, column: Column, at: u32) -> Again {
        {
            let state = self.state.borrow();
            let logical = &state.logical[zone as usize];
            if logical.is_junk(column, at).0 {
                let relocated = logical.columns[column.index()].relocated.get(&at).cloned();
                return relocated.map_or(Again::Damaged, Again::Sound);
            }
        }
        let place = ZoneAddress::new(Layout::column_zone(zone), at);
        match self.read_zone(column, place, BlockCount(1)).await {
            Ok(read) => {
                let generation = self.state.borrow().logical[zone as usize].record.generation;
                let (data, oob) = (read.block(0), read.oob_of(0));
                let block = self.verify(zone, generation, column, at, data, oob);
                block.map_or(Again::Damaged, Again::Sound)
            }
            Err(Status::ZoneOffline) => Again::Offline,
            Err(status) if is_answer(status) => Again::Damaged,
            Err(_) => Again::Unread,
        }
    }

    /// Rebuilds a damaged block, and moves it to the parity log.
    async fn repair(
        self: &Rc<Self>,
        scrub: &mut ZoneScrub<'_>,
        column: Column,
        at: u32,
    ) -> Result<(), StopReason> {
        let Some(block) = self.rebuilt(scrub.zone, column, at).await else {
            self.count_lost(scrub, column, at).await;
            return Ok(());
        };
        match self.relocate_damaged(scrub.zone, column, at, block).await? {
            Relocated::Moved => {
                mark(Mark::ZonedScrubRelocated);
                scrub.report.relocated += 1;
                self.state.borrow_mut().array.members[column.index()].errors.repaired += 1;
                self.schedule_fault_record();
            }
            Relocated::NoRoom => scrub.report.left += 1,
            Relocated::MemberLost => {
                let of_column: ColumnSet = std::iter::once(column).collect();
                scrub.report.unread = scrub.report.unread.union(of_column);
            }
        }
        Ok(())
    }

    /// Counts a block that was not rebuilt, and lists it if it is lost.
    async fn count_lost(self: &Rc<Self>, scrub: &mut ZoneScrub<'_>, column: Column, at: u32) {
        match self.list_if_lost(scrub.zone, column, at).await {
            true => {
                mark(Mark::ZonedScrubLost);
                scrub.report.unrepairable += 1;
            }
            false => self.count_failed_read(scrub, column),
        }
    }

    /// A block of a column, from the others; a failed read of these is repeated.
    async fn rebuilt(self: &Rc<Self>, zone: u32, column: Column, at: u32) -> Option<Block> {
        for _ in 0..2 {
            let rebuilt = self.reconstruct(zone, column, at..at + 1).await;
            if let Some(Some(block)) = rebuilt.into_iter().next() {
                return Some(block);
            }
        }
        None
    }

    /// Compares the parity of a stripe whose blocks are all there.
    fn compare_parity(&self, batch: &Batch, stripe: StripeId, scrub: &mut ZoneScrub<'_>) {
        let (layout, zone) = (&self.layout, scrub.zone);
        let first = layout.stripe_start(stripe);
        let rest = (batch.completed - first).min(layout.stripe_blocks());
        if rest < layout.stripe_blocks() && !batch.is_finished {
            return;
        }
        let at = layout.row_start(stripe) - layout.row_start(StripeId(batch.stripes.start));
        let there = |role: Role, within: u32| {
            let column = layout.column_of(zone, stripe, role);
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
            scrub.report.add_mismatch(Mismatch { zone, block: first + within });
        }
    }
}
