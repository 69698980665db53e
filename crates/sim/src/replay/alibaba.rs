//! Alibaba's block traces of 2020: `device_id,opcode,offset,length,timestamp`.
//!
//! `opcode` is `R` or `W`, offsets and lengths are bytes, timestamps microseconds
//! (github.com/alibaba/block-traces).

use super::lines::{device, fields, number};
use super::{Parsed, TraceError};
use crate::workload::Direction;

pub(super) fn parse(line: u64, text: &[u8]) -> Result<Parsed, TraceError> {
    let [id, opcode, offset, length, timestamp] = fields(line, text)?;
    number(line, "device", id)?;
    Ok(Parsed {
        ticks: number(line, "timestamp", timestamp)?,
        device: device(&[id]),
        direction: match opcode {
            b"R" => Direction::Read,
            b"W" => Direction::Write,
            _ => return Err(TraceError::Operation { line }),
        },
        offset: number(line, "offset", offset)?,
        length: number(line, "length", length)?,
    })
}
