//! Arrays of calibrated drives, in virtual time.

use std::rc::Rc;

use zoneweave_emulator::preset::Model;
use zoneweave_emulator::timing::parameters::StationParameters;
use zoneweave_emulator::{Preset, RamDrive};
use zoneweave_raid::log::format::{ArrayUuid, Lineage, MemberUuid};
use zoneweave_raid::log::{
    CreateOptions, OfferedDrive, OpenOptions, OpenReport, Volume, WriteChoice, WritePolicy, create,
    open_array,
};
use zoneweave_raid::scheme::Scheme;
use zoneweave_raid::shards::Shard;
use zoneweave_runtime::{Executor, Handle, VirtualTime};
use zoneweave_zoned::{BlockCount, Geometry, OobKind, ZonedDevice};

use super::host::{Charged, Looks, Thread};
use crate::experiments::ExperimentError;
use crate::workload::Host;

/// The context of a run.
pub(crate) struct Bench {
    pub(crate) handle: Handle,
    /// The host's thread, shared by all drives.
    pub(crate) thread: Rc<Thread>,
}

/// Drives of one kind.
pub(crate) struct Testbed {
    name: &'static str,
    preset: Preset,
    geometry: Geometry,
    scheme: Scheme,
    seed: u64,
    /// The size of the volume; the maximum if `None`.
    volume_blocks: Option<u64>,
}

impl Testbed {
    /// As many drives as the scheme needs, with so many zones.
    pub(crate) fn new(
        name: &'static str,
        scheme: Scheme,
        zones: u32,
        seed: u64,
    ) -> Result<Self, ExperimentError> {
        let preset = Preset::by_name(name)?;
        let mut geometry = preset.geometry().clone();
        geometry.zones = zones;
        geometry.oob = OobKind::Separate;
        Ok(Self { name, preset, geometry, scheme, seed, volume_blocks: None })
    }

    /// Raises the drives' limits, if necessary, for so many open segments.
    pub(crate) fn allowing_segments(mut self, segments: u32) -> Self {
        // As many again for segments left by crashes, and three for other uses.
        let needed = (segments + 3) * 2;
        for limit in [&mut self.geometry.max_active, &mut self.geometry.max_open] {
            *limit = limit.map(|limit| limit.max(needed));
        }
        self
    }

    /// Shrinks zones to so many blocks. Latencies of zone management shrink in proportion, and the
    /// write buffer holds as many zones as before, down to [`BUFFER_LEAST_MIB`].
    pub(crate) fn with_zones_of(mut self, blocks: BlockCount) -> Result<Self, ExperimentError> {
        let part = f64::from(blocks.0) / f64::from(self.geometry.zone_capacity.0);
        self.geometry.zone_capacity = blocks;
        if let Model::Stations(stations) = self.preset.model() {
            let text = shrunk(self.name, stations, part);
            self.preset = Preset::parse(&text)?;
        }
        Ok(self)
    }

    /// Sets the size of the volume.
    pub(crate) fn with_volume_of(mut self, blocks: u64) -> Self {
        self.volume_blocks = Some(blocks);
        self
    }

    fn drives(&self) -> Result<Vec<RamDrive>, ExperimentError> {
        let drive = |at: usize| {
            let timing =
                self.preset.timing_of(&self.geometry, self.seed.wrapping_mul(100) + at as u64);
            RamDrive::new(self.geometry.clone(), timing)
        };
        Ok((0..self.scheme.columns()).map(drive).collect::<Result<_, _>>()?)
    }

    /// Capacity of a zone.
    pub(crate) fn zone_capacity(&self) -> BlockCount {
        self.geometry.zone_capacity
    }

    /// Runs work on empty drives, in virtual time.
    pub(crate) fn run_drives<T>(
        &self,
        host: Host,
        work: impl AsyncFnOnce(Vec<Rc<dyn ZonedDevice>>, Bench) -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        Self::run_on(&self.drives()?, host, Looks::FREE, work)
    }

    /// Runs work on drives, in virtual time; reads are charged by `Looks`.
    fn run_on<T>(
        drives: &[RamDrive],
        host: Host,
        looks: Looks,
        work: impl AsyncFnOnce(Vec<Rc<dyn ZonedDevice>>, Bench) -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let thread = Thread::new(&handle, host);
        let charged = |drive: &RamDrive| -> Rc<dyn ZonedDevice> {
            Charged::new(&thread, drive.attach(&handle), looks)
        };
        let charged = drives.iter().map(charged).collect();
        executor.run(work(charged, Bench { handle: handle.clone(), thread: thread.clone() }))
    }

    /// Creates an array and runs work on its volume, in virtual time.
    pub(crate) fn run<T>(
        &self,
        policy: &WritePolicy,
        host: Host,
        work: impl AsyncFnOnce(Volume, Bench) -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        let (choice, chunk) = (WriteChoice::Policy(policy.clone()), policy.relocation.chunk_blocks);
        self.run_as(choice, chunk, host, work)
    }

    /// The same with a policy chosen for the drives, and chunks of so many blocks.
    pub(crate) fn run_as<T>(
        &self,
        writes: WriteChoice,
        chunk_blocks: u32,
        host: Host,
        work: impl AsyncFnOnce(Volume, Bench) -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        self.run_with(Self::without_checkpoints(writes), chunk_blocks, host, work)
    }

    /// Disables checkpoints, which the paper's systems do not write.
    pub(crate) fn without_checkpoints(writes: WriteChoice) -> OpenOptions {
        OpenOptions { writes, checkpoint_share: None, ..OpenOptions::default() }
    }

    /// The same with other options of the start.
    pub(crate) fn run_with<T>(
        &self,
        options: OpenOptions,
        chunk_blocks: u32,
        host: Host,
        work: impl AsyncFnOnce(Volume, Bench) -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        self.run_drives(host, async |drives, bench| {
            let drives = offer(drives);
            self.create(&drives, chunk_blocks).await?;
            let (volume, _) = open_array(&bench.handle, drives, options).await?;
            work(volume, bench).await
        })
    }

    /// Creates an array, runs work on its volume, reads its drives, and kills the process.
    pub(crate) fn crash_after<T>(
        &self,
        options: OpenOptions,
        work: impl AsyncFnOnce(Volume, Bench, &[RamDrive]) -> Result<T, ExperimentError>,
    ) -> Result<(Vec<RamDrive>, T), ExperimentError> {
        let drives = self.drives()?;
        let done = Self::run_on(&drives, Host::SPDK, Looks::FREE, async |devices, bench| {
            let offered = offer(devices);
            self.create(&offered, 1).await?;
            let (volume, _) = open_array(&bench.handle, offered, options).await?;
            work(volume, bench, &drives).await
        })?;
        drives.iter().for_each(|drive| drive.process_kill(self.seed));
        Ok((drives, done))
    }

    /// Starts the array of these drives, which stay unchanged, and runs work on its volume; reads
    /// are charged to the host.
    pub(crate) fn start<T>(
        &self,
        drives: &[RamDrive],
        looks: Looks,
        options: OpenOptions,
        work: impl AsyncFnOnce(Volume, OpenReport, Bench) -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        assert_eq!(drives.len(), self.scheme.columns(), "the array's own drives");
        let fork = |(at, drive): (usize, &RamDrive)| {
            let seed = self.seed.wrapping_mul(100) + at as u64;
            drive.fork(self.preset.timing_of(&self.geometry, seed))
        };
        let drives: Vec<_> = drives.iter().enumerate().map(fork).collect();
        Self::run_on(&drives, Host::SPDK, looks, async |devices, bench| {
            let (volume, report) = open_array(&bench.handle, offer(devices), options).await?;
            work(volume, report, bench).await
        })
    }

    async fn create(
        &self,
        drives: &[OfferedDrive],
        chunk_blocks: u32,
    ) -> Result<(), ExperimentError> {
        assert_eq!(drives.len(), self.scheme.columns(), "a drive for each column");
        let uuid = |at: usize| MemberUuid([u8::try_from(at + 1).unwrap_or(0); 16]);
        let options = CreateOptions {
            name: "experiment".to_owned(),
            scheme: self.scheme,
            volume_blocks: self.volume_blocks,
            chunk_blocks,
            group_rows: 256,
            tabled: true,
            writethrough: None,
            array: ArrayUuid([7; 16]),
            members: (0..drives.len()).map(uuid).collect(),
            lineage: Lineage(1),
            shard: Shard::WHOLE,
            wipe: false,
        };
        create(drives, &options).await?;
        Ok(())
    }
}

fn offer(devices: Vec<Rc<dyn ZonedDevice>>) -> Vec<OfferedDrive> {
    let offer = |(at, device)| OfferedDrive { device, label: format!("drive {at}") };
    devices.into_iter().enumerate().map(offer).collect()
}

/// The smallest write buffer, in MiB: the program unit of the four die groups of a ZN540. With less
/// the drive would be slower than it is.
const BUFFER_LEAST_MIB: f64 = 12.0;

/// A preset with smaller zones.
fn shrunk(name: &str, stations: &StationParameters, part: f64) -> String {
    let buffer = f64::from(stations.buffer.size_mib.get());
    let buffer = (buffer * part).ceil().max(BUFFER_LEAST_MIB).min(buffer);
    let management = &stations.management;
    let times = [
        ("open_us", management.open_us),
        ("close_us", management.close_us),
        ("implicit_write_us", management.implicit_write_us),
        ("implicit_append_us", management.implicit_append_us),
        ("reopen_us", management.reopen_us),
        ("reset_us", management.reset_us),
        ("reset_full_us", management.reset_full_us),
        ("reset_active_us", management.reset_active_us),
        ("finish_us", management.finish_us),
        ("finish_empty_us", management.finish_empty_us),
    ];
    let times = times.map(|(key, time)| format!("{key} = {:.6}\n", time.get() * part)).concat();
    format!(
        "extends = \"{name}\"\n[stations.buffer]\nsize_mib = {buffer}\n[stations.management]\n{times}"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use zoneweave_raid::log::{Auto, LaneMode, LaneStatus, SegmentPhase};
    use zoneweave_zoned::{BlockDevice, Lba, zero_blocks};

    use super::*;
    use crate::characterize::write_profile_of;

    /// The lane of users' writes in an array with defaults on drives of the preset, and the open
    /// segments after many concurrent requests.
    fn lane_for_users(preset: &'static str) -> (LaneStatus, usize) {
        let scheme = Scheme::new(3, 1).unwrap();
        let testbed = Testbed::new(preset, scheme, 16, 1).unwrap();
        let profile = write_profile_of(&Preset::by_name(preset).unwrap()).unwrap();
        let auto = WriteChoice::Auto(Auto { profile, ..Auto::default() });
        let run = testbed.run_as(auto, 4, Host::SPDK, async |volume, bench| {
            let writes = (0..64).map(|at| {
                let volume = volume.clone();
                bench.handle.spawn("write", async move {
                    let data = vec![zero_blocks(BlockCount(1))];
                    volume.write(Lba(at), data, false).await.unwrap();
                })
            });
            for write in writes.collect::<Vec<_>>() {
                write.await;
            }
            let open =
                volume.segments().into_iter().filter(|segment| segment.phase == SegmentPhase::Open);
            let open: BTreeSet<_> = open.map(|segment| segment.segment).collect();
            let status = volume.status().writing;
            assert_eq!(status.fell_back, Vec::<String>::new());
            Ok((status.lanes[0].clone(), open.len()))
        });
        run.unwrap()
    }

    #[test]
    fn an_array_with_the_defaults_is_written_as_suits_its_drives() {
        let (lane, open) = lane_for_users("zn540-1tb");
        assert_eq!((lane.segments, lane.chunk_blocks, lane.command), (4, 2, LaneMode::Gather));
        assert!(open > 1, "{open} segments are open");
        let (lane, open) = lane_for_users("femu");
        assert_eq!((lane.segments, lane.chunk_blocks, lane.command), (4, 2, LaneMode::Append));
        assert!(open > 1, "{open} segments are open");
    }

    #[test]
    fn smaller_zones_are_reset_in_less_time() {
        let scheme = Scheme::new(3, 1).unwrap();
        let whole = Testbed::new("zn540-4tb", scheme, 8, 1).unwrap();
        let capacity = whole.geometry.zone_capacity.0;
        let small = Testbed::new("zn540-4tb", scheme, 8, 1).unwrap();
        let small = small.with_zones_of(BlockCount(capacity / 32)).unwrap();
        let stations = |testbed: &Testbed| match testbed.preset.model() {
            Model::Stations(stations) => stations.clone(),
            _ => panic!("a ZN540 has stations"),
        };
        let (whole, small) = (stations(&whole), stations(&small));
        let ratio = whole.management.reset_full_us.get() / small.management.reset_full_us.get();
        assert!((ratio - 32.0).abs() < 0.1, "{ratio}");
        assert_eq!((whole.buffer.size_mib.get(), small.buffer.size_mib.get()), (40, 12));
        assert_eq!((&whole.write, &whole.flash), (&small.write, &small.flash));
    }
}
