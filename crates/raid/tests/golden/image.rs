//! Drives as a file: every written block of every zone, in runs of equal words.
//!
//! ```text
//! u32 drives | per drive: u32 zones, u32 zone capacity
//!            |   per zone: u32 write pointer
//!            |     per block: 520 words of 8 bytes (data, then metadata) as runs
//! u32 blocks of the volume | u64 what each holds
//! run: u16 words, u64 word
//! ```
//!
//! All integers are little-endian.

#![allow(dead_code, reason = "written by one test, read by several")]

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_emulator::{Immediate, RamDrive};
use zoneweave_runtime::{Executor, VirtualTime};
use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, Geometry, OOB_BYTES, Payload, ZoneAddress, ZoneId, ZonedDeviceExt,
};

const WORDS: usize = (BLOCK_BYTES + OOB_BYTES) / 8;

/// Drives, and the contents of the volume on them by block.
pub(crate) struct Image {
    pub(crate) drives: Vec<RamDrive>,
    pub(crate) holds: Vec<u64>,
}

impl Image {
    /// The file's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut file = Vec::new();
        put_u32(&mut file, self.drives.len());
        for drive in &self.drives {
            let geometry = drive.geometry();
            put_u32(&mut file, geometry.zones as usize);
            put_u32(&mut file, geometry.zone_capacity.index());
            for zone in (0..geometry.zones).map(ZoneId) {
                let written = drive.zone(zone).write_pointer.0;
                put_u32(&mut file, written as usize);
                for offset in 0..written {
                    let block = drive.peek(ZoneAddress::new(zone, offset), BlockCount(1));
                    put_block(&mut file, &block);
                }
            }
        }
        put_u32(&mut file, self.holds.len());
        file.extend(self.holds.iter().flat_map(|value| value.to_le_bytes()));
        file
    }

    /// The drives in a file, written anew.
    pub(crate) fn decode(file: &[u8]) -> Self {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let mut file = Reader(file);
        let mut drives = Vec::new();
        for _ in 0..file.u32() {
            let (zones, capacity) = (file.u32(), file.u32());
            let geometry = Geometry::new(zones, BlockCount(capacity));
            let drive = RamDrive::new(geometry, Immediate).unwrap();
            let device = drive.attach(&executor.handle());
            for zone in 0..zones {
                for offset in 0..file.u32() {
                    let at = ZoneAddress::new(ZoneId(zone), offset);
                    executor.run(device.write(at, file.block(), false)).unwrap();
                }
            }
            drive.power_loss(0);
            drives.push(drive);
        }
        let holds = (0..file.u32()).map(|_| u64::from_le_bytes(file.take())).collect();
        assert!(file.0.is_empty(), "{} bytes too many", file.0.len());
        Self { drives, holds }
    }
}

fn put_u32(file: &mut Vec<u8>, value: usize) {
    file.extend(u32::try_from(value).unwrap().to_le_bytes());
}

fn put_block(file: &mut Vec<u8>, block: &Payload) {
    let bytes = [&block.block(0)[..], &block.block_oob(0)[..]].concat();
    let (words, _) = bytes.as_chunks::<8>();
    assert_eq!(words.len(), WORDS);
    for run in words.chunk_by(|left, right| left == right) {
        file.extend(u16::try_from(run.len()).unwrap().to_le_bytes());
        file.extend(run[0]);
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_first_chunk::<N>().unwrap();
        self.0 = rest;
        *head
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn block(&mut self) -> Payload {
        let mut bytes = Vec::with_capacity(WORDS * 8);
        while bytes.len() < WORDS * 8 {
            let words = u16::from_le_bytes(self.take());
            bytes.extend(self.take::<8>().repeat(words.into()));
        }
        let bytes = Bytes::from(bytes);
        Payload::new(bytes.slice(..BLOCK_BYTES), bytes.slice(BLOCK_BYTES..))
    }
}
