//! Transfers: sizes, addresses, the end of a zone, order of checks, commands in flight together.

use std::collections::BTreeMap;

use bytes::Bytes;
use zoneweave_zoned::{
    BlockCount, Command, Payload, Reply, ReportOptions, Status, ZoneAction, ZoneAddress, ZoneId,
    ZoneOffset, ZoneState,
};

use super::image::ZoneImage;
use super::prepare::{Bed, Prepared, ZONE};
use super::session::payload;
use super::{Checked, Factory};

/// Commands in flight together.
const TOGETHER: u32 = 5;

type Case = fn(&mut Bed) -> Result<(), String>;

const CASES: [(&str, Case); 9] = [
    ("transfers of no blocks", nothing),
    ("transfers above the limit", oversize),
    ("commands to a zone that does not exist", no_zone),
    ("addresses between zones", between_zones),
    ("reads into the next zone", across_zones),
    ("the order of checks", order_of_checks),
    ("the largest transfers", largest),
    ("writes in flight together", writes_together),
    ("appends in flight together", appends_together),
];

/// Tests all of it.
pub(super) fn check(factory: Factory<'_>, checked: &mut Checked) {
    for (name, case) in CASES {
        let mut bed = Bed::new(factory);
        let result = case(&mut bed).and_then(|()| bed.session.compare(&bed.zones));
        checked.note(|| name.to_owned(), result);
    }
    for state in [Prepared::ImplicitlyOpen, Prepared::ExplicitlyOpen, Prepared::Closed] {
        let name = || format!("writes across the end of a zone that is {state}");
        checked.note(name, across_the_end(factory, state));
    }
}

fn refused(bed: &Bed, name: &str, command: Command, expected: Status) -> Result<(), String> {
    match bed.session.run(command) {
        Err(found) if found == expected => Ok(()),
        other => Err(format!("{name} returns {other:?}, expected {expected}")),
    }
}

fn read(at: ZoneAddress, blocks: u32) -> Command {
    Command::Read { at, blocks: BlockCount(blocks) }
}

fn append(bed: &mut Bed, zone: ZoneId, blocks: u32) -> Command {
    let numbers = bed.number(blocks);
    Command::Append { zone, payload: payload(bed.geometry(), zone, &numbers), fua: false }
}

fn write(bed: &mut Bed, at: ZoneAddress, blocks: u32) -> Command {
    bed.next_write(at, blocks, false).1
}

fn nothing(bed: &mut Bed) -> Result<(), String> {
    let at = ZoneAddress::new(ZONE, 0);
    let payload = Payload::default;
    refused(bed, "a read", read(at, 0), Status::InvalidField)?;
    let write = Command::Write { at, payload: payload(), fua: false };
    refused(bed, "a write", write, Status::InvalidField)?;
    let append = Command::Append { zone: ZONE, payload: payload(), fua: false };
    refused(bed, "an append", append, Status::InvalidField)
}

fn oversize(bed: &mut Bed) -> Result<(), String> {
    let at = ZoneAddress::new(ZONE, 0);
    let more = bed.geometry().max_transfer.0 + 1;
    refused(bed, "a read", read(at, more), Status::InvalidField)?;
    let command = write(bed, at, more);
    refused(bed, "a write", command, Status::InvalidField)?;
    let more = bed.geometry().append_limit.0 + 1;
    let command = append(bed, ZONE, more);
    refused(bed, "an append", command, Status::InvalidField)
}

fn no_zone(bed: &mut Bed) -> Result<(), String> {
    for zone in [ZoneId(bed.geometry().zones), ZoneId(u32::MAX)] {
        let at = ZoneAddress::new(zone, 0);
        refused(bed, "a read", read(at, 1), Status::LbaOutOfRange)?;
        let command = write(bed, at, 1);
        refused(bed, "a write", command, Status::LbaOutOfRange)?;
        let command = append(bed, zone, 1);
        refused(bed, "an append", command, Status::LbaOutOfRange)?;
        for action in [
            ZoneAction::Close,
            ZoneAction::Finish,
            ZoneAction::Open,
            ZoneAction::Reset,
            ZoneAction::Offline,
        ] {
            let command = Command::Manage { zone, action };
            refused(bed, "zone management", command, Status::LbaOutOfRange)?;
        }
        let options = ReportOptions::default();
        let command = Command::Report { first: zone, count: 1, options };
        refused(bed, "a report", command, Status::LbaOutOfRange)?;
        let bytes = bed.geometry().descriptor_extension_bytes;
        let expected = if bytes == 0 { Status::InvalidField } else { Status::LbaOutOfRange };
        let extension = Bytes::from(vec![1; bytes as usize]);
        let command = Command::SetExtension { zone, extension };
        refused(bed, "a descriptor extension", command, expected)?;
    }
    let extension = Bytes::from(vec![1; bed.geometry().descriptor_extension_bytes as usize + 1]);
    let command = Command::SetExtension { zone: ZONE, extension };
    refused(bed, "a descriptor extension of another length", command, Status::InvalidField)
}

/// Blocks that belong to no zone's capacity.
fn between_zones(bed: &mut Bed) -> Result<(), String> {
    let (size, capacity) = (bed.geometry().zone_size.0, bed.geometry().zone_capacity.0);
    for offset in [size, u32::MAX] {
        let at = ZoneAddress::new(ZONE, offset);
        refused(bed, "a read beyond the zone", read(at, 1), Status::LbaOutOfRange)?;
        let command = write(bed, at, 1);
        refused(bed, "a write beyond the zone", command, Status::LbaOutOfRange)?;
    }
    if capacity == size {
        return Ok(());
    }
    let at = ZoneAddress::new(ZONE, capacity);
    let command = write(bed, at, 1);
    refused(bed, "a write beyond the capacity", command, Status::ZoneInvalidWrite)?;
    if bed.geometry().unwritten_read_error {
        return refused(bed, "a read beyond the capacity", read(at, 1), Status::Deallocated);
    }
    match bed.session.run(read(at, 1)) {
        Ok(Reply::Read(found)) if bed.session.numbers(ZONE, capacity, &found)? == [0] => Ok(()),
        other => Err(format!("a read beyond the capacity returns {other:?}, expected zeros")),
    }
}

fn across_zones(bed: &mut Bed) -> Result<(), String> {
    bed.write(ZONE, 2)?;
    let (size, zones) = (bed.geometry().zone_size.0, bed.geometry().zones);
    let last = ZoneAddress::new(ZoneId(zones - 1), size - 1);
    refused(bed, "a read beyond the last zone", read(last, 2), Status::LbaOutOfRange)?;
    let at = ZoneAddress::new(ZoneId(ZONE.0 - 1), size - 1);
    if !bed.geometry().reads_across_zones {
        return refused(bed, "a read into the next zone", read(at, 2), Status::ZoneBoundary);
    }
    if bed.geometry().unwritten_read_error {
        return refused(bed, "a read into the next zone", read(at, 2), Status::Deallocated);
    }
    match bed.session.run(read(at, 2)) {
        Ok(Reply::Read(found)) => {
            let second = Payload::new(found.block(1), found.block_oob(1));
            let right = bed.session.numbers(ZONE, 0, &second)? == bed.zone().blocks[..1];
            if right { Ok(()) } else { Err("a read returns other blocks of the next zone".into()) }
        }
        other => Err(format!("a read into the next zone returns {other:?}")),
    }
}

/// Of several faults of a command, one is reported.
fn order_of_checks(bed: &mut Bed) -> Result<(), String> {
    let nowhere = ZoneAddress::new(ZoneId(bed.geometry().zones), 0);
    let (most, capacity) = (bed.geometry().max_transfer.0, bed.geometry().zone_capacity.0);
    let command = write(bed, nowhere, most + 1);
    refused(bed, "an oversize write to no zone", command, Status::InvalidField)?;
    let more = bed.geometry().append_limit.0 + 1;
    if more <= most {
        let command = append(bed, nowhere.zone, more);
        refused(bed, "an oversize append to no zone", command, Status::LbaOutOfRange)?;
    }
    bed.fill(ZONE)?;
    let command = write(bed, ZoneAddress::new(ZONE, 0), 1);
    refused(bed, "a write to a full zone, not at its end", command, Status::ZoneFull)?;
    let command = append(bed, ZONE, more);
    refused(bed, "an oversize append to a full zone", command, Status::InvalidField)?;
    let other = ZoneId(2);
    bed.write(other, 1)?;
    let command = write(bed, ZoneAddress::new(other, capacity - 1), 2);
    refused(bed, "a write across the end, not at the pointer", command, Status::ZoneInvalidWrite)
}

fn across_the_end(factory: Factory<'_>, state: Prepared) -> Result<(), String> {
    let mut bed = Bed::prepared(factory, state)?.ok_or("the state cannot be reached")?;
    bed.fill_but(ZONE, 1)?;
    if state == Prepared::Closed {
        bed.manage(ZoneAction::Close)?;
    }
    let at = ZoneAddress::new(ZONE, bed.zone().pointer);
    let command = write(&mut bed, at, 2);
    refused(&bed, "a write", command, Status::ZoneBoundary)?;
    if bed.geometry().append_limit.0 >= 2 {
        let command = append(&mut bed, ZONE, 2);
        refused(&bed, "an append", command, Status::ZoneBoundary)?;
    }
    bed.session.compare(&bed.zones)?;
    bed.write(ZONE, 1)?;
    bed.session.compare(&bed.zones)?;
    let bed = bed.restarted(3)?;
    bed.session.compare(&bed.zones).map_err(|problem| format!("after a power loss {problem}"))
}

fn largest(bed: &mut Bed) -> Result<(), String> {
    let (most, capacity) = (bed.geometry().max_transfer.0, bed.geometry().zone_capacity.0);
    bed.write(ZONE, most.min(capacity))?;
    let appended = bed.geometry().append_limit.0.min(most).min(capacity);
    if appended == 0 {
        return Ok(());
    }
    let numbers = bed.number(appended);
    let (zone, payload) = (ZoneId(2), payload(bed.geometry(), ZoneId(2), &numbers));
    let outcome = bed.session.run(Command::Append { zone, payload, fua: false });
    if outcome != Ok(Reply::Written(ZoneAddress::new(zone, 0))) {
        return Err(format!("an append of {appended} blocks returns {outcome:?}"));
    }
    bed.zones[zone.index()].write(&numbers);
    let is_full = appended == capacity;
    bed.zones[zone.index()].state =
        if is_full { ZoneState::Full } else { ZoneState::ImplicitlyOpen };
    Ok(())
}

/// Writes take effect in the order of their submission.
fn writes_together(bed: &mut Bed) -> Result<(), String> {
    let mut commands = Vec::new();
    let mut image = ZoneImage { state: ZoneState::ImplicitlyOpen, ..ZoneImage::empty() };
    for _ in 0..TOGETHER {
        let (numbers, command) = bed.next_write(ZoneAddress::new(ZONE, image.pointer), 1, false);
        image.write(&numbers);
        commands.push(command);
    }
    for (offset, outcome) in (0..).zip(bed.session.run_together(commands)) {
        if outcome != Ok(Reply::Written(ZoneAddress::new(ZONE, offset))) {
            return Err(format!("the write at block {offset} returns {outcome:?}"));
        }
    }
    bed.zones[ZONE.index()] = image;
    Ok(())
}

/// Each append has blocks of its own, and no block is left out.
fn appends_together(bed: &mut Bed) -> Result<(), String> {
    if bed.geometry().append_limit.0 == 0 {
        return Ok(());
    }
    let (mut commands, mut numbers) = (Vec::new(), Vec::new());
    for _ in 0..TOGETHER {
        let next = bed.number(1);
        let payload = payload(bed.geometry(), ZONE, &next);
        commands.push(Command::Append { zone: ZONE, payload, fua: false });
        numbers.extend(next);
    }
    let mut placed = BTreeMap::new();
    for (number, outcome) in numbers.into_iter().zip(bed.session.run_together(commands)) {
        match outcome {
            Ok(Reply::Written(ZoneAddress { zone: ZONE, offset: ZoneOffset(offset) })) => {
                if placed.insert(offset, number).is_some() {
                    return Err(format!("two appends are told block {offset}"));
                }
            }
            other => return Err(format!("an append returns {other:?}")),
        }
    }
    if !placed.keys().copied().eq(0..TOGETHER) {
        return Err(format!("appends are placed at {:?}", placed.keys()));
    }
    let blocks: Vec<_> = placed.into_values().collect();
    let image = &mut bed.zones[ZONE.index()];
    image.write(&blocks);
    image.state = ZoneState::ImplicitlyOpen;
    Ok(())
}
