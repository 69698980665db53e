//! Steps of a long walk through the index, bounded by the pages that may be held at a time.

use std::ops::Range;

use crate::log::engine::core::Core;
use crate::log::index::cache::{For, Offload};

/// The most blocks a trim covers in one extent.
const TRIM_STEP: u64 = 1 << 18;

/// Blocks whose pages are pinned together: if pages may be absent, at most a part of the configured
/// pages.
#[must_use]
pub(in crate::log) fn step_of(core: &Core, whom: For) -> u64 {
    let state = core.state.borrow();
    let Some(limit) = state.mapping.offload.as_ref().map(Offload::limit) else { return TRIM_STEP };
    let pages = match whom {
        For::Users => limit.of_a_request(),
        For::Moving => limit.of_a_part(),
    };
    assert!(pages > 0, "a walk through the index holds no page");
    TRIM_STEP.min(pages * state.mapping.index.page_entries())
}

/// Counts examined blocks and yields after so many: pages in memory cause no wait, and a request
/// may cover the whole volume.
#[derive(Default)]
pub(in crate::log) struct Looks(u64);

impl Looks {
    /// Splits a range into parts that are examined without yielding.
    pub(in crate::log) fn parts(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let (mut start, end) = (range.start, range.end);
        std::iter::from_fn(move || {
            let part = start..end.min(start.saturating_add(LOOK_STEP));
            start = part.end;
            (!part.is_empty()).then_some(part)
        })
    }

    /// Records that a part was examined.
    pub(in crate::log) async fn add(&mut self, core: &Core, part: &Range<u64>) {
        self.0 += part.end - part.start;
        if self.0 >= LOOK_STEP {
            self.0 = 0;
            core.handle.yield_now().await;
        }
    }
}

/// Blocks examined in the index before yielding: about 100 us.
const LOOK_STEP: u64 = 1 << 14;
