//! Zones of a segment that go on together, where requests in flight fill two stripes.

#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod support;

use support::life::{assert_holds, live, one_life, put};
use support::{Array, Shape};
use zoneweave_emulator::{CommandKind, FaultAction, Selector};
use zoneweave_raid::log::{Lanes, OpenOptions, Volume, WriteChoice, WritePolicy};
use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::Status;

const CLIENTS: u64 = 8;
const BLOCKS: u64 = 480;
const ONE: Lanes = Lanes { count: 1, chunk_blocks: 1 };

fn array() -> Array {
    let shape = Shape { zones: 12, zone_blocks: 300, volume_blocks: Some(960), ..Shape::small() };
    Array::create(shape, &mut Random::new(7))
}

/// One segment, with chunks of a block, on drives that are hardly faster with larger writes.
fn adaptive() -> WritePolicy {
    WritePolicy { even_blocks: Some(1), ..WritePolicy::adaptive(ONE, Lanes::default()) }
}

/// The same, but every chunk is written by itself.
fn one_by_one() -> WritePolicy {
    WritePolicy::zone_write(ONE, Lanes::default())
}

fn with(policy: WritePolicy) -> OpenOptions {
    OpenOptions { writes: WriteChoice::Policy(policy), ..OpenOptions::default() }
}

/// Writes all blocks, as clients that think for a while before they ask again; what that took.
async fn write_all(volume: &Volume, handle: &Handle, think: Nanos) -> Nanos {
    let begun = handle.now();
    let clients = (0..CLIENTS).map(|client| {
        let (volume, asking) = (volume.clone(), handle.clone());
        handle.spawn("client", async move {
            for lba in (0..BLOCKS).filter(|lba| lba % CLIENTS == client) {
                put(&volume, lba, 1).await.unwrap();
                if think > Nanos::ZERO {
                    asking.sleep(think).await;
                }
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await;
    }
    handle.now().since(begun)
}

/// Blocks that drives were given in one write, in thousandths, and what all of it took.
fn written_at_a_time(policy: WritePolicy, think: Nanos) -> (u64, Nanos) {
    let array = array();
    let life = one_life(&array, &[], with(policy), async |volume, _, handle| {
        put(volume, 0, 1).await.unwrap();
        let before = array.drives[0].counters();
        let took = write_all(volume, handle, think).await;
        let after = array.drives[0].counters();
        let (blocks, writes) =
            (after.written_blocks - before.written_blocks, after.writes - before.writes);
        assert_holds(volume, BLOCKS, 1).await;
        (blocks * 1000 / writes, took)
    });
    life.expect("the array starts")
}

#[test]
fn one_chunk_and_two_are_written_by_turns_where_more_comes_at_once() {
    let (at_a_time, _) = written_at_a_time(adaptive(), Nanos::ZERO);
    assert!((1400..1600).contains(&at_a_time), "{at_a_time} thousandths of a block");
}

#[test]
fn nobody_waits_for_clients_that_take_their_time() {
    let think = Nanos::from_micros(1);
    let (_, alone) = written_at_a_time(one_by_one(), think);
    let (at_a_time, took) = written_at_a_time(adaptive(), think);
    assert!(at_a_time < 1100, "{at_a_time} thousandths of a block");
    assert!(took.0 * 100 < alone.0 * 103, "{took:?} for {alone:?}");
}

/// Whatever happens to a drive while zones wait for each other, all of them go on.
#[test]
fn zones_go_on_whatever_becomes_of_one() {
    let faults = [
        FaultAction::Gone,
        FaultAction::Fail(Status::WriteFault),
        FaultAction::Slow(Nanos::from_secs(1)),
        FaultAction::ReadOnly,
    ];
    for (fault, write) in faults.into_iter().flat_map(|fault| (20..32).map(move |at| (fault, at))) {
        let array = array();
        let selector = Selector::next(CommandKind::Write).after(write).times(1);
        let life = one_life(&array, &[], with(adaptive()), async |volume, _, handle| {
            put(volume, 0, 1).await.unwrap();
            array.drives[1].inject(selector, fault);
            write_all(volume, handle, Nanos::ZERO).await;
            assert_holds(volume, BLOCKS, 1).await;
        });
        life.expect("the array starts");
        live(&array, async |volume, _, _| assert_holds(volume, BLOCKS, 1).await);
    }
}
