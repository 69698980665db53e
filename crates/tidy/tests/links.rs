//! Links of documents lead somewhere.

use zoneweave_tidy::{Repository, TextFile, anchors, links};

use crate::assert_lawful;

#[test]
fn links_resolve() {
    let repository = Repository::read();
    let mut breaches = Vec::new();
    for file in repository.with_extension("md") {
        for link in links(&file.text) {
            let outside = ["http://", "https://", "mailto:"];
            if outside.iter().any(|scheme| link.target.starts_with(scheme)) {
                continue;
            }
            if !resolves(&repository, file, &link.target) {
                breaches.push(format!("{}:{} leads to {}", file.path, link.line, link.target));
            }
        }
    }
    assert_lawful("these links lead nowhere:", &breaches);
}

fn resolves(repository: &Repository, from: &TextFile, target: &str) -> bool {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let Some(path) = (if path.is_empty() { Some(from.path.clone()) } else { joined(from, path) })
    else {
        return false;
    };
    if !repository.has_path(&path) {
        return false;
    }
    let document = repository.file(&path).filter(|file| file.has_extension("md"));
    // A line of source (`#L10`) needs no heading.
    anchor.is_empty()
        || document.is_none_or(|file| anchors(&file.text).contains(&anchor.to_owned()))
}

/// The path from the root; nothing if it leads out of the repository.
fn joined(from: &TextFile, target: &str) -> Option<String> {
    let folder = from.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let start = if target.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = start.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
