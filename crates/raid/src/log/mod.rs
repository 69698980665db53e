//! The log-structured block volume.
//!
//! A random-write block device over an array of zoned drives. Writes are collected into stripes,
//! stripes are appended to segments (one zone per member), an index in memory tells where each
//! block is, and segments are reclaimed by moving what is live.
//!
//! The write path, in order: `volume` and `requests` admit a request and give it a sequence;
//! `queue` holds its blocks; `step` decides when they become a stripe; `write` and `stripe` build
//! it, in a segment that `open` made; `chunk_write` writes its chunks; when the last of them is written `underway` ends
//! it, and `index` learns where the blocks are.

pub mod choice;
pub mod create;
mod drain;
pub mod format;
mod gather;
pub mod geometry;
mod hedge;
pub mod limits;
pub mod measuring;
pub mod paging;
mod policy;
pub mod recover;

mod active_zones;
mod amplification;
mod beside;
mod checkpoint;
mod chunk_write;
mod collect;
mod core;
mod deaths;
mod frames;
mod freeing;
mod index;
mod index_run;
mod inflight;
mod lifetime;
mod member;
mod membership;
mod memory;
mod moving;
mod narrow;
mod offload;
mod open;
mod pace;
mod patience;
mod queue;
mod read;
mod rebuild;
mod reconstruct;
mod replace;
mod requests;
mod resolve;
mod room;
mod roster;
mod scan;
mod scrub;
mod segment;
mod spares;
mod state;
mod status;
mod step;
mod stream;
mod stripe;
mod stripe_table;
mod superblock;
mod together;
mod trial;
mod underway;
mod victim;
mod volume;
mod worn_out;
mod write;
mod zone_pool;
mod zone_queue;

pub use amplification::{Amplification, CLASSES, ClassCounters, uniform_amplification};
pub use choice::{AppendCost, Auto, Chosen, WriteChoice, WriteCost, WriteProfile};
pub use create::{CreateError, CreateOptions, create};
pub use hedge::Hedging;
pub use member::MemberErrors;
pub use memory::Memory;
pub use offload::{IndexLimit, IndexPages};
pub use policy::{Collection, LaneMode, LaneOptions, Lanes, PolicyError, WritePolicy};
pub use recover::{
    DriveRole, DriveVerdict, OfferedDrive, OpenError, OpenOptions, OpenReport, Survey,
    open as open_array, survey,
};
pub use spares::{SparesStatus, TakenSpare};
pub use status::{
    Counters, Health, LaneStatus, MemberStatus, Progress, SegmentStatus, VolumeStatus,
    WritingStatus,
};
pub use volume::{AdminError, ReplaceError, ScrubReport, Volume};
