//! The bytes of an array on media: superblock records and their parts.
//!
//! | file | content |
//! |---|---|
//! | `envelope` | magic, version, type and array of every structured block |
//! | `record` | superblock records; a volume adds its part and its payloads (`VolumeBody`) |
//! | `config` | the array's configuration in them, and that of each kind of volume |
//! | `numbers` | numbers that a volume assigns, and records repeat |
//! | `errors` | counts of a member's errors |
//! | `faults` | errors of members and lost ranges, a payload of records |
//! | `scrubs` | the newest scrubs, a payload of records |
//! | `bounds` | bounds of numbers on media |
//!
//! `docs/format.md` is the same in prose. Everything read from media is hostile.

pub(crate) mod bounds;
pub mod config;
pub mod envelope;
pub(crate) mod errors;
pub mod faults;
pub(crate) mod numbers;
pub mod record;
pub mod scrubs;
