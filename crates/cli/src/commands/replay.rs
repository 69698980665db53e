//! `zoneweave replay`: a block trace, or a generated workload, on an emulated array.
//!
//! The array is in memory and its time is virtual: a trace of days is replayed in minutes, with the
//! same figures on every machine.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use zoneweave_raid::log::WriteChoice;
use zoneweave_raid::scheme::Scheme;
use zoneweave_sim::replay::{
    Format, MIXTURE_BLOCKS_MAX, Mixture, Pace, Parser, Replay as Replaying, Replayed, TraceRequest,
};
use zoneweave_sim::workload::Figures;

use crate::commands::array::create::CHUNK_BLOCKS;
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::format::{self};
use crate::output::{Output, Tone};
use crate::writing::{Writing, with_presets};

/// Bytes read from a trace at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Largest volume of generated requests, in blocks: 4 TiB.
const GENERATE_BLOCKS_MAX: u64 = 1 << 30;

#[derive(Args)]
pub(crate) struct Replay {
    /// Trace file: uncompressed CSV
    #[arg(
        value_name = "TRACE",
        conflicts_with = "generate",
        required_unless_present = "generate",
        requires = "format"
    )]
    trace: Option<PathBuf>,
    /// Format of the trace
    #[arg(long, value_enum)]
    format: Option<TraceFormat>,
    /// Generate this many requests instead of a trace, with Zipf-distributed addresses
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u64).range(1..))]
    generate: Option<u64>,
    #[command(flatten)]
    mixture: MixtureOptions,
    /// Maximum number of requests to replay
    #[arg(long, value_name = "REQUESTS")]
    limit: Option<u64>,
    /// Factor on recorded times: 0.5 is twice as fast
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = parse_factor, conflicts_with = "queue_depth")]
    scale_time: f64,
    /// Ignore recorded times and keep N requests in flight
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    queue_depth: Option<u32>,
    #[command(flatten)]
    array: ArrayOptions,
    #[command(flatten)]
    writing: Writing,
    /// Seed of the random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Options of generated requests.
#[derive(Args)]
struct MixtureOptions {
    /// Percentage of generated requests that write
    #[arg(long, value_name = "PERCENT", default_value_t = 90, requires = "generate", value_parser = clap::value_parser!(u8).range(0..=100))]
    write_percent: u8,
    /// Percentage of generated requests of 4 KiB
    #[arg(long, value_name = "PERCENT", default_value_t = 60, requires = "generate", value_parser = clap::value_parser!(u8).range(0..=100))]
    small_percent: u8,
    /// Percentage of generated requests of 16 to 256 KiB
    #[arg(long, value_name = "PERCENT", default_value_t = 25, requires = "generate", value_parser = clap::value_parser!(u8).range(0..=100))]
    large_percent: u8,
    /// Average rate of generated requests, per second
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "generate", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rate: u64,
}

/// The emulated array.
#[derive(Args)]
struct ArrayOptions {
    /// Drive preset, from `zoneweave emu presets`
    #[arg(long, value_name = "P", default_value = "zn540-1tb")]
    preset: String,
    /// Data chunks per stripe
    #[arg(long, value_name = "K", default_value_t = 3)]
    data: usize,
    /// Parity chunks per stripe
    #[arg(long, value_name = "M", default_value_t = 1)]
    parity: usize,
    /// Size of the volume; addresses of the trace are folded onto it
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = format::parse_blocks)]
    size: u64,
    /// Spare space in percent of the volume; a part of it is kept free for crash recovery
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=1000))]
    reserve: u32,
    /// Capacity of a zone; reset times scale with it
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = format::parse_small_blocks)]
    zone_capacity: u32,
}

/// Trace formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TraceFormat {
    /// device_id,opcode,offset,length,timestamp
    Alibaba,
    /// Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime
    Msr,
}

fn parse_factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (0.0..=1e6).contains(factor));
    factor.ok_or_else(|| "a factor is a number from 0 to 1000000".to_owned())
}

#[derive(Serialize)]
struct Document {
    preset: &'static str,
    scheme: String,
    volume_bytes: u64,
    zone_bytes: u64,
    #[serde(flatten)]
    replayed: Replayed,
}

pub(crate) fn run(request: &Replay, output: &Output) -> Result<Exit, CliError> {
    let replaying = replaying(request)?;
    let limit = request.limit.unwrap_or(u64::MAX);
    let replayed = match (&request.trace, request.format) {
        (Some(path), Some(format)) => {
            let mut source = Source::open(path, format)?;
            limited(limit, &replaying, || source.next())
        }
        _ => {
            let mut requests = mixture(request)?.requests();
            let limit = limit.min(request.generate.unwrap_or(0));
            limited(limit, &replaying, || Ok(requests.next()))
        }
    }?;
    let document = Document {
        preset: replaying.preset,
        scheme: replaying.scheme.to_string(),
        volume_bytes: replaying.volume_blocks * 4096,
        zone_bytes: u64::from(replaying.zone_blocks) * 4096,
        replayed,
    };
    output.result("replay", &document, |output| tell(&document, output));
    Ok(Exit::Done)
}

/// Replays at most `limit` requests.
fn limited(
    limit: u64,
    replaying: &Replaying,
    mut next: impl FnMut() -> Result<Option<TraceRequest>, CliError>,
) -> Result<Replayed, CliError> {
    let mut left = limit;
    replaying.run(|| {
        if left == 0 {
            return Ok(None);
        }
        left -= 1;
        next()
    })
}

fn replaying(request: &Replay) -> Result<Replaying, CliError> {
    let array = &request.array;
    let name = array.preset.as_str();
    let unknown = || format!("there is no preset {name}; `zoneweave emu presets` lists them");
    let preset = Replaying::preset_named(name).ok_or_else(unknown).map_err(usage("preset"))?;
    let scheme = Scheme::new(array.data, array.parity);
    let scheme = scheme.map_err(|error| usage("data")(error.to_string()))?;
    let writes = with_presets(request.writing.choice()?, || vec![Some(preset.to_owned())]);
    let chunk_blocks = match &writes {
        WriteChoice::Policy(policy) => policy.relocation.chunk_blocks,
        WriteChoice::AsMade | WriteChoice::Auto(_) => CHUNK_BLOCKS,
    };
    Ok(Replaying {
        preset,
        scheme,
        zone_blocks: array.zone_capacity,
        volume_blocks: array.size,
        reserve_percent: array.reserve,
        writes,
        chunk_blocks,
        pace: request.queue_depth.map_or(Pace::Recorded(request.scale_time), Pace::QueueDepth),
        seed: request.seed,
    })
}

fn mixture(request: &Replay) -> Result<Mixture, CliError> {
    let MixtureOptions { write_percent, small_percent, large_percent, rate } = request.mixture;
    if small_percent + large_percent > 100 {
        let problem = "--small-percent and --large-percent add up to more than 100".to_owned();
        return Err(CliError::Usage { option: "large-percent", problem });
    }
    let blocks = request.array.size;
    if !(MIXTURE_BLOCKS_MAX.into()..=GENERATE_BLOCKS_MAX).contains(&blocks) {
        let problem = "--generate needs a volume of 256KiB to 4TiB".to_owned();
        return Err(CliError::Usage { option: "size", problem });
    }
    let part = |percent: u8| u64::from(percent) * 100;
    Ok(Mixture {
        writes: part(write_percent),
        small: part(small_percent),
        large: part(large_percent),
        blocks,
        rate,
        seed: request.seed,
    })
}

/// A trace in a file.
struct Source {
    path: PathBuf,
    file: File,
    parser: Parser,
    piece: Vec<u8>,
    /// The unparsed part of the piece.
    left: std::ops::Range<usize>,
}

impl Source {
    fn open(path: &Path, format: TraceFormat) -> Result<Self, CliError> {
        let format = match format {
            TraceFormat::Alibaba => Format::Alibaba,
            TraceFormat::Msr => Format::Msr,
        };
        let failed = |error| CliError::File { path: path.to_owned(), action: "open", error };
        Ok(Self {
            path: path.to_owned(),
            file: File::open(path).map_err(failed)?,
            parser: Parser::new(format),
            piece: vec![0; PIECE_BYTES],
            left: 0..0,
        })
    }

    fn next(&mut self) -> Result<Option<TraceRequest>, CliError> {
        loop {
            let mut input = &self.piece[self.left.clone()];
            let found = self.parser.next(&mut input);
            self.left.start = self.left.end - input.len();
            if let Some(request) = found.map_err(|error| self.refused(error))? {
                return Ok(Some(request));
            }
            let count = self.read()?;
            if count == 0 {
                return self.parser.finish().map_err(|error| self.refused(error));
            }
            self.left = 0..count;
        }
    }

    fn read(&mut self) -> Result<usize, CliError> {
        loop {
            match self.file.read(&mut self.piece) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(CliError::File { path: self.path.clone(), action: "read", error });
                }
            }
        }
    }

    fn refused(&self, error: zoneweave_sim::replay::TraceError) -> CliError {
        CliError::Trace { path: self.path.clone(), error }
    }
}

fn tell(document: &Document, output: &Output) {
    let Document { preset, scheme, volume_bytes, zone_bytes, replayed } = document;
    let (volume, zone) = (format::bytes(*volume_bytes), format::bytes(*zone_bytes));
    let Replayed { all, reads, writes, write_amplification } = replayed;
    output.line(format_args!(
        "{scheme} on {preset} drives with zones of {zone}, volume of {volume}; {:.3} s of virtual time",
        all.seconds
    ));
    let row = |(name, figures): (&str, &Figures)| {
        let micros = |value: f64| format!("{value:.1}");
        let latencies = [figures.p50_us, figures.p95_us, figures.p99_us, figures.p999_us];
        let mut cells = vec![
            name.to_owned(),
            figures.operations.to_string(),
            format!("{:.0}", figures.iops),
            format!("{:.1}", figures.mib_per_second),
        ];
        cells.extend(latencies.map(micros));
        cells.push(micros(figures.max_us));
        cells
    };
    let rows = [("all", all), ("reads", reads), ("writes", writes)].map(row);
    let headings = [
        "",
        ">REQUESTS",
        ">IOPS",
        ">MiB/s",
        ">p50 us",
        ">p95 us",
        ">p99 us",
        ">p99.9 us",
        ">max us",
    ];
    for (number, text) in format::table(&headings, &rows).iter().enumerate() {
        output.line(if number == 0 { output.paint(Tone::Faint, text) } else { text.clone() });
    }
    output.line(format_args!("write amplification {write_amplification:.2}, without parity"));
}
