//! Machines made of files, and their features.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;

/// A machine with these files.
fn machine(files: &[(&str, &str)]) -> (TempDir, Machine) {
    let root = tempfile::tempdir().expect("a folder");
    for (path, text) in files {
        let path = root.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    let machine = Machine::at(root.path(), OsStr::new("/usr/bin"));
    (root, machine)
}

fn fixes<'a>(report: &'a Report, name: &str) -> &'a [String] {
    &report.abilities.iter().find(|ability| ability.name == name).expect("an ability").fixes
}

#[test]
fn a_bare_machine_can_serve_and_is_told_what_else_there_could_be() {
    let (_root, machine) = machine(&[("/proc/sys/kernel/osrelease", "6.12.9-amd64\n")]);
    let report = examine(&machine, Ok(()));
    assert!(report.can_serve && report.zoned_drives.is_empty());
    assert_eq!(report.kernel, "6.12.9-amd64");
    let missing = report.abilities.iter().filter(|ability| ability.state == State::Missing);
    assert_eq!(missing.count(), report.abilities.len() - 1);
    assert!(fixes(&report, "nbd-client")[0].contains("linux-image"));
    assert!(fixes(&report, "fio")[0].contains("apt-get install fio"));
    assert!(fixes(&report, "ublk")[0].contains("6.5"));
}

#[test]
fn without_a_ring_nothing_can_be_served_and_the_reason_is_told() {
    let (_root, machine) = machine(&[]);
    let report = examine(&machine, Err("switched off".to_owned()));
    assert!(!report.can_serve);
    assert_eq!(fixes(&report, "io_uring"), ["switched off"]);
    assert_eq!(report.kernel, "unknown");
}

#[test]
fn modules_are_loaded_built_in_or_to_be_loaded() {
    let kernel = ("/proc/sys/kernel/osrelease", "6.1");
    let client = ("/usr/sbin/nbd-client", "");
    let dep = ("/lib/modules/6.1/modules.dep", "kernel/drivers/block/nbd.ko.xz: kernel/a.ko\n");
    let (_root, loadable) = machine(&[kernel, client, dep]);
    assert_eq!(
        fixes(&examine(&loadable, Ok(())), "nbd-client"),
        ["load the module: `modprobe nbd`"]
    );
    let other = ("/lib/modules/6.1/modules.dep", "kernel/drivers/xnbd.ko:\nkernel/b.ko: nbd.ko\n");
    let (_root, absent) = machine(&[kernel, client, other]);
    assert!(fixes(&examine(&absent, Ok(())), "nbd-client")[0].contains("no module nbd"));
    let builtin = ("/lib/modules/6.1/modules.builtin", "kernel/drivers/block/nbd.ko\n");
    let (_root, built_in) = machine(&[kernel, client, builtin]);
    assert!(fixes(&examine(&built_in, Ok(())), "nbd-client").is_empty());
    let (_root, loaded) = machine(&[kernel, client, ("/sys/module/nbd/refcnt", "0")]);
    assert!(fixes(&examine(&loaded, Ok(())), "nbd-client").is_empty());
}

#[test]
fn a_disk_of_the_kernel_takes_a_driver_and_its_device() {
    let kernel = ("/proc/sys/kernel/osrelease", "6.12");
    let dep = ("/lib/modules/6.12/modules.dep", "kernel/drivers/block/ublk_drv.ko.xz:\n");
    let (_root, loadable) = machine(&[kernel, dep]);
    assert!(fixes(&examine(&loadable, Ok(())), "ublk")[0].contains("modprobe ublk_drv"));
    let (_root, hidden) = machine(&[kernel, ("/sys/module/ublk_drv/refcnt", "0")]);
    assert!(fixes(&examine(&hidden, Ok(())), "ublk")[0].contains("--device"));
    let (_root, ready) = machine(&[("/dev/ublk-control", "")]);
    assert!(fixes(&examine(&ready, Ok(())), "ublk").is_empty());
}

#[test]
fn zoned_drives_are_told_apart_from_others() {
    let (_root, machine) = machine(&[
        ("/sys/block/sda/queue/zoned", "none\n"),
        ("/sys/block/nvme0n1/queue/zoned", "host-managed\n"),
        ("/sys/block/nvme0n1/device/model", "WZS4C8T4TDSP303 \n"),
        ("/sys/block/nvme0n1/size", "15472787456\n"),
        ("/sys/block/nvme0n1/queue/nr_zones", "3690\n"),
        ("/sys/block/nvme0n1/queue/chunk_sectors", "4194304\n"),
        ("/sys/block/nvme0n1/queue/max_active_zones", "14\n"),
        ("/sys/block/sdb/queue/zoned", "host-aware\n"),
    ]);
    let drives = examine(&machine, Ok(())).zoned_drives;
    assert_eq!(drives.len(), 2);
    let text = drives[0].to_string();
    assert!(text.starts_with("/dev/nvme0n1: WZS4C8T4TDSP303, host-managed, 7.2"), "{text}");
    assert!(text.ends_with("3690 zones of 2 GiB, 14 of which may be active"), "{text}");
    assert_eq!(drives[1].to_string(), "/dev/sdb: unknown model, host-aware, 0 B in 0 zones of 0 B");
}
