//! The zoned volume through its public interface.
//!
//! `life` runs random commands until a crash and checks, after the next start, what the contract of
//! a logical zoned volume (docs/promises.md) allows. `model` is the oracle.

mod drives;
mod expelling;
mod faults;
mod finishes;
mod jobs;
mod junk;
#[allow(clippy::cast_possible_truncation, reason = "a few drives, zones and blocks")]
mod life;
mod limits;
mod logs;
mod model;
mod repair;
mod resets;
mod returning;
mod scrub;
mod stalling;
mod tails;

use zoneweave_runtime::Nanos;
use zoneweave_zoned::{
    BlockCount, OobKind, Operation, ZoneAction, ZoneAddress, ZoneId, ZonedDeviceExt,
};

use crate::support::for_each_seed;
use drives::{UNIT, create_on, executor, start, write};

/// Commands in flight, crashes of the process and of the power, and starts, many times over.
#[test]
fn zones_survive_crashes() {
    for_each_seed("raizn", "zones_survive_crashes", |seed| life::history(seed, life::Losses::None));
}

/// As above; now and then a member is lost before, at or after a crash.
#[test]
fn zones_survive_crashes_and_a_lost_member() {
    let name = "zones_survive_crashes_and_a_lost_member";
    for_each_seed("raizn", name, |seed| life::history(seed, life::Losses::Some));
}

/// A zone was finished whose last parity unit had junk in its place, and a crash took the relocated
/// parity. The next start took the write pointer behind the junk for that of parity in place, so
/// the zone could not be read without the member that held its last data.
#[test]
fn an_interrupted_finish_relocates_its_parity() {
    life::history(1484, life::Losses::Some);
}

#[test]
fn each_command_that_succeeds_is_counted_with_its_time() {
    let drives = drives::drives(OobKind::Separate, 240);
    let executor = executor();
    let handle = executor.handle();
    executor.run(async {
        create_on(&drives, &handle, UNIT).await;
        let volume = start(&drives, &handle).await;
        assert_eq!(volume.latencies(), []);
        let begun = handle.now();
        write(&volume, 1, 0, 3).await.unwrap();
        let written = handle.now().since(begun);
        let read = volume.read(ZoneAddress::new(ZoneId(1), 0), BlockCount(2));
        read.await.unwrap();
        volume.flush().await.unwrap();
        volume.manage(ZoneId(1), ZoneAction::Finish).await.unwrap();
        volume.manage(ZoneId(1), ZoneAction::Reset).await.unwrap();
        // A zone that is empty is not at its fifth block.
        write(&volume, 1, 4, 1).await.unwrap_err();
        volume.report().await.unwrap();
        let latencies = volume.latencies();
        let counts: Vec<_> =
            latencies.iter().map(|(operation, times)| (*operation, times.count())).collect();
        use Operation::{Finish, Flush, Read, Reset, Write};
        assert_eq!(counts, [(Read, 1), (Write, 1), (Flush, 1), (Reset, 1), (Finish, 1)]);
        assert_eq!(latencies[1].1.sum(), written);
        assert!(written > Nanos::ZERO, "drives take their time");
        volume.close().await;
    });
}
