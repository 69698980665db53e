//! Chunks that wait to be written in place: a drive takes the writes of a zone one after the other.
//!
//! Every zone of a segment goes on by itself: a stripe waits for the slowest of its zones, the zones do
//! not wait for each other. One write of a zone is under way at a time. It holds one chunk, or, where
//! chunks are gathered, everything that waits.
//!
//! Invariants: chunks are queued in the order of their rows and leave no gap; nothing waits unless a
//! write is under way; after a write that failed nothing more is written, since what is queued behind
//! it belongs behind what was not written, nor after the drive was taken out of service.

use std::collections::VecDeque;

use zoneweave_runtime::{Receiver, Sender, oneshot};
use zoneweave_zoned::{Payload, Status, ZoneOffset};

use crate::marks::{Mark, mark, mark_if};
use crate::mutants::{Mutant, mutant};

/// How the write that holds a chunk went.
pub(super) type Written = Result<(), Status>;

/// What waits for one zone.
#[derive(Default)]
pub(super) struct ZoneQueue {
    waiting: VecDeque<Waiting>,
    writing: bool,
    broken: bool,
}

struct Waiting {
    at: ZoneOffset,
    payload: Payload,
    fua: bool,
    done: Sender<Written>,
}

/// One write, and whom to tell how it went.
pub(super) struct ZoneWrite {
    /// Where it starts.
    pub at: ZoneOffset,
    /// Its chunks, one behind the other.
    pub payload: Payload,
    /// Whether it has to be durable when it completes.
    pub fua: bool,
    /// Whom to tell how it went: one for each chunk.
    pub done: Vec<Sender<Written>>,
}

impl ZoneQueue {
    /// Queues a chunk. The second value says whether somebody has to start writing.
    pub(super) fn push(
        &mut self,
        at: ZoneOffset,
        payload: Payload,
        fua: bool,
    ) -> (Receiver<Written>, bool) {
        let (done, written) = oneshot();
        if self.broken {
            mark(Mark::BehindFailedWrite);
            done.send(Err(Status::Aborted));
            return (written, false);
        }
        self.waiting.push_back(Waiting { at, payload, fua, done });
        let start = !std::mem::replace(&mut self.writing, true);
        (written, start)
    }

    /// The next write, of at most so many blocks but at least a chunk; `None` ends the writing.
    pub(super) fn next(&mut self, most_blocks: u32) -> Option<ZoneWrite> {
        let Some(first) = self.waiting.pop_front() else {
            self.writing = false;
            return None;
        };
        let Waiting { at, payload, mut fua, done } = first;
        let mut end = at.0 + payload.blocks().0;
        let (mut payloads, mut waiters) = (vec![payload], vec![done]);
        while let Some(next) = self.waiting.front() {
            assert!(next.at.0 == end, "a chunk for block {} behind block {end}", next.at.0);
            end += next.payload.blocks().0;
            if end - at.0 > most_blocks {
                break;
            }
            let next = self.waiting.pop_front().expect("there is a next one");
            fua |= next.fua && !mutant(Mutant::GatheredFuaOfFirst);
            payloads.push(next.payload);
            waiters.push(next.done);
        }
        mark_if(Mark::ChunksGathered, || payloads.len() > 1);
        let payload = match payloads.len() {
            1 => payloads.pop().expect("one payload"),
            _ => Payload::joined(payloads),
        };
        Some(ZoneWrite { at, payload, fua, done: waiters })
    }

    /// Tells how a write went. If it failed, whatever waits behind it fails as well.
    pub(super) fn written(&mut self, done: Vec<Sender<Written>>, result: Written) {
        for waiter in done {
            waiter.send(result);
        }
        if result.is_err() {
            self.break_off();
        }
    }

    /// Nothing more is written: whatever waits fails.
    pub(super) fn break_off(&mut self) {
        self.broken = true;
        for waiting in self.waiting.drain(..) {
            mark(Mark::BehindFailedWrite);
            waiting.done.send(Err(Status::Aborted));
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use zoneweave_zoned::{BlockCount, OOB_BYTES, zero_blocks};

    use super::*;

    fn chunk(blocks: u32, stamp: u8) -> Payload {
        let oob = vec![stamp; blocks as usize * OOB_BYTES];
        Payload::new(zero_blocks(BlockCount(blocks)), Bytes::from(oob))
    }

    #[test]
    fn what_waits_goes_together_in_order_and_durable_if_part_of_it_is() {
        let mut queue = ZoneQueue::default();
        let (_, start) = queue.push(ZoneOffset(1), chunk(2, 1), false);
        assert!(start);
        assert!(!queue.push(ZoneOffset(3), chunk(2, 2), false).1);
        assert!(!queue.push(ZoneOffset(5), chunk(2, 3), true).1);
        assert!(!queue.push(ZoneOffset(7), chunk(2, 4), false).1);
        let ZoneWrite { at, payload, fua, done } = queue.next(6).expect("chunks wait");
        assert_eq!((at, payload.blocks().0, fua, done.len()), (ZoneOffset(1), 6, true, 3));
        assert_eq!(payload.block_oob(5)[0], 3);
        queue.written(done, Ok(()));
        let last = queue.next(6).expect("a chunk waits");
        assert_eq!((last.at, last.payload.blocks().0, last.fua), (ZoneOffset(7), 2, false));
        assert!(queue.next(6).is_none());
        assert!(queue.push(ZoneOffset(9), chunk(2, 5), false).1, "nobody writes any more");
    }

    #[test]
    fn a_chunk_is_written_however_large_and_alone_if_asked_for() {
        let mut queue = ZoneQueue::default();
        let _first = queue.push(ZoneOffset(1), chunk(4, 1), false);
        let _second = queue.push(ZoneOffset(5), chunk(4, 2), false);
        assert_eq!(queue.next(1).expect("a chunk waits").payload.blocks().0, 4);
        assert_eq!(queue.next(1).expect("a chunk waits").at, ZoneOffset(5));
    }

    #[test]
    fn nothing_is_written_behind_a_failure() {
        let mut queue = ZoneQueue::default();
        let _first = queue.push(ZoneOffset(1), chunk(1, 1), false);
        let _second = queue.push(ZoneOffset(2), chunk(1, 2), false);
        let write = queue.next(1).expect("a chunk waits");
        queue.written(write.done, Err(Status::WriteFault));
        assert!(queue.next(1).is_none());
        assert!(!queue.push(ZoneOffset(3), chunk(1, 3), false).1, "refused");
        assert!(queue.next(1).is_none());
    }
}
