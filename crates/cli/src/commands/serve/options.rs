//! Options of all front ends: the array, and how it is started.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::control::{Schedule, parse_schedule};
use crate::drives::search::ArraySearch;
use crate::events::EventOptions;
use crate::format::{parse_bytes, parse_time};
use crate::start::Unusable;
use crate::writing::Writing;

/// The array to serve, and how.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Served {
    /// Drives of the array, or of all shards of a volume, in any order
    #[arg(value_name = "DRIVE", required_unless_present = "array")]
    pub drives: Vec<PathBuf>,
    #[command(flatten)]
    pub by_name: ByName,
    /// Start without this drive: the first write takes it out of service. `any`: without all drives
    /// that cannot be opened. By default such a drive makes the start fail
    #[arg(long, value_name = "DRIVE|any")]
    pub without: Vec<PathBuf>,
    /// Wait this long for drives that do not exist yet, e.g. 30s at boot. Members that were not
    /// given are looked for beside the others [default: 0]
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "0s", hide_default_value = true)]
    pub wait: Duration,
    /// Start without a majority of the drives (re-add the missing ones with `array replace`), or
    /// although data is lost and its blocks are unknown (they may read as older data)
    #[arg(long)]
    pub force: bool,
    /// Wait for slow drives instead of reconstructing their late reads from the other drives
    #[arg(long)]
    pub no_hedging: bool,
    /// Hot spare: replaces a drive that fails (may be repeated). A spare that has become a member
    /// may still be given here. Shards get spares in turn
    #[arg(long, value_name = "DRIVE")]
    pub spare: Vec<PathBuf>,
    /// Scrub every so often, e.g. 30d from start to start, or at a time of the week in UTC,
    /// "sun 02:00" [default: only by `array scrub`]. An offset per array keeps several from
    /// scrubbing together. A scrub that is due waits for missing members
    #[arg(long, value_name = "SCHEDULE", value_parser = parse_schedule)]
    pub scrub: Option<Schedule>,
    /// Limit the write rate of a rebuild, in bytes per second, e.g. 200M (at least 1M)
    /// [default: unlimited]
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    pub rebuild_limit: Option<NonZeroU64>,
    /// Limit the in-memory index, e.g. 256M (at least 64K per shard) [default: unlimited, about
    /// 1 GiB per TiB]. Least recently used pages are kept on the drives
    #[arg(long, value_name = "SIZE", value_parser = parse_index_memory)]
    pub index_memory: Option<u64>,
    /// Load the whole index before serving, not in the background (about 2 s per TiB, and a
    /// quarter more memory)
    #[arg(long)]
    pub whole_index: bool,
    #[command(flatten)]
    pub writing: Writing,
    #[command(flatten)]
    pub events: EventOptions,
}

/// An array by its name instead of its drives.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ByName {
    /// Find the drives of this array among the zoned drives of this machine, instead of DRIVE...
    #[arg(long, value_name = "NAME|UUID", conflicts_with = "drives")]
    pub array: Option<String>,
    /// Also look among the files of this folder (may be repeated)
    #[arg(long, value_name = "DIR", requires = "array")]
    pub search: Vec<PathBuf>,
}

impl ByName {
    /// The search for the drives of the array.
    pub(crate) fn search(&self) -> Option<ArraySearch> {
        self.array.as_ref().map(|array| ArraySearch::of(array, &self.search))
    }
}

impl Served {
    /// Treatment of drives that cannot be opened.
    pub(super) fn unusable(&self) -> Unusable {
        match self.without.iter().any(|path| path == Path::new("any")) {
            true => Unusable::LeaveOut,
            false => Unusable::Refuse,
        }
    }
}

/// The lowest rebuild rate, in bytes per second: 1 TB takes eleven days at it.
const LEAST_RATE: u64 = 1 << 20;

pub(super) fn parse_rate(text: &str) -> Result<NonZeroU64, String> {
    let bytes = parse_bytes(text)?;
    let slow = || format!("{bytes} bytes per second is too slow for a rebuild: use 1M or more");
    NonZeroU64::new(bytes).filter(|bytes| bytes.get() >= LEAST_RATE).ok_or_else(slow)
}

/// The lowest index memory, in bytes: with less, every request would read its page again.
pub(super) const LEAST_INDEX_MEMORY: u64 = 64 << 10;

fn parse_index_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    let little = || format!("{bytes} bytes of index memory is too little: use 64K or more");
    (bytes >= LEAST_INDEX_MEMORY).then_some(bytes).ok_or_else(little)
}
