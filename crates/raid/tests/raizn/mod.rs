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

use crate::support::for_each_seed;

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
