//! Takes admitted commands of a zone in order.

use std::rc::Rc;

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::raizn::core::{Core, State};
use crate::raizn::zone::Pending;

/// Stripes in flight per zone: RAIZN §5.1 has as many stripe buffers.
const STRIPES_IN_FLIGHT: u32 = 8;

/// Stripes of a zone that may be written without a flush, with drives that need one: a power
/// failure leaves at most as much junk in a column.
const STRIPES_UNFLUSHED: u32 = 64;

/// What to do next for a zone.
enum Next {
    Issued { activates: bool },
    Flush,
    Task(Pending),
    Nothing,
}

impl Core {
    /// Submits whatever a zone has admitted, as far as possible.
    pub(crate) fn pump(self: &Rc<Self>, zone: u32) {
        let mut activated = false;
        loop {
            let next = self.next_of(&mut self.state.borrow_mut(), zone);
            match next {
                Next::Issued { activates } => activated |= activates,
                Next::Flush => {
                    let core = self.clone();
                    self.handle.spawn("flush of a zone", async move {
                        core.flush_behind(zone).await;
                    });
                    break;
                }
                Next::Task(pending) => {
                    let core = self.clone();
                    self.handle.spawn("zone management", async move {
                        core.run_management(zone, pending).await;
                    });
                    break;
                }
                Next::Nothing => break,
            }
        }
        self.start_writers(zone);
        // A write to a zone whose columns are all lost waits for nothing.
        self.advance(zone);
        // The next write to an empty zone waited for this one.
        if activated {
            self.pump_starved();
        }
    }

    fn next_of(&self, state: &mut State, zone: u32) -> Next {
        // The members that are missing miss no write before their eviction is durable.
        if self.is_unpublished() && !mutant(Mutant::ZonedChangeNotHeld) {
            return Next::Nothing;
        }
        let volatile = state.array.volatile;
        let layout = &self.layout;
        let logical = &mut state.logical[zone as usize];
        let Some((number, front)) = logical.pending.front() else { return Next::Nothing };
        if logical.blocked {
            return Next::Nothing;
        }
        match front {
            Pending::Write(write) => {
                assert!(
                    write.start >= logical.completed && logical.persisted <= logical.completed,
                    "a write to {} of zone {zone}, complete to {} and durable to {}",
                    write.start,
                    logical.completed,
                    logical.persisted
                );
                let last = layout.stripe_of(write.start + write.payload.blocks().0 - 1);
                let in_flight = last.0 - layout.stripe_of(logical.completed).0;
                if in_flight >= STRIPES_IN_FLIGHT && !logical.operations.is_empty() {
                    return Next::Nothing;
                }
                let stripes = last.0 - layout.stripe_of(write.start).0 + 1;
                let activation = write.activates().then_some(*number);
                if !self.has_resources(state, activation, stripes) {
                    state.starved.insert(zone);
                    return Next::Nothing;
                }
                let logical = &mut state.logical[zone as usize];
                let unflushed = last.0.saturating_sub(layout.stripe_of(logical.persisted).0);
                if volatile
                    && unflushed >= self.unflushed_most()
                    && logical.completed > logical.persisted
                {
                    let begins = !std::mem::replace(&mut logical.flushing, true);
                    mark_if(Mark::ZonedFlushedBehind, || begins);
                    return if begins { Next::Flush } else { Next::Nothing };
                }
            }
            Pending::Reset(_) => {
                let read = logical.readers.first_key_value();
                let is_read = read.is_some_and(|(reset, _)| *reset <= logical.resets_done);
                mark_if(Mark::ZonedReadersAwaited, || is_read);
                if !logical.operations.is_empty() || is_read {
                    return Next::Nothing;
                }
                logical.blocked = true;
            }
            Pending::Finish(_) | Pending::Join(..) => {
                if !logical.operations.is_empty() {
                    return Next::Nothing;
                }
                logical.blocked = true;
            }
        }
        match state.logical[zone as usize].pending.pop_front() {
            Some((number, Pending::Write(write))) => {
                let activates = state.activations.remove(&number);
                self.issue(state, zone, write);
                Next::Issued { activates }
            }
            Some((_, other)) => Next::Task(other),
            None => Next::Nothing,
        }
    }

    /// Whether the drives have what a write to so many stripes needs. `activation` is its number if
    /// it writes to an empty zone.
    fn has_resources(&self, state: &State, activation: Option<u64>, stripes: u32) -> bool {
        // Zones that were being reset or finished keep their resources; no write reaches a drive.
        if state.array.stopped.is_some() {
            return true;
        }
        let zone_blocks = self.layout.zone_blocks();
        assert!(stripes > 0 && stripes <= zone_blocks, "a write to {stripes} stripes");
        if let Some(number) = activation
            && let Some(most) = state.zones.geometry().max_active
        {
            // Later ones were admitted because the zones of earlier ones were reset or finished
            // before them: if one overtakes, the zone that it waits for may never be.
            if state.activations.first() != Some(&number) {
                mark(Mark::ZonedActivationOrdered);
                return false;
            }
            // A zone whose reset or finish was admitted still takes its resources.
            let active = state.logical.iter().filter(|zone| zone.is_active(zone_blocks));
            if active.count() >= most as usize {
                mark(Mark::ZonedActiveAwaited);
                return false;
            }
        }
        // In each stripe, a member may have a unit whose place holds junk, and partial parity.
        let blocks = (stripes + 1) * (self.layout.unit() + 1);
        let mut logs = self.layout.scheme().iter().zip(&state.logs);
        let has_room = logs
            .all(|(column, log)| log.has_room(blocks, self.checkpoint_blocks_most(state, column)));
        mark_if(Mark::ZonedLogAwaited, || !has_room);
        has_room
    }

    /// Stripes of a zone that may be written without a flush: an eighth of a small zone.
    fn unflushed_most(&self) -> u32 {
        let stripes = self.layout.zone_blocks() / self.layout.stripe_blocks();
        STRIPES_UNFLUSHED.min(stripes.div_ceil(8))
    }

    /// Submits what waited for resources of the drives.
    pub(crate) fn pump_starved(self: &Rc<Self>) {
        let starved = std::mem::take(&mut self.state.borrow_mut().starved);
        for zone in starved {
            self.pump(zone);
        }
    }

    /// Starts the tasks that write queued blocks of a zone, and queued log records.
    pub(crate) fn start_writers(self: &Rc<Self>, zone: u32) {
        let (columns, logs) = {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            let mut columns = Vec::new();
            let scheme = self.layout.scheme();
            for (column, queue) in scheme.iter().zip(&mut state.logical[zone as usize].columns) {
                if !queue.writing && !queue.queue.is_empty() {
                    queue.writing = true;
                    columns.push(column);
                }
            }
            let mut logs = Vec::new();
            for (column, log) in scheme.iter().zip(&mut state.logs) {
                if log.needs_writer() {
                    log.writing = true;
                    logs.push(column);
                }
            }
            (columns, logs)
        };
        for column in columns {
            self.handle.spawn_alone("column writer", self.clone().write_column(zone, column));
        }
        for column in logs {
            self.handle.spawn_alone("parity log writer", self.clone().write_log(column));
        }
    }
}
