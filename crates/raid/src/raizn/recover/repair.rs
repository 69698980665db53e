//! Repairs of a zone after a crash: every column gets the blocks of the readable part that it
//! lacks.
//!
//! Blocks behind a column's write pointer are written in place. Where the column has been written
//! beyond the readable part, it holds *junk*; blocks of the readable part whose places hold junk
//! stay in memory until `publish` writes them to the parity log.

use std::collections::BTreeMap;
use std::rc::Rc;

use zoneweave_zoned::{
    Payload, ReportOptions, Status, ZoneAddress, ZoneInfo, ZoneState, ZonedDevice, ZonedDeviceExt,
};

use crate::array::format::config::Checksums;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::raizn::core::Core;
use crate::raizn::format::log_record::LogKind;
use crate::raizn::format::metadata::{BlockMetadata, Kind};
use crate::raizn::format::zone_record::{Junk, ZoneRecord};
use crate::raizn::layout::Layout;
use crate::raizn::recover::error::OpenError;
use crate::raizn::recover::excess::JUNK_RANGES_MOST;
use crate::raizn::recover::judge::{Readable, ZoneTail};
use crate::raizn::recover::media::{LogScan, Media};
use crate::raizn::recover::unread::{Gaps, Unread, UnreadPart};
use crate::raizn::stripe::Block;
use crate::raizn::zone::LogicalZone;
use crate::scheme::Column;

/// Damaged blocks of a column that a start replaces by relocated ones.
const REPLACED_MOST: usize = 4;

/// What remains to be done for a zone once the start is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leftover {
    Nothing,
    /// Its columns have to be emptied.
    Reset,
    /// The parity of its last stripe may not be in place.
    Finish,
}

/// What a start has found of a zone, before it writes any of it.
enum Look {
    /// It has no blocks to be completed.
    Decided(Leftover),
    /// It has, or none of what it has can be read.
    Tail(ZoneTail, Readable),
}

impl Core {
    /// Finds what is readable of a zone and completes its columns.
    ///
    /// # Errors
    /// A read without an answer, if the zone may go on behind its end.
    pub(crate) async fn recover_zone(
        self: &Rc<Self>,
        zone: u32,
        media: &Media,
        gaps: &mut Gaps,
    ) -> Result<Leftover, Unread> {
        match self.look_at(zone, media, gaps).await? {
            Look::Decided(leftover) => Ok(leftover),
            Look::Tail(tail, readable) => Ok(self.settle_zone(&tail, readable).await),
        }
    }

    /// As [`Self::recover_zone`]; `None` if drives would be written, or have not told everything.
    ///
    /// # Errors
    /// As [`Self::recover_zone`], and if the zone would be cut.
    pub(super) async fn survey_zone(
        self: &Rc<Self>,
        zone: u32,
        media: &Media,
        gaps: &mut Gaps,
    ) -> Result<Option<Leftover>, OpenError> {
        match self.look_at(zone, media, gaps).await? {
            Look::Decided(leftover) => Ok(Some(leftover)),
            Look::Tail(tail, readable) if self.is_cut(&tail, &readable) => {
                Err(OpenError::WouldCut { zone })
            }
            Look::Tail(tail, readable) if !self.is_whole(&tail, &readable) => Ok(None),
            // Every block is in its place: this enters the state alone.
            Look::Tail(tail, readable) => Ok(Some(self.settle_zone(&tail, readable).await)),
        }
    }

    /// Whether every present column has its blocks of the readable part.
    fn is_whole(&self, tail: &ZoneTail, readable: &Readable) -> bool {
        let start = self.layout.row_start(tail.first_stripe);
        let mut columns = self.layout.scheme().iter().zip(&tail.columns);
        columns.all(|(column, own)| {
            let end = self.layout.column_end(tail.zone, column, readable.end);
            let has_all = || (start..end).all(|at| own.blocks.contains_key(&at));
            let is_complete = || own.write_pointer >= end && has_all();
            !own.is_present || own.unread.is_empty() && (tail.finished.is_some() || is_complete())
        })
    }

    /// Finds what is readable of a zone.
    async fn look_at(
        self: &Rc<Self>,
        zone: u32,
        media: &Media,
        gaps: &mut Gaps,
    ) -> Result<Look, Unread> {
        let Media { reports, logs } = media;
        if self.state.borrow().logical[zone as usize].record.resetting {
            mark(Mark::ZonedResetCompleted);
            return Ok(Look::Decided(Leftover::Reset));
        }
        self.leave_out_read_only(zone, reports);
        self.load_relocated(zone, logs);
        let ends = self.column_ends(zone, reports);
        let generation = self.state.borrow().logical[zone as usize].record.generation;
        let records = logs.iter().flat_map(|log| &log.records);
        // The only block of a zone may be on a lost member.
        let is_logged = records
            .map(|record| &record.header)
            .any(|header| header.zone == zone && header.generation == generation);
        let is_empty = ends.iter().flatten().all(|end| *end == 0) && !is_logged;
        let (tail, readable) = self.read_readable(zone, &ends, logs, gaps).await?;
        if is_empty {
            let is_finished = tail.finished.is_some();
            let leftover = if is_finished { Leftover::Finish } else { Leftover::Nothing };
            return Ok(Look::Decided(leftover));
        }
        Ok(Look::Tail(tail, readable))
    }

    /// Gives the columns of a zone the blocks that they lack, and enters the zone in the state.
    async fn settle_zone(self: &Rc<Self>, tail: &ZoneTail, readable: Readable) -> Leftover {
        if readable.end == 0 && tail.finished.is_none() {
            mark(Mark::ZonedNothingReadable);
            return Leftover::Reset;
        }
        // The data of a finished zone was durable before the zone was.
        if tail.finished.is_none() {
            self.complete_columns(tail, &readable).await;
        }
        self.enter(tail, readable)
    }

    /// Reads the tail of a zone, again while drives give no answer that it cannot do without.
    ///
    /// # Errors
    /// As [`Self::recover_zone`].
    async fn read_readable(
        self: &Rc<Self>,
        zone: u32,
        ends: &[Option<u32>],
        logs: &[LogScan],
        gaps: &mut Gaps,
    ) -> Result<(ZoneTail, Readable), Unread> {
        gaps.patience.of_next_part();
        loop {
            let tail = self.read_tail(zone, ends, logs).await;
            let readable = self.judge(&tail);
            if let Err(unread) = self.check_end(&tail, readable.end, logs) {
                let may_pass = unread.part != UnreadPart::ParityLog;
                if may_pass && gaps.patience.wait(&self.handle).await {
                    continue;
                }
                gaps.give_up(zone, unread)?;
            }
            return Ok((tail, readable));
        }
    }

    /// Takes the relocated blocks of a zone from the logs.
    fn load_relocated(&self, zone: u32, logs: &[LogScan]) {
        let mut state = self.state.borrow_mut();
        let logical = &mut state.logical[zone as usize];
        let generation = logical.record.generation;
        for (column, log) in self.layout.scheme().iter().zip(logs) {
            for record in &log.records {
                let LogKind::Relocated { at } = record.header.kind else { continue };
                if record.header.zone != zone || record.header.generation != generation {
                    continue;
                }
                for (at, block) in (at..).zip(&record.blocks) {
                    if logical.is_junk(column, at).0 {
                        let relocated = &mut logical.columns[column.index()].relocated;
                        relocated.insert(at, block.clone());
                    }
                }
            }
        }
    }

    /// Takes read-only columns as lost if nothing but the write pointer shows what they hold: that
    /// of a read-only zone is undefined (NVMe ZNS).
    fn leave_out_read_only(&self, zone: u32, reports: &[Option<Vec<ZoneInfo>>]) {
        if self.checksums == Checksums::Metadata {
            return;
        }
        let physical = Layout::column_zone(zone);
        let columns = self.layout.scheme().iter().zip(reports);
        let read_only = columns.filter(|(_, report)| {
            let info = report.as_ref().and_then(|report| report.get(physical.index()));
            info.is_some_and(|info| info.state == ZoneState::ReadOnly)
        });
        let mut state = self.state.borrow_mut();
        let logical = &mut state.logical[zone as usize];
        logical.absent = read_only.fold(logical.absent, |absent, (column, _)| absent.with(column));
    }

    /// Gives every column the blocks of the readable part that it lacks.
    async fn complete_columns(self: &Rc<Self>, tail: &ZoneTail, readable: &Readable) {
        let present = self.layout.scheme().iter().filter(|c| tail.columns[c.index()].is_present);
        let columns = present.map(|column| self.complete_column(tail, readable, column));
        futures_util::future::join_all(columns).await;
    }

    async fn complete_column(
        self: &Rc<Self>,
        tail: &ZoneTail,
        readable: &Readable,
        column: Column,
    ) {
        let layout = &self.layout;
        let (zone, own) = (tail.zone, &tail.columns[column.index()]);
        let start = layout.row_start(tail.first_stripe);
        let end = layout.column_end(zone, column, readable.end);
        let mut behind: Vec<Option<Block>> = Vec::new();
        let mut misplaced: BTreeMap<u32, Block> = BTreeMap::new();
        for at in start..end {
            let there = own.blocks.get(&at);
            if at >= own.write_pointer {
                // A relocated block is there if the drive lost what it had written around it.
                mark_if(Mark::ZonedColumnFellBack, || there.is_some());
                let block = there.cloned();
                let block = block.unwrap_or_else(|| self.block_at(readable, zone, column, at));
                behind.push(Some(block));
            } else if there.is_none() && !own.unread.contains_key(&at) {
                misplaced.insert(at, self.block_at(readable, zone, column, at));
            }
        }
        self.record_junk(zone, column, own.write_pointer, end, misplaced);
        let device = self.state.borrow().array.members[column.index()].device.clone();
        if let (Some(device), false) = (device, behind.is_empty()) {
            let first = own.write_pointer.max(start);
            let ends = first as usize + behind.len();
            assert!(ends == end as usize, "{column}: blocks from {first} end at {ends}, not {end}");
            let payload = self.column_payload(zone, column, first, &behind);
            let at = ZoneAddress::new(Layout::column_zone(zone), first);
            self.write_in_tries(column, &device, at, payload).await;
        }
    }

    /// The block of the readable part that belongs to a place.
    fn block_at(&self, readable: &Readable, zone: u32, column: Column, at: u32) -> Block {
        let layout = &self.layout;
        let stripe = layout.stripe_at(at);
        let within = at - layout.row_start(stripe);
        let first = readable.stripes.first().expect("the tail has a stripe").stripe;
        let buffer = &readable.stripes[(stripe.0 - first.0) as usize];
        let role = layout.role_of(zone, stripe, column);
        if layout.scheme().is_data(role) {
            let block = buffer.block(layout.in_stripe(role, within));
            return block.expect("it is in the readable part").clone();
        }
        let parity = usize::from(layout.parity_number(role));
        let rest = layout.stripe_blocks();
        let blocks = buffer.parity(layout, &self.code, rest, within..within + 1);
        let block = blocks.into_iter().nth(parity).expect("a block of each parity unit");
        block.into_blocks().next().expect("one block")
    }

    /// Blocks as a column has them from a place on; `None` for holes, which a volume without
    /// checksums cannot have.
    pub(crate) fn column_payload(
        &self,
        zone: u32,
        column: Column,
        at: u32,
        blocks: &[Option<Block>],
    ) -> Payload {
        let generation = self.state.borrow().logical[zone as usize].record.generation;
        let (mut data, mut oob) = (Vec::with_capacity(blocks.len()), Vec::new());
        for (at, contents) in (at..).zip(blocks) {
            let (kind, block) = self.identity(zone, column, at);
            let is_hole = contents.is_none();
            let contents = contents.clone().unwrap_or_else(Block::zeros);
            let kind = if is_hole { Kind::Hole } else { kind };
            mark_if(Mark::ZonedHoleWritten, || is_hole);
            if self.checksums == Checksums::Metadata {
                let metadata = BlockMetadata { sum: contents.sum, zone, generation, block, kind };
                oob.extend_from_slice(&metadata.seal(self.seed, &contents.data));
            } else {
                assert!(!is_hole, "a hole at {at} of {column}, and nothing to tell it by");
            }
            data.push(contents.data);
        }
        Payload { data, oob: oob.into() }
    }

    /// Records what a column holds behind the readable part, and the blocks whose places hold
    /// something else.
    fn record_junk(
        &self,
        zone: u32,
        column: Column,
        write_pointer: u32,
        end: u32,
        misplaced: BTreeMap<u32, Block>,
    ) {
        let mut state = self.state.borrow_mut();
        let logical = &mut state.logical[zone as usize];
        // The drive may have lost some of what it had written.
        let in_column = |junk: &Junk| Junk { end: junk.end.min(write_pointer), ..*junk };
        let mut junk: Vec<_> = logical.junk_of(column).map(in_column).collect();
        junk.retain(|junk| junk.start < junk.end);
        let behind = Junk { column, start: end, end: write_pointer };
        mark_if(Mark::ZonedJunkLeft, || end < write_pointer);
        junk.extend((end < write_pointer).then_some(behind));
        let misplaced = replaced(logical, column, misplaced);
        junk.extend(misplaced.keys().map(|at| Junk { column, start: *at, end: at + 1 }));
        let relocated = &mut logical.columns[column.index()].relocated;
        relocated.split_off(&end.min(write_pointer));
        relocated.extend(misplaced);
        set_junk(&mut logical.record, column, junk);
    }

    /// Enters the readable part of a zone in the state.
    fn enter(&self, tail: &ZoneTail, readable: Readable) -> Leftover {
        let layout = &self.layout;
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let logical = &mut state.logical[tail.zone as usize];
        let end = tail.finished.unwrap_or(readable.end);
        assert!(end <= layout.zone_blocks(), "zone {} ends at {end}", tail.zone);
        // Blocks behind the end are gone, and the host writes others there without a reset.
        let first = layout.first_of(tail.zone);
        let cut = first + u64::from(end)..first + u64::from(layout.zone_blocks());
        if !cut.is_empty() {
            state.array.lost.forget(cut);
        }
        logical.submitted = end;
        logical.completed = end;
        logical.persisted = end;
        for column in layout.scheme().iter() {
            let next = layout.column_end(tail.zone, column, end);
            logical.columns[column.index()].next = next;
        }
        let last = layout.stripe_of(end);
        let partial = readable.stripes.into_iter().filter(|stripe| stripe.stripe == last);
        logical.stripes = partial.collect();
        if tail.finished.is_none() {
            // Its repairs are durable before its record is.
            if end == layout.zone_blocks() && !logical.record.junk.is_empty() {
                mark(Mark::ZonedFinishedWithJunk);
                logical.record.finished = Some(end);
            }
            return Leftover::Nothing;
        }
        let (row, rest) = (layout.row_start(last), end - layout.stripe_start(last));
        let whole = row + layout.parity_blocks(rest);
        let is_whole = logical.stripe(last).is_some_and(|stripe| stripe.filled() == rest);
        let roles = || layout.parity_roles().filter(|_| rest > 0);
        let columns = || roles().map(|role| layout.column_of(tail.zone, last, role));
        let lacks = |column: &Column| {
            let own = &tail.columns[column.index()];
            own.is_present && (row..whole).any(|at| !own.may_have(at))
        };
        let lacking: Vec<_> = columns().filter(lacks).collect();
        for column in columns() {
            // Whatever lies below the write pointer is there, or relocated.
            let written = tail.columns[column.index()].write_pointer.clamp(row, whole);
            let next = if lacking.contains(&column) { written } else { whole };
            logical.columns[column.index()].next = next;
        }
        if is_whole {
            self.relocate_last_parity(logical, tail, &lacking);
        }
        let relocated = columns().any(|column| self.is_parity_relocated(logical, column, end));
        if lacking.is_empty() || !is_whole {
            logical.stripes.clear();
            // Parity of lost blocks will never be written, and the columns would stay active.
            let is_unread = tail.columns.iter().any(|own| !own.unread.is_empty());
            let is_lost = !lacking.is_empty() && !is_unread;
            mark_if(Mark::ZonedFinishedWithLoss, || is_lost);
            return if relocated || is_lost { Leftover::Finish } else { Leftover::Nothing };
        }
        mark(Mark::ZonedFinishCompleted);
        Leftover::Finish
    }

    /// Relocates parity of a finished zone's last stripe whose places are written and do not hold
    /// it: it can be written there no more.
    fn relocate_last_parity(&self, logical: &mut LogicalZone, tail: &ZoneTail, lacking: &[Column]) {
        let layout = &self.layout;
        let Some(end) = tail.finished else { return };
        let stripe = layout.stripe_of(end);
        let (row, rest) = (layout.row_start(stripe), end - layout.stripe_start(stripe));
        let Some(buffer) = logical.stripe(stripe).filter(|_| rest > 0) else { return };
        let parity = buffer.parity(layout, &self.code, rest, 0..layout.parity_blocks(rest));
        for (role, parity) in layout.parity_roles().zip(parity) {
            let column = layout.column_of(tail.zone, stripe, role);
            if !lacking.contains(&column) {
                continue;
            }
            let own = &tail.columns[column.index()];
            let is_behind = |at: &u32| *at < own.write_pointer && !own.may_have(*at);
            let blocks = (row..).zip(parity.into_blocks());
            let misplaced = blocks.filter(|(at, _)| is_behind(at)).collect();
            let misplaced = replaced(logical, column, misplaced);
            mark_if(Mark::ZonedLastParityRelocated, || !misplaced.is_empty());
            let mut junk: Vec<_> = logical.junk_of(column).copied().collect();
            junk.extend(misplaced.keys().map(|at| Junk { column, start: *at, end: at + 1 }));
            logical.columns[column.index()].relocated.extend(misplaced);
            set_junk(&mut logical.record, column, junk);
        }
    }

    /// Whether parity of the last stripe of a zone that is finished at `end` belongs to places of a
    /// column that hold junk. Only with the parity log is it known whether the parity is there, so
    /// the column is finished at the end of a start.
    pub(crate) fn is_parity_relocated(
        &self,
        logical: &LogicalZone,
        column: Column,
        end: u32,
    ) -> bool {
        let layout = &self.layout;
        let (zone, stripe) = (logical.record.zone, layout.stripe_of(end));
        let row = layout.row_start(stripe);
        let places = row..row + layout.parity_blocks(end - layout.stripe_start(stripe));
        let is_junk = |junk: &Junk| junk.start < places.end && places.start < junk.end;
        !layout.scheme().is_data(layout.role_of(zone, stripe, column))
            && logical.junk_of(column).any(is_junk)
    }
}

/// Of blocks whose places hold something else, those that go to the parity log. A crash may have
/// taken relocated blocks. Damaged ones can be reconstructed; a few may be replaced as well.
fn replaced(
    logical: &LogicalZone,
    column: Column,
    misplaced: BTreeMap<u32, Block>,
) -> BTreeMap<u32, Block> {
    let (mut replaced, damaged): (BTreeMap<_, _>, BTreeMap<_, _>) =
        misplaced.into_iter().partition(|(at, _)| logical.is_junk(column, *at).0);
    let ranges = logical.record.junk.len() + damaged.len();
    if damaged.len() <= REPLACED_MOST && ranges <= JUNK_RANGES_MOST {
        mark_if(Mark::ZonedDamageReplaced, || !damaged.is_empty());
        replaced.extend(damaged);
    }
    replaced
}

/// Replaces the junk ranges of a column.
fn set_junk(record: &mut ZoneRecord, column: Column, junk: Vec<Junk>) {
    record.junk.retain(|one| one.column != column);
    record.junk.extend(merged(junk));
    record.junk.sort_unstable();
}

/// Ranges of a column in order, those that overlap or touch in one.
pub(crate) fn merged(mut junk: Vec<Junk>) -> Vec<Junk> {
    junk.sort_unstable();
    let mut merged: Vec<Junk> = Vec::new();
    for one in junk {
        match merged.last_mut() {
            Some(last) if one.start <= last.end => last.end = last.end.max(one.end),
            _ => merged.push(one),
        }
    }
    merged
}

/// The zones of a member.
///
/// # Errors
/// The drive's status.
pub(crate) async fn report(device: &dyn ZonedDevice) -> Result<Vec<ZoneInfo>, Status> {
    let zones = device.geometry().zones;
    let report = device.report_by(zoneweave_zoned::ZoneId(0), zones, ReportOptions::default());
    Ok(report.await?.zones)
}
