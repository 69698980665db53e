//! A block device addressed in bytes, for front ends whose clients write less than a block.
//!
//! Part of a block is written by reading the block, changing it and writing it back. Invariants:
//! - Two such updates of one block never overlap in time, so none is lost.
//! - An update and any other change of the same block take effect in the order of their requests.
//!   The device itself orders changes of whole blocks, which do not wait for each other.
//! - Reads never wait: a block is one register, before or after an update.
//!
//! So every change goes through one byte device, which all front ends share. Clones are handles to
//! it. It is a block device too, for front ends that write whole blocks only, and `new` of such a
//! handle returns the same byte device.
//!
//! An unaligned request is no more atomic than the device's own. After a crash some of its blocks
//! may be old and some new, but every block has either its old or its updated contents.

use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;

use super::claims::{Access, Claim, Claims};
use crate::{
    AlignedBuffer, BLOCK_BYTES, BlockCount, BlockDevice, BlockDeviceInfo, BlockError, ExtentState,
    Lba,
};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A run of bytes in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteExtent {
    /// Length in bytes.
    pub length_bytes: u64,
    /// Its state.
    pub state: ExtentState,
}

/// A [`BlockDevice`] with requests of any alignment. Clones are handles to the same.
#[derive(Clone)]
pub struct ByteDevice {
    device: Rc<dyn BlockDevice>,
    claims: Rc<Claims>,
}

/// A byte range seen as blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    /// First byte.
    start: u64,
    /// First byte behind it.
    end: u64,
}

impl Span {
    /// Every block touched.
    fn touched(self) -> Range<u64> {
        self.start / BLOCK..self.end.div_ceil(BLOCK)
    }

    /// The blocks covered as a whole; empty if there are none.
    fn whole(self) -> Range<u64> {
        let first = self.start.div_ceil(BLOCK);
        first..(self.end / BLOCK).max(first)
    }

    fn is_aligned(self) -> bool {
        self.start.is_multiple_of(BLOCK) && self.end.is_multiple_of(BLOCK)
    }

    fn access(self) -> Access {
        if self.is_aligned() { Access::Whole } else { Access::Partial }
    }

    /// The parts of the span in blocks that it does not cover, each inside one block.
    fn edges(self) -> impl Iterator<Item = Self> {
        let head_end = self.start.next_multiple_of(BLOCK).min(self.end);
        let tail_start = (self.end / BLOCK * BLOCK).max(head_end);
        let edges =
            [Self { start: self.start, end: head_end }, Self { start: tail_start, end: self.end }];
        edges.into_iter().filter(|edge| edge.start < edge.end)
    }

    /// Where the span's bytes lie in a buffer that starts with its first block.
    fn in_buffer(self) -> Range<usize> {
        let base = self.touched().start * BLOCK;
        index(self.start - base)..index(self.end - base)
    }
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("usize is 64 bits wide")
}

fn count(blocks: &Range<u64>) -> u32 {
    u32::try_from(blocks.end - blocks.start).expect("the blocks of one request fit 32 bits")
}

impl ByteDevice {
    /// Serves a block device in bytes. Every change must go through the same `ByteDevice`; a device
    /// that has one already returns another handle to it.
    #[must_use]
    pub fn new(device: Rc<dyn BlockDevice>) -> Self {
        let in_bytes = device.in_bytes();
        in_bytes.unwrap_or_else(|| Self { device, claims: Rc::default() })
    }

    /// The properties of the device.
    #[must_use]
    pub fn info(&self) -> BlockDeviceInfo {
        self.device.info()
    }

    /// Size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.info().blocks * BLOCK
    }

    /// Reads a range; the pieces are of any length.
    ///
    /// # Errors
    /// The error of the device, or a range beyond its end.
    pub async fn read(&self, offset: u64, length: u32) -> Result<Vec<Bytes>, BlockError> {
        let span = self.span(offset, u64::from(length))?;
        let blocks = span.touched();
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let mut pieces = self.device.read(Lba(blocks.start), count(&blocks)).await?;
        let found: usize = pieces.iter().map(Bytes::len).sum();
        assert_eq!(found, index((blocks.end - blocks.start) * BLOCK), "a read returns its blocks");
        if !span.is_aligned() {
            cut(&mut pieces, span.in_buffer());
        }
        Ok(pieces)
    }

    /// Writes a range; with `fua` it is durable when the future is done.
    ///
    /// # Errors
    /// The error of the device, or a range beyond its end.
    pub async fn write(&self, offset: u64, data: Vec<Bytes>, fua: bool) -> Result<(), BlockError> {
        let length: usize = data.iter().map(Bytes::len).sum();
        let span = self.span(offset, length as u64)?;
        let blocks = span.touched();
        if span.start == span.end {
            return Ok(());
        }
        let _claim = self.claim(span).await;
        let whole_pieces = data.iter().all(|piece| piece.len().is_multiple_of(BLOCK_BYTES));
        if span.is_aligned() && whole_pieces {
            return self.device.write(Lba(blocks.start), data, fua).await;
        }
        let mut buffer = AlignedBuffer::zeroed(BlockCount(count(&blocks)));
        self.read_edges(span, &mut buffer).await?;
        let mut at = span.in_buffer().start;
        for piece in data {
            buffer.as_mut()[at..at + piece.len()].copy_from_slice(&piece);
            at += piece.len();
        }
        assert_eq!(at, span.in_buffer().end, "the pieces fill the range");
        self.device.write(Lba(blocks.start), vec![buffer.freeze()], fua).await
    }

    /// Makes a range read as zeros, as a write of zeros would.
    ///
    /// # Errors
    /// The error of the device, or a range beyond its end.
    pub async fn write_zeroes(
        &self,
        offset: u64,
        length: u64,
        fua: bool,
    ) -> Result<(), BlockError> {
        let span = self.span(offset, length)?;
        if span.start == span.end {
            return Ok(());
        }
        let _claim = self.claim(span).await;
        for edge in span.edges() {
            let mut buffer = AlignedBuffer::zeroed(BlockCount(1));
            self.read_edges(edge, &mut buffer).await?;
            let lba = Lba(edge.touched().start);
            self.device.write(lba, vec![buffer.freeze()], fua).await?;
        }
        let whole = span.whole();
        if whole.is_empty() {
            return Ok(());
        }
        self.device.write_zeroes(Lba(whole.start), whole.end - whole.start, fua).await
    }

    /// Discards a range: whole blocks read as zeros from now on, partly covered blocks keep their
    /// contents.
    ///
    /// # Errors
    /// The error of the device, or a range beyond its end.
    pub async fn trim(&self, offset: u64, length: u64, fua: bool) -> Result<(), BlockError> {
        let whole = self.span(offset, length)?.whole();
        if whole.is_empty() {
            return Ok(());
        }
        let _claim = self.claims.claim(whole.clone(), Access::Whole).await;
        self.device.trim(Lba(whole.start), whole.end - whole.start, fua).await
    }

    /// Makes every request completed so far durable.
    ///
    /// # Errors
    /// The error of the device.
    pub async fn flush(&self) -> Result<(), BlockError> {
        self.device.flush().await
    }

    /// The states of a range, at most `limit` extents from its start.
    ///
    /// # Errors
    /// The error of the device, or a range beyond its end.
    pub async fn extents(
        &self,
        offset: u64,
        length: u64,
        limit: usize,
    ) -> Result<Vec<ByteExtent>, BlockError> {
        let span = self.span(offset, length)?;
        let blocks = span.touched();
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let found =
            self.device.extents(Lba(blocks.start), blocks.end - blocks.start, limit).await?;
        let mut at = blocks.start * BLOCK;
        let clipped = found.into_iter().map(|extent| {
            let end = at + extent.blocks * BLOCK;
            let length_bytes = end.min(span.end).saturating_sub(at.max(span.start));
            at = end;
            ByteExtent { length_bytes, state: extent.state }
        });
        Ok(clipped.filter(|extent| extent.length_bytes > 0).collect())
    }

    fn span(&self, offset: u64, length: u64) -> Result<Span, BlockError> {
        let capacity = self.info().blocks;
        match offset.checked_add(length) {
            Some(end) if end <= capacity * BLOCK => Ok(Span { start: offset, end }),
            _ => Err(BlockError::OutOfRange {
                lba: Lba(offset / BLOCK),
                blocks: length.div_ceil(BLOCK),
                capacity,
            }),
        }
    }

    async fn claim(&self, span: Span) -> Claim<'_> {
        self.claims.claim(span.touched(), span.access()).await
    }

    /// Fills those bytes of `buffer`, which starts with the span's first block, that belong to
    /// the span's blocks but not to the span. The span itself stays as it is.
    async fn read_edges(&self, span: Span, buffer: &mut AlignedBuffer) -> Result<(), BlockError> {
        let first = span.touched().start;
        let mut last_read = None;
        for edge in span.edges() {
            let block = edge.touched().start;
            if last_read == Some(block) {
                continue;
            }
            last_read = Some(block);
            let pieces = self.device.read(Lba(block), 1).await?;
            let at = index((block - first) * BLOCK);
            let inside = span.in_buffer();
            let old = pieces.iter().flat_map(|piece| piece.iter().copied());
            for (position, byte) in (at..at + BLOCK_BYTES).zip(old) {
                if !inside.contains(&position) {
                    buffer.as_mut()[position] = byte;
                }
            }
        }
        Ok(())
    }
}

/// Cuts a list of slices to a range of its bytes.
fn cut(pieces: &mut Vec<Bytes>, range: Range<usize>) {
    let mut at = 0;
    for piece in pieces.iter_mut() {
        let start = range.start.clamp(at, at + piece.len());
        let end = range.end.clamp(at, at + piece.len());
        let whole = piece.len();
        *piece = piece.slice(start - at..end - at);
        at += whole;
    }
    pieces.retain(|piece| !piece.is_empty());
}

mod aligned;
#[cfg(test)]
mod tests;
