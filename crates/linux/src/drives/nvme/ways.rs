//! Paths to a drive: which controllers lead to a namespace, and whether one is usable now.
//!
//! A namespace that several controllers may share has a device of its own, and the kernel chooses a
//! path for each command. While there is none, as during a reset of the only controller, that
//! device fails commands with `EINVAL` at once: nothing was sent. A query of the namespace's
//! number, which takes no command, fails with `EWOULDBLOCK` then (`nvme_ns_head_chr_uring_cmd` and
//! `nvme_ns_head_chr_ioctl` of Linux 5.19 to 7.0). The device of a single controller waits instead.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::sys::nvme;

/// Whether no way leads to a namespace just now.
pub(super) fn is_none_open(device: BorrowedFd<'_>) -> bool {
    matches!(nvme::namespace_of(device), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// Whether the drive is reached by more than one controller on this machine's PCIe bus. A local
/// controller is stopped before its commands are aborted. A remote one may be unreachable and
/// continue, so that an aborted command may happen later; and one of several controllers may go
/// without the drive.
pub(super) fn has_ways(device: &fs::Metadata) -> bool {
    let (major, minor) = (major(device.rdev()), minor(device.rdev()));
    let link = format!("/sys/dev/char/{major}:{minor}");
    !is_one_on_the_bus(&controllers(Path::new(&link)))
}

fn is_one_on_the_bus(transports: &[String]) -> bool {
    matches!(transports, [transport] if transport == "pcie")
}

/// The transports of a device's controllers. They are in the folder of its controller, or of the
/// subsystem that has links to its controllers.
fn controllers(device: &Path) -> Vec<String> {
    let folder = fs::canonicalize(device).ok().and_then(|device| Some(device.parent()?.to_owned()));
    let Some(folder) = folder else { return Vec::new() };
    let transport = |controller: PathBuf| fs::read_to_string(controller.join("transport")).ok();
    let one = transport(folder.clone()).map(|text| vec![text]);
    let all = one.unwrap_or_else(|| {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| transport(entry.path())).collect()
    });
    all.into_iter().map(|text| text.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A model of sysfs: controllers, and a device with some of them as its paths.
    fn sysfs(transports: &[&str], of_subsystem: bool) -> Vec<String> {
        let root = tempfile::tempdir().expect("a folder");
        let subsystem = root.path().join("nvme-subsys0");
        fs::create_dir(&subsystem).expect("a folder");
        for (number, transport) in transports.iter().enumerate() {
            let controller = root.path().join(format!("nvme{number}"));
            fs::create_dir_all(controller.join("ng0n1")).expect("a folder");
            fs::write(controller.join("transport"), format!("{transport}\n")).expect("a file");
            symlink(&controller, subsystem.join(format!("nvme{number}"))).expect("a link");
        }
        fs::create_dir(subsystem.join("ng0n1")).expect("a folder");
        let of = if of_subsystem { "nvme-subsys0" } else { "nvme0" };
        let link = root.path().join("259:7");
        symlink(root.path().join(of).join("ng0n1"), &link).expect("a link");
        controllers(&link)
    }

    #[test]
    fn only_the_one_controller_on_the_bus_does_nothing_late() {
        assert!(is_one_on_the_bus(&sysfs(&["pcie"], false)));
        assert!(is_one_on_the_bus(&sysfs(&["pcie"], true)));
        assert!(!is_one_on_the_bus(&sysfs(&["pcie", "pcie"], true)));
        assert!(!is_one_on_the_bus(&sysfs(&["tcp"], false)));
        assert!(!is_one_on_the_bus(&controllers(Path::new("/nowhere"))));
    }
}
