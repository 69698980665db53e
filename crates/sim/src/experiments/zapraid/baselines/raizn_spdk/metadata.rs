//! The metadata zones of a drive, which hold partial parity.

use std::cell::Cell;
use std::rc::Rc;

use zoneweave_runtime::{Handle, Semaphore};
use zoneweave_zoned::{Payload, Status, ZoneAction, ZoneId, ZonedDevice, ZonedDeviceExt};

/// The first zones of each drive, which hold partial parity.
pub(super) const METADATA_ZONES: u32 = 2;

/// More appends than are ever in flight.
const USERS: u64 = 1 << 20;

/// The metadata zones of one drive.
pub(super) struct Metadata {
    handle: Handle,
    drive: Rc<dyn ZonedDevice>,
    /// Permits of each zone: an append takes one, a reset all.
    users: Vec<Semaphore>,
    active: Cell<u32>,
    /// Blocks of the active zone that are in use.
    used: Cell<u32>,
}

impl Metadata {
    pub(super) fn new(handle: &Handle, drive: &Rc<dyn ZonedDevice>) -> Self {
        Self {
            handle: handle.clone(),
            drive: drive.clone(),
            users: (0..METADATA_ZONES).map(|_| Semaphore::new(USERS)).collect(),
            active: Cell::new(0),
            used: Cell::new(0),
        }
    }

    /// Appends partial parity.
    pub(super) async fn append(&self, parity: Payload) -> Result<(), Status> {
        let blocks = parity.blocks().0;
        if self.used.get() + blocks > self.drive.geometry().zone_capacity.0 {
            self.switch();
        }
        self.used.set(self.used.get() + blocks);
        let zone = self.active.get();
        let _user = self.users[zone as usize].acquire().await;
        self.drive.append(ZoneId(zone), parity, false).await.map(drop)
    }

    /// Switches to the other zone, and resets this one when all appends in flight are done.
    fn switch(&self) {
        let full = self.active.get();
        self.active.set((full + 1) % METADATA_ZONES);
        self.used.set(0);
        let (users, drive) = (self.users[full as usize].clone(), self.drive.clone());
        // The reset begins as soon as the zone is full: by the next switch it is empty, or its
        // appends wait.
        drop(self.handle.spawn("reset of a metadata zone", async move {
            let _alone = users.acquire_many(USERS).await;
            drive.manage(ZoneId(full), ZoneAction::Reset).await.expect("a full zone is reset");
        }));
    }
}
