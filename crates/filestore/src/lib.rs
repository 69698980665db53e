//! A file store on a zoned drive or volume, made for RocksDB.
//!
//! It is to ZenFS what the log-structured volume is to ZapRAID: the same idea, with the promises
//! written down. Files are appended, read at random, renamed, linked, cut and deleted; blocks go to
//! zones by expected lifetime; metadata is a log in two zones.
//!
//! # Contract
//!
//! - **F1** After a crash, a file is a prefix of its appends, at least as long as at its last sync.
//!   It never contains bytes of another file, or of an earlier use of a zone.
//! - **F2** Changes of names and truncations are atomic, totally ordered, and durable when they are
//!   acknowledged.
//! - **F3** A zone is reset only after the record that frees its last block is durable; a metadata
//!   zone only after the snapshot in its twin is.
//!
//! | folder | content |
//! |---|---|
//! | `format` | every byte on media |
//! | `state` | files, extents and zones: synchronous code without I/O |
//! | `policy` | which zone takes the blocks of a file |
//! | `engine` | the I/O: journal, writes, reads, relocation, recovery |
//! | `store`, `handles` | the interface |
//! | `trace` | what happened to files, recorded and read back |
//! | `instrument` | marks and mutants for simulation |

mod engine;
mod error;
pub mod format;
mod handles;
mod hint;
mod ids;
pub mod instrument;
mod name;
mod options;
pub mod policy;
mod state;
mod store;
pub mod trace;

pub use engine::core::Counters;
pub use engine::recover::OpenReport;
pub use error::{FormatError, Inconsistency, OpenError, StopReason, StoreError, Unfit};
pub use handles::{FileReader, FileWriter};
pub use hint::{Hints, Lifetime};
pub use ids::{FileId, Incarnation, Version};
pub use name::{NAME_BYTES_MAX, Name, PATH_NAMES_MAX};
pub use options::{FormatOptions, OpenOptions};
pub use state::Phase;
pub use store::{ExtentStatus, FileStore, Metadata, Space, ZoneStatus};
