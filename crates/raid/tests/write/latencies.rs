//! Times of users' requests, counted by operation.

use zoneweave_runtime::{Handle, Nanos, Random};
use zoneweave_zoned::{BlockDevice, BlockFuture, Lba, Operation};

use crate::support::life::live;
use crate::support::{Array, Shape, contents};

/// Waits for a request; returns how long it took.
async fn took<T>(handle: &Handle, request: BlockFuture<T>) -> Nanos {
    let begun = handle.now();
    assert!(request.await.is_ok(), "it succeeds");
    handle.now().since(begun)
}

#[test]
fn each_request_that_succeeds_is_counted_with_its_time() {
    let shape = Shape { volatile: true, ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(4));
    live(&array, async |volume, _, handle| {
        assert_eq!(volume.latencies(), []);
        let data = || vec![contents(3, 1)];
        let write = took(handle, volume.write(Lba(3), data(), false)).await;
        let durable = took(handle, volume.write(Lba(3), data(), true)).await;
        let flush = took(handle, volume.flush()).await;
        let read = took(handle, volume.read(Lba(3), 1)).await;
        let zero = took(handle, volume.write_zeroes(Lba(3), 1, false)).await;
        let trim = took(handle, volume.trim(Lba(0), 9, false)).await;
        assert!(volume.read(Lba(array.blocks), 1).await.is_err());
        let expected = [
            (Operation::Read, 1, read),
            (Operation::Write, 2, write + durable),
            (Operation::Trim, 1, trim),
            (Operation::WriteZeroes, 1, zero),
            (Operation::Flush, 1, flush),
        ];
        let counted = volume.latencies().into_iter();
        let counted: Vec<_> =
            counted.map(|(operation, times)| (operation, times.count(), times.sum())).collect();
        assert_eq!(counted, expected);
        assert!(read > Nanos::ZERO && write > Nanos::ZERO, "drives take their time");
    });
}
