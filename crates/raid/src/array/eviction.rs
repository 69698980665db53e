//! Evicting a member, and whether the array can do without it.

use crate::array::error::AdminError;
use crate::array::format::record::MemberState;
use crate::array::state::{Array, UNRECORDED};
use crate::array::zone_pool::ZonePool;
use crate::instrument::marks::{Mark, mark};
use crate::scheme::Column;

impl Array {
    /// Whether the others are enough to read everything, and are a majority.
    pub(crate) fn can_do_without(&self, column: Column) -> bool {
        self.survives_without(column) && self.is_majority_without(column)
    }

    /// Whether the others are a majority, so that writes could go on.
    fn is_majority_without(&self, column: Column) -> bool {
        let member = &self.members[column.index()];
        let writable = self.members.iter().filter(|member| member.writable().is_some()).count();
        let left = writable - usize::from(member.writable().is_some());
        left * 2 > self.scheme().columns() || self.forced
    }

    /// Whether an administrator may take a member out: that alone must neither lose data nor stop
    /// writes. A member that is out already, or holds nothing yet, is no loss.
    ///
    /// # Errors
    /// The consequence that forbids it.
    pub(crate) fn check_spared(&self, column: Column) -> Result<(), AdminError> {
        let member = &self.members[column.index()];
        if member.writable().is_none() {
            return Ok(());
        }
        if member.entry.state == MemberState::Online && !self.survives_without(column) {
            mark(Mark::TakingOutWouldLose);
            return Err(AdminError::WouldLoseData { slot: column });
        }
        if !self.is_majority_without(column) {
            mark(Mark::TakingOutWouldStop);
            return Err(AdminError::WouldStop { slot: column });
        }
        Ok(())
    }

    /// Takes a member out of service; the caller gives up what it was writing to it. Returns
    /// whether it was in service before.
    pub(crate) fn evict(&mut self, column: Column, reason: &str) -> bool {
        let member = &mut self.members[column.index()];
        if member.entry.state == MemberState::Failed {
            return false;
        }
        member.entry.state = MemberState::Failed;
        member.entry.since_epoch = UNRECORDED;
        member.device = None;
        member.failure = Some(reason.to_owned());
        member.pool = ZonePool::default();
        member.active_zones = 0;
        self.membership_dirty = true;
        true
    }
}
