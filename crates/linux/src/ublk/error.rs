//! Why a device is not served through ublk, and what to do about it.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why there is no `/dev/ublkbN`.
#[derive(Debug, Error)]
pub enum UblkError {
    /// The driver is not loaded, or the kernel has none.
    #[error(
        "there is no /dev/ublk-control: load the driver with `modprobe ublk_drv`; a kernel without it has to be \
         replaced by one of Linux 6.5 or newer with CONFIG_BLK_DEV_UBLK (Debian: that of trixie, or \
         linux-image-amd64 of bookworm-backports). Serving over NBD needs neither"
    )]
    NoDriver,
    /// This user may not make disks.
    #[error(
        "making disks of this machine's kernel takes CAP_SYS_ADMIN: run this as root, or serve over NBD"
    )]
    Forbidden,
    /// The driver lacks what is needed.
    #[error("the ublk driver of this kernel lacks {feature}: Linux {since} or newer is needed")]
    TooOld {
        /// What is missing.
        feature: &'static str,
        /// The first kernel that has it.
        since: &'static str,
    },
    /// The ring for control commands could not be had.
    #[error("no io_uring with entries of 128 bytes, which takes Linux 5.19: {0}")]
    Ring(#[source] io::Error),
    /// A device node could not be opened or mapped.
    #[error("cannot open {}: {error}", path.display())]
    Open {
        /// The node.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// The driver refused a command.
    #[error("ublk device {id}: cannot {purpose}: {error}")]
    Control {
        /// The device, or "new".
        id: String,
        /// What the command is for.
        purpose: &'static str,
        /// What the driver said.
        error: io::Error,
    },
    /// Somebody serves the device.
    #[error(
        "ublk device {id} is being served by process {process}: stop that, or choose another number"
    )]
    InUse {
        /// The device.
        id: u32,
        /// Who serves it.
        process: i32,
    },
    /// The device is something else.
    #[error(
        "ublk device {id} is not this one's: choose another number, or none for any that is free"
    )]
    Foreign {
        /// The device.
        id: u32,
    },
    /// The device was left behind with another shape.
    #[error(
        "ublk device {id} was left behind by a server of this device when it had another size or \
         shape: who uses it would be served wrongly. Unmount what is on it and restart the machine"
    )]
    Changed {
        /// The device.
        id: u32,
    },
    /// The kernel cannot have such a zoned disk.
    #[error("this drive cannot be a zoned disk of the kernel: {problem}")]
    Unsuitable {
        /// Why.
        problem: String,
    },
    /// The driver gave the requests' places back before the device had started.
    #[error("ublk device {id}: the driver takes no server: {error}")]
    Refused {
        /// The device.
        id: u32,
        /// What it said.
        error: io::Error,
    },
}
