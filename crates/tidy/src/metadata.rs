//! The crates of the workspace and their dependencies, from `cargo metadata`.

use std::process::Command;

use serde_json::Value;

use crate::Repository;

/// The purpose of a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependencyKind {
    /// Part of the product.
    Normal,
    /// For tests, benches and examples.
    Development,
    /// For build scripts.
    Build,
}

/// One line of a manifest's dependency tables.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// The crate's name in its registry.
    pub name: String,
    /// Its purpose.
    pub kind: DependencyKind,
    /// The version requirement, `*` for a bare path.
    pub requirement: String,
    /// Whether it is a crate of this workspace.
    pub is_ours: bool,
}

/// A crate.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The SPDX expression of its licence.
    pub licence: Option<String>,
    /// Where it comes from; nothing for crates of this workspace.
    pub source: Option<String>,
    /// Its dependencies.
    pub dependencies: Vec<Dependency>,
}

/// All crates that are compiled into anything.
pub struct Workspace {
    packages: Vec<Package>,
}

impl Workspace {
    /// Asks cargo. Works without a network, since the tests that ask were compiled from the same
    /// crates.
    ///
    /// # Panics
    /// If cargo does not answer, or `Cargo.lock` does not fit the manifests.
    #[must_use]
    pub fn read() -> Self {
        let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["metadata", "--format-version=1", "--locked", "--offline"])
            .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
            .current_dir(Repository::root_path())
            .output()
            .expect("cargo runs");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cargo metadata failed: {complaint}");
        let document: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
        let packages = array(&document["packages"]).iter().map(package).collect();
        Self { packages }
    }

    /// The crates of this repository.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.source.is_none())
    }

    /// The crates of others.
    pub fn foreign(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.source.is_some())
    }
}

fn package(value: &Value) -> Package {
    Package {
        name: text(&value["name"]),
        version: text(&value["version"]),
        licence: value["license"].as_str().map(str::to_owned),
        source: value["source"].as_str().map(str::to_owned),
        dependencies: array(&value["dependencies"]).iter().map(dependency).collect(),
    }
}

fn dependency(value: &Value) -> Dependency {
    let kind = match value["kind"].as_str() {
        None => DependencyKind::Normal,
        Some("dev") => DependencyKind::Development,
        Some("build") => DependencyKind::Build,
        Some(other) => panic!("cargo knows a new kind of dependency: {other}"),
    };
    Dependency {
        name: text(&value["name"]),
        kind,
        requirement: text(&value["req"]),
        is_ours: value["path"].is_string(),
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().expect("cargo metadata has a list here")
}

fn text(value: &Value) -> String {
    value.as_str().expect("cargo metadata has a string here").to_owned()
}
