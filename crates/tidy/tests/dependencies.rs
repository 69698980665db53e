//! Every crate we depend on has a reason, a licence we accept and one known origin. The licences
//! are read from `deny.toml`, so that cargo-deny, where it is installed, and this test say the
//! same.

use std::collections::BTreeSet;

use zoneweave_tidy::{Repository, Workspace, licence_is_allowed};

use crate::assert_lawful;

#[test]
fn every_dependency_has_its_reason() {
    let repository = Repository::read();
    // The document is the record; without one there is nothing to compare with.
    let Some(architecture) = repository.file("ARCHITECTURE.md") else { return };
    let table: Vec<&str> =
        architecture.text.lines().filter(|line| line.trim_start().starts_with('|')).collect();
    let manifest = repository.file("Cargo.toml").expect("the workspace has a manifest");
    let missing: Vec<String> = workspace_dependencies(&manifest.text)
        .filter(|name| !table.iter().any(|row| row.contains(&format!("`{name}`"))))
        .map(str::to_owned)
        .collect();
    assert_lawful("these dependencies lack a row in a table of ARCHITECTURE.md:", &missing);
}

#[test]
fn every_dependency_goes_through_the_workspace() {
    let repository = Repository::read();
    let manifest = repository.file("Cargo.toml").expect("the workspace has a manifest");
    let listed: BTreeSet<&str> = workspace_dependencies(&manifest.text).collect();
    let mut breaches = Vec::new();
    for package in Workspace::read().members() {
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.is_ours) {
            if !listed.contains(dependency.name.as_str()) {
                breaches.push(format!("{} depends on {}", package.name, dependency.name));
            }
            if dependency.requirement == "*" {
                breaches.push(format!("{} takes any version of {}", package.name, dependency.name));
            }
        }
    }
    assert_lawful("declare these in [workspace.dependencies], with a version:", &breaches);
}

#[test]
fn licences_are_ones_we_accept() {
    let repository = Repository::read();
    let allowed = quoted_list(&repository, "licenses", "allow");
    let workspace = Workspace::read();
    let breaches: Vec<String> = workspace
        .foreign()
        .filter(|package| {
            !package.licence.as_deref().is_some_and(|licence| licence_is_allowed(licence, &allowed))
        })
        .map(|package| format!("{} {}: {:?}", package.name, package.version, package.licence))
        .collect();
    assert_lawful("these licences are not in deny.toml:", &breaches);
}

#[test]
fn crates_come_from_one_registry() {
    let workspace = Workspace::read();
    let sources: BTreeSet<&str> =
        workspace.foreign().filter_map(|package| package.source.as_deref()).collect();
    assert!(sources.len() <= 1, "crates come from several places: {sources:?}");
    assert!(sources.iter().all(|source| source.starts_with("registry+")), "{sources:?}");
}

#[test]
fn banned_crates_are_absent() {
    let repository = Repository::read();
    let banned = quoted_list(&repository, "bans", "deny");
    let workspace = Workspace::read();
    let found: Vec<String> = workspace
        .foreign()
        .filter(|package| banned.contains(&package.name))
        .map(|package| package.name.clone())
        .collect();
    assert_lawful("deny.toml bans these crates:", &found);
}

/// The names in `[workspace.dependencies]` that are not paths of ours.
fn workspace_dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let section = manifest.split("[workspace.dependencies]").nth(1).expect("there is a table");
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    lines
        .filter(|line| !line.starts_with('#') && !line.contains("path ="))
        .filter_map(|line| line.split_once('=').map(|(name, _)| name.trim()))
}

/// The quoted words of a list in a section of `deny.toml`; a comment ends its line.
fn quoted_list(repository: &Repository, section: &str, key: &str) -> Vec<String> {
    let text = &repository.file("deny.toml").expect("there is a deny.toml").text;
    let body = text.split(&format!("[{section}]\n")).nth(1).expect("deny.toml has the section");
    let body = body.split("\n[").next().unwrap_or_default();
    let list = body.split(&format!("{key} = [")).nth(1).expect("deny.toml has the list");
    let list = list.split("\n]").next().unwrap_or_default();
    let code = list.lines().map(|line| line.split('#').next().unwrap_or_default());
    code.flat_map(|line| line.split('"').skip(1).step_by(2)).map(str::to_owned).collect()
}
