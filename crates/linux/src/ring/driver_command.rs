//! Commands to a driver that travel inside the submission queue entry (`IORING_OP_URING_CMD`).

use std::io;

use io_uring::opcode;

use super::held::Held;
use super::reactor::{Descriptor, OnDrop, Ring};

impl Ring {
    /// Sends a driver a command of 16 bytes and waits for its answer, which may take for ever.
    ///
    /// The kernel cannot cancel such commands: the caller must make the driver complete them before
    /// the ring is dropped. `command` must name no memory, because no memory is kept for the driver
    /// to read or write.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) async fn driver_command(
        &self,
        device: &Descriptor,
        code: u32,
        command: [u8; 16],
    ) -> io::Result<usize> {
        let sending = self.start(device, Held::Nothing, OnDrop::Abandon, |descriptor, _| {
            opcode::UringCmd16::new(descriptor, code).cmd(command).build()
        });
        sending.await.result
    }
}
