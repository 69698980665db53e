//! Killing the process at any point loses nothing that completed.
//!
//! The test starts its own binary as a child, which appends and resets as fast as it can, and
//! reports completions through a pipe. After enough reports the test kills the child, and checks
//! the file.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command as Process, Stdio};

use zoneweave_runtime::Random;

use zoneweave_zoned::ZoneInfo;

use super::*;

/// The name by which the test binary finds [`child`].
const CHILD: &str = "drives::file::drive::tests::kill::child";

const PATH_VARIABLE: &str = "ZONEWEAVE_TEST_KILL_PATH";
const ROUNDS: u64 = 10;
const APPENDS_AT_ONCE: u32 = 6;

/// The contents of block `offset` of a zone after `resets` resets.
fn tag(zone: ZoneId, resets: u64, append: u64) -> u64 {
    u64::from(zone.0) << 48 | resets << 24 | append
}

#[test]
#[ignore = "the child of the other test, which kills it"]
fn child() {
    let Ok(path) = std::env::var(PATH_VARIABLE) else { return };
    let ring = Ring::new().unwrap();
    let executor = Executor::new(Rc::new(ring.clone()));
    let handle = executor.handle();
    let drive = Rc::new(FileDrive::open(&ring, &handle, Path::new(&path)).unwrap());
    println!("start");
    let zones = executor.run(drive.report()).unwrap();
    let tasks: Vec<_> = zones
        .into_iter()
        .map(|zone| handle.spawn("zone", churn(drive.clone(), zone)))
        .take(4)
        .collect();
    executor.run(async {
        for task in tasks {
            task.await;
        }
    });
}

/// A single unbuffered write, so that each report is in the pipe when the process dies.
fn say(line: &str) {
    std::io::stdout().lock().write_all(format!("{line}\n").as_bytes()).unwrap();
}

async fn churn(drive: Rc<FileDrive>, mut zone: ZoneInfo) {
    loop {
        say(&format!("resetting {} {}", zone.zone.0, zone.resets));
        drive.manage(zone.zone, ZoneAction::Reset).await.unwrap();
        zone.resets = drive.report().await.unwrap()[zone.zone.index()].resets;
        say(&format!("reset {} {}", zone.zone.0, zone.resets));
        for round in 0..24 / APPENDS_AT_ONCE {
            let appends: Vec<_> = (0..APPENDS_AT_ONCE)
                .map(|i| {
                    let number = u64::from(round * APPENDS_AT_ONCE + i);
                    let payload = payload(tag(zone.zone, zone.resets, number), 1);
                    (number, drive.append(zone.zone, payload, false))
                })
                .collect();
            for (number, append) in appends {
                let at = append.await.unwrap();
                let (resets, offset) = (zone.resets, at.offset.0);
                say(&format!("appended {} {resets} {offset} {number}", zone.zone.0));
            }
        }
    }
}

/// The child's reports about one zone.
#[derive(Default)]
struct Told {
    /// The reset count at which a reset began, and the one at which it was over.
    resetting_at: Option<u64>,
    resets: u64,
    /// Appends since the last reset that was over: offset to number.
    appended: BTreeMap<u32, u64>,
}

/// Kills a child after a number of reports; returns all reports, including later ones.
fn kill_after(path: &Path, lines: u64) -> BTreeMap<u32, Told> {
    let mut child = Process::new(std::env::current_exe().unwrap())
        .args(["--exact", CHILD, "--ignored", "--nocapture"])
        .env(PATH_VARIABLE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let told = listen(output, &mut child, lines);
    child.wait().unwrap();
    told
}

fn listen(output: impl BufRead, child: &mut Child, lines: u64) -> BTreeMap<u32, Told> {
    let mut told = BTreeMap::<u32, Told>::new();
    for (number, line) in (1..).zip(output.lines()) {
        if number == lines {
            child.kill().unwrap();
        }
        let line = line.unwrap();
        let mut words = line.split(' ');
        let verb = words.next().unwrap_or_default().to_owned();
        let Ok(numbers) = words.map(str::parse::<u64>).collect::<Result<Vec<_>, _>>() else {
            continue;
        };
        let Some(zone) = numbers.first().map(|zone| u32::try_from(*zone).unwrap()) else {
            continue;
        };
        let zone = told.entry(zone).or_default();
        match verb.as_str() {
            "resetting" => zone.resetting_at = Some(numbers[1]),
            "reset" => *zone = Told { resets: numbers[1], ..Told::default() },
            "appended" => {
                assert_eq!(zone.resets, numbers[1]);
                zone.appended.insert(u32::try_from(numbers[2]).unwrap(), numbers[3]);
            }
            _ => {}
        }
    }
    told
}

async fn check_zone(drive: &FileDrive, zone: &ZoneInfo, told: Option<&Told>) -> usize {
    let blocks = zone.write_pointer.0;
    let mut found = BTreeMap::new();
    for offset in 0..blocks {
        let at = ZoneAddress::new(zone.zone, offset);
        let read = drive.read(at, BlockCount(1)).await.unwrap();
        let bytes = read.block(0);
        let number = u64::from_le_bytes(bytes[..8].try_into().unwrap()) & 0xff_ffff;
        let wanted = payload(tag(zone.zone, zone.resets, number), 1);
        assert_eq!(read, wanted, "{at}: a hole, or a block of another time or place");
        found.insert(offset, number);
    }
    let Some(told) = told else { return 0 };
    let expected_resets = told.resets.max(told.resetting_at.unwrap_or(0));
    if zone.resets == expected_resets {
        let survived = told.appended.iter().filter(|(o, n)| found.get(o) == Some(n)).count();
        let due = if zone.resets == told.resets { told.appended.len() } else { 0 };
        assert!(survived >= due, "{} of {due} appends survive in {zone:?}", survived);
        return due;
    }
    assert_eq!(Some(zone.resets), told.resetting_at.map(|resets| resets + 1));
    0
}

#[test]
fn completed_writes_survive_the_death_of_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive");
    FileDrive::create(&path, geometry(), UUID).unwrap();
    let mut random = Random::new(1);
    let mut checked = 0;
    for round in 0..ROUNDS {
        // A zone is reset every 26 lines, four take turns: at least one reset, most of them
        // several.
        let told = kill_after(&path, 200 + random.below(1000));
        let ring = Ring::new().unwrap();
        let executor = Executor::new(Rc::new(ring.clone()));
        let drive = FileDrive::open(&ring, &executor.handle(), &path).unwrap();
        checked += executor.run(async {
            let mut checked = 0;
            for zone in drive.report().await.unwrap() {
                checked += check_zone(&drive, &zone, told.get(&zone.zone.0)).await;
            }
            checked
        });
        assert!(told.values().any(|zone| zone.resets > round), "the child did work");
    }
    assert!(checked > 0, "some rounds had completed appends to look for");
}
