//! `zoneweave fs dump`.

use clap::Args;
use serde::Serialize;
use zoneweave_filestore::ZoneStatus;
use zoneweave_store::{Code, Store};
use zoneweave_zoned::BLOCK_BYTES;

use super::OfStore;
use super::stat::FileView;
use super::tree::tree;
use crate::error::CliError;
use crate::exit::Exit;
use crate::format::{bytes, table};
use crate::output::Output;

/// The store to print.
#[derive(Args)]
pub(crate) struct Dump {
    #[command(flatten)]
    store: OfStore,
}

#[derive(Serialize)]
struct Dumped {
    label: String,
    files: Vec<FileView>,
    zones: Vec<ZoneView>,
}

#[derive(Serialize)]
struct ZoneView {
    zone: u32,
    phase: &'static str,
    written_bytes: u64,
    live_bytes: u64,
    /// Expected lifetime of its files, as of a file.
    lifetime: u8,
    resets: u64,
}

impl ZoneView {
    fn of(status: &ZoneStatus) -> Self {
        let bytes = |blocks: u32| u64::from(blocks) * BLOCK_BYTES as u64;
        Self {
            zone: status.zone.0,
            phase: status.phase.name(),
            written_bytes: bytes(status.written),
            live_bytes: bytes(status.live),
            lifetime: status.lifetime.number(),
            resets: status.resets,
        }
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.zone.to_string(),
            self.phase.to_owned(),
            bytes(self.written_bytes),
            bytes(self.live_bytes),
            self.lifetime.to_string(),
            self.resets.to_string(),
        ]
    }
}

pub(super) fn run(request: &Dump, output: &Output) -> Result<Exit, CliError> {
    let dumped = request.store.run(output, dump)?;
    output.result("fs-dump", &dumped, |output| {
        let rows: Vec<_> = dumped.files.iter().flat_map(extent_rows).collect();
        let headings = ["PATH", ">OFFSET", ">BYTES", ">ZONE", ">BLOCK", ">BLOCKS"];
        table(&headings, &rows).iter().for_each(|line| output.line(line));
        let rows: Vec<_> = dumped.zones.iter().map(ZoneView::row).collect();
        let headings = [">ZONE", "PHASE", ">WRITTEN", ">LIVE", ">LIFETIME", ">RESETS"];
        output.line("");
        table(&headings, &rows).iter().for_each(|line| output.line(line));
    });
    Ok(Exit::Done)
}

async fn dump(store: &Store) -> Result<Dumped, CliError> {
    let mut files = Vec::new();
    for (path, _) in tree(store).await? {
        match FileView::of(store, &path).await {
            // Of a served store: it was removed meanwhile.
            Err(CliError::Store(failure)) if failure.code == Code::NotFound => {}
            file => files.push(file?),
        }
    }
    let zones = store.zones().await?.iter().map(ZoneView::of).collect();
    Ok(Dumped { label: store.label(), files, zones })
}

/// A row for each extent; one with the name alone if there is none.
fn extent_rows(file: &FileView) -> Vec<Vec<String>> {
    let mut rows: Vec<_> = file.extents.iter().map(super::stat::ExtentView::row).collect();
    if rows.is_empty() {
        rows.push(vec![String::new(); 6]);
    }
    rows[0][0].clone_from(&file.path);
    rows
}
