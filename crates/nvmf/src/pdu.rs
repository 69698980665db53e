//! Headers of PDUs: what a host may send, and what a controller sends.
//!
//! Every PDU has a common header: type, flags, header length, data offset and total length. Then
//! come the header, its digest, padding, data, and the digest of the data.

use crate::fields::{u16_at, u32_at};

/// Bytes of the common header.
pub(crate) const COMMON_BYTES: usize = 8;
/// Bytes of a digest.
pub(crate) const DIGEST_BYTES: usize = 4;
/// Bytes of a command within a command capsule, behind the common header.
pub(crate) const COMMAND_BYTES: usize = 64;
/// The largest data offset: headers of 72 bytes, a digest, and padding to 128 bytes.
pub(crate) const DATA_OFFSET_MAX: usize = 128;
/// Longest PDU header that a termination request returns.
const RETURNED_BYTES_MAX: usize = 128;

/// PDU types.
pub(crate) mod kind {
    pub(crate) const IC_REQUEST: u8 = 0x00;
    pub(crate) const IC_RESPONSE: u8 = 0x01;
    pub(crate) const HOST_TERMINATION: u8 = 0x02;
    pub(crate) const CONTROLLER_TERMINATION: u8 = 0x03;
    pub(crate) const COMMAND: u8 = 0x04;
    pub(crate) const RESPONSE: u8 = 0x05;
    pub(crate) const HOST_DATA: u8 = 0x06;
    pub(crate) const CONTROLLER_DATA: u8 = 0x07;
    pub(crate) const READY_TO_TRANSFER: u8 = 0x09;
}

/// Flags of the common header.
pub(crate) mod flag {
    pub(crate) const HEADER_DIGEST: u8 = 1;
    pub(crate) const DATA_DIGEST: u8 = 1 << 1;
    pub(crate) const LAST: u8 = 1 << 2;
}

/// The digests of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digests {
    pub(crate) header: bool,
    pub(crate) data: bool,
}

impl Digests {
    pub(crate) fn header_bytes(self) -> usize {
        if self.header { DIGEST_BYTES } else { 0 }
    }

    pub(crate) fn data_bytes(self) -> usize {
        if self.data { DIGEST_BYTES } else { 0 }
    }
}

/// A breach of the transport's rules by the host. It ends the connection, with a termination
/// request that has this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A header field is wrong.
    #[error("the field at byte {offset} of a PDU header is invalid")]
    InvalidHeader {
        /// The offset of the field in the PDU.
        offset: u8,
    },
    /// A PDU came at the wrong time.
    #[error("a PDU is out of sequence")]
    Sequence,
    /// A header was damaged on its way.
    #[error("the header digest is wrong")]
    HeaderDigest {
        /// The digest received.
        received: u32,
    },
    /// Data does not belong to what was requested.
    #[error("data is outside of the range that was requested")]
    OutOfRange,
    /// More data at once than announced.
    #[error("a PDU has more data than allowed")]
    DataLimit,
    /// The host asks for an unknown version or an impossible parameter.
    #[error("the parameter at byte {offset} of the connection request is not supported")]
    Unsupported {
        /// The offset of the field in the PDU.
        offset: u8,
    },
}

impl Violation {
    /// Fatal error status and information.
    fn fields(self) -> (u16, u32) {
        match self {
            Self::InvalidHeader { offset } => (1, u32::from(offset)),
            Self::Sequence => (2, 0),
            Self::HeaderDigest { received } => (3, received),
            Self::OutOfRange => (4, 0),
            Self::DataLimit => (5, 0),
            Self::Unsupported { offset } => (6, u32::from(offset)),
        }
    }
}

/// The common header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Common {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) header_bytes: u8,
    pub(crate) data_offset: u8,
    pub(crate) total_bytes: u32,
}

/// The layout of a PDU whose common header is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes before the data: header, digest, padding.
    pub(crate) head_bytes: usize,
    pub(crate) data_bytes: usize,
}

impl Common {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        Self {
            kind: bytes[0],
            flags: bytes[1],
            header_bytes: bytes[2],
            data_offset: bytes[3],
            total_bytes: u32_at(bytes, 4),
        }
    }

    fn write(self, bytes: &mut Vec<u8>) {
        bytes.extend([self.kind, self.flags, self.header_bytes, self.data_offset]);
        bytes.extend(self.total_bytes.to_le_bytes());
    }

    /// Checks a header from the host, whose data is limited.
    pub(crate) fn layout(self, digests: Digests, data_max: usize) -> Result<Layout, Violation> {
        let invalid = |offset| Err(Violation::InvalidHeader { offset });
        let header: usize = match self.kind {
            kind::IC_REQUEST => 128,
            kind::COMMAND => COMMON_BYTES + COMMAND_BYTES,
            kind::HOST_DATA | kind::HOST_TERMINATION => 24,
            _ => return invalid(0),
        };
        if usize::from(self.header_bytes) != header {
            return invalid(2);
        }
        let total = self.total_bytes as usize;
        match self.kind {
            kind::IC_REQUEST if total != header => return invalid(4),
            kind::IC_REQUEST => return Ok(Layout { head_bytes: header, data_bytes: 0 }),
            kind::HOST_TERMINATION => {
                let returned = total.checked_sub(header).filter(|rest| *rest <= RETURNED_BYTES_MAX);
                let Some(data_bytes) = returned else { return invalid(4) };
                return Ok(Layout { head_bytes: header, data_bytes });
            }
            _ => {}
        }
        let allowed = if self.kind == kind::HOST_DATA { flag::LAST } else { 0 };
        let known = allowed | flag::HEADER_DIGEST | flag::DATA_DIGEST;
        if self.flags & !known != 0 || (self.flags & flag::HEADER_DIGEST != 0) != digests.header {
            return invalid(1);
        }
        let head = header + digests.header_bytes();
        if total == head && self.kind == kind::COMMAND {
            // Flags and offset of data that is not there mean nothing.
            return Ok(Layout { head_bytes: head, data_bytes: 0 });
        }
        if (self.flags & flag::DATA_DIGEST != 0) != digests.data {
            return invalid(1);
        }
        let offset = usize::from(self.data_offset);
        if offset < head || offset > DATA_OFFSET_MAX || !offset.is_multiple_of(4) {
            return invalid(3);
        }
        match total.checked_sub(offset + digests.data_bytes()) {
            None | Some(0) => invalid(4),
            Some(data) if data > data_max => Err(Violation::DataLimit),
            Some(data_bytes) => Ok(Layout { head_bytes: offset, data_bytes }),
        }
    }
}

/// The request that opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IcRequest {
    /// Data that the controller sends starts at a multiple of this many bytes.
    pub(crate) data_alignment: usize,
    pub(crate) digests: Digests,
}

impl IcRequest {
    pub(crate) fn parse(header: &[u8]) -> Result<Self, Violation> {
        if u16_at(header, 8) != 0 {
            return Err(Violation::Unsupported { offset: 8 });
        }
        let dwords = header[10];
        if dwords > 31 {
            return Err(Violation::InvalidHeader { offset: 10 });
        }
        if header[11] & !3 != 0 {
            return Err(Violation::InvalidHeader { offset: 11 });
        }
        let digests = Digests { header: header[11] & 1 != 0, data: header[11] & 2 != 0 };
        Ok(Self { data_alignment: (usize::from(dwords) + 1) * 4, digests })
    }
}

/// The header of data from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostData {
    pub(crate) command: u16,
    pub(crate) transfer: u16,
    pub(crate) offset_bytes: u32,
    pub(crate) length_bytes: u32,
    pub(crate) is_last: bool,
}

impl HostData {
    pub(crate) fn parse(header: &[u8]) -> Self {
        Self {
            command: u16_at(header, 8),
            transfer: u16_at(header, 10),
            offset_bytes: u32_at(header, 12),
            length_bytes: u32_at(header, 16),
            is_last: header[1] & flag::LAST != 0,
        }
    }
}

/// The answer to an [`IcRequest`].
pub(crate) fn ic_response(digests: Digests, host_data_max: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    common(kind::IC_RESPONSE, 128).write(&mut bytes);
    // Version 0, no alignment of data from the host.
    bytes.extend([0, 0, 0, u8::from(digests.header) | u8::from(digests.data) << 1]);
    bytes.extend(host_data_max.to_le_bytes());
    bytes.resize(128, 0);
    bytes
}

/// The last PDU of a connection that the host has broken; it returns the header at fault.
pub(crate) fn termination(violation: Violation, header: &[u8]) -> Vec<u8> {
    let returned = &header[..header.len().min(RETURNED_BYTES_MAX)];
    let (status, information) = violation.fields();
    let mut bytes = Vec::with_capacity(24 + returned.len());
    let total = u32::try_from(24 + returned.len()).expect("at most 152 bytes");
    Common { total_bytes: total, ..common(kind::CONTROLLER_TERMINATION, 24) }.write(&mut bytes);
    bytes.extend(status.to_le_bytes());
    bytes.extend(information.to_le_bytes());
    bytes.resize(24, 0);
    bytes.extend(returned);
    bytes
}

/// A completion in its capsule.
pub(crate) fn response(completion: &[u8; 16], digests: Digests) -> Vec<u8> {
    head(kind::RESPONSE, 0, 0, 0, digests, completion)
}

/// Asks the host for the data of a write.
pub(crate) fn ready_to_transfer(command: u16, length_bytes: u32, digests: Digests) -> Vec<u8> {
    // The transfer has the identifier of its command.
    head(kind::READY_TO_TRANSFER, 0, 0, 0, digests, &data_fields(command, command, length_bytes))
}

/// The head of all data of a read, up to the data.
pub(crate) fn controller_data(
    command: u16,
    length_bytes: u32,
    alignment: usize,
    digests: Digests,
) -> Vec<u8> {
    let offset = (24 + digests.header_bytes()).next_multiple_of(alignment);
    let total = offset + length_bytes as usize + digests.data_bytes();
    let digest = if digests.data { flag::DATA_DIGEST } else { 0 };
    let fields = data_fields(command, 0, length_bytes);
    let mut bytes =
        head(kind::CONTROLLER_DATA, flag::LAST | digest, offset, total, digests, &fields);
    bytes.resize(offset, 0);
    bytes
}

fn data_fields(command: u16, transfer: u16, length_bytes: u32) -> [u8; 16] {
    let mut fields = [0; 16];
    fields[..2].copy_from_slice(&command.to_le_bytes());
    fields[2..4].copy_from_slice(&transfer.to_le_bytes());
    fields[8..12].copy_from_slice(&length_bytes.to_le_bytes());
    fields
}

fn common(kind: u8, header_bytes: u8) -> Common {
    Common { kind, flags: 0, header_bytes, data_offset: 0, total_bytes: header_bytes.into() }
}

/// A header of 24 bytes and its digest; `total` is 0 if nothing follows.
fn head(
    kind: u8,
    flags: u8,
    offset: usize,
    total: usize,
    digests: Digests,
    fields: &[u8; 16],
) -> Vec<u8> {
    let digest = if digests.header { flag::HEADER_DIGEST } else { 0 };
    let total = if total == 0 { 24 + digests.header_bytes() } else { total };
    let mut bytes = Vec::with_capacity(offset.max(28));
    Common {
        flags: flags | digest,
        data_offset: u8::try_from(offset).expect("at most 128"),
        total_bytes: u32::try_from(total).expect("data is limited far below 4 GiB"),
        ..common(kind, 24)
    }
    .write(&mut bytes);
    bytes.extend(fields);
    assert_eq!(bytes.len(), 24, "a common header and 16 bytes");
    if digests.header {
        let digest = crc32c::crc32c(&bytes);
        bytes.extend(digest.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests;
