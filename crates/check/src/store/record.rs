//! Records and entries of the metadata log: docs/format.md, sections S1 to S3.

use crate::format::fields::{Array, Fields};

const MAGIC: &[u8; 8] = b"ZNWFILE\0";
const VERSION: u16 = 1;
const TYPE: u16 = 1;
const ENVELOPE_BYTES: usize = 48;
const BODY_HEAD_BYTES: usize = 24;
const EXTENT_BYTES: usize = 24;
const EXTENTS_MOST: usize = 128;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) owner: [u8; 16],
    pub(super) sequence: u64,
    /// 0 log, 1 snapshot, 2 its end.
    pub(super) part: u32,
    /// Records of the snapshot before its end.
    pub(super) before: u32,
    pub(super) entries: Vec<Entry>,
}

/// A block and zone.
pub(super) type Address = (u32, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredExtent {
    pub(super) at: Address,
    pub(super) blocks: u32,
    pub(super) is_sparse: bool,
    pub(super) bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    pub(super) zones: u32,
    pub(super) zone_capacity: u32,
    pub(super) metadata_zones: [u32; 2],
    /// Whether tags are in the blocks.
    pub(super) is_inline: bool,
    pub(super) label: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Superblock(Superblock),
    Counters {
        next_file: u64,
        next_use: u64,
    },
    Zone {
        zone: u32,
        known: u32,
        usage: u64,
        is_sealed: bool,
    },
    Create {
        parent: u64,
        file: u64,
        version: u32,
        is_directory: bool,
        replaces: bool,
        name: String,
    },
    Link {
        parent: u64,
        file: u64,
        name: String,
    },
    Unlink {
        parent: u64,
        name: String,
    },
    Rename {
        from: u64,
        to: u64,
        from_name: String,
        to_name: String,
    },
    Truncate {
        file: u64,
        size: u64,
        version: u32,
        behind: Address,
    },
    Extents {
        file: u64,
        offset: u64,
        extents: Vec<StoredExtent>,
    },
    Move {
        file: u64,
        offset: u64,
        bytes: u64,
        from: Address,
        to: Address,
        blocks: u32,
    },
}

/// What a block of a metadata zone is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    Record(Record),
    /// An intact envelope of another version.
    OtherVersion(u16),
    /// No record.
    Nothing,
}

/// Parses a block of a metadata zone.
pub(super) fn parse(block: &[u8]) -> Parsed {
    let Some((owner, version, body)) = open_envelope(block) else { return Parsed::Nothing };
    if version != VERSION {
        return Parsed::OtherVersion(version);
    }
    parse_body(owner, body).map_or(Parsed::Nothing, Parsed::Record)
}

fn open_envelope(block: &[u8]) -> Option<([u8; 16], u16, &[u8])> {
    let fields = Fields(block.get(..ENVELOPE_BYTES)?);
    let length = fields.u32(12) as usize;
    if fields.bytes::<8>(0) != *MAGIC || length < ENVELOPE_BYTES {
        return None;
    }
    let owner = fields.bytes::<16>(32);
    let covered = block.get(..length)?;
    assert!(covered.len() >= ENVELOPE_BYTES, "an envelope of {length} bytes");
    let sum = Array(owner).checksum(&[&covered[..16], &[0; 4], &covered[20..]]);
    let is_right = sum == fields.u32(16) && fields.u16(10) == TYPE;
    is_right.then(|| (owner, fields.u16(8), &covered[ENVELOPE_BYTES..]))
}

fn parse_body(owner: [u8; 16], body: &[u8]) -> Option<Record> {
    let (head, mut rest) = body.split_at_checked(BODY_HEAD_BYTES)?;
    let fields = Fields(head);
    let (part, before, count) = (fields.u32(8), fields.u32(12), fields.u32(16));
    let mut entries = Vec::new();
    for _ in 0..count {
        let (entry_head, behind) = rest.split_at_checked(4)?;
        let entry_head = Fields(entry_head);
        let (mine, behind) = behind.split_at_checked(usize::from(entry_head.u16(2)))?;
        entries.push(parse_entry(entry_head.u8(0), mine)?);
        rest = behind;
    }
    assert!(entries.len() == count as usize, "{} of {count} entries", entries.len());
    let is_whole = rest.is_empty() && part <= 2;
    is_whole.then(|| Record { owner, sequence: fields.u64(0), part, before, entries })
}

/// The fields of an entry, taken from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<Fields<'a>> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(Fields(taken))
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|fields| fields.u8(0))
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|fields| fields.u32(0))
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8).map(|fields| fields.u64(0))
    }

    fn address(&mut self) -> Option<Address> {
        Some((self.u32()?, self.u32()?))
    }

    fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn hints(&mut self) -> Option<()> {
        let fields = self.take(2)?;
        (fields.u8(0) <= 5).then_some(())
    }

    fn text(&mut self) -> Option<String> {
        let count = self.u8()?;
        let bytes = self.take(usize::from(count))?;
        String::from_utf8(bytes.0.to_vec()).ok()
    }

    fn name(&mut self) -> Option<String> {
        let name = self.text()?;
        let is_name =
            !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != "..";
        is_name.then_some(name)
    }
}

fn parse_entry(kind: u8, bytes: &[u8]) -> Option<Entry> {
    let mut from = Reader(bytes);
    let entry = match kind {
        1 => Entry::Superblock(parse_superblock(&mut from)?),
        2 => Entry::Counters { next_file: from.u64()?, next_use: from.u64()? },
        3 => {
            let (zone, known, usage) = (from.u32()?, from.u32()?, from.u64()?);
            let is_sealed = from.flag()?;
            (from.u8()? <= 5).then_some(())?;
            Entry::Zone { zone, known, usage, is_sealed }
        }
        4 => {
            let (parent, file, _time) = (from.u64()?, from.u64()?, from.u64()?);
            let version = from.u32()?;
            from.hints()?;
            let (is_directory, replaces) = (from.flag()?, from.flag()?);
            Entry::Create { parent, file, version, is_directory, replaces, name: from.name()? }
        }
        5 => Entry::Link { parent: from.u64()?, file: from.u64()?, name: from.name()? },
        6 => Entry::Unlink { parent: from.u64()?, name: from.name()? },
        7 => Entry::Rename {
            from: from.u64()?,
            to: from.u64()?,
            from_name: from.name()?,
            to_name: from.name()?,
        },
        8 => Entry::Truncate {
            file: from.u64()?,
            size: from.u64()?,
            version: from.u32()?,
            behind: from.address()?,
        },
        9 => parse_extents(&mut from)?,
        10 => Entry::Move {
            file: from.u64()?,
            offset: from.u64()?,
            bytes: from.u64()?,
            from: from.address()?,
            to: from.address()?,
            blocks: from.u32()?,
        },
        _ => return None,
    };
    from.0.is_empty().then_some(entry)
}

fn parse_superblock(from: &mut Reader<'_>) -> Option<Superblock> {
    let (zones, zone_capacity, _unit) = (from.u32()?, from.u32()?, from.u32()?);
    let metadata_zones = [from.u32()?, from.u32()?];
    let _made = from.u64()?;
    let is_inline = match from.u8()? {
        1 => false,
        2 => true,
        _ => return None,
    };
    let _finish_percent = from.u8()?;
    Some(Superblock { zones, zone_capacity, metadata_zones, is_inline, label: from.text()? })
}

fn parse_extents(from: &mut Reader<'_>) -> Option<Entry> {
    let (file, offset, _time) = (from.u64()?, from.u64()?, from.u64()?);
    from.hints()?;
    let count = from.0.len() / EXTENT_BYTES;
    if count > EXTENTS_MOST {
        return None;
    }
    let mut extents = Vec::with_capacity(count);
    for _ in 0..count {
        let (at, blocks) = (from.address()?, from.u32()?);
        let is_sparse = match from.u32()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        extents.push(StoredExtent { at, blocks, is_sparse, bytes: from.u64()? });
    }
    Some(Entry::Extents { file, offset, extents })
}
