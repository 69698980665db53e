//! One TCP connection: frames the host's bytes into PDUs, and writes the PDUs of the controller.
//!
//! `receive` parses, `send` writes. A transfer is the data of one command that was asked for by
//! Ready To Transfer.
//!
//! Invariants:
//! * Every length is compared with a limit before memory is taken for it: a head has at most
//!   [`DATA_OFFSET_MAX`] bytes, data in a capsule [`CAPSULE_DATA_BYTES_MAX`], a transfer
//!   [`TRANSFER_BYTES_MAX`].
//! * Data goes only where it was asked for: to the next byte of an open transfer.
//! * A violation is found once, and nothing is received after it.

mod receive;
mod send;

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

use crate::command::Command;
use crate::pdu::{Common, DATA_OFFSET_MAX, Digests, Layout};
use send::Output;

/// Data that a command capsule may carry: what Linux and SPDK hosts use on admin queues, and small
/// writes.
pub const CAPSULE_DATA_BYTES_MAX: usize = 8192;
/// Data of one command: 256 blocks of 4 KiB.
pub const TRANSFER_BYTES_MAX: usize = 1 << 20;
/// Page-aligned data needs no copy on its way to a drive.
const ALIGNMENT: usize = 4096;

/// What a host has sent.
pub(crate) enum Received {
    /// A command, with the data in its capsule.
    Capsule(Capsule),
    /// All data of a transfer.
    Transfer(u16, Bytes, Intact),
    /// The host found that we have broken the rules, and ends the connection.
    Termination,
}

/// A command, with the data in its capsule.
pub(crate) struct Capsule {
    pub(crate) command: Command,
    pub(crate) data: Bytes,
    pub(crate) intact: Intact,
}

/// Whether data had the digest that was sent with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Intact(pub(crate) bool);

/// The agreement about the connection.
#[derive(Clone, Copy)]
struct Terms {
    digests: Digests,
    data_alignment: usize,
}

/// Data of a command on its way.
struct Transfer {
    total_bytes: usize,
    data: BytesMut,
    intact: Intact,
}

/// Where received data goes.
enum Sink {
    Capsule(Command, BytesMut),
    Transfer(u16),
}

enum Stage {
    Common,
    Head { common: Common, layout: Layout },
    Data { sink: Sink, left_bytes: usize, digest: u32 },
    Digest { sink: Sink, digest: u32 },
    Over,
}

pub(crate) struct Transport {
    stage: Stage,
    /// The head of the PDU that is being received, or the digest of its data.
    held: Vec<u8>,
    terms: Option<Terms>,
    transfers: BTreeMap<u16, Transfer>,
    output: Output,
}

impl Transport {
    pub(crate) fn new() -> Self {
        Self {
            stage: Stage::Common,
            held: Vec::with_capacity(DATA_OFFSET_MAX),
            terms: None,
            transfers: BTreeMap::new(),
            output: Output::default(),
        }
    }

    fn digests(&self) -> Digests {
        self.terms.map(|terms| terms.digests).unwrap_or_default()
    }

    /// Nothing is received from now on, and data of transfers is forgotten.
    pub(crate) fn end(&mut self) {
        self.stage = Stage::Over;
        self.transfers.clear();
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Asks for the data of a command.
    pub(crate) fn fetch(&mut self, command: u16, length: usize) {
        assert!((1..=TRANSFER_BYTES_MAX).contains(&length), "the length was checked");
        let transfer =
            Transfer { total_bytes: length, data: aligned(length), intact: Intact(true) };
        let replaced = self.transfers.insert(command, transfer);
        assert!(replaced.is_none(), "a command has one transfer");
        self.send_ready(command, length);
    }
}

/// Memory for `length` bytes that starts at a page.
fn aligned(length: usize) -> BytesMut {
    let mut memory = BytesMut::with_capacity(length + ALIGNMENT - 1);
    let before = memory.as_ptr().align_offset(ALIGNMENT);
    // An offset that cannot be had only costs a copy later.
    if before < ALIGNMENT {
        memory.resize(before, 0);
        drop(memory.split());
    }
    memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_transfers_starts_at_a_page() {
        for length in [1, 4096, 12_288, TRANSFER_BYTES_MAX] {
            let mut memory = aligned(length);
            let start = memory.as_ptr();
            memory.resize(length, 7);
            assert_eq!(memory.as_ptr(), start, "filling it moves nothing");
            assert!((start as usize).is_multiple_of(ALIGNMENT));
        }
    }
}
