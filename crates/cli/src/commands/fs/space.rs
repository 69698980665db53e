//! `zoneweave fs df`.

use clap::Args;
use serde::Serialize;

use super::OfStore;
use crate::error::CliError;
use crate::exit::Exit;
use crate::format::bytes;
use crate::output::Output;

/// The store to look at.
#[derive(Args)]
pub(crate) struct Space {
    #[command(flatten)]
    store: OfStore,
}

#[derive(Serialize)]
struct Shown {
    label: String,
    capacity_bytes: u64,
    live_bytes: u64,
    free_bytes: u64,
    /// Neither live nor free: relocation makes it free.
    reclaimable_bytes: u64,
    zones: usize,
    metadata_zones: usize,
    empty_zones: usize,
    open_zones: usize,
    unusable_zones: usize,
}

pub(super) fn run(request: &Space, output: &Output) -> Result<Exit, CliError> {
    let shown = request.store.run(output, async |store| {
        let space = store.space().await?;
        let used = space.live_bytes.saturating_add(space.free_bytes);
        Ok(Shown {
            label: store.label(),
            capacity_bytes: space.capacity_bytes,
            live_bytes: space.live_bytes,
            free_bytes: space.free_bytes,
            reclaimable_bytes: space.capacity_bytes.saturating_sub(used),
            zones: space.zones,
            metadata_zones: space.metadata_zones,
            empty_zones: space.empty_zones,
            open_zones: space.open_zones,
            unusable_zones: space.unusable_zones,
        })
    })?;
    output.result("fs-df", &shown, |output| {
        output.line(format_args!(
            "{} of files · {} free · {} reclaimable · {} in all",
            bytes(shown.live_bytes),
            bytes(shown.free_bytes),
            bytes(shown.reclaimable_bytes),
            bytes(shown.capacity_bytes)
        ));
        output.line(format_args!(
            "{} zones: {} of metadata, {} empty, {} open, {} unusable",
            shown.zones,
            shown.metadata_zones,
            shown.empty_zones,
            shown.open_zones,
            shown.unusable_zones
        ));
    });
    Ok(Exit::Done)
}
