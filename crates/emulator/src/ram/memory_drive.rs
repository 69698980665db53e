//! A drive at the speed of memory: to measure its users, not to simulate.
//!
//! Every block is copied in (past the processor's caches, as a device would) and out, and a command
//! is complete when it is submitted. There is no cache, no timing, no fault and no crash:
//! [`RamDrive`] has these. All memory is allocated and touched when the drive is made, so that
//! measurements contain no page faults.
//!
//! [`RamDrive`]: crate::RamDrive

use std::cell::RefCell;

use zoneweave_zoned::{
    AlignedBuffer, BLOCK_BYTES, BlockCount, Command, Completion, Geometry, GeometryError,
    OOB_BYTES, Outcome, Payload, Reply, Status, ZoneAddress, ZoneSet, ZonedDevice,
    copy_nontemporal, prefetch,
};

/// A drive in memory.
pub struct MemoryDrive {
    geometry: Geometry,
    core: RefCell<Core>,
}

struct Core {
    zones: ZoneSet,
    /// Zone by zone, blocks that were never written included.
    data: AlignedBuffer,
    oob: Vec<u8>,
}

impl MemoryDrive {
    /// A blank drive. Features of the geometry beyond the core of the command set are left out:
    /// reads end with their zone, and there are no random write areas.
    ///
    /// # Errors
    /// If the geometry is impossible.
    ///
    /// # Panics
    /// If its zones can hold 2^32 blocks or more: [`MemoryDrive::fits`].
    pub fn new(geometry: Geometry) -> Result<Self, GeometryError> {
        let geometry = Geometry { reads_across_zones: false, zrwa: None, ..geometry };
        let zones = ZoneSet::new(geometry.clone())?;
        assert!(Self::fits(&geometry), "a drive that can be in memory");
        let blocks = BlockCount(geometry.zones * geometry.zone_capacity.0);
        let mut data = AlignedBuffer::zeroed(blocks);
        // Zeroed memory is all one page of zeros until it is written to.
        data.as_mut().chunks_mut(BLOCK_BYTES).for_each(|block| block[0] = 1);
        let oob = vec![1; blocks.oob_bytes()];
        Ok(Self { geometry, core: RefCell::new(Core { zones, data, oob }) })
    }

    /// Whether such a drive can be in memory at all: below 16 TiB.
    #[must_use]
    pub fn fits(geometry: &Geometry) -> bool {
        geometry.zones.checked_mul(geometry.zone_capacity.0).is_some()
    }
}

impl ZonedDevice for MemoryDrive {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&self, command: Command) -> Completion {
        Completion::ready(self.core.borrow_mut().execute(command))
    }

    fn hint_read(&self, at: ZoneAddress) {
        self.core.borrow().hint_read(at);
    }
}

impl Core {
    fn execute(&mut self, command: Command) -> Outcome {
        match command {
            Command::Read { at, blocks } => self.read(at, blocks).map(Reply::Read),
            Command::Write { at, payload, .. } => {
                self.zones.write(at, payload.blocks())?;
                self.store(at, &payload);
                Ok(Reply::Written(at))
            }
            Command::Append { zone, payload, .. } => {
                let offset = self.zones.append(zone, payload.blocks())?;
                let at = ZoneAddress { zone, offset };
                self.store(at, &payload);
                Ok(Reply::Written(at))
            }
            Command::Manage { zone, action } => {
                self.zones.manage(zone, action)?;
                Ok(Reply::Done)
            }
            Command::ManageAll { action } => {
                self.zones.manage_all(action)?;
                Ok(Reply::Done)
            }
            Command::SetExtension { zone, extension } => {
                self.zones.extend(zone, extension.len())?;
                self.zones.store_extension(zone, extension);
                Ok(Reply::Done)
            }
            Command::Report { first, count, options } => {
                Ok(Reply::Zones(self.zones.report(first, count, options)?))
            }
            Command::ChangedZones => Ok(Reply::Changed(self.zones.take_changed())),
            Command::Flush => Ok(Reply::Done),
        }
    }

    /// The place of a block among all of the drive.
    fn index(&self, at: ZoneAddress) -> usize {
        at.zone.index() * self.zones.geometry().zone_capacity.index() + at.offset.index()
    }

    fn store(&mut self, at: ZoneAddress, payload: &Payload) {
        payload.assert_whole();
        let first = self.index(at);
        let behind = first + payload.blocks().index();
        let data = &mut self.data.as_mut()[first * BLOCK_BYTES..behind * BLOCK_BYTES];
        copy_nontemporal(data, &payload.data);
        let oob = first * OOB_BYTES..behind * OOB_BYTES;
        match payload.oob.is_empty() {
            true => self.oob[oob].fill(0),
            false => self.oob[oob].copy_from_slice(&payload.oob),
        }
    }

    /// Prefetches a block: after one block, the processor prefetches the next ones by itself.
    fn hint_read(&self, at: ZoneAddress) {
        let part = |bytes: usize| self.index(at) * bytes..(self.index(at) + 1) * bytes;
        prefetch(self.oob.get(part(OOB_BYTES)).unwrap_or_default());
        prefetch(self.data.as_ref().get(part(BLOCK_BYTES)).unwrap_or_default());
    }

    fn read(&self, at: ZoneAddress, blocks: BlockCount) -> Result<Payload, Status> {
        self.zones.read(at, blocks)?;
        let (first, written) = (self.index(at), self.zones.written_of(at, blocks));
        // Before the data, so that the load of this single line does not wait behind all of it.
        let mut oob = self.oob[first * OOB_BYTES..][..written.oob_bytes()].to_vec();
        oob.resize(blocks.oob_bytes(), 0);
        let mut data = AlignedBuffer::unfilled(blocks);
        let (known, rest) = data.as_mut().split_at_mut(written.data_bytes());
        known.copy_from_slice(&self.data.as_ref()[first * BLOCK_BYTES..][..known.len()]);
        rest.fill(0);
        Ok(Payload::new(data.freeze(), oob.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use zoneweave_runtime::{Executor, Random, VirtualTime};
    use zoneweave_zoned::{ZoneAction, ZoneId, ZoneOffset, ZonedDeviceExt};

    use super::*;
    use crate::{Immediate, RamDrive};

    /// The same random commands have the same outcomes as on a drive for simulations.
    #[test]
    fn it_does_what_a_drive_in_ram_does() {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let geometry = Geometry::new(6, BlockCount(40));
        let ours = MemoryDrive::new(geometry.clone()).expect("a possible drive");
        let ram = RamDrive::new(geometry, Immediate).expect("a possible drive");
        let theirs = ram.attach(&executor.handle());
        executor.run(async {
            let mut random = Random::new(1);
            for step in 0..20_000_u32 {
                let command = draw(&mut random, step);
                // Changes nothing, wherever it is.
                ours.hint_read(address(&mut random));
                let [ours, theirs] = [ours.submit(command.clone()), theirs.submit(command.clone())];
                assert!(whole(ours.await) == whole(theirs.await), "{step}: {command:?}");
            }
            assert_eq!(ours.report().await, theirs.report().await);
        });
    }

    /// Blocks that are read may come in any pieces.
    fn whole(outcome: Outcome) -> Outcome {
        outcome.map(|reply| match reply {
            Reply::Read(Payload { data, oob }) => {
                Reply::Read(Payload::new(data.concat().into(), oob))
            }
            other => other,
        })
    }

    fn below(random: &mut Random, end: u64) -> u32 {
        u32::try_from(random.below(end)).expect("small")
    }

    /// In one of the drive's zones or the one behind them, or behind its end.
    fn address(random: &mut Random) -> ZoneAddress {
        let zone = ZoneId(below(random, 7));
        ZoneAddress { zone, offset: ZoneOffset(below(random, 41)) }
    }

    fn draw(random: &mut Random, step: u32) -> Command {
        let at = address(random);
        let zone = at.zone;
        let blocks = BlockCount(below(random, 12));
        let payload = || {
            let mut data = AlignedBuffer::zeroed(blocks);
            data.as_mut()
                .chunks_mut(7)
                .for_each(|part| part[0] = step.to_le_bytes()[part.len() % 4]);
            Payload::new(data.freeze(), vec![step.to_le_bytes()[0]; blocks.oob_bytes()].into())
        };
        match random.below(10) {
            0..4 => Command::Read { at, blocks },
            4..8 => Command::Append { zone, payload: payload(), fua: false },
            8 => Command::Write { at, payload: payload(), fua: true },
            _ => {
                let action = match random.below(4) {
                    0 => ZoneAction::Reset,
                    1 => ZoneAction::Finish,
                    2 => ZoneAction::Open,
                    _ => ZoneAction::Close,
                };
                Command::Manage { zone, action }
            }
        }
    }
}
