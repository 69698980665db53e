//! `zoneweave fs cat`, `put` and `get`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use zoneweave_filestore::Hints;
use zoneweave_store::{Code, Failure, Store, Writer};

use super::OfStore;
use crate::error::CliError;
use crate::exit::Exit;
use crate::format::bytes;
use crate::output::Output;

/// Bytes of a request.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// The file to show.
#[derive(Args)]
pub(crate) struct Cat {
    #[command(flatten)]
    store: OfStore,
    /// File of the store
    #[arg(value_name = "PATH")]
    path: String,
}

/// The file to store.
#[derive(Args)]
pub(crate) struct Put {
    #[command(flatten)]
    store: OfStore,
    /// Local file; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Path in the store
    #[arg(value_name = "PATH")]
    path: String,
}

/// The file to copy.
#[derive(Args)]
pub(crate) struct Get {
    #[command(flatten)]
    store: OfStore,
    /// File of the store
    #[arg(value_name = "PATH")]
    path: String,
    /// Local file to make, which must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Serialize)]
struct Copied<'a> {
    path: &'a str,
    length_bytes: u64,
}

pub(super) fn cat(request: &Cat, output: &Output) -> Result<Exit, CliError> {
    request.store.run(output, async |store| {
        let failed = |error| CliError::System { action: "write to standard output", error };
        copy(store, &request.path, &mut io::stdout().lock(), failed).await
    })?;
    Ok(Exit::Done)
}

pub(super) fn get(request: &Get, output: &Output) -> Result<Exit, CliError> {
    let Get { store, path, file } = request;
    let failed = |action| move |error| CliError::File { path: file.clone(), action, error };
    let length_bytes = store.run(output, async |store| {
        // Before the local file is made: a missing one leaves nothing behind.
        store.open_file(path).await?;
        let mut local = File::create_new(file).map_err(failed("make the file"))?;
        let copied = copy(store, path, &mut local, failed("write the file")).await;
        let synced = copied.and_then(|length| {
            local.sync_all().map_err(failed("sync the file"))?;
            Ok(length)
        });
        if synced.is_err() {
            // A part of a damaged file is not the file. The first error counts.
            let _removed = std::fs::remove_file(file);
        }
        synced
    })?;
    tell("fs-get", path, length_bytes, output)
}

pub(super) fn put(request: &Put, output: &Output) -> Result<Exit, CliError> {
    let Put { store, file, path } = request;
    let failed = |error| CliError::File { path: file.clone(), action: "read the file", error };
    let mut input: Box<dyn Read> = match file == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(file).map_err(failed)?),
    };
    let length_bytes = store.run(output, async |store| {
        let partial = format!("{path}.partial");
        let writer = store.create(&partial, Hints::default(), true).await;
        let writer = writer.map_err(|failure| of_parent(failure, path))?;
        match fill(writer, &mut input, failed).await {
            // The old file stays until the new one is whole and durable.
            Ok(length) => store.rename(&partial, path).await.map(|()| length).map_err(Into::into),
            Err(error) => {
                // The first error counts.
                let _removed = store.remove_file(&partial).await;
                Err(error)
            }
        }
    })?;
    tell("fs-put", path, length_bytes, output)
}

/// The failure to make the file at a path: what is not there is its directory.
fn of_parent(failure: Failure, path: &str) -> Failure {
    match path.rsplit_once('/') {
        Some((parent, _)) if failure.code == Code::NotFound && !parent.is_empty() => {
            Failure::new(Code::NotFound, format!("{parent}: no such directory in the store"))
        }
        _ => failure,
    }
}

/// Writes a new file and syncs it; returns its bytes.
pub(super) async fn fill(
    writer: Writer,
    input: &mut dyn Read,
    failed: impl Fn(io::Error) -> CliError,
) -> Result<u64, CliError> {
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        input.take(PIECE_BYTES as u64).read_to_end(&mut buffer).map_err(&failed)?;
        if buffer.is_empty() {
            break;
        }
        writer.append(&buffer).await?;
    }
    writer.sync().await?;
    let length = writer.length().await?;
    writer.close().await?;
    Ok(length)
}

/// Copies a file of the store; returns its bytes.
pub(super) async fn copy(
    store: &Store,
    path: &str,
    to: &mut dyn Write,
    failed: impl Fn(io::Error) -> CliError,
) -> Result<u64, CliError> {
    if store.metadata(path).await?.is_directory {
        return Err(Failure::new(Code::IsADirectory, format!("{path}: is a directory")).into());
    }
    let reader = store.open_file(path).await?;
    let mut buffer = vec![0; PIECE_BYTES];
    let mut offset = 0;
    loop {
        let count = reader.read_at(offset, &mut buffer).await?;
        if count == 0 {
            return to.flush().map(|()| offset).map_err(failed);
        }
        to.write_all(&buffer[..count]).map_err(&failed)?;
        offset += count as u64;
    }
}

fn tell(kind: &str, path: &str, length_bytes: u64, output: &Output) -> Result<Exit, CliError> {
    output.result(kind, &Copied { path, length_bytes }, |output| {
        output.line(format_args!("{path}  {}", bytes(length_bytes)));
    });
    Ok(Exit::Done)
}
