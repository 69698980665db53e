//! How large a ring is, and why there may be none.

use std::fs;
use std::io;

use io_uring::{Builder, IoUring, cqueue, squeue};
use thiserror::Error;

use super::queues::{Queue, Queues};

/// The sizes of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingOptions {
    /// Submission queue entries: how many operations one system call hands over.
    pub entries: u32,
    /// Operations in the kernel at once; the rest wait in order.
    pub in_flight: usize,
}

impl Default for RingOptions {
    /// 512 entries, 4,096 operations: enough for four drives at queue depth 512, and 64 connections
    /// with a receive, a send and some requests each.
    fn default() -> Self {
        Self { entries: 512, in_flight: 4096 }
    }
}

/// Why the ring cannot be created.
#[derive(Debug, Error)]
pub enum RingError {
    /// The administrator switched io_uring off.
    #[error(
        "io_uring is switched off (kernel.io_uring_disabled = {setting}): run \
         `sysctl kernel.io_uring_disabled=0`, or with 1 add this user to the group named by \
         kernel.io_uring_group"
    )]
    Disabled {
        /// The value of the setting.
        setting: String,
    },
    /// The system call is forbidden though the setting allows it.
    #[error(
        "io_uring is forbidden to this process: a container's seccomp profile usually does that; \
         allow io_uring_setup, io_uring_enter and io_uring_register (for example with \
         `--security-opt seccomp=unconfined`)"
    )]
    Forbidden,
    /// The kernel was built without it, or is too old.
    #[error("this kernel has no io_uring: Linux 5.11 or newer with CONFIG_IO_URING is needed")]
    Missing,
    /// The kernel's io_uring lacks a feature that the ring relies on.
    #[error("this kernel's io_uring lacks {feature}: Linux 5.11 or newer is needed")]
    TooOld {
        /// The missing feature.
        feature: &'static str,
    },
    /// The memory for the queues may not be locked.
    #[error(
        "no memory for the ring: raise the locked-memory limit (`ulimit -l unlimited`, or \
         LimitMEMLOCK= in a service)"
    )]
    NoMemory,
    /// Entries large enough for NVMe commands are not supported.
    #[error(
        "this kernel's io_uring has no NVMe commands: Linux 5.19 or newer is needed for NVMe drives"
    )]
    NoCommands,
    /// Entries cannot grow while some are in use.
    #[error(
        "NVMe drives cannot be added to a server that runs without any: stop it, and start it with \
         an NVMe drive among its drives"
    )]
    Busy,
    /// Something else went wrong.
    #[error("io_uring_setup failed: {0}")]
    Setup(#[source] io::Error),
}

impl RingOptions {
    pub(super) fn build(self) -> Result<Queues, RingError> {
        Ok(Queues::Small(Queue::new(self.build_entries(IoUring::builder)?)))
    }

    /// As [`RingOptions::build`], with entries that NVMe commands fit into.
    pub(super) fn build_large(self) -> Result<Queues, RingError> {
        let large = self.build_entries(IoUring::<squeue::Entry128, cqueue::Entry32>::builder);
        match large {
            // A small ring could be created, so `EINVAL` means that the kernel does not know large
            // entries.
            Err(RingError::Setup(error)) if error.raw_os_error() == Some(libc::EINVAL) => {
                Err(RingError::NoCommands)
            }
            built => Ok(Queues::Large(Queue::new(built?))),
        }
    }

    pub(super) fn build_entries<S: squeue::EntryMarker, C: cqueue::EntryMarker>(
        self,
        builder: impl Fn() -> Builder<S, C>,
    ) -> Result<IoUring<S, C>, RingError> {
        let uring = self.build_deferred(builder()).or_else(|error| match error.raw_os_error() {
            // Before Linux 6.1: the flags are unknown, and not needed either.
            Some(libc::EINVAL) => builder().setup_cqsize(self.completions()).build(self.entries),
            _ => Err(error),
        });
        let uring = uring.map_err(explain)?;
        let parameters = uring.params();
        if !parameters.is_feature_ext_arg() {
            return Err(RingError::TooOld { feature: "waiting with a time limit" });
        }
        if !parameters.is_feature_nodrop() {
            return Err(RingError::TooOld { feature: "lossless completions" });
        }
        Ok(uring)
    }

    /// Room for every operation in flight, so that the completion queue never overflows.
    fn completions(self) -> u32 {
        let in_flight = u32::try_from(self.in_flight).unwrap_or(u32::MAX);
        in_flight.checked_next_power_of_two().unwrap_or(1 << 31).max(self.entries * 2)
    }

    /// Completions are processed when the single thread that uses the ring asks for them, instead
    /// of interrupting it.
    fn build_deferred<S: squeue::EntryMarker, C: cqueue::EntryMarker>(
        self,
        mut builder: Builder<S, C>,
    ) -> io::Result<IoUring<S, C>> {
        builder
            .setup_cqsize(self.completions())
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .build(self.entries)
    }
}

fn explain(error: io::Error) -> RingError {
    let setting = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    let setting = setting.trim();
    match error.raw_os_error() {
        Some(libc::EPERM) if matches!(setting, "1" | "2") => {
            RingError::Disabled { setting: setting.to_owned() }
        }
        Some(libc::EPERM | libc::EACCES) => RingError::Forbidden,
        Some(libc::ENOSYS) => RingError::Missing,
        Some(libc::ENOMEM) => RingError::NoMemory,
        _ => RingError::Setup(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_tell_what_to_do() {
        let explained = |code| explain(io::Error::from_raw_os_error(code)).to_string();
        assert!(explained(libc::ENOSYS).contains("5.11"));
        assert!(explained(libc::ENOMEM).contains("ulimit -l"));
        assert!(explained(libc::EACCES).contains("seccomp"));
    }
}
