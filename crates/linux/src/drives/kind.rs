//! Which kind of drive a path leads to.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The file type at a path.
pub(super) enum Kind {
    /// A file with an emulated drive, or nothing.
    File,
    Character,
    Block,
}

pub(super) fn kind_of(path: &Path) -> Kind {
    match fs::metadata(path).map(|found| found.file_type()) {
        Ok(found) if found.is_char_device() => Kind::Character,
        Ok(found) if found.is_block_device() => Kind::Block,
        _ => Kind::File,
    }
}
