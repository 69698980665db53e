//! Operations that do nothing, to measure the cost of a ring.
#![allow(unsafe_code, reason = "entries that are pushed could hand pointers to the kernel")]

use io_uring::{IoUring, cqueue, opcode, squeue};

use super::options::{RingError, RingOptions};
use super::queues::accept_interruption;

/// A ring with the entries of any other ring.
pub struct NoOperations {
    uring: IoUring<squeue::Entry, cqueue::Entry>,
    batch: u32,
}

impl NoOperations {
    /// For so many operations with one system call.
    ///
    /// # Errors
    /// As [`super::Ring::new`].
    pub fn new(batch: u32) -> Result<Self, RingError> {
        let options = RingOptions { entries: batch, in_flight: batch as usize };
        Ok(Self { uring: options.build_entries(IoUring::builder)?, batch })
    }

    /// Hands over a batch, and takes all of its completions.
    pub fn run(&mut self) {
        let mut queue = self.uring.submission();
        for _ in 0..self.batch {
            // SAFETY: a no-op has no pointers and no descriptor.
            let pushed = unsafe { queue.push(&opcode::Nop::new().build()) };
            assert!(pushed.is_ok(), "a queue of that size takes a batch");
        }
        drop(queue);
        let mut taken = 0;
        while taken < self.batch as usize {
            accept_interruption(
                self.uring.submitter().submit_and_wait(self.batch as usize - taken),
            );
            taken += self.uring.completion().count();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_one_completes() {
        let mut operations = NoOperations::new(32).unwrap();
        operations.run();
        operations.run();
    }
}
