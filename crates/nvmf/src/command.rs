//! Submission queue entries, their data descriptors, and completion queue entries.

use crate::fields::{array_at, u16_at, u32_at, u64_at};
use crate::pdu::{COMMAND_BYTES, COMMON_BYTES};
use crate::status::Status;

/// A submission queue entry, behind the common header of the capsule it came in.
#[derive(Clone, Copy)]
pub(crate) struct Command([u8; COMMON_BYTES + COMMAND_BYTES]);

/// Where the data of a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// In the capsule.
    Capsule { offset_bytes: u64, length_bytes: u32 },
    /// In the host's memory, moved by data PDUs.
    Host { length_bytes: u32 },
}

/// Data Block with an offset into the capsule.
const SGL_OFFSET: u8 = 0x01;
/// Transport Data Block, of the transport's own kind.
const SGL_TRANSPORT: u8 = 0x5A;
/// The command uses SGLs, as all commands of fabrics do; its metadata pointer is an address.
const PSDT_SGL: u8 = 0x40;

impl Command {
    /// The command of a PDU that starts with these bytes.
    pub(crate) fn new(head: &[u8]) -> Self {
        Self(array_at(head, 0))
    }

    /// The header of the capsule.
    pub(crate) fn header(&self) -> &[u8] {
        &self.0
    }

    fn entry(&self) -> &[u8] {
        &self.0[COMMON_BYTES..]
    }

    pub(crate) fn opcode(&self) -> u8 {
        self.entry()[0]
    }

    pub(crate) fn id(&self) -> u16 {
        u16_at(self.entry(), 2)
    }

    pub(crate) fn namespace(&self) -> u32 {
        u32_at(self.entry(), 4)
    }

    /// The type of a fabrics command.
    pub(crate) fn fabrics_type(&self) -> u8 {
        self.entry()[4]
    }

    pub(crate) fn u16_at(&self, at: usize) -> u16 {
        u16_at(self.entry(), at)
    }

    pub(crate) fn u64_at(&self, at: usize) -> u64 {
        u64_at(self.entry(), at)
    }

    /// Command dword 10 to 15.
    pub(crate) fn dword(&self, number: usize) -> u32 {
        assert!((10..16).contains(&number), "dwords 0 to 9 have fields of their own");
        u32_at(self.entry(), number * 4)
    }

    /// Dwords 10 and 11.
    pub(crate) fn start(&self) -> u64 {
        self.u64_at(40)
    }

    /// Checks flags and descriptor: not fused, one descriptor.
    pub(crate) fn data(&self) -> Result<Data, Status> {
        let flags = self.entry()[1];
        if flags & 0xC0 != PSDT_SGL || flags & 3 != 0 {
            return Err(Status::INVALID_FIELD);
        }
        let length_bytes = u32_at(self.entry(), 32);
        match self.entry()[39] {
            SGL_OFFSET => {
                Ok(Data::Capsule { offset_bytes: u64_at(self.entry(), 24), length_bytes })
            }
            SGL_TRANSPORT => Ok(Data::Host { length_bytes }),
            _ => Err(Status::SGL_TYPE_INVALID),
        }
    }
}

/// The outcome of a command, without the fields that the queue adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) status: Status,
    /// Dwords 0 and 1 of the completion.
    pub(crate) result: u64,
}

impl Outcome {
    pub(crate) const SUCCESS: Self = Self { status: Status::SUCCESS, result: 0 };

    /// The completion of a command; `head` is the submission queue's head pointer.
    pub(crate) fn completion(self, command: u16, head: u16) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.result.to_le_bytes());
        bytes[8..10].copy_from_slice(&head.to_le_bytes());
        bytes[12..14].copy_from_slice(&command.to_le_bytes());
        bytes[14..].copy_from_slice(&self.status.field().to_le_bytes());
        bytes
    }
}

impl From<Status> for Outcome {
    fn from(status: Status) -> Self {
        Self { status, result: 0 }
    }
}
