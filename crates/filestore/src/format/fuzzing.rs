//! Bodies of the fuzz targets: decoders of hostile bytes.

use zoneweave_journal::{Envelope, Seed};
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, ZoneAddress, ZoneId};

use super::entry::{Entry, Kind, StoredExtent, StoredPhase, StoredZone};
use super::layout::BlockLayout;
use super::record::{MetadataRecord, Part};
use super::superblock::Superblock;
use super::tag::Tag;
use crate::hint::{Hints, Lifetime};
use crate::ids::{FileId, Incarnation, Version};
use crate::name::Name;

const OWNER: [u8; 16] = [0x5C; 16];

/// Decodes a record of the metadata log, as it is and with its checksum made right. A record that
/// decodes is the same once it is encoded and decoded again.
pub fn record(input: &[u8]) {
    let _as_it_is = MetadataRecord::decode(input);
    let mut block = vec![0; BLOCK_BYTES];
    let body = input.len().min(BLOCK_BYTES - Envelope::BYTES);
    block[Envelope::BYTES..Envelope::BYTES + body].copy_from_slice(&input[..body]);
    Envelope::new(*b"ZNWFILE\0", super::VERSION).seal(&mut block, 1, OWNER, body);
    if let Ok(record) = MetadataRecord::decode(&block) {
        let again = MetadataRecord::decode(record.encode().as_ref());
        assert_eq!(again.as_ref(), Ok(&record), "a record changes when it is encoded again");
    }
}

/// Opens a block with its tag: 32 bytes of tag, then the block.
pub fn tag(input: &[u8]) {
    let (tag, block) = input.split_at(input.len().min(Tag::BYTES));
    let (seed, at) = (Seed::of(OWNER), ZoneAddress::new(ZoneId(1), 2));
    for layout in [BlockLayout::Separate, BlockLayout::Inline] {
        // Any answer is correct; only a panic is a bug.
        let _ = Tag::open(layout, seed, at, Incarnation(3), block, tag);
    }
}

/// Bodies of records with every kind of entry.
#[must_use]
pub fn record_seeds() -> Vec<Vec<u8>> {
    let parts = [Part::Log, Part::Snapshot, Part::SnapshotEnd { before: 7 }];
    let record = |part| MetadataRecord { owner: OWNER, sequence: 9, part, entries: samples() };
    let body = |block: &[u8]| block[Envelope::BYTES..].to_vec();
    parts.into_iter().map(|part| body(record(part).encode().as_ref())).collect()
}

/// A tag, and an empty block.
#[must_use]
pub fn tag_seeds() -> Vec<Vec<u8>> {
    vec![vec![0; Tag::BYTES + BLOCK_BYTES]]
}

/// An entry of each kind.
#[must_use]
pub fn samples() -> Vec<Entry> {
    let name = |text: &str| Name::new(text).expect("a name");
    let (parent, id) = (FileId::ROOT, FileId(7));
    let hints = Hints { lifetime: Lifetime::Medium, level: Some(3), expected_bytes: 0 };
    let create = |name, kind, replaces| Entry::Create {
        parent,
        name,
        id,
        kind,
        version: Version(2),
        hints,
        modified: 1_700_000_000,
        replaces,
    };
    let zone = |phase| {
        let incarnation = Incarnation(12);
        let lifetime = Lifetime::Short;
        Entry::Zone(StoredZone { zone: ZoneId(4), phase, incarnation, known: 5, lifetime })
    };
    let extent = |block, blocks, bytes, is_sparse| StoredExtent {
        at: ZoneAddress::new(ZoneId(4), block),
        blocks: BlockCount(blocks),
        bytes,
        is_sparse,
    };
    vec![
        Entry::Superblock(Superblock {
            zones: 128,
            zone_capacity: BlockCount(4096),
            write_unit: BlockCount(1),
            layout: BlockLayout::Separate,
            metadata_zones: [ZoneId(0), ZoneId(1)],
            finish_percent: 10,
            created: 1_700_000_000,
            label: "db".to_owned(),
        }),
        Entry::Counters { next_file: FileId(8), next_incarnation: Incarnation(13) },
        zone(StoredPhase::Open),
        zone(StoredPhase::Sealed),
        create(name("db"), Kind::Directory, false),
        create(name("CURRENT"), Kind::File, true),
        Entry::Link { parent, name: name("000007.sst"), id },
        Entry::Unlink { parent, name: name("000007.sst") },
        Entry::Rename { from: parent, from_name: name("a"), to: id, to_name: name("b") },
        Entry::Truncate {
            id,
            size: 12_345,
            version: Version(3),
            behind: ZoneAddress::new(ZoneId(4), 4),
        },
        Entry::Extents {
            id,
            offset: 4096,
            hints,
            modified: 1_700_000_001,
            extents: vec![extent(0, 3, 10_000, false), extent(8, 2, 20, true)],
        },
        Entry::Move {
            id,
            offset: 4096,
            bytes: 4096,
            from: ZoneAddress::new(ZoneId(4), 9),
            to: ZoneAddress::new(ZoneId(5), 0),
            blocks: BlockCount(1),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_decode_and_samples_lead_back() {
        for seed in record_seeds() {
            record(&seed);
        }
        let record =
            MetadataRecord { owner: OWNER, sequence: 9, part: Part::Log, entries: samples() };
        assert_eq!(MetadataRecord::decode(record.encode().as_ref()), Ok(record));
    }

    #[test]
    fn mutated_records_decode_to_something_or_an_error() {
        let seed = record_seeds().remove(0);
        for at in 0..600 {
            for flip in [1, 0x80, 0xFF] {
                let mut bytes = seed.clone();
                bytes[at] ^= flip;
                record(&bytes);
                record(&bytes[..at]);
            }
        }
        tag(&tag_seeds()[0]);
    }
}
