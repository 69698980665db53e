//! The bytes of a zoned volume on media.
//!
//! | file | content |
//! |---|---|
//! | `body` | payloads of superblock records |
//! | `zone_record` | the state of a logical zone in them |
//! | `log_record` | headers of the parity log |
//! | `fuzzing` | fuzz target of all of these |
//! | `metadata` | the metadata beside each block of a column |
//!
//! `docs/format.md` is the same in prose. Everything read from media is hostile.

pub(crate) mod body;
pub mod fuzzing;
pub(crate) mod log_record;
pub(crate) mod metadata;
pub(crate) mod zone_record;
