//! Fuzz target body of the decoders of zoned volumes: records with the states of zones, headers of
//! the parity log, and metadata of blocks.
//!
//! Arbitrary bytes must not panic a decoder, and what decodes is encoded and decodes again to the
//! same value. A checksum is hard to hit by chance, so the first byte selects a structure, and the
//! others are tried as they are and as its fields under a correct checksum.

use zoneweave_journal::Seed;
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, Lba, OOB_BYTES};

use crate::array::format::config::{ArrayConfig, Checksums, VolumeKind, ZonedConfig};
use crate::array::format::envelope::{ArrayUuid, BlockType, Envelope};
use crate::array::format::errors::MemberErrors;
use crate::array::format::faults::{Faults, LostRange};
use crate::array::format::numbers::Generation;
use crate::array::format::record::VolumeBody;
use crate::array::format::scrubs::{ScrubRun, Scrubs};
use crate::raizn::format::body::{Mount, PublishedMount, RebuiltZones, ZoneRecords, ZonedBody};
use crate::raizn::format::log_record::{LogHeader, LogKind};
use crate::raizn::format::metadata::{BlockMetadata, Kind};
use crate::raizn::format::zone_record::{Junk, ZoneRecord};
use crate::scheme::{Column, Scheme};
use crate::shards::Shard;

const ARRAY: ArrayUuid = ArrayUuid([0x5C; 16]);

/// Body kinds of records.
const KINDS: [u8; 9] = [0, 3, 9, 16, 17, 18, 128, 129, 130];

fn config() -> ArrayConfig {
    ArrayConfig {
        array: ARRAY,
        name: "fuzzed".to_owned(),
        scheme: Scheme::new(3, 2).expect("a possible scheme"),
        write_unit: BlockCount(1),
        zone_capacity: BlockCount(1 << 20),
        zones: 1 << 16,
        shard: Shard::WHOLE,
        volume: VolumeKind::Zoned(ZonedConfig { unit_blocks: 16, checksums: Checksums::Metadata }),
    }
}

/// Decodes one of the structures.
///
/// # Panics
/// If a decoder breaks an invariant.
pub fn zoned(input: &[u8]) {
    let Some((which, rest)) = input.split_first() else { return };
    match which % 11 {
        9 => log_header(rest),
        10 => metadata(rest),
        kind => record_body(KINDS[usize::from(kind)], rest),
    }
}

fn record_body(kind: u8, bytes: &[u8]) {
    let config = config();
    let Ok(body) = ZonedBody::decode(kind, bytes, &config) else { return };
    let encoded = body.encode();
    let again = ZonedBody::decode(body.kind(), &encoded, &config);
    assert!(again.as_ref() == Ok(&body), "{body:?} decodes again to {again:?}");
}

fn log_header(bytes: &[u8]) {
    let _ = LogHeader::decode(bytes, ARRAY);
    let mut block = vec![0; BLOCK_BYTES];
    let most = BLOCK_BYTES - Envelope::BYTES;
    let length = bytes.len().min(most);
    block[Envelope::BYTES..Envelope::BYTES + length].copy_from_slice(&bytes[..length]);
    Envelope::seal(&mut block, BlockType::ParityLog, ARRAY, length);
    let Ok(header) = LogHeader::decode(&block, ARRAY) else { return };
    let again = LogHeader::decode(&header.encode(ARRAY), ARRAY);
    assert!(again.as_ref() == Ok(&header), "{header:?} decodes again to {again:?}");
    // Any answer will do.
    let _ = header.verifies(Seed::of(ARRAY.0), 0, bytes);
}

fn metadata(bytes: &[u8]) {
    let seed = Seed::of(ARRAY.0);
    let (oob, data) = bytes.split_at(bytes.len().min(OOB_BYTES));
    let Some(found) = BlockMetadata::open(seed, oob, data) else { return };
    let sealed = found.seal(seed, data);
    assert!(BlockMetadata::open(seed, &sealed, data) == Some(found), "{found:?}");
}

/// Valid inputs.
#[must_use]
pub fn zoned_seeds() -> Vec<Vec<u8>> {
    let junk = |column, start, end| Junk { column: Column(column), start, end };
    let zone = ZoneRecord {
        generation: Generation(4),
        finished: Some(77),
        junk: vec![junk(0, 1, 5), junk(0, 9, 12), junk(3, 0, 1)],
        ..ZoneRecord::new(9)
    };
    let resetting =
        ZoneRecord { generation: Generation(5), resetting: true, ..ZoneRecord::new(10) };
    let rebuilt = RebuiltZones { column: Column(1), first: 0, bits: vec![0xA5; 32] };
    let errors = MemberErrors { read: 1, write: 2, checksum: 3, repaired: 4, unrepairable: 5 };
    let lost = vec![LostRange { lba: Lba(3), blocks: 2 }, LostRange { lba: Lba(9), blocks: 1 }];
    let faults = Faults { errors: vec![errors; config().scheme.columns()], lost, joined: true };
    let bodies = [
        ZonedBody::State,
        ZonedBody::SnapshotEnd { records: 3 },
        ZonedBody::Zones(ZoneRecords(vec![zone, resetting])),
        ZonedBody::Published(PublishedMount(Mount(12))),
        ZonedBody::Rebuilt(rebuilt),
        ZonedBody::Faults(faults),
        ZonedBody::Scrubs(Scrubs(vec![ScrubRun::begin(3)])),
        ZonedBody::Stopped(Mount(12)),
    ];
    let selected = |which: u8, bytes: &[u8]| [&[which][..], bytes].concat();
    let of_kind = |body: &ZonedBody| KINDS.iter().position(|kind| *kind == body.kind());
    let bodies = bodies.iter().map(|body| {
        let which = of_kind(body).expect("every kind is tried");
        selected(u8::try_from(which).expect("few"), &body.encode())
    });
    let kinds = [LogKind::Parity { parity: 1, end: 77, within: 5 }, LogKind::Relocated { at: 12 }];
    let headers = kinds.map(|kind| {
        let sums = vec![[1, 2], [3, 4]];
        let (generation, mount) = (Generation(2), Mount(9));
        let header = LogHeader { zone: 4, generation, mount, kind, sums };
        selected(9, &header.encode(ARRAY)[Envelope::BYTES..])
    });
    let data = [7; BLOCK_BYTES];
    let (generation, kind) = (Generation(9), Kind::Parity);
    let parity = BlockMetadata { sum: 5, zone: 3, generation, block: 17, kind };
    let sealed = parity.seal(Seed::of(ARRAY.0), &data);
    let block = selected(10, &[&sealed[..], &data].concat());
    bodies.chain(headers).chain([block]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::format::numbers::{Epoch, Lineage, SegmentId, Sequence};
    use crate::array::format::record::{MemberEntry, MemberState, MemberUuid, SuperblockRecord};

    /// The newest record of a member with such a report was a damaged one, which kept the volume
    /// from its start.
    #[test]
    fn a_report_that_makes_no_sense_is_a_state() {
        let columns = config().scheme.columns();
        let member = MemberEntry {
            uuid: MemberUuid([3; 16]),
            state: MemberState::Online,
            since_epoch: Epoch(2),
        };
        let record = |members| {
            let errors = vec![MemberErrors::default(); members];
            SuperblockRecord {
                config: config(),
                lineage: Lineage(1),
                epoch: Epoch(4),
                epoch_tag: 5,
                record_sequence: 6,
                slot: Column(1),
                member: member.uuid,
                members: vec![member; columns],
                sequence_ceiling: Sequence(7),
                segment_ceiling: SegmentId::FIRST,
                body: ZonedBody::Faults(Faults { errors, ..Faults::default() }),
            }
        };
        let decoded = |record: &SuperblockRecord<ZonedBody>| {
            SuperblockRecord::<ZonedBody>::decode(&record.encode()).unwrap()
        };
        let right = record(columns);
        assert_eq!(decoded(&right), right);
        // Errors of one more member than there are.
        let wrong = record(columns + 1);
        assert_eq!(decoded(&wrong), SuperblockRecord { body: ZonedBody::State, ..wrong });
    }

    /// Addresses of a zoned volume end later than those of a block volume.
    #[test]
    fn ranges_of_large_volumes_are_on_record() {
        let config = ArrayConfig { zones: 1 << 20, ..config() };
        let errors = vec![MemberErrors::default(); config.scheme.columns()];
        let lost = vec![LostRange { lba: Lba(1 << 41), blocks: 2 }];
        let body = ZonedBody::Faults(Faults { errors, lost, joined: false });
        assert_eq!(ZonedBody::decode(body.kind(), &body.encode(), &config), Ok(body));
    }

    #[test]
    fn seeds_decode_and_changed_seeds_do_no_harm() {
        for seed in zoned_seeds() {
            let decoded = |kind| ZonedBody::decode(kind, &seed[1..], &config());
            let kind = KINDS.get(usize::from(seed[0]));
            assert!(kind.is_none_or(|kind| decoded(*kind).is_ok()), "{seed:?}");
            zoned(&seed);
            for at in 0..seed.len().min(400) {
                let mut changed = seed.clone();
                changed[at] ^= 0x81;
                zoned(&changed);
                zoned(&changed[..at]);
            }
        }
    }
}
