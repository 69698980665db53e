//! The project speaks of itself alone: nothing in it names the machine it was written on, documents
//! outside of it, or the hosts that packages come from.

use zoneweave_tidy::Repository;

use crate::assert_lawful;

/// In pieces, so that this file does not breach its own law.
const HOSTS: &[&str] = &[
    concat!("crates", ".io"),
    concat!("npmjs", ".org"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("debian", ".org"),
    concat!("proxy.golang", ".org"),
    concat!("docker", ".io"),
    concat!("ghcr", ".io"),
];

const OUTSIDE: &[&str] = &[concat!("../", "shared"), concat!("DEVELOPERS", ".md")];

const HOMES: &[&str] =
    &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/"), concat!("/wo", "rk/")];

#[test]
fn the_project_speaks_of_itself_alone() {
    let mut breaches = Vec::new();
    // Lock files are cargo's, and have to name the registry.
    for file in Repository::read().files().iter().filter(|file| !file.has_extension("lock")) {
        for (number, line) in file.numbered_lines() {
            let words = HOSTS.iter().chain(OUTSIDE).filter(|word| line.contains(**word));
            let paths = HOMES.iter().filter(|home| names_absolute_path(line, home));
            for found in words.chain(paths) {
                breaches.push(format!("{}:{number} mentions {found}", file.path));
            }
        }
    }
    assert_lawful("the project should stand alone; look at:", &breaches);
}

/// Whether a line has a path that starts with `home`, not just a path that contains it.
fn names_absolute_path(line: &str, home: &str) -> bool {
    line.match_indices(home).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '.' | '/' | '_' | '-' | '}'))
    })
}
