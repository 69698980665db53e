//! Zoned volumes: their shape, and commands to their zones.

use serde::{Deserialize, Serialize};

/// The properties of an array that only a zoned volume has. Stripe units are the chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonedShape {
    /// Whether the drives have metadata.
    pub metadata: bool,
    /// Whether blocks have checksums, if the drives have metadata for them.
    pub checksums: bool,
}

/// A command to a zone of a zoned volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ZoneVerb {
    /// Write at the write pointer, as many blocks as fit. A full zone is reset instead.
    Write {
        /// Number of blocks.
        blocks: u32,
        /// Durable when acknowledged, with everything before it in the zone.
        #[serde(default)]
        fua: bool,
    },
    /// Append, as many blocks as fit. A full zone is reset instead.
    Append {
        /// Number of blocks.
        blocks: u32,
        /// As for writes.
        #[serde(default)]
        fua: bool,
    },
    /// Read and verify blocks.
    Read {
        /// The first block; numbers wrap around a little behind the last written one.
        offset: u32,
        /// Number of blocks.
        blocks: u32,
    },
    /// Open explicitly.
    Open,
    /// Close, if open.
    Close,
    /// Finish.
    Finish,
    /// Reset.
    Reset,
    /// Report all zones, and verify the report.
    Report,
}
