//! The Connect command and its data.

use bytes::Bytes;

use crate::command::{Command, Data, Outcome};
use crate::fields::{array_at, u16_at};
use crate::nqn::check_nqn;
use crate::status::Status;

/// Entries of a queue, at most.
pub const QUEUE_ENTRIES_MAX: u16 = 128;
/// Bytes of the data of Connect.
const DATA_BYTES: usize = 1024;

/// A well-formed request for a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectRequest {
    pub(crate) queue: u16,
    /// Entries of the queue.
    pub(crate) entries: u16,
    pub(crate) keep_alive_ms: u32,
    pub(crate) host_id: [u8; 16],
    pub(crate) controller: u16,
    pub(crate) subsystem_nqn: String,
    pub(crate) host_nqn: String,
}

/// A refusal of Connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Status(Status),
    /// A field of the command or of its data is wrong.
    Parameter {
        offset: u16,
        in_data: bool,
    },
}

impl ConnectRequest {
    pub(crate) fn parse(command: &Command, capsule: &Bytes) -> Result<Self, Refusal> {
        let data = capsule_data(command, capsule, DATA_BYTES, 0).map_err(Refusal::Status)?;
        if command.u16_at(40) != 0 {
            return Err(Refusal::Status(Status::CONNECT_FORMAT));
        }
        let last_entry = command.u16_at(44);
        if last_entry == 0 || last_entry >= QUEUE_ENTRIES_MAX {
            return Err(Refusal::Parameter { offset: 44, in_data: false });
        }
        let name = |offset: u16| {
            let found = nqn_at(&data, usize::from(offset));
            found.ok_or(Refusal::Parameter { offset, in_data: true })
        };
        Ok(Self {
            queue: command.u16_at(42),
            entries: last_entry + 1,
            keep_alive_ms: command.dword(12),
            host_id: array_at(&data, 0),
            controller: u16_at(&data, 16),
            subsystem_nqn: name(256)?,
            host_nqn: name(512)?,
        })
    }
}

/// Compares the described length of data with the needed one, which may be exceeded by `spare`.
pub(crate) fn check_length(needed: usize, described: u32, spare: usize) -> Result<(), Status> {
    let beyond = (described as usize).checked_sub(needed);
    if beyond.is_some_and(|beyond| beyond <= spare) {
        Ok(())
    } else {
        Err(Status::SGL_LENGTH_INVALID)
    }
}

/// The data in the capsule of a command that needs `length` bytes.
pub(crate) fn capsule_data(
    command: &Command,
    capsule: &Bytes,
    length: usize,
    spare: usize,
) -> Result<Bytes, Status> {
    let Data::Capsule { offset_bytes, length_bytes } = command.data()? else {
        return Err(Status::SGL_TYPE_INVALID);
    };
    check_length(length, length_bytes, spare)?;
    let start = usize::try_from(offset_bytes).map_err(|_| Status::SGL_OFFSET_INVALID)?;
    let end = start.checked_add(length).filter(|end| *end <= capsule.len());
    let end = end.ok_or(Status::SGL_OFFSET_INVALID)?;
    Ok(capsule.slice(start..end))
}

/// A name of at most 255 bytes, ended by a zero.
fn nqn_at(data: &[u8], at: usize) -> Option<String> {
    let field = &data[at..at + 256];
    let end = field.iter().position(|byte| *byte == 0)?;
    let name = std::str::from_utf8(&field[..end]).ok()?;
    check_nqn(name).ok().map(|()| name.to_owned())
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Status(status) => status.into(),
            Refusal::Parameter { offset, in_data } => {
                let result = u64::from(offset) | u64::from(in_data) << 16;
                Self { status: Status::CONNECT_PARAMETER, result }
            }
        }
    }
}
