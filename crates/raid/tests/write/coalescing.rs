//! Coalesced writes to the zones of one segment, with about two stripes of requests in flight.
//! Every zone proceeds by itself.

use crate::support::life::{assert_holds, live, one_life, put, with};
use crate::support::{Array, Shape, read_all};
use zoneweave_emulator::timing::{CommandId, Schedule, Timing};
use zoneweave_emulator::{CommandKind, FaultAction, RamDrive, Request, Selector};
use zoneweave_raid::log::{Lanes, Volume, WritePolicy};
use zoneweave_runtime::{Handle, JoinHandle, Nanos, Random};
use zoneweave_zoned::{BlockCount, Geometry, Status, ZoneSet};

const CLIENTS: u64 = 8;
const BLOCKS: u64 = 480;
const VERSIONS: u64 = 100;
const ONE: Lanes = Lanes { count: 1, chunk_blocks: 1 };
const SHAPE: fn() -> Shape =
    || Shape { zones: 12, zone_blocks: 2000, volume_blocks: Some(BLOCKS), ..Shape::small() };

/// A drive that takes as long for two blocks as for one, and now and then stalls.
#[derive(Clone)]
struct AlwaysAsLong {
    random: Random,
    least: Nanos,
    spread: Nanos,
    stalls_per_mille: u64,
}

impl Timing for AlwaysAsLong {
    fn schedule(
        &mut self,
        _id: CommandId,
        _request: &Request,
        _zones: &ZoneSet,
        now: Nanos,
    ) -> Option<Schedule> {
        let stalls = self.random.per_mille(self.stalls_per_mille);
        let stall = if stalls { Nanos::from_micros(200) } else { Nanos::ZERO };
        let then = now + self.least + Nanos(self.random.below(self.spread.0 + 1)) + stall;
        Some(Schedule { applied: then, completed: then })
    }
}

fn array_of(data: usize, least: Nanos, spread: Nanos, stalls_per_mille: u64) -> Array {
    let shape = Shape { data, ..SHAPE() };
    let geometry = Geometry::new(shape.zones, BlockCount(shape.zone_blocks));
    let drives = (0..=data as u64).map(|seed| {
        let random = Random::new(seed);
        let timing = AlwaysAsLong { random, least, spread, stalls_per_mille };
        RamDrive::new(geometry.clone(), timing).unwrap()
    });
    Array::on(shape, drives.collect(), &mut Random::new(7))
}

/// Drives that are always as fast, or nearly so.
fn even() -> Array {
    array_of(3, Nanos::from_micros(15), Nanos::from_micros(1), 0)
}

/// Drives that take up to 100 us, each by itself.
fn uneven() -> Array {
    Array::create(SHAPE(), &mut Random::new(7))
}

/// Eight drives that stall now and then, each by itself: a client that waits for all of them waits
/// for every stall.
fn stalling() -> Array {
    array_of(7, Nanos::from_micros(15), Nanos::ZERO, 5)
}

/// One segment, with chunks of a block, on drives that are told to be hardly faster with larger
/// writes.
fn adaptive() -> WritePolicy {
    WritePolicy { even_blocks: Some(1), ..WritePolicy::adaptive(ONE, Lanes::default()) }
}

/// The same, but every chunk is written by itself.
fn one_by_one() -> WritePolicy {
    WritePolicy::zone_write(ONE, Lanes::default())
}

/// Writes all blocks so many times, by clients that pause before each next request.
async fn write_all(volume: &Volume, handle: &Handle, versions: u64, think: Nanos) {
    for client in spawn_clients(volume, handle, versions, think) {
        client.await;
    }
}

fn spawn_clients(
    volume: &Volume,
    handle: &Handle,
    versions: u64,
    think: Nanos,
) -> Vec<JoinHandle<()>> {
    let clients = (0..CLIENTS).map(|client| {
        let (volume, asking) = (volume.clone(), handle.clone());
        handle.spawn("client", async move {
            for write in (0..BLOCKS * versions).filter(|write| write % CLIENTS == client) {
                put(&volume, write % BLOCKS, 1 + write / BLOCKS).await.unwrap();
                if think > Nanos::ZERO {
                    asking.sleep(think).await;
                }
            }
        })
    });
    clients.collect()
}

/// The time of all writes.
fn time_of(array: &Array, policy: WritePolicy, think: Nanos) -> Nanos {
    let life = one_life(array, &[], with(policy), async |volume, _, handle| {
        put(volume, 0, 1).await.unwrap();
        let begun = handle.now();
        write_all(volume, handle, VERSIONS, think).await;
        let took = handle.now().since(begun);
        assert_holds(volume, BLOCKS, VERSIONS).await;
        took
    });
    life.expect("the array starts")
}

#[test]
fn coalesced_writes_are_as_fast_as_single_chunks() {
    for think in [Nanos::ZERO, Nanos::from_micros(1)] {
        for array in [even, uneven, stalling] {
            let alone = time_of(&array(), one_by_one(), think);
            let took = time_of(&array(), adaptive(), think);
            assert!(took.0 * 100 < alone.0 * 105, "{took:?} for {alone:?}");
        }
    }
}

/// After any event on a drive all zones make progress.
#[test]
fn zones_make_progress_after_any_fault_of_one() {
    let faults = [
        FaultAction::Gone,
        FaultAction::Fail(Status::WriteFault),
        FaultAction::Slow(Nanos::from_secs(1)),
        FaultAction::ReadOnly,
    ];
    for (fault, write) in faults.into_iter().flat_map(|fault| (20..32).map(move |at| (fault, at))) {
        let array = uneven();
        let selector = Selector::next(CommandKind::Write).after(write).times(1);
        let life = one_life(&array, &[], with(adaptive()), async |volume, _, handle| {
            put(volume, 0, 1).await.unwrap();
            array.drives[1].inject(selector, fault);
            write_all(volume, handle, 1, Nanos::ZERO).await;
            assert_holds(volume, BLOCKS, 1).await;
        });
        life.expect("the array starts");
        live(&array, async |volume, _, _| assert_holds(volume, BLOCKS, 1).await);
    }
}

/// No zone waits for a write that hangs on a drive which was taken out of service.
#[test]
fn zones_do_not_wait_for_a_drive_that_was_taken_out() {
    let written = (20..32).map(|write| {
        let array = even();
        let selector = Selector::next(CommandKind::Write).after(write).times(1);
        let life = one_life(&array, &[], with(adaptive()), async |volume, _, handle| {
            put(volume, 0, 1).await.unwrap();
            array.drives[1].inject(selector, FaultAction::Slow(Nanos::from_secs(1000)));
            let clients = spawn_clients(volume, handle, 1, Nanos::ZERO);
            handle.sleep(Nanos::from_millis(5)).await;
            volume.fail(1).await.unwrap();
            handle.sleep(Nanos::from_secs(1)).await;
            let blocks = read_all(volume, BLOCKS).await.unwrap();
            for client in clients {
                client.await;
            }
            assert_holds(volume, BLOCKS, 1).await;
            blocks.into_iter().sum::<u64>()
        });
        life.expect("the array starts")
    });
    let written: Vec<_> = written.collect();
    // Three clients wait for a write of one chunk, six for one of two; the others complete.
    assert!(written.iter().all(|blocks| blocks * 8 >= 2 * BLOCKS), "{written:?} of {BLOCKS}");
    assert!(written.iter().any(|blocks| blocks * 8 >= 5 * BLOCKS), "{written:?} of {BLOCKS}");
}
