//! The part of a characterisation that the engine's write policy needs.

use std::rc::Rc;

use zoneweave_emulator::{Preset, RamDrive};
use zoneweave_raid::log::{AppendCost, WriteCost, WriteProfile};
use zoneweave_runtime::{Executor, Nanos, VirtualTime};
use zoneweave_zoned::{BLOCK_BYTES, BlockCount, ZoneId};

use super::{Action, Results, Stack, Subsystem, Table};
use crate::workload::{Figures, Host, Job, Length, Operation, Pace, Refill, WorkloadError};

/// Sizes of writes, in blocks, and numbers of appends in flight.
const WRITES: [u32; 6] = [1, 2, 4, 8, 16, 32];
const DEPTHS: [u32; 5] = [4, 8, 16, 32, 64];

/// Zones that a measurement may use.
const ZONES: u32 = 8;

/// Enough for means: a few hundred commands of each kind.
const LENGTH: Length =
    Length { warm_up: Nanos::from_millis(2), duration: Nanos::from_millis(20), operations: 1_000 };

/// The measurements of writes to one zone.
#[must_use]
pub fn write_profile(results: &Results) -> WriteProfile {
    let of = |table, action| {
        let samples = results.of(table, action);
        samples.filter(|one| (one.drive, one.stack) == (Subsystem::Zoned, Stack::Direct))
    };
    let block = BLOCK_BYTES as u64;
    let writes = of(Table::RequestSize, Action::Write).filter_map(|sample| {
        let blocks = u32::try_from(sample.request_bytes / block).ok()?;
        Some(WriteCost { blocks, nanos: nanos_of(&sample.figures) })
    });
    let appends = of(Table::IntraZone, Action::Append).filter(|one| one.request_bytes == block);
    let append =
        |one: &super::Sample| AppendCost { depth: one.queue_depth, nanos: nanos_of(&one.figures) };
    let mut writes: Vec<_> = writes.collect();
    writes.sort_by_key(|cost| cost.blocks);
    WriteProfile { writes, appends: appends.map(append).collect() }
}

/// The same, measured on a drive of the preset in virtual time; `None` if it has no latencies.
///
/// # Errors
///
/// If the preset's drive fails a command.
pub fn write_profile_of(preset: &Preset) -> Result<Option<WriteProfile>, WorkloadError> {
    if preset.is_instant() {
        return Ok(None);
    }
    let most = preset.geometry().max_transfer.0;
    let write = |blocks: u32| {
        let figures = measure(preset, Operation::Write, blocks, 1)?;
        Ok(WriteCost { blocks, nanos: nanos_of(&figures) })
    };
    let append = |depth: u32| {
        let figures = measure(preset, Operation::Append, 1, depth)?;
        Ok(AppendCost { depth, nanos: nanos_of(&figures) })
    };
    let writes = WRITES.into_iter().filter(|blocks| *blocks <= most).map(write);
    let writes = writes.collect::<Result<_, WorkloadError>>()?;
    let appends = match preset.geometry().append_limit.0 {
        0 => Vec::new(),
        _ => DEPTHS.into_iter().map(append).collect::<Result<_, WorkloadError>>()?,
    };
    Ok(Some(WriteProfile { writes, appends }))
}

/// Figures of one kind of command to one zone of a new drive.
fn measure(
    preset: &Preset,
    operation: Operation,
    blocks: u32,
    queue_depth: u32,
) -> Result<Figures, WorkloadError> {
    let mut geometry = preset.geometry().clone();
    geometry.zones = geometry.zones.min(ZONES);
    let timing = preset.timing_of(&geometry, 1);
    let zones = (0..geometry.zones).map(ZoneId).collect();
    let drive = RamDrive::new(geometry, timing);
    let drive = drive.map_err(|_| WorkloadError::Impossible("a preset has no such drive"))?;
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let pace = Pace {
        queue_depth,
        host: Host::NONE,
        rate_bytes_per_second: None,
        length: LENGTH,
        seed: 1,
    };
    let (request, refill) = (BlockCount(blocks), Refill::Reset);
    let written = BlockCount(0);
    let job = Job { operation, request, streams: 1, zones, written, refill, pace };
    let device = drive.attach(&handle);
    Ok(executor.run(job.run(&handle, &device))?.figures)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below centuries")]
fn nanos_of(figures: &Figures) -> u64 {
    if figures.iops > 0.0 { (1e9 / figures.iops).round() as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(name: &str) -> Option<WriteProfile> {
        write_profile_of(&Preset::by_name(name).unwrap()).unwrap()
    }

    #[test]
    fn appends_pay_on_drives_without_a_buffer_only() {
        for name in ["zn540-1tb", "zn540-4tb", "zn540-4tb-volatile"] {
            let profile = profile(name).unwrap();
            assert!(!profile.appends_pay(), "{name}: {profile:?}");
        }
        let femu = profile("femu").unwrap();
        assert!(femu.appends_pay(), "{femu:?}");
        assert_eq!(profile("instant"), None);
    }
}
