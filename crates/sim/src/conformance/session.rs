//! One life of a device under test, from its start to a crash.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_runtime::{Executor, VirtualTime};
use zoneweave_zoned::{
    BlockCount, Command, Completion, Geometry, OOB_BYTES, OobKind, Outcome, Payload, Reply,
    ReportOptions, Status, ZoneAddress, ZoneId, ZoneInfo, ZoneState, ZonedDevice,
};

use super::Hardware;
use super::image::ZoneImage;
use crate::pattern::{contents, version_of};

/// A running device.
pub(super) struct Session {
    executor: Executor,
    pub device: Rc<dyn ZonedDevice>,
}

impl Session {
    /// Starts the device.
    pub(super) fn start(hardware: &dyn Hardware) -> Self {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let device = executor.run(hardware.start(&executor.handle()));
        Self { executor, device }
    }

    pub(super) fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    /// Carries out a command.
    pub(super) fn run(&self, command: Command) -> Outcome {
        self.executor.run(self.device.submit(command))
    }

    /// Carries out commands that are in flight together.
    pub(super) fn run_together(&self, commands: Vec<Command>) -> Vec<Outcome> {
        let answers: Vec<Completion> =
            commands.into_iter().map(|command| self.device.submit(command)).collect();
        self.executor.run(futures_util::future::join_all(answers))
    }

    /// Starts a command and stops the device some steps later; the outcome, if it was complete.
    pub(super) fn interrupt(self, command: Command, steps: u64) -> Option<Outcome> {
        let answer = self.device.submit(command);
        let taken = Cell::new(0);
        self.executor.run_until(answer, || {
            taken.set(taken.get() + 1);
            taken.get() > steps
        })
    }

    /// The state of every zone.
    pub(super) fn report(&self) -> Result<Vec<ZoneInfo>, String> {
        let count = self.geometry().zones;
        let options = ReportOptions::default();
        match self.run(Command::Report { first: ZoneId(0), count, options }) {
            Ok(Reply::Zones(report)) if report.zones.len() == count as usize => Ok(report.zones),
            other => Err(format!("a report of all zones returns {other:?}")),
        }
    }

    /// The numbers of a zone's first blocks, 0 for zeros.
    pub(super) fn read(&self, zone: ZoneId, blocks: u32) -> Result<Vec<u64>, String> {
        let most = self.geometry().max_transfer.0;
        let mut found = Vec::new();
        for start in (0..blocks).step_by(most as usize) {
            let (at, length) =
                (ZoneAddress::new(zone, start), BlockCount(most.min(blocks - start)));
            match self.run(Command::Read { at, blocks: length }) {
                Ok(Reply::Read(payload)) if payload.blocks() == length => {
                    found.append(&mut self.numbers(zone, start, &payload)?);
                }
                other => return Err(format!("a read of {at} returns {other:?}")),
            }
        }
        Ok(found)
    }

    /// The numbers of the blocks of a payload.
    pub(super) fn numbers(
        &self,
        zone: ZoneId,
        start: u32,
        payload: &Payload,
    ) -> Result<Vec<u64>, String> {
        let mut numbers = Vec::new();
        for (index, block) in payload.iter_blocks().enumerate() {
            let at = start as usize + index;
            let number = version_of(zone.0.into(), &block)
                .ok_or_else(|| format!("{zone} block {at} has contents never written to it"))?;
            if number > 0 && self.geometry().oob != OobKind::None {
                let expected = metadata(number);
                if payload.oob_of(index) != expected {
                    return Err(format!("{zone} block {at} has the metadata of another block"));
                }
            }
            numbers.push(number);
        }
        Ok(numbers)
    }

    /// Compares the states and contents of all zones with the expected ones.
    pub(super) fn compare(&self, expected: &[ZoneImage]) -> Result<(), String> {
        let found = self.report()?;
        for (info, image) in found.iter().zip(expected) {
            let pointer = image.reported_pointer(self.geometry());
            if (info.state, info.write_pointer.0) != (image.state, pointer) {
                return Err(format!(
                    "{} is {:?} with its write pointer at {}, expected {:?} at {pointer}",
                    info.zone, info.state, info.write_pointer.0, image.state
                ));
            }
            if info.capacity != self.geometry().zone_capacity {
                return Err(format!("{} reports a capacity of {}", info.zone, info.capacity));
            }
            self.compare_contents(info.zone, image)?;
        }
        Ok(())
    }

    fn compare_contents(&self, zone: ZoneId, image: &ZoneImage) -> Result<(), String> {
        if image.state == ZoneState::Offline {
            return Ok(());
        }
        // Blocks from the write pointer on read as zeros, unless the device refuses to read them.
        let length = match self.geometry().unwritten_read_error {
            true => image.pointer,
            false => self.geometry().zone_capacity.0,
        };
        let found = self.read(zone, length)?;
        let mut expected = image.blocks.clone();
        expected.resize(length as usize, 0);
        match found.iter().zip(&expected).position(|(found, expected)| found != expected) {
            None => Ok(()),
            Some(at) => Err(format!(
                "{zone} block {at} reads as block number {}, expected {}",
                found[at], expected[at]
            )),
        }
    }
}

/// The blocks of these numbers, for a zone of a device.
pub(super) fn payload(geometry: &Geometry, zone: ZoneId, numbers: &[u64]) -> Payload {
    let data = numbers.iter().map(|number| contents(zone.0.into(), *number)).collect();
    let oob = match geometry.oob {
        OobKind::None => Bytes::new(),
        _ => numbers.iter().flat_map(|number| metadata(*number)).collect(),
    };
    Payload { data, oob }
}

/// The metadata of a block.
fn metadata(number: u64) -> [u8; OOB_BYTES] {
    let mut bytes = [0; OOB_BYTES];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = number.to_le_bytes()[at % 8].wrapping_add(u8::try_from(at).expect("64 bytes"));
    }
    bytes
}

/// The status of an outcome, for a command that returns nothing.
pub(super) fn status_of(outcome: &Outcome) -> Option<Status> {
    outcome.as_ref().err().copied()
}
