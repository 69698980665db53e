//! The zones that writing needs: the reserve of each member, and when a member has too few left.

use crate::array::member::Member;
use crate::log::engine::address::SegmentSlot;
use crate::log::engine::limits::zones_needed;
use crate::log::engine::state::State;

impl State {
    /// Whether a member in service has fewer zones left than the volume needs.
    pub(super) fn is_worn_out(&self, member: &Member) -> bool {
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
        let drives = self.array.members.iter().filter_map(Member::writable);
        let all_let = || drives.map(|drive| self.writes.policy.lets_move_apart(drive.geometry()));
        self.has_zones_beyond(self.writes.policy.spare_for_lifetimes.max(1))
            && all_let().all(|lets| lets)
    }

    /// The relocation segment that is no longer affordable. It may stay half empty beside another
    /// while users need space, so it requires a spare zone of every member (`engine/limits`).
    #[must_use]
    pub(in crate::log) fn unaffordable_lane(&self) -> Option<SegmentSlot> {
        let open = || self.writes.relocation.open_segments();
        if open().count() < 2 || self.recovering.is_some() || self.has_zones_beyond(1) {
            return None;
        }
        open().min_by_key(|slot| (self.segments[*slot].valid(), *slot))
    }

    /// Whether every member has so many zones more than the current writing needs.
    fn has_zones_beyond(&self, spare: u32) -> bool {
        let fewest = self.array.members.iter().filter_map(|member| self.usable_zones(member)).min();
        let fewest = fewest.unwrap_or(0).min(self.array.config.zones);
        fewest >= self.zones_needed_to_write().saturating_add(spare)
    }

    /// Zones that a member needs for the current writing.
    #[must_use]
    pub(super) fn zones_needed_to_write(&self) -> u32 {
        let needed = zones_needed(&self.smallest, self.blocks_kept(), self.array.config.zones);
        needed.max(self.zones_needed())
    }

    /// Whether there is space for the mapping blocks of absent pages beside the volume.
    #[must_use]
    pub(in crate::log) fn has_zones_for_pages(&self) -> bool {
        let shapes = [self.smallest, self.geometry];
        let needed = shapes.map(|shape| zones_needed(&shape, self.blocks_kept(), u32::MAX));
        let usable = self.array.members.iter().filter_map(|member| self.usable_zones(member));
        let fewest = usable.min().unwrap_or(0).min(self.array.config.zones);
        self.mapping.offload.is_none() || needed.into_iter().all(|needed| needed <= fewest)
    }

    /// Blocks kept on media: the volume's, and mapping blocks if pages may be absent.
    fn blocks_kept(&self) -> u64 {
        let pages =
            self.mapping.offload.as_ref().map_or(0, |_| self.checkpoints.space.mapping_blocks());
        self.array.config.log().volume_blocks + pages
    }

    /// Whether the members' remaining zones suffice for the requested policy. If not, that is no
    /// reason to evict a member.
    #[must_use]
    pub(in crate::log) fn has_zones_to_write(&self) -> bool {
        let usable = self.array.members.iter().filter_map(|member| self.usable_zones(member));
        let fewest = usable.min().unwrap_or(0);
        fewest >= self.zones_needed_to_write()
            || self.writes.policy.is_like_array(&self.array.config)
    }

    fn zones_needed(&self) -> u32 {
        zones_needed(&self.geometry, self.blocks_kept(), self.array.config.zones)
    }
}
