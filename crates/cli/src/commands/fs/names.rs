//! `zoneweave fs rm`, `mv`, `mkdir` and `ln`. Each change is durable on return.

use clap::Args;
use serde::Serialize;

use super::OfStore;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;

/// The names to remove.
#[derive(Args)]
pub(crate) struct Remove {
    #[command(flatten)]
    store: OfStore,
    /// Files, or empty directories
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
}

/// A name, and a new one.
#[derive(Args)]
pub(crate) struct Move {
    #[command(flatten)]
    store: OfStore,
    /// File or directory
    #[arg(value_name = "FROM")]
    from: String,
    /// Its new path
    #[arg(value_name = "TO")]
    to: String,
}

/// A file, and another name.
#[derive(Args)]
pub(crate) struct Link {
    #[command(flatten)]
    store: OfStore,
    /// File
    #[arg(value_name = "FILE")]
    file: String,
    /// Its other path
    #[arg(value_name = "NAME")]
    name: String,
}

/// The directories to make.
#[derive(Args)]
pub(crate) struct MakeDirectories {
    #[command(flatten)]
    store: OfStore,
    /// Directories
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
}

#[derive(Serialize)]
struct Changed<'a> {
    paths: &'a [String],
}

pub(super) fn remove(request: &Remove, output: &Output) -> Result<Exit, CliError> {
    request.store.run(output, async |store| {
        for path in &request.paths {
            match store.metadata(path).await?.is_directory {
                true => store.remove_directory(path).await?,
                false => store.remove_file(path).await?,
            }
        }
        Ok(())
    })?;
    done("fs-rm", &request.paths, output)
}

pub(super) fn rename(request: &Move, output: &Output) -> Result<Exit, CliError> {
    let Move { store, from, to } = request;
    store.run(output, async |store| Ok(store.rename(from, to).await?))?;
    done("fs-mv", &[from.clone(), to.clone()], output)
}

pub(super) fn link(request: &Link, output: &Output) -> Result<Exit, CliError> {
    let Link { store, file, name } = request;
    store.run(output, async |store| Ok(store.link(file, name).await?))?;
    done("fs-ln", &[file.clone(), name.clone()], output)
}

pub(super) fn make_directories(
    request: &MakeDirectories,
    output: &Output,
) -> Result<Exit, CliError> {
    request.store.run(output, async |store| {
        for path in &request.paths {
            store.create_directory(path).await?;
        }
        Ok(())
    })?;
    done("fs-mkdir", &request.paths, output)
}

/// Reports success, of which text says nothing.
fn done(kind: &str, paths: &[String], output: &Output) -> Result<Exit, CliError> {
    output.result(kind, &Changed { paths }, |_| {});
    Ok(Exit::Done)
}
