//! An array by its name, its UUID or its drives.

use std::path::PathBuf;

use clap::Args;

use crate::drives::search::ArraySearch;
use crate::error::CliError;
use crate::session::Session;

/// The array that a verb is for.
#[derive(Args)]
pub(super) struct Target {
    /// Name or UUID of the array, or its drives. An argument that is not a path is a name
    #[arg(value_name = "NAME|DRIVE", required = true)]
    words: Vec<PathBuf>,
    /// Also look for drives of the named array among the files of this folder (may be repeated)
    #[arg(long, value_name = "DIR")]
    search: Vec<PathBuf>,
}

impl Target {
    /// The name or UUID, if drives were not given.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.words[..] {
            [word] if word.is_dir() || !word.exists() => {
                word.to_str().filter(|name| !name.contains('/'))
            }
            _ => None,
        }
    }

    /// Folders to search, besides the devices of this machine.
    pub(super) fn folders(&self) -> &[PathBuf] {
        &self.search
    }

    /// The drives: those given, or those found of the array.
    ///
    /// # Errors
    /// If no drive of the array is found, or several arrays have its name.
    pub(super) fn drives(&self, session: &Session) -> Result<Vec<PathBuf>, CliError> {
        let Some(name) = self.name() else { return Ok(self.words.clone()) };
        let drives = ArraySearch::of(name, &self.search).next(session)?;
        match drives.is_empty() {
            false => Ok(drives),
            true => Err(CliError::NoSuchArray { array: name.to_owned() }),
        }
    }
}
