//! Whether another process has a drive for itself, without taking the drive.

use std::path::Path;
use std::time::Duration;

use crate::drives::drive::Drive;
use crate::drives::kind::{Kind, kind_of};
use crate::drives::nonblock_open::open_nonblocking;
use crate::host::busy;

impl Drive {
    /// Whether another process has the drive for itself, still after `patience`: the kernel
    /// releases the drives of a killed process only when its last operations have ended. A drive
    /// that cannot be examined counts as free.
    #[must_use]
    pub fn is_locked(path: &Path, patience: Duration) -> bool {
        match kind_of(path) {
            Kind::File | Kind::Character => {
                open_nonblocking(path, false).is_ok_and(|file| busy::is_locked(&file, patience))
            }
            Kind::Block => crate::drives::zoned_block::is_claimed(path, patience),
        }
    }
}
