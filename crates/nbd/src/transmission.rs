//! Requests: from a 28-byte header to a [`Request`] that is safe to run, or a [`Rejection`].
//!
//! Invariants of an accepted request:
//! * `offset + length` does not overflow and lies within the export (flush and disconnect have
//!   none).
//! * A read or write is no longer than the export's maximum block size, at most 32 MiB; trims,
//!   zeroes, prefetches and status queries may span up to 2^32 - 1 bytes.
//! * It uses only commands and flags the client was offered. Alignment is demanded only to the
//!   export's minimum block size, never to the preferred one.
//!
//! Fault model: headers are hostile. Only a wrong magic number ends the connection, because nothing
//! after it can be framed; everything else is answered and its payload is drained.

mod decoder;
#[cfg(test)]
mod tests;

use bytes::Buf;

pub use decoder::{Event, RequestDecoder};

use crate::errno::Errno;
use crate::flags::TransmissionFlags;
use crate::session::Session;
use crate::wire::{REQUEST_MAGIC, command, command_flag};

/// Size of a request header.
pub const REQUEST_HEADER_BYTES: usize = 28;

/// The client's name for a request, returned in its reply and otherwise meaningless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cookie(pub u64);

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Return the range's data.
    Read {
        /// Answer with a single content chunk.
        dont_fragment: bool,
    },
    /// Store the payload, which has exactly the request's length.
    Write,
    /// Finish the requests in flight and close; there is no reply.
    Disconnect,
    /// Make every write replied to before this durable.
    Flush,
    /// The range's data is no longer needed.
    Trim,
    /// Make the range read as zeroes.
    WriteZeroes {
        /// Keep the space allocated.
        no_hole: bool,
        /// Fail with [`Errno::NotSupported`] rather than be as slow as a write.
        fast_zero: bool,
    },
    /// Report allocation of the range.
    BlockStatus {
        /// One extent is enough.
        request_one: bool,
    },
    /// Prefetch the range.
    Cache,
}

/// A request that passed every check of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The command.
    pub command: Command,
    /// Reply only once this request's own writes are durable.
    pub force_unit_access: bool,
    /// To be returned in the reply.
    pub cookie: Cookie,
    /// Start of the range in the export; 0 for flush and disconnect.
    pub offset_bytes: u64,
    /// Length of the range; may be 0 except for block status.
    pub length_bytes: u32,
}

impl Request {
    /// Bytes of payload that follow the header.
    #[must_use]
    pub fn payload_bytes(&self) -> u32 {
        if self.command == Command::Write { self.length_bytes } else { 0 }
    }
}

/// The stream lost its framing; close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request magic is {found:#010x}; the client is out of step, close the connection")]
pub struct BadMagic {
    /// The value found instead.
    pub found: u32,
}

/// A request to be answered with an error. The text of the reason is fit for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Rejection {
    /// To be returned in the reply.
    pub cookie: Cookie,
    /// The fault.
    pub reason: RejectionReason,
    /// Payload that follows the header and must be thrown away; [`RequestDecoder`] does.
    pub payload_bytes: u32,
}

impl Rejection {
    /// The error number of the reply.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self.reason {
            RejectionReason::ReadOnly => Errno::NotPermitted,
            RejectionReason::WriteBeyondEnd { .. } => Errno::NoSpace,
            _ => Errno::Invalid,
        }
    }
}

/// The fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectionReason {
    /// The command does not exist, or was not offered in the transmission flags.
    #[error("command {command} is not offered")]
    CommandNotOffered {
        /// Command number.
        command: u16,
    },
    /// A flag does not belong to the command, or was not offered.
    #[error("flags {flags:#06x} are not valid for command {command}")]
    FlagNotOffered {
        /// Command number.
        command: u16,
        /// The offending flags.
        flags: u16,
    },
    /// A command that changes data, on a read-only export.
    #[error("the export is read-only")]
    ReadOnly,
    /// A read or write is longer than the maximum block size.
    #[error("length {length_bytes} is over the maximum of {maximum_bytes}")]
    TooLong {
        /// Length asked for.
        length_bytes: u32,
        /// The export's maximum block size.
        maximum_bytes: u32,
    },
    /// The range reaches past the end of the export, or past 2^64.
    #[error("{length_bytes} bytes at {offset_bytes} reach beyond the end at {size_bytes}")]
    BeyondEnd {
        /// Start asked for.
        offset_bytes: u64,
        /// Length asked for.
        length_bytes: u32,
        /// Size of the export.
        size_bytes: u64,
    },
    /// As [`Self::BeyondEnd`], for a write or write-zeroes, which fails as "no space".
    #[error("{length_bytes} bytes at {offset_bytes} do not fit before the end at {size_bytes}")]
    WriteBeyondEnd {
        /// Start asked for.
        offset_bytes: u64,
        /// Length asked for.
        length_bytes: u32,
        /// Size of the export.
        size_bytes: u64,
    },
    /// The range is not aligned to the minimum block size.
    #[error("{length_bytes} bytes at {offset_bytes} are not aligned to {minimum_bytes}")]
    Unaligned {
        /// Start asked for.
        offset_bytes: u64,
        /// Length asked for.
        length_bytes: u32,
        /// The export's minimum block size.
        minimum_bytes: u32,
    },
    /// Flush takes no range.
    #[error("flush must have offset 0 and length 0")]
    FlushWithRange,
    /// Block status without a selected context.
    #[error("no metadata context was negotiated")]
    NoMetadataContext,
    /// Block status of no bytes, which has no valid reply.
    #[error("block status needs a length over 0")]
    EmptyStatus,
}

/// Why a header is not a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Close the connection.
    #[error(transparent)]
    BadMagic(#[from] BadMagic),
    /// Reply with the error and skip the payload.
    #[error(transparent)]
    Rejected(#[from] Rejection),
}

/// The fields of a header, not yet judged.
struct Header {
    flags: u16,
    command: u16,
    cookie: Cookie,
    offset_bytes: u64,
    length_bytes: u32,
}

impl Session {
    /// Judges one request header. For front ends that receive payloads straight into their own
    /// buffers; others use [`RequestDecoder`].
    ///
    /// # Errors
    /// [`RequestError::BadMagic`] ends the connection. [`RequestError::Rejected`] is answered with
    /// [`ReplyEncoder::reject`](crate::ReplyEncoder::reject) after its payload was read and thrown
    /// away; clients do not expect the answer before they have sent everything.
    pub fn parse_request(
        &self,
        header: &[u8; REQUEST_HEADER_BYTES],
    ) -> Result<Request, RequestError> {
        let header = read_header(header)?;
        self.judge(&header).map_err(|reason| {
            // The payload follows whether or not the request makes sense.
            let payload_bytes =
                if header.command == command::WRITE { header.length_bytes } else { 0 };
            RequestError::Rejected(Rejection { cookie: header.cookie, reason, payload_bytes })
        })
    }

    fn judge(&self, header: &Header) -> Result<Request, RejectionReason> {
        let command = self.command(header)?;
        let range = match command {
            // A disconnect is accepted with any other fields.
            Command::Disconnect => (0, 0),
            Command::Flush if (header.offset_bytes, header.length_bytes) != (0, 0) => {
                return Err(RejectionReason::FlushWithRange);
            }
            Command::Flush => (0, 0),
            _ => self.range(command, header)?,
        };
        Ok(Request {
            command,
            force_unit_access: header.flags & command_flag::FUA != 0,
            cookie: header.cookie,
            offset_bytes: range.0,
            length_bytes: range.1,
        })
    }

    /// Checks that the command and its flags were offered.
    fn command(&self, header: &Header) -> Result<Command, RejectionReason> {
        type Offer = TransmissionFlags;
        let has = |flag: u16| header.flags & flag != 0;
        let always = Offer::NONE;
        let (command, offer, own_flags) = match header.command {
            command::READ => (
                Command::Read { dont_fragment: has(command_flag::DONT_FRAGMENT) },
                always,
                self.if_offered(Offer::SEND_DF, command_flag::DONT_FRAGMENT),
            ),
            command::WRITE => (Command::Write, always, 0),
            command::DISCONNECT => return Ok(Command::Disconnect),
            command::FLUSH => (Command::Flush, Offer::SEND_FLUSH, 0),
            command::TRIM => (Command::Trim, Offer::SEND_TRIM, 0),
            command::WRITE_ZEROES => (
                Command::WriteZeroes {
                    no_hole: has(command_flag::NO_HOLE),
                    fast_zero: has(command_flag::FAST_ZERO),
                },
                Offer::SEND_WRITE_ZEROES,
                command_flag::NO_HOLE
                    | self.if_offered(Offer::SEND_FAST_ZERO, command_flag::FAST_ZERO),
            ),
            command::BLOCK_STATUS => (
                Command::BlockStatus { request_one: has(command_flag::REQUEST_ONE) },
                always,
                command_flag::REQUEST_ONE,
            ),
            command::CACHE => (Command::Cache, Offer::SEND_CACHE, 0),
            command => return Err(RejectionReason::CommandNotOffered { command }),
        };
        if !self.flags().contains(offer) {
            return Err(RejectionReason::CommandNotOffered { command: header.command });
        }
        // Where FUA is offered the protocol has it accepted on every command.
        let valid = own_flags | self.if_offered(Offer::SEND_FUA, command_flag::FUA);
        let flags = header.flags & !valid;
        if flags != 0 {
            return Err(RejectionReason::FlagNotOffered { command: header.command, flags });
        }
        if matches!(command, Command::BlockStatus { .. }) && self.base_allocation().is_none() {
            return Err(RejectionReason::NoMetadataContext);
        }
        Ok(command)
    }

    fn if_offered(&self, offer: TransmissionFlags, flag: u16) -> u16 {
        if self.flags().contains(offer) { flag } else { 0 }
    }

    /// Checks permission and bounds of a command with a range, in that order.
    fn range(&self, command: Command, header: &Header) -> Result<(u64, u32), RejectionReason> {
        let &Header { offset_bytes, length_bytes, .. } = header;
        let export = self.export();
        let (size_bytes, sizes) = (export.size_bytes, &export.block_sizes);
        let writes = matches!(command, Command::Write | Command::WriteZeroes { .. });
        let changes_data = writes || command == Command::Trim;
        if changes_data && self.flags().contains(TransmissionFlags::READ_ONLY) {
            return Err(RejectionReason::ReadOnly);
        }
        let moves_data = matches!(command, Command::Read { .. } | Command::Write);
        let maximum_bytes = sizes.maximum_bytes;
        if moves_data && length_bytes > maximum_bytes {
            return Err(RejectionReason::TooLong { length_bytes, maximum_bytes });
        }
        let end = offset_bytes.checked_add(u64::from(length_bytes));
        if end.is_none_or(|end| end > size_bytes) {
            return Err(if writes {
                RejectionReason::WriteBeyondEnd { offset_bytes, length_bytes, size_bytes }
            } else {
                RejectionReason::BeyondEnd { offset_bytes, length_bytes, size_bytes }
            });
        }
        let minimum_bytes = sizes.minimum_bytes;
        if !offset_bytes.is_multiple_of(u64::from(minimum_bytes))
            || !length_bytes.is_multiple_of(minimum_bytes)
        {
            return Err(RejectionReason::Unaligned { offset_bytes, length_bytes, minimum_bytes });
        }
        if length_bytes == 0 && matches!(command, Command::BlockStatus { .. }) {
            return Err(RejectionReason::EmptyStatus);
        }
        Ok((offset_bytes, length_bytes))
    }
}

fn read_header(header: &[u8; REQUEST_HEADER_BYTES]) -> Result<Header, BadMagic> {
    let mut header = &header[..];
    let found = header.get_u32();
    if found != REQUEST_MAGIC {
        return Err(BadMagic { found });
    }
    Ok(Header {
        flags: header.get_u16(),
        command: header.get_u16(),
        cookie: Cookie(header.get_u64()),
        offset_bytes: header.get_u64(),
        length_bytes: header.get_u32(),
    })
}
