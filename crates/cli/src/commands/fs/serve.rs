//! `zoneweave fs serve`.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::OfStore;
use crate::commands::serve::{Served, StorePlace, parse_rate, serve_store};
use crate::error::CliError;
use crate::exit::Exit;
use crate::format::parse_time;
use crate::output::Output;

/// A file store to serve.
#[derive(Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    store: OfStore,
    #[command(flatten)]
    place: StorePlace,
    /// Zoned volumes: start without this drive, which takes it out of service; `any`: without all
    /// drives that cannot be opened
    #[arg(long, value_name = "DRIVE|any")]
    without: Vec<PathBuf>,
    /// Wait this long for drives that do not exist yet, e.g. 30s at boot [default: 0]
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "0s", hide_default_value = true)]
    wait: Duration,
    /// Zoned volumes: start without a majority of the drives
    #[arg(long)]
    force: bool,
    /// Zoned volumes: limit the write rate of a rebuild, in bytes per second, e.g. 200M
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    rebuild_limit: Option<NonZeroU64>,
}

pub(super) fn run(request: Serve, output: &Output) -> Result<Exit, CliError> {
    let Serve { store, place, without, wait, force, rebuild_limit } = request;
    let drives = store.drives()?;
    let served = Served { drives, without, wait, force, rebuild_limit, ..Served::default() };
    serve_store(&served, place, output)
}
