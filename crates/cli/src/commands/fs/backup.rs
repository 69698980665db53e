//! `zoneweave fs backup`: all files of a store in a local directory.
//!
//! ```text
//!   DIR/files/...        the files by their paths in the store
//!   DIR/manifest.json    their sizes, CRC-32C and hints; written last
//! ```
//!
//! A directory without a manifest is no backup: the command did not end. A store that changes while
//! it is copied gives files of different moments, so the command fails if it sees that. (A database
//! that is in use is backed up by itself, to another store or directory.)

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use zoneweave_filestore::{FileId, Metadata};
use zoneweave_store::Store;

use super::OfStore;
use super::data::copy;
use super::tree::{Named, tree};
use crate::error::CliError;
use crate::exit::Exit;
use crate::format::bytes;
use crate::output::Output;

/// The version of manifests.
const VERSION: u32 = 1;

/// The store to copy.
#[derive(Args)]
pub(crate) struct Backup {
    #[command(flatten)]
    store: OfStore,
    /// Local directory to create; it must not exist yet
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// The files of a backup.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    pub(super) version: u32,
    pub(super) label: String,
    /// Each after the directory that it is in.
    pub(super) directories: Vec<String>,
    pub(super) files: Vec<Saved>,
}

/// A file of a backup.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Saved {
    pub(super) path: String,
    pub(super) length_bytes: u64,
    /// Of its contents.
    pub(super) crc32c: u32,
    pub(super) lifetime: u8,
    pub(super) level: Option<u8>,
    /// The path of a file before it that is the same file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) linked_to: Option<String>,
}

/// Where a backup has its parts.
pub(super) struct Places<'a>(pub(super) &'a Path);

impl Places<'_> {
    pub(super) fn manifest(&self) -> PathBuf {
        self.0.join("manifest.json")
    }

    /// The local file of a path of the store.
    pub(super) fn file(&self, path: &str) -> PathBuf {
        self.0.join("files").join(path.trim_start_matches('/'))
    }
}

/// What was copied, for the report.
#[derive(Serialize)]
pub(super) struct Sums {
    files: usize,
    directories: usize,
    length_bytes: u64,
}

impl Sums {
    pub(super) fn tell(&self, kind: &str, output: &Output) -> Exit {
        let Self { files, directories, length_bytes } = self;
        output.result(kind, self, |output| {
            let size = bytes(*length_bytes);
            output.line(format_args!("{files} files, {directories} directories, {size}"));
        });
        Exit::Done
    }
}

impl Manifest {
    pub(super) fn check_version(&self) -> Result<(), String> {
        match self.version {
            VERSION => Ok(()),
            other => Err(format!("version {other} of a backup; this release reads {VERSION}")),
        }
    }

    pub(super) fn sums(&self) -> Sums {
        let own = self.files.iter().filter(|file| file.linked_to.is_none());
        Sums {
            files: self.files.len(),
            directories: self.directories.len(),
            length_bytes: own.map(|file| file.length_bytes).sum(),
        }
    }
}

pub(super) fn run(request: &Backup, output: &Output) -> Result<Exit, CliError> {
    let Backup { store, directory } = request;
    let manifest = store.run(output, async |store| {
        make(directory, directory)?;
        let before = tree(store).await?;
        let manifest = save(store, &before, &Places(directory)).await?;
        let changed = changed(&before, &tree(store).await?);
        match changed {
            None => Ok(manifest),
            Some(path) => Err(CliError::StoreChanged { path }),
        }
    })?;
    seal(&manifest, directory)?;
    Ok(manifest.sums().tell("fs-backup", output))
}

/// Makes a local directory.
fn make(directory: &Path, of: &Path) -> Result<(), CliError> {
    let failed =
        |error| CliError::File { path: of.to_owned(), action: "make the directory", error };
    fs::create_dir(directory).map_err(failed)
}

async fn save(store: &Store, tree: &[Named], places: &Places<'_>) -> Result<Manifest, CliError> {
    let mut manifest = Manifest { version: VERSION, label: store.label(), ..Default::default() };
    let mut seen: BTreeMap<FileId, usize> = BTreeMap::new();
    make(&places.file("/"), places.0)?;
    for (path, metadata) in tree {
        if metadata.is_directory {
            make(&places.file(path), &places.file(path))?;
            manifest.directories.push(path.clone());
            continue;
        }
        let twin = seen.get(&metadata.id).map(|index| manifest.files[*index].clone());
        let saved = match twin {
            Some(first) => {
                Saved { path: path.clone(), linked_to: Some(first.path.clone()), ..first }
            }
            None => save_file(store, path, metadata, places).await?,
        };
        assert!(saved.path == *path, "{} is saved as {path}", saved.path);
        if metadata.links > 1 && saved.linked_to.is_none() {
            seen.insert(metadata.id, manifest.files.len());
        }
        manifest.files.push(saved);
    }
    Ok(manifest)
}

async fn save_file(
    store: &Store,
    path: &str,
    metadata: &Metadata,
    places: &Places<'_>,
) -> Result<Saved, CliError> {
    let local = places.file(path);
    let failed = |action| {
        let path = local.clone();
        move |error| CliError::File { path, action, error }
    };
    let file = File::create_new(&local).map_err(failed("make the file"))?;
    let mut summed = Summed { file, crc: 0 };
    let write_failed =
        |error| CliError::File { path: local.clone(), action: "write the file", error };
    let length_bytes = copy(store, path, &mut summed, write_failed).await?;
    summed.file.sync_all().map_err(failed("sync the file"))?;
    Ok(Saved {
        path: path.to_owned(),
        length_bytes,
        crc32c: summed.crc,
        lifetime: metadata.hints.lifetime.number(),
        level: metadata.hints.level,
        linked_to: None,
    })
}

/// A file, and the CRC of all that was written.
struct Summed {
    file: File,
    crc: u32,
}

impl Write for Summed {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let count = self.file.write(data)?;
        self.crc = crc32c::crc32c_append(self.crc, &data[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The first path that is not as it was.
fn changed(before: &[Named], after: &[Named]) -> Option<String> {
    let differs = before.iter().zip(after).find(|(one, other)| one != other);
    let (one, other) = (before.get(after.len()), after.get(before.len()));
    differs.map(|(one, _)| one).or(one).or(other).map(|(path, _)| path.clone())
}

/// Makes the directory a backup.
fn seal(manifest: &Manifest, directory: &Path) -> Result<(), CliError> {
    assert!(manifest.version == VERSION, "a manifest of this release");
    let path = Places(directory).manifest();
    let failed = |error| CliError::File { path: path.clone(), action: "write the file", error };
    let mut text = serde_json::to_vec_pretty(manifest).expect("a manifest has no maps");
    text.push(b'\n');
    let mut file = File::create_new(&path).map_err(failed)?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)?;
    for made in [directory.to_owned(), Places(directory).file("/")] {
        File::open(&made).and_then(|directory| directory.sync_all()).map_err(failed)?;
    }
    Ok(())
}
