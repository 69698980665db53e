//! Random commands, and their answers by the model.

use zoneweave_runtime::Random;
use zoneweave_zoned::{
    BlockCount, Command, Geometry, ReportOptions, Status, ZoneAction, ZoneAddress, ZoneFilter,
    ZoneId,
};

use super::image::ZoneImage;
use super::model::Model;
use super::session::payload;
use crate::random::{between, pick};

/// A command, as it is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Write { zone: u32, offset: u32, blocks: u32, fua: bool },
    Append { zone: u32, blocks: u32, fua: bool },
    Manage { zone: u32, action: ZoneAction },
    ManageAll { action: ZoneAction },
    Read { zone: u32, offset: u32, blocks: u32 },
    Report { filter: ZoneFilter },
    Flush,
}

/// The answer of the model.
#[derive(Debug)]
pub(super) enum Answer {
    Written(u32, u32),
    Numbers(u32, Vec<u64>),
    Zones(Vec<u32>),
    Done,
}

impl Operation {
    /// The command, and the numbers of the blocks that it writes, counted on from `last`.
    pub(super) fn command(self, geometry: &Geometry, last: &mut u64) -> (Command, Vec<u64>) {
        let blocks = match self {
            Self::Write { blocks, .. } | Self::Append { blocks, .. } => blocks,
            _ => 0,
        };
        let first = *last + 1;
        *last += u64::from(blocks);
        let numbers: Vec<_> = (first..=*last).collect();
        let command = match self {
            Self::Write { zone, offset, fua, .. } => Command::Write {
                at: ZoneAddress::new(ZoneId(zone), offset),
                payload: payload(geometry, ZoneId(zone), &numbers),
                fua,
            },
            Self::Append { zone, fua, .. } => Command::Append {
                zone: ZoneId(zone),
                payload: payload(geometry, ZoneId(zone), &numbers),
                fua,
            },
            Self::Manage { zone, action } => Command::Manage { zone: ZoneId(zone), action },
            Self::ManageAll { action } => Command::ManageAll { action },
            Self::Read { zone, offset, blocks } => Command::Read {
                at: ZoneAddress::new(ZoneId(zone), offset),
                blocks: BlockCount(blocks),
            },
            Self::Report { filter } => {
                let options = ReportOptions { filter, ..ReportOptions::default() };
                Command::Report { first: ZoneId(0), count: geometry.zones, options }
            }
            Self::Flush => Command::Flush,
        };
        (command, numbers)
    }
}

/// Draws a command that mostly succeeds.
pub(super) fn draw(random: &mut Random, model: &Model) -> Operation {
    let (zones, most) = (model.geometry.zones, model.geometry.max_transfer.0);
    // One zone of 200 does not exist.
    let nowhere = random.per_mille(5);
    let zone = if nowhere { zones } else { between(random, 0, zones - 1) };
    let blocks = pick(random, &[1, 1, 1, 2, 3, 5, 8]);
    let blocks = if random.per_mille(5) { most + 1 } else { blocks.min(most) };
    let pointer = model.zones.get(zone as usize).map_or(0, |image| image.pointer);
    let fua = random.per_mille(200);
    let actions = [ZoneAction::Open, ZoneAction::Close, ZoneAction::Finish, ZoneAction::Reset];
    match random.below(1000) {
        0..400 => {
            let other = random.per_mille(50);
            let offset = if other { between(random, 0, most) } else { pointer };
            Operation::Write { zone, offset, blocks, fua }
        }
        400..600 => Operation::Append { zone, blocks, fua },
        600..800 => {
            let offset = between(random, 0, pointer + 2);
            Operation::Read { zone, offset, blocks }
        }
        800..880 => Operation::Manage { zone, action: ZoneAction::Reset },
        880..950 => Operation::Manage { zone, action: pick(random, &actions) },
        950..955 => Operation::ManageAll { action: pick(random, &actions) },
        955..970 => Operation::Report { filter: pick(random, &ZoneFilter::ALL) },
        _ => Operation::Flush,
    }
}

/// Carries out a command on the model.
pub(super) fn answer(
    model: &mut Model,
    operation: Operation,
    numbers: &[u64],
) -> Result<Answer, Status> {
    match operation {
        Operation::Write { zone, offset, fua, .. } => {
            let offset = model.write(zone, Some(offset), numbers, fua)?;
            Ok(Answer::Written(zone, offset))
        }
        Operation::Append { zone, fua, .. } => {
            let offset = model.write(zone, None, numbers, fua)?;
            Ok(Answer::Written(zone, offset))
        }
        Operation::Manage { zone, action } => {
            model.manage(zone, action)?;
            Ok(Answer::Done)
        }
        Operation::ManageAll { action } => {
            model.manage_all(action)?;
            Ok(Answer::Done)
        }
        Operation::Read { zone, offset, blocks } => {
            Ok(Answer::Numbers(zone, model.read(zone, offset, blocks)?))
        }
        Operation::Report { filter } => {
            let admitted = |zone: &(u32, &ZoneImage)| filter.admits(zone.1.state);
            let zones = (0..).zip(&model.zones).filter(admitted).map(|(zone, _)| zone);
            Ok(Answer::Zones(zones.collect()))
        }
        Operation::Flush => {
            model.flush();
            Ok(Answer::Done)
        }
    }
}
