//! Zone commands on the wire: those of a zoned drive, to the volume of a server.
//!
//! Data follows the line of a request, or that of its answer, as it is. A command has at most
//! [`DATA_BLOCKS`], which bounds the memory of a connection.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use zoneweave_zoned::{
    BlockCount, Command, Geometry, OobKind, Outcome, Payload, Reply, ReportOptions, Status,
    ZoneAction, ZoneAddress, ZoneAttributes, ZoneFilter, ZoneId, ZoneInfo, ZoneOffset, ZoneReport,
    ZoneState,
};

/// The most blocks of a read, write or append: 1 MiB.
pub(crate) const DATA_BLOCKS: u32 = 256;

/// The states of zones.
const STATES: [ZoneState; 7] = [
    ZoneState::Empty,
    ZoneState::ImplicitlyOpen,
    ZoneState::ExplicitlyOpen,
    ZoneState::Closed,
    ZoneState::ReadOnly,
    ZoneState::Full,
    ZoneState::Offline,
];

/// A command to the zones of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum ZoneCommand {
    Read { zone: u32, offset: u32, blocks: u32 },
    Write { zone: u32, offset: u32, blocks: u32, fua: bool },
    Append { zone: u32, blocks: u32, fua: bool },
    Manage { zone: u32, action: Action },
    ManageAll { action: Action },
    Report { first: u32, count: u32, filter: u8, partial: bool },
    Flush,
}

impl ZoneCommand {
    /// Whether it changes a zone.
    pub(crate) const fn changes(self) -> bool {
        !matches!(self, Self::Read { .. } | Self::Report { .. } | Self::Flush)
    }
}

/// A change of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Action {
    Open,
    Close,
    Finish,
    Reset,
}

/// The answer to a command, without the data of a read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ZoneAnswer {
    /// The NVMe status of a command that failed.
    pub status: Option<u16>,
    /// Where an append went.
    pub offset: Option<u32>,
    /// The number of zones that the filter admits.
    pub matching: u64,
    pub zones: Vec<Zone>,
}

/// A zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Zone {
    zone: u32,
    /// The state as in an NVMe zone descriptor.
    state: u8,
    write_pointer: u32,
    capacity: u32,
    resets: u64,
    attributes: u8,
}

/// A volume as a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    zones: u32,
    zone_capacity: u32,
    max_open: Option<u32>,
    max_active: Option<u32>,
    append_blocks: u32,
}

impl From<&Geometry> for Shape {
    fn from(geometry: &Geometry) -> Self {
        Self {
            zones: geometry.zones,
            zone_capacity: geometry.zone_capacity.0,
            max_open: geometry.max_open,
            max_active: geometry.max_active,
            append_blocks: geometry.append_limit.0,
        }
    }
}

impl Shape {
    /// The drive that a client sees; its commands fit the wire.
    pub(crate) fn geometry(self) -> Geometry {
        Geometry {
            oob: OobKind::None,
            max_open: self.max_open,
            max_active: self.max_active,
            append_limit: BlockCount(self.append_blocks.min(DATA_BLOCKS)),
            max_transfer: BlockCount(DATA_BLOCKS),
            ..Geometry::new(self.zones, BlockCount(self.zone_capacity))
        }
    }
}

impl Action {
    fn of(action: ZoneAction) -> Option<Self> {
        match action {
            ZoneAction::Open => Some(Self::Open),
            ZoneAction::Close => Some(Self::Close),
            ZoneAction::Finish => Some(Self::Finish),
            ZoneAction::Reset => Some(Self::Reset),
            ZoneAction::Offline | ZoneAction::OpenWithZrwa | ZoneAction::FlushZrwa { .. } => None,
        }
    }

    const fn action(self) -> ZoneAction {
        match self {
            Self::Open => ZoneAction::Open,
            Self::Close => ZoneAction::Close,
            Self::Finish => ZoneAction::Finish,
            Self::Reset => ZoneAction::Reset,
        }
    }
}

impl ZoneCommand {
    /// The command on the wire, with its data.
    ///
    /// # Errors
    /// [`Status::InvalidField`] if it has no form there, or too much data.
    pub(crate) fn of(command: Command) -> Result<(Self, Payload), Status> {
        let none = |command| Ok((command, Payload::default()));
        let fits = |blocks: BlockCount| match blocks.0 <= DATA_BLOCKS {
            true => Ok(blocks.0),
            false => Err(Status::InvalidField),
        };
        let known = |action| Action::of(action).ok_or(Status::InvalidField);
        match command {
            Command::Read { at, blocks } => {
                let blocks = fits(blocks)?;
                none(Self::Read { zone: at.zone.0, offset: at.offset.0, blocks })
            }
            Command::Write { at, payload, fua } => {
                let blocks = fits(payload.blocks())?;
                let write = Self::Write { zone: at.zone.0, offset: at.offset.0, blocks, fua };
                Ok((write, payload))
            }
            Command::Append { zone, payload, fua } => {
                let blocks = fits(payload.blocks())?;
                Ok((Self::Append { zone: zone.0, blocks, fua }, payload))
            }
            Command::Manage { zone, action } => {
                none(Self::Manage { zone: zone.0, action: known(action)? })
            }
            Command::ManageAll { action } => none(Self::ManageAll { action: known(action)? }),
            Command::Report { first, count, options: ReportOptions { filter, partial, .. } } => {
                none(Self::Report { first: first.0, count, filter: filter as u8, partial })
            }
            Command::Flush => none(Self::Flush),
            Command::ChangedZones | Command::SetExtension { .. } => Err(Status::InvalidField),
        }
    }

    /// Blocks of data behind the line of the request.
    pub(crate) const fn sent_blocks(self) -> u32 {
        match self {
            Self::Write { blocks, .. } | Self::Append { blocks, .. } => blocks,
            _ => 0,
        }
    }

    /// Blocks of data behind the line of a successful answer.
    pub(crate) const fn read_blocks(self) -> u32 {
        match self {
            Self::Read { blocks, .. } => blocks,
            _ => 0,
        }
    }

    /// The command to the volume, with the data that was received.
    ///
    /// # Errors
    /// [`Status::InvalidField`] for numbers that no client sends.
    pub(crate) fn command(self, data: Bytes) -> Result<Command, Status> {
        let payload = match data.is_empty() {
            true => Payload::default(),
            false => Payload::new(data, Bytes::new()),
        };
        if self.read_blocks() > DATA_BLOCKS || payload.blocks().0 != self.sent_blocks() {
            return Err(Status::InvalidField);
        }
        Ok(match self {
            Self::Read { zone, offset, blocks } => Command::Read {
                at: ZoneAddress::new(ZoneId(zone), offset),
                blocks: BlockCount(blocks),
            },
            Self::Write { zone, offset, fua, .. } => {
                Command::Write { at: ZoneAddress::new(ZoneId(zone), offset), payload, fua }
            }
            Self::Append { zone, fua, .. } => Command::Append { zone: ZoneId(zone), payload, fua },
            Self::Manage { zone, action } => {
                Command::Manage { zone: ZoneId(zone), action: action.action() }
            }
            Self::ManageAll { action } => Command::ManageAll { action: action.action() },
            Self::Report { first, count, filter, partial } => {
                let filter = ZoneFilter::ALL.into_iter().find(|known| *known as u8 == filter);
                let filter = filter.ok_or(Status::InvalidField)?;
                let options = ReportOptions { filter, partial, extended: false };
                Command::Report { first: ZoneId(first), count, options }
            }
            Self::Flush => Command::Flush,
        })
    }
}

impl ZoneAnswer {
    /// The answer on the wire, with its data.
    pub(crate) fn of(outcome: Outcome) -> (Self, Vec<Bytes>) {
        let reply = match outcome {
            Ok(reply) => reply,
            Err(status) => {
                return (Self { status: Some(status.value()), ..Self::default() }, Vec::new());
            }
        };
        match reply {
            Reply::Read(payload) => (Self::default(), payload.data),
            Reply::Written(at) => {
                (Self { offset: Some(at.offset.0), ..Self::default() }, Vec::new())
            }
            Reply::Zones(ZoneReport { matching, zones, .. }) => {
                let zones = zones.iter().map(Zone::of).collect();
                (Self { matching, zones, ..Self::default() }, Vec::new())
            }
            Reply::Done | Reply::Changed(_) => (Self::default(), Vec::new()),
        }
    }

    /// The outcome of a command, with the data that was received.
    pub(crate) fn outcome(self, command: ZoneCommand, data: Bytes) -> Outcome {
        let Self { status, offset, matching, zones } = self;
        if let Some(value) = status {
            let status = Status::ALL.iter().find(|status| status.value() == value);
            return Err(status.copied().unwrap_or(Status::InternalError));
        }
        match (command, offset) {
            (ZoneCommand::Read { .. }, _) => Ok(Reply::Read(Payload::new(data, Bytes::new()))),
            (ZoneCommand::Append { zone, .. } | ZoneCommand::Write { zone, .. }, Some(offset)) => {
                Ok(Reply::Written(ZoneAddress::new(ZoneId(zone), offset)))
            }
            (ZoneCommand::Report { .. }, _) => {
                let zones = zones.iter().map(Zone::info).collect::<Option<Vec<_>>>();
                let zones = zones.ok_or(Status::InternalError)?;
                Ok(Reply::Zones(ZoneReport { matching, zones, extensions: Vec::new() }))
            }
            _ => Ok(Reply::Done),
        }
    }
}

impl Zone {
    fn of(info: &ZoneInfo) -> Self {
        Self {
            zone: info.zone.0,
            state: info.state as u8,
            write_pointer: info.write_pointer.0,
            capacity: info.capacity.0,
            resets: info.resets,
            attributes: info.attributes.bits(),
        }
    }

    fn info(&self) -> Option<ZoneInfo> {
        Some(ZoneInfo {
            zone: ZoneId(self.zone),
            state: STATES.into_iter().find(|state| *state as u8 == self.state)?,
            write_pointer: ZoneOffset(self.write_pointer),
            capacity: BlockCount(self.capacity),
            resets: self.resets,
            attributes: ZoneAttributes::from_bits(self.attributes)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(blocks: u32) -> Bytes {
        Bytes::from(vec![7; blocks as usize * zoneweave_zoned::BLOCK_BYTES])
    }

    fn write(blocks: u32) -> Command {
        let payload = Payload::new(data(blocks), Bytes::new());
        Command::Write { at: ZoneAddress::new(ZoneId(3), 5), payload, fua: true }
    }

    #[test]
    fn commands_arrive_as_they_were_sent() {
        let options = ReportOptions { filter: ZoneFilter::Full, ..ReportOptions::default() };
        let commands = [
            write(2),
            Command::Read { at: ZoneAddress::new(ZoneId(3), 5), blocks: BlockCount(9) },
            Command::Manage { zone: ZoneId(1), action: ZoneAction::Open },
            Command::ManageAll { action: ZoneAction::Reset },
            Command::Report { first: ZoneId(4), count: 2, options },
            Command::Flush,
        ];
        for command in commands {
            let (sent, payload) = ZoneCommand::of(command.clone()).unwrap();
            let line = serde_json::to_string(&sent).unwrap();
            let received: ZoneCommand = serde_json::from_str(&line).unwrap();
            assert_eq!(received.sent_blocks(), payload.blocks().0);
            let data = payload.data.concat().into();
            assert_eq!(received.command(data), Ok(command));
        }
    }

    #[test]
    fn commands_that_do_not_fit_are_refused() {
        let refused = Err(Status::InvalidField);
        assert_eq!(ZoneCommand::of(write(DATA_BLOCKS + 1)), refused);
        let zrwa = Command::Manage { zone: ZoneId(1), action: ZoneAction::OpenWithZrwa };
        assert_eq!(ZoneCommand::of(zrwa), refused);
        let read = ZoneCommand::Read { zone: 0, offset: 0, blocks: DATA_BLOCKS + 1 };
        assert_eq!(read.command(Bytes::new()), Err(Status::InvalidField));
        let append = ZoneCommand::Append { zone: 0, blocks: 2, fua: false };
        assert_eq!(append.command(data(1)), Err(Status::InvalidField));
        let report = ZoneCommand::Report { first: 0, count: 1, filter: 99, partial: false };
        assert_eq!(report.command(Bytes::new()), Err(Status::InvalidField));
    }

    #[test]
    fn answers_arrive_as_they_were_given() {
        let info = ZoneInfo {
            zone: ZoneId(2),
            state: ZoneState::ExplicitlyOpen,
            write_pointer: ZoneOffset(5),
            capacity: BlockCount(48),
            resets: 3,
            attributes: ZoneAttributes::NONE,
        };
        let report = ZoneReport { matching: 1, zones: vec![info], extensions: Vec::new() };
        let place = ZoneAddress::new(ZoneId(2), 5);
        let outcomes = [
            (
                ZoneCommand::Report { first: 0, count: 1, filter: 0, partial: false },
                Ok(Reply::Zones(report)),
            ),
            (ZoneCommand::Append { zone: 2, blocks: 1, fua: false }, Ok(Reply::Written(place))),
            (ZoneCommand::Flush, Err(Status::WriteFault)),
            (ZoneCommand::Flush, Ok(Reply::Done)),
        ];
        for (command, outcome) in outcomes {
            let (answer, _) = ZoneAnswer::of(outcome.clone());
            let line = serde_json::to_string(&answer).unwrap();
            let answer: ZoneAnswer = serde_json::from_str(&line).unwrap();
            assert_eq!(answer.outcome(command, Bytes::new()), outcome);
        }
    }
}
