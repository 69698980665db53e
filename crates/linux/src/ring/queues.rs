//! The two kinds of queues a ring can have: normal entries, or those large enough for NVMe
//! commands.
//!
//! A submission entry of 64 bytes has no room for an NVMe command, and a completion of 16 bytes
//! none for the address of an append. The kernel makes all entries of a ring large, or none. So a
//! ring starts with small ones, which files and sockets need. It gets large ones when the first
//! NVMe drive is opened while no operation is in flight.
#![allow(unsafe_code, reason = "entries that are pushed hand raw pointers to the kernel")]

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, squeue};

/// A completion.
#[derive(Clone, Copy)]
pub(super) struct Completed {
    pub(super) user_data: u64,
    pub(super) result: i32,
    /// The second result of an NVMe command; zero for other operations.
    pub(super) extra: u64,
}

/// Entries of one kind: in the kernel's queues, and in the backlog.
pub(super) struct Queue<S: squeue::EntryMarker, C: cqueue::EntryMarker> {
    uring: IoUring<S, C>,
    backlog: VecDeque<S>,
}

pub(super) enum Queues {
    Small(Queue<squeue::Entry, cqueue::Entry>),
    Large(Queue<squeue::Entry128, cqueue::Entry32>),
}

/// Does the same with either kind.
macro_rules! either {
    ($queues:expr, $queue:ident => $work:expr) => {
        match $queues {
            Queues::Small($queue) => $work,
            Queues::Large($queue) => $work,
        }
    };
}

impl<S: squeue::EntryMarker, C: cqueue::EntryMarker> Queue<S, C> {
    pub(super) fn new(uring: IoUring<S, C>) -> Self {
        let sizes = uring.params();
        assert!(sizes.cq_entries() >= sizes.sq_entries(), "every submission has a completion slot");
        Self { uring, backlog: VecDeque::new() }
    }

    /// Moves entries from the backlog to the submission queue, in order, as long as `in_flight` is
    /// below the limit. Returns how many are in flight then.
    fn feed(&mut self, mut in_flight: usize, limit: usize) -> usize {
        while in_flight < limit {
            let Some(entry) = self.backlog.front() else { break };
            // SAFETY: every pointer in the entry was taken by `Ring::begin` from a `Held` in the
            // slab, which stays there, with its descriptor, until `Ring::reap` sees the completion;
            // a ring that is dropped earlier leaks the slab. Heap memory does not move when the
            // slab grows.
            let pushed = unsafe { self.uring.submission().push(entry) }.is_ok();
            if !pushed {
                self.submit();
                if self.uring.submission().is_full() {
                    break;
                }
                continue;
            }
            self.backlog.pop_front();
            in_flight += 1;
        }
        in_flight
    }

    fn submit(&mut self) {
        let queue = self.uring.submission();
        let needed = !queue.is_empty() || queue.taskrun() || queue.cq_overflow();
        drop(queue);
        if needed {
            accept_interruption(self.uring.submitter().submit());
        }
    }

    /// Whether the kernel has work for our operations that it does on the next system call.
    fn has_work(&mut self) -> bool {
        let queue = self.uring.submission();
        queue.taskrun() || queue.cq_overflow()
    }

    /// Whether there are completions, or will be after the next system call.
    fn has_news(&mut self) -> bool {
        self.has_work() || self.has_completions()
    }

    fn has_completions(&mut self) -> bool {
        !self.uring.completion().is_empty()
    }

    fn submit_and_wait(&self, limit: Option<Duration>) {
        let submitter = self.uring.submitter();
        accept_interruption(match limit {
            None => submitter.submit_and_wait(1),
            Some(limit) => {
                let span = Timespec::from(limit);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&span))
            }
        });
    }
}

impl Queues {
    /// Whether NVMe commands can be submitted.
    pub(super) fn are_large(&self) -> bool {
        matches!(self, Self::Large(_))
    }

    pub(super) fn waits(&self) -> bool {
        either!(self, queue => !queue.backlog.is_empty())
    }

    pub(super) fn forget_backlog(&mut self) {
        either!(self, queue => queue.backlog.clear());
    }

    /// Queues an entry that every ring takes.
    pub(super) fn push(&mut self, entry: squeue::Entry) {
        match self {
            Self::Small(queue) => queue.backlog.push_back(entry),
            Self::Large(queue) => queue.backlog.push_back(entry.into()),
        }
    }

    /// As [`Self::push`], before all that waits.
    pub(super) fn push_first(&mut self, entry: squeue::Entry) {
        match self {
            Self::Small(queue) => queue.backlog.push_front(entry),
            Self::Large(queue) => queue.backlog.push_front(entry.into()),
        }
    }

    /// Queues an entry that only a ring with large ones takes.
    pub(super) fn push_large(&mut self, entry: squeue::Entry128) {
        match self {
            Self::Small(_) => unreachable!("drives that need large entries ask for them first"),
            Self::Large(queue) => queue.backlog.push_back(entry),
        }
    }

    /// Moves entries from the backlog to the kernel's queue; returns how many are in flight then.
    pub(super) fn feed(&mut self, in_flight: usize, limit: usize) -> usize {
        either!(self, queue => queue.feed(in_flight, limit))
    }

    /// Submits new entries and lets the kernel post completions, without waiting.
    pub(super) fn submit(&mut self) {
        either!(self, queue => queue.submit());
    }

    /// Whether the kernel has work for our operations that it does on the next system call.
    pub(super) fn has_work(&mut self) -> bool {
        either!(self, queue => queue.has_work())
    }

    /// Whether there are completions, or will be after the next system call.
    pub(super) fn has_news(&mut self) -> bool {
        either!(self, queue => queue.has_news())
    }

    /// Whether there are completions.
    pub(super) fn has_completions(&mut self) -> bool {
        either!(self, queue => queue.has_completions())
    }

    /// Submits new entries, and waits for a completion.
    pub(super) fn submit_and_wait(&self, limit: Option<Duration>) {
        either!(self, queue => queue.submit_and_wait(limit));
    }

    /// Takes all completions.
    pub(super) fn completions(&mut self, into: &mut Vec<Completed>) {
        match self {
            Self::Small(queue) => into.extend(queue.uring.completion().map(|entry| Completed {
                user_data: entry.user_data(),
                result: entry.result(),
                extra: 0,
            })),
            Self::Large(queue) => into.extend(queue.uring.completion().map(|entry| Completed {
                user_data: entry.user_data(),
                result: entry.result(),
                extra: entry.big_cqe()[0],
            })),
        }
    }
}

/// Waiting may end early for harmless reasons: a signal, the time limit, or a completion queue that
/// must be emptied first. The caller loops.
pub(super) fn accept_interruption(result: io::Result<usize>) {
    let Err(error) = result else { return };
    let passing = matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::ETIME | libc::EAGAIN | libc::EBUSY)
    );
    assert!(passing, "io_uring_enter failed, which no I/O can cause: {error}");
}
