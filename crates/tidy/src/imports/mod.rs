//! The imports between the files of a crate, with the imported names.
//!
//! [`modules`] reads the files; [`scope`] finds the file that defines a name, through re-exports.
//! An import of a module itself counts where code names something of it: `use super::limits` and
//! `limits::most()` import `most`.

mod modules;
mod scope;

use std::collections::{BTreeMap, BTreeSet};

use crate::Repository;
use modules::{ModuleId, Modules};
use scope::Target;

/// The imports between the files of a crate.
#[derive(Debug)]
pub struct ImportGraph {
    /// Paths from the root of the repository, in order.
    files: Vec<String>,
    /// From importer and imported, as indices of `files`, to the names.
    edges: BTreeMap<(usize, usize), BTreeSet<String>>,
    /// Files whose modules are in one another, by index, the outer one first.
    nested: BTreeSet<(usize, usize)>,
}

impl ImportGraph {
    /// Reads a crate from its `lib.rs` or `main.rs`.
    ///
    /// # Panics
    /// If the root is no file of the repository.
    #[must_use]
    pub fn read(repository: &Repository, root: &str) -> Self {
        let modules = Modules::read(repository, root);
        let files: BTreeSet<&str> = modules.all.iter().map(|module| module.file.as_str()).collect();
        let files: Vec<String> = files.into_iter().map(str::to_owned).collect();
        let index = |module: ModuleId| {
            files.binary_search(&modules.all[module].file).expect("files are those of modules")
        };
        let mut edges: BTreeMap<(usize, usize), BTreeSet<String>> = BTreeMap::new();
        for from in 0..modules.all.len() {
            for (to, name) in imported_by(&modules, from) {
                let edge = (index(from), index(to));
                if edge.0 != edge.1 {
                    edges.entry(edge).or_default().insert(name);
                }
            }
        }
        let mut nested = BTreeSet::new();
        for module in 0..modules.all.len() {
            if let Some(parent) = modules.all[module].parent {
                nested.insert((index(parent), index(module)));
            }
        }
        Self { files, edges, nested }
    }

    /// The files, in order.
    #[must_use]
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Importer, imported and names of every import between files, but for those between a module
    /// and its own children.
    pub fn edges(&self) -> impl Iterator<Item = (&str, &str, &BTreeSet<String>)> {
        self.numbered_edges()
            .map(|(from, to, names)| (self.files[from].as_str(), self.files[to].as_str(), names))
    }

    /// As [`Self::edges`], by index of [`Self::files`].
    pub(crate) fn numbered_edges(&self) -> impl Iterator<Item = (usize, usize, &BTreeSet<String>)> {
        let is_apart = |edge: &(usize, usize)| {
            self.nested.contains(edge) || self.nested.contains(&(edge.1, edge.0))
        };
        let edges = self.edges.iter().filter(move |(edge, _)| !is_apart(edge));
        edges.map(|((from, to), names)| (*from, *to, names))
    }
}

/// Modules that a module imports from, with the names.
fn imported_by(modules: &Modules, from: ModuleId) -> BTreeSet<(ModuleId, String)> {
    let module = &modules.all[from];
    let mut found = BTreeSet::new();
    for import in &module.imports {
        match modules.resolve(from, &import.path) {
            // A re-export of an inner module is no use of it.
            Some(Target::Item(to, _)) if import.is_re_export && modules.is_within(to, from) => {}
            Some(Target::Item(to, name)) => drop(found.insert((to, name))),
            Some(Target::Module(to)) if import.name.is_none() => {
                found.insert((to, "*".to_owned()));
            }
            // Named by a path, or not used here: then it is a re-export.
            Some(Target::Module(_)) | None => {}
        }
    }
    for path in &module.mentions {
        if let Some(Target::Item(to, name)) = modules.resolve(from, path) {
            found.insert((to, name));
        }
    }
    found
}

#[cfg(test)]
mod tests;
