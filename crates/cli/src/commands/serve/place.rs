//! Where a file store is served, and how it is opened.

use std::path::PathBuf;
use std::rc::Rc;

use clap::Args;
use zoneweave_filestore::{OpenOptions, policy};
use zoneweave_linux::unix_seconds;
use zoneweave_store::Recording;
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, Geometry};

use crate::error::{CliError, usage};
use crate::format::parse_bytes;
use crate::output::Output;

/// The largest buffer of a file: each that is written has one.
const BUFFER_BYTES_MAX: u64 = 64 << 20;

/// Sockets and options of a file store.
#[derive(Args, Clone, Debug)]
pub(crate) struct StorePlace {
    /// Also listen at this address: unix:PATH (may be repeated)
    #[arg(long = "socket", value_name = "ADDRESS")]
    pub(super) sockets: Vec<String>,
    /// Allocation policy: lifetime, sequential, least-worn, dual-pool or wear-aware
    #[arg(long, value_name = "NAME", default_value = "lifetime", value_parser = parse_policy)]
    policy: String,
    /// Bytes that a file collects before it writes them, e.g. 1M [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = parse_buffer)]
    buffer: Option<BlockCount>,
    /// Data zones written at once [default: all that the drive allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    active_zones: Option<u32>,
    /// Files open for writing at once [default: 1024]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    max_writers: Option<usize>,
    /// Record the events of files to this new file, for `zoneweave fs trace` and `fs replay`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Record reads, too
    #[arg(long, requires = "trace")]
    trace_reads: bool,
}

/// A policy by its name.
pub(crate) fn parse_policy(name: &str) -> Result<String, String> {
    let known = policy::by_name(name).map(|_| name.to_owned());
    known.ok_or_else(|| "use lifetime, sequential, least-worn, dual-pool or wear-aware".to_owned())
}

/// A buffer of whole blocks.
pub(crate) fn parse_buffer(text: &str) -> Result<BlockCount, String> {
    let bytes = parse_bytes(text)?;
    let fits = bytes > 0 && bytes <= BUFFER_BYTES_MAX && bytes.is_multiple_of(BLOCK_BYTES as u64);
    let blocks = u32::try_from(bytes / BLOCK_BYTES as u64).ok().filter(|_| fits);
    blocks.map(BlockCount).ok_or_else(|| "use blocks of 4 KiB, at most 64M".to_owned())
}

fn parse_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "use a number above zero".to_owned())
}

impl StorePlace {
    /// Begins the recording that was asked for, of a store on a drive.
    ///
    /// # Errors
    /// If its file cannot be made.
    pub(super) fn start_recording(
        &self,
        geometry: &Geometry,
        buffer: BlockCount,
        output: &Output,
    ) -> Result<Option<Rc<Recording>>, CliError> {
        let Some(path) = &self.trace else { return Ok(None) };
        let output = output.clone();
        let complain = Box::new(move |why: String| output.warning(why));
        Ok(Some(Recording::start(path, self.trace_reads, geometry, buffer, complain)?))
    }

    /// Options to open the store with.
    pub(super) fn options(&self) -> Result<OpenOptions, CliError> {
        let unknown = || usage("policy")(format!("{} is no policy", self.policy));
        let mut options = OpenOptions::default();
        options.policy = policy::by_name(&self.policy).ok_or_else(unknown)?;
        options.buffer = self.buffer.unwrap_or(options.buffer);
        options.active_zones = self.active_zones;
        options.max_writers = self.max_writers.unwrap_or(options.max_writers);
        options.clock = Rc::new(unix_seconds);
        Ok(options)
    }
}
