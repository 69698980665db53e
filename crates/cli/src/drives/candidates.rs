//! Paths that may lead to a drive: of this machine, and in folders.
//!
//! A device is a candidate by its name and by what the kernel reports of it, so that nothing else
//! is opened: a disk may be slow to spin up, and a tape would rewind.

use std::fs;
use std::path::{Path, PathBuf};

use crate::drives::paths::natural_order;
use crate::error::CliError;

/// The files among the paths, and the files in the folders among them, in order.
pub(crate) fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let failed =
            |error| CliError::File { path: path.clone(), action: "list the directory", error };
        let mut found = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?.path();
            if entry.is_file() {
                found.push(entry);
            }
        }
        found.sort_by(|one, other| natural_order(one, other));
        files.extend(found);
    }
    Ok(files)
}

/// The zoned drives of this machine, each by the path to use.
pub(crate) fn devices() -> Vec<PathBuf> {
    devices_of(Path::new("/"))
}

/// Those of a machine whose files are below `root`.
fn devices_of(root: &Path) -> Vec<PathBuf> {
    let zoned = names(&root.join("sys/class/block")).into_iter().filter(|name| {
        let setting = root.join("sys/class/block").join(name).join("queue/zoned");
        // Partitions have no queue.
        let is_zoned = fs::read_to_string(setting).is_ok_and(|zoned| zoned.trim() != "none");
        // Reading the disk of a server that died waits for the next one.
        is_zoned && !name.starts_with("ublkb")
    });
    let characters = names(&root.join("dev")).into_iter().filter(|name| is_namespace("ng", name));
    let mut all: Vec<_> = zoned
        .filter(|name| {
            // The character device of the same namespace has metadata and appends.
            let better = name.strip_prefix("nvme").map(|rest| format!("ng{rest}"));
            !better.is_some_and(|better| root.join("dev").join(better).exists())
        })
        .chain(characters)
        .map(|name| root.join("dev").join(name))
        .collect();
    all.sort_by(|one, other| natural_order(one, other));
    all
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Whether a name is `prefix`, a number, `n` and a number.
fn is_namespace(prefix: &str, name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name.strip_prefix(prefix).and_then(|rest| rest.split_once('n'));
    numbers.is_some_and(|(one, other)| is_number(one) && is_number(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zoned_devices_are_candidates_each_by_its_best_path() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        let disks = [
            ("sda", "none\n"),
            ("sdb", "host-managed\n"),
            ("nvme0n1", "host-managed\n"),
            ("nvme1n1", "host-managed\n"),
            ("ublkb0", "host-managed\n"),
        ];
        for (name, zoned) in disks {
            write(&format!("sys/class/block/{name}/queue/zoned"), zoned);
        }
        write("sys/class/block/sdb1/partition", "1\n");
        for name in ["sda", "sdb", "ng0n1", "ng0", "nginx", "nvme0n1", "nvme1n1"] {
            write(&format!("dev/{name}"), "");
        }
        let found = devices_of(root.path());
        let names = found.iter().map(|path| path.strip_prefix(root.path()).expect("below"));
        let names: Vec<_> = names.map(|path| path.display().to_string()).collect();
        assert_eq!(names, ["dev/ng0n1", "dev/nvme1n1", "dev/sdb"]);
        assert!(devices_of(Path::new("/nowhere")).is_empty());
    }
}
