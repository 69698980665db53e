//! Dies and channels together: a read is told its end when it is issued.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use zoneweave_runtime::Random;

use super::channel::Channel;
use super::config::FlashConfig;
use super::die::{Die, Finished, Operation};
use crate::Picos;

/// Dies and channels with their queues.
#[derive(Clone, Debug)]
pub struct Flash {
    config: FlashConfig,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    finished: BinaryHeap<Reverse<Finished>>,
    /// No operation ends before this.
    quiet_until: Picos,
    random: Random,
}

impl Flash {
    /// Idle dies.
    ///
    /// # Panics
    /// If there are no dies, channels or kinds of pages.
    #[must_use]
    pub fn new(config: FlashConfig, random: Random) -> Self {
        assert!(config.dies > 0 && config.channels > 0, "flash has dies and channels");
        assert!(!config.sense.is_empty(), "flash has pages");
        let dies = vec![Die::default(); config.dies as usize];
        let channels = vec![Channel::default(); config.channels as usize];
        let finished = BinaryHeap::new();
        Self { config, dies, channels, finished, quiet_until: Picos::ZERO, random }
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &FlashConfig {
        &self.config
    }

    /// Everything under way is forgotten, as after a power failure.
    pub fn clear(&mut self) {
        self.dies.fill(Die::default());
        self.channels.fill(Channel::default());
        self.finished.clear();
        self.quiet_until = Picos::ZERO;
    }

    /// Reads blocks of one page; returns when they are in the controller. `page` is taken modulo
    /// the kinds of pages.
    pub fn read(&mut self, die: u32, page: u32, blocks: u32, arrival: Picos) -> Picos {
        let Self { config, dies, channels, finished, random, .. } = self;
        let die_state = &mut dies[die as usize];
        let start = die_state.admit_read(arrival, config, random, finished);
        let kind = page as usize % config.sense.len();
        let sensed = start + config.sense[kind].draw(random);
        let channel = &mut channels[(die % config.channels) as usize];
        let end = channel.reserve(arrival, sensed, config.transfer.times(u64::from(blocks)));
        die_state.read_served(end);
        self.quiet_until = Picos::ZERO;
        end
    }

    /// Queues a program that takes the usual time.
    pub fn program(&mut self, die: u32, arrival: Picos, tag: u64) {
        let duration = self.config.program.draw(&mut self.random);
        self.operate(die, arrival, duration, tag);
    }

    /// Queues an erase.
    pub fn erase(&mut self, die: u32, arrival: Picos, tag: u64) {
        let duration = self.config.erase.draw(&mut self.random);
        self.operate(die, arrival, duration, tag);
    }

    /// Queues an operation of any duration.
    pub fn operate(&mut self, die: u32, arrival: Picos, duration: Picos, tag: u64) {
        let suspends = self.config.suspends;
        self.dies[die as usize].push(Operation { arrival, duration, suspends, tag });
        self.quiet_until = Picos::ZERO;
    }

    /// Uses a die as a plain queue: the span begins when all before it have ended.
    pub fn occupy(&mut self, die: u32, arrival: Picos, duration: Picos) -> Picos {
        self.dies[die as usize].occupy(arrival, duration)
    }

    /// When the next operation ends, if no more reads are issued.
    pub fn next_finished(&mut self) -> Option<Picos> {
        let running = self.dies.iter().filter_map(Die::operation_ends).min();
        let ended = self.finished.peek().map(|first| first.0.at);
        let next = running.into_iter().chain(ended).min();
        self.quiet_until = next.unwrap_or(Picos(u64::MAX));
        next
    }

    /// The next operation that has ended by `until`, in order of time.
    pub fn finished(&mut self, until: Picos) -> Option<Finished> {
        if until < self.quiet_until {
            return None;
        }
        self.dies.iter_mut().for_each(|die| die.advance(until, &mut self.finished));
        let ended = self.finished.peek().is_some_and(|first| first.0.at <= until);
        match ended {
            true => self.finished.pop().map(|first| first.0),
            false => {
                self.next_finished();
                None
            }
        }
    }

    /// When everything queued on every die will have ended, if nothing else is issued.
    #[must_use]
    pub fn drained(&self) -> Picos {
        self.dies.iter().map(Die::drained).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
