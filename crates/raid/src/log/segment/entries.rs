//! Blocks that a segment lists, read span by span.

use std::rc::Rc;

use crate::log::engine::address::{BlockPlace, SegmentSlot};
use crate::log::engine::core::Core;
use crate::log::format::IndexEntry;
use crate::log::segment::scan::load_span;

/// A block and its summary entry.
pub(in crate::log) type ListedBlock = (BlockPlace, IndexEntry);

/// The entries of a span: from its summary, or from memory if none was written yet.
pub(in crate::log) async fn span_entries(
    core: &Rc<Core>,
    slot: SegmentSlot,
    span: u32,
) -> Vec<Vec<IndexEntry>> {
    let in_memory = {
        let state = core.state.borrow();
        let segment = &state.segments[slot];
        match span.cmp(&segment.entries.summaries()) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => Some(segment.entries.columns().to_vec()),
            std::cmp::Ordering::Greater => Some(vec![Vec::new(); segment.zones.len()]),
        }
    };
    match in_memory {
        Some(entries) => entries,
        None => load_span(core, slot, span).await,
    }
}
