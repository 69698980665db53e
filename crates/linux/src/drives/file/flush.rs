//! Durability: one `fdatasync` for all callers that wait.

use std::rc::Rc;

use zoneweave_runtime::oneshot;
use zoneweave_zoned::{Reply, Status};

use super::core::Drive;
use super::error::DriveFailure;

impl Drive {
    pub(super) async fn flush(self: Rc<Self>) -> Result<Reply, Status> {
        self.sync().await.map(|()| Reply::Done)
    }

    /// Makes everything in the file durable. A caller that comes while a sync is running shares the
    /// next one, because the running one may have passed its data already.
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
                // The kernel may have dropped the data that it could not write: a retry would
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
