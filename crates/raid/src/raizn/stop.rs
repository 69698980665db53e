//! The end of a volume.
//!
//! A clean stop is put on record, so that the next start without a member need not decide how far
//! zones are readable, and need not evict that member for it.
//!
//! Invariant: at a recorded stop, every command has ended, and whatever counts is durable on all
//! members in service. The record counts while no other one is behind it: each start that writes
//! begins with a snapshot, which does not repeat it.

use std::rc::Rc;

use crate::array::format::record::MemberState;
use crate::array::health::Members;
use crate::array::repair::faults;
use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::raizn::core::Core;
use crate::raizn::format::body::ZonedBody;
use crate::raizn::zone::LogicalZone;

impl Core {
    /// Ends all commands and background tasks, and makes everything durable.
    pub(crate) async fn close(self: &Rc<Self>) {
        self.closing.set(true);
        self.changed.open();
        let _admin = self.admin.acquire().await;
        // What an order has taken off the list is known behind it.
        drop(self.clearing.acquire().await);
        while !self.is_idle() {
            self.changed.wait().await;
        }
        // Nothing was written, and the last clean stop remains the newest record.
        if self.is_unpublished() {
            mark(Mark::ZonedClosedUnpublished);
            return;
        }
        // Of a stopped volume, the outcome is in the state, and nothing was promised.
        let flushed = match mutant(Mutant::ZonedStopNotFlushed) {
            true => Ok(()),
            false => self.flush_members().await,
        };
        self.list_unread();
        faults::record_last(self).await;
        if flushed.is_ok() {
            self.record_stop().await;
        }
        self.superblock.commits_ended().await;
    }

    /// Whether no command and no task is left that writes to a drive.
    fn is_idle(&self) -> bool {
        let state = self.state.borrow();
        let idle = |zone: &LogicalZone| {
            let settled = zone.operations.is_empty() && zone.pending.is_empty();
            settled && !zone.blocked && !zone.completing && !zone.flushing
        };
        // The log of a lost member ends where it is: no checkpoint frees its zone any more.
        let mut logs = state.array.members.iter().zip(&state.logs);
        let logs_idle = logs.all(|(member, log)| {
            !log.writing && (log.previous.is_none() || member.device.is_none())
        });
        let is_written = state.logical.iter().all(idle) && logs_idle;
        let is_at_work = state.doubtful.are_judged() || self.is_publishing();
        !is_at_work && (state.array.stopped.is_some() || is_written)
    }

    /// Records that the volume was stopped with nothing in flight. A member that does not take the
    /// record stays in service: it may be on a file system that is full, and misses nothing else.
    async fn record_stop(self: &Rc<Self>) {
        assert!(!self.is_unpublished(), "a start that wrote nothing has the stop before it");
        let published = {
            let state = self.state.borrow();
            let mut members = state.array.members.iter();
            // Its columns are not whole.
            if members.any(|member| member.entry.state == MemberState::Rebuilding) {
                return;
            }
            state.published
        };
        let stopped = self.superblock.hint(self, ZonedBody::Stopped(published)).await;
        // Without it, the next start without a member publishes at once.
        mark_if(Mark::ZonedStopRecorded, || stopped.is_ok());
    }
}
