//! Chunks that wait to be written in place: a drive executes the writes of a zone in order.
//!
//! Every zone of a segment proceeds by itself: a stripe waits for the slowest of its zones, and
//! zones do not wait for each other. A zone has one write in flight at a time. It holds one chunk
//! or, with `coalescing`, several.
//!
//! Invariants:
//! * Chunks are queued in the order of their rows, without a gap.
//! * Nothing waits unless a write is in flight.
//! * After a failed write nothing more is written, as later chunks belong behind the missing one.
//!   Nor is anything written after the drive was taken out of service.

use std::collections::VecDeque;

use zoneweave_zoned::{BlockCount, Payload, ZoneOffset};

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};
use crate::log::write::zone::coalescing::WriteLimit;

/// The pending chunks of one zone, with a receiver for each.
pub(in crate::log) struct ZoneQueue<T> {
    /// Chunks of one write are merged as they arrive.
    waiting: VecDeque<ZoneWrite<T>>,
    waiting_blocks: u32,
    /// Blocks of the last write. When it completes, the answered clients write about as much again.
    last_blocks: u32,
    writing: bool,
    broken: bool,
}

/// A chunk to be written.
pub(in crate::log) struct Chunk<T> {
    /// Its place in the zone.
    pub at: ZoneOffset,
    /// Data and block metadata.
    pub payload: Payload,
    /// Whether it has to be durable when it completes.
    pub fua: bool,
    /// Receives the outcome.
    pub done: T,
}

/// One write, with a receiver for each of its chunks.
pub(super) struct ZoneWrite<T> {
    /// Start of the write in the zone.
    pub at: ZoneOffset,
    /// Its chunks, in order.
    pub payload: Payload,
    /// Whether it has to be durable when it completes.
    pub fua: bool,
    /// Receive the outcome, one for each chunk.
    pub done: Vec<T>,
    blocks: BlockCount,
    /// Metadata of all of them, if there is more than one.
    oob: Vec<u8>,
}

/// The fate of a queued chunk.
pub(super) enum Queued<T> {
    /// The caller has to start a write.
    Start,
    /// A write is in flight; the chunk is written after it.
    Behind,
    /// It is not written, as a chunk before it was not.
    Refused(T),
}

impl<T> Default for ZoneQueue<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            waiting_blocks: 0,
            last_blocks: 0,
            writing: false,
            broken: false,
        }
    }
}

impl<T> ZoneQueue<T> {
    /// Queues a chunk; it joins the last pending write unless that became too large.
    pub(super) fn push(&mut self, chunk: Chunk<T>, limit: WriteLimit) -> Queued<T> {
        if self.broken {
            mark(Mark::BehindFailedWrite);
            return Queued::Refused(chunk.done);
        }
        let blocks = chunk.payload.blocks();
        assert!(
            self.writing || self.waiting.is_empty(),
            "{} blocks wait in an idle zone",
            self.waiting_blocks
        );
        if let Some(last) = self.waiting.back() {
            let end = last.at.plus(last.blocks);
            assert!(chunk.at == end, "a chunk for block {} behind block {}", chunk.at.0, end.0);
        }
        self.waiting_blocks += blocks.0;
        let most_blocks = limit.bound(self.last_blocks + self.waiting_blocks);
        match self.waiting.back_mut() {
            Some(last) if last.blocks.0 + blocks.0 <= most_blocks => last.add(chunk, blocks),
            last => {
                mark_if(Mark::WritesOfLikeSize, || {
                    last.is_some_and(|last| last.blocks.0 + blocks.0 <= limit.max_write)
                });
                self.waiting.push_back(ZoneWrite::new(chunk, blocks));
            }
        }
        if std::mem::replace(&mut self.writing, true) { Queued::Behind } else { Queued::Start }
    }

    /// Backlog in blocks, including the write in flight; 0 if the queue is idle.
    pub(super) fn blocks_to_write(&self) -> u32 {
        if self.writing { self.last_blocks + self.waiting_blocks } else { 0 }
    }

    /// The next write; `None` if the queue is empty.
    pub(super) fn next(&mut self) -> Option<ZoneWrite<T>> {
        let next = self.waiting.pop_front();
        self.writing = next.is_some();
        if let Some(next) = &next {
            self.last_blocks = next.blocks.0;
            assert!(
                next.blocks.0 <= self.waiting_blocks,
                "a write of {} of {} blocks",
                next.blocks,
                self.waiting_blocks
            );
            self.waiting_blocks -= next.blocks.0;
        }
        mark_if(Mark::ChunksGathered, || next.as_ref().is_some_and(|next| next.done.len() > 1));
        next.map(ZoneWrite::whole)
    }

    /// Stops all writes; returns the receivers of the pending chunks.
    pub(in crate::log) fn break_off(&mut self) -> Vec<T> {
        assert!(
            self.writing || self.waiting.is_empty(),
            "{} blocks wait in an idle zone",
            self.waiting_blocks
        );
        self.broken = true;
        self.waiting_blocks = 0;
        let behind: Vec<_> = self.waiting.drain(..).flat_map(|write| write.done).collect();
        behind.iter().for_each(|_| mark(Mark::BehindFailedWrite));
        behind
    }
}

impl<T> ZoneWrite<T> {
    fn new(Chunk { at, payload, fua, done }: Chunk<T>, blocks: BlockCount) -> Self {
        Self { at, payload, fua, done: vec![done], blocks, oob: Vec::new() }
    }

    fn add(&mut self, Chunk { at, payload, fua, done }: Chunk<T>, blocks: BlockCount) {
        let end = self.at.plus(self.blocks);
        assert!(at == end, "a chunk for block {} behind block {}", at.0, end.0);
        if self.oob.is_empty() {
            self.oob.extend_from_slice(&self.payload.oob);
        }
        self.oob.extend_from_slice(&payload.oob);
        self.blocks.0 += blocks.0;
        self.payload.data.extend(payload.data);
        self.fua |= fua && !mutant(Mutant::GatheredFuaOfFirst);
        self.done.push(done);
    }

    fn whole(mut self) -> Self {
        if self.done.len() > 1 {
            let bytes = self.oob.len();
            assert!(bytes == self.blocks.oob_bytes(), "{bytes} of metadata for {}", self.blocks);
            self.payload.oob = std::mem::take(&mut self.oob).into();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use zoneweave_zoned::{OOB_BYTES, zero_blocks};

    use super::*;

    fn chunk(at: u32, blocks: u32, stamp: u8, fua: bool) -> Chunk<u8> {
        let oob = vec![stamp; blocks as usize * OOB_BYTES];
        let payload = Payload::new(zero_blocks(BlockCount(blocks)), Bytes::from(oob));
        Chunk { at: ZoneOffset(at), payload, fua, done: stamp }
    }

    #[test]
    fn what_waits_goes_together_in_order_and_durable_if_part_of_it_is() {
        let mut queue = ZoneQueue::default();
        assert!(matches!(queue.push(chunk(1, 2, 1, false), WriteLimit::up_to(6)), Queued::Start));
        assert!(matches!(queue.push(chunk(3, 2, 2, false), WriteLimit::up_to(6)), Queued::Behind));
        assert!(matches!(queue.push(chunk(5, 2, 3, true), WriteLimit::up_to(6)), Queued::Behind));
        assert!(matches!(queue.push(chunk(7, 2, 4, false), WriteLimit::up_to(6)), Queued::Behind));
        let ZoneWrite { at, payload, fua, done, .. } = queue.next().expect("chunks wait");
        assert_eq!((at, payload.blocks().0, fua), (ZoneOffset(1), 6, true));
        assert_eq!(done, [1, 2, 3]);
        payload.assert_whole();
        assert_eq!((payload.block_oob(1)[0], payload.block_oob(5)[0]), (1, 3));
        let last = queue.next().expect("a chunk waits");
        assert_eq!((last.at, last.payload.blocks().0, last.fua), (ZoneOffset(7), 2, false));
        last.payload.assert_whole();
        assert!(queue.next().is_none());
        let again = queue.push(chunk(9, 2, 5, false), WriteLimit::up_to(6));
        assert!(matches!(again, Queued::Start), "nobody writes any more");
    }

    #[test]
    fn a_chunk_is_written_however_large_and_alone_if_asked_for() {
        let mut queue = ZoneQueue::default();
        queue.push(chunk(1, 4, 1, false), WriteLimit::ALONE);
        queue.push(chunk(5, 4, 2, false), WriteLimit::ALONE);
        assert_eq!(queue.next().expect("a chunk waits").payload.blocks().0, 4);
        assert_eq!(queue.next().expect("a chunk waits").at, ZoneOffset(5));
    }

    #[test]
    fn a_write_is_no_larger_than_half_of_what_there_is_to_write() {
        let mut queue = ZoneQueue::default();
        assert_eq!(sizes(&mut queue, 3, HALVES), [6], "halves would be too small");
        assert_eq!(sizes(&mut queue, 12, HALVES), [6, 12, 6], "half of 6 and what waits");
        let most = [6, 12, 16, 16, 16, 14];
        assert_eq!(sizes(&mut queue, 40, HALVES), most, "never more than the most");
    }

    #[test]
    fn writes_are_small_beside_zones_that_have_as_much_to_write() {
        let mut queue = ZoneQueue::default();
        let beside = |blocks| WriteLimit { other_blocks: blocks, ..HALVES };
        assert_eq!(sizes(&mut queue, 8, beside(16)), [6, 6, 4], "no more than six");
        assert_eq!(sizes(&mut queue, 12, beside(2)), [4, 8, 12], "much more than the other's two");
    }

    const HALVES: WriteLimit =
        WriteLimit { min_split: 4, max_write: 16, max_write_shared: 6, other_blocks: 0 };

    /// The sizes of the writes that so many chunks of two blocks become.
    fn sizes(queue: &mut ZoneQueue<u8>, chunks: u32, limit: WriteLimit) -> Vec<u32> {
        for at in 0..chunks {
            queue.push(chunk(2 * at, 2, 0, false), limit);
        }
        let writes = std::iter::from_fn(|| queue.next());
        writes.map(|write| write.payload.blocks().0).collect()
    }

    #[test]
    fn nothing_is_written_behind_a_failure() {
        let mut queue = ZoneQueue::default();
        queue.push(chunk(1, 1, 1, false), WriteLimit::ALONE);
        queue.push(chunk(2, 1, 2, false), WriteLimit::ALONE);
        let write = queue.next().expect("a chunk waits");
        assert_eq!((write.done, queue.break_off()), (vec![1], vec![2]));
        assert!(queue.next().is_none());
        assert!(matches!(queue.push(chunk(3, 1, 3, false), WriteLimit::ALONE), Queued::Refused(3)));
        assert!(queue.next().is_none());
    }
}
