//! Operations on files, resumed until they are complete.

use std::io;
use std::ops::Range;

use bytes::Bytes;
use io_uring::opcode;
use io_uring::types::FsyncFlags;
use zoneweave_zoned::AlignedBuffer;

use super::held::{Gather, Held};
use super::reactor::{Descriptor, OnDrop, Ring};

impl Ring {
    /// Reads `length` bytes at `offset` into the start of `buffer`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before; otherwise the kernel's.
    ///
    /// # Panics
    /// If the buffer is shorter than `length`.
    pub async fn read_exact_at(
        &self,
        file: &Descriptor,
        mut buffer: AlignedBuffer,
        length: usize,
        offset: u64,
    ) -> io::Result<AlignedBuffer> {
        let mut done = 0;
        while done < length {
            let from = offset + done as u64;
            let (returned, count) =
                self.read_once(file, buffer, done..length, from, OnDrop::Abandon).await;
            buffer = returned;
            match count {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(buffer)
    }

    /// Reads at most `length` bytes from a descriptor without offset, such as an event counter. May
    /// wait for ever.
    ///
    /// # Errors
    /// The kernel's.
    ///
    /// # Panics
    /// If the buffer is shorter than `length`.
    pub async fn read_some(
        &self,
        file: &Descriptor,
        buffer: AlignedBuffer,
        length: usize,
    ) -> io::Result<(AlignedBuffer, usize)> {
        // An offset of -1 means "the current position".
        let (buffer, count) =
            self.read_once(file, buffer, 0..length, u64::MAX, OnDrop::Cancel).await;
        Ok((buffer, count?))
    }

    async fn read_once(
        &self,
        file: &Descriptor,
        buffer: AlignedBuffer,
        range: Range<usize>,
        offset: u64,
        on_drop: OnDrop,
    ) -> (AlignedBuffer, io::Result<usize>) {
        let reading = self.start(file, Held::Buffer(buffer), on_drop, |descriptor, held| {
            let (pointer, length) = held.writable(range);
            opcode::Read::new(descriptor, pointer, length).offset(offset).build()
        });
        reading.await.into_buffer()
    }

    /// Writes a list of slices at `offset`, all of it.
    ///
    /// # Errors
    /// The kernel's; part of the data may have been written.
    pub async fn write_all_at(
        &self,
        file: &Descriptor,
        data: Vec<Bytes>,
        offset: u64,
    ) -> io::Result<()> {
        self.write_all(file, data, offset, 0).await
    }

    /// As [`Ring::write_all_at`], and makes the data durable (`O_DSYNC`). On a block device opened
    /// with `O_DIRECT` that is Force Unit Access, if the device has it.
    ///
    /// # Errors
    /// As [`Ring::write_all_at`].
    pub async fn write_all_durably_at(
        &self,
        file: &Descriptor,
        data: Vec<Bytes>,
        offset: u64,
    ) -> io::Result<()> {
        self.write_all(file, data, offset, libc::RWF_DSYNC).await
    }

    async fn write_all(
        &self,
        file: &Descriptor,
        data: Vec<Bytes>,
        mut offset: u64,
        flags: libc::c_int,
    ) -> io::Result<()> {
        let mut rest = data;
        rest.retain(|piece| !piece.is_empty());
        while !rest.is_empty() {
            let held = Held::Gather(Gather::new(rest));
            let writing = self.start(file, held, OnDrop::Abandon, |descriptor, held| {
                let (vectors, count) = held.gather().vectors();
                opcode::Writev::new(descriptor, vectors, count)
                    .offset(offset)
                    .rw_flags(flags)
                    .build()
            });
            let (left, count) = writing.await.into_rest();
            rest = left;
            match count {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => offset += count as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes the file's data durable, and the metadata needed to read it back (`fdatasync`).
    ///
    /// # Errors
    /// The kernel's. After an error, all data written since the last success is uncertain.
    pub async fn sync_data(&self, file: &Descriptor) -> io::Result<()> {
        let syncing = self.start(file, Held::Nothing, OnDrop::Abandon, |descriptor, _| {
            opcode::Fsync::new(descriptor).flags(FsyncFlags::DATASYNC).build()
        });
        syncing.await.result.map(drop)
    }

    /// Frees the blocks of a range, which reads as zeros afterwards; the file keeps its size.
    ///
    /// # Errors
    /// `Unsupported` if the file system cannot do that; otherwise the kernel's.
    pub async fn punch_hole(&self, file: &Descriptor, range: Range<u64>) -> io::Result<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let length = range.end - range.start;
        if length == 0 {
            return Ok(());
        }
        let punching = self.start(file, Held::Nothing, OnDrop::Abandon, |descriptor, _| {
            opcode::Fallocate::new(descriptor, length).offset(range.start).mode(mode).build()
        });
        punching.await.result.map(drop)
    }
}
