//! Drives that do not belong to the array: copies, shrunk drives, drives of other arrays.
//!
//! Starts that must be refused are tried on copies of the drives, so that they have no effect.

use std::collections::BTreeSet;
use std::rc::Rc;

use zoneweave_emulator::{FaultPlan, Immediate, RamDrive};
use zoneweave_raid::log::format::{ArrayUuid, MemberUuid};
use zoneweave_raid::log::{
    AssemblyError, CreateOptions, DriveRole, OfferedDrive, OpenError, OpenOptions, OpenReport,
    create, open_array,
};
use zoneweave_raid::scheme::Scheme;
use zoneweave_runtime::{Executor, Handle, VirtualTime};
use zoneweave_zoned::{
    BlockCount, Command, Completion, Geometry, OobKind, ZoneId, ZoneInfo, ZonedDevice,
};

use crate::simulate::drives::attach::attach;
use crate::simulate::drives::slots::Drives;
use crate::simulate::run::harness::Harness;
use crate::simulate::scenario::{Impostor, Life};

/// Zones of a drive that is an array by itself.
const OTHER_ZONES: u32 = 6;

/// A drive of another array.
pub(crate) struct ForeignDrive {
    ram: RamDrive,
    array: ArrayUuid,
    zones: Vec<ZoneInfo>,
}

/// The foreign drives of a life.
pub(crate) fn of_life(harness: &Harness, life: &Life) -> Vec<ForeignDrive> {
    // The array with most drives is started: against a single drive, foreign drives could outnumber
    // it.
    let columns = harness.shape.columns();
    if columns < harness.drives.borrow().impaired().len() + 2 {
        return Vec::new();
    }
    (0..life.foreign_drives).filter_map(|number| ForeignDrive::make(harness, number)).collect()
}

impl ForeignDrive {
    fn make(harness: &Harness, number: u32) -> Option<Self> {
        let mut geometry = Geometry::new(OTHER_ZONES, BlockCount(harness.shape.zone_blocks));
        if harness.shape.inline {
            geometry.oob = OobKind::None;
        }
        let ram = RamDrive::new(geometry, Immediate).ok()?;
        let array = ArrayUuid(harness.identity(u64::MAX - 1 - u64::from(number)));
        let options = CreateOptions {
            name: "another".to_owned(),
            scheme: Scheme::new(1, 0).ok()?,
            volume_blocks: None,
            array,
            members: vec![MemberUuid(array.0)],
            ..harness.create_options(false)
        };
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let drive = OfferedDrive { device: attach(&ram, &executor.handle()), label: String::new() };
        executor.run(create(&[drive], &options)).ok()?;
        let zones = zones(&ram);
        Some(Self { ram, array, zones })
    }

    pub(crate) fn offer(&self, handle: &Handle) -> OfferedDrive {
        OfferedDrive {
            device: attach(&self.ram, handle),
            label: "drive of another array".to_owned(),
        }
    }

    /// Checks that a start left the offered foreign drive alone.
    pub(crate) fn assert_left_alone(&self, report: &OpenReport) {
        let foreign = DriveRole::Foreign { array: self.array };
        let named = report.drives.iter().any(|verdict| verdict.role == foreign);
        assert!(named, "a drive of another array is not reported as foreign: {:?}", report.drives);
        assert!(self.zones == zones(&self.ram), "a drive of another array was written to");
    }
}

fn zones(ram: &RamDrive) -> Vec<ZoneInfo> {
    (0..ram.geometry().zones).map(|zone| ram.zone(ZoneId(zone))).collect()
}

/// Checks that a start without force and without a majority is refused.
pub(crate) fn be_refused_without_force(harness: &Harness, away: &BTreeSet<usize>) {
    let drives = harness.drives.borrow();
    let columns = harness.shape.columns();
    if harness.shape.beyond || (columns - away.len()) * 2 > columns || !drives.undamaged() {
        return;
    }
    let opened =
        start(&Copies::of(&drives), away, OpenOptions::default(), |_, device| vec![device]);
    let refused = matches!(
        opened,
        Err(OpenError::Array(AssemblyError::NoQuorum { .. })
            | OpenError::Array(AssemblyError::TooFewMembers { .. })
            | OpenError::Array(AssemblyError::TwoHistories { .. })
            | OpenError::Array(AssemblyError::HistoryInDoubt { .. }))
    );
    assert!(refused, "without the drives in slots {away:?} the array starts without force");
    harness.count(|tally| tally.refusals += 1);
}

/// Checks that a start with an impostor is refused.
pub(crate) fn refuse(harness: &Harness, impostor: Impostor) {
    let (Impostor::Twin { slot } | Impostor::Shrunk { slot }) = impostor;
    let drives = harness.drives.borrow();
    let sound = drives.undamaged() && !drives.impaired().contains(&slot);
    if harness.shape.beyond || slot >= harness.shape.columns() || !sound {
        return;
    }
    let copies = Copies::of(&drives);
    drop(drives);
    let offers = |at, device: Rc<dyn ZonedDevice>| match impostor {
        _ if at != slot => vec![device],
        Impostor::Twin { .. } => vec![device.clone(), device],
        Impostor::Shrunk { .. } => vec![Rc::new(Shrunk::from(device)) as Rc<dyn ZonedDevice>],
    };
    let opened = start(&copies, &BTreeSet::new(), harness.start_options(), offers);
    let refused = match impostor {
        Impostor::Twin { .. } => {
            matches!(opened, Err(OpenError::Array(AssemblyError::Duplicate { .. })))
        }
        Impostor::Shrunk { .. } => {
            matches!(opened, Err(OpenError::Array(AssemblyError::Shrunk { .. })))
        }
    };
    assert!(refused, "a start with {impostor:?} is not refused: {:?}", opened.err());
    harness.count(|tally| tally.refusals += 1);
}

/// A copy of a drive, without planned faults.
pub(crate) fn copy(ram: &RamDrive) -> RamDrive {
    let copy = ram.fork(Immediate);
    copy.faults(FaultPlan::clear);
    copy
}

/// Copies of the drives in the slots.
struct Copies(Vec<RamDrive>);

impl Copies {
    fn of(drives: &Drives) -> Self {
        Self(drives.in_slots.iter().map(|drive| copy(&drive.ram)).collect())
    }
}

/// Starts the array from copies.
///
/// # Panics
///
/// If a refused start wrote to drives.
fn start(
    copies: &Copies,
    away: &BTreeSet<usize>,
    options: OpenOptions,
    offers: impl Fn(usize, Rc<dyn ZonedDevice>) -> Vec<Rc<dyn ZonedDevice>>,
) -> Result<(), OpenError> {
    let before: Vec<_> = copies.0.iter().map(zones).collect();
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let here = copies.0.iter().enumerate().filter(|(slot, _)| !away.contains(slot));
    let devices = here.flat_map(|(slot, copy)| offers(slot, attach(copy, &handle)));
    let label = |(number, device)| OfferedDrive { device, label: format!("copy {number}") };
    let offered = devices.enumerate().map(label).collect();
    let opened = executor.run(open_array(&handle, offered, options));
    if opened.is_err() {
        let after: Vec<_> = copies.0.iter().map(zones).collect();
        assert!(before == after, "a refused start wrote to drives");
    }
    opened.map(|_| ())
}

/// A drive with one zone less.
struct Shrunk {
    device: Rc<dyn ZonedDevice>,
    geometry: Geometry,
}

impl From<Rc<dyn ZonedDevice>> for Shrunk {
    fn from(device: Rc<dyn ZonedDevice>) -> Self {
        let mut geometry = device.geometry().clone();
        geometry.zones -= 1;
        Self { device, geometry }
    }
}

impl ZonedDevice for Shrunk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&self, command: Command) -> Completion {
        self.device.submit(command)
    }
}
