//! Members that have lost so many zones that the volume cannot do with the rest.
//!
//! They are taken out of service while the others can do without them: what is left of them would
//! be too little for everybody. Where they are needed, `room.rs` ends what would wait for ever.

use crate::layout::Column;
use crate::log::format::MemberState;
use crate::log::limits::zones_needed;
use crate::log::member::Member;
use crate::log::state::State;
use crate::marks::{Mark, mark};

/// Why a member with too few zones is taken out.
const TOO_FEW_ZONES: &str = "too many zones of a drive have failed";

impl State {
    /// Whether a member in service has fewer zones left than the volume needs.
    fn is_worn_out(&self, member: &Member) -> bool {
        let Some(device) = member.writable() else { return false };
        let unusable = member.lost_zones + member.orphan_zones;
        let config = &self.config;
        let needed = zones_needed(&self.geometry, config.volume_blocks, config.zones);
        device.geometry().zones.saturating_sub(unusable) < needed
    }

    /// Takes a member out of service if it is worn out and the others can do without it. Returns
    /// whether it was taken out.
    pub(super) fn fail_if_worn_out(&mut self, column: Column) -> bool {
        let member = &self.members[column.index()];
        if !self.is_worn_out(member) {
            return false;
        }
        let lost = self.lost_members() + usize::from(member.entry.state == MemberState::Online);
        let left = self.members.iter().filter(|member| member.writable().is_some()).count() - 1;
        let majority = left * 2 > self.scheme().columns() || self.forced;
        if lost > self.scheme().parity() || !majority {
            return false;
        }
        mark(Mark::EvictedForZones);
        self.fail_member(column, TOO_FEW_ZONES)
    }
}
