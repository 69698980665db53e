//! The log-structured block volume: random writes over an array of zoned drives.
//!
//! Written blocks are collected into stripes, and stripes are appended to segments: one zone on
//! each of their columns. An index in memory maps each block of the volume to its newest copy.
//! Segments are reclaimed by relocating their live blocks.
//!
//! | folder | content |
//! |---|---|
//! | `admit` | order and admission of requests |
//! | `write` | pending blocks become stripes, stripes become appends |
//! | `read` | lookup, verification, reconstruction, reads around slow drives |
//! | `segment` | the table of segments, their summaries, their life from header to reset |
//! | `index` | the map from LBA to PBA, its cache and its checkpoints |
//! | `reclaim` | free space, garbage collection, zone reset |
//! | `repair` | rebuild and scrub |
//! | `members` | drives in slots, superblocks, eviction, spares |
//! | [`recover`] | start: quorum, judging unfinished stripes, replay |
//! | [`format`](mod@format) | every byte on media |
//! | `engine` | state, core, geometry, limits, status: the base of all others |
//!
//! A write, in order:
//!
//! 1. `volume` takes the call; `admit/requests` gives it a sequence; `admit/pending` holds its
//!    blocks.
//! 2. `write/schedule` decides when they become a stripe, in a segment that `segment/open` made.
//! 3. `write/writer` and `write/stripe` build the stripe; `write/zone/chunk` appends its chunks.
//! 4. After the last chunk `write/commit` ends the stripe (`finish_stripe`): `index/map` points at
//!    the new blocks, and the request is answered.
//!
//! A read: `volume`, `read/blocks` (index lookup, pin, verification), `read/batch` (drive
//! commands).

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

pub use crate::array::error::AdminError;
pub use crate::array::eviction::check_spared;
pub use crate::array::format::errors::MemberErrors;
pub use crate::array::format::faults::{Faults, LostRange, LostStatus};
pub use crate::array::format::scrubs::{ScrubResult, ScrubRun, Scrubs};
pub use crate::array::latency::hedge::Hedging;
pub use crate::array::offered::OfferedDrive;
pub use crate::array::repair::rebuild::Progress;
pub use crate::array::repair::scrub::{JobState, ScrubOrder};
pub use crate::array::repair::spares::{SpareState, SparesStatus, TakenSpare};
pub use crate::array::stop::StopReason;
pub use crate::log::engine::counters::ClassCounters;
pub use crate::log::engine::counters::Counters;
pub use crate::log::engine::memory::Memory;
pub use crate::log::engine::status::{
    Health, LaneStatus, MemberHealth, MemberStatus, SegmentStatus, VolumeStatus, WritingStatus,
};
pub use crate::log::engine::{geometry, limits, measuring};
pub use crate::log::index::cache::{IndexLimit, IndexPages};
pub use crate::log::members::create::{CreateError, CreateOptions, create};
pub use crate::log::members::{create, fit};
pub use crate::log::reclaim::amplification::{Amplification, CLASSES, uniform_amplification};
pub use crate::log::recover::{
    AssemblyError, DriveRole, DriveVerdict, OpenError, OpenOptions, OpenReport, Survey,
    open as open_array, survey,
};
pub use crate::log::segment::lane::{LaneMode, LaneRequests};
pub use crate::log::segment::table::Phase as SegmentPhase;
pub use crate::log::volume::{ReplaceError, ScrubReport, Volume};
pub use crate::log::write::policy::auto::{
    AppendCost, Auto, Chosen, WriteChoice, WriteCost, WriteProfile,
};
pub use crate::log::write::policy::lanes::{
    Collection, LaneOptions, Lanes, PolicyError, WritePolicy,
};
