//! Commands to a zoned drive and their replies.

use bytes::Bytes;

use crate::{
    BlockCount, ChangedZones, Payload, ReportOptions, Status, ZoneAddress, ZoneId, ZoneOffset,
    ZoneReport,
};

/// A zone management action.
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
    /// Open explicitly, with a random write area (3 with ZRWAA).
    OpenWithZrwa,
    /// Move the write pointer through the random write area (11h).
    FlushZrwa {
        /// The last block to be committed.
        last: ZoneOffset,
    },
}

/// One command. It owns its buffers until it completes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read blocks; those never written read as zeros, unless the drive says otherwise.
    Read {
        /// The first block.
        at: ZoneAddress,
        /// The length in blocks.
        blocks: BlockCount,
    },
    /// Write at the write pointer.
    Write {
        /// The first block: must be the zone's write pointer, or in its random write area.
        at: ZoneAddress,
        /// Data and metadata.
        payload: Payload,
        /// Durable, with all before it in the zone, when it completes.
        fua: bool,
    },
    /// Append: the drive chooses the offset, and the reply has it.
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
    /// Change the state of every zone that the action is for (NVMe Select All).
    ManageAll {
        /// The change.
        action: ZoneAction,
    },
    /// Set the extension of an empty zone's descriptor, which makes the zone closed (10h).
    SetExtension {
        /// The zone.
        zone: ZoneId,
        /// As many bytes as the drive's extensions have.
        extension: Bytes,
    },
    /// Report zones from `first` on.
    Report {
        /// The first zone reported.
        first: ZoneId,
        /// At most that many.
        count: u32,
        /// The filter and the form of the report.
        options: ReportOptions,
    },
    /// Return the list of zones that changed without a command, and clear it (log page BFh).
    ChangedZones,
    /// Make everything completed so far durable.
    Flush,
}

/// The reply to a successful command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The blocks read, with metadata where the drive has it.
    Read(Payload),
    /// Where the blocks were written.
    Written(ZoneAddress),
    /// The zones asked for.
    Zones(ZoneReport),
    /// The zones that changed.
    Changed(ChangedZones),
    /// Success without data.
    Done,
}

impl Reply {
    /// The payload of a read of `blocks` blocks.
    ///
    /// # Errors
    /// [`Status::InternalError`] if the reply is of another kind or length.
    pub fn payload(self, blocks: BlockCount) -> Result<Payload, Status> {
        match self {
            Self::Read(payload) if payload.blocks() == blocks => Ok(payload),
            _ => Err(Status::InternalError),
        }
    }
}

/// A finished command.
pub type Outcome = Result<Reply, Status>;
