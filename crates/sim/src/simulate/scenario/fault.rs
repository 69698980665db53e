//! What happens to drives.

use serde::{Deserialize, Serialize};

/// What happens to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// A written block rots.
    Rot {
        /// Chooses the block and the bytes.
        seed: u64,
        /// The block, the metadata beside it, or both.
        part: Part,
        /// One bit only.
        bit: bool,
    },
    /// A written block cannot be read any more.
    Unreadable {
        /// Chooses the block.
        seed: u64,
    },
    /// A written block is overwritten by another one of the drive.
    Copied {
        /// Chooses both.
        seed: u64,
    },
    /// A command takes longer.
    Slow {
        /// Which one.
        on: On,
        /// How many from that on.
        times: u64,
        /// By how much, in microseconds.
        us: u64,
    },
    /// A command fails.
    Error {
        /// Which one.
        on: On,
        /// Whether it is carried out all the same.
        applied: bool,
    },
    /// A write stops after so many blocks and fails.
    Partial {
        /// Which one.
        on: On,
        /// The blocks that are written.
        blocks: u32,
    },
    /// A write is acknowledged and never happens: zeros are in its place.
    Lost {
        /// Which one.
        on: On,
    },
    /// A write goes elsewhere on the drive.
    Misdirected {
        /// Which one.
        on: On,
        /// The zone it hits.
        zone: u32,
        /// The block of the zone.
        offset: u32,
    },
    /// A write stores damaged blocks.
    Garbled {
        /// Which one.
        on: On,
        /// Chooses the bytes.
        seed: u64,
        /// What of the blocks.
        part: Part,
    },
    /// A zone can be written no more, or not even read. It stays so.
    ZoneWorn {
        /// Chooses the zone.
        seed: u64,
        /// Not even read.
        offline: bool,
    },
    /// The same, found out by a command to the zone.
    ZoneFails {
        /// Which command.
        on: On,
        /// Not even read.
        offline: bool,
    },
    /// The drive takes so many times as long as usual, until the engine stops.
    Sluggish {
        /// How many.
        times: u32,
    },
    /// Commands suffer from a class of faults, again and again until the engine stops.
    Often {
        /// Which faults.
        class: Class,
        /// How many of a million commands that can.
        per_million: u32,
        /// Chooses them.
        seed: u64,
    },
    /// A flush is acknowledged and makes nothing durable.
    FlushIgnored {
        /// Flushes to let pass first.
        after: u64,
        /// How many from that on.
        times: u64,
    },
    /// A report tells a wrong write pointer.
    Misreported {
        /// Reports to let pass first.
        after: u64,
        /// The zone.
        zone: u32,
        /// What is told.
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

/// Faults that happen again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Commands fail, carried out, in part or not at all.
    Errored,
    /// Writes are acknowledged and never happen.
    Lost,
    /// Writes go elsewhere on the drive.
    Misdirected,
    /// Blocks rot, as is noticed when they are read.
    Rotted,
    /// Blocks cannot be read any more.
    Unreadable,
    /// The drive becomes slow, and as fast as usual again.
    Slow,
    /// Appends are stored twice, or answered with the address of the one before.
    DuplicateAppend,
    /// Reports tell wrong write pointers.
    LyingWritePointer,
    /// Flushes make nothing durable.
    IneffectiveFlush,
}

/// The command that a fault waits for.
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
