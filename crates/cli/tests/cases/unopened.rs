//! Drives that cannot be opened, or are late, of shards and of zoned volumes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::{Case, DATA, Kind};
use crate::common::{MEMBERS, pattern};

/// All but one of [`MEMBERS`].
const THREE: &str = "d/drive0 d/drive1 d/drive2";

/// Reasons why a drive is not opened.
const REASONS: [&str; 4] = ["does not exist", "is a directory", "symbolic links", "truncated"];

/// Puts something into the place of a drive that is not opened for this reason.
fn put(reason: &str, path: &Path, drive: &Path) {
    match reason {
        "is a directory" => fs::create_dir(path).unwrap(),
        "symbolic links" => symlink(path, path).unwrap(),
        "truncated" => truncated(path, drive),
        _ => {}
    }
}

fn truncated(path: &Path, drive: &Path) {
    fs::copy(drive, path).unwrap();
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() - 4096).unwrap();
}

/// Whatever starts the array, it was out of service when the reason was gone.
#[test]
fn a_drive_that_cannot_be_opened_refuses_every_start() {
    for kind in [Kind::Shards, Kind::Zoned] {
        let case = Case::with_data(kind);
        let (drive, kept) = (case.place.path("d/drive3"), case.place.path("kept"));
        fs::rename(&drive, &kept).unwrap();
        let mut starts = vec![
            case.serves(MEMBERS),
            format!("array scrub {MEMBERS}"),
            format!("array fail {MEMBERS} --slot 1"),
            format!("array replace {MEMBERS} --slot 1 --with n/drive0 --yes-destroy"),
        ];
        if kind == Kind::Zoned {
            starts.push(format!("zoned reset {MEMBERS} --zone 0"));
        }
        let folders = ["d", "s", "n"];
        for reason in REASONS {
            put(reason, &drive, &kept);
            let media = case.media(&folders);
            for words in &starts {
                let refused = case.place.run(words);
                assert_ne!(refused.code, 0, "{kind:?} {words}: {refused:#?}");
                refused.complains(reason);
            }
            assert!(case.media(&folders) == media, "{kind:?}: {reason}");
            let _ = fs::remove_dir(&drive);
            let _ = fs::remove_file(&drive);
        }
        case.place.run(&case.serves(MEMBERS)).exits(3).complains("--without d/drive3");
        fs::rename(&kept, &drive).unwrap();
        case.is_whole();
    }
}

/// A store was opened without the drive, which was out of service from then on.
#[test]
fn a_store_is_not_opened_without_a_drive_that_was_named() {
    let case = Case::new(Kind::Zoned);
    let store = MEMBERS.replace(' ', ",");
    case.place.run(&format!("fs mkfs {store}")).exits(0);
    let (drive, kept) = (case.place.path("d/drive3"), case.place.path("kept"));
    fs::rename(&drive, &kept).unwrap();
    let media = case.media(&["d"]);
    for verb in ["serve", "ls", "mkfs --yes-destroy"] {
        let refused = case.place.run(&format!("fs {verb} {store}"));
        assert_ne!(refused.code, 0, "{verb}: {refused:#?}");
        refused.complains("d/drive3 does not exist");
    }
    assert!(case.media(&["d"]) == media);
    fs::rename(&kept, &drive).unwrap();
    let check = format!("array status {MEMBERS} --check");
    case.place.run(&check).exits(0);
    case.place.serve_store(&store).stop();
    case.place.run(&check).exits(0);
}

/// Only the shard that misses a write may expel its missing member.
#[test]
fn a_late_drive_costs_nothing_while_only_the_other_shard_is_written() {
    let case = Case::new(Kind::Shards);
    let server = case.serve(MEMBERS);
    let mut client = server.client();
    client.write(0, &pattern(8, DATA));
    client.flush();
    drop(client);
    server.stop();
    let late = fs::read(case.place.path("d/drive3")).unwrap();
    let server = case.serve(THREE);
    let mut client = server.client();
    assert!(client.read(0, DATA) == pattern(8, DATA));
    // The first units, of 256 KiB each, are of shards 0 and 1.
    client.write(0, &pattern(8, 64 << 10));
    client.flush();
    drop(client);
    case.place.run("array status d/drive0 --check").exits(11).says("has missed no write yet");
    server.stop();
    assert!(fs::read(case.place.path("d/drive3")).unwrap() == late);
    case.is_whole();
}
