//! The parts of the repository that breaches are counted for, and the prose of their files.

use crate::TextFile;
use crate::prose::{Paragraph, comments, paragraphs, script_comments};

/// The part of the repository that a file counts for: its crate, `documents`, or `scripts`.
pub(crate) fn part(file: &TextFile) -> Option<String> {
    let mut folders = file.path.split('/');
    let first = folders.next()?;
    match first {
        _ if file.has_extension("md") => Some("documents".to_owned()),
        "crates" if file.has_extension("rs") => folders.next().map(str::to_owned),
        _ if file.has_extension("rs") => Some(first.to_owned()),
        _ if is_script(file) => Some("scripts".to_owned()),
        _ => None,
    }
}

fn is_script(file: &TextFile) -> bool {
    file.text.starts_with("#!") || ["py", "sh"].iter().any(|end| file.has_extension(end))
}

/// The prose of a file.
pub(crate) fn prose(file: &TextFile) -> Vec<Paragraph> {
    if file.has_extension("md") {
        paragraphs(&file.text)
    } else if file.has_extension("rs") {
        comments(&file.text)
    } else {
        script_comments(&file.text)
    }
}
