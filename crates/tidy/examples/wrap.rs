//! Breaks the comment lines of Rust files that are wider than 100 columns.
//!
//! `cargo run -q -p zoneweave-tidy --example wrap -- crates/raid/src`, with files or folders.

use zoneweave_tidy::Repository;
use zoneweave_tidy::prose::wrap_comments;

fn main() -> std::io::Result<()> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let repository = Repository::read();
    for file in repository.with_extension("rs") {
        if !paths.iter().any(|path| file.path.starts_with(path.as_str())) {
            continue;
        }
        let wrapped = wrap_comments(&file.text, 100);
        if wrapped != file.text {
            std::fs::write(Repository::root_path().join(&file.path), wrapped)?;
        }
    }
    Ok(())
}
