//! A single drive, written one request at a time: the reference of an array's latency.

use zoneweave_zoned::{
    BlockCount, Payload, ZoneAddress, ZoneId, ZoneOffset, ZonedDeviceExt, zero_blocks,
};

use crate::experiments::zapraid::loads::writes::{figures_of, three_and_one};
use crate::experiments::{ExperimentError, Values};
use crate::testbed::Testbed;
use crate::workload::{Host, Recorder, WorkloadError};

const WRITES: u32 = 4000;

/// Zone Writes of so many blocks.
pub(crate) fn run(blocks: u32, seed: u64) -> Result<Values, ExperimentError> {
    let testbed = Testbed::new("zn540-4tb", three_and_one(), 2, seed)?;
    testbed.run_drives(Host::SPDK, async |drives, bench| {
        let (mut recorder, begun) = (Recorder::new(), bench.handle.now());
        let count = BlockCount(blocks);
        for number in 0..WRITES {
            let at = ZoneAddress { zone: ZoneId(0), offset: ZoneOffset(number * blocks) };
            let payload = Payload::new(zero_blocks(count), vec![0; count.oob_bytes()].into());
            let started = bench.handle.now();
            drives[0].write(at, payload, false).await.map_err(|status| WorkloadError::Drive {
                operation: "a write",
                zone: at.zone,
                status,
            })?;
            recorder.record(bench.handle.now().since(started), count.data_bytes() as u64);
        }
        Ok(figures_of(&recorder.figures(bench.handle.now().since(begun))))
    })
}
