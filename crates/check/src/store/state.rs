//! The state that the records build: docs/format.md, section S3. Every rule that an entry breaks is
//! named.

use std::collections::BTreeMap;

use super::record::{Address, Entry, StoredExtent, Superblock};

/// The root directory.
pub(super) const ROOT: u64 = 1;

/// Most blocks of a sparse extent.
const SPARSE_BLOCKS_MAX: u32 = 4096;

/// Consecutive blocks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) at: Address,
    pub(super) blocks: u32,
    pub(super) is_sparse: bool,
}

impl Extent {
    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// Splits off the part from a block on, which begins with a byte of the file.
    fn split(&mut self, offset: u64, block: u32, payload: u64) -> Option<Self> {
        let bytes = offset.checked_sub(self.offset)?;
        if block == 0 || block >= self.blocks || bytes == 0 || bytes >= self.bytes {
            return None;
        }
        let at = (self.at.0, self.at.1 + block);
        let rest =
            Self { offset, bytes: self.bytes - bytes, at, blocks: self.blocks - block, ..*self };
        (self.bytes, self.blocks) = (bytes, block);
        (self.is_possible(payload) && rest.is_possible(payload)).then_some(rest)
    }

    fn is_possible(&self, payload: u64) -> bool {
        let holds = u64::from(self.blocks) * payload;
        let fits = self.blocks > 0 && self.bytes > 0 && self.bytes <= holds;
        let is_shaped = match self.is_sparse {
            false => self.bytes > holds.saturating_sub(payload),
            true => self.bytes >= u64::from(self.blocks) && self.blocks <= SPARSE_BLOCKS_MAX,
        };
        let is_in_zone = self.at.1.checked_add(self.blocks).is_some();
        fits && is_shaped && is_in_zone && self.offset.checked_add(self.bytes).is_some()
    }
}

/// A file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// Of a directory.
    pub(super) names: Option<BTreeMap<String, u64>>,
    pub(super) links: u64,
    pub(super) version: u32,
    pub(super) extents: Vec<Extent>,
}

impl Node {
    pub(super) fn length(&self) -> u64 {
        self.extents.last().map_or(0, Extent::end)
    }
}

/// A zone in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Zone {
    pub(super) usage: u64,
    pub(super) known: u32,
    pub(super) is_sealed: bool,
}

/// The state after some records.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) superblock: Superblock,
    pub(super) nodes: BTreeMap<u64, Node>,
    pub(super) zones: BTreeMap<u32, Zone>,
    payload: u64,
    next_file: u64,
    next_use: u64,
}

/// The rule that an entry breaks.
type Rule = &'static str;

impl State {
    pub(super) fn new(superblock: Superblock, payload: u64) -> Self {
        let names = Some(BTreeMap::new());
        let root = Node { names, links: 1, version: 0, extents: Vec::new() };
        let nodes = BTreeMap::from([(ROOT, root)]);
        let zones = BTreeMap::new();
        Self { superblock, nodes, zones, payload, next_file: ROOT + 1, next_use: 1 }
    }

    /// Applies an entry.
    ///
    /// # Errors
    /// The rule that it breaks. The state may be changed in part.
    pub(super) fn apply(&mut self, entry: &Entry) -> Result<(), Rule> {
        match entry {
            Entry::Superblock(_) => Err("a second superblock"),
            Entry::Counters { next_file, next_use } => {
                let falls = *next_file < self.next_file || *next_use < self.next_use;
                (self.next_file, self.next_use) = (*next_file, *next_use);
                if falls { Err("a counter falls") } else { Ok(()) }
            }
            Entry::Zone { zone, known, usage, is_sealed } => {
                self.use_zone(*zone, Zone { usage: *usage, known: *known, is_sealed: *is_sealed })
            }
            Entry::Create { parent, file, version, is_directory, replaces, name } => {
                self.create((*parent, name), *file, *version, *is_directory, *replaces)
            }
            Entry::Link { parent, file, name } => self.link((*parent, name), *file),
            Entry::Unlink { parent, name } => self.unlink((*parent, name)),
            Entry::Rename { from, to, from_name, to_name } => {
                self.rename((*from, from_name), (*to, to_name))
            }
            Entry::Truncate { file, size, version, behind } => {
                self.truncate(*file, *size, *version, *behind)
            }
            Entry::Extents { file, offset, extents } => self.extend(*file, *offset, extents),
            Entry::Move { file, offset, bytes, from, to, blocks } => {
                self.relocate(*file, (*offset, *bytes), *from, *to, *blocks)
            }
        }
    }

    fn use_zone(&mut self, zone: u32, entry: Zone) -> Result<(), Rule> {
        let is_metadata = self.superblock.metadata_zones.contains(&zone);
        if zone >= self.superblock.zones || is_metadata {
            return Err("a zone of data that the store does not have");
        }
        if let Some(before) = self.zones.get(&zone) {
            if before.usage > entry.usage {
                return Err("the use of a zone falls");
            }
            let in_zone = |node: &Node| node.extents.iter().any(|extent| extent.at.0 == zone);
            if before.usage < entry.usage && self.nodes.values().any(in_zone) {
                return Err("a zone with blocks of files has a new use");
            }
        }
        self.next_use = self.next_use.max(entry.usage.saturating_add(1));
        self.zones.insert(zone, entry);
        Ok(())
    }

    fn names(&mut self, directory: u64) -> Result<&mut BTreeMap<String, u64>, Rule> {
        let node = self.nodes.get_mut(&directory).ok_or("an unknown directory")?;
        node.names.as_mut().ok_or("a name in a file")
    }

    fn create(
        &mut self,
        (parent, name): (u64, &str),
        file: u64,
        version: u32,
        is_directory: bool,
        replaces: bool,
    ) -> Result<(), Rule> {
        if self.nodes.contains_key(&file) {
            return Err("a number that a file has already");
        }
        let before = self.names(parent)?.insert(name.to_owned(), file);
        let names = is_directory.then(BTreeMap::new);
        self.nodes.insert(file, Node { names, links: 1, version, extents: Vec::new() });
        self.next_file = self.next_file.max(file.saturating_add(1));
        match before {
            Some(before) if replaces && !is_directory => self.release(before, false),
            None if !replaces => Ok(()),
            _ => Err("a new name that is taken, or replaces nothing"),
        }
    }

    /// Takes a name from a file, or from an empty directory.
    fn release(&mut self, file: u64, is_directory: bool) -> Result<(), Rule> {
        let node = self.nodes.get_mut(&file).ok_or("a name of nothing")?;
        if node.names.is_some() != is_directory {
            return Err("a directory in place of a file, or the other way round");
        }
        if node.names.as_ref().is_some_and(|names| !names.is_empty()) {
            return Err("a directory with names is removed");
        }
        assert!(node.links > 0, "{file} has no name, and was kept");
        node.links -= 1;
        if node.links == 0 {
            self.nodes.remove(&file);
        }
        Ok(())
    }

    fn link(&mut self, (parent, name): (u64, &str), file: u64) -> Result<(), Rule> {
        let node = self.nodes.get_mut(&file).filter(|node| node.names.is_none());
        node.ok_or("a second name of no file")?.links += 1;
        let before = self.names(parent)?.insert(name.to_owned(), file);
        if before.is_some() { Err("a new name that is taken") } else { Ok(()) }
    }

    fn unlink(&mut self, (parent, name): (u64, &str)) -> Result<(), Rule> {
        let file = self.names(parent)?.remove(name).ok_or("a name that is missing")?;
        let is_directory = self.nodes.get(&file).is_some_and(|node| node.names.is_some());
        self.release(file, is_directory)
    }

    fn rename(&mut self, from: (u64, &str), to: (u64, &str)) -> Result<(), Rule> {
        let moved = *self.names(from.0)?.get(from.1).ok_or("a name that is missing")?;
        let replaced = self.names(to.0)?.get(to.1).copied();
        if replaced == Some(moved) {
            return Ok(());
        }
        let is_directory = self.nodes.get(&moved).is_some_and(|node| node.names.is_some());
        if is_directory && self.is_below(to.0, moved) {
            return Err("a directory moves below itself");
        }
        if let Some(replaced) = replaced {
            self.release(replaced, is_directory)?;
        }
        self.names(from.0)?.remove(from.1);
        self.names(to.0)?.insert(to.1.to_owned(), moved);
        Ok(())
    }

    /// Whether a directory is another one, or below it.
    fn is_below(&self, directory: u64, above: u64) -> bool {
        let mut open = vec![above];
        while let Some(at) = open.pop() {
            if at == directory {
                return true;
            }
            let names = self.nodes.get(&at).and_then(|node| node.names.as_ref());
            open.extend(names.into_iter().flat_map(|names| names.values().copied()));
        }
        false
    }

    fn file(&mut self, file: u64) -> Result<&mut Node, Rule> {
        let node = self.nodes.get_mut(&file).filter(|node| node.names.is_none());
        node.ok_or("an unknown file")
    }

    fn truncate(&mut self, id: u64, size: u64, version: u32, behind: Address) -> Result<(), Rule> {
        let payload = self.payload;
        let file = self.file(id)?;
        if size > file.length() || version <= file.version {
            return Err("a truncation to more bytes, or without a new version");
        }
        file.version = version;
        file.extents.retain(|extent| extent.offset < size);
        let Some(last) = file.extents.last_mut() else { return Ok(()) };
        let blocks = behind.1.checked_sub(last.at.1).filter(|_| behind.0 == last.at.0);
        let blocks = blocks.filter(|blocks| (1..=last.blocks).contains(blocks));
        last.blocks = blocks.ok_or("a truncation at a block of another extent")?;
        last.bytes = size - last.offset;
        if last.is_possible(payload) { Ok(()) } else { Err("a truncation at an impossible block") }
    }

    fn extend(&mut self, id: u64, offset: u64, extents: &[StoredExtent]) -> Result<(), Rule> {
        let payload = self.payload;
        let file = self.file(id)?;
        if file.length() != offset {
            return Err("extents that do not begin at the end of their file");
        }
        for StoredExtent { at, blocks, is_sparse, bytes } in extents.iter().copied() {
            let extent = Extent { offset: file.length(), bytes, at, blocks, is_sparse };
            if !extent.is_possible(payload) {
                return Err("an impossible extent");
            }
            file.extents.push(extent);
        }
        Ok(())
    }

    fn relocate(
        &mut self,
        id: u64,
        (offset, bytes): (u64, u64),
        from: Address,
        to: Address,
        blocks: u32,
    ) -> Result<(), Rule> {
        const WRONG: Rule = "a move of blocks that the file does not have there";
        let payload = self.payload;
        let file = self.file(id)?;
        let end = offset.checked_add(bytes).filter(|end| bytes > 0 && *end <= file.length());
        let (end, behind) = (end.ok_or(WRONG)?, from.1.checked_add(blocks).ok_or(WRONG)?);
        to.1.checked_add(blocks).ok_or(WRONG)?;
        split_at(&mut file.extents, offset, from, payload).ok_or(WRONG)?;
        split_at(&mut file.extents, end, (from.0, behind), payload).ok_or(WRONG)?;
        let mut next = from;
        let moved = |extent: &&mut Extent| extent.offset >= offset && extent.end() <= end;
        for extent in file.extents.iter_mut().filter(moved) {
            if extent.at != next {
                return Err(WRONG);
            }
            next.1 += extent.blocks;
            extent.at = (to.0, to.1 + (extent.at.1 - from.1));
        }
        assert!(file.extents.is_sorted_by_key(|extent| extent.offset), "the order of {id} changed");
        if next == (from.0, behind) { Ok(()) } else { Err(WRONG) }
    }

    /// A path of each file and directory.
    pub(super) fn paths(&self) -> BTreeMap<u64, String> {
        let mut paths = BTreeMap::from([(ROOT, String::new())]);
        let mut open = vec![ROOT];
        while let Some(directory) = open.pop() {
            let above = paths[&directory].clone();
            let names = self.nodes.get(&directory).and_then(|node| node.names.as_ref());
            for (name, id) in names.into_iter().flatten() {
                if !paths.contains_key(id) {
                    paths.insert(*id, format!("{above}/{name}"));
                    open.push(*id);
                }
            }
        }
        paths
    }
}

/// Makes an extent begin with a byte, in a block.
fn split_at(extents: &mut Vec<Extent>, offset: u64, at: Address, payload: u64) -> Option<()> {
    let index = extents.partition_point(|extent| extent.end() <= offset);
    let Some(extent) = extents.get_mut(index) else { return Some(()) };
    if extent.offset == offset {
        return Some(());
    }
    let block = at.1.checked_sub(extent.at.1).filter(|_| at.0 == extent.at.0)?;
    let rest = extent.split(offset, block, payload)?;
    extents.insert(index + 1, rest);
    Some(())
}
