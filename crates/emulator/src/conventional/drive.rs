//! The drive that the host sees: attachments, commands, power failures.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use bytes::Bytes;
use zoneweave_runtime::{Handle, Nanos, Reactor, Receiver, oneshot};
use zoneweave_zoned::{
    BLOCK_BYTES, BlockDevice, BlockDeviceInfo, BlockError, BlockFuture, Extent, ExtentState, Lba,
    Status,
};

use super::contents::Content;
use super::core::{Command, Core, Due, Request, Responder, Work};
use super::counters::ConventionalCounters;
use super::ftl::FrontierId;
use super::parameters::{ConventionalConfig, ConventionalError};
use crate::Picos;

/// Which superblocks a write goes to, from 0 up to the number of streams of the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub u32);

/// A drive; clones are the same drive.
#[derive(Clone)]
pub struct ConventionalDrive {
    shared: Rc<Shared>,
}

struct Shared {
    core: RefCell<State>,
    blocks: u64,
}

struct State {
    core: Core,
    incarnation: u64,
    /// The earliest wake-up requested.
    wakes_at: Option<Nanos>,
}

/// A process's handle of a drive, writing to one stream.
#[derive(Clone)]
pub struct ConventionalDevice {
    shared: Rc<Shared>,
    handle: Handle,
    incarnation: u64,
    stream: StreamId,
    streams: u32,
    command_blocks: u32,
}

impl ConventionalDrive {
    /// A blank drive.
    ///
    /// # Errors
    /// If there can be no such drive.
    pub fn new(config: ConventionalConfig) -> Result<Self, ConventionalError> {
        let blocks = config.logical_blocks();
        let state = State { core: Core::new(config)?, incarnation: 0, wakes_at: None };
        Ok(Self { shared: Rc::new(Shared { core: RefCell::new(state), blocks }) })
    }

    /// The device for a process. Devices given out before are dead; commands they left in flight
    /// that had not taken effect never will.
    #[must_use]
    pub fn attach(&self, handle: &Handle) -> ConventionalDevice {
        self.new_incarnation(Core::forget_commands);
        let state = self.shared.core.borrow();
        ConventionalDevice {
            shared: self.shared.clone(),
            handle: handle.clone(),
            incarnation: state.incarnation,
            stream: StreamId(0),
            streams: state.core.config().streams,
            command_blocks: state.core.config().command_blocks,
        }
    }

    /// The power fails and returns; attached devices are dead.
    pub fn power_loss(&self) {
        self.new_incarnation(Core::power_loss);
    }

    fn new_incarnation(&self, change: impl FnOnce(&mut Core)) {
        let mut state = self.shared.core.borrow_mut();
        state.incarnation += 1;
        state.wakes_at = None;
        change(&mut state.core);
    }

    /// Writes a pattern over blocks without taking time, collecting as needed: for drives that are
    /// not new. No command may be in flight.
    ///
    /// # Panics
    /// If commands are waiting, a superblock is being collected, or the range is outside the drive.
    pub fn write_untimed(&self, lba: Lba, blocks: u64, pattern: u64) {
        let core = &mut self.shared.core.borrow_mut().core;
        for index in 0..blocks {
            core.write_untimed(lba.plus(index), Content::Pattern(pattern));
        }
    }

    /// Counters since the drive was made.
    #[must_use]
    pub fn counters(&self) -> ConventionalCounters {
        self.shared.core.borrow().core.counters()
    }

    /// How often each superblock was erased.
    #[must_use]
    pub fn erases(&self) -> Vec<u32> {
        self.shared.core.borrow().core.erases()
    }

    /// Size in blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.shared.blocks
    }
}

impl ConventionalDevice {
    /// The same device with its writes going to another stream.
    ///
    /// # Panics
    /// If the drive has fewer streams.
    #[must_use]
    pub fn stream(&self, stream: StreamId) -> Self {
        assert!(stream.0 < self.streams, "{stream:?} is not one of {} streams", self.streams);
        Self { stream, ..self.clone() }
    }

    /// Refuses ranges beyond the device, and requests of a process that is gone.
    fn check(&self, lba: Lba, blocks: u64) -> Result<(), BlockError> {
        let capacity = self.shared.blocks;
        if lba.0.checked_add(blocks).is_none_or(|end| end > capacity) {
            return Err(BlockError::OutOfRange { lba, blocks, capacity });
        }
        let current = self.shared.core.borrow().incarnation;
        assert!(self.incarnation <= current, "no device is newer than its drive");
        match current == self.incarnation {
            true => Ok(()),
            false => Err(BlockError::Device(Status::DeviceGone)),
        }
    }

    fn submit(&self, responder: Responder, work: Vec<Work>) {
        let request = Request::new(work.len(), responder);
        {
            let core = &mut self.shared.core.borrow_mut().core;
            for work in work {
                core.submit(Command { work, request: request.clone() });
            }
        }
        drop(request);
        advance(&self.shared, &self.handle.reactor(), self.incarnation);
    }

    /// Gives the work to the drive, if there is any.
    fn change(&self, lba: Lba, blocks: u64, work: impl FnOnce() -> Vec<Work>) -> BlockFuture<()> {
        let checked = self.check(lba, blocks).map(|()| if blocks == 0 { vec![] } else { work() });
        match checked {
            Err(error) => Box::pin(std::future::ready(Err(error))),
            Ok(work) if work.is_empty() => Box::pin(std::future::ready(Ok(()))),
            Ok(work) => {
                let (sender, answer) = oneshot();
                self.submit(Responder::Done(sender), work);
                Box::pin(answered(answer))
            }
        }
    }
}

/// An answer that was dropped is that of a process that is gone.
async fn answered<T>(answer: Receiver<Result<T, BlockError>>) -> Result<T, BlockError> {
    answer.await.unwrap_or(Err(BlockError::Device(Status::Aborted)))
}

/// The parts of a range that commands carry.
fn parts(lba: Lba, blocks: u64, largest: u32) -> impl Iterator<Item = (Lba, u32)> {
    let largest = u64::from(largest);
    (0..blocks.div_ceil(largest)).map(move |part| {
        let first = part * largest;
        let size = u32::try_from((blocks - first).min(largest)).expect("commands are small");
        (lba.plus(first), size)
    })
}

impl BlockDevice for ConventionalDevice {
    fn info(&self) -> BlockDeviceInfo {
        BlockDeviceInfo { blocks: self.shared.blocks, volatile_cache: false, read_only: false }
    }

    fn read(&self, lba: Lba, blocks: u32) -> BlockFuture<Vec<Bytes>> {
        if let Err(error) = self.check(lba, u64::from(blocks)) {
            return Box::pin(std::future::ready(Err(error)));
        }
        if blocks == 0 {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        let (sender, answer) = oneshot();
        let work = parts(lba, u64::from(blocks), self.command_blocks)
            .map(|(lba, blocks)| Work::Read { lba, blocks })
            .collect();
        self.submit(Responder::Read(sender), work);
        Box::pin(answered(answer))
    }

    fn write(&self, lba: Lba, data: Vec<Bytes>, _fua: bool) -> BlockFuture<()> {
        let blocks: usize = data.iter().map(|piece| piece.len() / BLOCK_BYTES).sum();
        self.change(lba, blocks as u64, || {
            let mut contents = data.iter().flat_map(|piece| piece.chunks(BLOCK_BYTES));
            let frontier = FrontierId(self.stream.0);
            parts(lba, blocks as u64, self.command_blocks)
                .map(|(lba, blocks)| {
                    let blocks = contents.by_ref().take(blocks as usize);
                    Work::Write { lba, contents: blocks.map(Content::of).collect(), frontier }
                })
                .collect()
        })
    }

    fn write_zeroes(&self, lba: Lba, blocks: u64, fua: bool) -> BlockFuture<()> {
        self.trim(lba, blocks, fua)
    }

    fn trim(&self, lba: Lba, blocks: u64, _fua: bool) -> BlockFuture<()> {
        self.change(lba, blocks, || vec![Work::Trim { lba, blocks }])
    }

    fn flush(&self) -> BlockFuture<()> {
        if let Err(error) = self.check(Lba(0), 0) {
            return Box::pin(std::future::ready(Err(error)));
        }
        let (sender, answer) = oneshot();
        self.submit(Responder::Done(sender), vec![Work::Flush]);
        Box::pin(answered(answer))
    }

    fn extents(&self, lba: Lba, blocks: u64, limit: usize) -> BlockFuture<Vec<Extent>> {
        let found = self.check(lba, blocks).map(|()| {
            let core = &self.shared.core.borrow().core;
            let mut extents: Vec<Extent> = Vec::new();
            for index in 0..blocks {
                let state = match core.is_mapped(lba.plus(index)) {
                    true => ExtentState::Data,
                    false => ExtentState::Hole,
                };
                let known = extents.len();
                match extents.last_mut().filter(|last| last.state == state) {
                    Some(last) => last.blocks += 1,
                    None if known == limit => break,
                    None => extents.push(Extent { blocks: 1, state }),
                }
            }
            extents
        });
        Box::pin(std::future::ready(found))
    }
}

/// Runs the work that is due, answers its requests, and sets the next wake-up. The reactor is held
/// weakly, since it owns the timers.
fn advance(shared: &Rc<Shared>, reactor: &Rc<dyn Reactor>, incarnation: u64) {
    let now = reactor.now();
    let (due, wake) = {
        let mut state = shared.core.borrow_mut();
        if state.incarnation != incarnation {
            return;
        }
        let due = state.core.advance(Picos::from(now));
        let next = state.core.next_event().map(|next| next.to_nanos().max(now));
        let wake = next.filter(|next| state.wakes_at.is_none_or(|wakes_at| *next < wakes_at));
        if wake.is_some() {
            state.wakes_at = wake;
        }
        (due, wake)
    };
    for due in due {
        answer_at(shared, reactor, incarnation, due);
    }
    let Some(wake) = wake else { return };
    let (shared, weak): (_, Weak<dyn Reactor>) = (shared.clone(), Rc::downgrade(reactor));
    reactor.timers().call_at(wake, move || {
        let Some(reactor) = weak.upgrade() else { return };
        {
            let state = &mut *shared.core.borrow_mut();
            if state.incarnation != incarnation || state.wakes_at != Some(wake) {
                return;
            }
            state.wakes_at = None;
        }
        advance(&shared, &reactor, incarnation);
    });
}

fn answer_at(shared: &Rc<Shared>, reactor: &Rc<dyn Reactor>, incarnation: u64, due: Due) {
    let (when, shared) = (due.at.to_nanos(), shared.clone());
    reactor.timers().call_at(when, move || {
        // The answers of a process that is gone are dropped.
        if shared.core.borrow().incarnation == incarnation {
            due.answer();
        }
    });
}

#[cfg(test)]
mod tests;
