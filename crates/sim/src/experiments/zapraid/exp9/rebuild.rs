//! How long a new drive takes to have what a lost one had (Fig. 14b).

use zoneweave_emulator::{Preset, RamDrive};
use zoneweave_raid::layout::Scheme;
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{Lanes, OpenOptions, WriteChoice, WritePolicy};
use zoneweave_runtime::Nanos;

use super::super::host::{Charged, Looks};
use super::super::testbed::Testbed;
use super::{fill, part};
use crate::experiments::ExperimentError;

/// The slot whose drive is lost.
const LOST: usize = 1;

/// What a rebuild took, and how much it wrote.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rebuilt {
    pub(super) seconds: f64,
    pub(super) mib_per_second: f64,
}

/// Fills a volume in order, takes a drive out, and gives the array another. Zones have their real size.
///
/// Nothing but the command costs the host's time: neither parity nor checksums.
pub(super) fn rebuild(
    gib: u32,
    chunk_blocks: u32,
    scale: f64,
    seed: u64,
) -> Result<Rebuilt, ExperimentError> {
    let (name, scheme) = ("zn540-4tb", Scheme::new(3, 1).expect("a scheme"));
    let preset = Preset::by_name(name)?;
    let zone_blocks = u64::from(preset.geometry().zone_capacity.0);
    let blocks = part(gib << 18, scale);
    let zones = u32::try_from(blocks / 3 / zone_blocks * 5 / 4).unwrap_or(0) + 16;
    let testbed = Testbed::new(name, scheme, zones, seed)?.with_volume_of(blocks);
    let lanes = Lanes { count: 1, chunk_blocks };
    let writes = WriteChoice::Policy(WritePolicy::adaptive(lanes, Lanes::default()));
    let options = OpenOptions { writes, ..OpenOptions::default() };
    let (_, rebuilt) = testbed.crash_after(options, async |volume, bench, drives| {
        fill(&bench.handle, &volume, blocks).await?;
        volume.fail(LOST).await.expect("one of four may be lost");
        // What was being filled is moved to segments without that drive; it would be counted, too.
        while volume.status().segments_leftover > 0 {
            bench.handle.sleep(Nanos::from_millis(1)).await;
        }
        let geometry = drives[0].geometry().clone();
        let timing = preset.timing_of(&geometry, seed.wrapping_mul(100) + 99);
        let new = RamDrive::new(geometry, timing)?;
        let device = Charged::new(&bench.thread, new.attach(&bench.handle), Looks::FREE);
        let begun = bench.handle.now();
        volume.replace(LOST, device, MemberUuid([99; 16])).await.expect("a drive like the others");
        let seconds = bench.handle.now().since(begun).as_secs_f64();
        let mib = new.counters().written_blocks as f64 / 256.0;
        Ok(Rebuilt { seconds, mib_per_second: mib / seconds })
    })?;
    Ok(rebuilt)
}
