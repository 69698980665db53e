//! Bytes of any origin: no panic, and no record that was not written.

use bytes::Bytes;
use proptest::prelude::*;
use zoneweave_journal::{Codec, Scan};
use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, Payload, ZoneAction, ZoneAddress, ZoneId, ZonedDeviceExt,
};

use crate::support::{Counter, Drive, Step, Steps, encode, observe};

/// A block of a zone of a drive that nobody can trust.
#[derive(Clone, Debug)]
enum Block {
    Noise(u8),
    /// An intact record with any numbers.
    Record(u64, u64, u64),
    /// An intact record with a bit flipped.
    Flipped(u64, usize),
}

impl Block {
    fn payload(&self) -> Payload {
        let step = |sequence, kind, value| Step { sequence, kind, value };
        match *self {
            Self::Noise(byte) => {
                let data = vec![Bytes::from(vec![byte; BLOCK_BYTES])];
                Payload { data, ..Payload::default() }
            }
            Self::Record(sequence, kind, value) => encode(step(sequence, kind, value)),
            Self::Flipped(sequence, bit) => {
                let mut bytes = encode(step(sequence, 2, 1)).block(0).to_vec();
                bytes[bit / 8] ^= 1 << (bit % 8);
                Payload { data: vec![bytes.into()], ..Payload::default() }
            }
        }
    }
}

fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let block = prop_oneof![
        any::<u8>().prop_map(Block::Noise),
        (0_u64..9, 0_u64..3, 0_u64..100).prop_map(|(s, k, v)| Block::Record(s, k, v)),
        (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(s, k, v)| Block::Record(s, k, v)),
        (0_u64..9, 0_usize..72 * 8).prop_map(|(s, b)| Block::Flipped(s, b)),
    ];
    prop::collection::vec(block, 0..6)
}

proptest! {
    #[test]
    fn any_contents_are_scanned(zones in prop::collection::vec(blocks(), 4), finished: u8) {
        let drive = Drive::new(1, false);
        drive.run(async |device| {
            for (zone, blocks) in (0..).map(ZoneId).zip(&zones) {
                for (offset, block) in (0..).zip(blocks) {
                    let at = ZoneAddress::new(zone, offset);
                    device.write(at, block.payload(), true).await.unwrap();
                }
                if finished >> zone.0 & 1 == 1 {
                    device.manage(zone, ZoneAction::Finish).await.unwrap();
                }
            }
        });
        let scan = drive.run(async |device| Scan::read(device, &Steps, observe).await.unwrap());
        let written = |block: &&Block| matches!(block, Block::Record(..));
        let intact = zones.iter().flatten().filter(written).count();
        prop_assert_eq!(scan.records.len(), intact);
        let _ = scan.may_hide_newer();
        if let Some(found) = scan.since_snapshot() {
            prop_assert!(found.is_sorted_by_key(|step| step.sequence));
        }
        if let Some(mut log) = scan.resume() {
            // Contents of any kind are no reason to fail a switch.
            let end = Step { sequence: u64::MAX, kind: 2, value: 0 };
            drive.run(async |device| {
                log.switch(device, 1, |_| encode(end)).await.unwrap();
                log.reset_old(device).await.unwrap();
            });
        }
    }

    #[test]
    fn flipped_bits_make_no_record(bit in 0_usize..72 * 8) {
        let mut block = encode(Step { sequence: 1, kind: 0, value: 1 }).block(0).to_vec();
        block[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Steps.decode(&block, &[]).is_err());
    }
}

/// Zones of other use among the searched ones are none of the log's.
#[test]
fn a_drive_without_records_has_no_log() {
    let drive = Drive::new(1, false);
    drive.run(async |device| {
        let payload = Block::Noise(1).payload();
        device.write(ZoneAddress::new(ZoneId(0), 0), payload, true).await.unwrap();
    });
    let scan = drive.run(async |device| Scan::read(device, &Steps, observe).await.unwrap());
    assert!(scan.resume().is_none() && scan.since_snapshot().is_none());
    assert!(!scan.may_hide_newer());
    assert_eq!(scan.unknown_zones, 1);
    drive.ram.set_unreadable(drive.address(0, 0), BlockCount(1));
    assert!(drive.run(async |device| Counter::open(device).await).unwrap().is_none());
}
