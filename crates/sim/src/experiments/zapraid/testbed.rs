//! Arrays of calibrated drives, in virtual time.

use std::rc::Rc;

use zoneweave_emulator::{Preset, RamDrive};
use zoneweave_raid::layout::Scheme;
use zoneweave_raid::log::format::{ArrayUuid, MemberUuid};
use zoneweave_raid::log::{
    CreateOptions, OfferedDrive, OpenOptions, Volume, WritePolicy, create, open_array,
};
use zoneweave_runtime::{Executor, Handle, VirtualTime};
use zoneweave_zoned::OobKind;

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
    drives: Vec<RamDrive>,
    scheme: Scheme,
}

impl Testbed {
    /// So many drives as the scheme needs, with fewer zones than the preset has.
    pub(super) fn new(
        preset: &str,
        scheme: Scheme,
        zones: u32,
        seed: u64,
    ) -> Result<Self, ExperimentError> {
        let preset = Preset::by_name(preset)?;
        let mut geometry = preset.geometry().clone();
        geometry.zones = zones;
        geometry.oob = OobKind::Separate;
        let drive = |at: usize| {
            let timing = preset.timing_of(&geometry, seed.wrapping_mul(100) + at as u64);
            RamDrive::new(geometry.clone(), timing)
        };
        let drives = (0..scheme.columns()).map(drive).collect::<Result<_, _>>()?;
        Ok(Self { drives, scheme })
    }

    fn offer(&self, handle: &Handle, thread: &Rc<Thread>) -> Vec<OfferedDrive> {
        let drive = |(at, drive): (usize, &RamDrive)| OfferedDrive {
            device: Charged::new(thread, drive.attach(handle)),
            label: format!("drive {at}"),
        };
        self.drives.iter().enumerate().map(drive).collect()
    }

    /// Makes an array with a volume as large as it may be, and does something with that, in virtual
    /// time.
    pub(super) fn run<T>(
        &self,
        policy: &WritePolicy,
        host: Host,
        work: impl AsyncFnOnce(Volume, Bench) -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let uuid = |at: usize| MemberUuid([u8::try_from(at + 1).unwrap_or(0); 16]);
        let options = CreateOptions {
            name: "experiment".to_owned(),
            scheme: self.scheme,
            volume_blocks: None,
            chunk_blocks: policy.relocation.chunk_blocks,
            group_rows: 256,
            tabled: true,
            writethrough: None,
            array: ArrayUuid([7; 16]),
            members: (0..self.drives.len()).map(uuid).collect(),
            lineage: 1,
            wipe: false,
        };
        executor.run(async {
            let thread = Thread::new(&handle, host);
            let drives = self.offer(&handle, &thread);
            create(&drives, &options).await.expect("empty drives of one kind make an array");
            let options = OpenOptions { policy: Some(policy.clone()), ..OpenOptions::default() };
            let (volume, _) =
                open_array(&handle, drives, options).await.expect("a new array starts");
            work(volume, Bench { handle: handle.clone(), thread }).await
        })
    }
}
