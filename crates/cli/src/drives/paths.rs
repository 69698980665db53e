//! Paths of drives.

use std::path::{Path, PathBuf};

use crate::error::CliError;

/// An absolute path for a server, which may have another working directory.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(|error| CliError::File {
        path: path.to_owned(),
        action: "make the path absolute",
        error,
    })
}

/// Whether two paths lead to the same file.
pub(crate) fn same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}
