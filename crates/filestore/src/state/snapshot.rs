//! A snapshot: the entries that build the state from nothing.

use super::namespace::{FileNode, Namespace};
use crate::format::{EXTENTS_MOST, Entry, Kind, StoredExtent, StoredZone, Superblock};
use crate::ids::{FileId, Incarnation};

/// Bytes of an extent in a snapshot, and of the entry that every file with extents has.
const EXTENT_BYTES: u64 = 24;
const EXTENTS_ENTRY_BYTES: u64 = 40;

/// The entries of a snapshot. Extents of a file are left out beyond the bytes that survive a power
/// failure: the next start finds those by their tags.
#[must_use]
pub(crate) fn snapshot(
    superblock: &Superblock,
    namespace: &Namespace,
    zones: Vec<StoredZone>,
    next_incarnation: Incarnation,
) -> Vec<Entry> {
    let mut entries = vec![Entry::Superblock(superblock.clone())];
    entries.extend(zones.into_iter().map(Entry::Zone));
    let mut links = Vec::new();
    collect(namespace, &mut entries, &mut links);
    entries.extend(links);
    for (id, file) in namespace.files().filter(|(_, file)| file.links > 0) {
        entries.extend(extents(id, file, 0, file.durable));
    }
    entries.push(Entry::Counters { next_file: namespace.next_file, next_incarnation });
    entries
}

/// Entries that make files and directories, each directory before its contents, and those for
/// further names of files.
fn collect(namespace: &Namespace, nodes: &mut Vec<Entry>, links: &mut Vec<Entry>) {
    let mut made = std::collections::BTreeSet::new();
    let mut open = vec![FileId::ROOT];
    while let Some(parent) = open.pop() {
        let directory = namespace.directory(parent).expect("only directories are opened");
        for (name, id) in &directory.names {
            let (id, name) = (*id, name.clone());
            if !made.insert(id) {
                links.push(Entry::Link { parent, name, id });
                continue;
            }
            let create = |kind, version, hints, modified| Entry::Create {
                parent,
                name,
                id,
                kind,
                version,
                hints,
                modified,
                replaces: false,
            };
            if let Some(file) = namespace.file(id) {
                nodes.push(create(Kind::File, file.version, file.hints, file.modified));
            } else {
                let below = namespace.directory(id).expect("a name has a file or directory");
                let (version, hints) = Default::default();
                nodes.push(create(Kind::Directory, version, hints, below.modified));
                open.push(id);
            }
        }
    }
}

/// Entries with the extents of a file between two bytes.
pub(crate) fn extents(id: FileId, file: &FileNode, from: u64, to: u64) -> Vec<Entry> {
    let stored = file.extents.stored(from, to);
    let mut offset = from;
    let entry = |extents: &[StoredExtent]| {
        let start = offset;
        offset += extents.iter().map(|extent| extent.bytes).sum::<u64>();
        let (hints, modified) = (file.hints, file.modified);
        Entry::Extents { id, offset: start, hints, modified, extents: extents.to_vec() }
    };
    stored.chunks(EXTENTS_MOST).map(entry).collect()
}

/// Bytes that one more extent adds to a snapshot, at most.
pub(crate) const EXTENT_BYTES_MOST: u64 = EXTENT_BYTES + EXTENTS_ENTRY_BYTES;

/// Bytes of so many more zones or extents in a snapshot.
#[must_use]
pub(crate) fn spare_bytes(spare: u32) -> u64 {
    u64::from(spare) * EXTENT_BYTES
}

/// Bytes that the extents of all files take in a snapshot.
#[must_use]
pub(crate) fn extent_bytes(namespace: &Namespace) -> u64 {
    let per_file = |(_, file): (FileId, &FileNode)| {
        let extents = file.extents.count() as u64;
        EXTENTS_ENTRY_BYTES * extents.div_ceil(EXTENTS_MOST as u64) + EXTENT_BYTES * extents
    };
    namespace.files().map(per_file).sum()
}
