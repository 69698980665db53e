//! Chunks that wait to be written in place: a drive takes the writes of a zone one after the other.
//!
//! Every zone of a segment goes on by itself: a stripe waits for the slowest of its zones, the
//! zones do not wait for each other. One write of a zone is under way at a time. It holds one
//! chunk, or, where chunks are gathered, what waits; but no more than half of all that is to be
//! written, what is under way included, where drives are as fast with that. So writes that follow
//! each other are of like size, and nobody waits for one that is much larger than the others. While
//! other zones of the drive are written, of which one has about as much to write, they are small:
//! the drive has enough to do, and what is written to one zone waits for what is written to the
//! others.
//!
//! Invariants: chunks are queued in the order of their rows and leave no gap; nothing waits unless
//! a write is under way; after a write that failed nothing more is written, since what is queued
//! behind it belongs behind what was not written, nor after the drive was taken out of service.

use std::collections::VecDeque;

use zoneweave_zoned::{BlockCount, Payload, ZoneOffset};

use crate::instrument::marks::{Mark, mark, mark_if};
use crate::instrument::mutants::{Mutant, mutant};

/// What waits for one zone, and whom to tell of each chunk.
pub(in crate::log) struct ZoneQueue<T> {
    /// Chunks that go together are put together as they come.
    waiting: VecDeque<ZoneWrite<T>>,
    waiting_blocks: u32,
    /// Where the write ends that is under way.
    end: Option<ZoneOffset>,
    /// Blocks of the write that was taken last. When it is done those who get their answers write
    /// as much again.
    last_blocks: u32,
    writing: bool,
    turn: Turn,
    broken: bool,
}

/// What is next, where zones go on together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Any,
    /// Nothing, although so many blocks wait: more is about to come, and to be written along.
    Lingering {
        blocks: u32,
    },
    /// What there was before, as more came and was written along: if that is all again it is not
    /// one write again.
    Small,
}

/// How large writes become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) struct Gathering {
    /// No two are made of what one could hold unless each is of so many blocks.
    pub least_blocks: u32,
    /// Never more than so many, unless a chunk alone has more.
    pub most_blocks: u32,
    /// The same beside zones of the drive that have about as much to write.
    pub most_beside_blocks: u32,
    /// What the other zones of the drive have to write, the most of one; 0 if none is being
    /// written.
    pub beside_blocks: u32,
}

/// A zone that has so many times as much to write as any other of its drive is what requests wait
/// for. (Of Exp#11, one and a half is too little for 8 KiB with Ns=1 Nl=3, two and a half for 16
/// KiB with Ns=2 Nl=2; four is as good.)
const MUCH_MORE: u32 = 3;

impl Gathering {
    /// Chunks are written one by one.
    pub(in crate::log) const ALONE: Self = Self::up_to(1);

    /// Whatever waits, but no more than so many blocks.
    pub(in crate::log) const fn up_to(most_blocks: u32) -> Self {
        Self {
            least_blocks: most_blocks,
            most_blocks,
            most_beside_blocks: most_blocks,
            beside_blocks: 0,
        }
    }

    /// The most blocks of a write where there are so many to write, with those of the last one.
    fn bound(self, all_blocks: u32) -> u32 {
        let half = all_blocks / 2;
        if half < self.least_blocks {
            return self.most_blocks;
        }
        let much_more = all_blocks > self.beside_blocks.saturating_mul(MUCH_MORE);
        half.min(if much_more { self.most_blocks } else { self.most_beside_blocks })
    }
}

/// A chunk to be written.
pub(in crate::log) struct Chunk<T> {
    /// Where.
    pub at: ZoneOffset,
    /// Data and metadata.
    pub payload: Payload,
    /// Whether it has to be durable when it completes.
    pub fua: bool,
    /// Whom to tell.
    pub done: T,
}

/// One write, and whom to tell how it went.
pub(in crate::log) struct ZoneWrite<T> {
    /// Where it starts.
    pub at: ZoneOffset,
    /// Its chunks, one behind the other.
    pub payload: Payload,
    /// Whether it has to be durable when it completes.
    pub fua: bool,
    /// Whom to tell how it went: one for each chunk.
    pub done: Vec<T>,
    blocks: BlockCount,
    /// Metadata of all of them, if there is more than one.
    oob: Vec<u8>,
}

/// What became of a chunk.
pub(in crate::log) enum Queued<T> {
    /// Somebody has to start writing.
    Start,
    /// The zone is written up to less than this chunk's place: it waits.
    Behind,
    /// It is not written, as what was before it was not.
    Refused(T),
}

impl<T> Default for ZoneQueue<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            waiting_blocks: 0,
            end: None,
            last_blocks: 0,
            writing: false,
            turn: Turn::Any,
            broken: false,
        }
    }
}

impl<T> ZoneQueue<T> {
    /// Queues a chunk, to be written with those before it if that makes no write that is too large.
    pub(in crate::log) fn push(&mut self, chunk: Chunk<T>, gathering: Gathering) -> Queued<T> {
        if self.broken {
            mark(Mark::BehindFailedWrite);
            return Queued::Refused(chunk.done);
        }
        let blocks = chunk.payload.blocks();
        self.waiting_blocks += blocks.0;
        let most_blocks = self.bound(gathering);
        match self.waiting.back_mut() {
            Some(last) if last.blocks.0 + blocks.0 <= most_blocks => last.add(chunk, blocks),
            last => {
                mark_if(Mark::WritesOfLikeSize, || {
                    last.is_some_and(|last| last.blocks.0 + blocks.0 <= gathering.most_blocks)
                });
                self.waiting.push_back(ZoneWrite::new(chunk, blocks));
            }
        }
        if std::mem::replace(&mut self.writing, true) { Queued::Behind } else { Queued::Start }
    }

    /// The most blocks of a write to which a chunk is added that waits already.
    fn bound(&self, gathering: Gathering) -> u32 {
        let all_blocks = self.last_blocks + self.waiting_blocks;
        match self.turn {
            Turn::Lingering { .. } => gathering.most_blocks.min(2 * gathering.least_blocks),
            Turn::Small if all_blocks <= 2 * self.last_blocks => gathering.least_blocks,
            Turn::Small | Turn::Any => gathering.bound(all_blocks),
        }
    }

    /// Blocks to write, with those that are being written; none if none are.
    pub(in crate::log) fn blocks_to_write(&self) -> u32 {
        if self.writing { self.last_blocks + self.waiting_blocks } else { 0 }
    }

    /// The next write; `None` ends the writing.
    pub(in crate::log) fn next(&mut self) -> Option<ZoneWrite<T>> {
        let next = self.waiting.pop_front();
        self.writing = next.is_some();
        self.end = next.as_ref().map(|next| next.at.plus(next.blocks));
        if let Some(next) = &next {
            let along = matches!(self.turn, Turn::Lingering { blocks } if next.blocks.0 > blocks);
            mark_if(Mark::WrittenAlong, || along);
            self.turn = if along { Turn::Small } else { Turn::Any };
            self.last_blocks = next.blocks.0;
            self.waiting_blocks -= next.blocks.0;
        }
        mark_if(Mark::ChunksGathered, || next.as_ref().is_some_and(|next| next.done.len() > 1));
        next.map(ZoneWrite::whole)
    }

    /// Where what waits starts.
    pub(in crate::log) fn next_at(&self) -> Option<ZoneOffset> {
        self.waiting.front().map(|next| next.at)
    }

    /// Whether something waits, but no more than so many blocks, as was written last.
    pub(in crate::log) fn has_few(&self, blocks: u32) -> bool {
        (1..=blocks).contains(&self.waiting_blocks) && self.last_blocks <= blocks
    }

    /// Writes nothing for a while, until `next` is called.
    pub(in crate::log) fn linger(&mut self) {
        self.turn = Turn::Lingering { blocks: self.waiting_blocks };
        self.end = None;
    }

    /// Whether it does not write although something waits.
    pub(in crate::log) fn lingers(&self) -> bool {
        matches!(self.turn, Turn::Lingering { .. })
    }

    /// Whether a write is under way that ends before, or there.
    pub(in crate::log) fn writes_before(&self, at: ZoneOffset) -> bool {
        self.end.is_some_and(|end| end <= at)
    }

    /// Nothing more is written: returns whom to tell so.
    pub(in crate::log) fn break_off(&mut self) -> Vec<T> {
        self.broken = true;
        self.turn = Turn::Any;
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
        assert!(matches!(queue.push(chunk(1, 2, 1, false), Gathering::up_to(6)), Queued::Start));
        assert!(matches!(queue.push(chunk(3, 2, 2, false), Gathering::up_to(6)), Queued::Behind));
        assert!(matches!(queue.push(chunk(5, 2, 3, true), Gathering::up_to(6)), Queued::Behind));
        assert!(matches!(queue.push(chunk(7, 2, 4, false), Gathering::up_to(6)), Queued::Behind));
        let ZoneWrite { at, payload, fua, done, .. } = queue.next().expect("chunks wait");
        assert_eq!((at, payload.blocks().0, fua), (ZoneOffset(1), 6, true));
        assert_eq!(done, [1, 2, 3]);
        payload.assert_whole();
        assert_eq!((payload.block_oob(1)[0], payload.block_oob(5)[0]), (1, 3));
        let last = queue.next().expect("a chunk waits");
        assert_eq!((last.at, last.payload.blocks().0, last.fua), (ZoneOffset(7), 2, false));
        last.payload.assert_whole();
        assert!(queue.next().is_none());
        let again = queue.push(chunk(9, 2, 5, false), Gathering::up_to(6));
        assert!(matches!(again, Queued::Start), "nobody writes any more");
    }

    #[test]
    fn a_chunk_is_written_however_large_and_alone_if_asked_for() {
        let mut queue = ZoneQueue::default();
        queue.push(chunk(1, 4, 1, false), Gathering::ALONE);
        queue.push(chunk(5, 4, 2, false), Gathering::ALONE);
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
        let beside = |blocks| Gathering { beside_blocks: blocks, ..HALVES };
        assert_eq!(sizes(&mut queue, 8, beside(16)), [6, 6, 4], "no more than six");
        assert_eq!(sizes(&mut queue, 12, beside(2)), [4, 8, 12], "much more than the other's two");
    }

    #[test]
    fn what_comes_while_it_lingers_is_written_along_and_the_next_is_small_again() {
        let mut queue = ZoneQueue::default();
        queue.push(chunk(0, 4, 0, false), HALVES);
        let first = queue.next().expect("a chunk waits");
        queue.push(chunk(4, 4, 0, false), HALVES);
        assert_eq!((first.at, queue.next_at()), (ZoneOffset(0), Some(ZoneOffset(4))));
        assert!(queue.has_few(4) && !queue.has_few(3));
        assert!(queue.writes_before(ZoneOffset(4)) && !queue.writes_before(ZoneOffset(3)));
        queue.linger();
        assert!(queue.lingers() && !queue.writes_before(ZoneOffset(9)));
        queue.push(chunk(8, 4, 0, false), HALVES);
        assert_eq!(queue.next().map(|write| write.payload.blocks().0), Some(8));
        assert!(!queue.lingers() && !queue.has_few(4));
        let chunks = (12..20).step_by(4).map(|at| queue.push(chunk(at, 4, 0, false), HALVES));
        assert!(chunks.last().is_some_and(|queued| matches!(queued, Queued::Behind)));
        assert_eq!(queue.next().map(|write| write.payload.blocks().0), Some(4));
    }

    const HALVES: Gathering =
        Gathering { least_blocks: 4, most_blocks: 16, most_beside_blocks: 6, beside_blocks: 0 };

    /// The sizes of the writes that so many chunks of two blocks become.
    fn sizes(queue: &mut ZoneQueue<u8>, chunks: u32, gathering: Gathering) -> Vec<u32> {
        for at in 0..chunks {
            queue.push(chunk(2 * at, 2, 0, false), gathering);
        }
        let writes = std::iter::from_fn(|| queue.next());
        writes.map(|write| write.payload.blocks().0).collect()
    }

    #[test]
    fn nothing_is_written_behind_a_failure() {
        let mut queue = ZoneQueue::default();
        queue.push(chunk(1, 1, 1, false), Gathering::ALONE);
        queue.push(chunk(2, 1, 2, false), Gathering::ALONE);
        let write = queue.next().expect("a chunk waits");
        assert_eq!((write.done, queue.break_off()), (vec![1], vec![2]));
        assert!(queue.next().is_none());
        assert!(matches!(queue.push(chunk(3, 1, 3, false), Gathering::ALONE), Queued::Refused(3)));
        assert!(queue.next().is_none());
    }
}
