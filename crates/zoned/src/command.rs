//! Commands to a zoned drive and what comes back.

use crate::{BlockCount, Payload, Status, ZoneAddress, ZoneId, ZoneInfo};

/// What a zone management command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneAction {
    /// Release the open resource (NVMe zone send action 1).
    Close,
    /// Make the zone full without writing the rest (2).
    Finish,
    /// Open explicitly (3).
    Open,
    /// Deallocate every block and rewind the write pointer (4).
    Reset,
    /// Take a read-only zone offline (5).
    Offline,
}

/// One command. It owns its buffers until it completes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read blocks; those above the write pointer read as zeros.
    Read {
        /// The first block.
        at: ZoneAddress,
        /// How many.
        blocks: BlockCount,
    },
    /// Write at the write pointer.
    Write {
        /// The first block: must be the zone's write pointer.
        at: ZoneAddress,
        /// Data and metadata.
        payload: Payload,
        /// Durable, with all before it in the zone, when it completes.
        fua: bool,
    },
    /// Write where the drive chooses; the reply tells where.
    Append {
        /// The zone.
        zone: ZoneId,
        /// Data and metadata, placed contiguously.
        payload: Payload,
        /// As for writes.
        fua: bool,
    },
    /// Change the state of one zone.
    Manage {
        /// The zone.
        zone: ZoneId,
        /// The change.
        action: ZoneAction,
    },
    /// Report zones from `first` on.
    Report {
        /// The first zone reported.
        first: ZoneId,
        /// At most that many.
        count: u32,
    },
    /// Make everything completed so far durable.
    Flush,
}

/// What a command brings back when it succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The blocks read, with metadata where the drive has it.
    Read(Payload),
    /// Where the blocks were written.
    Written(ZoneAddress),
    /// The zones asked for.
    Zones(Vec<ZoneInfo>),
    /// Nothing to say.
    Done,
}

/// A finished command.
pub type Outcome = Result<Reply, Status>;
