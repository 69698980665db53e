//! The write buffer, and the order in which commands are fetched.
//!
//! Commands are fetched in the order of submission. A command that finds no room in the buffer
//! blocks all later ones, reads included, until programs have ended. A limited number of writes is
//! fetched at once; others wait in their submission queues, without blocking.
//!
//! A command cannot delay commands fetched earlier, except through the dies, so its plan is
//! complete the moment it is fetched.

use std::collections::VecDeque;

use zoneweave_zoned::ZoneId;

use super::model::CommandId;
use crate::{Picos, Request};

/// A command that has not been fetched, or not been granted its buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) id: CommandId,
    pub(super) request: Request,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    done: Picos,
    zone: ZoneId,
}

#[derive(Clone, Debug)]
pub(super) struct Buffer {
    size_blocks: u64,
    free_blocks: u64,
    /// Blocks of each zone that are in the buffer and in no program yet.
    gathered: Vec<u32>,
    fetched_writes: usize,
    pub(super) fetched: VecDeque<Waiting>,
    waiting_writes: usize,
    queued: VecDeque<Waiting>,
    in_flight: VecDeque<InFlight>,
    zone_in_flight: Vec<u32>,
    zones_in_flight: u32,
    latest_done: Picos,
}

impl Buffer {
    pub(super) fn new(size_blocks: u64, fetched_writes: usize, zones: usize) -> Self {
        Self {
            size_blocks,
            free_blocks: size_blocks,
            gathered: vec![0; zones],
            fetched_writes,
            fetched: VecDeque::new(),
            waiting_writes: 0,
            queued: VecDeque::new(),
            in_flight: VecDeque::new(),
            zone_in_flight: vec![0; zones],
            zones_in_flight: 0,
            latest_done: Picos::ZERO,
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.size_blocks, self.fetched_writes, self.gathered.len());
    }

    /// Whether commands wait to be fetched, so that new ones must wait behind them.
    pub(super) fn is_blocked(&self) -> bool {
        !self.fetched.is_empty()
    }

    /// Keeps a command that cannot be planned at once.
    pub(super) fn wait(&mut self, waiting: Waiting) {
        if !is_write(&waiting.request) {
            self.fetched.push_back(waiting);
        } else if self.has_fetch_slot() {
            self.waiting_writes += 1;
            self.fetched.push_back(waiting);
        } else {
            self.queued.push_back(waiting);
        }
    }

    pub(super) fn has_fetch_slot(&self) -> bool {
        self.in_flight.len() + self.waiting_writes < self.fetched_writes
    }

    /// Takes the first fetched command out.
    pub(super) fn take_fetched(&mut self) -> Option<Waiting> {
        let first = self.fetched.pop_front()?;
        self.waiting_writes -= usize::from(is_write(&first.request));
        Some(first)
    }

    /// Writes complete by `now`, and others are fetched instead.
    pub(super) fn refill(&mut self, now: Picos) {
        self.retire(now);
        while self.has_fetch_slot()
            && let Some(next) = self.queued.pop_front()
        {
            self.waiting_writes += 1;
            self.fetched.push_back(next);
        }
    }

    /// When the next fetched write completes, if others wait for it.
    pub(super) fn next_refill(&self) -> Option<Picos> {
        let first = self.in_flight.front().map(|first| first.done);
        first.filter(|_| !self.queued.is_empty())
    }

    pub(super) fn has_room(&self, blocks: u32) -> bool {
        self.free_blocks >= u64::from(blocks)
    }

    /// Blocks enter the buffer. Without room they are let in all the same: the caller has checked
    /// that nothing will make room.
    pub(super) fn enter(&mut self, zone: ZoneId, blocks: u32) {
        self.free_blocks = self.free_blocks.saturating_sub(u64::from(blocks));
        self.gathered[zone.index()] += blocks;
    }

    /// At most that many blocks of the zone go into a program; they leave the buffer when it ends.
    pub(super) fn gather(&mut self, zone: ZoneId, at_most: u32) -> u64 {
        let gathered = &mut self.gathered[zone.index()];
        let taken = at_most.min(*gathered);
        *gathered -= taken;
        u64::from(taken)
    }

    /// Blocks leave the buffer.
    pub(super) fn leave(&mut self, blocks: u64) {
        self.free_blocks = (self.free_blocks + blocks).min(self.size_blocks);
    }

    /// Blocks of the zone that no program has taken.
    pub(super) fn gathered(&self, zone: ZoneId) -> u32 {
        self.gathered[zone.index()]
    }

    /// To how many zones writes and appends are in flight at `now`, `zone` included.
    pub(super) fn zones_in_flight(&mut self, zone: ZoneId, now: Picos) -> u32 {
        self.retire(now);
        self.zones_in_flight + u32::from(self.zone_in_flight[zone.index()] == 0)
    }

    /// Whether any write or append fetched before is in flight at `when`.
    pub(super) fn is_contended(&self, when: Picos) -> bool {
        self.latest_done > when
    }

    /// A write or append was planned.
    pub(super) fn fly(&mut self, zone: ZoneId, done: Picos) {
        let flying = &mut self.zone_in_flight[zone.index()];
        self.zones_in_flight += u32::from(*flying == 0);
        *flying += 1;
        self.latest_done = self.latest_done.max(done);
        self.in_flight.push_back(InFlight { done, zone });
    }

    fn retire(&mut self, now: Picos) {
        while let Some(first) = self.in_flight.front().filter(|first| first.done <= now) {
            let flying = &mut self.zone_in_flight[first.zone.index()];
            *flying -= 1;
            self.zones_in_flight -= u32::from(*flying == 0);
            self.in_flight.pop_front();
        }
    }
}

pub(super) fn is_write(request: &Request) -> bool {
    matches!(request, Request::Write { .. } | Request::Append { .. })
}
