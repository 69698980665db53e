//! The log-structured block volume.
//!
//! A random-write block device over an array of zoned drives. Writes are collected into stripes,
//! stripes are appended to segments (one zone per member), an index in memory tells where each
//! block is, and segments are reclaimed by moving what is live.
//!
//! The write path, in order: `volume` and `requests` admit a request and give it a sequence;
//! `queue` holds its blocks; `step` decides when they become a stripe; `write` and `stripe` build
//! it, in a segment that `open` made; `chunk_write` writes its chunks; when the last of them is
//! written `underway` ends it, and `index` learns where the blocks are.

pub mod format;
pub mod recover;

mod admit;
mod engine;
mod index;
mod members;
mod read;
mod reclaim;
mod repair;
mod segment;
mod volume;
mod write;

pub use crate::log::engine::memory::Memory;
pub use crate::log::engine::status::{
    Counters, Health, LaneStatus, MemberStatus, Progress, SegmentStatus, VolumeStatus,
    WritingStatus,
};
pub use crate::log::engine::{geometry, limits, measuring};
pub use crate::log::index::cache::{IndexLimit, IndexPages};
pub use crate::log::members::create;
pub use crate::log::members::create::{CreateError, CreateOptions, create};
pub use crate::log::members::member::MemberErrors;
pub use crate::log::members::spares::{SparesStatus, TakenSpare};
pub use crate::log::read::hedge::Hedging;
pub use crate::log::reclaim::amplification::{
    Amplification, CLASSES, ClassCounters, uniform_amplification,
};
pub use crate::log::recover::{
    DriveRole, DriveVerdict, OfferedDrive, OpenError, OpenOptions, OpenReport, Survey,
    open as open_array, survey,
};
pub use crate::log::volume::{AdminError, ReplaceError, ScrubReport, Volume};
pub use crate::log::write::policy::auto::{
    AppendCost, Auto, Chosen, WriteChoice, WriteCost, WriteProfile,
};
pub use crate::log::write::policy::lanes::{
    Collection, LaneMode, LaneOptions, Lanes, PolicyError, WritePolicy,
};
