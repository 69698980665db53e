//! The parts of a conventional drive, and their times.

use thiserror::Error;

use crate::flash::FlashConfig;
use crate::{Picos, Spread};

/// A drive. Blocks are 4 KiB throughout.
#[derive(Clone, Debug, PartialEq)]
pub struct ConventionalConfig {
    /// Dies and channels.
    pub flash: FlashConfig,
    /// Dies of each row that hold parity.
    pub parity_dies: u32,
    /// One program of one die.
    pub chunk_blocks: u32,
    /// Superblocks: erase blocks, one of every die, that are erased together.
    pub superblocks: u32,
    /// Programs on each die that fill a superblock.
    pub superblock_rows: u32,
    /// Physical capacity without parity beyond the logical one, as a fraction of the logical one.
    pub over_provisioning: f64,
    /// Streams that the drive writes to superblocks of their own.
    pub streams: u32,
    /// Written blocks that are not programmed yet. Capacitors keep them over a power failure.
    pub buffer_blocks: u32,
    /// Commands of a request are that large at most.
    pub command_blocks: u32,
    /// Write commands fetched at once; others wait in their queues, without blocking other
    /// commands.
    pub fetched_writes: u32,
    /// Writes.
    pub write: WriteTimes,
    /// Reads.
    pub read: ReadTimes,
    /// Everything else.
    pub manage: ManageTimes,
    /// When and how superblocks are collected.
    pub collect: CollectConfig,
    /// Random choices.
    pub seed: u64,
}

/// How long writes take.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteTimes {
    /// The write core's work for one command.
    pub core: Spread,
    /// Latency of a single block.
    pub single: Picos,
    /// Latency of larger commands, without blocks.
    pub larger: Picos,
    /// Latency of larger commands, each block.
    pub larger_block: Picos,
}

/// How long reads take.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadTimes {
    /// The read core's work for one command.
    pub core: Picos,
    /// The read core's work for each block.
    pub core_block: Picos,
    /// The remaining latency, outside core and die.
    pub fixed: Picos,
}

/// How long other commands take.
#[derive(Clone, Debug, PartialEq)]
pub struct ManageTimes {
    /// A trim, without blocks.
    pub trim: Picos,
    /// Each block that a trim takes the place from.
    pub trim_block: Picos,
    /// A flush; nothing has to be written for it.
    pub flush: Picos,
}

/// When and how superblocks are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectConfig {
    /// Collecting begins when so many superblocks are free, or fewer.
    pub below: u32,
    /// It ends when so many are free.
    pub until: u32,
    /// Blocks being moved at once. A larger value gives collection a larger share of the dies while
    /// the host writes, too.
    pub buffer_blocks: u32,
}

/// Why there can be no such drive.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ConventionalError {
    /// A number must not be zero.
    #[error("{0} is zero: a drive has at least one")]
    Zero(&'static str),
    /// Every die would hold parity.
    #[error("{parity_dies} of {dies} dies would hold parity: leave at least one for data")]
    NoDataDies {
        /// Dies with parity.
        parity_dies: u32,
        /// Dies in all.
        dies: u32,
    },
    /// Too much to address.
    #[error("{blocks} physical blocks exceed 32 bits: make the drive smaller")]
    TooLarge {
        /// Physical blocks.
        blocks: u64,
    },
    /// No superblock could ever be collected with profit.
    #[error(
        "{spare} superblocks are spare, {needed} are needed for open ones and those kept free: \
         raise the over-provisioning or the number of superblocks"
    )]
    TooLittleSpare {
        /// Superblocks beyond the logical capacity.
        spare: u64,
        /// How many it takes.
        needed: u64,
    },
    /// A buffer could fill up without a chunk to program.
    #[error(
        "{buffer} holds {blocks} blocks, but needs {needed}: one chunk a stream and one command"
    )]
    BufferTooSmall {
        /// Which.
        buffer: &'static str,
        /// Its size.
        blocks: u32,
        /// How large it must be.
        needed: u32,
    },
    /// Collecting would end before it begins, or begin too late.
    #[error("collecting from {below} free superblocks until {until}: needs 2 <= below < until")]
    Thresholds {
        /// Where it begins.
        below: u32,
        /// Where it ends.
        until: u32,
    },
    /// A command would fill more than a superblock.
    #[error("superblocks of {blocks} blocks do not hold a command of {longest}: add rows")]
    SmallSuperblock {
        /// Blocks of a superblock.
        blocks: u64,
        /// Blocks of the longest command.
        longest: u64,
    },
    /// Over-provisioning that is no fraction.
    #[error("over-provisioning of {0}: must be above 0 and at most 10")]
    OverProvisioning(f64),
}

impl ConventionalConfig {
    /// The conventional twin of the calibrated zoned drive: the same dies behind a page-mapping
    /// translation layer, 960 GB at 7 % over-provisioning.
    ///
    /// Latencies and bandwidth are those of the WD Ultrastar DC SN640 960 GB in the data set of
    /// Doekemeijer et al. (CLUSTER 2023): writes take 9.0 us (4 KiB) and 8.3 us + 0.51 us per KiB
    /// beyond, one core serves 305 K of them per second, programs are as long as 1187 MiB/s need.
    /// Reads were measured to be those of the zoned drive, so their parameters are the same. Erase
    /// time and the thresholds of collecting cannot be seen in the data and are typical ones.
    #[must_use]
    pub fn sn640_960gb() -> Self {
        let micros = Picos::from_micros;
        let sense = [52.3, 52.3, 64.0].map(|mean| Spread::new(mean, 0.03)).to_vec();
        Self {
            flash: FlashConfig {
                dies: 32,
                channels: 8,
                sense,
                transfer: micros(9.2),
                program: Spread::new(2370.0, 0.08),
                erase: Spread::new(5000.0, 0.0),
                suspend: Spread::up_to(268.0),
                resume: micros(30.0),
                suspends: 6,
            },
            parity_dies: 2,
            chunk_blocks: 24,
            superblocks: 910,
            superblock_rows: 383,
            over_provisioning: 0.07,
            streams: 1,
            buffer_blocks: 40 << 8,
            command_blocks: 32,
            fetched_writes: 850,
            write: WriteTimes {
                core: Spread::new(3.2, 0.1),
                single: micros(9.0),
                larger: micros(8.3),
                larger_block: micros(2.04),
            },
            read: ReadTimes { core: micros(0.6), core_block: micros(1.41), fixed: micros(4.7) },
            manage: ManageTimes {
                trim: micros(9.0),
                trim_block: micros(0.0498),
                flush: micros(9.0),
            },
            collect: CollectConfig { below: 4, until: 6, buffer_blocks: 40 << 8 },
            seed: 1,
        }
    }

    /// The same drive with smaller superblocks of `rows` programs, for experiments that rewrite it
    /// many times. The number of superblocks stays, and so does the share of time spent on erases.
    /// Ratios are unaffected; durations proportional to a superblock shrink.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio of durations")]
    pub fn with_superblock_rows(mut self, rows: u32) -> Self {
        let share = f64::from(rows) / f64::from(self.superblock_rows.max(1));
        let mean_us = self.flash.erase.mean().0 as f64 / 1e6;
        self.flash.erase = Spread::new(mean_us * share, 0.0);
        self.superblock_rows = rows;
        self
    }

    /// Blocks of a superblock that hold data.
    #[must_use]
    pub fn superblock_blocks(&self) -> u64 {
        let data_dies = self.flash.dies.saturating_sub(self.parity_dies);
        u64::from(self.superblock_rows) * u64::from(data_dies) * u64::from(self.chunk_blocks)
    }

    /// Blocks that the host sees: physical ones without parity, less the over-provisioning.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "blocks of a drive are exact in a double"
    )]
    pub fn logical_blocks(&self) -> u64 {
        let physical = self.superblock_blocks() * u64::from(self.superblocks);
        (physical as f64 / (1.0 + self.over_provisioning)).floor() as u64
    }

    /// Checks that such a drive can exist.
    ///
    /// # Errors
    /// The contradiction.
    pub fn check(&self) -> Result<(), ConventionalError> {
        self.check_counts()?;
        if !(self.over_provisioning > 0.0 && self.over_provisioning <= 10.0) {
            return Err(ConventionalError::OverProvisioning(self.over_provisioning));
        }
        let physical = self.superblock_blocks() * u64::from(self.superblocks);
        if physical >= u64::from(u32::MAX) {
            return Err(ConventionalError::TooLarge { blocks: physical });
        }
        let CollectConfig { below, until, buffer_blocks } = self.collect;
        if below < 2 || until <= below {
            return Err(ConventionalError::Thresholds { below, until });
        }
        let longest = u64::from(self.command_blocks);
        if self.superblock_blocks() < longest {
            return Err(ConventionalError::SmallSuperblock {
                blocks: self.superblock_blocks(),
                longest,
            });
        }
        let needed = self.chunk_blocks * self.streams + self.command_blocks;
        let moving = self.chunk_blocks * 2;
        for (buffer, blocks, needed) in [
            ("the write buffer", self.buffer_blocks, needed),
            ("the buffer of collecting", buffer_blocks, moving),
        ] {
            if blocks < needed {
                return Err(ConventionalError::BufferTooSmall { buffer, blocks, needed });
            }
        }
        let spare = (physical - self.logical_blocks()) / self.superblock_blocks();
        let needed = u64::from(self.streams + 1 + until);
        if spare < needed {
            return Err(ConventionalError::TooLittleSpare { spare, needed });
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<(), ConventionalError> {
        let counts = [
            ("flash.dies", self.flash.dies),
            ("flash.channels", self.flash.channels),
            ("chunk_blocks", self.chunk_blocks),
            ("superblocks", self.superblocks),
            ("superblock_rows", self.superblock_rows),
            ("streams", self.streams),
            ("command_blocks", self.command_blocks),
            ("fetched_writes", self.fetched_writes),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(ConventionalError::Zero(name));
        }
        if self.flash.sense.is_empty() {
            return Err(ConventionalError::Zero("flash.sense"));
        }
        let (parity_dies, dies) = (self.parity_dies, self.flash.dies);
        if parity_dies >= dies {
            return Err(ConventionalError::NoDataDies { parity_dies, dies });
        }
        Ok(())
    }
}
