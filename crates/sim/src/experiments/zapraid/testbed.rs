//! Arrays of calibrated drives, in virtual time.

use std::rc::Rc;

use zoneweave_emulator::{Preset, RamDrive};
use zoneweave_raid::layout::Scheme;
use zoneweave_raid::log::format::{ArrayUuid, MemberUuid};
use zoneweave_raid::log::{
    CreateOptions, OfferedDrive, OpenOptions, Volume, WritePolicy, create, open_array,
};
use zoneweave_runtime::{Executor, Handle, VirtualTime};
use zoneweave_zoned::{BlockCount, Geometry, OobKind, ZonedDevice};

use super::host::{Charged, Thread};
use crate::experiments::ExperimentError;
use crate::workload::Host;

/// What a run has beside its volume.
pub(super) struct Bench {
    pub(super) handle: Handle,
    /// The host's, for all drives.
    pub(super) thread: Rc<Thread>,
}

/// Drives of one kind.
pub(super) struct Testbed {
    preset: &'static str,
    geometry: Geometry,
    scheme: Scheme,
    seed: u64,
    /// As large as it may be, if nothing else is asked for.
    volume_blocks: Option<u64>,
}

impl Testbed {
    /// So many drives as the scheme needs, with so many zones.
    pub(super) fn new(
        preset: &'static str,
        scheme: Scheme,
        zones: u32,
        seed: u64,
    ) -> Result<Self, ExperimentError> {
        let mut geometry = Preset::by_name(preset)?.geometry().clone();
        geometry.zones = zones;
        geometry.oob = OobKind::Separate;
        Ok(Self { preset, geometry, scheme, seed, volume_blocks: None })
    }

    /// The same, with drives that allow an array to keep so many segments open, if they do not.
    pub(super) fn allowing_segments(mut self, segments: u32) -> Self {
        // As many again are left for what crashes leave behind, and three for other things.
        let needed = (segments + 3) * 2;
        for limit in [&mut self.geometry.max_active, &mut self.geometry.max_open] {
            *limit = limit.map(|limit| limit.max(needed));
        }
        self
    }

    /// The same, with zones of another size.
    pub(super) fn with_zones_of(mut self, blocks: BlockCount) -> Self {
        self.geometry.zone_capacity = blocks;
        self
    }

    /// The same, with a volume of that size.
    pub(super) fn with_volume_of(mut self, blocks: u64) -> Self {
        self.volume_blocks = Some(blocks);
        self
    }

    fn drives(&self) -> Result<Vec<RamDrive>, ExperimentError> {
        let preset = Preset::by_name(self.preset)?;
        let drive = |at: usize| {
            let timing = preset.timing_of(&self.geometry, self.seed.wrapping_mul(100) + at as u64);
            RamDrive::new(self.geometry.clone(), timing)
        };
        Ok((0..self.scheme.columns()).map(drive).collect::<Result<_, _>>()?)
    }

    /// Does something with empty drives, in virtual time.
    pub(super) fn run_drives<T>(
        &self,
        host: Host,
        work: impl AsyncFnOnce(Vec<Rc<dyn ZonedDevice>>, Bench) -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        let drives = self.drives()?;
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let thread = Thread::new(&handle, host);
        let charged = |drive: &RamDrive| -> Rc<dyn ZonedDevice> {
            Charged::new(&thread, drive.attach(&handle))
        };
        let charged = drives.iter().map(charged).collect();
        executor.run(work(charged, Bench { handle: handle.clone(), thread: thread.clone() }))
    }

    /// Makes an array with a volume, and does something with that, in virtual
    /// time.
    pub(super) fn run<T>(
        &self,
        policy: &WritePolicy,
        host: Host,
        work: impl AsyncFnOnce(Volume, Bench) -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        self.run_drives(host, async |drives, bench| {
            let uuid = |at: usize| MemberUuid([u8::try_from(at + 1).unwrap_or(0); 16]);
            let options = CreateOptions {
                name: "experiment".to_owned(),
                scheme: self.scheme,
                volume_blocks: self.volume_blocks,
                chunk_blocks: policy.relocation.chunk_blocks,
                group_rows: 256,
                tabled: true,
                writethrough: None,
                array: ArrayUuid([7; 16]),
                members: (0..drives.len()).map(uuid).collect(),
                lineage: 1,
                wipe: false,
            };
            let offer = |(at, device)| OfferedDrive { device, label: format!("drive {at}") };
            let drives: Vec<_> = drives.into_iter().enumerate().map(offer).collect();
            create(&drives, &options).await.expect("empty drives of one kind make an array");
            let options = OpenOptions { policy: Some(policy.clone()), ..OpenOptions::default() };
            let (volume, _) =
                open_array(&bench.handle, drives, options).await.expect("a new array starts");
            work(volume, bench).await
        })
    }
}
