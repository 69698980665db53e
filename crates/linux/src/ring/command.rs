//! NVMe commands by `IORING_OP_URING_CMD`, with the memory that they take and bring.

use std::io;

use bytes::Bytes;
use io_uring::opcode;
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES};

use super::held::{CommandMemory, Gather, Held, PIECES_MAX, Side};
use super::reactor::{Descriptor, OnDrop, Ring};

/// `NVME_URING_CMD_IO`: one buffer. `_IOWR('N', 0x80, struct nvme_uring_cmd)`.
const COMMAND_IO: u32 = 0xC048_4E80;
/// `NVME_URING_CMD_IO_VEC`: a list of buffers.
const COMMAND_IO_VECTORS: u32 = 0xC048_4E81;

/// In a completion, above its status.
const DO_NOT_RETRY: usize = 1 << 14;

/// NVMe's number of an I/O command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opcode(pub(crate) u8);

/// Memory for a command.
pub(crate) enum Lent {
    Nothing,
    /// Data for the drive to read.
    Out(Vec<Bytes>),
    /// Memory for the drive to write: the start of a buffer, and a length.
    In(AlignedBuffer, usize),
}

/// A command to the namespace behind a character device.
pub(crate) struct DeviceCommand {
    pub(crate) opcode: Opcode,
    pub(crate) namespace: u32,
    /// Command dwords 10 to 15.
    pub(crate) dwords: [u32; 6],
    pub(crate) data: Lent,
    pub(crate) metadata: Lent,
    /// After which the kernel aborts the command.
    pub(crate) timeout_ms: u32,
}

/// The outcome of a command.
pub(crate) struct CommandDone {
    /// The NVMe status, zero for success; or why the kernel has none.
    pub(crate) status: io::Result<u16>,
    /// Whether the drive, if it failed, says that the same command would fail again (Do Not Retry).
    pub(crate) is_final: bool,
    /// The first two dwords of the completion.
    pub(crate) result: u64,
    /// The command's memory: filled, if the drive was to fill it and has succeeded.
    pub(crate) data: Lent,
    pub(crate) metadata: Lent,
}

/// Bytes for a command in a large entry; the kernel's `struct nvme_uring_cmd` takes 72 of them.
const ENCODED_BYTES: usize = 80;

/// Where a buffer is, and how long: bytes, or slices if it is a list of them.
#[derive(Clone, Copy, Default)]
struct Place {
    address: u64,
    length: u32,
    is_list: bool,
}

impl Side {
    fn new(lent: Lent) -> Self {
        match lent {
            Lent::Nothing => Self::Nothing,
            Lent::Out(pieces) => {
                // The command's length is fixed: the drive would read past a shortened list.
                assert!(pieces.len() <= PIECES_MAX, "{} pieces for a command", pieces.len());
                Self::Out(Gather::new(pieces))
            }
            Lent::In(buffer, bytes) => {
                assert!(bytes <= buffer.as_ref().len(), "the drive would write past the buffer");
                Self::In(buffer, bytes)
            }
        }
    }

    /// Makes the pages that the drive is to fill this process's own, by a write to each.
    ///
    /// Some kernels take the memory for the metadata of a read for memory that the drive only reads
    /// ("block: flip iter directions in `blk_rq_integrity_map_user()`"). If nothing was written to
    /// a page yet, the drive then fills the page of zeros that all processes share: the next
    /// command overwrites the metadata, and fresh memory of every process holds it.
    fn own_pages(&mut self) {
        if let Self::In(buffer, bytes) = self {
            buffer.as_mut()[..*bytes].chunks_mut(BLOCK_BYTES).for_each(|page| page[0] = 0);
        }
    }

    fn place(&mut self) -> Place {
        let length = |bytes: usize| u32::try_from(bytes).expect("a command's bytes fit 32 bits");
        match self {
            Self::Nothing => Place::default(),
            Self::In(buffer, bytes) => {
                let address = buffer.as_mut().as_mut_ptr().expose_provenance() as u64;
                Place { address, length: length(*bytes), is_list: false }
            }
            Self::Out(gather) => match gather.only() {
                Some(piece) => {
                    let address = piece.as_ptr().expose_provenance() as u64;
                    Place { address, length: length(piece.len()), is_list: false }
                }
                None => {
                    let (vectors, count) = gather.vectors();
                    let address = vectors.expose_provenance() as u64;
                    Place { address, length: count, is_list: true }
                }
            },
        }
    }

    fn into_lent(self) -> Lent {
        match self {
            Self::Nothing => Lent::Nothing,
            Self::Out(gather) => Lent::Out(gather.after(0)),
            Self::In(buffer, bytes) => Lent::In(buffer, bytes),
        }
    }
}

impl Ring {
    /// Runs a command. Its memory belongs to the kernel until completion, even if the future is
    /// dropped.
    ///
    /// # Panics
    /// If the ring's entries are small (see [`Ring::take_commands`]), or metadata is in pieces.
    pub(crate) async fn command(&self, drive: &Descriptor, command: DeviceCommand) -> CommandDone {
        let DeviceCommand { opcode, namespace, dwords, data, metadata, timeout_ms } = command;
        let mut memory = CommandMemory { data: Side::new(data), metadata: Side::new(metadata) };
        memory.metadata.own_pages();
        let held = Held::Command(memory);
        let (operation, entry) = self.begin(drive, held, OnDrop::Abandon, |descriptor, held| {
            let memory = held.command();
            let (data, metadata) = (memory.data.place(), memory.metadata.place());
            assert!(!metadata.is_list, "metadata is one slice");
            let kind = if data.is_list { COMMAND_IO_VECTORS } else { COMMAND_IO };
            let encoded = encode(opcode, namespace, dwords, data, metadata, timeout_ms);
            opcode::UringCmd80::new(descriptor, kind).cmd(encoded).build()
        });
        self.0.enqueue_large(entry.user_data(operation.user_data));
        let finished = operation.await;
        let Held::Command(memory) = finished.held else { unreachable!("started with a command") };
        let status = |bits: usize| u16::try_from(bits & 0x7FF).expect("eleven bits");
        CommandDone {
            is_final: finished.result.as_ref().is_ok_and(|bits| bits & DO_NOT_RETRY != 0),
            status: finished.result.map(status),
            result: finished.extra,
            data: memory.data.into_lent(),
            metadata: memory.metadata.into_lent(),
        }
    }
}

fn encode(
    opcode: Opcode,
    namespace: u32,
    dwords: [u32; 6],
    data: Place,
    metadata: Place,
    timeout_ms: u32,
) -> [u8; ENCODED_BYTES] {
    let mut bytes = [0; ENCODED_BYTES];
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(0, &[opcode.0]);
    put(4, &namespace.to_ne_bytes());
    put(16, &metadata.address.to_ne_bytes());
    put(24, &data.address.to_ne_bytes());
    put(32, &metadata.length.to_ne_bytes());
    put(36, &data.length.to_ne_bytes());
    for (index, dword) in dwords.iter().enumerate() {
        put(40 + 4 * index, &dword.to_ne_bytes());
    }
    put(64, &timeout_ms.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use zoneweave_zoned::BlockCount;

    use super::*;

    /// A zoned volume without a drive failed reads of sound blocks, and later any program of the
    /// machine crashed: Linux let the drive write metadata to the page of zeros.
    #[test]
    fn pages_for_metadata_are_written_to_first() {
        let mut buffer = AlignedBuffer::unfilled(BlockCount(4));
        buffer.as_mut().fill(7);
        let mut side = Side::new(Lent::In(buffer, 2 * BLOCK_BYTES + 64));
        side.own_pages();
        let Side::In(buffer, _) = side else { unreachable!("made above") };
        let first_bytes: Vec<u8> =
            buffer.as_ref().chunks(BLOCK_BYTES).map(|page| page[0]).collect();
        assert_eq!(first_bytes, [0, 0, 0, 7]);
    }

    #[test]
    fn fields_are_where_the_kernel_reads_them() {
        let data = Place { address: 0x1122_3344_5566_7788, length: 0x99AA, is_list: false };
        let metadata = Place { address: 0xFF00, length: 64, is_list: false };
        let bytes = encode(Opcode(0x7D), 3, [10, 11, 12, 13, 14, 15], data, metadata, 77);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(word(0), 0x7D);
        assert_eq!([word(4), word(8), word(12)], [3, 0, 0]);
        assert_eq!([word(16), word(20)], [0xFF00, 0]);
        assert_eq!([word(24), word(28)], [0x5566_7788, 0x1122_3344]);
        assert_eq!([word(32), word(36)], [64, 0x99AA]);
        assert_eq!([word(40), word(60)], [10, 15]);
        assert_eq!([word(64), word(68), word(72), word(76)], [77, 0, 0, 0]);
    }
}
