//! Why a device cannot be served through ublk, and how to fix it.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why there is no `/dev/ublkbN`.
#[derive(Debug, Error)]
pub enum UblkError {
    /// The driver is not loaded, or the kernel has none.
    #[error(
        "there is no /dev/ublk-control: load the driver with `modprobe ublk_drv`; if the kernel has no such \
         driver, install Linux 6.5 or newer with CONFIG_BLK_DEV_UBLK (on Debian: the kernel of trixie, or \
         linux-image-amd64 of bookworm-backports). Serving over NBD needs neither"
    )]
    NoDriver,
    /// This user may not make disks.
    #[error("creating ublk disks needs CAP_SYS_ADMIN: run this as root, or serve over NBD")]
    Forbidden,
    /// The driver lacks a feature.
    #[error("the ublk driver of this kernel lacks {feature}: Linux {since} or newer is needed")]
    TooOld {
        /// The missing feature.
        feature: &'static str,
        /// The first kernel that has it.
        since: &'static str,
    },
    /// The ring for control commands could not be had.
    #[error("no io_uring with entries of 128 bytes (Linux 5.19 or newer is needed): {0}")]
    Ring(#[source] io::Error),
    /// A device node could not be opened or mapped.
    #[error("cannot open {}: {error}", path.display())]
    Open {
        /// The node.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// The driver refused a command.
    #[error("ublk device {id}: cannot {purpose}: {error}")]
    Control {
        /// The device, or "new".
        id: String,
        /// The command's purpose, to complete "cannot ...".
        purpose: &'static str,
        /// The driver's error.
        error: io::Error,
    },
    /// Somebody serves the device.
    #[error("ublk device {id} is served by process {process}: stop it, or choose another number")]
    InUse {
        /// The device.
        id: u32,
        /// The process of its server.
        process: i32,
    },
    /// The device is something else.
    #[error(
        "ublk device {id} belongs to another volume or drive: choose another number, or none to use any free one"
    )]
    Foreign {
        /// The device.
        id: u32,
    },
    /// The device was left behind with another shape.
    #[error(
        "ublk device {id} was left by a server of this device when its size or geometry was \
         different, so its users would get wrong data: unmount its file systems and restart the \
         machine"
    )]
    Changed {
        /// The device.
        id: u32,
    },
    /// The kernel cannot have such a zoned disk.
    #[error("this drive cannot be a zoned disk: {problem}")]
    Unsuitable {
        /// Why.
        problem: String,
    },
    /// The driver gave the requests' places back before the device had started.
    #[error("ublk device {id}: the driver refuses the server: {error}")]
    Refused {
        /// The device.
        id: u32,
        /// The driver's error.
        error: io::Error,
    },
}
