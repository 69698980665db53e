//! Commands without their data, which is all that deciding about them takes.

use zoneweave_zoned::{BlockCount, Command, ZoneAction, ZoneAddress, ZoneId};

/// The header of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Read blocks.
    Read {
        /// The first block.
        at: ZoneAddress,
        /// How many.
        blocks: BlockCount,
    },
    /// Write at the write pointer.
    Write {
        /// The first block.
        at: ZoneAddress,
        /// How many.
        blocks: BlockCount,
        /// Whether completion promises durability.
        fua: bool,
    },
    /// Write where the drive chooses.
    Append {
        /// The zone.
        zone: ZoneId,
        /// How many blocks.
        blocks: BlockCount,
        /// Whether completion promises durability.
        fua: bool,
    },
    /// Change the state of a zone.
    Manage {
        /// The zone.
        zone: ZoneId,
        /// The change.
        action: ZoneAction,
    },
    /// Report zones.
    Report {
        /// The first zone.
        first: ZoneId,
        /// At most that many.
        count: u32,
    },
    /// Make everything completed durable.
    Flush,
}

/// What kind of command a fault waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandKind {
    /// A read.
    Read,
    /// A write at the write pointer.
    Write,
    /// A zone append.
    Append,
    /// Any zone management command.
    Manage(ZoneAction),
    /// A zone report.
    Report,
    /// A flush.
    Flush,
}

impl Request {
    /// The kind of command.
    #[must_use]
    pub const fn kind(&self) -> CommandKind {
        match self {
            Self::Read { .. } => CommandKind::Read,
            Self::Write { .. } => CommandKind::Write,
            Self::Append { .. } => CommandKind::Append,
            Self::Manage { action, .. } => CommandKind::Manage(*action),
            Self::Report { .. } => CommandKind::Report,
            Self::Flush => CommandKind::Flush,
        }
    }

    /// The zone the command is for, if it is for one.
    #[must_use]
    pub const fn zone(&self) -> Option<ZoneId> {
        match self {
            Self::Read { at, .. } | Self::Write { at, .. } => Some(at.zone),
            Self::Append { zone, .. } | Self::Manage { zone, .. } => Some(*zone),
            Self::Report { .. } | Self::Flush => None,
        }
    }
}

impl From<&Command> for Request {
    fn from(command: &Command) -> Self {
        match command {
            Command::Read { at, blocks } => Self::Read { at: *at, blocks: *blocks },
            Command::Write { at, payload, fua } => {
                Self::Write { at: *at, blocks: payload.blocks(), fua: *fua }
            }
            Command::Append { zone, payload, fua } => {
                Self::Append { zone: *zone, blocks: payload.blocks(), fua: *fua }
            }
            Command::Manage { zone, action } => Self::Manage { zone: *zone, action: *action },
            Command::Report { first, count } => Self::Report { first: *first, count: *count },
            Command::Flush => Self::Flush,
        }
    }
}
