//! MSR Cambridge traces: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! Timestamps are Windows' (100 ns since 1601), `Type` is `Read` or `Write`, offsets and sizes are
//! bytes (Narayanan et al., "Write Off-Loading", FAST 2008; SNIA IOTTA). The response time is not
//! used, but must be a number.

use super::lines::{device, fields, number};
use super::{Parsed, TraceError};
use crate::workload::Direction;

pub(super) fn parse(line: u64, text: &[u8]) -> Result<Parsed, TraceError> {
    let [timestamp, host, disk, kind, offset, size, response] = fields(line, text)?;
    number(line, "response time", response)?;
    number(line, "disk number", disk)?;
    Ok(Parsed {
        ticks: number(line, "timestamp", timestamp)?,
        device: device(&[host, disk]),
        direction: if kind.eq_ignore_ascii_case(b"read") {
            Direction::Read
        } else if kind.eq_ignore_ascii_case(b"write") {
            Direction::Write
        } else {
            return Err(TraceError::Operation { line });
        },
        offset: number(line, "offset", offset)?,
        length: number(line, "size", size)?,
    })
}
