//! `zoneweave fs stat`.

use clap::Args;
use serde::Serialize;
use zoneweave_filestore::{ExtentStatus, Metadata};
use zoneweave_store::Store;
use zoneweave_zoned::BLOCK_BYTES;

use super::OfStore;
use super::list::time;
use crate::error::CliError;
use crate::exit::Exit;
use crate::format::{bytes, table};
use crate::output::Output;

/// The files to look at.
#[derive(Args)]
pub(crate) struct Stat {
    #[command(flatten)]
    store: OfStore,
    /// Files or directories
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
}

#[derive(Serialize)]
struct Shown {
    files: Vec<FileView>,
}

/// A file or directory.
#[derive(Serialize)]
pub(super) struct FileView {
    pub(super) path: String,
    id: u64,
    is_directory: bool,
    length_bytes: u64,
    /// Blocks of the drive, as bytes.
    used_bytes: u64,
    /// Seconds since 1970 of the last change of its length.
    modified: u64,
    links: u32,
    /// Expected lifetime: 0 not set, 1 none, 2 short, 3 medium, 4 long, 5 extreme.
    lifetime: u8,
    level: Option<u8>,
    pub(super) extents: Vec<ExtentView>,
}

/// Consecutive blocks of a file in a zone.
#[derive(Serialize)]
pub(super) struct ExtentView {
    offset_bytes: u64,
    length_bytes: u64,
    zone: u32,
    block: u32,
    blocks: u32,
}

impl FileView {
    /// A path, and all that its store knows of it.
    pub(super) async fn of(store: &Store, path: &str) -> Result<Self, CliError> {
        let metadata = store.metadata(path).await?;
        let extents = match metadata.is_directory {
            true => Vec::new(),
            false => store.extents(path).await?,
        };
        Ok(Self::new(path, &metadata, &extents))
    }

    fn new(path: &str, metadata: &Metadata, extents: &[ExtentStatus]) -> Self {
        let blocks: u64 = extents.iter().map(|extent| u64::from(extent.blocks.0)).sum();
        Self {
            path: path.to_owned(),
            id: metadata.id.0,
            is_directory: metadata.is_directory,
            length_bytes: metadata.length,
            used_bytes: blocks * BLOCK_BYTES as u64,
            modified: metadata.modified,
            links: metadata.links,
            lifetime: metadata.hints.lifetime.number(),
            level: metadata.hints.level,
            extents: extents.iter().map(ExtentView::of).collect(),
        }
    }

    fn tell(&self, output: &Output) {
        let kind = if self.is_directory { "directory" } else { "file" };
        output.line(format_args!("{}  {kind} {}", self.path, self.id));
        output.line(format_args!("  modified  {}", time(self.modified)));
        if self.is_directory {
            return;
        }
        let level = self.level.map_or_else(|| "-".to_owned(), |level| level.to_string());
        output.line(format_args!(
            "  size      {} ({} bytes), {} of the drive",
            bytes(self.length_bytes),
            self.length_bytes,
            bytes(self.used_bytes)
        ));
        output.line(format_args!("  links     {}", self.links));
        output.line(format_args!("  placement lifetime {}, level {level}", self.lifetime));
        let rows: Vec<_> = self.extents.iter().map(ExtentView::row).collect();
        let headings = ["", ">OFFSET", ">BYTES", ">ZONE", ">BLOCK", ">BLOCKS"];
        table(&headings, &rows).iter().for_each(|line| output.line(line));
    }
}

impl ExtentView {
    fn of(extent: &ExtentStatus) -> Self {
        Self {
            offset_bytes: extent.offset,
            length_bytes: extent.bytes,
            zone: extent.at.zone.0,
            block: extent.at.offset.0,
            blocks: extent.blocks.0,
        }
    }

    pub(super) fn row(&self) -> Vec<String> {
        let numbers = [self.offset_bytes, self.length_bytes];
        let places = [self.zone, self.block, self.blocks];
        let cells = numbers.iter().map(u64::to_string).chain(places.iter().map(u32::to_string));
        std::iter::once(String::new()).chain(cells).collect()
    }
}

pub(super) fn run(request: &Stat, output: &Output) -> Result<Exit, CliError> {
    let files = request.store.run(output, async |store| {
        let mut files = Vec::new();
        for path in &request.paths {
            files.push(FileView::of(store, path).await?);
        }
        Ok(files)
    })?;
    let shown = Shown { files };
    output.result("fs-stat", &shown, |output| {
        shown.files.iter().for_each(|file| file.tell(output));
    });
    Ok(Exit::Done)
}
