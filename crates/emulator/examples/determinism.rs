//! A history whose log is the same to the last byte in every build.
//!
//! Tasks read, write, append, flush, reset and finish on a timed drive through the executor. Each
//! completion is logged with its time and outcome. The checksum of the log is one constant for
//! debug and release builds: times are sums of integers, and floating point computes only sums and
//! products, which every build rounds alike. `scripts/test` runs both: `tests/determinism.rs` in
//! debug, this example in release.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;

use zoneweave_emulator::{Preset, RamDrive, Request};
use zoneweave_runtime::{Executor, Handle, Nanos, Random, VirtualTime};
use zoneweave_zoned::{
    AlignedBuffer, BlockCount, Command, Outcome, Payload, Reply, ZoneAction, ZoneAddress, ZoneId,
    ZonedDevice,
};

/// CRC-32C of the log of seed 1, in debug and in release builds.
const LOG_CHECKSUM: u32 = 3042973065;

const ZONES: u32 = 12;

type Log = Rc<RefCell<String>>;

fn answer(outcome: &Outcome) -> String {
    match outcome {
        Ok(Reply::Read(payload)) => format!("{} blocks", payload.blocks().0),
        other => format!("{other:?}"),
    }
}

/// Each task owns a zone, in which it may do whatever it likes.
async fn work(device: Rc<dyn ZonedDevice>, handle: Handle, zone: ZoneId, seed: u64, log: Log) {
    let mut random = Random::new(seed);
    let mut written = 0;
    for step in 0..400 {
        let blocks = BlockCount(1 << random.below(6));
        let payload = || Payload::new(AlignedBuffer::zeroed(blocks).freeze(), bytes::Bytes::new());
        let command = match random.below(100) {
            0..40 if written > 0 => {
                Command::Read { at: ZoneAddress::new(zone, written / 2), blocks }
            }
            0..65 => Command::Write {
                at: ZoneAddress::new(zone, written),
                payload: payload(),
                fua: false,
            },
            65..95 => Command::Append { zone, payload: payload(), fua: false },
            95 => Command::Flush,
            96 => Command::Manage { zone, action: ZoneAction::Close },
            97 => Command::Manage { zone, action: ZoneAction::Open },
            98 => Command::Manage { zone, action: ZoneAction::Finish },
            _ => Command::Manage { zone, action: ZoneAction::Reset },
        };
        let described = format!("{:?} {}", Request::from(&command).kind(), blocks.0);
        let is_reset = matches!(command, Command::Manage { action: ZoneAction::Reset, .. });
        let outcome = device.submit(command).await;
        if let Ok(Reply::Written(at)) = &outcome {
            written = at.offset.0 + blocks.0;
        } else if is_reset && outcome.is_ok() {
            written = 0;
        }
        let now = handle.now().0;
        let _ =
            writeln!(log.borrow_mut(), "{now} {} {step} {described} {}", zone.0, answer(&outcome));
    }
}

/// The log of a history.
fn history(seed: u64) -> String {
    let preset = Preset::by_name("zn540-1tb-volatile").expect("an embedded preset");
    let preset = preset.with_zones(ZONES, BlockCount(4000)).expect("a possible drive");
    let drive = RamDrive::new(preset.geometry().clone(), preset.timing(seed)).expect("a drive");
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let (handle, device) = (executor.handle(), drive.attach(&executor.handle()));
    let log = Log::default();
    let tasks: Vec<_> = (0..ZONES)
        .map(|zone| {
            let seed = seed * 1000 + u64::from(zone);
            let task = work(device.clone(), handle.clone(), ZoneId(zone), seed, log.clone());
            handle.spawn("worker", task)
        })
        .collect();
    executor.run(async {
        for task in tasks {
            task.await;
        }
        assert!(handle.now() > Nanos::from_millis(10), "the drive takes its time");
    });
    log.take()
}

/// Runs the history twice, and another one.
///
/// # Panics
/// If it depends on the build, or not on the seed.
pub(crate) fn verify() {
    let log = history(1);
    assert_eq!(log, history(1), "twice in one process");
    assert_ne!(log, history(2));
    let head: String = log.lines().take(5).map(|line| format!("{line}\n")).collect();
    assert_eq!(crc32c::crc32c(log.as_bytes()), LOG_CHECKSUM, "the log begins:\n{head}");
}

#[allow(dead_code, reason = "the test includes this file and calls `verify` itself")]
fn main() {
    verify();
}
