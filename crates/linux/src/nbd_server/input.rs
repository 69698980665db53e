//! The receiving half of a connection: small things through a buffer, payloads past it.

use std::io;

use bytes::Bytes;
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount};

use crate::{Descriptor, Ring};

/// Requests without payload are 28 bytes; one receive brings many of them, or several small
/// writes. What is left of a payload afterwards goes straight to its own memory.
const BUFFER_BLOCKS: BlockCount = BlockCount(32);

/// A stream of bytes from a client.
pub(super) struct Input {
    ring: Ring,
    socket: Descriptor,
    /// Lent to the kernel during a receive; gone after an error.
    buffer: Option<AlignedBuffer>,
    start: usize,
    end: usize,
}

impl Input {
    pub(super) fn new(ring: &Ring, socket: &Descriptor) -> Self {
        let buffer = Some(AlignedBuffer::zeroed(BUFFER_BLOCKS));
        Self { ring: ring.clone(), socket: socket.clone(), buffer, start: 0, end: 0 }
    }

    /// What has been received and not been taken.
    pub(super) fn available(&self) -> &[u8] {
        let buffer = self.buffer.as_ref();
        buffer.map_or(&[], |buffer| &buffer.as_ref()[self.start..self.end])
    }

    /// Takes bytes that are available.
    pub(super) fn consume(&mut self, count: usize) {
        assert!(count <= self.end - self.start, "only what was received can be taken");
        self.start += count;
    }

    /// Receives more; `false` at the end of the stream.
    pub(super) async fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = self.buffer.take().ok_or(io::ErrorKind::BrokenPipe)?;
        buffer.as_mut().copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let free = self.end..BUFFER_BLOCKS.data_bytes();
        let (buffer, count) = self.ring.receive(&self.socket, buffer, free).await?;
        self.buffer = Some(buffer);
        self.end += count;
        Ok(count > 0)
    }

    /// The next `N` bytes; `None` if the stream ends before them.
    pub(super) async fn take<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        loop {
            if let Some(bytes) = self.available().first_chunk().copied() {
                self.consume(N);
                return Ok(Some(bytes));
            }
            if !self.receive().await? {
                return Ok(None);
            }
        }
    }

    /// The next `length` bytes in page-aligned memory of their own.
    pub(super) async fn payload(&mut self, length: usize) -> io::Result<Bytes> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        let blocks = BlockCount::of_data_bytes(length.next_multiple_of(BLOCK_BYTES));
        let mut memory = AlignedBuffer::zeroed(blocks);
        let mut done = length.min(self.available().len());
        memory.as_mut()[..done].copy_from_slice(&self.available()[..done]);
        self.consume(done);
        while done < length {
            let count;
            (memory, count) = self.ring.receive(&self.socket, memory, done..length).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            done += count;
        }
        Ok(memory.freeze().slice(..length))
    }

    /// Throws away the next `length` bytes.
    pub(super) async fn skip(&mut self, mut length: u64) -> io::Result<()> {
        loop {
            let available = self.available().len();
            let now = usize::try_from(length).unwrap_or(usize::MAX).min(available);
            self.consume(now);
            length -= now as u64;
            if length == 0 {
                return Ok(());
            }
            if !self.receive().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
