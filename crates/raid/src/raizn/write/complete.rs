//! Ends operations, in the order in which they were admitted.

use std::rc::Rc;

use futures_util::future::join_all;
use zoneweave_zoned::{Outcome, Reply, Responder, ZoneAddress, ZoneId, ZonedDeviceExt};

use crate::array::health::Members;
use crate::instrument::marks::{Mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::raizn::core::Core;
use crate::scheme::{Column, ColumnSet};

impl Core {
    /// Completes the operations of a zone that wait for nothing and follow no other.
    pub(crate) fn advance(self: &Rc<Self>, zone: u32) {
        let waits = {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            let logical = &mut state.logical[zone as usize];
            let is_ready = logical.operations.front().is_some_and(|(op, ..)| op.waiting.get() == 0);
            if !is_ready || logical.completing {
                return;
            }
            let array = &state.array;
            let ready = || logical.operations.iter().take_while(|(op, ..)| op.waiting.get() == 0);
            let flushes = array.volatile && ready().any(|(op, ..)| op.fua);
            logical.completing = flushes || array.membership_dirty;
            logical.completing
        };
        if waits {
            let core = self.clone();
            self.handle.spawn_alone("completion", async move { core.complete_later(zone).await });
        } else {
            self.complete(zone, usize::MAX);
        }
    }

    /// Completes operations of a zone once they are durable, as far as that is asked for, and so is
    /// every eviction.
    async fn complete_later(self: Rc<Self>, zone: u32) {
        loop {
            let (ready, flushed) = {
                let state = self.state.borrow();
                let logical = &state.logical[zone as usize];
                let ready = logical.operations.iter().take_while(|(op, ..)| op.waiting.get() == 0);
                let (count, fua) =
                    ready.fold((0, false), |(n, fua), (op, ..)| (n + 1, fua || op.fua));
                (count, fua && state.array.volatile)
            };
            if ready == 0 {
                break;
            }
            if flushed && !mutant(Mutant::ZonedFuaNotFlushed) {
                self.flush_zone(zone).await;
            }
            self.membership_settled().await;
            self.complete(zone, ready);
        }
        self.state.borrow_mut().logical[zone as usize].completing = false;
        // One may have become ready in between.
        self.advance(zone);
    }

    /// Completes at most `most` operations.
    fn complete(self: &Rc<Self>, zone: u32, most: usize) {
        let mut answers: Vec<(Responder, Outcome)> = Vec::new();
        {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            let stopped = state.array.stopped.is_some();
            let logical = &mut state.logical[zone as usize];
            while answers.len() < most
                && let Some((operation, ..)) = logical.operations.front()
                && operation.waiting.get() == 0
            {
                let (operation, responder, start) =
                    logical.operations.pop_front().expect("it is the front");
                logical.ended += 1;
                operation.logged.take();
                if stopped {
                    answers.push((responder, Err(Self::STOPPED)));
                    continue;
                }
                assert!(operation.end > logical.completed, "operations complete in order");
                logical.completed = operation.end;
                let at = ZoneAddress::new(ZoneId(zone), start);
                answers.push((responder, Ok(Reply::Written(at))));
            }
            let complete = self.layout.stripe_of(logical.completed);
            while logical.stripes.front().is_some_and(|stripe| stripe.stripe < complete) {
                logical.stripes.pop_front();
            }
            logical.changed.open();
        }
        let any = !answers.is_empty();
        self.changed.open();
        for (responder, outcome) in answers {
            responder.complete(outcome);
        }
        if any {
            self.pump(zone);
            self.pump_starved();
        }
    }

    /// Makes the completed drive writes of a zone durable. Members that fail to flush are evicted.
    pub(crate) async fn flush_zone(self: &Rc<Self>, zone: u32) {
        let flush = self.state.borrow().logical[zone as usize].flush.clone();
        mark_if(Mark::ZonedFlushAwaited, || flush.available() == 0);
        let _one_at_a_time = match mutant(Mutant::ZonedFuaSkipsEarlier) {
            true => None,
            false => Some(flush.acquire().await),
        };
        let unflushed = {
            let mut state = self.state.borrow_mut();
            std::mem::take(&mut state.logical[zone as usize].unflushed)
        };
        self.flush_columns(unflushed).await;
    }

    /// Flushes the caches of some members.
    pub(crate) async fn flush_columns(self: &Rc<Self>, columns: ColumnSet) {
        let members = self.state.borrow().array.writable_members();
        let flushed = |(column, _): &&(Column, _)| columns.contains(*column);
        let flushes = members.iter().filter(flushed).map(|(column, device)| async move {
            self.record_flush(*column, device, device.flush().await);
        });
        join_all(flushes).await;
    }

    /// Flushes a zone's columns, so that a power failure leaves little junk behind.
    pub(crate) async fn flush_behind(self: &Rc<Self>, zone: u32) {
        let (completed, resets) = {
            let state = self.state.borrow();
            let logical = &state.logical[zone as usize];
            (logical.completed, logical.resets_done)
        };
        self.flush_zone(zone).await;
        {
            let mut state = self.state.borrow_mut();
            let logical = &mut state.logical[zone as usize];
            logical.flushing = false;
            if logical.resets_done == resets {
                logical.persisted = logical.persisted.max(completed);
            }
        }
        self.pump(zone);
    }
}
