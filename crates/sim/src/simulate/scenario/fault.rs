//! Faults of drives.

use serde::{Deserialize, Serialize};

/// A fault of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// A written block rots.
    Rot {
        /// Selects the block and the bytes.
        seed: u64,
        /// Data, metadata, or both.
        part: Part,
        /// One bit only.
        bit: bool,
    },
    /// A written block cannot be read any more.
    Unreadable {
        /// Selects the block.
        seed: u64,
    },
    /// A written block is overwritten by another one of the drive.
    Copied {
        /// Selects both.
        seed: u64,
    },
    /// A command takes longer.
    Slow {
        /// The command.
        on: On,
        /// Number of commands.
        times: u64,
        /// Delay in microseconds.
        us: u64,
    },
    /// A command fails.
    Error {
        /// The command.
        on: On,
        /// Whether it is carried out all the same.
        applied: bool,
    },
    /// A write stops after so many blocks and fails.
    Partial {
        /// The command.
        on: On,
        /// The blocks that are written.
        blocks: u32,
    },
    /// A write is acknowledged and never happens: zeros are in its place.
    Lost {
        /// The command.
        on: On,
    },
    /// A write goes elsewhere on the drive.
    Misdirected {
        /// The command.
        on: On,
        /// The zone it hits.
        zone: u32,
        /// The block of the zone.
        offset: u32,
    },
    /// A write stores damaged blocks.
    Garbled {
        /// The command.
        on: On,
        /// Selects the bytes.
        seed: u64,
        /// The damaged part of the blocks.
        part: Part,
    },
    /// A zone can be written no more, or not even read. It stays so.
    ZoneWorn {
        /// Selects the zone.
        seed: u64,
        /// Not even read.
        offline: bool,
    },
    /// The same, detected by a command to the zone.
    ZoneFails {
        /// The command.
        on: On,
        /// Not even read.
        offline: bool,
    },
    /// The drive takes so many times as long as usual, until the engine stops.
    Sluggish {
        /// The factor.
        times: u32,
    },
    /// A class of faults recurs until the engine stops.
    Often {
        /// The class.
        class: Class,
        /// Probability per eligible command, in millionths.
        per_million: u32,
        /// Selects the commands.
        seed: u64,
    },
    /// A flush is acknowledged and makes nothing durable.
    FlushIgnored {
        /// Flushes to let pass first.
        after: u64,
        /// Number of flushes.
        times: u64,
    },
    /// A report contains a wrong write pointer.
    Misreported {
        /// Reports to let pass first.
        after: u64,
        /// The zone.
        zone: u32,
        /// The reported write pointer.
        offset: u32,
    },
    /// An append is answered with the address of the one before.
    Repeated {
        /// Appends to let pass first.
        after: u64,
    },
    /// An append is stored twice.
    Doubled {
        /// Appends to let pass first.
        after: u64,
    },
}

/// Classes of recurring faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Commands fail, carried out, in part or not at all.
    Errored,
    /// Writes are acknowledged and never happen.
    Lost,
    /// Writes go elsewhere on the drive.
    Misdirected,
    /// Blocks rot, which reads detect.
    Rotted,
    /// Blocks cannot be read any more.
    Unreadable,
    /// The drive becomes slow, and normal again.
    Slow,
    /// Appends are stored twice, or answered with the address of the one before.
    DuplicateAppend,
    /// Reports contain wrong write pointers.
    LyingWritePointer,
    /// Flushes make nothing durable.
    IneffectiveFlush,
}

/// The command that triggers a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct On {
    /// Its kind.
    pub command: Command,
    /// Commands of that kind to let pass first.
    pub after: u64,
}

/// Kinds of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// A read.
    Read,
    /// A write at the write pointer.
    Write,
    /// A zone append.
    Append,
    /// A flush.
    Flush,
    /// A zone reset.
    Reset,
    /// A zone finish.
    Finish,
    /// A report of zones.
    Report,
    /// Any command.
    Any,
}

/// A part of a stored block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The 4,096 bytes.
    Data,
    /// The metadata beside them.
    Oob,
    /// Both.
    Both,
}
