//! A minimal host: for tests, for seeds of the fuzzers, and for clients of servers under test.
//!
//! It writes PDUs and commands, and reads what a controller sends. It shares no code with the
//! target, so that an error in one of them shows. It trusts its controller, and panics if that
//! breaks the rules.

mod initiator;

use bytes::{BufMut, Bytes};

pub use initiator::{HOST_NQN, Initiator};

/// How a host talks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    /// Headers have digests.
    pub header_digest: bool,
    /// Data has digests.
    pub data_digest: bool,
    /// Dwords, less one, of which data from the controller starts at a multiple.
    pub alignment: u8,
}

/// A command: 64 bytes, without its identifier, and the data that travels in its capsule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCommand {
    /// The submission queue entry.
    pub entry: [u8; 64],
    /// In-capsule data.
    pub data: Vec<u8>,
}

/// A PDU from the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The answer to [`Dialect::open`], with the most data that a data PDU may have.
    Opened(u32),
    /// A completion.
    Completion {
        /// Command identifier.
        command: u16,
        /// Status code type and code, without Do Not Retry.
        status: u16,
        /// Dwords 0 and 1.
        result: u64,
        /// Head of the submission queue.
        head: u16,
    },
    /// Data of a read: offset and bytes.
    Data(u16, u32, Vec<u8>),
    /// A request for data: command, transfer tag, offset, length.
    Ready(u16, u16, u32, u32),
    /// The controller ends the connection: status and information.
    Termination(u16, u32),
}

impl Dialect {
    /// The first bytes of a connection.
    #[must_use]
    pub fn open(self) -> Vec<u8> {
        let mut pdu = vec![0, 0, 128, 0, 128, 0, 0, 0, 0, 0, self.alignment];
        pdu.push(u8::from(self.header_digest) + 2 * u8::from(self.data_digest));
        pdu.resize(128, 0);
        pdu
    }

    /// A command under this identifier.
    #[must_use]
    pub fn capsule(self, id: u16, command: &HostCommand) -> Vec<u8> {
        let mut entry = command.entry;
        entry[2..4].copy_from_slice(&id.to_le_bytes());
        self.pdu(4, 0, &entry, &command.data)
    }

    /// Data that the controller has asked for.
    #[must_use]
    pub fn data(self, id: u16, transfer: u16, offset: u32, data: &[u8], is_last: bool) -> Vec<u8> {
        let mut fields = Vec::new();
        fields.put_u16_le(id);
        fields.put_u16_le(transfer);
        fields.put_u32_le(offset);
        fields.put_u32_le(u32::try_from(data.len()).expect("short data"));
        fields.put_u32_le(0);
        self.pdu(6, if is_last { 4 } else { 0 }, &fields, data)
    }

    /// The end of a connection by a host that found an error.
    #[must_use]
    pub fn termination() -> Vec<u8> {
        let mut pdu = vec![2, 0, 24, 0, 24, 0, 0, 0, 2, 0];
        pdu.resize(24, 0);
        pdu
    }

    fn pdu(self, kind: u8, flags: u8, fields: &[u8], data: &[u8]) -> Vec<u8> {
        let digest = |is_there: bool| if is_there { 4 } else { 0 };
        let header = 8 + fields.len();
        let offset = header + digest(self.header_digest);
        let has_data = !data.is_empty();
        let tail = data.len() + digest(self.data_digest && has_data);
        let mut pdu = vec![kind];
        pdu.push(flags + u8::from(self.header_digest) + 2 * u8::from(self.data_digest && has_data));
        pdu.push(u8::try_from(header).expect("short"));
        pdu.push(if has_data { u8::try_from(offset).expect("short") } else { 0 });
        pdu.put_u32_le(u32::try_from(offset + tail).expect("short"));
        pdu.extend(fields);
        if self.header_digest {
            pdu.put_u32_le(crc32c::crc32c(&pdu));
        }
        pdu.extend(data);
        if self.data_digest && has_data {
            pdu.put_u32_le(crc32c::crc32c(data));
        }
        pdu
    }

    /// Takes the first PDU of a controller's bytes, if all of it is there.
    ///
    /// # Panics
    /// If it is against the rules.
    #[must_use]
    pub fn reply(self, bytes: &mut Bytes) -> Option<Reply> {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        if bytes.len() < 8 || bytes.len() < u32_at(4) as usize {
            return None;
        }
        let total = u32_at(4) as usize;
        let (kind, flags, header) = (bytes[0], bytes[1], usize::from(bytes[2]));
        let is_plain = matches!(kind, 1 | 3);
        if self.header_digest && !is_plain {
            assert_eq!(flags & 1, 1, "a header digest was agreed on");
            assert_eq!(u32_at(header), crc32c::crc32c(&bytes[..header]), "header digest");
        }
        let reply = match kind {
            1 => Reply::Opened(u32_at(12)),
            3 => Reply::Termination(u16_at(8), u32_at(10)),
            5 => Reply::Completion {
                command: u16_at(20),
                status: u16_at(22) >> 1 & 0x7FF,
                result: u64::from(u32_at(8)) | u64::from(u32_at(12)) << 32,
                head: u16_at(16),
            },
            7 => {
                let start = usize::from(bytes[3]);
                assert!(start.is_multiple_of((usize::from(self.alignment) + 1) * 4), "alignment");
                let end = start + u32_at(16) as usize;
                if self.data_digest {
                    assert_eq!(flags & 2, 2, "a data digest was agreed on");
                    assert_eq!(u32_at(end), crc32c::crc32c(&bytes[start..end]), "data digest");
                }
                assert_eq!(total, end + 4 * usize::from(self.data_digest), "length of the PDU");
                Reply::Data(u16_at(8), u32_at(12), bytes[start..end].to_vec())
            }
            9 => Reply::Ready(u16_at(8), u16_at(10), u32_at(12), u32_at(16)),
            other => panic!("a controller sent a PDU of type {other}"),
        };
        drop(bytes.split_to(total));
        Some(reply)
    }
}

/// Where a command has its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Capsule,
    Host,
}

impl HostCommand {
    /// A command that moves `length` bytes to or from the memory of the host.
    #[must_use]
    pub fn new(opcode: u8, namespace: u32, length: usize) -> Self {
        let mut entry = [0; 64];
        entry[0] = opcode;
        entry[1] = 0x40;
        entry[4..8].copy_from_slice(&namespace.to_le_bytes());
        Self { entry, data: Vec::new() }.described(Place::Host, length)
    }

    /// The same with its data in the capsule.
    #[must_use]
    pub fn with(mut self, data: &[u8]) -> Self {
        self.data = data.to_vec();
        self.described(Place::Capsule, data.len())
    }

    fn described(self, place: Place, length: usize) -> Self {
        let length = u32::try_from(length).expect("short data");
        let kind = if place == Place::Capsule { 0x01 } else { 0x5A };
        self.put(32, &length.to_le_bytes()).put(39, &[kind])
    }

    /// Changes bytes of the entry.
    #[must_use]
    pub fn put(mut self, at: usize, field: &[u8]) -> Self {
        self.entry[at..at + field.len()].copy_from_slice(field);
        self
    }

    /// Changes command dword 10 to 15.
    #[must_use]
    pub fn dword(self, number: usize, value: u32) -> Self {
        self.put(number * 4, &value.to_le_bytes())
    }

    /// Connects a queue of 32 entries.
    #[must_use]
    pub fn connect(queue: u16, controller: u16, subsystem: &str, host: &str) -> Self {
        let mut data = vec![0; 1024];
        data[..16].copy_from_slice(&[7; 16]);
        data[16..18].copy_from_slice(&controller.to_le_bytes());
        data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
        data[512..512 + host.len()].copy_from_slice(host.as_bytes());
        Self::new(0x7F, 1, 0).with(&data).put(42, &queue.to_le_bytes()).put(44, &[31, 0])
    }

    /// Reads a property.
    #[must_use]
    pub fn property_get(offset: u32, is_wide: bool) -> Self {
        Self::new(0x7F, 4, 0).put(40, &[u8::from(is_wide)]).dword(11, offset)
    }

    /// Writes a property of 4 bytes.
    #[must_use]
    pub fn property_set(offset: u32, value: u32) -> Self {
        Self::new(0x7F, 0, 0).dword(11, offset).dword(12, value)
    }

    /// Enables a controller, with all command sets.
    #[must_use]
    pub fn enable() -> Self {
        Self::property_set(0x14, 0x0046_0061)
    }

    /// Asks for an Identify structure.
    #[must_use]
    pub fn identify(structure: u8, namespace: u32) -> Self {
        Self::new(0x06, namespace, 4096).dword(10, structure.into())
    }

    /// Asks for a log page.
    #[must_use]
    pub fn log_page(page: u8, length: usize, offset: u32) -> Self {
        let dwords = u32::try_from(length / 4 - 1).expect("short");
        let first = u32::from(page) | (dwords & 0xFFFF) << 16;
        Self::new(0x02, 0, length).dword(10, first).dword(11, dwords >> 16).dword(12, offset)
    }

    /// Reads or writes blocks of 4 KiB.
    #[must_use]
    pub fn blocks(opcode: u8, lba: u64, blocks: u16) -> Self {
        assert!(blocks > 0, "blocks count from 0 on the wire");
        let length = usize::from(blocks) * 4096;
        Self::new(opcode, 1, length).put(40, &lba.to_le_bytes()).dword(12, (blocks - 1).into())
    }
}
