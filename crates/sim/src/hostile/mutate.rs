//! Mutations of an image, drawn from the bytes of an input.

use zoneweave_emulator::{BlockPart, Damage, Immediate, RamDrive};
use zoneweave_raid::log::format::{Seed, Sequence, data_checksum};
use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, Lba, OOB_BYTES, Payload, ZoneAction, ZoneAddress, ZoneId,
    ZonedDeviceExt,
};

use super::images::{ARRAY, Image};
use super::input::Input;

/// Maximum number of mutations per input.
const MUTATIONS_MAX: usize = 24;

/// Edge values of fields.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    7,
    0xFF,
    0x100,
    0xFFFF,
    0x1_0000,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
    1 << 32,
    (1 << 40) - 1,
    1 << 40,
    (1 << 62) - 1,
    1 << 62,
    u64::MAX,
];

/// Bytes of an envelope; the body of a structured block follows.
const BODY: usize = 48;

/// Offset of the volume part of a superblock record; the payload follows it.
const RECORD_VOLUME: usize = BODY + 1136;

/// The drives to offer: copies of the image's drives with the input's mutations.
pub(super) fn offered(image: &Image, input: &mut Input<'_>) -> Vec<RamDrive> {
    let mut drives: Vec<_> = image.drives.iter().map(|drive| drive.fork(Immediate)).collect();
    for _ in 0..MUTATIONS_MAX {
        if input.is_empty() || drives.is_empty() {
            break;
        }
        mutate(&mut drives, image, input);
    }
    for drive in &drives {
        assert!(drive.in_flight().is_empty(), "mutations leave no command behind");
    }
    drives
}

fn mutate(drives: &mut Vec<RamDrive>, image: &Image, input: &mut Input<'_>) {
    match input.byte() % 16 {
        0 => damage(drives, input),
        1 => copy(drives, input, false),
        2 => copy(drives, input, true),
        3 => exchange(drives, input),
        4 => manage(drives, input),
        5 => append(drives, input),
        6 => change_drives(drives, image, input),
        7 => with_block(drives, input, |drive, at, _| drive.set_unreadable(at, BlockCount(1))),
        8 => next_record(drives, input),
        9 | 10 => with_block(drives, input, |drive, at, input| {
            let change = FieldChange::oob(input);
            apply(drive, at, change);
        }),
        11 | 12 => on_every_drive(drives, input),
        _ => with_block(drives, input, |drive, at, input| {
            let change = FieldChange::body(input);
            apply(drive, at, change);
        }),
    }
}

/// A written block of a drive: a header, one of the last blocks of a zone, or any.
fn pick(drive: &RamDrive, input: &mut Input<'_>) -> Option<ZoneAddress> {
    let zones = (0..drive.geometry().zones).map(|zone| drive.zone(ZoneId(zone)));
    let written: Vec<_> = zones.filter(|info| info.write_pointer.0 > 0).collect();
    if written.is_empty() {
        return None;
    }
    let info = &written[input.below(written.len())];
    let blocks = info.write_pointer.0 as usize;
    let offset = match input.byte() % 4 {
        0 => 0,
        1 => blocks - 1 - input.below(4.min(blocks)),
        _ => input.below(blocks),
    };
    assert!(offset < blocks, "the block is written");
    Some(ZoneAddress::new(info.zone, u32::try_from(offset).expect("a zone's blocks")))
}

fn with_block(
    drives: &[RamDrive],
    input: &mut Input<'_>,
    change: impl FnOnce(&RamDrive, ZoneAddress, &mut Input<'_>),
) {
    let drive = &drives[input.below(drives.len())];
    if let Some(at) = pick(drive, input) {
        change(drive, at, input);
    }
}

fn damage(drives: &[RamDrive], input: &mut Input<'_>) {
    with_block(drives, input, |drive, at, input| {
        let part = if input.byte().is_multiple_of(2) { BlockPart::Data } else { BlockPart::Oob };
        let seed = u64::from(input.word());
        let damage = match input.byte() % 2 {
            0 => Damage::BitFlip { part, seed },
            _ => Damage::Garbage { part, seed },
        };
        drive.corrupt(at, damage);
    });
}

/// Copies a block to another place, unchanged or as if it had been written there.
fn copy(drives: &[RamDrive], input: &mut Input<'_>, fitting: bool) {
    let (from, to) = (input.below(drives.len()), input.below(drives.len()));
    let (Some(source), Some(target)) = (pick(&drives[from], input), pick(&drives[to], input))
    else {
        return;
    };
    let payload = drives[from].peek(source, BlockCount(1));
    let mut block = Block::of(&payload);
    if fitting {
        let there = Block::of(&drives[to].peek(target, BlockCount(1)));
        block.oob[24..60].copy_from_slice(&there.oob[24..60]);
        block.seal_oob();
    }
    drives[to].overwrite(target, &block.payload());
}

fn exchange(drives: &[RamDrive], input: &mut Input<'_>) {
    let (one, other) = (input.below(drives.len()), input.below(drives.len()));
    let (Some(a), Some(b)) = (pick(&drives[one], input), pick(&drives[other], input)) else {
        return;
    };
    let (first, second) =
        (drives[one].peek(a, BlockCount(1)), drives[other].peek(b, BlockCount(1)));
    drives[one].overwrite(a, &second);
    drives[other].overwrite(b, &first);
}

/// Changes the state of a zone.
fn manage(drives: &[RamDrive], input: &mut Input<'_>) {
    let drive = &drives[input.below(drives.len())];
    let zone = ZoneId(u32::from(input.byte()) % drive.geometry().zones);
    let action = match input.byte() % 6 {
        0 => ZoneAction::Reset,
        1 => ZoneAction::Finish,
        2 => ZoneAction::Open,
        3 => ZoneAction::Close,
        4 => return drive.set_read_only(zone),
        _ => return drive.set_offline(zone),
    };
    super::ended(async |handle| {
        // A drive may reject it.
        let _ = drive.attach(&handle).manage(zone, action).await;
    });
}

/// Appends copies of a block to a zone.
fn append(drives: &[RamDrive], input: &mut Input<'_>) {
    let drive = &drives[input.below(drives.len())];
    let Some(source) = pick(drive, input) else { return };
    let zone = ZoneId(u32::from(input.byte()) % drive.geometry().zones);
    for _ in 0..=input.byte() % 4 {
        write_behind(drive, zone, drive.peek(source, BlockCount(1)));
    }
}

fn write_behind(drive: &RamDrive, zone: ZoneId, payload: Payload) {
    let at = ZoneAddress { zone, offset: drive.zone(zone).write_pointer };
    super::ended(async |handle| {
        // A drive may reject it.
        let _ = drive.attach(&handle).write(at, payload, true).await;
    });
}

/// Removes, duplicates, exchanges or returns drives.
fn change_drives(drives: &mut Vec<RamDrive>, image: &Image, input: &mut Input<'_>) {
    let at = input.below(drives.len());
    match input.byte() % 4 {
        0 => drop(drives.remove(at)),
        1 if drives.len() < 8 => drives.push(drives[at].fork(Immediate)),
        2 => drives.extend(image.strangers.first().map(|drive| drive.fork(Immediate))),
        _ => drives[at].come_back_blank(),
    }
}

/// Writes a record after the newest one of every drive, with the same field changed: a consistent
/// lie.
fn next_record(drives: &[RamDrive], input: &mut Input<'_>) {
    let zone = ZoneId(u32::from(input.byte()) % 2);
    let change = FieldChange::record(input);
    for drive in drives {
        let Some(last) = drive.zone(zone).write_pointer.0.checked_sub(1) else { continue };
        let mut block = Block::of(&drive.peek(ZoneAddress::new(zone, last), BlockCount(1)));
        let sequence = block.word(Part::Body, BODY + 24).wrapping_add(1000);
        block.set(Part::Body, BODY + 24, 8, sequence);
        block.set(Part::Oob, 24, 8, sequence);
        block.change(change);
        block.seal();
        write_behind(drive, zone, block.payload());
    }
}

/// The same place on every drive: the copies of a header, a row.
fn on_every_drive(drives: &[RamDrive], input: &mut Input<'_>) {
    let Some(at) = pick(&drives[0], input) else { return };
    let change = if input.byte().is_multiple_of(2) {
        FieldChange::body(input)
    } else {
        FieldChange::oob(input)
    };
    for drive in drives.iter().filter(|drive| drive.zone(at.zone).write_pointer > at.offset) {
        apply(drive, at, change);
    }
}

fn apply(drive: &RamDrive, at: ZoneAddress, change: FieldChange) {
    let mut block = Block::of(&drive.peek(at, BlockCount(1)));
    block.change(change);
    block.seal();
    drive.overwrite(at, &block.payload());
}

#[derive(Clone, Copy)]
enum Part {
    Body,
    Oob,
}

/// A change of a field of so many bytes.
#[derive(Clone, Copy)]
struct FieldChange {
    part: Part,
    at: usize,
    bytes: usize,
    /// The kind of change.
    how: u8,
    edge: u64,
}

impl FieldChange {
    fn new(part: Part, at: usize, input: &mut Input<'_>) -> Self {
        let bytes = 1 << (input.byte() % 4);
        let (how, edge) = (input.byte(), EDGES[input.below(EDGES.len())]);
        Self { part, at: at / bytes * bytes, bytes, how, edge }
    }

    fn oob(input: &mut Input<'_>) -> Self {
        let at = input.below(60);
        Self::new(Part::Oob, at, input)
    }

    /// Mostly within the fields of structured blocks.
    fn body(input: &mut Input<'_>) -> Self {
        let at = match input.byte() % 4 {
            0 => input.below(BLOCK_BYTES),
            1 => RECORD_VOLUME + input.below(96),
            _ => input.below(256),
        };
        Self::new(Part::Body, at, input)
    }

    fn record(input: &mut Input<'_>) -> Self {
        let at = match input.byte() % 3 {
            0 => RECORD_VOLUME + input.below(96),
            _ => BODY + input.below(256),
        };
        Self::new(Part::Body, at, input)
    }
}

/// Makes every summary name the neighbour of each block.
#[cfg(test)]
pub(super) fn shift_listed_blocks(drives: &[RamDrive]) {
    /// Offset of the entries of a summary block; each has the LBA at 8 and the kind at 13.
    const ENTRIES: usize = BODY + 32;
    for drive in drives {
        for info in (0..drive.geometry().zones).map(|zone| drive.zone(ZoneId(zone))) {
            for offset in 0..info.write_pointer.0 {
                let at = ZoneAddress::new(info.zone, offset);
                let mut block = Block::of(&drive.peek(at, BlockCount(1)));
                if block.oob[39] != 3 {
                    continue;
                }
                for entry in (ENTRIES..BLOCK_BYTES - 16).step_by(16) {
                    let lba = block.word(Part::Body, entry + 8) ^ 1;
                    if block.data[entry + 13] == 1 {
                        block.set(Part::Body, entry + 8, 1, lba);
                    }
                }
                block.seal();
                drive.overwrite(at, &block.payload());
            }
        }
    }
}

/// A block to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    data: Vec<u8>,
    oob: Vec<u8>,
    /// A data block of a stripe has a checksum of its own for its data.
    is_data: bool,
}

impl Block {
    fn of(payload: &Payload) -> Self {
        let mut oob = payload.block_oob(0).to_vec();
        oob.resize(OOB_BYTES, 0);
        let mut block = Self { data: payload.block(0).to_vec(), oob, is_data: true };
        block.is_data = block.word(Part::Oob, 60) == block.own_checksum(block.data_checksum());
        block
    }

    fn payload(self) -> Payload {
        Payload::new(self.data.into(), self.oob.into())
    }

    const fn part(&mut self, part: Part) -> &mut Vec<u8> {
        match part {
            Part::Body => &mut self.data,
            Part::Oob => &mut self.oob,
        }
    }

    fn word(&self, part: Part, at: usize) -> u64 {
        let mut word = [0; 8];
        let bytes = match part {
            Part::Body => &self.data,
            Part::Oob => &self.oob,
        };
        let end = bytes.len().min(at + 8);
        word[..end - at].copy_from_slice(&bytes[at..end]);
        u64::from_le_bytes(word)
    }

    fn set(&mut self, part: Part, at: usize, bytes: usize, value: u64) {
        let target = &mut self.part(part)[at..];
        let bytes = bytes.min(target.len());
        target[..bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    }

    fn change(&mut self, change: FieldChange) {
        let FieldChange { part, at, bytes, how, edge } = change;
        let old = self.word(part, at);
        let value = match how % 8 {
            0 => old.wrapping_add(1),
            1 => old.wrapping_sub(1),
            2 => old ^ 1 << (how / 8),
            3 => u64::from(how / 8),
            _ => edge,
        };
        self.set(part, at, bytes, value);
    }

    /// Recomputes every checksum after a change.
    fn seal(&mut self) {
        let length =
            u32::from_le_bytes([self.data[12], self.data[13], self.data[14], self.data[15]]);
        let length = length as usize;
        if self.data.starts_with(b"ZNWEAVE\0") && (BODY..=BLOCK_BYTES).contains(&length) {
            let covered = &self.data[..length];
            let sum = Seed::of(ARRAY).checksum(&[&covered[..16], &[0; 4], &covered[20..]]);
            self.data[16..20].copy_from_slice(&sum.to_le_bytes());
        }
        self.seal_oob();
    }

    fn seal_oob(&mut self) {
        let digest = if self.is_data {
            let digest = self.data_checksum();
            self.set(Part::Oob, 16, 4, digest.into());
            digest
        } else {
            Seed::of(ARRAY).checksum(&[&self.data])
        };
        self.set(Part::Oob, 60, 4, self.own_checksum(digest));
    }

    fn data_checksum(&self) -> u32 {
        let (lba, sequence) = (self.word(Part::Oob, 0), self.word(Part::Oob, 8));
        data_checksum(Seed::of(ARRAY), Lba(lba), Sequence(sequence), &self.data)
    }

    fn own_checksum(&self, digest: u32) -> u64 {
        Seed::of(ARRAY).checksum(&[&digest.to_le_bytes(), &self.oob[..60]]).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile::images::{COUNT, with_image};

    /// Otherwise mutations would never pass the checksums.
    #[test]
    fn a_block_that_is_sealed_again_is_the_same() {
        for drive in (0..COUNT).flat_map(|image| with_image(image, |image| image.drives.clone())) {
            for info in (0..drive.geometry().zones).map(|zone| drive.zone(ZoneId(zone))) {
                for offset in 0..info.write_pointer.0 {
                    let at = ZoneAddress::new(info.zone, offset);
                    let block = Block::of(&drive.peek(at, BlockCount(1)));
                    let mut again = block.clone();
                    again.seal();
                    assert!(again == block || block.oob == [0; OOB_BYTES], "{at:?}");
                }
            }
        }
    }
}
