//! Commands without their data, which is all that deciding about them takes.

use zoneweave_zoned::{BlockCount, Command, ReportOptions, ZoneAction, ZoneAddress, ZoneId};

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
    /// Write at the write pointer, or in the zone's random write area.
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
    /// Change the state of every zone that the action is for.
    ManageAll {
        /// The change.
        action: ZoneAction,
    },
    /// Set the extension of a zone's descriptor.
    SetExtension {
        /// The zone.
        zone: ZoneId,
        /// The length of the extension.
        bytes: usize,
    },
    /// Report zones.
    Report {
        /// The first zone.
        first: ZoneId,
        /// At most that many.
        count: u32,
        /// The filter and the format of the report.
        options: ReportOptions,
    },
    /// Tell which zones changed otherwise than by commands.
    ChangedZones,
    /// Make everything completed durable.
    Flush,
}

/// The kind of command that a fault waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandKind {
    /// A read.
    Read,
    /// A write at the write pointer.
    Write,
    /// A zone append.
    Append,
    /// Any zone management command to one zone.
    Manage(ZoneAction),
    /// Any to all zones.
    ManageAll(ZoneAction),
    /// The setting of a descriptor extension.
    SetExtension,
    /// A zone report.
    Report,
    /// The list of changed zones.
    ChangedZones,
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
            Self::ManageAll { action } => CommandKind::ManageAll(*action),
            Self::SetExtension { .. } => CommandKind::SetExtension,
            Self::Report { .. } => CommandKind::Report,
            Self::ChangedZones => CommandKind::ChangedZones,
            Self::Flush => CommandKind::Flush,
        }
    }

    /// The zone the command is for, if it is for one.
    #[must_use]
    pub const fn zone(&self) -> Option<ZoneId> {
        match self {
            Self::Read { at, .. } | Self::Write { at, .. } => Some(at.zone),
            Self::Append { zone, .. }
            | Self::Manage { zone, .. }
            | Self::SetExtension { zone, .. } => Some(*zone),
            Self::ManageAll { .. } | Self::Report { .. } | Self::ChangedZones | Self::Flush => None,
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
            Command::ManageAll { action } => Self::ManageAll { action: *action },
            Command::SetExtension { zone, extension } => {
                Self::SetExtension { zone: *zone, bytes: extension.len() }
            }
            Command::Report { first, count, options } => {
                Self::Report { first: *first, count: *count, options: *options }
            }
            Command::ChangedZones => Self::ChangedZones,
            Command::Flush => Self::Flush,
        }
    }
}
