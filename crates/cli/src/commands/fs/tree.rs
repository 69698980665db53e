//! All names of a store.

use zoneweave_filestore::{Metadata, PATH_NAMES_MAX};
use zoneweave_store::{Code, Failure, Store};

/// A path with its file or directory.
pub(super) type Named = (String, Metadata);

/// All paths below the root, a directory before its contents. Names that disappear meanwhile are
/// left out.
///
/// # Errors
/// If the store cannot be read, or has paths that no store has.
pub(super) async fn tree(store: &Store) -> Result<Vec<Named>, Failure> {
    let (mut found, mut open) = (Vec::new(), vec![("/".to_owned(), 0)]);
    while let Some((directory, depth)) = open.pop() {
        if depth > PATH_NAMES_MAX {
            return Err(Failure::new(Code::Invalid, format!("{directory}: too many names")));
        }
        let listed = match store.list(&directory).await {
            Err(failure) if failure.code == Code::NotFound => continue,
            listed => listed?,
        };
        for (name, metadata) in listed {
            let path = format!("{}/{name}", directory.trim_end_matches('/'));
            if metadata.is_directory {
                open.push((path.clone(), depth + 1));
            }
            found.push((path, metadata));
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}
