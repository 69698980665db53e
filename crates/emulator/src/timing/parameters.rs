//! Every parameter of the calibrated model, as preset files have them.
//!
//! Units are in the names: `_us` microseconds, `_kib` and `_mib` powers of two. The types refuse
//! impossible values, so that parsed parameters need no further checks.

use std::num::NonZeroU32;

use serde::Deserialize;

use crate::{Picos, Spread};

/// A span of microseconds, finite and not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Micros {
    micros: f64,
    /// The same; commands would spend a tenth of their time on rounding it anew.
    picos: Picos,
}

impl Micros {
    /// The number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.micros
    }

    pub(crate) const fn picos(self) -> Picos {
        self.picos
    }
}

impl TryFrom<f64> for Micros {
    type Error = String;

    fn try_from(micros: f64) -> Result<Self, String> {
        // More would overflow sums of picoseconds.
        match micros {
            0.0..=1e10 => Ok(Self { micros, picos: Picos::from_micros(micros) }),
            _ => Err(format!("a time must be between 0 and 1e10 µs, found {micros}")),
        }
    }
}

/// A part of one, from zero to below one.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Fraction(f64);

impl Fraction {
    /// The number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Fraction {
    type Error = String;

    fn try_from(part: f64) -> Result<Self, String> {
        match part {
            0.0..1.0 => Ok(Self(part)),
            _ => Err(format!("a fraction must be at least 0 and below 1, found {part}")),
        }
    }
}

/// A rate in MiB per second.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct MibPerSecond(f64);

impl MibPerSecond {
    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// How long one block takes.
    pub(crate) fn block_time(self) -> Picos {
        Picos::from_micros(1e6 / 256.0 / self.0)
    }
}

impl TryFrom<f64> for MibPerSecond {
    type Error = String;

    fn try_from(rate: f64) -> Result<Self, String> {
        match rate {
            0.001..=1e6 => Ok(Self(rate)),
            _ => Err(format!("a rate must be between 0.001 and 1e6 MiB/s, found {rate}")),
        }
    }
}

/// A drive with a write buffer, controller cores and flash dies.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StationParameters {
    /// Dies and buses.
    pub flash: FlashParameters,
    /// Fetching and buffering.
    pub buffer: BufferParameters,
    /// Writes at the write pointer.
    pub write: WriteParameters,
    /// Zone appends.
    pub append: AppendParameters,
    /// Reads.
    pub read: ReadParameters,
    /// Zone management and the rest.
    pub management: ManagementParameters,
}

/// Dies, their layout, and how long they take.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashParameters {
    /// Groups of dies; a zone lies on one group.
    pub groups: NonZeroU32,
    /// Dies of a group.
    pub dies: NonZeroU32,
    /// Dies of each row that hold parity.
    pub parity_dies: u32,
    /// Channels of a group.
    pub channels: NonZeroU32,
    /// One program of one die.
    pub chunk_kib: NonZeroU32,
    /// One program.
    pub program_us: Micros,
    /// How much programs vary.
    pub program_jitter: Fraction,
    /// One program that pads a zone being finished.
    pub padding_us: Micros,
    /// One erase; zero if erases are hidden from the host.
    pub erase_us: Micros,
    /// Sensing a page, by kind of page.
    pub sense_us: Vec<Micros>,
    /// How much senses vary.
    pub sense_jitter: Fraction,
    /// Transferring one block of 4 KiB over a channel.
    pub transfer_us: Micros,
    /// The longest wait until a program is suspended for a read.
    pub suspend_us: Micros,
    /// Added to a program when it is resumed.
    pub resume_us: Micros,
    /// How often one program can be suspended.
    pub suspends: u32,
}

/// Fetching and buffering.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferParameters {
    /// The write buffer.
    pub size_mib: NonZeroU32,
    /// Writes fetched at once; others wait in their queues, without blocking.
    pub fetched_writes: NonZeroU32,
}

/// Writes at the write pointer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteParameters {
    /// The write core's work for one command.
    pub core_us: Micros,
    /// The write core's work for each block.
    pub core_block_us: Micros,
    /// More work if another write or append is in flight.
    pub contention_us: Micros,
    /// How much the core's work varies.
    pub core_jitter: Fraction,
    /// Latency of commands up to `small_kib`.
    pub small_us: Micros,
    /// The largest command with that latency.
    pub small_kib: u32,
    /// Latency of larger commands, without blocks.
    pub large_us: Micros,
    /// Latency of larger commands for each block.
    pub large_block_us: Micros,
    /// More latency of commands of one block, as drives in a format of smaller blocks have it.
    #[serde(default)]
    pub single_us: Micros,
    /// How much the latency behind the core varies.
    pub latency_jitter: Fraction,
    /// The data path's bandwidth, if it is limited.
    pub path_mib_per_s: Option<MibPerSecond>,
}

/// The extra time of a zone append over a write.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppendParameters {
    /// The write core's work for one command.
    pub core_us: Micros,
    /// The write core's work for each block.
    pub core_block_us: Micros,
    /// More work for commands of a single block.
    pub core_single_us: Micros,
    /// How long a zone stays closed to its next append after the core's work.
    pub section_us: Micros,
    /// Zones whose context the core caches.
    pub contexts: u32,
    /// More work if appends to more zones than that are in flight.
    pub context_miss_us: Micros,
    /// Latency beyond that of a write: of one block, of two, of more.
    pub latency_us: [Micros; 3],
}

/// Reads.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadParameters {
    /// The read core's work for one command.
    pub core_us: Micros,
    /// The read core's work for each block.
    pub core_block_us: Micros,
    /// The remaining latency, outside core and die.
    pub fixed_us: Micros,
    /// Latency of a read that was read ahead.
    pub ahead_us: Micros,
    /// The same, for each block.
    pub ahead_block_us: Micros,
    /// The host link's bandwidth.
    pub link_mib_per_s: MibPerSecond,
}

/// Zone management and the rest.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagementParameters {
    /// Opening a zone.
    pub open_us: Micros,
    /// Closing a zone.
    pub close_us: Micros,
    /// Added to the first write of an empty zone.
    pub implicit_write_us: Micros,
    /// Added to the first append of an empty zone.
    pub implicit_append_us: Micros,
    /// Added to the first write or append of a closed zone.
    pub reopen_us: Micros,
    /// Resetting an empty zone.
    pub reset_us: Micros,
    /// Added when the whole zone is written, proportionally below that.
    pub reset_full_us: Micros,
    /// Added when the zone is open or closed with at least one row of dies written.
    pub reset_active_us: Micros,
    /// The slowdown of a reset for each concurrent command per microsecond.
    pub reset_interference_us: Micros,
    /// How much resets vary.
    pub reset_jitter: Fraction,
    /// Finishing a zone, besides padding it.
    pub finish_us: Micros,
    /// Finishing a zone without a written block.
    pub finish_empty_us: Micros,
    /// A zone report.
    pub report_us: Micros,
    /// A flush that finds nothing to do.
    pub flush_us: Micros,
    /// A command that is refused.
    pub refused_us: Micros,
}

/// A drive of plain queues: each page goes straight to a flash unit.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectParameters {
    /// Units that work in parallel; each zone is striped over all of them.
    pub units: NonZeroU32,
    /// Consecutive bytes on one unit, before the next unit.
    pub page_kib: NonZeroU32,
    /// Programming a page.
    pub program_us: Micros,
    /// Reading a page.
    pub read_us: Micros,
    /// Erasing a block.
    pub erase_us: Micros,
    /// The controller's time for each command.
    pub command_us: Micros,
}

pub(crate) fn spread(mean: Micros, fraction: Fraction) -> Spread {
    Spread::new(mean.get(), fraction.get())
}
