//! Blocks that cannot be read before a drive is back: each range is told once.

use super::super::What;
use crate::status::{ArrayStatus, LostRange, MemberStatus};

/// The ranges of the last look.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    told: Vec<LostRange>,
}

impl Awaited {
    /// Told when ranges appear that were not told, and not for each block that one grows by.
    pub(super) fn look(&mut self, status: &ArrayStatus) -> Option<What> {
        let now = &status.awaited.ranges;
        let overlaps = |one: &LostRange, other: &LostRange| {
            one.offset_bytes <= other.offset_bytes + other.size_bytes
                && other.offset_bytes <= one.offset_bytes + one.size_bytes
        };
        let is_told = |range: &LostRange| self.told.iter().any(|told| overlaps(told, range));
        let is_news = now.iter().any(|range| !is_told(range));
        self.told.clone_from(now);
        let out = |member: &&MemberStatus| !member.state.is_in_service();
        let slots: Vec<_> = status.members.iter().filter(out).map(|member| member.slot).collect();
        let bytes = now.iter().map(|range| range.size_bytes).sum();
        (is_news && !slots.is_empty()).then_some(What::Awaited { bytes, slots })
    }
}
