//! The zone states, and how to reach them.

use std::fmt;

use zoneweave_zoned::{Command, Geometry, ZoneAction, ZoneAddress, ZoneId, ZoneState};

use super::image::ZoneImage;
use super::session::{Session, payload};
use super::{Factory, Hardware};

/// The zone under test. Its neighbours must stay as they are.
pub(super) const ZONE: ZoneId = ZoneId(1);

/// Blocks that are written before a command.
const WRITTEN: u32 = 3;

/// A state of a zone, and how it got there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prepared {
    Empty,
    EmptyAfterReset,
    ImplicitlyOpen,
    ExplicitlyOpen,
    ExplicitlyOpenUnwritten,
    Closed,
    ClosedUnwritten,
    ClosedByRestart,
    Full,
    Finished,
    FinishedUnwritten,
    ReadOnly,
    Offline,
}

use Prepared::{
    Closed, ClosedByRestart, ClosedUnwritten, Empty, EmptyAfterReset, ExplicitlyOpen,
    ExplicitlyOpenUnwritten, Finished, FinishedUnwritten, Full, ImplicitlyOpen, Offline, ReadOnly,
};

/// Every one of them, by the column of the table.
pub(super) const ALL: [(Prepared, usize); 13] = [
    (Empty, 0),
    (EmptyAfterReset, 0),
    (ImplicitlyOpen, 1),
    (ExplicitlyOpen, 2),
    (ExplicitlyOpenUnwritten, 2),
    (Closed, 3),
    (ClosedUnwritten, 3),
    (ClosedByRestart, 3),
    (Full, 4),
    (Finished, 4),
    (FinishedUnwritten, 4),
    (ReadOnly, 5),
    (Offline, 6),
];

impl fmt::Display for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A device with the zone under test in some state.
pub(super) struct Bed {
    pub hardware: Box<dyn Hardware>,
    pub session: Session,
    /// The state of each zone.
    pub zones: Vec<ZoneImage>,
    numbers: u64,
}

impl Bed {
    /// A blank device.
    pub(super) fn new(factory: Factory<'_>) -> Self {
        let hardware = factory();
        let session = Session::start(&*hardware);
        let geometry = session.geometry();
        let fits = geometry.zones >= 5 && geometry.zone_capacity.0 >= 8;
        assert!(fits, "a device under test has five zones of eight blocks");
        assert!(geometry.max_transfer.0 >= WRITTEN, "it transfers at least three blocks");
        let zones = ZoneImage::blank(geometry);
        Self { hardware, session, zones, numbers: 0 }
    }

    /// A device with a zone in this state; `None` if it cannot get there.
    pub(super) fn prepared(factory: Factory<'_>, state: Prepared) -> Result<Option<Self>, String> {
        let mut bed = Self::new(factory);
        // A neighbour with contents, which every case must leave alone.
        bed.write(ZoneId(0), 2)?;
        match state {
            Empty => {}
            EmptyAfterReset => {
                bed.write(ZONE, WRITTEN)?;
                bed.manage(ZoneAction::Reset)?;
            }
            ImplicitlyOpen => bed.write(ZONE, WRITTEN)?,
            ExplicitlyOpen => {
                bed.manage(ZoneAction::Open)?;
                bed.write(ZONE, WRITTEN)?;
            }
            ExplicitlyOpenUnwritten => bed.manage(ZoneAction::Open)?,
            Closed => {
                bed.write(ZONE, WRITTEN)?;
                bed.manage(ZoneAction::Close)?;
            }
            ClosedUnwritten => {
                bed.manage(ZoneAction::Open)?;
                bed.manage(ZoneAction::Close)?;
            }
            ClosedByRestart => {
                bed.write(ZONE, WRITTEN)?;
                bed = bed.restarted(1)?;
            }
            Full => bed.fill(ZONE)?,
            Finished => {
                bed.write(ZONE, WRITTEN)?;
                bed.manage(ZoneAction::Finish)?;
            }
            FinishedUnwritten => bed.manage(ZoneAction::Finish)?,
            ReadOnly | Offline => {
                bed.write(ZONE, WRITTEN)?;
                if !bed.hardware.fail_zone(ZONE, state == Offline) {
                    return Ok(None);
                }
                let failed =
                    if state == Offline { ZoneState::Offline } else { ZoneState::ReadOnly };
                bed.zones[ZONE.index()].state = failed;
                if let Err(status) = bed.session.run(Command::ChangedZones) {
                    return Err(format!("the list of changed zones cannot be read: {status}"));
                }
            }
        }
        Ok(Some(bed))
    }

    pub(super) fn geometry(&self) -> &Geometry {
        self.session.geometry()
    }

    /// The expected state of the zone under test.
    pub(super) fn zone(&self) -> &ZoneImage {
        &self.zones[ZONE.index()]
    }

    /// Numbers for the next blocks.
    pub(super) fn number(&mut self, blocks: u32) -> Vec<u64> {
        let first = self.numbers + 1;
        self.numbers += u64::from(blocks);
        (first..=self.numbers).collect()
    }

    /// A write of the next blocks; their numbers, and the command.
    pub(super) fn next_write(
        &mut self,
        at: ZoneAddress,
        blocks: u32,
        fua: bool,
    ) -> (Vec<u64>, Command) {
        let numbers = self.number(blocks);
        let payload = payload(self.geometry(), at.zone, &numbers);
        (numbers, Command::Write { at, payload, fua })
    }

    /// Writes blocks at the write pointer of a zone.
    pub(super) fn write(&mut self, zone: ZoneId, blocks: u32) -> Result<(), String> {
        let at = ZoneAddress::new(zone, self.zones[zone.index()].pointer);
        let (numbers, command) = self.next_write(at, blocks, false);
        self.session.run(command).map_err(|status| format!("a write at {at}: {status}"))?;
        let capacity = self.geometry().zone_capacity.0;
        let image = &mut self.zones[zone.index()];
        image.write(&numbers);
        if !image.state.is_open() {
            image.state = ZoneState::ImplicitlyOpen;
        }
        if image.pointer == capacity {
            image.state = ZoneState::Full;
        }
        Ok(())
    }

    /// Writes a zone to its capacity.
    pub(super) fn fill(&mut self, zone: ZoneId) -> Result<(), String> {
        self.fill_but(zone, 0)
    }

    /// Writes a zone up to `left` blocks before its capacity.
    pub(super) fn fill_but(&mut self, zone: ZoneId, left: u32) -> Result<(), String> {
        let (most, end) = (self.geometry().max_transfer.0, self.geometry().zone_capacity.0 - left);
        while self.zones[zone.index()].pointer < end {
            let room = end - self.zones[zone.index()].pointer;
            self.write(zone, room.min(most))?;
        }
        Ok(())
    }

    /// Changes the state of the zone under test.
    pub(super) fn manage(&mut self, action: ZoneAction) -> Result<(), String> {
        self.manage_zone(ZONE, action)
    }

    /// Changes the state of a zone, which must be possible.
    pub(super) fn manage_zone(&mut self, zone: ZoneId, action: ZoneAction) -> Result<(), String> {
        let outcome = self.session.run(Command::Manage { zone, action });
        outcome.map_err(|status| format!("{action:?} of {zone}: {status}"))?;
        let image = &mut self.zones[zone.index()];
        match action {
            ZoneAction::Open => image.state = ZoneState::ExplicitlyOpen,
            ZoneAction::Close => image.state = ZoneState::Closed,
            ZoneAction::Finish => image.state = ZoneState::Full,
            ZoneAction::Reset => *image = ZoneImage::empty(),
            other => return Err(format!("{other:?} is no way to prepare a zone")),
        }
        Ok(())
    }

    /// Makes everything durable, cuts the power and starts the device again.
    pub(super) fn restarted(self, seed: u64) -> Result<Self, String> {
        let Self { hardware, session, zones, numbers } = self;
        if session.geometry().volatile_cache {
            session.run(Command::Flush).map_err(|status| format!("a flush: {status}"))?;
        }
        drop(session);
        hardware.power_loss(seed);
        let session = Session::start(&*hardware);
        let zones = zones.iter().map(ZoneImage::restarted).collect();
        Ok(Self { hardware, session, zones, numbers })
    }
}
