//! `zoneweave fs ls`.

use std::time::{Duration, SystemTime};

use clap::Args;
use serde::Serialize;
use zoneweave_filestore::Metadata;
use zoneweave_store::Store;

use super::OfStore;
use crate::error::CliError;
use crate::exit::Exit;
use crate::format::{bytes, printable, table};
use crate::output::Output;

/// The directory to list.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    store: OfStore,
    /// Directory or file
    #[arg(value_name = "PATH", default_value = "/")]
    path: String,
}

#[derive(Serialize)]
struct Listed {
    entries: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    name: String,
    id: u64,
    is_directory: bool,
    length_bytes: u64,
    /// Seconds since 1970 of the last change of its length.
    modified: u64,
    links: u32,
    lifetime: u8,
    level: Option<u8>,
    extents: usize,
}

impl Entry {
    fn of(name: String, metadata: &Metadata) -> Self {
        Self {
            name,
            id: metadata.id.0,
            is_directory: metadata.is_directory,
            length_bytes: metadata.length,
            modified: metadata.modified,
            links: metadata.links,
            lifetime: metadata.hints.lifetime.number(),
            level: metadata.hints.level,
            extents: metadata.extents,
        }
    }
}

pub(super) fn run(request: &List, output: &Output) -> Result<Exit, CliError> {
    let listed = request.store.run(output, async |store| list(store, &request.path).await)?;
    output.result("fs-ls", &listed, |output| {
        let rows: Vec<_> = listed.entries.iter().map(row).collect();
        let headings = [">SIZE", ">LINKS", ">EXTENTS", "MODIFIED", "NAME"];
        table(&headings, &rows).iter().for_each(|line| output.line(line));
    });
    Ok(Exit::Done)
}

async fn list(store: &Store, path: &str) -> Result<Listed, CliError> {
    let found = store.metadata(path).await?;
    let entries = match found.is_directory {
        true => {
            let listed = store.list(path).await?;
            listed.iter().map(|(name, of)| Entry::of(name.clone(), of)).collect()
        }
        false => vec![Entry::of(path.to_owned(), &found)],
    };
    Ok(Listed { entries })
}

fn row(entry: &Entry) -> Vec<String> {
    let (slash, length) = match entry.is_directory {
        true => ("/", "-".to_owned()),
        false => ("", bytes(entry.length_bytes)),
    };
    vec![
        length,
        entry.links.to_string(),
        entry.extents.to_string(),
        time(entry.modified),
        format!("{}{slash}", printable(&entry.name)),
    ]
}

/// Seconds since 1970 as a time. One that the system does not have is shown as the first one.
pub(super) fn time(seconds: u64) -> String {
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    humantime::format_rfc3339_seconds(time.unwrap_or(SystemTime::UNIX_EPOCH)).to_string()
}
