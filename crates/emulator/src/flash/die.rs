//! One die: the operation in progress, the queue, and the batch of reads before it.
//!
//! Invariant: the operation in progress starts no earlier than `reads_end`. Reads that arrive until
//! `joins_until` are served before it (re)starts; later ones wait for it to be suspended or to end.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use zoneweave_runtime::Random;

use super::config::FlashConfig;
use crate::Picos;

/// An operation that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finished {
    /// When.
    pub at: Picos,
    /// The caller's tag.
    pub tag: u64,
}

/// A program or an erase that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) arrival: Picos,
    pub(super) duration: Picos,
    pub(super) suspends: u32,
    pub(super) tag: u64,
}

/// The operation under way, or the next one.
#[derive(Clone, Copy, Debug)]
struct Running {
    starts: Picos,
    ends: Picos,
    suspends_left: u32,
    /// Whether `starts` is a resumption after a suspension.
    resumes: bool,
    tag: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Die {
    reads_end: Picos,
    joins_until: Picos,
    running: Option<Running>,
    queue: VecDeque<Operation>,
    /// Durations in `queue`.
    queued: Picos,
}

impl Die {
    pub(super) fn push(&mut self, operation: Operation) {
        if self.running.is_none() {
            self.start(operation, operation.arrival);
        } else {
            self.queued += operation.duration;
            self.queue.push_back(operation);
        }
    }

    pub(super) fn operation_ends(&self) -> Option<Picos> {
        self.running.map(|running| running.ends)
    }

    /// Collects operations that end by `until`.
    pub(super) fn advance(&mut self, until: Picos, ended: &mut BinaryHeap<Reverse<Finished>>) {
        while self.running.is_some_and(|running| running.ends <= until) {
            self.finish(Picos::ZERO, ended);
        }
    }

    /// A read arrives; returns when the die begins to serve it. [`Die::read_served`] must follow.
    pub(super) fn admit_read(
        &mut self,
        arrival: Picos,
        config: &FlashConfig,
        random: &mut Random,
        ended: &mut BinaryHeap<Reverse<Finished>>,
    ) -> Picos {
        self.advance(arrival, ended);
        let joins = arrival <= self.joins_until;
        let Some(running) = self.running.as_mut().filter(|_| !joins) else {
            return arrival.max(self.reads_end);
        };
        // Reads that arrive between a batch and the operation ask again when it resumes.
        let mut from = arrival.max(running.starts);
        if arrival < running.starts && running.resumes {
            from += config.resume;
        }
        let suspended = match running.suspends_left {
            0 => running.ends,
            _ => from + config.suspend.draw(random),
        };
        if suspended >= running.ends {
            let end = running.ends;
            self.finish(end, ended);
            return end;
        }
        let left = running.ends.since(suspended);
        running.suspends_left -= 1;
        running.resumes = true;
        running.starts = suspended;
        running.ends = suspended + left + config.resume;
        (self.joins_until, self.reads_end) = (suspended, suspended);
        suspended
    }

    /// The read that was admitted last ends: the operation starts no earlier.
    pub(super) fn read_served(&mut self, end: Picos) {
        self.reads_end = end;
        if let Some(running) = &mut self.running {
            let shift = end.since(running.starts);
            running.starts += shift;
            running.ends += shift;
        }
    }

    pub(super) fn occupy(&mut self, arrival: Picos, duration: Picos) -> Picos {
        self.reads_end = arrival.max(self.reads_end) + duration;
        self.reads_end
    }

    pub(super) fn drained(&self) -> Picos {
        self.running.map_or(self.reads_end, |running| running.ends + self.queued)
    }

    /// The operation ends and the next one is up; reads that arrive by `batch` go before that.
    fn finish(&mut self, batch: Picos, ended: &mut BinaryHeap<Reverse<Finished>>) {
        let Some(running) = self.running.take() else { return };
        ended.push(Reverse(Finished { at: running.ends, tag: running.tag }));
        self.reads_end = self.reads_end.max(running.ends);
        if let Some(next) = self.queue.pop_front() {
            self.queued = self.queued.since(next.duration);
            self.start(next, next.arrival.max(batch));
        }
    }

    fn start(&mut self, operation: Operation, joins_until: Picos) {
        let Operation { arrival, duration, suspends, tag } = operation;
        let starts = arrival.max(self.reads_end);
        let ends = starts + duration;
        self.joins_until = joins_until;
        self.running = Some(Running { starts, ends, suspends_left: suspends, resumes: false, tag });
    }
}
