//! One block and its metadata, decoded.

use serde::Serialize;
use zoneweave_raid::log::format::{
    ArrayConfig, ArrayUuid, BlockType, Envelope, FormatError, IndexBlock, Oob, Place, Seed,
    SegmentHeader, SuperblockRecord, TombstoneBlock,
};
use zoneweave_raid::scheme::ColumnSet;
use zoneweave_zoned::Status;

use super::body_words;

/// Bytes of a line of a dump.
const DUMP_LINE: usize = 16;

/// The description of a block.
#[derive(Debug, Serialize)]
pub(super) struct BlockView {
    pub offset: u32,
    pub summary: String,
    pub details: Vec<String>,
    /// The block's metadata, and whether it verifies.
    pub oob: Option<String>,
    pub dump: Vec<String>,
}

/// The array that a drive belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    array: ArrayUuid,
    /// Parity chunks of each of its stripes.
    parity: usize,
}

impl Owner {
    pub(super) fn of(config: &ArrayConfig) -> Self {
        Self { array: config.array, parity: config.scheme.parity() }
    }
}

impl BlockView {
    /// A block that cannot be read.
    pub(super) fn unreadable(offset: u32, status: Status) -> Self {
        let summary = format!("cannot be read: {status}");
        Self { offset, summary, details: Vec::new(), oob: None, dump: Vec::new() }
    }

    /// Decodes a block; `owner` is the array of the drive, if it is known.
    pub(super) fn decode(offset: u32, data: &[u8], oob: &[u8], owner: Option<Owner>) -> Self {
        let (summary, details) = decode_block(data, owner.map(|owner| owner.array));
        let oob = decode_oob(data, oob, owner);
        Self { offset, summary, details, oob, dump: Vec::new() }
    }
}

fn decode_block(data: &[u8], array: Option<ArrayUuid>) -> (String, Vec<String>) {
    let wrong = |what: &str, error: FormatError| (format!("{what}: {error}"), Vec::new());
    let found = match Envelope::open(data, BlockType::Superblock) {
        Ok((found, _)) => {
            let described = match SuperblockRecord::decode(data) {
                Ok(record) => describe_record(&record),
                Err(error) => wrong("damaged superblock record", error),
            };
            return of_array(described, found, array);
        }
        Err(FormatError::BadMagic) => return (plain(data), Vec::new()),
        Err(FormatError::Type { found }) => found,
        Err(error) => return wrong("damaged block", error),
    };
    // The checksum holds, so the block names its own array.
    let owner = owner_of(data);
    let described = match found {
        2 => match SegmentHeader::decode(data, owner) {
            Ok(header) => describe_header(&header),
            Err(error) => wrong("segment header", error),
        },
        3 => match IndexBlock::decode(data, owner) {
            Ok(index) => describe_index(&index),
            Err(error) => wrong("index block", error),
        },
        4 => match TombstoneBlock::decode(data, owner, u64::MAX) {
            Ok(tombstones) => describe_tombstones(&tombstones),
            Err(error) => wrong("tombstone block", error),
        },
        5 => ("mapping block: a page of the index".to_owned(), Vec::new()),
        6 => ("validity block: which blocks of a segment are live".to_owned(), Vec::new()),
        7 => ("directory of a checkpoint".to_owned(), Vec::new()),
        8 => ("root of a checkpoint".to_owned(), Vec::new()),
        other => (format!("a block of unknown type {other}"), Vec::new()),
    };
    of_array(described, owner, array)
}

/// Adds a note if the block belongs to another array.
fn of_array(
    mut described: (String, Vec<String>),
    owner: ArrayUuid,
    expected: Option<ArrayUuid>,
) -> (String, Vec<String>) {
    if expected.is_some_and(|expected| expected != owner) {
        described.1.push(format!("belongs to another array: {owner}"));
    }
    described
}

fn owner_of(data: &[u8]) -> ArrayUuid {
    let bytes = data.get(32..48).and_then(|bytes| bytes.first_chunk());
    ArrayUuid(bytes.copied().unwrap_or_default())
}

fn plain(data: &[u8]) -> String {
    if data.iter().all(|byte| *byte == 0) { "zeros".to_owned() } else { "data".to_owned() }
}

fn describe_record(record: &SuperblockRecord) -> (String, Vec<String>) {
    let summary = format!(
        "superblock record {}: {} {} slot {} epoch {}",
        record.record_sequence,
        record.config.name,
        record.config.scheme,
        record.slot.0,
        record.epoch
    );
    (summary, vec![body_words(&record.body)])
}

fn describe_header(header: &SegmentHeader) -> (String, Vec<String>) {
    let geometry = &header.geometry;
    let summary = format!(
        "header of segment {} generation {}: {} {} rows of {} blocks, {}",
        header.segment,
        header.generation,
        geometry.scheme(),
        geometry.rows(),
        geometry.chunk_blocks(),
        if header.tabled { "tabled" } else { "aligned" },
    );
    let zones: Vec<_> = header
        .zones
        .iter()
        .map(|zone| zone.map_or("-".to_owned(), |zone| zone.0.to_string()))
        .collect();
    let stream = format!("{:?}", header.stream).to_lowercase();
    let mut details = vec![format!(
        "zones {} · made in epoch {} · filled by the {stream} stream",
        zones.join(" "),
        header.epoch,
    )];
    details.extend(absent_words(geometry.scheme().absent()));
    (summary, details)
}

/// The columns that a narrow segment leaves out.
fn absent_words(absent: ColumnSet) -> Option<String> {
    let columns: Vec<_> = absent.iter().map(|column| column.0.to_string()).collect();
    (!absent.is_empty()).then(|| format!("not on columns {}", columns.join(" ")))
}

fn describe_index(index: &IndexBlock) -> (String, Vec<String>) {
    let summary = format!(
        "index of segment {} generation {}: span {}, column {}, {} entries from block {}",
        index.segment,
        index.generation,
        index.span,
        index.column.0,
        index.entries.len(),
        index.first
    );
    (summary, Vec::new())
}

fn describe_tombstones(block: &TombstoneBlock) -> (String, Vec<String>) {
    let extents = block.extents.iter().map(|extent| {
        format!("{} + {} blocks, sequence {}", extent.lba, extent.blocks, extent.sequence)
    });
    (format!("{} trimmed extents", block.extents.len()), extents.collect())
}

/// Describes the metadata. It can be verified only if the array is known.
fn decode_oob(data: &[u8], bytes: &[u8], owner: Option<Owner>) -> Option<String> {
    if bytes.iter().all(|byte| *byte == 0) {
        return None;
    }
    let Some(oob) = Oob::parse(bytes) else {
        return Some("metadata: not of zoneweave, or damaged".to_owned());
    };
    let mut text = format!(
        "metadata: {} generation {} column {}",
        format!("{:?}", oob.place).to_lowercase(),
        oob.generation,
        oob.column.0
    );
    if oob.place == Place::Chunk {
        text.push_str(&format!(" stripe {} role {} of {}", oob.stripe, oob.role.0, oob.width));
        if let Some(identity) = oob.identity() {
            let kind = format!("{:?}", identity.kind).to_lowercase();
            text.push_str(&format!(" {kind} {} sequence {}", identity.lba, identity.sequence));
        }
    }
    if let Some(words) = absent_words(oob.absent) {
        text.push_str(&format!(" of a segment {words}"));
    }
    if let Some(owner) = owner {
        text.push_str(if verifies(owner, &oob, bytes, data) {
            " (verified)"
        } else {
            " (DAMAGED: checksum mismatch)"
        });
    }
    Some(text)
}

/// Whether data and metadata match their checksum. The checksum of a chunk depends on its role,
/// data or parity; all segments have the same number of parity chunks, however wide they are.
fn verifies(owner: Owner, oob: &Oob, bytes: &[u8], data: &[u8]) -> bool {
    let seed = Seed::of(owner.array);
    if oob.place != Place::Chunk {
        return Oob::verify_other(seed, bytes, data, oob.place).is_some();
    }
    Oob::verify_any_chunk(seed, bytes, data, owner.parity).is_some()
}

/// A hex dump, with repeated lines left out.
pub(super) fn hexdump(data: &[u8], oob: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut skipping = false;
    for (at, bytes) in data.chunks(DUMP_LINE).enumerate() {
        let same = at > 0 && data.chunks(DUMP_LINE).nth(at - 1) == Some(bytes);
        match (same, skipping) {
            (false, _) => lines.push(dump_line(at * DUMP_LINE, bytes)),
            (true, false) => lines.push("*".to_owned()),
            (true, true) => {}
        }
        skipping = same;
    }
    lines.push("metadata".to_owned());
    lines.extend(oob.chunks(DUMP_LINE).enumerate().map(|(at, b)| dump_line(at * DUMP_LINE, b)));
    lines
}

fn dump_line(at: usize, bytes: &[u8]) -> String {
    let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let shown = |byte: &u8| if (0x20..0x7F).contains(byte) { char::from(*byte) } else { '.' };
    let text: String = bytes.iter().map(shown).collect();
    format!("{at:04x}  {:<47}  {text}", hex.join(" "))
}

#[cfg(test)]
mod tests {
    use zoneweave_raid::log::format::{Epoch, Generation, SegmentId, StreamKind};
    use zoneweave_raid::log::geometry::SegmentGeometry;
    use zoneweave_raid::scheme::{Column, Role, Scheme};
    use zoneweave_zoned::{BlockCount, ZoneId};

    use super::*;

    /// Pseudo-random bytes, with every structure's magic number put before some of them.
    #[test]
    fn hostile_bytes_are_described_not_feared() {
        let mut random = zoneweave_runtime::Random::new(1);
        for round in 0..2000 {
            let (mut data, mut oob) = ([0; 4096], [0; 64]);
            random.fill(&mut data);
            random.fill(&mut oob);
            oob[39] = u8::try_from(round % 9).unwrap();
            oob[37] %= 40;
            if round % 2 == 0 {
                let body = usize::try_from(random.below(4049)).unwrap();
                let kinds = [
                    BlockType::Superblock,
                    BlockType::SegmentHeader,
                    BlockType::Index,
                    BlockType::Tombstone,
                    BlockType::Mapping,
                    BlockType::CheckpointRoot,
                ];
                Envelope::seal(&mut data, kinds[round / 2 % 6], ArrayUuid([3; 16]), body);
            }
            let owner = Owner { array: ArrayUuid([3; 16]), parity: 1 };
            let view = BlockView::decode(0, &data, &oob, Some(owner));
            assert!(!view.summary.is_empty());
            assert!(!hexdump(&data, &oob).is_empty());
        }
        assert_eq!(BlockView::decode(0, &[], &[], None).summary, "zeros");
    }

    #[test]
    fn narrow_segments_say_where_they_are_not() {
        let owner = Owner { array: ArrayUuid([3; 16]), parity: 1 };
        let absent = [Column(0), Column(3)].into_iter().collect::<ColumnSet>();
        let scheme = Scheme::new(1, 1).unwrap().without(absent).unwrap();
        let header = SegmentHeader {
            segment: SegmentId(1),
            generation: Generation(2),
            epoch: Epoch::FIRST,
            stream: StreamKind::User,
            tabled: false,
            geometry: SegmentGeometry::new(scheme, BlockCount(16), 1, 4).unwrap(),
            zone_capacity: BlockCount(16),
            zones: vec![None, Some(ZoneId(5)), Some(ZoneId(6)), None],
        };
        let data = header.encode(owner.array);
        let mut oob = Oob::of_structure(Place::Header, Generation(2), Column(1), absent);
        let view = |oob: &Oob| {
            let bytes = oob.encode(Seed::of(owner.array), &data, false);
            BlockView::decode(0, &data, &bytes, Some(owner))
        };
        let of_header = view(&oob);
        assert_eq!(of_header.details[1], "not on columns 0 3");
        let said = of_header.oob.unwrap();
        assert!(said.ends_with("column 1 of a segment not on columns 0 3 (verified)"), "{said}");
        // Any block is a block of parity, where its role is one of parity.
        (oob.place, oob.width, oob.role) = (Place::Chunk, 2, Role(1));
        assert!(view(&oob).oob.unwrap().ends_with("(verified)"));
        oob.width = 3;
        assert!(view(&oob).oob.unwrap().contains("DAMAGED"));
    }
}
