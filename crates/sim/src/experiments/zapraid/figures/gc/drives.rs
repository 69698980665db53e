//! Scaled-down drives whose zone management scales as well.
//!
//! A drive takes 15 ms to reset a full zone. With zones a thousandth of their size, resets are a
//! thousand times as frequent and would dominate, so their latency is scaled by the same factor.
//! Command latencies stay as they are.

use std::rc::Rc;

use zoneweave_emulator::{Preset, RamDrive};
use zoneweave_raid::log::format::{ArrayUuid, Lineage, MemberUuid};
use zoneweave_raid::log::{CreateOptions, OfferedDrive, OpenOptions, Volume};
use zoneweave_raid::log::{WriteChoice, WritePolicy, create, open_array};
use zoneweave_raid::shards::Shard;
use zoneweave_runtime::{Executor, Handle, VirtualTime};
use zoneweave_zoned::{BlockCount, OobKind, ZonedDevice};

use crate::experiments::ExperimentError;
use crate::experiments::zapraid::loads::writes::three_and_one;
use crate::testbed::host::{Charged, Looks, Thread};
use crate::workload::Host;

/// The drive that is scaled down.
const PRESET: &str = "zn540-4tb";

/// Reset latencies of empty, full and not yet closed zones, scaled by the size of the zone.
const RESETS: [(&str, f64); 3] =
    [("reset_us", 1634.0), ("reset_full_us", 13_760.0), ("reset_active_us", 2800.0)];

/// An array of scaled-down drives.
pub(super) struct Drives {
    pub(super) zone_blocks: u32,
    pub(super) zones: u32,
    pub(super) volume_blocks: u64,
    pub(super) seed: u64,
}

impl Drives {
    /// Creates an array of them, and runs `work` on its volume in virtual time.
    pub(super) fn run<T>(
        &self,
        policy: &WritePolicy,
        work: impl AsyncFnOnce(Volume, Handle) -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        let drives = self.drives()?;
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let thread = Thread::new(&handle, Host::SPDK);
        let offered = |(at, drive): (usize, &RamDrive)| {
            let device: Rc<dyn ZonedDevice> =
                Charged::new(&thread, drive.attach(&handle), Looks::FREE);
            OfferedDrive { device, label: format!("drive {at}") }
        };
        let offered: Vec<_> = drives.iter().enumerate().map(offered).collect();
        executor.run(async {
            let options = self.options(policy, offered.len());
            create(&offered, &options).await.expect("empty drives of one kind make an array");
            let writes = WriteChoice::Policy(policy.clone());
            let options = OpenOptions { writes, ..OpenOptions::default() };
            let (volume, _) =
                open_array(&handle, offered, options).await.expect("a new array starts");
            work(volume, handle.clone()).await
        })
    }

    fn options(&self, policy: &WritePolicy, drives: usize) -> CreateOptions {
        let uuid = |at: usize| MemberUuid([u8::try_from(at + 1).unwrap_or(0); 16]);
        CreateOptions {
            name: "experiment".to_owned(),
            scheme: three_and_one(),
            volume_blocks: Some(self.volume_blocks),
            chunk_blocks: policy.relocation.chunk_blocks,
            group_rows: 256,
            tabled: true,
            writethrough: None,
            array: ArrayUuid([7; 16]),
            members: (0..drives).map(uuid).collect(),
            lineage: Lineage(1),
            shard: Shard::WHOLE,
            wipe: false,
        }
    }

    fn drives(&self) -> Result<Vec<RamDrive>, ExperimentError> {
        let preset = self.preset()?;
        let mut geometry = preset.geometry().clone();
        geometry.zones = self.zones;
        geometry.zone_capacity = BlockCount(self.zone_blocks);
        geometry.oob = OobKind::Separate;
        let drive = |at: usize| {
            let timing = preset.timing_of(&geometry, self.seed.wrapping_mul(100) + at as u64);
            RamDrive::new(geometry.clone(), timing)
        };
        Ok((0..three_and_one().columns()).map(drive).collect::<Result<_, _>>()?)
    }

    fn preset(&self) -> Result<Preset, ExperimentError> {
        let full = Preset::by_name(PRESET)?.geometry().zone_capacity;
        let part = f64::from(self.zone_blocks) / f64::from(full.0);
        let mut text = format!("extends = \"{PRESET}\"\n[stations.management]\n");
        for (name, micros) in RESETS {
            text += &format!("{name} = {:?}\n", micros * part);
        }
        Ok(Preset::parse(&text)?)
    }
}
