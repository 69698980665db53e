//! `zoneweave fs restore`: the files of a backup in a store.
//!
//! Every file of the backup is verified before the first one is stored: a backup that rotted
//! changes nothing. A name that the store has already is an error, also before the first.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use clap::Args;
use zoneweave_filestore::{Hints, Lifetime};
use zoneweave_store::{Code, Failure, Store};

use super::OfStore;
use super::backup::{Manifest, Places, Saved};
use super::data::{PIECE_BYTES, fill};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;

/// The largest manifest: 16 million files have less.
const MANIFEST_BYTES_MOST: u64 = 4 << 30;

/// The backup to store.
#[derive(Args)]
pub(crate) struct Restore {
    #[command(flatten)]
    store: OfStore,
    /// Local directory of `zoneweave fs backup`
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Verify the backup, and store nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(request: &Restore, output: &Output) -> Result<Exit, CliError> {
    let Restore { store, directory, dry_run } = request;
    let places = Places(directory);
    let manifest = read(&places)?;
    manifest.files.iter().try_for_each(|file| verify(file, &places))?;
    if !dry_run {
        store.run(output, async |store| {
            check_names(store, &manifest).await?;
            put_all(store, &manifest, &places).await
        })?;
    }
    Ok(manifest.sums().tell("fs-restore", output))
}

/// The manifest of a backup, which may be hostile: its paths are names of the store, and lead to
/// local files only below the directory.
fn read(places: &Places<'_>) -> Result<Manifest, CliError> {
    let path = places.manifest();
    let failed = |error| CliError::File { path: path.clone(), action: "read the backup", error };
    let bad = |problem: String| failed(io::Error::new(io::ErrorKind::InvalidData, problem));
    let mut text = String::new();
    let file = File::open(&path).map_err(failed)?;
    file.take(MANIFEST_BYTES_MOST).read_to_string(&mut text).map_err(failed)?;
    let manifest: Manifest = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
    manifest.check_version().map_err(bad)?;
    let paths = manifest.directories.iter().chain(manifest.files.iter().map(|file| &file.path));
    for path in paths {
        let is_special = |name: &str| matches!(name, "" | "." | "..");
        if !path.starts_with('/') || path[1..].split('/').any(is_special) {
            return Err(bad(format!("{path:?} is no path of a store")));
        }
    }
    let mut before = BTreeSet::new();
    for file in &manifest.files {
        hints(file).map_err(bad)?;
        if file.linked_to.as_ref().is_some_and(|path| !before.contains(path)) {
            return Err(bad(format!("{:?} is linked to no file before it", file.path)));
        }
        if !before.insert(&file.path) {
            return Err(bad(format!("{:?} is listed twice", file.path)));
        }
    }
    Ok(manifest)
}

fn hints(file: &Saved) -> Result<Hints, String> {
    let lifetime = Lifetime::from_number(file.lifetime);
    let lifetime = lifetime.ok_or_else(|| format!("{} is no lifetime", file.lifetime))?;
    if file.level == Some(u8::MAX) {
        return Err(format!("{} is no level", u8::MAX));
    }
    Ok(Hints { lifetime, level: file.level, expected_bytes: file.length_bytes })
}

/// Compares a file of the backup with its manifest.
fn verify(file: &Saved, places: &Places<'_>) -> Result<(), CliError> {
    if file.linked_to.is_some() {
        return Ok(());
    }
    let path = places.file(&file.path);
    let failed = |error| CliError::File { path: path.clone(), action: "read the backup", error };
    let mut local = open(&path).map_err(failed)?;
    let (mut buffer, mut crc, mut length) = (vec![0; PIECE_BYTES], 0, 0);
    loop {
        let count = local.read(&mut buffer).map_err(failed)?;
        if count == 0 {
            break;
        }
        crc = crc32c::crc32c_append(crc, &buffer[..count]);
        length += count as u64;
    }
    if (crc, length) != (file.crc32c, file.length_bytes) {
        let problem = "it is not the file that was saved: its length or checksum differs";
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, problem)));
    }
    Ok(())
}

/// A local file, which is no symbolic link out of the backup.
fn open(path: &PathBuf) -> io::Result<File> {
    if !std::fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a regular file"));
    }
    File::open(path)
}

async fn check_names(store: &Store, manifest: &Manifest) -> Result<(), CliError> {
    for Saved { path, .. } in &manifest.files {
        match store.metadata(path).await {
            Err(failure) if failure.code == Code::NotFound => {}
            Err(failure) => return Err(failure.into()),
            Ok(_) => {
                let problem = format!("{path}: exists already, and nothing was restored");
                return Err(Failure::new(Code::Exists, problem).into());
            }
        }
    }
    Ok(())
}

async fn put_all(store: &Store, manifest: &Manifest, places: &Places<'_>) -> Result<(), CliError> {
    for path in &manifest.directories {
        match store.create_directory(path).await {
            Err(failure) if failure.code == Code::Exists => {}
            made => made?,
        }
    }
    for file in &manifest.files {
        if let Some(first) = &file.linked_to {
            store.link(first, &file.path).await?;
            continue;
        }
        let local = places.file(&file.path);
        let failed = |error| CliError::File { path: local.clone(), action: "read", error };
        let mut input = open(&local).map_err(failed)?;
        let hints = hints(file).expect("they were checked");
        let writer = store.create(&file.path, hints, true).await?;
        fill(writer, &mut input, failed).await?;
    }
    Ok(())
}
