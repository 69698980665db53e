//! The clients people use, where they are installed.

use std::process::Command;

use super::*;

/// Runs a command line if its program is installed, and says so loudly if not. Files that the
/// program leaves behind (fio does) go to `directory`.
fn run(line: &str, directory: &Path) {
    let program = line.split(' ').next().unwrap_or_default();
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    if !found.unwrap().status.success() {
        eprintln!("SKIPPED, {program} IS NOT INSTALLED: {line}");
        return;
    }
    let mut limited = Command::new("timeout");
    let limited = limited.args(["60", "sh", "-c", line]).current_dir(directory);
    let output = limited.output().unwrap();
    assert!(
        output.status.success(),
        "{line}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn random_bytes(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    zoneweave_runtime::Random::new(7).fill(&mut bytes);
    bytes
}

fn with_uri(lines: &'static [&'static str]) {
    let device = |_: &Handle| -> Rc<dyn BlockDevice> { MemoryDevice::new(64 << 8) };
    serve(device, NbdLimits::default(), move |path| {
        for line in lines {
            let uri = format!("nbd+unix:///?socket={}", path.display());
            let directory = path.parent().unwrap();
            let scratch = directory.display().to_string();
            std::fs::write(path.with_file_name("in"), random_bytes(20 << 20)).unwrap();
            run(&line.replace("URI", &format!("'{uri}'")).replace("DIR", &scratch), directory);
        }
    });
}

#[test]
fn nbdinfo_finds_every_capability() {
    with_uri(&[
        "nbdinfo --can connect URI",
        "nbdinfo --can write URI",
        "nbdinfo --can flush URI",
        "nbdinfo --can fua URI",
        "nbdinfo --can trim URI",
        "nbdinfo --can zero URI",
        "nbdinfo --can fast-zero URI",
        "nbdinfo --can df URI",
        "nbdinfo --can multi-conn URI",
        "nbdinfo --can structured-reply URI",
        "nbdinfo --list URI",
        "nbdinfo --map URI | grep -q 'hole,zero'",
    ]);
}

#[test]
fn nbdcopy_brings_back_what_it_took() {
    with_uri(&["nbdcopy DIR/in URI && nbdcopy URI DIR/out && cmp -n 20971520 DIR/in DIR/out"]);
}

#[test]
fn qemu_io_writes_less_than_a_block() {
    with_uri(&["qemu-io -f raw -c 'write -P 0xaa 1000 5000' -c 'read -P 0xaa 1000 5000' \
                -c 'read -P 0 0 1000' -c 'write -z 3000 1000' -c 'read -P 0 3000 1000' \
                -c 'discard 0 64k' -c 'read -P 0 0 64k' -c flush URI"]);
}

#[test]
fn fio_verifies_unaligned_random_writes() {
    with_uri(&["fio --name=verify --ioengine=nbd --uri=URI --rw=randwrite --bsrange=512-20000 \
                --bs_unaligned --iodepth=16 --size=16m --verify=crc32c --do_verify=1"]);
}
