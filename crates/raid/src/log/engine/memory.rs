//! Memory of a running volume: the amount in use now, and the maximum.
//!
//! Everything is computed from shapes: the allocator's overhead is small, and a test measures both
//! (`tests/memory.rs`). Drives and front ends are not included. Nor is a start, which holds the
//! sequences of replayed entries until the index is built: as much as the index itself if it reads
//! every summary, and at most three quarters of that if users are served before.

use std::mem::size_of;

use serde::{Deserialize, Serialize};
use zoneweave_zoned::{BLOCK_BYTES, OOB_BYTES};

use crate::log::admit::pending::PendingBlock;
use crate::log::engine::address::Pba;
use crate::log::engine::core::{Core, QUEUED_BLOCKS};
use crate::log::engine::footprint::in_tree;
use crate::log::engine::geometry::SegmentGeometry;
use crate::log::engine::state::State;
use crate::log::format::checkpoint::AddressSpace;
use crate::log::format::{ArrayConfig, EXTENTS_PER_TOMBSTONE, IndexEntry};
use crate::log::index::cache::{IndexLimit, Limit, Offload};
use crate::log::index::checkpoint::Checkpoints;
use crate::log::index::map::Index;
use crate::log::index::mapping::Mapping;
use crate::log::index::remap::Move;
use crate::log::reclaim::relocate::MOVED_BLOCKS;
use crate::log::segment::stripe_table::StripeTable;
use crate::log::segment::table::{ColumnZone, DAMAGE_BYTES_MOST, DamagedBlocks, Segment};
use crate::log::write::plan::STRIPES_IN_FLIGHT;
use crate::log::write::policy::lanes::WritePolicy;
use crate::log::write::zone::queues::ZoneQueues;

/// Bytes of memory, by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Address of each block of the volume: 4 bytes each, 8 from 16 TiB. With a limit: the pages in
    /// memory, the addresses of the others, and the valid blocks of some segments.
    pub index_bytes: u64,
    /// Addresses of the pages in the newest checkpoint, and in one that is being written.
    pub checkpoint_bytes: u64,
    /// The segments, their zones and known damaged blocks, and the free zones.
    pub segment_bytes: u64,
    /// Entries of segments being filled, until their summary is on media.
    pub list_bytes: u64,
    /// Stripes of chunks, in segments whose rows are chosen by drives.
    pub stripe_table_bytes: u64,
    /// Relocations into segments being filled, with their old addresses.
    pub moved_bytes: u64,
    /// Trimmed ranges: one entry for each block on media with some.
    pub trim_bytes: u64,
    /// Blocks on their way to the drives.
    pub queued_bytes: u64,
    /// Sum of all fields.
    pub total_bytes: u64,
}

const TRIM_ENTRY: u64 = in_tree(size_of::<Pba>() + size_of::<u64>());

/// A pending block and its metadata.
const QUEUED_BLOCK: u64 = (BLOCK_BYTES + OOB_BYTES) as u64;

/// Its place in a queue: a growing queue has capacity for as many again.
const QUEUE_PLACE: u64 = 2 * size_of::<PendingBlock>() as u64;

impl Memory {
    /// The most memory of a volume with at most so many tombstone blocks on media, and so many
    /// segments left unfinished by crashes and failures. An index with a memory limit exceeds this
    /// only if pages cannot be evicted: nothing can be written, or relocation dirties more than
    /// eight pages for each block that users write.
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
        let slots = config.segment_slots();
        let entries = limit.and_then(|limit| limit.page_entries);
        let space = AddressSpace::of(config).with_page_entries(entries);
        // The lanes of both streams, with a second one for relocation.
        let lanes: Vec<_> = policy.all_lanes(config).collect();
        let shapes = lanes.iter().map(|(shape, _)| shape);
        let list = shapes.clone().map(list_bytes).max().unwrap_or(0);
        // The next crash or eviction leaves as many as are open.
        let incomplete = (lanes.len() as u64 * 2).max(lanes.len() as u64 + leftovers);
        let lists = list * incomplete;
        let tables = lanes.iter().filter(|(_, tabled)| *tabled);
        let table = tables.map(|(shape, _)| StripeTable::bytes_of(shape)).max().unwrap_or(0);
        let moved = shapes.clone().map(SegmentGeometry::data_blocks).max().unwrap_or(0);
        let damage = shapes.clone().map(DamagedBlocks::bytes_most).max().unwrap_or(0);
        // Relocations into an abandoned segment are remembered while pages are absent.
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
                + incomplete * ZoneQueues::bytes_of(scheme.columns())
                + damage
                + DAMAGE_BYTES_MOST.min(u64::from(slots) * damage)
                + free_zone_bytes(u64::from(config.zones) * scheme.columns() as u64),
            list_bytes: lists,
            stripe_table_bytes: u64::from(slots) * table,
            // Each block of two segments or more, and each range of tombstones; a growing list has
            // capacity for as much again.
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
        None => Index::bytes_of(config.log().volume_blocks, config.log().entry_bytes),
        Some(limit) => {
            let held = limit.most().min(space.mapping_blocks());
            Index::bytes_of_paged(space, held)
                + Checkpoints::bytes_apart_of(space)
                + Offload::bytes_of(space, held)
        }
    }
}

/// The memory in use now.
pub(super) fn memory(core: &Core) -> Memory {
    let state = core.state.borrow();
    let State { segments, checkpoints, .. } = &*state;
    let (config, moves) = (&state.array.config, &state.reclaim.moves);
    let Mapping { index, tombstones, offload, .. } = &state.mapping;
    let moves_left = offload.as_ref().map_or(0, Offload::moves_left_bytes);
    let beside = |offload: &Offload| offload.bytes() + index.page_pins().bytes();
    let offload = offload.as_ref().map_or(0, |offload| beside(offload) + checkpoints.bytes_apart());
    let columns = config.scheme.columns();
    let admissible = core.admission.available();
    assert!(admissible <= QUEUED_BLOCKS, "{admissible} blocks may be queued of {QUEUED_BLOCKS}");
    let queued = QUEUED_BLOCKS - admissible + state.writes.relocation.queued() as u64;
    let free: usize = state.array.members.iter().map(|member| member.pool.len()).sum();
    let lists = segments.iter().map(|(_, segment)| segment.list_bytes());
    let tables = segments.iter().filter_map(|(_, segment)| segment.table.as_ref());
    Memory {
        index_bytes: index.bytes()
            + offload
            + segments.iter().map(|(_, segment)| segment.tracking_bytes()).sum::<u64>(),
        checkpoint_bytes: checkpoints.bytes(),
        segment_bytes: u64::from(config.segment_slots()) * segment_bytes(columns)
            + state.writes.queues.segments() as u64 * ZoneQueues::bytes_of(columns)
            + segments.iter().map(|(_, segment)| segment.damage.bytes()).sum::<u64>()
            + free_zone_bytes(free as u64),
        list_bytes: lists.sum(),
        stripe_table_bytes: tables.map(StripeTable::bytes_in_all).sum(),
        moved_bytes: moves.capacity() as u64 * size_of::<Move>() as u64 + moves_left,
        trim_bytes: tombstones.len() as u64 * TRIM_ENTRY,
        queued_bytes: queued * QUEUED_BLOCK
            + state.writes.user.queue_bytes()
            + state.writes.relocation.queue_bytes(),
        total_bytes: 0,
    }
    .summed()
}

/// A segment with its zones.
fn segment_bytes(columns: usize) -> u64 {
    let of_column = size_of::<Option<ColumnZone>>()
        + size_of::<Option<zoneweave_zoned::ZoneId>>()
        + size_of::<Vec<IndexEntry>>();
    (size_of::<Option<Segment>>() + columns * of_column) as u64
}

fn free_zone_bytes(zones: u64) -> u64 {
    zones * in_tree(size_of::<(u64, zoneweave_zoned::ZoneId)>())
}

/// Entries of a span of a segment, for all columns.
fn list_bytes(shape: &SegmentGeometry) -> u64 {
    let rows = shape.rows_of_span(0);
    let blocks = u64::from(rows.end - rows.start) * u64::from(shape.chunk_blocks());
    // A growing list has capacity for as much again.
    2 * blocks * shape.scheme().columns() as u64 * size_of::<IndexEntry>() as u64
}
