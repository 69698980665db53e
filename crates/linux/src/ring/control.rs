//! A small ring beside the engine's, for commands of 80 bytes to a control device.
//!
//! The engine's ring has entries of 64 bytes, into which commands of 16 bytes fit. Control commands
//! are rare and may take long: a disk starts only when its queue is served. So they have a second
//! ring, whose commands the kernel runs in a worker thread. The engine's ring polls it for answers,
//! and the engine's thread never blocks.
//!
//! Invariant: memory lent to the kernel belongs to this structure until the answer has come; if it
//! is dropped earlier, the memory is leaked.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::rc::Rc;

use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::queues::accept_interruption;
use super::reactor::{Descriptor, Ring};

/// The bytes of a command in an entry of 128 bytes.
const COMMAND_BYTES: usize = 80;

/// A control device and the ring on which commands to it travel, one at a time.
pub(crate) struct ControlRing {
    ring: Ring,
    uring: IoUring<squeue::Entry128, cqueue::Entry>,
    /// The ring itself, for waiting until it has an answer.
    answers: Descriptor,
    device: Descriptor,
    /// Memory of the command in flight.
    lent: Option<ManuallyDrop<Box<[u8]>>>,
}

impl ControlRing {
    /// A ring for commands to `device`, whose answers `ring` waits for.
    ///
    /// # Errors
    /// The kernel's; such a ring takes Linux 5.19.
    pub(crate) fn new(ring: &Ring, device: Descriptor) -> io::Result<Self> {
        let uring = IoUring::<squeue::Entry128, cqueue::Entry>::builder().build(4)?;
        // SAFETY: the ring keeps its descriptor open for longer than this call.
        let borrowed = unsafe { BorrowedFd::borrow_raw(uring.as_raw_fd()) };
        let answers = Rc::new(borrowed.try_clone_to_owned()?);
        Ok(Self { ring: ring.clone(), uring, answers, device, lent: None })
    }

    /// Sends a command and waits for its answer. `build` makes its bytes from the address of
    /// `buffer`, which the driver may read and write; the buffer is returned.
    ///
    /// # Errors
    /// The driver's; `EBUSY` if the future of an earlier command was dropped before its answer.
    pub(crate) async fn command(
        &mut self,
        code: u32,
        buffer: Box<[u8]>,
        build: impl FnOnce(u64) -> [u8; COMMAND_BYTES],
    ) -> io::Result<Box<[u8]>> {
        if self.lent.is_some() {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        let lent = self.lent.insert(ManuallyDrop::new(buffer));
        let command = build(lent.as_mut_ptr() as u64);
        let device = Fd(self.device.as_raw_fd());
        let entry = opcode::UringCmd80::new(device, code).cmd(command).build();
        // SAFETY: the only memory named is the buffer, whose length `build` knows. It stays in
        // `lent` until the completion was seen; the device stays open too.
        let pushed = unsafe { self.uring.submission().push(&entry) };
        assert!(pushed.is_ok(), "one command at a time has room");
        accept_interruption(self.uring.submit());
        let result = loop {
            let answer = self.uring.completion().next();
            if let Some(answer) = answer {
                break answer.result();
            }
            self.ring.readable(&self.answers).await?;
        };
        let buffer = self.lent.take().expect("lent above");
        if result < 0 {
            return Err(io::Error::from_raw_os_error(result.wrapping_neg()));
        }
        Ok(ManuallyDrop::into_inner(buffer))
    }
}
