//! Making what completed durable, once for everybody who asks.

use std::rc::Rc;

use zoneweave_runtime::oneshot;
use zoneweave_zoned::{Reply, Status};

use super::core::Drive;
use super::error::DriveFailure;

impl Drive {
    pub(super) async fn flush(self: Rc<Self>) -> Result<Reply, Status> {
        self.sync().await.map(|()| Reply::Done)
    }

    /// Makes everything in the file durable. Whoever asks while a sync is running shares the next,
    /// because the running one may have passed by what they wrote.
    pub(super) async fn sync(self: &Rc<Self>) -> Result<(), Status> {
        let (sender, receiver) = oneshot();
        self.syncs.waiters.borrow_mut().push(sender);
        if !self.syncs.running.replace(true) {
            self.handle.spawn("drive sync", self.clone().run_syncs());
        }
        receiver.await.unwrap_or(Err(Status::Aborted))
    }

    async fn run_syncs(self: Rc<Self>) {
        loop {
            let waiters = self.syncs.waiters.take();
            if waiters.is_empty() {
                self.syncs.running.set(false);
                return;
            }
            if let Err(error) = self.ring.sync_data(&self.file).await {
                // The kernel may have thrown away what it could not write: trying again would
                // succeed without it.
                self.die(DriveFailure::SyncFailed(error));
            }
            let result = if self.examine() { Ok(()) } else { Err(Status::DeviceGone) };
            for waiter in waiters {
                waiter.send(result);
            }
        }
    }
}
