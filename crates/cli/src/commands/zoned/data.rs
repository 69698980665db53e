//! `zoneweave zoned read`, `write` and `append`.

use std::cell::Cell;
use std::io::{self, Read as _, Write as _};

use clap::Args;
use serde::Serialize;
use zoneweave_zoned::{
    AlignedBuffer, BLOCK_BYTES, BlockCount, Payload, Status, ZoneAddress, ZoneId, ZonedDevice,
    ZonedDeviceExt,
};

use super::{Target, known};
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::format::{bytes, parse_offset, parse_small_blocks};
use crate::output::Output;

/// What to do about an append without an answer.
const APPEND_UNKNOWN: &str = "the listed appends were made; if the server did not answer, one more may \
     have been: see `zoneweave zoned report` before you repeat it";

/// Advice for a write without an answer.
const WRITE_UNKNOWN: &str = "of the input were written, and more may have been: see \
     `zoneweave zoned report` before you repeat the rest";

/// Blocks of a request: 1 MiB.
const PIECE_BLOCKS: u32 = 256;

/// The range to read.
#[derive(Args)]
pub(crate) struct Read {
    #[command(flatten)]
    volume: Target,
    /// Number of the zone
    #[arg(long, value_name = "N")]
    zone: u32,
    /// First byte, from the start of the zone
    #[arg(long, value_name = "SIZE", value_parser = parse_offset, default_value = "0")]
    at: u32,
    /// Bytes to read [default: up to the write pointer]
    #[arg(long, value_name = "SIZE", value_parser = parse_small_blocks)]
    length: Option<u32>,
}

/// The place to write.
#[derive(Args)]
pub(crate) struct Write {
    #[command(flatten)]
    volume: Target,
    /// Number of the zone
    #[arg(long, value_name = "N")]
    zone: u32,
    /// Fail unless the write pointer is here, from the start of the zone
    #[arg(long, value_name = "SIZE", value_parser = parse_offset)]
    at: Option<u32>,
}

/// The zone to append to.
#[derive(Args)]
pub(crate) struct Append {
    #[command(flatten)]
    volume: Target,
    /// Number of the zone
    #[arg(long, value_name = "N")]
    zone: u32,
}

#[derive(Serialize)]
struct Written {
    zone: u32,
    offset_bytes: u64,
    written_bytes: u64,
}

#[derive(Serialize)]
struct Appended {
    zone: u32,
    /// Without the one that failed.
    appends: Vec<Place>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// An append, and where the volume put it.
#[derive(Serialize)]
struct Place {
    offset_bytes: u64,
    bytes: u64,
}

pub(super) fn read(request: &Read, output: &Output) -> Result<Exit, CliError> {
    request.volume.run(&[request.zone], output, async |volume| {
        let zone = known(volume, request.zone)?;
        let written = write_pointer(volume, zone).await?;
        let length = request.length.unwrap_or(written.saturating_sub(request.at));
        let end = request.at.saturating_add(length);
        let (mut at, mut most) = (request.at, PIECE_BLOCKS);
        while at < end {
            let blocks = BlockCount(most.min(end - at));
            match volume.read_in_pieces(ZoneAddress::new(zone, at), blocks).await {
                Ok(payload) => print(&payload)?,
                // Which block?
                Err(Status::UnrecoveredRead) if blocks.0 > 1 => {
                    most = 1;
                    continue;
                }
                Err(status) => return Err(refused(volume, ZoneAddress::new(zone, at), status)),
            }
            at += blocks.0;
        }
        Ok(Exit::Done)
    })
}

/// Writes blocks to standard output.
fn print(payload: &Payload) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    let failed = |error| CliError::System { action: "write to standard output", error };
    payload.data.iter().try_for_each(|part| stdout.write_all(part).map_err(failed))
}

/// Why a block was not read.
fn refused(volume: &dyn ZonedDevice, block: ZoneAddress, status: Status) -> CliError {
    let (zone, at) = (block.zone, bytes_of(block.offset.0));
    if status != Status::UnrecoveredRead {
        return CliError::Zone { zone, status };
    }
    let size = bytes_of(volume.geometry().zone_size.0);
    CliError::ZoneBlock { zone, at, offset: u64::from(zone.0) * size + at }
}

pub(super) fn write(request: &Write, output: &Output) -> Result<Exit, CliError> {
    let taken = Cell::new(0);
    let written = request.volume.run(&[request.zone], output, async |volume| {
        let zone = known(volume, request.zone)?;
        let start = write_pointer(volume, zone).await?;
        if request.at.is_some_and(|at| at != start) {
            let pointer = bytes(bytes_of(start));
            return Err(usage("at")(format!("the write pointer of {zone} is at {pointer}")));
        }
        let mut at = start;
        while let Some(payload) = next_piece(piece_blocks(volume))? {
            let blocks = payload.blocks();
            let written = volume.write(ZoneAddress::new(zone, at), payload, false).await;
            written.map_err(|status| match bytes_of(at - start) {
                0 => CliError::Zone { zone, status },
                written_bytes => CliError::ZoneRest { zone, status, written_bytes },
            })?;
            at += blocks.0;
            taken.set(bytes_of(at - start));
        }
        flush(volume, zone).await?;
        let (offset_bytes, written_bytes) = (bytes_of(start), bytes_of(at - start));
        Ok(Written { zone: zone.0, offset_bytes, written_bytes })
    });
    let written = written.inspect_err(|error| {
        // That of a server that has ended says nothing of it.
        if taken.get() > 0 && error.is_silence() {
            output.news(format_args!("the first {} bytes {WRITE_UNKNOWN}", taken.get()));
        }
    })?;
    output.result("zoned-write", &written, |output| {
        let Written { zone, offset_bytes, written_bytes } = &written;
        let (at, length) = (bytes(*offset_bytes), bytes(*written_bytes));
        output.line(format_args!("zone {zone}  {length} written at {at}"));
    });
    Ok(Exit::Done)
}

pub(super) fn append(request: &Append, output: &Output) -> Result<Exit, CliError> {
    let mut appends = Vec::new();
    let done = request.volume.run(&[request.zone], output, async |volume| {
        let zone = known(volume, request.zone)?;
        let most = piece_blocks(volume).min(volume.geometry().append_limit.0);
        while let Some(payload) = next_piece(most)? {
            let blocks = payload.blocks();
            assert!(blocks.0 <= most, "{blocks} at once");
            let at = volume.append(zone, payload, false).await;
            let at = at.map_err(|status| CliError::Zone { zone, status })?;
            appends.push(Place { offset_bytes: bytes_of(at.offset.0), bytes: bytes_of(blocks.0) });
        }
        flush(volume, zone).await
    });
    let zone = request.zone;
    let failure = match done {
        Ok(()) => None,
        Err(error) if appends.is_empty() => return Err(error),
        Err(error) => Some(error),
    };
    let exit_code = failure.as_ref().map(|error| error.exit().code());
    let error = failure.as_ref().map(ToString::to_string);
    if let Some(error) = &error {
        output.news(format_args!("zoneweave: {error}"));
        output.news(APPEND_UNKNOWN);
    }
    let kind = if failure.is_some() { "error" } else { "zoned-append" };
    let appended = Appended { zone, appends, exit_code, error };
    output.result(kind, &appended, |output| {
        for Place { offset_bytes, bytes: length } in &appended.appends {
            output.line(format_args!("zone {zone}  {length} bytes at byte {offset_bytes}"));
        }
    });
    Ok(failure.map_or(Exit::Done, |error| error.exit()))
}

fn bytes_of(blocks: u32) -> u64 {
    u64::from(blocks) * BLOCK_BYTES as u64
}

/// Blocks of a write to the volume.
fn piece_blocks(volume: &dyn ZonedDevice) -> u32 {
    PIECE_BLOCKS.min(volume.geometry().max_transfer.0)
}

async fn flush(volume: &dyn ZonedDevice, zone: ZoneId) -> Result<(), CliError> {
    volume.flush().await.map_err(|status| CliError::Zone { zone, status })
}

/// The write pointer of a zone, in blocks.
async fn write_pointer(volume: &dyn ZonedDevice, zone: ZoneId) -> Result<u32, CliError> {
    let failed = |status| CliError::Zone { zone, status };
    let report = volume.report_by(zone, 1, Default::default()).await.map_err(failed)?;
    let info = report.zones.first().ok_or(failed(Status::InternalError))?;
    Ok(info.write_pointer.0)
}

/// The next blocks of standard input, at most `most`; `None` at its end.
///
/// # Errors
/// If it ends within a block: the blocks before have been written.
fn next_piece(most: u32) -> Result<Option<Payload>, CliError> {
    let failed = |error| CliError::System { action: "read standard input", error };
    let mut data = Vec::new();
    let limit = bytes_of(most);
    io::stdin().lock().take(limit).read_to_end(&mut data).map_err(failed)?;
    if data.is_empty() {
        return Ok(None);
    }
    if data.len() % BLOCK_BYTES != 0 {
        let problem = "standard input ends within a block of 4096 bytes: pad it with zeros";
        return Err(failed(io::Error::new(io::ErrorKind::UnexpectedEof, problem)));
    }
    let blocks = u32::try_from(data.len() / BLOCK_BYTES).expect("at most a piece");
    assert!((1..=most).contains(&blocks), "{blocks} blocks were read, at most {most}");
    let mut buffer = AlignedBuffer::zeroed(BlockCount(blocks));
    buffer.as_mut()[..data.len()].copy_from_slice(&data);
    Ok(Some(Payload::new(buffer.freeze(), bytes::Bytes::new())))
}
