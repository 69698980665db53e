//! Reset and finish: zone management that changes media.
//!
//! A reset is decided by one superblock record with the zone's next generation and *resetting*:
//! after a crash the zone is empty, whatever its columns hold. A second record says that all
//! columns are empty. It is durable before the zone takes a write, so no start takes newer contents
//! for older ones (RAIZN §5.2 has a log on two members, and no second record).
//!
//! A finish is decided by a record with the zone's length. Its partial stripe gets its parity in
//! place, and the columns are finished to free their resources.

use std::rc::Rc;

use futures_util::future::join_all;
use zoneweave_zoned::{Reply, Status};

use crate::array::health::Members;
use crate::array::io::MemberIo;
use crate::array::repair::faults;
use crate::array::stop::StopReason;
use crate::instrument::marks::{Mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::raizn::core::Core;
use crate::raizn::format::body::{ZoneRecords, ZonedBody};
use crate::raizn::layout::Layout;
use crate::raizn::zone::{Operation, Pending};

impl Core {
    /// Runs a reset or a finish of a blocked zone without writes in flight.
    pub(crate) async fn run_management(self: &Rc<Self>, zone: u32, pending: Pending) {
        let (responder, done) = match pending {
            Pending::Reset(responder) => {
                let done = self.reset_columns(zone).await;
                self.state.borrow_mut().logical[zone as usize].resets_done += 1;
                (responder, done)
            }
            Pending::Finish(responder) => (responder, self.finish_columns(zone).await),
            Pending::Join(joining, responder) => (responder, self.join_column(zone, joining).await),
            Pending::Write(_) => unreachable!("writes are submitted in order"),
        };
        self.unblock(zone);
        responder.complete(done.map(|()| Reply::Done));
        self.pump(zone);
        self.pump_starved();
    }

    fn unblock(&self, zone: u32) {
        let mut state = self.state.borrow_mut();
        let logical = &mut state.logical[zone as usize];
        assert!(logical.blocked, "zone {zone} took commands while it was managed");
        logical.blocked = false;
        logical.ended += 1;
        logical.changed.open();
    }

    /// Records the state of a zone, durably.
    pub(crate) async fn record_zone(self: &Rc<Self>, zone: u32) -> Result<(), StopReason> {
        let record = || {
            let record = self.state.borrow().logical[zone as usize].record.clone();
            ZonedBody::Zones(ZoneRecords(vec![record]))
        };
        self.superblock.commit_latest(self, record).await
    }

    /// Empties a zone: on return that is durable.
    pub(crate) async fn reset_columns(self: &Rc<Self>, zone: u32) -> Result<(), Status> {
        {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            let logical = &mut state.logical[zone as usize];
            // A checkpoint of the parity log must find nothing to repeat under the new generation.
            // It keeps the records that it replaces until the reset is durable.
            let relocated = logical.make_empty();
            state.logs.iter_mut().zip(relocated).for_each(|(log, gone)| log.relocated -= gone);
            if !mutant(Mutant::ZonedGenerationKept) {
                logical.record.generation = logical.record.generation.next();
            }
            logical.record.resetting = true;
        }
        if !mutant(Mutant::ZonedResetNotRecorded) {
            self.record_zone(zone).await.map_err(|_| Self::STOPPED)?;
        }
        {
            let mut state = self.state.borrow_mut();
            let logical = &mut state.logical[zone as usize];
            assert!(logical.blocked || logical.admitted == 0, "zone {zone} takes commands");
            logical.recorded = logical.record.generation;
        }
        self.changed.open();
        self.forget_lost(zone).await.map_err(|_| Self::STOPPED)?;
        self.empty_columns(zone).await?;
        {
            let mut state = self.state.borrow_mut();
            state.logical[zone as usize].record.resetting = false;
        }
        self.record_zone(zone).await.map_err(|_| Self::STOPPED)
    }

    /// Takes the blocks of a zone that was reset off the list of lost ones. The list is durable
    /// before the zone has other blocks, so that no start takes these for lost.
    async fn forget_lost(self: &Rc<Self>, zone: u32) -> Result<(), StopReason> {
        let blocks = self.layout.first_of(zone)..self.layout.first_of(zone + 1);
        let forgot = {
            let state = &mut *self.state.borrow_mut();
            state.unlisted.forget(blocks.clone());
            state.array.lost.forget(blocks)
        };
        mark_if(Mark::ZonedLostForgotten, || forgot);
        if forgot { faults::record_everywhere(self).await } else { Ok(()) }
    }

    /// Resets the columns of a zone, durably. A member whose zone cannot be reset is evicted.
    pub(crate) async fn empty_columns(self: &Rc<Self>, zone: u32) -> Result<(), Status> {
        let members = self.state.borrow().array.writable_members();
        let resets = members.iter().map(|(column, device)| async move {
            let reset = self.reset_zone(*column, Layout::column_zone(zone)).await;
            match reset {
                Err(status) if self.is_of_member(*column, device) => {
                    self.fail_member(*column, status);
                }
                _ => {}
            }
        });
        join_all(resets).await;
        self.flush_members().await.map_err(|_| Self::STOPPED)
    }

    /// Finishes a zone: on return that is durable.
    async fn finish_columns(self: &Rc<Self>, zone: u32) -> Result<(), Status> {
        // The record must not be durable before the data that it counts.
        if !mutant(Mutant::ZonedFinishNotFlushed) {
            self.flush_members().await.map_err(|_| Self::STOPPED)?;
        }
        {
            let mut state = self.state.borrow_mut();
            let logical = &mut state.logical[zone as usize];
            if logical.completed == self.layout.zone_blocks() {
                return Ok(());
            }
            logical.record.finished = Some(logical.completed);
        }
        self.record_zone(zone).await.map_err(|_| Self::STOPPED)?;
        self.complete_finish(zone).await
    }

    /// Puts the parity of a finished zone's partial stripe in its place, and finishes its columns.
    pub(crate) async fn complete_finish(self: &Rc<Self>, zone: u32) -> Result<(), Status> {
        self.place_last_parity(zone).await;
        self.flush_members().await.map_err(|_| Self::STOPPED)?;
        let members = self.state.borrow().array.writable_members();
        let lost = self.state.borrow().lost_columns(zone);
        let members = members.iter().filter(|(column, _)| !lost.contains(*column));
        let finishes = members.map(|(column, device)| async move {
            self.finish_column(*column, device, Layout::column_zone(zone)).await;
        });
        join_all(finishes).await;
        self.membership_settled().await;
        self.state.borrow_mut().logical[zone as usize].stripes.clear();
        if self.is_stopped() { Err(Self::STOPPED) } else { Ok(()) }
    }

    /// Writes the parity of the partial stripe behind the last complete one.
    async fn place_last_parity(self: &Rc<Self>, zone: u32) {
        let queued = self.queue_last_parity(&mut self.state.borrow_mut(), zone);
        let Some(operation) = queued else { return };
        self.start_writers(zone);
        self.drive_writes(&operation).await;
    }

    /// Waits for the drive writes of an operation that is not a user's.
    pub(crate) async fn drive_writes(&self, operation: &Operation) {
        while operation.waiting.get() > 0 {
            self.changed.wait().await;
        }
        operation.logged.take();
    }

    /// Queues an admitted command of a zone.
    pub(crate) fn admit(self: &Rc<Self>, zone: u32, pending: Pending) {
        {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            state.admitted += 1;
            let number = state.admitted;
            if matches!(&pending, Pending::Write(write) if write.activates()) {
                state.activations.insert(number);
            }
            let logical = &mut state.logical[zone as usize];
            logical.admitted += 1;
            if matches!(pending, Pending::Reset(_)) {
                logical.resets_admitted += 1;
            }
            logical.pending.push_back((number, pending));
        }
        // It submits nothing before.
        self.publish_soon();
        self.pump(zone);
    }
}
