//! Members that keep the volume from getting anywhere: they have lost so many zones that it cannot
//! do with the rest, or no segment is ever filled because of them.
//!
//! They are taken out of service while the others can do without them: what is left of them would
//! be too little for everybody. Where they are needed, `room.rs` ends what would wait for ever.

use zoneweave_runtime::Nanos;

use crate::instrument::marks::{Mark, mark};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::limits::zones_needed;
use crate::log::engine::state::State;
use crate::log::format::MemberState;
use crate::log::members::error::AdminError;
use crate::log::members::member::Member;
use crate::log::segment::table::Phase;
use crate::scheme::Column;

/// Why a member with too few zones is taken out.
const TOO_FEW_ZONES: &str = "too many zones of a drive have failed";

/// Segments that a member may spoil in a row. More were given up, with all that was written to
/// them, than a drive that errs now and then accounts for.
const SPOILED_TO_FAIL: u32 = 8;

/// Segments in a row that a member may spoil which cannot be spared: writes would go on for ever,
/// and wear out the zones of all.
const SPOILED_TO_STOP: u32 = 64;

/// Why writes stop then.
const NEEDED_ONE_SPOILS: &str =
    "writes to a drive keep failing or going elsewhere, and no further drive can be spared";

/// Longest time between two of them: one that errs now and then spoils a segment now and then.
const SPOILED_WITHIN: Nanos = Nanos::from_secs(600);

/// Why a member that spoils every segment is taken out.
const SPOILS_SEGMENTS: &str = "writes to a drive keep failing or going elsewhere";

impl State {
    /// Whether a member in service has fewer zones left than the volume needs.
    fn is_worn_out(&self, member: &Member) -> bool {
        self.usable_zones(member).is_some_and(|usable| usable < self.zones_needed())
    }

    /// Whether every member can lose a zone. One that is left free for that day is there when it
    /// comes; to users it would be worth little.
    #[must_use]
    pub(in crate::log) fn has_spare_zones(&self) -> bool {
        self.has_zones_beyond(1)
    }

    /// Zones of a member in service that are not lost.
    fn usable_zones(&self, member: &Member) -> Option<u32> {
        let zones = member.writable()?.geometry().zones;
        Some(zones.saturating_sub(member.lost_zones + member.orphan_zones))
    }

    /// Whether what is moved may go to one more segment: every member lets as many zones be active,
    /// and has as many to spare as the policy asks for.
    #[must_use]
    pub(in crate::log) fn may_move_apart(&self) -> bool {
        let drives = self.members.iter().filter_map(Member::writable);
        let all_let = || drives.map(|drive| self.policy.lets_move_apart(drive.geometry()));
        self.has_zones_beyond(self.policy.spare_for_lifetimes.max(1)) && all_let().all(|lets| lets)
    }

    /// The segment that what is moved goes to, but has to no more: beside another one it may stay
    /// half full while users need room, so there has to be a zone of every member to spare for it
    /// (`limits.rs`).
    #[must_use]
    pub(in crate::log) fn unaffordable_lane(&self) -> Option<SegmentSlot> {
        let open = || self.relocation.open_segments();
        if open().count() < 2 || self.recovering.is_some() || self.has_zones_beyond(1) {
            return None;
        }
        open().min_by_key(|slot| (self.segments[*slot].valid, *slot))
    }

    /// Whether every member has so many zones more than the volume needs to be written as it is
    /// now.
    fn has_zones_beyond(&self, spare: u32) -> bool {
        let fewest = self.members.iter().filter_map(|member| self.usable_zones(member)).min();
        let fewest = fewest.unwrap_or(0).min(self.config.zones);
        fewest >= self.zones_needed_to_write().saturating_add(spare)
    }

    /// Zones that a member needs for the volume to be written as it is now.
    #[must_use]
    pub(in crate::log) fn zones_needed_to_write(&self) -> u32 {
        let needed = zones_needed(&self.smallest, self.blocks_kept(), self.config.zones);
        needed.max(self.zones_needed())
    }

    /// Whether there is room for blocks of pages that are on media only beside the volume.
    #[must_use]
    pub(in crate::log) fn has_zones_for_pages(&self) -> bool {
        let shapes = [self.smallest, self.geometry];
        let needed = shapes.map(|shape| zones_needed(&shape, self.blocks_kept(), u32::MAX));
        let usable = self.members.iter().filter_map(|member| self.usable_zones(member));
        let fewest = usable.min().unwrap_or(0).min(self.config.zones);
        self.offload.is_none() || needed.into_iter().all(|needed| needed <= fewest)
    }

    /// Blocks that are kept on media: the volume's, and those of pages where these may be on media
    /// only.
    fn blocks_kept(&self) -> u64 {
        let pages = self.offload.as_ref().map_or(0, |_| self.checkpoints.space.mapping_blocks());
        self.config.volume_blocks + pages
    }

    /// Whether the volume can be written as it was asked for with what zones its members have left.
    /// One that could not is no reason to do without a member.
    #[must_use]
    pub(in crate::log) fn has_zones_to_write(&self) -> bool {
        let usable = self.members.iter().filter_map(|member| self.usable_zones(member));
        let fewest = usable.min().unwrap_or(0);
        fewest >= self.zones_needed_to_write() || self.policy.is_like_array(&self.config)
    }

    fn zones_needed(&self) -> u32 {
        zones_needed(&self.geometry, self.blocks_kept(), self.config.zones)
    }

    /// Takes a member out of service if it is worn out and the others can do without it. Returns
    /// whether it was taken out.
    pub(in crate::log) fn fail_if_worn_out(&mut self, column: Column) -> bool {
        let member = &self.members[column.index()];
        if !self.is_worn_out(member) || !self.can_do_without(column) {
            return false;
        }
        mark(Mark::EvictedForZones);
        self.fail_member(column, TOO_FEW_ZONES)
    }

    /// Gives up a segment because of a member. If no segment was filled for long because of it,
    /// takes the member out of service if the others can do without it, or else stops writes.
    /// Returns whether it was taken out.
    pub(in crate::log) fn spoil(&mut self, slot: SegmentSlot, column: Column, now: Nanos) -> bool {
        if self.segments[slot].phase == Phase::Open {
            self.abandon(slot);
            let (segment, next) = (self.segments[slot].id, self.next_segment);
            let member = &mut self.members[column.index()];
            // Segments that were open beside one another may all be given up for one thing, as when
            // a controller is reset.
            if segment >= member.spoiled_before {
                let recent = now.0 < member.spoiled.0.saturating_add(SPOILED_WITHIN.0);
                member.spoiled_in_row = if recent { member.spoiled_in_row + 1 } else { 1 };
                member.spoiled = now;
                member.spoiled_before = next;
            }
        }
        let spoiled = self.members[column.index()].spoiled_in_row;
        if spoiled >= SPOILED_TO_STOP {
            mark(Mark::StoppedBySpoiling);
            self.stopped.get_or_insert(NEEDED_ONE_SPOILS);
        }
        if spoiled < SPOILED_TO_FAIL || !self.can_do_without(column) {
            return false;
        }
        mark(Mark::EvictedForSpoiling);
        self.fail_member(column, SPOILS_SEGMENTS)
    }

    /// Whether the others are enough to read everything, and a majority.
    fn can_do_without(&self, column: Column) -> bool {
        self.survives_without(column) && self.is_majority_without(column)
    }

    /// Whether writes would go on without a member, as far as the number of the others goes.
    fn is_majority_without(&self, column: Column) -> bool {
        let member = &self.members[column.index()];
        let writable = self.members.iter().filter(|member| member.writable().is_some()).count();
        let left = writable - usize::from(member.writable().is_some());
        left * 2 > self.scheme().columns() || self.forced
    }

    /// Whether an administrator may take a member out: by itself that must neither lose anything
    /// nor stop writes. One that is out already, or holds nothing yet, is no loss.
    ///
    /// # Errors
    /// What would happen.
    pub(in crate::log) fn check_spared(&self, column: Column) -> Result<(), AdminError> {
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
}
