//! What a client knows about its directory: the oracle of F1 and F2.

use std::collections::BTreeMap;

/// A file as its client knows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    /// All bytes that were appended, acknowledged or not.
    pub content: Vec<u8>,
    /// Bytes that must survive: those of the last sync, or seen after a crash.
    pub synced: usize,
    /// A cut that was not acknowledged when the store ended.
    pub cut: Option<usize>,
    /// Distinguishes the bytes of each append.
    pub appends: u64,
}

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// An index into the client's files.
    File(usize),
    /// A directory.
    Directory,
}

/// Names of a client, by path below its directory.
pub(crate) type Names = BTreeMap<String, Entry>;

/// A change of names.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Create(String, usize),
    Directory(String),
    Link(String, String),
    Remove(String),
    Rename(String, String),
}

/// A client's directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub names: Names,
    pub files: Vec<File>,
    /// A change that was not acknowledged yet.
    pub pending: Option<Change>,
}

impl Change {
    /// The names after the change.
    pub(crate) fn apply(&self, names: &Names) -> Names {
        let mut after = names.clone();
        match self {
            Self::Create(path, file) => {
                after.insert(path.clone(), Entry::File(*file));
            }
            Self::Directory(path) => {
                after.insert(path.clone(), Entry::Directory);
            }
            Self::Link(from, to) => {
                after.insert(to.clone(), names[from]);
            }
            Self::Remove(path) => {
                after.remove(path);
            }
            Self::Rename(from, to) if names[from] == Entry::Directory => {
                let below = format!("{from}/");
                after.retain(|path, _| path != from && !path.starts_with(&below));
                after.insert(to.clone(), Entry::Directory);
                let moved = names.iter().filter_map(|(path, entry)| {
                    let rest = path.strip_prefix(&below)?;
                    Some((format!("{to}/{rest}"), *entry))
                });
                after.extend(moved);
            }
            Self::Rename(from, to) => {
                // Two names of one file stay.
                if names.get(to) != names.get(from) {
                    let entry = after.remove(from).unwrap();
                    after.insert(to.clone(), entry);
                }
            }
        }
        after
    }
}

impl Model {
    /// The change was acknowledged.
    pub(crate) fn acknowledge(&mut self) {
        let change = self.pending.take().unwrap();
        self.names = change.apply(&self.names);
    }

    /// The paths of files, sorted.
    pub(crate) fn paths(&self) -> Vec<String> {
        let is_file = |entry: &Entry| matches!(entry, Entry::File(_));
        self.names
            .iter()
            .filter(|(_, entry)| is_file(entry))
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// Checks a recovered directory against what is allowed, and adopts it. Files are given by the
    /// number that the store has for each, and its content.
    pub(crate) fn adopt(&mut self, found: &BTreeMap<String, Option<(u64, Vec<u8>)>>) {
        let before = self.names.clone();
        let after = self.pending.take().map(|change| change.apply(&before));
        let agrees = |names: &&Names| {
            names.len() == found.len()
                && names.iter().zip(found).all(|((path, entry), (other, file))| {
                    path == other && (*entry == Entry::Directory) == file.is_none()
                })
                && self.is_same_files(names, found)
        };
        let candidates = [Some(&before), after.as_ref()];
        let names = candidates.into_iter().flatten().find(agrees);
        let Some(names) = names.cloned() else {
            let found: Vec<_> = found
                .iter()
                .map(|(path, file)| (path, file.as_ref().map(|(id, data)| (id, data.len()))))
                .collect();
            let lengths: Vec<_> =
                self.files.iter().map(|file| (file.content.len(), file.synced, file.cut)).collect();
            panic!(
                "F1 or F2: found {found:?}\n before {before:?}\n after {after:?}\n files {lengths:?}"
            );
        };
        for (path, entry) in &names {
            if let (Entry::File(file), Some((_, content))) = (entry, &found[path]) {
                let file = &mut self.files[*file];
                (file.content, file.synced) = (content.clone(), content.len());
                file.cut = None;
            }
        }
        self.names = names;
    }

    /// Whether each file is what its name allows, and two names lead to one file where they should.
    fn is_same_files(
        &self,
        names: &Names,
        found: &BTreeMap<String, Option<(u64, Vec<u8>)>>,
    ) -> bool {
        let mut ids: BTreeMap<usize, u64> = BTreeMap::new();
        for (path, entry) in names {
            let (Entry::File(file), Some((id, content))) = (entry, &found[path]) else { continue };
            if *ids.entry(*file).or_insert(*id) != *id || !self.files[*file].allows(content) {
                return false;
            }
        }
        let distinct: std::collections::BTreeSet<u64> = ids.values().copied().collect();
        distinct.len() == ids.len()
    }
}

impl File {
    /// F1: a prefix of what was appended, at least as long as what must survive.
    pub(crate) fn allows(&self, found: &[u8]) -> bool {
        let least = self.cut.map_or(self.synced, |cut| cut.min(self.synced));
        found.len() >= least && self.content.starts_with(found)
    }
}
