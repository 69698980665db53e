//! Block traces: read, made up, folded onto a volume, and replayed on an emulated array.
//!
//! A [`Parser`] makes [`TraceRequest`]s of the bytes of a trace, as they come: it reads nothing itself, keeps one
//! line, and takes whatever it is given for hostile. A [`Mixture`] makes up requests as published statistics
//! describe them, for those who do not have the traces. [`Replay`] carries either out in virtual time.

mod alibaba;
mod fold;
pub mod fuzzing;
mod generate;
mod lines;
mod msr;
mod run;

use thiserror::Error;
use zoneweave_runtime::Nanos;

pub use generate::{MIXTURE_BLOCKS_MAX, Mixture};
pub use run::{Pace, Replay, Replayed};

use crate::workload::Direction;
use lines::Lines;

/// The largest request that a trace may have: what a client of a volume may send at once.
pub const REQUEST_BYTES_MAX: u64 = 32 << 20;

/// The latest time of a request after the first one: a hundred years or so.
const TIME_MAX_NS: u64 = 1 << 61;

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// When, after the first request of the trace. Not in order where the trace is not.
    pub at: Nanos,
    /// A number for the device that it was sent to.
    pub device: u64,
    /// What it did.
    pub direction: Direction,
    /// Where, in bytes.
    pub offset_bytes: u64,
    /// How much: at least one byte, at most [`REQUEST_BYTES_MAX`].
    pub bytes: u64,
}

/// How a trace is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Alibaba's block traces of 2020: `device_id,opcode,offset,length,timestamp`, bytes and microseconds.
    Alibaba,
    /// MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, bytes and Windows' ticks of
    /// 100 ns.
    Msr,
}

/// Why a trace cannot be read. Lines are counted from one.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TraceError {
    /// Longer than any line of such a trace.
    #[error("line {line} is longer than {} bytes", lines::LINE_BYTES_MAX)]
    LineTooLong {
        /// Which.
        line: u64,
    },
    /// Not as many fields as the format has.
    #[error("line {line} has {found} fields, not {needed}")]
    Fields {
        /// Which.
        line: u64,
        /// What the format has.
        needed: usize,
        /// What the line has.
        found: usize,
    },
    /// Something else than a number that fits.
    #[error("line {line}: the {field} is no number from 0 to 2^64 - 1")]
    Number {
        /// Which.
        line: u64,
        /// What should be one.
        field: &'static str,
    },
    /// Neither a read nor a write.
    #[error("line {line}: the request is neither a read nor a write")]
    Operation {
        /// Which.
        line: u64,
    },
    /// Nothing, or too much, at once.
    #[error("line {line}: a request has 1 to {REQUEST_BYTES_MAX} bytes, not {bytes}")]
    Length {
        /// Which.
        line: u64,
        /// How much.
        bytes: u64,
    },
    /// Beyond any device.
    #[error("line {line}: the request ends beyond 2^64 bytes")]
    Range {
        /// Which.
        line: u64,
    },
    /// Longer after the first request than any trace lasts.
    #[error("line {line}: the request comes more than a century after the first one")]
    Time {
        /// Which.
        line: u64,
    },
}

/// What a line says.
struct Parsed {
    ticks: u64,
    device: u64,
    direction: Direction,
    offset: u64,
    length: u64,
}

/// Reads a trace, piece by piece.
#[derive(Clone, Debug)]
pub struct Parser {
    format: Format,
    lines: Lines,
    /// The time of the first request, in the trace's ticks.
    first: Option<u64>,
}

impl Parser {
    /// At the beginning of a trace.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self { format, lines: Lines::default(), first: None }
    }

    /// The next request of `input`, from which what was read is taken; none if all of it was read and more is needed.
    ///
    /// # Errors
    /// If a line is none of such a trace. What comes after it can be read all the same, unless it was too long.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<TraceRequest>, TraceError> {
        while let Some((line, text)) = self.lines.next(input)? {
            if !text.is_empty() {
                return request(self.format, &mut self.first, line, text).map(Some);
            }
        }
        Ok(None)
    }

    /// The last request, if the trace does not end with the end of a line.
    ///
    /// # Errors
    /// If the line is none of such a trace.
    pub fn finish(&mut self) -> Result<Option<TraceRequest>, TraceError> {
        let Some((line, text)) = self.lines.finish() else { return Ok(None) };
        request(self.format, &mut self.first, line, text).map(Some)
    }
}

fn request(
    format: Format,
    first: &mut Option<u64>,
    line: u64,
    text: &[u8],
) -> Result<TraceRequest, TraceError> {
    let (parsed, tick_ns) = match format {
        Format::Alibaba => (alibaba::parse(line, text)?, 1000),
        Format::Msr => (msr::parse(line, text)?, 100),
    };
    let Parsed { ticks, device, direction, offset, length } = parsed;
    if !(1..=REQUEST_BYTES_MAX).contains(&length) {
        return Err(TraceError::Length { line, bytes: length });
    }
    if offset.checked_add(length).is_none() {
        return Err(TraceError::Range { line });
    }
    // Where a trace is not in order, a request may be older than the first one: it comes at once.
    let after = ticks.saturating_sub(*first.get_or_insert(ticks)).checked_mul(tick_ns);
    let at = after.filter(|after| *after <= TIME_MAX_NS).ok_or(TraceError::Time { line })?;
    Ok(TraceRequest { at: Nanos(at), device, direction, offset_bytes: offset, bytes: length })
}

#[cfg(test)]
mod tests;
