//! Replays a trace on an emulated array, in virtual time.

use std::rc::Rc;

use serde::Serialize;
use zoneweave_emulator::preset;
use zoneweave_raid::log::WriteChoice;
use zoneweave_raid::scheme::Scheme;
use zoneweave_runtime::Nanos;
use zoneweave_zoned::{BlockCount, BlockDevice};

use super::fold::{REQUEST_BLOCKS_MAX, fold};
use super::{TIME_MAX_NS, TraceRequest};
use crate::experiments::ExperimentError;
use crate::testbed::Testbed;
use crate::workload::{BlockRequest, Driver, Figures, Host, WorkloadError};

/// Maximum requests in flight at recorded times; others wait, which counts as latency.
const IN_FLIGHT_MOST: u32 = 1024;

/// The time of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// At their recorded times, multiplied by this factor.
    Recorded(f64),
    /// At a fixed queue depth.
    QueueDepth(u32),
}

/// An array, and the way of replaying a trace on it.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Name of the drives' preset.
    pub preset: &'static str,
    /// Redundancy of the array.
    pub scheme: Scheme,
    /// Capacity of a zone. Latencies of zone management are scaled by it if it is less than the
    /// preset's.
    pub zone_blocks: u32,
    /// Size of the volume.
    pub volume_blocks: u64,
    /// Reserved space, in percent of the volume.
    pub reserve_percent: u32,
    /// The volume's write policy.
    pub writes: WriteChoice,
    /// Blocks of a chunk, fixed when the array is created.
    pub chunk_blocks: u32,
    /// The time of requests.
    pub pace: Pace,
    /// Seed of the drives' latencies.
    pub seed: u64,
}

/// The measurements of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Replayed {
    /// All requests.
    pub all: Figures,
    /// Reads.
    pub reads: Figures,
    /// Writes.
    pub writes: Figures,
    /// Written blocks per user block, without parity.
    pub write_amplification: f64,
}

impl Replay {
    /// The static name of a preset.
    #[must_use]
    pub fn preset_named(name: &str) -> Option<&'static str> {
        preset::names().into_iter().find(|known| *known == name)
    }

    /// Replays the requests of `next` until it returns none.
    ///
    /// # Errors
    ///
    /// If the array cannot be made, a drive fails, or `next` fails.
    pub fn run<E: From<ExperimentError> + From<WorkloadError>>(
        &self,
        next: impl FnMut() -> Result<Option<TraceRequest>, E>,
    ) -> Result<Replayed, E> {
        let data = u64::try_from(self.scheme.data()).unwrap_or(u64::MAX);
        let room = u128::from(self.volume_blocks) * u128::from(100 + self.reserve_percent) / 100;
        let stripe = u128::from(self.zone_blocks) * u128::from(data);
        let zones = u32::try_from(room.div_ceil(stripe.max(1))).unwrap_or(u32::MAX);
        let testbed = Testbed::new(self.preset, self.scheme, zones, self.seed)?;
        let testbed = testbed
            .allowing_segments(self.segments_asked_for())
            .with_zones_of(BlockCount(self.zone_blocks))?
            .with_volume_of(self.volume_blocks);
        testbed.run_as(
            self.writes.clone(),
            self.chunk_blocks,
            Host::SPDK,
            async |volume, bench| {
                let device: Rc<dyn BlockDevice> = Rc::new(volume.clone());
                let blocks = device.info().blocks;
                let driven =
                    self.driver(blocks).drive(&bench.handle, &device, self.folded(next, blocks));
                let driven = match driven.await {
                    Ok(driven) => driven,
                    Err(error) => return Ok(Err(error)),
                };
                Ok(Ok(Replayed {
                    all: driven.all.figures(driven.span),
                    reads: driven.reads.figures(driven.span),
                    writes: driven.writes.figures(driven.span),
                    write_amplification: volume.status().write_amplification,
                }))
            },
        )?
    }

    /// Open segments that drives must allow, whatever their preset.
    fn segments_asked_for(&self) -> u32 {
        match &self.writes {
            WriteChoice::Policy(policy) => {
                u32::try_from(policy.small.len() + policy.large.len()).unwrap_or(u32::MAX / 4)
            }
            WriteChoice::AsMade | WriteChoice::Auto(_) => 1,
        }
    }

    fn driver(&self, volume_blocks: u64) -> Driver {
        let largest = u32::try_from(volume_blocks).unwrap_or(u32::MAX).min(REQUEST_BLOCKS_MAX);
        let queue_depth = match self.pace {
            Pace::Recorded(_) => IN_FLIGHT_MOST,
            Pace::QueueDepth(depth) => depth,
        };
        Driver { queue_depth, largest, warm_up: 0 }
    }

    /// The next request, folded onto the volume and scheduled.
    fn folded<E>(
        &self,
        mut next: impl FnMut() -> Result<Option<TraceRequest>, E>,
        volume_blocks: u64,
    ) -> impl FnMut() -> Result<Option<BlockRequest>, E> {
        let pace = self.pace;
        move || {
            let Some(request) = next()? else { return Ok(None) };
            let (lba, blocks) = fold(&request, volume_blocks);
            let due = match pace {
                Pace::Recorded(scale) => Some(scaled(request.at, scale)),
                Pace::QueueDepth(_) => None,
            };
            Ok(Some(BlockRequest { direction: request.direction, lba, blocks, due }))
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a float becomes the nearest number there is, and microseconds of a century do not matter"
)]
fn scaled(at: Nanos, scale: f64) -> Nanos {
    Nanos(((at.0 as f64 * scale) as u64).min(TIME_MAX_NS))
}
