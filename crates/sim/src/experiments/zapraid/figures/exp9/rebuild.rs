//! Time to rebuild a lost drive onto a new one (Fig. 14b).

use zoneweave_emulator::{Preset, RamDrive};
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_raid::log::{Lanes, OpenOptions, WriteChoice, WritePolicy};

use super::{fill, part, zones_for};
use crate::experiments::ExperimentError;
use crate::experiments::zapraid::loads::reads::take_drive_out;
use crate::experiments::zapraid::loads::writes::three_and_one;
use crate::testbed::Testbed;
use crate::testbed::host::{Charged, Looks};

/// The slot whose drive is lost.
const LOST: usize = 1;

/// Time and written bytes of a rebuild.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rebuilt {
    pub(crate) seconds: f64,
    pub(crate) mib_per_second: f64,
}

/// Fills a volume in order, takes a drive out, and replaces it. Zones have their real size.
///
/// Only commands are charged to the host: parity and checksums take no time.
pub(crate) fn rebuild(
    gib: u32,
    chunk_blocks: u32,
    scale: f64,
    seed: u64,
) -> Result<Rebuilt, ExperimentError> {
    let preset = Preset::by_name("zn540-4tb")?;
    let blocks = part(gib << 18, scale);
    let zones = zones_for(blocks, preset.geometry().zone_capacity);
    let testbed = Testbed::new("zn540-4tb", three_and_one(), zones, seed)?.with_volume_of(blocks);
    let lanes = Lanes { count: 1, chunk_blocks };
    let writes = WriteChoice::Policy(WritePolicy::adaptive(lanes, Lanes::default()));
    let options = OpenOptions { writes, ..OpenOptions::default() };
    let (_, rebuilt) = testbed.crash_after(options, async |volume, bench, drives| {
        fill(&bench.handle, &volume, blocks).await?;
        // Open segments are relocated without that drive; otherwise their relocation would be
        // counted too.
        take_drive_out(&volume, &bench, LOST).await;
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
