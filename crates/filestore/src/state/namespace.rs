//! Files, directories, and names.

use std::collections::BTreeMap;

use zoneweave_zoned::ZoneAddress;

use super::extents::{BlockRun, ExtentMap};
use crate::error::Inconsistency;
use crate::format::{BlockLayout, Entry, Kind};
use crate::hint::Hints;
use crate::ids::{FileId, Version};
use crate::name::Name;

/// Bytes of a name in a snapshot, besides the name: the entry that makes it.
const NAME_ENTRY_BYTES: u64 = 44;

/// A file.
#[derive(Clone, Debug)]
pub(crate) struct FileNode {
    /// Its blocks.
    pub(crate) extents: ExtentMap,
    /// The version of blocks that are appended.
    pub(crate) version: Version,
    /// Hints for placement.
    pub(crate) hints: Hints,
    /// Seconds since 1970 of the last change.
    pub(crate) modified: u64,
    /// Names that it has.
    pub(crate) links: u32,
    /// Handles that are open. A file without a name lives until the last is closed.
    pub(crate) opens: u32,
    /// Bytes whose extents are on record, or queued for it.
    pub(crate) recorded: u64,
    /// Bytes that survive a power failure.
    pub(crate) durable: u64,
    /// A write failed: blocks of this version may be on media behind the end of the file.
    pub(crate) has_strays: bool,
}

/// A directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    /// The directory that it is in; the root is in itself.
    pub(crate) parent: FileId,
    /// Its files and directories.
    pub(crate) names: BTreeMap<Name, FileId>,
    /// Seconds since 1970 when it was made.
    pub(crate) modified: u64,
}

/// A file or a directory.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// Bytes.
    File(FileNode),
    /// Names.
    Directory(Directory),
}

/// All files and directories.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    nodes: BTreeMap<FileId, Node>,
    layout: BlockLayout,
    /// The lowest number that was never used.
    pub(crate) next_file: FileId,
    /// Bytes that all names take in a snapshot.
    name_bytes: u64,
}

impl FileNode {
    fn new(layout: BlockLayout, version: Version, hints: Hints, modified: u64) -> Self {
        let extents = ExtentMap::new(layout);
        Self {
            extents,
            version,
            hints,
            modified,
            links: 1,
            opens: 0,
            recorded: 0,
            durable: 0,
            has_strays: false,
        }
    }
}

impl Namespace {
    /// An empty root directory.
    #[must_use]
    pub(crate) fn new(layout: BlockLayout) -> Self {
        let root = Directory { parent: FileId::ROOT, ..Directory::default() };
        let nodes = BTreeMap::from([(FileId::ROOT, Node::Directory(root))]);
        Self { nodes, layout, next_file: FileId::ROOT.next(), name_bytes: 0 }
    }

    /// A file or directory.
    #[must_use]
    pub(crate) fn node(&self, id: FileId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// A file.
    #[must_use]
    pub(crate) fn file(&self, id: FileId) -> Option<&FileNode> {
        match self.nodes.get(&id) {
            Some(Node::File(file)) => Some(file),
            _ => None,
        }
    }

    /// A file, to be changed.
    #[must_use]
    pub(crate) fn file_mut(&mut self, id: FileId) -> Option<&mut FileNode> {
        match self.nodes.get_mut(&id) {
            Some(Node::File(file)) => Some(file),
            _ => None,
        }
    }

    /// A directory.
    #[must_use]
    pub(crate) fn directory(&self, id: FileId) -> Option<&Directory> {
        match self.nodes.get(&id) {
            Some(Node::Directory(directory)) => Some(directory),
            _ => None,
        }
    }

    /// The file or directory with a name.
    #[must_use]
    pub(crate) fn lookup(&self, parent: FileId, name: &Name) -> Option<FileId> {
        self.directory(parent)?.names.get(name).copied()
    }

    /// Every file with its number.
    pub(crate) fn files(&self) -> impl Iterator<Item = (FileId, &FileNode)> {
        self.nodes.iter().filter_map(|(id, node)| match node {
            Node::File(file) => Some((*id, file)),
            Node::Directory(_) => None,
        })
    }

    /// Bytes that all names take in a snapshot.
    #[must_use]
    pub(crate) const fn name_bytes(&self) -> u64 {
        self.name_bytes
    }

    /// Whether a directory is `ancestor`, or in it at any depth.
    #[must_use]
    pub(crate) fn is_within(&self, mut directory: FileId, ancestor: FileId) -> bool {
        // A directory is made in one that exists, and never moves below itself.
        loop {
            if directory == ancestor {
                return true;
            }
            match self.directory(directory) {
                Some(node) if directory != FileId::ROOT => directory = node.parent,
                _ => return false,
            }
        }
    }

    /// Applies a change of names, and returns the blocks that it frees. Other entries change
    /// nothing.
    ///
    /// # Errors
    /// If the state does not allow the change. It may have been applied in part then.
    pub(crate) fn apply(&mut self, entry: &Entry) -> Result<Vec<BlockRun>, Inconsistency> {
        match entry {
            Entry::Create { parent, name, id, kind, version, hints, modified, replaces } => {
                let freed = if *replaces { self.remove_file(*parent, name)? } else { Vec::new() };
                if self.nodes.contains_key(id) {
                    return Err(Inconsistency::FileTwice(*id));
                }
                // Before it is made: it must not be in itself.
                if self.directory(*parent).is_none() {
                    return Err(Inconsistency::Kind(*parent));
                }
                if id.0 == u64::MAX {
                    return Err(Inconsistency::Counter);
                }
                self.next_file = self.next_file.max(id.next());
                let node = match kind {
                    Kind::File => {
                        Node::File(FileNode::new(self.layout, *version, *hints, *modified))
                    }
                    Kind::Directory => {
                        let names = BTreeMap::new();
                        Node::Directory(Directory { parent: *parent, names, modified: *modified })
                    }
                };
                self.nodes.insert(*id, node);
                self.add_name(*parent, name, *id)?;
                Ok(freed)
            }
            Entry::Link { parent, name, id } => {
                self.add_name(*parent, name, *id)?;
                let file = self.file_mut(*id).ok_or(Inconsistency::Kind(*id))?;
                file.links = file.links.checked_add(1).ok_or(Inconsistency::Counter)?;
                Ok(Vec::new())
            }
            Entry::Unlink { parent, name } => self.remove(*parent, name),
            Entry::Rename { from, from_name, to, to_name } => {
                self.rename(*from, from_name, *to, to_name)
            }
            Entry::Truncate { id, size, version, behind } => {
                self.truncate(*id, *size, *version, *behind)
            }
            Entry::Superblock(_)
            | Entry::Counters { .. }
            | Entry::Zone(_)
            | Entry::Extents { .. }
            | Entry::Move { .. } => Ok(Vec::new()),
        }
    }

    fn names(&mut self, directory: FileId) -> Result<&mut BTreeMap<Name, FileId>, Inconsistency> {
        match self.nodes.get_mut(&directory) {
            Some(Node::Directory(directory)) => Ok(&mut directory.names),
            Some(Node::File(_)) => Err(Inconsistency::Kind(directory)),
            None => Err(Inconsistency::UnknownFile(directory)),
        }
    }

    fn add_name(&mut self, parent: FileId, name: &Name, id: FileId) -> Result<(), Inconsistency> {
        let names = self.names(parent)?;
        if names.insert(name.clone(), id).is_some() {
            return Err(Inconsistency::Name(parent));
        }
        self.name_bytes += NAME_ENTRY_BYTES + name.as_str().len() as u64;
        Ok(())
    }

    fn take_name(&mut self, parent: FileId, name: &Name) -> Result<FileId, Inconsistency> {
        let id = self.names(parent)?.remove(name).ok_or(Inconsistency::Name(parent))?;
        self.name_bytes -= NAME_ENTRY_BYTES + name.as_str().len() as u64;
        Ok(id)
    }

    /// Removes a name of a file, or an empty directory.
    fn remove(&mut self, parent: FileId, name: &Name) -> Result<Vec<BlockRun>, Inconsistency> {
        let id = self.lookup(parent, name).ok_or(Inconsistency::Name(parent))?;
        match self.node(id) {
            Some(Node::File(_)) => self.remove_file(parent, name),
            Some(Node::Directory(directory)) if directory.names.is_empty() => {
                self.take_name(parent, name)?;
                self.nodes.remove(&id);
                Ok(Vec::new())
            }
            Some(Node::Directory(_)) => Err(Inconsistency::Kind(id)),
            None => Err(Inconsistency::UnknownFile(id)),
        }
    }

    fn remove_file(&mut self, parent: FileId, name: &Name) -> Result<Vec<BlockRun>, Inconsistency> {
        let id = self.take_name(parent, name)?;
        let file = self.file_mut(id).ok_or(Inconsistency::Kind(id))?;
        file.links = file.links.checked_sub(1).ok_or(Inconsistency::Counter)?;
        Ok(self.drop_if_unused(id))
    }

    /// Removes a file without names and handles; returns its blocks.
    pub(crate) fn drop_if_unused(&mut self, id: FileId) -> Vec<BlockRun> {
        let is_unused = self.file(id).is_some_and(|file| file.links == 0 && file.opens == 0);
        match self.nodes.remove(&id) {
            Some(Node::File(file)) if is_unused => file.extents.runs().collect(),
            Some(node) => {
                self.nodes.insert(id, node);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn rename(
        &mut self,
        from: FileId,
        from_name: &Name,
        to: FileId,
        to_name: &Name,
    ) -> Result<Vec<BlockRun>, Inconsistency> {
        let id = self.lookup(from, from_name).ok_or(Inconsistency::Name(from))?;
        let is_directory = self.directory(id).is_some();
        if is_directory && self.is_within(to, id) {
            return Err(Inconsistency::Name(to));
        }
        let target = self.lookup(to, to_name);
        if target == Some(id) {
            // Two names of one file: nothing happens, as POSIX has it.
            return Ok(Vec::new());
        }
        let freed = match target {
            Some(old) if self.directory(old).is_some() != is_directory => {
                return Err(Inconsistency::Kind(old));
            }
            Some(_) => self.remove(to, to_name)?,
            None => Vec::new(),
        };
        let taken = self.take_name(from, from_name)?;
        assert!(taken == id, "the name of {id} leads to {taken}");
        self.add_name(to, to_name, id)?;
        if let Some(Node::Directory(directory)) = self.nodes.get_mut(&id) {
            directory.parent = to;
        }
        Ok(freed)
    }

    fn truncate(
        &mut self,
        id: FileId,
        size: u64,
        version: Version,
        behind: ZoneAddress,
    ) -> Result<Vec<BlockRun>, Inconsistency> {
        let file = self.file_mut(id).ok_or(Inconsistency::Kind(id))?;
        let freed = file.extents.truncate(size, behind).ok_or(Inconsistency::Extent(id))?;
        assert!(file.extents.length() == size, "{id} is not cut to {size}");
        file.version = version;
        file.has_strays = false;
        file.recorded = file.recorded.min(size);
        file.durable = file.durable.min(size);
        Ok(freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn create(names: &mut Namespace, parent: FileId, text: &str, kind: Kind) -> FileId {
        let id = names.next_file;
        let entry = Entry::Create {
            parent,
            name: name(text),
            id,
            kind,
            version: Version(0),
            hints: Hints::default(),
            modified: 0,
            replaces: false,
        };
        assert_eq!(names.apply(&entry), Ok(Vec::new()));
        id
    }

    fn rename(names: &mut Namespace, from: (FileId, &str), to: (FileId, &str)) -> bool {
        let entry =
            Entry::Rename { from: from.0, from_name: name(from.1), to: to.0, to_name: name(to.1) };
        names.apply(&entry).is_ok()
    }

    #[test]
    fn a_file_lives_as_long_as_it_has_names_or_handles() {
        let mut names = Namespace::new(BlockLayout::Separate);
        let id = create(&mut names, FileId::ROOT, "a", Kind::File);
        let link = Entry::Link { parent: FileId::ROOT, name: name("b"), id };
        names.apply(&link).unwrap();
        assert_eq!(names.apply(&link), Err(Inconsistency::Name(FileId::ROOT)));
        names.file_mut(id).unwrap().opens = 1;
        for text in ["a", "b"] {
            let unlink = Entry::Unlink { parent: FileId::ROOT, name: name(text) };
            names.apply(&unlink).unwrap();
            assert!(names.file(id).is_some());
        }
        names.file_mut(id).unwrap().opens = 0;
        names.drop_if_unused(id);
        assert!(names.file(id).is_none());
        assert_eq!(names.name_bytes(), 0);
    }

    #[test]
    fn directories_move_with_their_files_but_not_into_themselves() {
        let mut names = Namespace::new(BlockLayout::Separate);
        let outer = create(&mut names, FileId::ROOT, "outer", Kind::Directory);
        let inner = create(&mut names, outer, "inner", Kind::Directory);
        let file = create(&mut names, inner, "file", Kind::File);
        assert!(!rename(&mut names, (FileId::ROOT, "outer"), (inner, "x")));
        assert!(!rename(&mut names, (FileId::ROOT, "outer"), (outer, "x")));
        assert!(rename(&mut names, (outer, "inner"), (FileId::ROOT, "moved")));
        assert_eq!(names.lookup(inner, &name("file")), Some(file));
        assert!(rename(&mut names, (FileId::ROOT, "outer"), (inner, "outer")));
        assert!(names.is_within(outer, inner));
    }

    #[test]
    fn renames_replace_what_is_of_their_kind() {
        let mut names = Namespace::new(BlockLayout::Separate);
        let root = FileId::ROOT;
        create(&mut names, root, "a", Kind::File);
        let kept = create(&mut names, root, "b", Kind::File);
        let full = create(&mut names, root, "full", Kind::Directory);
        create(&mut names, full, "x", Kind::File);
        create(&mut names, root, "empty", Kind::Directory);
        assert!(rename(&mut names, (root, "b"), (root, "a")));
        assert_eq!(names.lookup(root, &name("a")), Some(kept));
        assert!(!rename(&mut names.clone(), (root, "a"), (root, "empty")));
        assert!(!rename(&mut names.clone(), (root, "empty"), (root, "full")));
        assert!(rename(&mut names, (root, "full"), (root, "empty")));
    }

    /// POSIX: renaming one name of a file onto another name of it does nothing.
    #[test]
    fn two_names_of_one_file_stay() {
        let mut names = Namespace::new(BlockLayout::Separate);
        let root = FileId::ROOT;
        let id = create(&mut names, root, "a", Kind::File);
        names.apply(&Entry::Link { parent: root, name: name("b"), id }).unwrap();
        assert!(rename(&mut names, (root, "a"), (root, "b")));
        assert_eq!(names.lookup(root, &name("a")), Some(id));
        assert_eq!(names.file(id).unwrap().links, 2);
    }
}
