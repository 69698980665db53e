//! The receiving half of a connection: small requests through a buffer, large payloads past it.
//!
//! Small requests come many at a time, and are copied out of the buffer. Of a large payload, little
//! more than the part received with its header is copied. The rest is received in place, and the
//! next header behind it, by one call that does not block. After a large payload only a few
//! headers' worth is received into the buffer, because another payload is likely.

use std::io::{self, IoSliceMut};
use std::ops::Range;

use bytes::Bytes;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, recvmsg};
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount};

use crate::ring::{Descriptor, Ring};

/// Requests without payload are 28 bytes; one receive brings many of them, or several small writes.
/// The rest of a payload is received into its own memory.
const BUFFER_BLOCKS: BlockCount = BlockCount(32);

/// A payload is large from here on: copying it costs more than another call.
const LARGE_BYTES: usize = 16 << 10;

/// Bytes received into the buffer while large payloads are expected.
const LITTLE_BYTES: usize = 512;

/// So much is received without letting others run, at the most and one call more.
const AT_ONCE_BYTES: usize = 256 << 10;

/// The least that a call counts for: a client may send byte by byte.
const CALL_BYTES: usize = 4 << 10;

/// A stream of bytes from a client.
pub struct Input {
    ring: Ring,
    socket: Descriptor,
    /// Lent to the kernel during a receive; gone after an error.
    buffer: Option<AlignedBuffer>,
    start: usize,
    end: usize,
    /// Whether the last payload was large: the next one most likely is.
    large: bool,
    /// Bytes received since the last wait.
    at_once_bytes: usize,
}

impl Input {
    /// The bytes of a socket that nothing else receives from.
    #[must_use]
    pub fn new(ring: &Ring, socket: &Descriptor) -> Self {
        let buffer = Some(AlignedBuffer::zeroed(BUFFER_BLOCKS));
        Self {
            ring: ring.clone(),
            socket: socket.clone(),
            buffer,
            start: 0,
            end: 0,
            large: false,
            at_once_bytes: 0,
        }
    }

    /// Received bytes that were not consumed.
    #[must_use]
    pub fn available(&self) -> &[u8] {
        let buffer = self.buffer.as_ref();
        buffer.map_or(&[], |buffer| &buffer.as_ref()[self.start..self.end])
    }

    /// Takes bytes that are available.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.end - self.start, "only what was received can be taken");
        self.start += count;
    }

    /// Receives more; `false` at the end of the stream.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = self.buffer.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let free = self.compact(&mut buffer);
        let more = if self.large {
            self.receive_now(&mut [IoSliceMut::new(&mut buffer.as_mut()[free.clone()])])?
        } else {
            None
        };
        let count = match more {
            Some(count) => count,
            None => {
                self.at_once_bytes = 0;
                let count;
                (buffer, count) = self.ring.receive(&self.socket, buffer, free).await?;
                count
            }
        };
        self.buffer = Some(buffer);
        self.end += count;
        Ok(count > 0)
    }

    /// Moves the bytes in the buffer to its start; returns the range to receive into.
    fn compact(&mut self, buffer: &mut AlignedBuffer) -> Range<usize> {
        buffer.as_mut().copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let all = BUFFER_BLOCKS.data_bytes();
        self.end..if self.large { (self.end + LITTLE_BYTES).min(all) } else { all }
    }

    /// Receives without blocking; `None` if nothing is there, or so much was received that other
    /// tasks should run.
    fn receive_now(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
        if self.at_once_bytes >= AT_ONCE_BYTES {
            return Ok(None);
        }
        let nothing = &mut RecvAncillaryBuffer::default();
        match recvmsg(&self.socket, slices, nothing, RecvFlags::DONTWAIT) {
            Ok(received) => {
                self.at_once_bytes += received.bytes.max(CALL_BYTES);
                Ok(Some(received.bytes))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives more of a payload, and the bytes behind it; returns the length of the payload so
    /// far. Zero is the end of the stream.
    async fn receive_payload(
        &mut self,
        mut memory: AlignedBuffer,
        rest: Range<usize>,
    ) -> io::Result<(AlignedBuffer, usize)> {
        let mut buffer = self.buffer.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let free = self.compact(&mut buffer);
        let now = rest.start..rest.end.min(rest.start + AT_ONCE_BYTES);
        let behind = if now.end == rest.end { free } else { 0..0 };
        let slices = &mut [
            IoSliceMut::new(&mut memory.as_mut()[now.clone()]),
            IoSliceMut::new(&mut buffer.as_mut()[behind]),
        ];
        let count = self.receive_now(slices)?;
        self.buffer = Some(buffer);
        let Some(count) = count else {
            self.at_once_bytes = 0;
            return self.ring.receive(&self.socket, memory, rest).await;
        };
        let here = count.min(now.len());
        self.end += count - here;
        assert!(self.end <= BUFFER_BLOCKS.data_bytes(), "bytes behind a payload fit the buffer");
        Ok((memory, here))
    }

    /// The next `N` bytes; `None` if the stream ends before them.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn take<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
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
    ///
    /// # Errors
    /// The kernel's, or `UnexpectedEof` if the stream ends before.
    pub async fn payload(&mut self, length: usize) -> io::Result<Bytes> {
        self.large = length >= LARGE_BYTES;
        if length == 0 {
            return Ok(Bytes::new());
        }
        let blocks = BlockCount::of_data_bytes(length.next_multiple_of(BLOCK_BYTES));
        // All that is given out of it is filled.
        let mut memory = AlignedBuffer::unfilled(blocks);
        let mut done = length.min(self.available().len());
        memory.as_mut()[..done].copy_from_slice(&self.available()[..done]);
        self.consume(done);
        while done < length {
            let count;
            (memory, count) = self.receive_payload(memory, done..length).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            done += count;
        }
        Ok(memory.freeze().slice(..length))
    }

    /// Throws away the next `length` bytes.
    ///
    /// # Errors
    /// The kernel's, or `UnexpectedEof` if the stream ends before.
    pub async fn skip(&mut self, mut length: u64) -> io::Result<()> {
        self.large = false;
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
