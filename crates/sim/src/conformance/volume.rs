//! Zoned volumes as devices under test.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use zoneweave_emulator::{Jitter, RamDrive};
use zoneweave_raid::log::OfferedDrive;
use zoneweave_raid::log::format::{ArrayUuid, Lineage, MemberUuid};
use zoneweave_raid::raizn::{CreateOptions, OpenOptions, create, open};
use zoneweave_raid::scheme::Scheme;
use zoneweave_runtime::{Handle, Nanos};
use zoneweave_zoned::{BlockCount, Geometry, ZonedDevice};

use super::Hardware;

/// Bytes of an identity.
const IDENTITY_BYTES: usize = 16;

/// The shape of a zoned volume under test.
#[derive(Clone, Debug)]
pub struct VolumeShape {
    /// Geometry of each drive.
    pub drive: Geometry,
    /// Data and parity units of a stripe.
    pub scheme: Scheme,
    /// A stripe unit.
    pub unit: BlockCount,
    /// Whether blocks have checksums.
    pub checksums: bool,
    /// A slot whose drive is lost once the volume is created.
    pub lost: Option<usize>,
}

/// The drives of a zoned volume.
pub struct VolumeHardware {
    shape: VolumeShape,
    drives: Vec<RamDrive>,
    is_created: Cell<bool>,
}

impl VolumeHardware {
    /// Blank drives. Their commands take at most `latency`, at random by the seed.
    ///
    /// # Panics
    ///
    /// If the geometry of the drives is impossible.
    #[must_use]
    pub fn new(shape: VolumeShape, latency: Nanos, seed: u64) -> Self {
        let seeds = (seed..).take(shape.scheme.columns());
        let drive = |seed| RamDrive::new(shape.drive.clone(), Jitter::new(seed, latency));
        let drives = seeds.map(|seed| drive(seed).expect("drives under test are possible"));
        Self { drives: drives.collect(), shape, is_created: Cell::new(false) }
    }

    fn offer(&self, handle: &Handle) -> Vec<OfferedDrive> {
        let lost = self.shape.lost.filter(|_| self.is_created.get());
        let present = self.drives.iter().enumerate().filter(|(slot, _)| Some(*slot) != lost);
        let offer = |(slot, drive): (usize, &RamDrive)| OfferedDrive {
            device: drive.attach(handle),
            label: format!("drive {slot}"),
        };
        present.map(offer).collect()
    }

    fn options(&self) -> CreateOptions {
        let member = |slot| {
            let number = u8::try_from(slot + 1).expect("at most 32 members");
            MemberUuid([number; IDENTITY_BYTES])
        };
        CreateOptions {
            name: "conformance".to_owned(),
            array: ArrayUuid([0xA5; IDENTITY_BYTES]),
            members: (0..self.drives.len()).map(member).collect(),
            lineage: Lineage(1),
            scheme: self.shape.scheme,
            unit: self.shape.unit,
            checksums: self.shape.checksums,
            wipe: false,
        }
    }
}

impl Hardware for VolumeHardware {
    fn start<'a>(&'a self, handle: &'a Handle) -> LocalBoxFuture<'a, Rc<dyn ZonedDevice>> {
        async move {
            if !self.is_created.get() {
                let created = create(&self.offer(handle), &self.options()).await;
                created.unwrap_or_else(|error| panic!("the volume is not created: {error}"));
                self.is_created.set(true);
            }
            let opened = open(handle, self.offer(handle), OpenOptions::default()).await;
            let (volume, _) = opened.unwrap_or_else(|error| panic!("it does not start: {error}"));
            let device: Rc<dyn ZonedDevice> = Rc::new(volume);
            device
        }
        .boxed_local()
    }

    fn power_loss(&self, seed: u64) {
        for (drive, number) in self.drives.iter().zip(0..) {
            drive.power_loss(seed.wrapping_add(number << 32));
        }
    }
}
