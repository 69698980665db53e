//! The signals that ask a server to stop, as something a task can wait for.

use std::io;
use std::rc::Rc;

use zoneweave_zoned::{AlignedBuffer, BlockCount};

use crate::ring::{Descriptor, Ring};
use crate::sys::signal::signal_descriptor;

/// A request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: the operator pressed Ctrl-C.
    Interrupt,
    /// SIGTERM: the service manager wants the process to end.
    Terminate,
}

/// Receives SIGINT and SIGTERM instead of dying from them.
pub struct Signals {
    ring: Ring,
    descriptor: Descriptor,
}

impl Signals {
    /// From now on both signals are delivered here. Call it before any thread is started.
    ///
    /// # Errors
    /// If the kernel refuses a signal descriptor (out of descriptors).
    pub fn new(ring: &Ring) -> io::Result<Self> {
        let descriptor = signal_descriptor(&[libc::SIGINT, libc::SIGTERM])?;
        Ok(Self { ring: ring.clone(), descriptor: Rc::new(descriptor) })
    }

    /// Waits for the next signal.
    ///
    /// # Errors
    /// Those of reading the descriptor; the kernel documents none that can happen here.
    pub async fn next(&self) -> io::Result<Signal> {
        loop {
            let buffer = AlignedBuffer::zeroed(BlockCount(1));
            let length = size_of::<libc::signalfd_siginfo>();
            let (buffer, count) = self.ring.read_some(&self.descriptor, buffer, length).await?;
            if count != length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let number =
                buffer.as_ref().first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
            match i32::try_from(number) {
                Ok(libc::SIGINT) => return Ok(Signal::Interrupt),
                Ok(libc::SIGTERM) => return Ok(Signal::Terminate),
                _ => {}
            }
        }
    }
}
