//! Ways to reach a volume from this machine.

use super::Ability;
use super::machine::{Machine, Module};

/// All of them, the usual one first.
pub(super) fn abilities(machine: &Machine) -> Vec<Ability> {
    vec![
        ublk(machine),
        kernel_nbd(machine),
        fuse(machine),
        nbdfuse(machine),
        loop_device(machine),
        qemu(machine),
        vhost_user(machine),
        fio(machine),
    ]
}

fn ublk(machine: &Machine) -> Ability {
    let mut fixes = Vec::new();
    if !machine.has("/dev/ublk-control") {
        fixes.push(match machine.module("ublk_drv") {
            Module::Absent => "this kernel has no module ublk_drv: install a kernel of Linux 6.5 or newer with it (Debian: \
                               linux-image-amd64 of trixie or bookworm-backports), or use nbd-client or nbdfuse"
                .to_owned(),
            Module::Loadable => "load the module, as root: `modprobe ublk_drv`".to_owned(),
            Module::Loaded => "the driver is loaded, but its device is missing: start the container with `--device \
                               /dev/ublk-control` and all of /dev"
                .to_owned(),
        });
    }
    Ability::new(
        "ublk",
        "a volume as /dev/ublkb0, a drive as a zoned disk, without a client",
        fixes,
    )
}

fn kernel_nbd(machine: &Machine) -> Ability {
    let mut fixes = Vec::new();
    match machine.module("nbd") {
        Module::Loaded => {}
        Module::Loadable => fixes.push("load the module: `modprobe nbd`".to_owned()),
        Module::Absent => fixes.push(
            "this kernel has no module nbd: install a kernel with it (Debian: `apt-get install linux-image-amd64`), or use nbdfuse"
                .to_owned(),
        ),
    }
    fixes.extend(program(machine, "nbd-client", "nbd-client"));
    // The reason is in docs/operations.md, Clients.
    let what = "a volume as /dev/nbd0 of this machine's kernel (before Linux 6.14: with the I/O scheduler none)";
    Ability::new("nbd-client", what, fixes)
}

/// The fix if the kernel has no FUSE device.
fn fuse_driver(machine: &Machine) -> Option<String> {
    let missing = !machine.has("/dev/fuse");
    missing.then(|| match machine.module("fuse") {
        Module::Absent => "this kernel has no FUSE: use nbd-client or QEMU".to_owned(),
        _ => "create /dev/fuse: `modprobe fuse`; start a container with `--device /dev/fuse`"
            .to_owned(),
    })
}

fn fuse(machine: &Machine) -> Ability {
    let fixes = fuse_driver(machine).into_iter().collect();
    Ability::new("fuse", "a volume as a file, by `serve fuse`, and with losetup as a disk", fixes)
}

fn nbdfuse(machine: &Machine) -> Ability {
    let mut fixes: Vec<_> = fuse_driver(machine).into_iter().collect();
    fixes.extend(program(machine, "nbdfuse", "libnbd-bin"));
    fixes.extend(program(machine, "fusermount3", "fuse3"));
    Ability::new("nbdfuse", "a volume as a file, without a module for network block devices", fixes)
}

fn loop_device(machine: &Machine) -> Ability {
    let mut fixes = Vec::new();
    if !machine.has("/dev/loop-control") {
        fixes.push(match machine.module("loop") {
            Module::Absent => "this kernel has no loop devices: use nbd-client or QEMU".to_owned(),
            _ => "create /dev/loop-control: `modprobe loop`".to_owned(),
        });
    }
    fixes.extend(program(machine, "losetup", "mount"));
    Ability::new(
        "losetup",
        "a file system of this machine on the file of `serve fuse` or nbdfuse",
        fixes,
    )
}

fn qemu(machine: &Machine) -> Ability {
    let fixes = program(machine, "qemu-system-x86_64", "qemu-system-x86");
    Ability::new("qemu", "a volume as the disk of a virtual machine", fixes.into_iter().collect())
}

fn vhost_user(machine: &Machine) -> Ability {
    let fixes = program(machine, "qemu-system-x86_64", "qemu-system-x86");
    let purpose = "a volume as the disk of a virtual machine, by `serve vhost-user`, without a client between";
    Ability::new("vhost-user", purpose, fixes.into_iter().collect())
}

fn fio(machine: &Machine) -> Ability {
    let fixes = program(machine, "fio", "fio").into_iter().collect();
    Ability::new("fio", "measuring and verifying a volume", fixes)
}

/// The fix if a program is missing.
fn program(machine: &Machine, name: &str, package: &str) -> Option<String> {
    let missing = !machine.has_program(name);
    missing.then(|| format!("install {name} (Debian: `apt-get install {package}`)"))
}
