//! The index: the map from LBA to PBA.
//!
//! | file | content |
//! |---|---|
//! | `map` | LBA to PBA, and the number of valid blocks in each segment |
//! | `mapping` | the index with its tombstones, and the pages that are not in memory |
//! | `remap` | relocations that may have to be undone |
//! | `steps` | bounds the pages that a long walk through the index holds at a time |
//! | `checkpoint` | pages of the index on media, written from time to time |
//! | `absent`, `load` | pages that a start left on media, loaded on demand |
//! | `cache` | pages leave memory under a limit, and are pinned while in use |
//! | `pages`, `bulk_load`, `valid_counts` | enter checkpoint pages beneath newer entries |
//! | `partition` | a part of the volume whose index is under construction |
//! | `sequences` | the sequence of each entry of an index under construction |
//! | `deferred` | summary entries of absent pages, applied when the page is loaded |
//!
//! Invariants: an entry points into a segment that is not dead. A segment's valid count is the
//! number of entries that point into it. Nothing depends on a checkpoint being written.

pub(in crate::log) mod absent;
pub(in crate::log) mod bulk_load;
pub(in crate::log) mod cache;
pub(in crate::log) mod checkpoint;
pub(in crate::log) mod deferred;
pub(in crate::log) mod load;
pub(in crate::log) mod map;
pub(in crate::log) mod mapping;
pub(in crate::log) mod pages;
pub(in crate::log) mod partition;
pub(in crate::log) mod remap;
pub(in crate::log) mod sequences;
pub(in crate::log) mod steps;
pub(in crate::log) mod valid_counts;
