//! Our commands as NVMe commands.

use bytes::Bytes;
use zoneweave_zoned::{
    AlignedBuffer, BLOCK_BYTES, BlockCount, Command, Geometry, Payload, ReportOptions, Status,
    ZoneAction, ZoneAddress, ZoneId, ZoneOffset,
};

use crate::ring::{Lent, Opcode};

pub(super) const FLUSH: Opcode = Opcode(0x00);
const WRITE: Opcode = Opcode(0x01);
pub(super) const READ: Opcode = Opcode(0x02);
pub(super) const ZONE_SEND: Opcode = Opcode(0x79);
pub(super) const ZONE_RECEIVE: Opcode = Opcode(0x7A);
const APPEND: Opcode = Opcode(0x7D);

/// In dword 12: Force Unit Access.
const FUA: u32 = 1 << 30;
/// In dword 13 of zone management: every zone that the action is for.
const SELECT_ALL: u32 = 1 << 8;
/// In dword 13 of zone management: with a random write area.
const WITH_AREA: u32 = 1 << 9;

/// The commands of a zone that must complete before this one is sent, because drives may execute
/// queued commands in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Nothing.
    Any,
    /// Writes and changes, not appends.
    Appends(ZoneId),
    /// Everything that changes the zone.
    Alone(ZoneId),
}

/// The reply made of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Read(BlockCount),
    Written(ZoneAddress),
    /// The address that the drive returns.
    Appended(ZoneId, BlockCount),
    Done,
}

/// An operation that is a single NVMe command.
pub(super) struct Encoded {
    pub(super) opcode: Opcode,
    pub(super) dwords: [u32; 6],
    pub(super) data: Lent,
    pub(super) metadata: Lent,
    pub(super) order: Order,
    pub(super) answer: Answer,
}

/// The encoding of a command.
pub(super) enum Plan {
    One(Encoded),
    /// Ask until the zones are told.
    Report {
        first: ZoneId,
        count: u32,
        options: ReportOptions,
    },
}

/// The drive's number of a block.
pub(super) fn lba(geometry: &Geometry, at: ZoneAddress) -> u64 {
    u64::from(at.zone.0) * u64::from(geometry.zone_size.0) + u64::from(at.offset.0)
}

/// The block with a number that the drive told, if it can have written so many from there on.
pub(super) fn written_at(
    geometry: &Geometry,
    zone: ZoneId,
    lba: u64,
    blocks: BlockCount,
) -> Option<ZoneAddress> {
    let start = u64::from(zone.0) * u64::from(geometry.zone_size.0);
    let offset = u32::try_from(lba.checked_sub(start)?).ok()?;
    let end = offset.checked_add(blocks.0)?;
    (end <= geometry.zone_capacity.0).then(|| ZoneAddress::new(zone, offset))
}

/// Encodes a command.
///
/// # Errors
/// A status for commands that NVMe cannot express, or that would reach another zone; the drive
/// checks the rest.
pub(super) fn encode(geometry: &Geometry, command: Command) -> Result<Plan, Status> {
    match command {
        Command::Read { at, blocks } => read(geometry, at, blocks),
        Command::Write { at, payload, fua } => {
            let order = Order::Alone(at.zone);
            let blocks = check_payload(geometry, &payload)?;
            let dwords = transfer(geometry, at, blocks, fua)?;
            let (data, metadata) = lent(payload, blocks);
            let answer = Answer::Written(at);
            Ok(Plan::One(Encoded { opcode: WRITE, dwords, data, metadata, order, answer }))
        }
        Command::Append { zone, payload, fua } => {
            let blocks = check_payload(geometry, &payload)?;
            if blocks > geometry.append_limit {
                return Err(Status::InvalidField);
            }
            let dwords = transfer(geometry, ZoneAddress::new(zone, 0), blocks, fua)?;
            let (data, metadata) = lent(payload, blocks);
            let (order, answer) = (Order::Appends(zone), Answer::Appended(zone, blocks));
            Ok(Plan::One(Encoded { opcode: APPEND, dwords, data, metadata, order, answer }))
        }
        Command::Manage { zone, action } => {
            manage(geometry, zone, send_bits(action), last_of(action))
        }
        Command::ManageAll { action } => {
            let bits = send_bits(action) | SELECT_ALL;
            Ok(Plan::One(management([0, 0, 0, bits, 0, 0], Lent::Nothing, Order::Any)))
        }
        Command::SetExtension { zone, extension } => extend(geometry, zone, &extension),
        Command::Report { first, count, options } => {
            check_zone(geometry, first)?;
            if options.extended && geometry.descriptor_extension_bytes == 0 {
                return Err(Status::InvalidField);
            }
            Ok(Plan::Report { first, count, options })
        }
        // This log page belongs to the controller, and a namespace cannot return it.
        Command::ChangedZones => Err(Status::InvalidField),
        Command::Flush => {
            let (data, metadata) = (Lent::Nothing, Lent::Nothing);
            let (dwords, order, answer) = ([0; 6], Order::Any, Answer::Done);
            Ok(Plan::One(Encoded { opcode: FLUSH, dwords, data, metadata, order, answer }))
        }
    }
}

fn check_zone(geometry: &Geometry, zone: ZoneId) -> Result<(), Status> {
    if zone.0 < geometry.zones { Ok(()) } else { Err(Status::LbaOutOfRange) }
}

fn check_payload(geometry: &Geometry, payload: &Payload) -> Result<BlockCount, Status> {
    payload.assert_whole();
    let blocks = payload.blocks();
    if blocks.0 == 0 || blocks > geometry.max_transfer {
        return Err(Status::InvalidField);
    }
    Ok(blocks)
}

/// The dwords of a transfer: the first block, and one less than how many.
fn transfer(
    geometry: &Geometry,
    at: ZoneAddress,
    blocks: BlockCount,
    fua: bool,
) -> Result<[u32; 6], Status> {
    if blocks.0 == 0 || blocks > geometry.max_transfer {
        return Err(Status::InvalidField);
    }
    check_zone(geometry, at.zone)?;
    if at.offset.0 >= geometry.zone_size.0 {
        return Err(Status::LbaOutOfRange);
    }
    let [low, high] = halves(lba(geometry, at));
    Ok([low, high, (blocks.0 - 1) | if fua { FUA } else { 0 }, 0, 0, 0])
}

#[expect(clippy::cast_possible_truncation, reason = "halves")]
fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

fn read(geometry: &Geometry, at: ZoneAddress, blocks: BlockCount) -> Result<Plan, Status> {
    let dwords = transfer(geometry, at, blocks, false)?;
    let data = Lent::In(AlignedBuffer::unfilled(blocks), blocks.data_bytes());
    let pages = BlockCount::of_data_bytes(blocks.oob_bytes().next_multiple_of(BLOCK_BYTES));
    let metadata = Lent::In(AlignedBuffer::unfilled(pages), blocks.oob_bytes());
    let (order, answer) = (Order::Any, Answer::Read(blocks));
    Ok(Plan::One(Encoded { opcode: READ, dwords, data, metadata, order, answer }))
}

/// The memory of a write; metadata that is not given is zero.
fn lent(payload: Payload, blocks: BlockCount) -> (Lent, Lent) {
    let metadata = match payload.oob.is_empty() {
        false => payload.oob,
        true => {
            let pages = blocks.oob_bytes().next_multiple_of(BLOCK_BYTES);
            // Not zeros that are constant: of metadata kernels (6.12) want memory that can be
            // written to.
            let zeros = AlignedBuffer::zeroed(BlockCount::of_data_bytes(pages));
            zeros.freeze().slice(..blocks.oob_bytes())
        }
    };
    let mut data = payload.data;
    data.retain(|piece| !piece.is_empty());
    (Lent::Out(data), Lent::Out(vec![metadata]))
}

/// The action's number, and the flags that go with it.
const fn send_bits(action: ZoneAction) -> u32 {
    match action {
        ZoneAction::Close => 0x1,
        ZoneAction::Finish => 0x2,
        ZoneAction::Open => 0x3,
        ZoneAction::Reset => 0x4,
        ZoneAction::Offline => 0x5,
        ZoneAction::OpenWithZrwa => 0x3 | WITH_AREA,
        ZoneAction::FlushZrwa { .. } => 0x11,
    }
}

/// The block of the zone that an action names.
const fn last_of(action: ZoneAction) -> ZoneOffset {
    match action {
        ZoneAction::FlushZrwa { last } => last,
        _ => ZoneOffset(0),
    }
}

fn manage(geometry: &Geometry, zone: ZoneId, bits: u32, at: ZoneOffset) -> Result<Plan, Status> {
    check_zone(geometry, zone)?;
    if at.0 >= geometry.zone_size.0 {
        return Err(Status::LbaOutOfRange);
    }
    let [low, high] = halves(lba(geometry, ZoneAddress { zone, offset: at }));
    let dwords = [low, high, 0, bits, 0, 0];
    Ok(Plan::One(management(dwords, Lent::Nothing, Order::Alone(zone))))
}

fn management(dwords: [u32; 6], data: Lent, order: Order) -> Encoded {
    let (metadata, answer) = (Lent::Nothing, Answer::Done);
    Encoded { opcode: ZONE_SEND, dwords, data, metadata, order, answer }
}

fn extend(geometry: &Geometry, zone: ZoneId, extension: &Bytes) -> Result<Plan, Status> {
    const SET_EXTENSION: u32 = 0x10;
    check_zone(geometry, zone)?;
    let expected = geometry.descriptor_extension_bytes as usize;
    if expected == 0 || extension.len() != expected {
        return Err(Status::InvalidField);
    }
    let [low, high] = halves(lba(geometry, ZoneAddress::new(zone, 0)));
    let data = Lent::Out(vec![extension.clone()]);
    let dwords = [low, high, 0, SET_EXTENSION, 0, 0];
    Ok(Plan::One(management(dwords, data, Order::Alone(zone))))
}

/// The dwords of Zone Management Receive, for an answer of so many bytes.
pub(super) fn report_dwords(
    geometry: &Geometry,
    first: ZoneId,
    options: ReportOptions,
    bytes: usize,
) -> [u32; 6] {
    let [low, high] = halves(lba(geometry, ZoneAddress::new(first, 0)));
    let words = u32::try_from(bytes / 4).expect("answers are short");
    let bits = u32::from(options.extended)
        | (options.filter as u32) << 8
        | u32::from(options.partial) << 16;
    [low, high, words - 1, bits, 0, 0]
}

#[cfg(test)]
mod tests {
    use zoneweave_zoned::ZoneFilter;

    use super::*;

    fn geometry() -> Geometry {
        Geometry {
            zone_size: BlockCount(0x1_0000),
            max_transfer: BlockCount(64),
            ..Geometry::new(0x2_0000, BlockCount(0xC000))
        }
    }

    fn one(command: Command) -> Encoded {
        match encode(&geometry(), command) {
            Ok(Plan::One(encoded)) => encoded,
            _ => panic!("a plain command"),
        }
    }

    fn payload(blocks: u32) -> Payload {
        let blocks = BlockCount(blocks);
        Payload::new(zoneweave_zoned::zero_blocks(blocks), Bytes::new())
    }

    #[test]
    fn transfers_name_blocks_and_counts_from_zero() {
        let at = ZoneAddress::new(ZoneId(0x1_2345), 0x678);
        let read = one(Command::Read { at, blocks: BlockCount(3) });
        assert_eq!((read.opcode, read.dwords), (READ, [0x2345_0678, 1, 2, 0, 0, 0]));
        assert_eq!((read.order, read.answer), (Order::Any, Answer::Read(BlockCount(3))));
        assert!(
            matches!(read.data, Lent::In(_, 12288)) && matches!(read.metadata, Lent::In(_, 192))
        );
        let write = one(Command::Write { at, payload: payload(1), fua: true });
        assert_eq!((write.opcode, write.dwords[2]), (WRITE, FUA));
        assert_eq!(write.order, Order::Alone(at.zone));
        let Lent::Out(metadata) = write.metadata else { panic!("metadata is written") };
        assert_eq!(metadata[0].as_ref(), [0; 64]);
        let zone = ZoneId(2);
        let append = one(Command::Append { zone, payload: payload(2), fua: false });
        assert_eq!((append.opcode, append.dwords), (APPEND, [0x2_0000, 0, 1, 0, 0, 0]));
        assert_eq!(append.answer, Answer::Appended(zone, BlockCount(2)));
    }

    #[test]
    fn actions_have_their_numbers() {
        let zone = ZoneId(1);
        let action = |action| one(Command::Manage { zone, action }).dwords;
        assert_eq!(action(ZoneAction::Reset), [0x1_0000, 0, 0, 4, 0, 0]);
        assert_eq!(action(ZoneAction::OpenWithZrwa)[3], 0x203);
        let flush = action(ZoneAction::FlushZrwa { last: ZoneOffset(7) });
        assert_eq!(flush, [0x1_0007, 0, 0, 0x11, 0, 0]);
        let all = one(Command::ManageAll { action: ZoneAction::Close });
        assert_eq!(all.dwords, [0, 0, 0, 0x101, 0, 0]);
        let options = ReportOptions { filter: ZoneFilter::Full, partial: true, extended: true };
        let report = report_dwords(&geometry(), zone, options, 4096);
        assert_eq!(report, [0x1_0000, 0, 1023, 0x1_0501, 0, 0]);
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        let refused = |command| encode(&geometry(), command).err().expect("it is refused");
        let at = ZoneAddress::new(ZoneId(0), 0);
        let read = |at, blocks| refused(Command::Read { at, blocks: BlockCount(blocks) });
        assert_eq!(read(at, 0), Status::InvalidField);
        assert_eq!(read(at, 65), Status::InvalidField);
        assert_eq!(read(ZoneAddress::new(ZoneId(0x2_0000), 0), 1), Status::LbaOutOfRange);
        // It would be a block of the next zone.
        assert_eq!(read(ZoneAddress::new(ZoneId(0), 0x1_0000), 1), Status::LbaOutOfRange);
        let append = Command::Append { zone: ZoneId(0), payload: payload(33), fua: false };
        assert_eq!(refused(append), Status::InvalidField);
        let extension = Command::SetExtension { zone: ZoneId(0), extension: Bytes::new() };
        assert_eq!(refused(extension), Status::InvalidField);
        assert_eq!(refused(Command::ChangedZones), Status::InvalidField);
    }

    #[test]
    fn where_a_drive_appended_is_checked() {
        let zone = ZoneId(3);
        let of = |lba| written_at(&geometry(), zone, lba, BlockCount(2));
        assert_eq!(of(0x3_0005), Some(ZoneAddress::new(zone, 5)));
        assert_eq!(of(0x3_BFFE), Some(ZoneAddress::new(zone, 0xBFFE)));
        assert_eq!(of(0x3_BFFF), None);
        assert_eq!(of(0x2_FFFF), None);
        assert_eq!(of(u64::MAX), None);
    }
}
