//! Mishaps of operators on a volume of each kind: a block volume of one array or of two shards, and
//! a zoned one. What is refused changes no byte and takes no drive out of service.
//!
//! `tests/clients/test_cases.py` has others, against the release build.

mod lost_parts;
mod media;
mod orders;
mod rebuilds;
mod replaced;
mod several;
mod silent;
mod told;
mod unopened;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::SystemTime;

use serde_json::Value;

use crate::common::{MEMBERS, Place, Server, pattern, unbroken};

/// Kinds of volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Log,
    Shards,
    Zoned,
}

const KINDS: [Kind; 3] = [Kind::Log, Kind::Shards, Kind::Zoned];

/// The drives of shard 0.
const FIRST: &str = "s/drive0 s/drive1 s/drive2 s/drive3";

/// Zones of drives that hold little.
const SMALL: &str = "--zones 24 --zone-capacity 1MiB";

/// Bytes that a volume with data holds.
const DATA: usize = 1 << 20;

/// A volume `vol0` whose array consists of [`MEMBERS`]. Of a volume of shards, they are the second
/// one. The drives `n/drive0` and `n/drive1` are blank.
struct Case {
    kind: Kind,
    place: Place,
}

impl Case {
    /// A volume without data.
    fn new(kind: Kind) -> Self {
        Self::of(kind, "raid5", SMALL)
    }

    /// A volume of this level, on drives with these zones.
    fn of(kind: Kind, level: &str, zones: &str) -> Self {
        let case = Self { kind, place: Place::new() };
        let first = (kind == Kind::Shards).then_some(("s", 4));
        for (folder, drives) in first.into_iter().chain([("d", 4), ("n", 2)]) {
            case.place.run(&format!("emu create {folder} --drives {drives} {zones}")).exits(0);
        }
        let options = match kind {
            Kind::Log => "--size max",
            Kind::Shards => "--size max --shards 2",
            Kind::Zoned => "--kind zoned --unit 16KiB",
        };
        let all = case.with(MEMBERS);
        case.place.run(&format!("array create vol0 {all} --level {level} {options}")).exits(0);
        case
    }

    /// A volume with data, whose server was killed: its next start has something to write.
    fn with_data(kind: Kind) -> Self {
        let case = Self::new(kind);
        let server = case.serve(MEMBERS);
        let data = pattern(8, DATA);
        if kind == Kind::Zoned {
            case.write_zone(0, &data);
        } else {
            let mut client = server.client();
            client.write(0, &data);
            client.flush();
        }
        server.kill();
        case
    }

    /// Drives of the array, with those of the other shard.
    fn with(&self, drives: &str) -> String {
        match self.kind {
            Kind::Shards => format!("{FIRST} {drives}"),
            Kind::Log | Kind::Zoned => drives.to_owned(),
        }
    }

    /// The command that serves drives of the array, with options.
    fn serves(&self, drives: &str) -> String {
        let drives = self.with(drives);
        match self.kind {
            Kind::Log | Kind::Shards => format!("serve nbd {drives} --socket unix:s.sock"),
            Kind::Zoned => format!("serve zoned {drives}"),
        }
    }

    /// Serves drives of the array; returns when it is announced.
    fn serve(&self, drives: &str) -> Server {
        let announces = if self.kind == Kind::Zoned { "ready" } else { "nbdinfo '" };
        self.place.start(&self.serves(drives), announces)
    }

    /// Writes to a zone of the volume, which is served.
    fn write_zone(&self, zone: u32, data: &[u8]) {
        let mut command = self.place.command(&format!("zoned write d/drive0 --zone {zone}"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(data).unwrap();
        assert!(child.wait().unwrap().success(), "zone {zone}");
    }

    /// The first bytes of the volume, which is served.
    fn read(&self, server: &Server) -> Vec<u8> {
        if self.kind != Kind::Zoned {
            return server.client().read(0, DATA);
        }
        let read = self.place.command("zoned read d/drive0 --zone 0").output().unwrap();
        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
        read.stdout[..DATA].to_vec()
    }

    /// The status of the array, which is served.
    fn status(&self) -> Value {
        let status = self.place.run("--json array status d/drive0").exits(0);
        let status = status.document("array-status");
        if self.kind == Kind::Shards { status["shards"][1].clone() } else { status }
    }

    /// Waits until the status of the array is as wanted.
    #[track_caller]
    fn wait_for(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..2000 {
            let found = self.status();
            if wanted(&found) {
                return found;
            }
        }
        panic!("{:?} never: {}", self.kind, self.status());
    }

    /// Asserts that every drive is in service, and that the data of [`Case::with_data`] is there.
    #[track_caller]
    fn is_whole(&self) {
        let check = format!("array status {} --check", self.with(MEMBERS));
        self.place.run(&check).exits(0);
        let server = self.serve(MEMBERS);
        self.place.run(&check).exits(0);
        assert!(self.read(&server) == pattern(8, DATA), "{:?} has other data", self.kind);
        server.stop();
        self.place.run(&check).exits(0);
    }

    /// Copies the drives of the array to `copy`.
    fn copy(&self) {
        fs::create_dir(self.place.path("copy")).unwrap();
        for drive in 0..4 {
            let of = |folder: &str| self.place.path(&format!("{folder}/drive{drive}"));
            fs::copy(of("d"), of("copy")).unwrap();
        }
    }

    /// Files in folders, with the times at which they were written.
    fn written(&self, folders: &[&str]) -> Vec<(PathBuf, SystemTime)> {
        let entries = folders.iter().flat_map(|folder| fs::read_dir(self.place.path(folder)));
        let written = |entry: fs::DirEntry| {
            let written = entry.metadata().unwrap().modified().unwrap();
            (entry.path(), written)
        };
        let mut found: Vec<_> = entries.flatten().map(|entry| written(entry.unwrap())).collect();
        found.sort();
        found
    }

    /// Checksums of the drives in folders.
    fn media(&self, folders: &[&str]) -> Vec<(PathBuf, u32)> {
        let sum = |path: PathBuf| {
            let sum = crc32c::crc32c(&fs::read(&path).unwrap());
            (path, sum)
        };
        let written = self.written(folders).into_iter();
        written.filter(|(path, _)| path.is_file()).map(|(path, _)| sum(path)).collect()
    }

    /// Runs commands, with their exit codes and a part of what they say. None of them may change a
    /// drive in these folders.
    #[track_caller]
    fn changes_nothing(&self, folders: &[&str], table: &[(String, i32, &str)]) {
        let media = self.media(folders);
        let mut written = self.written(folders);
        for (words, code, says) in table {
            let ended = self.place.run(words);
            let told = unbroken(&format!("{}{}", ended.stdout, ended.stderr));
            assert_eq!(ended.code, *code, "{:?} {words}: {ended:#?}", self.kind);
            assert!(told.contains(says), "{:?} {words}: {says:?} is not in {ended:#?}", self.kind);
            // Only files that were written are read again.
            let now = self.written(folders);
            assert!(now == written || self.media(folders) == media, "{words} changed a drive");
            written = now;
        }
    }
}

/// A path in the directory of a test, as advice has it.
fn absolute(place: &Place, drive: &str) -> String {
    place.path(drive).display().to_string()
}
