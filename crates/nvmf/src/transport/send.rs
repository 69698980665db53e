//! From completions and data to bytes.

use bytes::Bytes;

use super::{TRANSFER_BYTES_MAX, Transport};
use crate::pdu::{self, DIGEST_BYTES, Digests, Violation};

/// Data is copied behind its header up to this size: one piece to send instead of two.
const COPIED_BYTES_MAX: usize = 1024;

/// Bytes for the host, in the order of sending.
#[derive(Default)]
pub(super) struct Output {
    pieces: Vec<Bytes>,
    /// Headers and short data behind the last piece.
    tail: Vec<u8>,
    bytes: usize,
}

impl Output {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.tail.extend_from_slice(bytes);
    }

    fn push_data(&mut self, data: Bytes) {
        if data.len() <= COPIED_BYTES_MAX {
            return self.push(&data);
        }
        self.bytes += data.len();
        if !self.tail.is_empty() {
            self.pieces.push(std::mem::take(&mut self.tail).into());
        }
        self.pieces.push(data);
    }
}

impl Transport {
    /// Bytes that wait to be sent.
    pub(crate) fn output_bytes(&self) -> usize {
        self.output.bytes
    }

    /// Takes everything that waits to be sent.
    pub(crate) fn take_output(&mut self) -> Vec<Bytes> {
        let Output { mut pieces, tail, bytes } = std::mem::take(&mut self.output);
        if !tail.is_empty() {
            pieces.push(tail.into());
        }
        assert_eq!(bytes, pieces.iter().map(Bytes::len).sum::<usize>(), "every byte is counted");
        pieces
    }

    pub(super) fn send_opened(&mut self, digests: Digests) {
        let host_data_max = u32::try_from(TRANSFER_BYTES_MAX).expect("a few MiB");
        self.output.push(&pdu::ic_response(digests, host_data_max));
    }

    pub(super) fn send_termination(&mut self, violation: Violation, header: &[u8]) {
        self.output.push(&pdu::termination(violation, header));
    }

    pub(super) fn send_ready(&mut self, command: u16, length: usize) {
        let length_bytes = u32::try_from(length).expect("transfers are limited");
        self.output.push(&pdu::ready_to_transfer(command, length_bytes, self.digests()));
    }

    pub(crate) fn send_completion(&mut self, completion: &[u8; 16]) {
        self.output.push(&pdu::response(completion, self.digests()));
    }

    /// Sends all data of a command in one PDU.
    pub(crate) fn send_data(&mut self, command: u16, data: Vec<Bytes>) {
        let length: usize = data.iter().map(Bytes::len).sum();
        assert!((1..=TRANSFER_BYTES_MAX).contains(&length), "the command's length was checked");
        let terms = self.terms.expect("commands come on open connections");
        let length_bytes = u32::try_from(length).expect("transfers are limited");
        let head = pdu::controller_data(command, length_bytes, terms.data_alignment, terms.digests);
        self.output.push(&head);
        let mut digest = 0;
        for piece in data {
            if terms.digests.data {
                digest = crc32c::crc32c_append(digest, &piece);
            }
            self.output.push_data(piece);
        }
        if terms.digests.data {
            let bytes: [u8; DIGEST_BYTES] = digest.to_le_bytes();
            self.output.push(&bytes);
        }
    }
}
