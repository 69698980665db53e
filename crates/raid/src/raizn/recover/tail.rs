//! The columns of a zone behind the last stripe that every member holds, as a start finds them.
//!
//! A start decides how far a zone is readable, for good. What a drive says of a block is evidence,
//! also that the block is lost. A read that fails for another reason, such as a path that is down,
//! says nothing: a later start may find the block.

use std::rc::Rc;

use zoneweave_zoned::{ZoneInfo, ZoneState};

use crate::array::io::is_answer;
use crate::instrument::marks::{Mark, mark};
use crate::instrument::mutants::{Mutant, mutant};
use crate::raizn::core::Core;
use crate::raizn::layout::Layout;
use crate::raizn::recover::judge::{ColumnTail, PartialParity, ZoneTail};
use crate::raizn::recover::media::{LogRecord, LogScan};
use crate::raizn::recover::unread::{Unread, UnreadPart};
use crate::scheme::{Column, ColumnSet};

impl Core {
    /// The write pointer of each column; `None` for columns that are lost.
    pub(super) fn column_ends(
        &self,
        zone: u32,
        reports: &[Option<Vec<ZoneInfo>>],
    ) -> Vec<Option<u32>> {
        let lost = self.state.borrow().lost_columns(zone);
        let physical = Layout::column_zone(zone);
        let columns = self.layout.scheme().iter().zip(reports);
        let ends = columns.map(|(column, report)| {
            let info = report.as_ref()?.get(physical.index())?;
            let is_there = !lost.contains(column) && info.state != ZoneState::Offline;
            is_there.then(|| info.write_pointer.0.min(self.layout.column_blocks()))
        });
        ends.collect()
    }

    /// The first place of a column without its block.
    fn first_missing(&self, zone: u32, column: Column, end: u32) -> u32 {
        let state = self.state.borrow();
        let logical = &state.logical[zone as usize];
        let relocated = &logical.columns[column.index()].relocated;
        for junk in logical.junk_of(column) {
            let missing = (junk.start..junk.end).find(|at| !relocated.contains_key(at));
            if let Some(missing) = missing {
                return missing.min(end);
            }
        }
        end
    }

    /// Reads all columns behind the last stripe that every member holds.
    pub(super) async fn read_tail(
        self: &Rc<Self>,
        zone: u32,
        ends: &[Option<u32>],
        logs: &[LogScan],
    ) -> ZoneTail {
        let layout = &self.layout;
        let (finished, generation) = {
            let state = self.state.borrow();
            let record = &state.logical[zone as usize].record;
            (record.finished, record.generation)
        };
        let columns = || layout.scheme().iter().zip(ends);
        let missing =
            columns().filter_map(|(column, end)| Some(self.first_missing(zone, column, (*end)?)));
        let missing = match mutant(Mutant::ZonedHolesLeft) {
            true => missing.max(),
            false => missing.min(),
        };
        let first_stripe = match finished {
            Some(end) => layout.stripe_of(end),
            None => layout.stripe_at(missing.unwrap_or(0)),
        };
        let mut tails = Vec::new();
        for (column, end) in columns() {
            let mut tail = ColumnTail {
                is_present: end.is_some(),
                write_pointer: end.unwrap_or(0),
                ..ColumnTail::default()
            };
            let start = layout.row_start(first_stripe);
            let there = self.last_there(zone, column, tail.write_pointer);
            // The write pointer of a zone that the drive has finished is the zone's end. Blocks
            // behind the column's own end were never written.
            let until = match finished {
                Some(end) => there.min(self.column_end_of(zone, column, end, true)),
                None => there,
            };
            if tail.is_present && start < until {
                let told = self.fetch_told(zone, column, start, until - start).await;
                for (at, block) in (start..).zip(told) {
                    match block {
                        Ok(block) => _ = tail.blocks.insert(at, block),
                        Err(status) if is_answer(status) => {}
                        Err(status) => _ = tail.unread.insert(at, status),
                    }
                }
            }
            tails.push(tail);
        }
        let mut parity = PartialParity::default();
        for (column, log) in layout.scheme().iter().zip(logs) {
            let of_zone = |record: &&LogRecord| {
                record.header.zone == zone && record.header.generation == generation
            };
            let records = log.records.iter().filter(of_zone);
            records.for_each(|record| parity.add(self, zone, column, record));
        }
        ZoneTail { zone, first_stripe, columns: tails, parity, finished }
    }

    /// Column offset behind the last place that may hold a block.
    fn last_there(&self, zone: u32, column: Column, write_pointer: u32) -> u32 {
        let state = self.state.borrow();
        let relocated = &state.logical[zone as usize].columns[column.index()].relocated;
        let last = relocated.last_key_value().map_or(0, |(at, _)| at + 1);
        // Relocated blocks lie before the write pointer: junk was written there.
        assert!(last <= write_pointer.max(last), "places of a column");
        write_pointer.max(last)
    }

    /// Checks that a zone ends where it does because of what drives say of its blocks.
    ///
    /// What was acknowledged survives the loss of as many members as the scheme covers. So a zone
    /// may end before a block that only the members in question may have, if the others could do
    /// without these. What a drive has lost may be what the others needed: a column that is
    /// offline, the block, or blocks of the parity log.
    ///
    /// # Errors
    /// How a drive failed to read what may show that the zone goes on.
    pub(super) fn check_end(
        &self,
        tail: &ZoneTail,
        end: u32,
        logs: &[LogScan],
    ) -> Result<(), Unread> {
        let layout = &self.layout;
        if let Some(finished) = tail.finished {
            return self.check_relocated(tail.zone, finished, logs);
        }
        if end >= layout.zone_blocks() {
            return Ok(());
        }
        let lost = self.state.borrow().lost_columns(tail.zone);
        // The block behind the end, and those that it could be reconstructed from.
        let at = layout.place(tail.zone, end).at;
        let columns = || layout.scheme().iter().filter(|column| !lost.contains(*column));
        let unread = |slot: Column| {
            let of_zone = tail.columns[slot.index()].unread.get(&at);
            let of_zone = of_zone.map(|status| (UnreadPart::Zone(tail.zone), *status));
            let of_log = logs[slot.index()].unread.map(|status| (UnreadPart::ParityLog, status));
            of_zone.or(of_log).map(|(part, status)| Unread { part, slot, status })
        };
        let Some(first) = columns().find_map(unread) else { return Ok(()) };
        let is_missing = |column: &Column| {
            let own = &tail.columns[column.index()];
            let is_damaged = at < own.write_pointer && !own.blocks.contains_key(&at);
            let is_log_damaged = logs[column.index()].is_damaged;
            !own.is_present || unread(*column).is_some() || is_damaged || is_log_damaged
        };
        let missing: ColumnSet = columns().filter(is_missing).collect();
        mark(Mark::ZonedTailUnread);
        if layout.scheme().survives(lost.union(missing)) { Ok(()) } else { Err(first) }
    }

    /// Checks that every relocated block of a finished zone was found, where its log was not read:
    /// a start does not write these blocks again, and empties the log.
    fn check_relocated(&self, zone: u32, finished: u32, logs: &[LogScan]) -> Result<(), Unread> {
        let layout = &self.layout;
        let last = layout.stripe_of(finished);
        let rest = finished - layout.stripe_start(last);
        let end = layout.row_start(last) + layout.parity_blocks(rest);
        let lost = self.state.borrow().lost_columns(zone);
        let part = UnreadPart::ParityLog;
        for slot in layout.scheme().iter().filter(|slot| !lost.contains(*slot)) {
            let Some(status) = logs[slot.index()].unread else { continue };
            if self.first_missing(zone, slot, end) < end {
                mark(Mark::ZonedRelocatedUnread);
                return Err(Unread { part, slot, status });
            }
        }
        Ok(())
    }
}
