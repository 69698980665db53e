//! Block traces: read or generated, folded onto a volume, and replayed on an emulated array.
//!
//! In the order of a request:
//!
//! - `lines` splits the bytes of a trace, and `alibaba` and `msr` parse a line.
//! - A [`Parser`] turns pieces into [`TraceRequest`]s. It does no I/O, keeps one line, and treats
//!   its input as hostile.
//! - `generate` draws a [`Mixture`] from published statistics, for users without the traces.
//! - `fold` maps requests to the volume, and [`Replay`] (`run`) sends them in virtual time.
//! - `fuzzing` is the body of a fuzz target.
//!
//! Invariant: a trace is hostile until it is parsed; a [`TraceRequest`] is within the limits of its
//! fields.

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

/// The largest request of a trace: the limit of a client of a volume.
pub const REQUEST_BYTES_MAX: u64 = 32 << 20;

/// The latest time of a request after the first one: about a century.
const TIME_MAX_NS: u64 = 1 << 61;

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// Time after the first request of the trace; not in order if the trace is not.
    pub at: Nanos,
    /// A number for the request's device.
    pub device: u64,
    /// The operation.
    pub direction: Direction,
    /// First byte.
    pub offset_bytes: u64,
    /// Length: at least one byte, at most [`REQUEST_BYTES_MAX`].
    pub bytes: u64,
}

/// The format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Alibaba's block traces of 2020: `device_id,opcode,offset,length,timestamp`, bytes and
    /// microseconds.
    Alibaba,
    /// MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, bytes and
    /// Windows' ticks of 100 ns.
    Msr,
}

/// Why a trace cannot be read. Lines are counted from one.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TraceError {
    /// A line exceeds the longest line of such traces.
    #[error("line {line} is longer than {} bytes", lines::LINE_BYTES_MAX)]
    LineTooLong {
        /// Number of the line.
        line: u64,
    },
    /// A line has the wrong number of fields.
    #[error("line {line} has {found} fields, not {needed}")]
    Fields {
        /// Number of the line.
        line: u64,
        /// Fields of the format.
        needed: usize,
        /// Fields of the line.
        found: usize,
    },
    /// A field is not a number that fits.
    #[error("line {line}: the {field} is not a number from 0 to 2^64 - 1")]
    Number {
        /// Number of the line.
        line: u64,
        /// The field.
        field: &'static str,
    },
    /// Neither a read nor a write.
    #[error("line {line}: the request is neither a read nor a write")]
    Operation {
        /// Number of the line.
        line: u64,
    },
    /// An empty or too large request.
    #[error("line {line}: a request has 1 to {REQUEST_BYTES_MAX} bytes, not {bytes}")]
    Length {
        /// Number of the line.
        line: u64,
        /// Length of the request.
        bytes: u64,
    },
    /// A request beyond any device.
    #[error("line {line}: the request ends beyond 2^64 bytes")]
    Range {
        /// Number of the line.
        line: u64,
    },
    /// A time longer after the first request than any trace lasts.
    #[error("line {line}: the request is more than a century after the first one")]
    Time {
        /// Number of the line.
        line: u64,
    },
}

/// The fields of a line.
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
    /// A parser at the beginning of a trace.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self { format, lines: Lines::default(), first: None }
    }

    /// The next request of `input`, whose consumed bytes are removed; `None` if more input is
    /// needed.
    ///
    /// # Errors
    ///
    /// If a line is malformed. Later lines can still be read, unless the line was too long.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<TraceRequest>, TraceError> {
        while let Some((line, text)) = self.lines.next(input)? {
            if !text.is_empty() {
                return request(self.format, &mut self.first, line, text).map(Some);
            }
        }
        Ok(None)
    }

    /// The last request, if the trace does not end with a newline.
    ///
    /// # Errors
    ///
    /// If the line is malformed.
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
    // In an unordered trace a request may be older than the first one: it is sent at once.
    let after = ticks.saturating_sub(*first.get_or_insert(ticks)).checked_mul(tick_ns);
    let at = after.filter(|after| *after <= TIME_MAX_NS).ok_or(TraceError::Time { line })?;
    Ok(TraceRequest { at: Nanos(at), device, direction, offset_bytes: offset, bytes: length })
}

#[cfg(test)]
mod tests;
