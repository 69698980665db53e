//! The mapping of the volume: the index, and the pages of it that are not in memory.
//!
//! Invariant: a tombstone block has at least one index entry, from the call that enters it on.

use std::collections::BTreeMap;

use crate::log::engine::address::Pba;
use crate::log::format::checkpoint::AddressSpace;
use crate::log::index::absent::Absent;
use crate::log::index::cache::Offload;
use crate::log::index::map::Index;

/// Where each block of the volume is.
pub(in crate::log) struct Mapping {
    /// The map from LBA to PBA.
    pub(in crate::log) index: Index,
    /// Index entries that point at each tombstone block.
    pub(in crate::log) tombstones: BTreeMap<Pba, u64>,
    /// Absent pages after a start on demand; `None` if there are none.
    pub(in crate::log) absent: Option<Absent>,
    /// The cache of the index; `None` if all pages are in memory.
    pub(in crate::log) offload: Option<Offload>,
}

impl Mapping {
    /// A mapping of an empty volume. Without a cache of the index, all of it is kept in memory.
    pub(in crate::log) fn new(space: &AddressSpace, offload: Option<Offload>) -> Self {
        let index = if offload.is_some() { Index::paged(space) } else { Index::new(space) };
        Self { index, tombstones: BTreeMap::new(), absent: None, offload }
    }
}
