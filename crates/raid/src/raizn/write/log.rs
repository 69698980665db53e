//! Writes the parity log of a member.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_journal::Seed;
use zoneweave_zoned::{OobKind, Payload, ZoneAddress, ZonedDevice};

use crate::instrument::marks::{Mark, mark};
use crate::raizn::core::{Core, State};
use crate::raizn::format::metadata::BlockMetadata;
use crate::raizn::parity_log::{LogStep, LogWrite, relocated_most};
use crate::scheme::Column;

impl Core {
    /// Writes whatever is queued for a member's parity log.
    pub(crate) async fn write_log(self: Rc<Self>, column: Column) {
        loop {
            let (device, step) = {
                let mut state = self.state.borrow_mut();
                let is_stopped = state.array.stopped.is_some();
                let device = state.array.members[column.index()].device.clone();
                let device = device.filter(|_| !is_stopped);
                let log = &mut state.logs[column.index()];
                match &device {
                    // Nothing waits for the log of a member that is gone. Once writes have stopped,
                    // no checkpoint makes room any more.
                    None => {
                        let dropped = std::mem::take(&mut log.queue);
                        log.checkpoint.clear();
                        log.writing = false;
                        drop(state);
                        self.end_records(dropped.into());
                        self.changed.open();
                        return;
                    }
                    Some(drive) => {
                        let step = log.step(drive.geometry().max_transfer.0);
                        log.writing = !matches!(step, LogStep::Done);
                        (device.clone(), step)
                    }
                }
            };
            let device = device.expect("checked above");
            match step {
                LogStep::Done => {
                    self.changed.open();
                    return;
                }
                LogStep::Wait => self.changed.wait().await,
                LogStep::Switch => {
                    mark(Mark::ZonedLogSwitched);
                    {
                        let mut state = self.state.borrow_mut();
                        let reserve = self.checkpoint_blocks_most(&state, column);
                        state.logs[column.index()].switch(reserve);
                    }
                    let checkpoint = self.clone().checkpoint_log(column, device);
                    self.handle.spawn("parity log checkpoint", checkpoint);
                }
                LogStep::Write(zone, at, records) => {
                    let payload = log_payload(self.seed, &*device, &records);
                    let at = ZoneAddress::new(zone, at);
                    if self.write_in_tries(column, &device, at, payload).await {
                        self.mark_unflushed(&records, column);
                    }
                    self.changed.open();
                    self.end_records(records);
                }
            }
        }
    }

    /// Counts records as written. An operation without another owner is of a task that was dropped,
    /// such as a scrub's: nothing else wakes the writes that wait for its space.
    fn end_records(self: &Rc<Self>, records: Vec<LogWrite>) {
        let operations = || records.iter().filter_map(|record| record.operation.as_ref());
        let is_orphan = operations().any(|operation| Rc::strong_count(operation) == 1);
        self.written(records.into_iter().filter_map(|record| record.operation));
        if is_orphan {
            mark(Mark::ZonedLoggedForNone);
            self.pump_starved();
        }
    }

    /// Records that a member has to be flushed for the zones of these records.
    fn mark_unflushed(&self, records: &[LogWrite], column: Column) {
        let mut state = self.state.borrow_mut();
        for operation in records.iter().filter_map(|record| record.operation.as_ref()) {
            let logical = &mut state.logical[operation.zone as usize];
            logical.unflushed = logical.unflushed.with(column);
        }
    }

    /// Blocks that a checkpoint of a member's log takes at most: a parity unit for each zone that
    /// can be partly written, and its relocated blocks. These include those to come: between the
    /// switch to another zone and the checkpoint, writes and scrubs relocate more.
    pub(crate) fn checkpoint_blocks_most(&self, state: &State, column: Column) -> u32 {
        let geometry = state.zones.geometry();
        let zones = geometry.max_active.unwrap_or(geometry.zones).min(geometry.zones);
        let there = state.logs[column.index()].relocated;
        let relocated = there.max(relocated_most(state.array.config.zone_capacity.0));
        // A finished zone may be partly written as well, until its parity is in its place.
        (zones + 1) * (self.layout.unit() + 1) + 2 * relocated
    }
}

/// The blocks of records, with metadata for drives that have it.
pub(crate) fn log_payload(seed: Seed, device: &dyn ZonedDevice, records: &[LogWrite]) -> Payload {
    let data: Vec<Bytes> = records.iter().flat_map(|record| record.data.iter().cloned()).collect();
    let oob = match device.geometry().oob {
        OobKind::None => Bytes::new(),
        _ => {
            let sealed = data.iter().map(|block| BlockMetadata::of_log(0).seal(seed, block));
            sealed.flatten().collect()
        }
    };
    Payload { data, oob }
}
