//! `zoneweave fs serve`.

use clap::Args;

use super::OfStore;
use crate::commands::serve::{StorePlace, ZonedStart, serve_store};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;

/// A file store to serve.
#[derive(Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    store: OfStore,
    #[command(flatten)]
    place: StorePlace,
    #[command(flatten, next_help_heading = "Zoned volumes")]
    start: ZonedStart,
}

pub(super) fn run(request: Serve, output: &Output) -> Result<Exit, CliError> {
    let Serve { store, place, start } = request;
    serve_store(&start.of(store.drives()?), place, output)
}
