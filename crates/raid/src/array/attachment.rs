//! One membership of a drive.
//!
//! The same device may be a member, be taken out, and be put in again. Commands and late answers of
//! an earlier membership must not affect the present one: an answer must not count against it, and
//! a write or reset in flight must not hit its new contents. Each membership therefore has a handle
//! of its own, which every command in flight holds until the drive has answered. The handle
//! identifies the membership, as its memory is not reused while it is held. A membership has ended
//! when no command holds its handle.

use std::rc::{Rc, Weak};

use zoneweave_runtime::Gate;
use zoneweave_zoned::{Command, Completion, Geometry, ZoneAddress, ZonedDevice};

struct Attached {
    device: Rc<dyn ZonedDevice>,
    released: Gate,
}

impl ZonedDevice for Attached {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn submit(&self, command: Command) -> Completion {
        self.device.submit(command)
    }

    fn hint_read(&self, at: ZoneAddress) {
        self.device.hint_read(at);
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.released.open();
    }
}

/// A membership, whether or not it has ended.
#[derive(Clone)]
pub(crate) struct Membership {
    handle: Weak<Attached>,
    released: Gate,
}

impl Membership {
    /// Makes a drive a member; returns the handle for its commands.
    #[must_use]
    pub(crate) fn begin(device: Rc<dyn ZonedDevice>) -> (Self, Rc<dyn ZonedDevice>) {
        let released = Gate::new();
        let handle = Rc::new(Attached { device, released: released.clone() });
        (Self { handle: Rc::downgrade(&handle), released }, handle)
    }

    /// Whether no command of it is in flight, and the drive is not in service by it.
    #[must_use]
    pub(crate) fn has_ended(&self) -> bool {
        self.handle.strong_count() == 0
    }

    /// Whether this is the drive, unless the membership has ended.
    #[must_use]
    pub(crate) fn is_of(&self, device: &Rc<dyn ZonedDevice>) -> bool {
        self.handle.upgrade().is_some_and(|handle| Rc::ptr_eq(&handle.device, device))
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&self) {
        while !self.has_ended() {
            self.released.wait().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use zoneweave_runtime::{Executor, VirtualTime};
    use zoneweave_zoned::{BlockCount, Status};

    use super::*;

    struct Drive(Geometry);

    impl ZonedDevice for Drive {
        fn geometry(&self) -> &Geometry {
            &self.0
        }

        fn submit(&self, _: Command) -> Completion {
            Completion::ready(Err(Status::Aborted))
        }
    }

    #[test]
    fn one_drive_has_a_handle_for_each_membership() {
        let device: Rc<dyn ZonedDevice> = Rc::new(Drive(Geometry::new(1, BlockCount(1))));
        let (first, before) = Membership::begin(device.clone());
        let (second, after) = Membership::begin(device.clone());
        assert!(!Rc::ptr_eq(&before, &after));
        assert!(first.is_of(&device) && second.is_of(&device));
        drop(before);
        assert!(first.has_ended() && !first.is_of(&device) && !second.has_ended());
    }

    #[test]
    fn a_membership_ends_when_nobody_holds_it() {
        let device: Rc<dyn ZonedDevice> = Rc::new(Drive(Geometry::new(1, BlockCount(1))));
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let (membership, held) = Membership::begin(device);
        executor.run(async {
            let waits = handle.spawn("waits", {
                let membership = membership.clone();
                async move { membership.ended().await }
            });
            handle.yield_now().await;
            drop(held);
            waits.await;
        });
        assert!(membership.has_ended());
    }
}
