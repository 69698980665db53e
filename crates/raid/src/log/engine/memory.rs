//! How much memory a running volume takes: what it holds now, and what it holds at the most.
//!
//! Everything here is counted by shapes: what the allocator takes besides is little, and a test
//! measures both (`tests/memory.rs`). Not in it: what drives and front ends take, and a start,
//! which holds the sequences of what it replays until the index is built: as much as the index
//! takes where it reads every list, and where it serves users before that three quarters of it at
//! the most.

use crate::log::engine::footprint::in_tree;
use std::mem::size_of;

use serde::{Deserialize, Serialize};
use zoneweave_zoned::{BLOCK_BYTES, OOB_BYTES};

use crate::log::admit::pending::PendingBlock;
use crate::log::engine::address::Pba;
use crate::log::engine::core::{Core, QUEUED_BLOCKS};
use crate::log::engine::geometry::SegmentGeometry;
use crate::log::engine::limits::segment_slots;
use crate::log::engine::state::State;
use crate::log::format::checkpoint::AddressSpace;
use crate::log::format::{ArrayConfig, EXTENTS_PER_TOMBSTONE, IndexEntry};
use crate::log::index::cache::{IndexLimit, Limit, Offload};
use crate::log::index::checkpoint::Checkpoints;
use crate::log::index::map::Index;
use crate::log::index::remap::Move;
use crate::log::reclaim::relocate::MOVED_BLOCKS;
use crate::log::segment::stripe_table::StripeTable;
use crate::log::segment::table::{ColumnZone, Segment};
use crate::log::write::completion::ChunkUnderWay;
use crate::log::write::plan::STRIPES_IN_FLIGHT;
use crate::log::write::policy::lanes::WritePolicy;
use crate::log::write::zone_queue::ZoneQueue;

/// Bytes of memory, by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Where each block of the volume is: 4 bytes for each, 8 where there are 16 TiB or more. With
    /// less memory the pages that are there, where the others are, and which blocks of some
    /// segments are needed.
    pub index_bytes: u64,
    /// Where the pages of the newest checkpoint of the index are, and of one that is being written.
    pub checkpoint_bytes: u64,
    /// The segments and their zones, and the zones that are free.
    pub segment_bytes: u64,
    /// What is in segments that are being filled, until a list of it is on media.
    pub list_bytes: u64,
    /// Which chunks belong together, where drives decide where they go.
    pub stripe_table_bytes: u64,
    /// What was moved into segments that are being filled, and from where.
    pub moved_bytes: u64,
    /// Trimmed ranges: one entry for each block on media that tells of some.
    pub trim_bytes: u64,
    /// Blocks on their way to the drives.
    pub queued_bytes: u64,
    /// All of it.
    pub total_bytes: u64,
}

const TRIM_ENTRY: u64 = in_tree(size_of::<Pba>() + size_of::<u64>());

/// A block on its way, and its metadata.
const QUEUED_BLOCK: u64 = (BLOCK_BYTES + OOB_BYTES) as u64;

/// Its place in a queue: a growing one has room for as many again.
const QUEUE_PLACE: u64 = 2 * size_of::<PendingBlock>() as u64;

impl Memory {
    /// What a volume takes at the most, while at most so many blocks on media tell of trimmed
    /// ranges, and crashes and failures have left so many segments unfinished. An index that is to
    /// take less memory takes more than this only where pages cannot go: nothing can be written, or
    /// moving blocks changes more pages than eight for each block that users write.
    ///
    /// # Panics
    /// If the policy does not fit the array.
    #[must_use]
    pub fn most(
        config: &ArrayConfig,
        policy: &WritePolicy,
        limit: Option<IndexLimit>,
        trim_blocks: u64,
        leftovers: u64,
    ) -> Self {
        let slots = segment_slots(config);
        let entries = limit.and_then(|limit| limit.page_entries);
        let space = AddressSpace::of(config).with_page_entries(entries);
        // Both streams' lanes, with a second one for what is moved.
        let lanes: Vec<_> = policy.all_lanes(config).collect();
        let shapes = lanes.iter().map(|(shape, _)| shape);
        let list = shapes.clone().map(list_bytes).max().unwrap_or(0);
        // The next crash, or drive that fails, leaves as many as are open.
        let lists = list * (lanes.len() as u64 * 2).max(lanes.len() as u64 + leftovers);
        let tables = lanes.iter().filter(|(_, tabled)| *tabled);
        let table = tables.map(|(shape, _)| StripeTable::bytes_of(shape)).max().unwrap_or(0);
        let moved = shapes.clone().map(SegmentGeometry::data_blocks).max().unwrap_or(0);
        // What was moved into one that is left is remembered as long as pages are away.
        let remembered = moved * (2 + limit.map_or(0, |_| leftovers));
        let scheme = config.scheme;
        let parity = |shape: &SegmentGeometry| {
            (scheme.columns() * shape.chunk_blocks() as usize) as u64 * u64::from(STRIPES_IN_FLIGHT)
        };
        let stripes: u64 = shapes.map(parity).sum();
        Self {
            index_bytes: index_bytes(config, policy, &space, limit)
                + limit.map_or(0, |limit| limit.of_live()),
            checkpoint_bytes: 2 * Checkpoints::bytes_of(&space),
            segment_bytes: u64::from(slots) * segment_bytes(scheme.columns())
                + free_zone_bytes(u64::from(config.zones) * scheme.columns() as u64),
            list_bytes: lists,
            stripe_table_bytes: u64::from(slots) * table,
            // Each block of two segments or more, and each range of those of trimmed ranges; a
            // growing list has room for as much again.
            moved_bytes: 2
                * (remembered + trim_blocks.min(remembered) * EXTENTS_PER_TOMBSTONE as u64)
                * size_of::<Move>() as u64,
            trim_bytes: trim_blocks * TRIM_ENTRY,
            queued_bytes: (QUEUED_BLOCKS + MOVED_BLOCKS + stripes) * (QUEUED_BLOCK + QUEUE_PLACE),
            total_bytes: 0,
        }
        .summed()
    }

    fn summed(self) -> Self {
        let total_bytes = self.index_bytes
            + self.checkpoint_bytes
            + self.segment_bytes
            + self.list_bytes
            + self.stripe_table_bytes
            + self.moved_bytes
            + self.trim_bytes
            + self.queued_bytes;
        Self { total_bytes, ..self }
    }
}

/// Memory for the index.
fn index_bytes(
    config: &ArrayConfig,
    policy: &WritePolicy,
    space: &AddressSpace,
    limit: Option<IndexLimit>,
) -> u64 {
    let stripes = policy.all_lanes(config).map(|(shape, _)| shape.stripe_blocks() as u64);
    let limit = limit.map(|limit| Limit::new(limit, space, stripes.max().unwrap_or(1)));
    match limit.filter(|limit| limit.pages() < space.mapping_blocks()) {
        None => Index::bytes_of(config.volume_blocks, config.entry_bytes),
        Some(limit) => {
            let held = limit.most().min(space.mapping_blocks());
            Index::bytes_of_paged(space, held)
                + Checkpoints::bytes_apart_of(space)
                + Offload::bytes_of(space, held)
        }
    }
}

/// What a volume holds now.
pub(in crate::log) fn memory(core: &Core) -> Memory {
    let state = core.state.borrow();
    let State { config, segments, index, checkpoints, tombstones, moves, offload, .. } = &*state;
    let moves_left = offload.as_ref().map_or(0, Offload::moves_left_bytes);
    let beside = |offload: &Offload| offload.bytes() + index.frames().bytes();
    let offload = offload.as_ref().map_or(0, |offload| beside(offload) + checkpoints.bytes_apart());
    let columns = config.scheme.columns();
    let queued = QUEUED_BLOCKS - core.admission.available() + state.relocation.queued() as u64;
    let free: usize = state.members.iter().map(|member| member.pool.len()).sum();
    let lists = segments.iter().map(|(_, segment)| segment.list_bytes());
    let tables = segments.iter().filter_map(|(_, segment)| segment.table.as_ref());
    Memory {
        index_bytes: index.bytes()
            + offload
            + segments.iter().map(|(_, segment)| segment.live_bytes()).sum::<u64>(),
        checkpoint_bytes: checkpoints.bytes(),
        segment_bytes: u64::from(segment_slots(config)) * segment_bytes(columns)
            + free_zone_bytes(free as u64),
        list_bytes: lists.sum(),
        stripe_table_bytes: tables.map(StripeTable::bytes_in_all).sum(),
        moved_bytes: moves.capacity() as u64 * size_of::<Move>() as u64 + moves_left,
        trim_bytes: tombstones.len() as u64 * TRIM_ENTRY,
        queued_bytes: queued * QUEUED_BLOCK
            + state.user.queue_bytes()
            + state.relocation.queue_bytes(),
        total_bytes: 0,
    }
    .summed()
}

/// A segment and what belongs to each of its zones.
fn segment_bytes(columns: usize) -> u64 {
    let of_column = size_of::<Option<ColumnZone>>()
        + size_of::<Option<zoneweave_zoned::ZoneId>>()
        + size_of::<ZoneQueue<ChunkUnderWay>>()
        + size_of::<Vec<IndexEntry>>();
    (size_of::<Option<Segment>>() + columns * of_column) as u64
}

fn free_zone_bytes(zones: u64) -> u64 {
    zones * in_tree(size_of::<(u64, zoneweave_zoned::ZoneId)>())
}

/// What is in a span of a segment, by column.
fn list_bytes(shape: &SegmentGeometry) -> u64 {
    let rows = shape.rows_of_span(0);
    let blocks = u64::from(rows.end - rows.start) * u64::from(shape.chunk_blocks());
    // A growing list has room for as much again.
    2 * blocks * shape.scheme().columns() as u64 * size_of::<IndexEntry>() as u64
}
