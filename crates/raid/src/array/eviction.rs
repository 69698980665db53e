//! Applies the eviction of a member, and tells whether the array can do without it. The decision is
//! made elsewhere: `array::health` for failed commands, `array::superblock` for failed commits,
//! `log::members::eviction` for lost zones and spoiled segments, `raizn::manage` for failed resets.

use crate::array::error::AdminError;
use crate::array::format::record::MemberState;
use crate::array::state::{Array, UNRECORDED};
use crate::array::zone_pool::ZonePool;
use crate::instrument::marks::{Mark, mark_if};
use crate::scheme::{Column, ColumnSet, Scheme};

/// Whether an administrator may take a member out: that alone must neither lose data nor stop
/// writes. A member that is out already, or holds nothing yet, is no loss.
///
/// `lost` are the members without valid contents, and `in_service` those that take new stripes. An
/// array that was started by force (`forced`) needs no majority.
///
/// # Errors
/// The consequence that forbids it.
pub fn check_spared(
    scheme: Scheme,
    lost: ColumnSet,
    in_service: ColumnSet,
    forced: bool,
    column: Column,
) -> Result<(), AdminError> {
    if !in_service.contains(column) {
        return Ok(());
    }
    if !lost.contains(column) && !scheme.survives(lost.with(column)) {
        return Err(AdminError::WouldLoseData { slot: column });
    }
    if !is_majority_without(scheme, in_service, column) && !forced {
        return Err(AdminError::WouldStop { slot: column });
    }
    Ok(())
}

/// Whether the other members in service are a majority, so that writes could go on.
fn is_majority_without(scheme: Scheme, in_service: ColumnSet, column: Column) -> bool {
    let left = in_service.iter().filter(|other| *other != column).count();
    left * 2 > scheme.columns()
}

impl Array {
    /// Whether the others are enough to read everything, and are a majority.
    pub(crate) fn can_do_without(&self, column: Column) -> bool {
        let is_majority = || is_majority_without(self.scheme(), self.in_service(), column);
        self.survives_without(column) && (self.forced || is_majority())
    }

    /// The members that take part in new stripes.
    fn in_service(&self) -> ColumnSet {
        let members = self.scheme().iter().zip(&self.members);
        let in_service = members.filter(|(_, member)| member.writable().is_some());
        in_service.map(|(column, _)| column).collect()
    }

    /// As [`check_spared`], for a member of this array.
    ///
    /// # Errors
    /// The consequence that forbids it.
    pub(crate) fn check_spared(&self, column: Column) -> Result<(), AdminError> {
        let (lost, in_service) = (self.lost_members(), self.in_service());
        let spared = check_spared(self.scheme(), lost, in_service, self.forced, column);
        mark_if(Mark::TakingOutWouldLose, || {
            matches!(spared, Err(AdminError::WouldLoseData { .. }))
        });
        mark_if(Mark::TakingOutWouldStop, || matches!(spared, Err(AdminError::WouldStop { .. })));
        spared
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
        member.unfinished.clear();
        self.membership_dirty = true;
        true
    }
}
