//! Eviction of members that prevent progress: they have lost so many zones that the volume cannot
//! be written with the rest, or they prevent every segment from being filled.
//!
//! They are taken out of service if the others can do without them. If they are needed,
//! `reclaim/space` ends waits that would last for ever.

use zoneweave_runtime::Nanos;

use crate::instrument::marks::{Mark, mark};
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::limits::zones_needed;
use crate::log::engine::state::State;
use crate::log::engine::stop::StopReason;
use crate::log::format::MemberState;
use crate::log::members::error::AdminError;
use crate::log::members::member::Member;
use crate::log::segment::table::Phase;
use crate::scheme::Column;

/// Reason for evicting a member with too few zones.
const TOO_FEW_ZONES: &str = "too many zones of a drive have failed";

/// Segments in a row that a member may spoil before it is evicted: more than occasional errors
/// explain. Each was given up with all its contents.
const SPOILED_TO_FAIL: u32 = 8;

/// Segments in a row that a needed member may spoil: beyond that, writes would continue for ever
/// and wear out all zones.
const SPOILED_TO_STOP: u32 = 64;

/// Longest time between two of them, as occasional errors also spoil a segment now and then.
const SPOILED_WITHIN: Nanos = Nanos::from_secs(600);

/// Reason for evicting a member that spoils every segment.
const SPOILS_SEGMENTS: &str = "writes to a drive keep failing or are misplaced";

impl State {
    /// Whether a member in service has fewer zones left than the volume needs.
    fn is_worn_out(&self, member: &Member) -> bool {
        self.usable_zones(member).is_some_and(|usable| usable < self.zones_needed())
    }

    /// Whether every member can lose a zone. The reserve is for that event; to users one more
    /// segment would be worth little.
    #[must_use]
    pub(in crate::log) fn has_spare_zones(&self) -> bool {
        self.has_zones_beyond(1)
    }

    /// Zones of a member in service that are not lost.
    fn usable_zones(&self, member: &Member) -> Option<u32> {
        let zones = member.writable()?.geometry().zones;
        Some(zones.saturating_sub(member.lost_zones + member.orphan_zones))
    }

    /// Whether relocated blocks may go to one more segment: every member has the active zones and
    /// the spare zones that the policy requires.
    #[must_use]
    pub(in crate::log) fn may_move_apart(&self) -> bool {
        let drives = self.members.iter().filter_map(Member::writable);
        let all_let = || drives.map(|drive| self.policy.lets_move_apart(drive.geometry()));
        self.has_zones_beyond(self.policy.spare_for_lifetimes.max(1)) && all_let().all(|lets| lets)
    }

    /// The relocation segment that is no longer affordable. It may stay half empty beside another
    /// while users need space, so it requires a spare zone of every member (`engine/limits`).
    #[must_use]
    pub(in crate::log) fn unaffordable_lane(&self) -> Option<SegmentSlot> {
        let open = || self.relocation.open_segments();
        if open().count() < 2 || self.recovering.is_some() || self.has_zones_beyond(1) {
            return None;
        }
        open().min_by_key(|slot| (self.segments[*slot].valid, *slot))
    }

    /// Whether every member has so many zones more than the current writing needs.
    fn has_zones_beyond(&self, spare: u32) -> bool {
        let fewest = self.members.iter().filter_map(|member| self.usable_zones(member)).min();
        let fewest = fewest.unwrap_or(0).min(self.config.zones);
        fewest >= self.zones_needed_to_write().saturating_add(spare)
    }

    /// Zones that a member needs for the current writing.
    #[must_use]
    pub(in crate::log) fn zones_needed_to_write(&self) -> u32 {
        let needed = zones_needed(&self.smallest, self.blocks_kept(), self.config.zones);
        needed.max(self.zones_needed())
    }

    /// Whether there is space for the mapping blocks of absent pages beside the volume.
    #[must_use]
    pub(in crate::log) fn has_zones_for_pages(&self) -> bool {
        let shapes = [self.smallest, self.geometry];
        let needed = shapes.map(|shape| zones_needed(&shape, self.blocks_kept(), u32::MAX));
        let usable = self.members.iter().filter_map(|member| self.usable_zones(member));
        let fewest = usable.min().unwrap_or(0).min(self.config.zones);
        self.offload.is_none() || needed.into_iter().all(|needed| needed <= fewest)
    }

    /// Blocks kept on media: the volume's, and mapping blocks if pages may be absent.
    fn blocks_kept(&self) -> u64 {
        let pages = self.offload.as_ref().map_or(0, |_| self.checkpoints.space.mapping_blocks());
        self.config.volume_blocks + pages
    }

    /// Whether the members' remaining zones suffice for the requested policy. If not, that is no
    /// reason to evict a member.
    #[must_use]
    pub(in crate::log) fn has_zones_to_write(&self) -> bool {
        let usable = self.members.iter().filter_map(|member| self.usable_zones(member));
        let fewest = usable.min().unwrap_or(0);
        fewest >= self.zones_needed_to_write() || self.policy.is_like_array(&self.config)
    }

    fn zones_needed(&self) -> u32 {
        zones_needed(&self.geometry, self.blocks_kept(), self.config.zones)
    }

    /// Evicts a member if it is worn out and the others can do without it. Returns whether it was
    /// evicted.
    pub(in crate::log) fn fail_if_worn_out(&mut self, column: Column) -> bool {
        let member = &self.members[column.index()];
        if !self.is_worn_out(member) || !self.can_do_without(column) {
            return false;
        }
        mark(Mark::EvictedForZones);
        self.fail_member(column, TOO_FEW_ZONES)
    }

    /// Gives up a segment because of a member. If that member has prevented segments from being
    /// filled for long, evicts it if the others can do without it, or else stops writes. Returns
    /// whether it was evicted.
    pub(in crate::log) fn spoil(&mut self, slot: SegmentSlot, column: Column, now: Nanos) -> bool {
        if self.segments[slot].phase == Phase::Open {
            self.abandon(slot);
            let (segment, next) = (self.segments[slot].id, self.next_segment);
            let member = &mut self.members[column.index()];
            // Segments open at the same time may all fail for one reason, such as a controller
            // reset.
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
            self.stopped.get_or_insert(StopReason::WritesKeepFailing);
        }
        if spoiled < SPOILED_TO_FAIL || !self.can_do_without(column) {
            return false;
        }
        mark(Mark::EvictedForSpoiling);
        self.fail_member(column, SPOILS_SEGMENTS)
    }

    /// Whether the others are enough to read everything, and are a majority.
    fn can_do_without(&self, column: Column) -> bool {
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
