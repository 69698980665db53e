//! Entries: single changes of the metadata.
//!
//! A snapshot is made of the same entries as the log behind it: it builds the state from nothing.

use zoneweave_zoned::{BlockCount, ZoneAddress, ZoneId};

use super::cursor::Cursor;
use super::superblock::Superblock;
use crate::hint::{Hints, Lifetime};
use crate::ids::{FileId, Incarnation, Version};
use crate::name::Name;

/// Most extents of an entry, so that an entry fits into a record.
pub const EXTENTS_MOST: usize = 128;

/// A file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    File,
    /// Names.
    Directory,
}

/// Whether a zone in use takes blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredPhase {
    /// It may have blocks that no record knows: a start scans it.
    Open,
    /// It takes no more blocks, and all its extents are on record.
    Sealed,
}

/// A zone in use, as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredZone {
    /// The zone.
    pub zone: ZoneId,
    /// Its phase.
    pub phase: StoredPhase,
    /// This use of it.
    pub incarnation: Incarnation,
    /// All extents below this block are on record.
    pub known: u32,
    /// The lifetime of the files that it was opened for.
    pub lifetime: Lifetime,
}

/// Consecutive blocks of a file, behind the extent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredExtent {
    /// The first block.
    pub at: ZoneAddress,
    /// Its length in blocks, at least 1.
    pub blocks: BlockCount,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether a block other than the last may be partly filled: then the tags of the blocks tell
    /// where each begins.
    pub is_sparse: bool,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Begins a snapshot.
    Superblock(Superblock),
    /// The lowest numbers that were never used.
    Counters {
        /// Of files.
        next_file: FileId,
        /// Of uses of zones.
        next_incarnation: Incarnation,
    },
    /// A zone is opened, or sealed.
    Zone(StoredZone),
    /// A file or directory is made under a name.
    Create {
        /// The directory.
        parent: FileId,
        /// The name.
        name: Name,
        /// The new number.
        id: FileId,
        /// What is made.
        kind: Kind,
        /// The version of its first blocks.
        version: Version,
        /// Hints for placement.
        hints: Hints,
        /// Seconds since 1970.
        modified: u64,
        /// Whether the name is taken by a file, which loses it.
        replaces: bool,
    },
    /// A file gets another name.
    Link {
        /// The directory.
        parent: FileId,
        /// The name.
        name: Name,
        /// The file.
        id: FileId,
    },
    /// A name of a file, or an empty directory, is removed.
    Unlink {
        /// The directory.
        parent: FileId,
        /// The name.
        name: Name,
    },
    /// A name moves, and replaces the file or empty directory that has the new name.
    Rename {
        /// The old directory.
        from: FileId,
        /// The old name.
        from_name: Name,
        /// The new directory.
        to: FileId,
        /// The new name.
        to_name: Name,
    },
    /// A file is cut to a size. Later blocks have the new version.
    Truncate {
        /// The file.
        id: FileId,
        /// Its size in bytes, at most the one before.
        size: u64,
        /// The new version.
        version: Version,
        /// The block behind the last one that it keeps, if it keeps any.
        behind: ZoneAddress,
    },
    /// A file has more extents.
    Extents {
        /// The file.
        id: FileId,
        /// Where the first of them begins: the end of the file so far.
        offset: u64,
        /// Hints for placement.
        hints: Hints,
        /// Seconds since 1970.
        modified: u64,
        /// At most [`EXTENTS_MOST`].
        extents: Vec<StoredExtent>,
    },
    /// Blocks of a file were copied.
    Move {
        /// The file.
        id: FileId,
        /// The first byte of the file in them.
        offset: u64,
        /// Bytes of the file in them.
        bytes: u64,
        /// Their former place.
        from: ZoneAddress,
        /// Their place now.
        to: ZoneAddress,
        /// How many.
        blocks: BlockCount,
    },
}

mod kind {
    pub(super) const SUPERBLOCK: u8 = 1;
    pub(super) const COUNTERS: u8 = 2;
    pub(super) const ZONE: u8 = 3;
    pub(super) const CREATE: u8 = 4;
    pub(super) const LINK: u8 = 5;
    pub(super) const UNLINK: u8 = 6;
    pub(super) const RENAME: u8 = 7;
    pub(super) const TRUNCATE: u8 = 8;
    pub(super) const EXTENTS: u8 = 9;
    pub(super) const MOVE: u8 = 10;
}

impl Entry {
    /// Appends the stored form: kind, a reserved byte, length, fields.
    ///
    /// # Panics
    /// If it has more than [`EXTENTS_MOST`] extents.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([self.kind(), 0, 0, 0]);
        self.encode_fields(out);
        let length = u16::try_from(out.len() - start - 4).expect("an entry fits into a record");
        out[start + 2..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Superblock(_) => kind::SUPERBLOCK,
            Self::Counters { .. } => kind::COUNTERS,
            Self::Zone(_) => kind::ZONE,
            Self::Create { .. } => kind::CREATE,
            Self::Link { .. } => kind::LINK,
            Self::Unlink { .. } => kind::UNLINK,
            Self::Rename { .. } => kind::RENAME,
            Self::Truncate { .. } => kind::TRUNCATE,
            Self::Extents { .. } => kind::EXTENTS,
            Self::Move { .. } => kind::MOVE,
        }
    }

    fn encode_fields(&self, out: &mut Vec<u8>) {
        match self {
            Self::Superblock(superblock) => superblock.encode(out),
            Self::Counters { next_file, next_incarnation } => {
                put(out, &[next_file.0, next_incarnation.0]);
            }
            Self::Zone(zone) => {
                out.extend(zone.zone.0.to_le_bytes());
                out.extend(zone.known.to_le_bytes());
                put(out, &[zone.incarnation.0]);
                out.push(u8::from(zone.phase == StoredPhase::Sealed));
                out.push(zone.lifetime.number());
            }
            Self::Create { parent, name, id, kind, version, hints, modified, replaces } => {
                put(out, &[parent.0, id.0, *modified]);
                out.extend(version.0.to_le_bytes());
                out.extend(hints.to_bytes());
                out.push(u8::from(*kind == Kind::Directory));
                out.push(u8::from(*replaces));
                put_name(out, name);
            }
            Self::Link { parent, name, id } => {
                put(out, &[parent.0, id.0]);
                put_name(out, name);
            }
            Self::Unlink { parent, name } => {
                put(out, &[parent.0]);
                put_name(out, name);
            }
            Self::Rename { from, from_name, to, to_name } => {
                put(out, &[from.0, to.0]);
                put_name(out, from_name);
                put_name(out, to_name);
            }
            Self::Truncate { id, size, version, behind } => {
                put(out, &[id.0, *size]);
                out.extend(version.0.to_le_bytes());
                put_address(out, *behind);
            }
            Self::Extents { id, offset, hints, modified, extents } => {
                assert!(extents.len() <= EXTENTS_MOST, "{} extents", extents.len());
                put(out, &[id.0, *offset, *modified]);
                out.extend(hints.to_bytes());
                for extent in extents {
                    extent.encode(out);
                }
            }
            Self::Move { id, offset, bytes, from, to, blocks } => {
                put(out, &[id.0, *offset, *bytes]);
                put_address(out, *from);
                put_address(out, *to);
                out.extend(blocks.0.to_le_bytes());
            }
        }
    }

    /// The entry of a stored form; `None` if it is malformed.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = Cursor::new(bytes);
        let entry = Self::decode(&mut from)?;
        from.is_empty().then_some(entry)
    }

    /// The next entry of an input; `None` if it is malformed.
    pub(super) fn decode(from: &mut Cursor<'_>) -> Option<Self> {
        let kind = from.u8()?;
        let _reserved = from.u8()?;
        let length = from.u16()?;
        let mut fields = Cursor::new(from.take(usize::from(length))?);
        let entry = Self::decode_fields(kind, &mut fields)?;
        fields.is_empty().then_some(entry)
    }

    fn decode_fields(kind: u8, from: &mut Cursor<'_>) -> Option<Self> {
        Some(match kind {
            kind::SUPERBLOCK => Self::Superblock(Superblock::decode(from)?),
            kind::COUNTERS => Self::Counters {
                next_file: FileId(from.u64()?),
                next_incarnation: Incarnation(from.u64()?),
            },
            kind::ZONE => Self::Zone(StoredZone {
                zone: ZoneId(from.u32()?),
                known: from.u32()?,
                incarnation: Incarnation(from.u64()?),
                phase: if flag(from)? { StoredPhase::Sealed } else { StoredPhase::Open },
                lifetime: Lifetime::from_number(from.u8()?)?,
            }),
            kind::CREATE => Self::Create {
                parent: FileId(from.u64()?),
                id: FileId(from.u64()?),
                modified: from.u64()?,
                version: Version(from.u32()?),
                hints: Hints::from_bytes(from.array()?)?,
                kind: if flag(from)? { Kind::Directory } else { Kind::File },
                replaces: flag(from)?,
                name: name(from)?,
            },
            kind::LINK => Self::Link {
                parent: FileId(from.u64()?),
                id: FileId(from.u64()?),
                name: name(from)?,
            },
            kind::UNLINK => Self::Unlink { parent: FileId(from.u64()?), name: name(from)? },
            kind::RENAME => Self::Rename {
                from: FileId(from.u64()?),
                to: FileId(from.u64()?),
                from_name: name(from)?,
                to_name: name(from)?,
            },
            kind::TRUNCATE => Self::Truncate {
                id: FileId(from.u64()?),
                size: from.u64()?,
                version: Version(from.u32()?),
                behind: address(from)?,
            },
            kind::EXTENTS => Self::decode_extents(from)?,
            kind::MOVE => Self::Move {
                id: FileId(from.u64()?),
                offset: from.u64()?,
                bytes: from.u64()?,
                from: address(from)?,
                to: address(from)?,
                blocks: BlockCount(from.u32()?),
            },
            _ => return None,
        })
    }

    fn decode_extents(from: &mut Cursor<'_>) -> Option<Self> {
        let (id, offset) = (FileId(from.u64()?), from.u64()?);
        let (modified, hints) = (from.u64()?, Hints::from_bytes(from.array()?)?);
        let count = from.len() / StoredExtent::BYTES;
        if count > EXTENTS_MOST {
            return None;
        }
        let extents = (0..count).map(|_| StoredExtent::decode(from)).collect::<Option<_>>()?;
        Some(Self::Extents { id, offset, hints, modified, extents })
    }
}

impl StoredExtent {
    /// Bytes of the stored form.
    const BYTES: usize = 24;

    fn encode(&self, out: &mut Vec<u8>) {
        put_address(out, self.at);
        out.extend(self.blocks.0.to_le_bytes());
        out.extend(u32::from(self.is_sparse).to_le_bytes());
        put(out, &[self.bytes]);
    }

    fn decode(from: &mut Cursor<'_>) -> Option<Self> {
        let (at, blocks) = (address(from)?, BlockCount(from.u32()?));
        let is_sparse = match from.u32()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Self { at, blocks, bytes: from.u64()?, is_sparse })
    }
}

fn put(out: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| out.extend(word.to_le_bytes()));
}

fn put_name(out: &mut Vec<u8>, name: &Name) {
    let text = name.as_str();
    out.push(u8::try_from(text.len()).expect("a name has at most 255 bytes"));
    out.extend(text.as_bytes());
}

fn put_address(out: &mut Vec<u8>, at: ZoneAddress) {
    out.extend(at.zone.0.to_le_bytes());
    out.extend(at.offset.0.to_le_bytes());
}

fn name(from: &mut Cursor<'_>) -> Option<Name> {
    Name::new(from.text()?)
}

fn address(from: &mut Cursor<'_>) -> Option<ZoneAddress> {
    Some(ZoneAddress::new(ZoneId(from.u32()?), from.u32()?))
}

/// A byte that is 0 or 1.
fn flag(from: &mut Cursor<'_>) -> Option<bool> {
    match from.u8()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}
