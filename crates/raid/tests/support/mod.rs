//! A small simulation: workers write, trim, flush and read a volume on emulated drives in virtual
//! time. The history of each block decides which versions may be read, live and after a crash.
//!
//! In builds with the feature `instrumented`, `ZONEWEAVE_MUTANT=name` plants a bug that the tests
//! are to find, and `ZONEWEAVE_MARKS=file` appends to a file how often each mark was hit.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test support; each test file uses its part"
)]

pub mod life;
pub mod model;
pub(crate) mod report_marks;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use zoneweave_emulator::{Jitter, RamDrive};
use zoneweave_raid::inline::{FrameShape, InlineDrive};
use zoneweave_raid::instrument::marks;
use zoneweave_raid::instrument::mutants::{self, Mutant};
use zoneweave_raid::log::format::{
    ArrayUuid, BlockIdentity, ContentKind, Lineage, MemberUuid, Oob, Place,
};
use zoneweave_raid::log::{
    CreateOptions, OfferedDrive, OpenError, OpenOptions, OpenReport, Volume, create, open_array,
};
use zoneweave_raid::scheme::{Arrangement, Scheme};
use zoneweave_raid::shards::Shard;
use zoneweave_runtime::{Executor, Handle, Nanos, Random, VirtualTime};
use zoneweave_zoned::{
    AlignedBuffer, BLOCK_BYTES, BlockCount, BlockDevice, BlockError, Geometry, Lba, OobKind,
    Payload, ZonedDevice,
};

/// Parameters of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub data: usize,
    pub parity: usize,
    pub arrangement: Arrangement,
    pub zones: u32,
    pub zone_blocks: u32,
    pub chunk_blocks: u32,
    pub group_rows: u32,
    pub tabled: bool,
    pub volatile: bool,
    pub writethrough: Option<bool>,
    /// As large as it may be if not given.
    pub volume_blocks: Option<u64>,
}

impl Shape {
    pub fn small() -> Self {
        Self {
            data: 3,
            parity: 1,
            arrangement: Arrangement::Rotated,
            zones: 10,
            zone_blocks: 24,
            chunk_blocks: 1,
            group_rows: 4,
            tabled: true,
            volatile: false,
            writethrough: None,
            volume_blocks: None,
        }
    }

    /// A shape drawn from a seed.
    pub fn random(random: &mut Random) -> Self {
        let parity = 1 + usize::from(random.per_mille(300));
        let chunk_blocks = 1 + u32::try_from(random.below(2)).unwrap();
        Self {
            data: 2 + usize::try_from(random.below(3)).unwrap(),
            parity,
            arrangement: Arrangement::Rotated,
            zones: 6 + u32::try_from(random.below(8)).unwrap(),
            zone_blocks: 16 * chunk_blocks + u32::try_from(random.below(32)).unwrap(),
            chunk_blocks,
            group_rows: [1, 2, 4, 8, 256][usize::try_from(random.below(5)).unwrap()],
            tabled: random.per_mille(700),
            volatile: random.per_mille(500),
            writethrough: [None, Some(true), Some(false)]
                [usize::try_from(random.below(3)).unwrap()],
            volume_blocks: None,
        }
    }

    pub fn columns(&self) -> usize {
        self.data + self.parity
    }
}

/// An array of some 32 pages of the index.
pub fn large() -> Array {
    let shape = Shape {
        zones: 60,
        zone_blocks: 256,
        group_rows: 64,
        tabled: false,
        volume_blocks: Some(30_000),
        ..Shape::small()
    };
    Array::create(shape, &mut Random::new(4))
}

/// Whether a block on a drive has that kind.
pub fn is_of(kind: ContentKind, payload: &Payload) -> bool {
    let oob = Oob::parse(&payload.block_oob(0)).filter(|oob| oob.place == Place::Chunk);
    let identity = oob.and_then(|oob| BlockIdentity::decode(&oob.coded));
    identity.is_some_and(|identity| identity.kind == kind)
}

/// The drives of an array.
pub struct Array {
    pub shape: Shape,
    pub drives: Vec<RamDrive>,
    pub blocks: u64,
}

pub fn uuid(seed: u64, at: usize) -> [u8; 16] {
    let mut bytes = [0; 16];
    Random::new(seed ^ (at as u64) << 40).fill(&mut bytes);
    bytes
}

pub fn new_drive(shape: &Shape, random: &mut Random) -> RamDrive {
    let mut geometry = Geometry::new(shape.zones, BlockCount(shape.zone_blocks));
    geometry.volatile_cache = shape.volatile;
    RamDrive::new(geometry, Jitter::new(random.next(), Nanos::from_micros(100))).unwrap()
}

impl Array {
    /// Makes an array whose volume is as large as it may be.
    pub fn create(shape: Shape, random: &mut Random) -> Self {
        let drives = (0..shape.columns()).map(|_| new_drive(&shape, random)).collect();
        Self::on(shape, drives, random)
    }

    /// The same, of four drives that allow as many active zones as they have.
    pub fn without_limits(shape: Shape) -> Self {
        let drive = |seed| {
            let mut geometry = Geometry::new(shape.zones, BlockCount(shape.zone_blocks));
            (geometry.max_active, geometry.max_open) = (None, None);
            RamDrive::new(geometry, Jitter::new(seed, Nanos::from_micros(100))).unwrap()
        };
        Self::on(shape, (0..4).map(drive).collect(), &mut Random::new(4))
    }

    /// Makes an array of these drives.
    pub fn on(shape: Shape, drives: Vec<RamDrive>, random: &mut Random) -> Self {
        instrument();
        let executor = executor();
        let offered = offer(&drives, &executor.handle(), &[]);
        let seed = random.next();
        let options = CreateOptions {
            name: "test".to_owned(),
            scheme: Scheme::arranged(shape.arrangement, shape.data, shape.parity).unwrap(),
            volume_blocks: shape.volume_blocks,
            chunk_blocks: shape.chunk_blocks,
            group_rows: shape.group_rows,
            tabled: shape.tabled,
            writethrough: shape.writethrough,
            array: ArrayUuid(uuid(seed, 99)),
            members: (0..shape.columns()).map(|at| MemberUuid(uuid(seed, at))).collect(),
            lineage: Lineage(seed),
            shard: Shard::WHOLE,
            wipe: false,
        };
        let config = executor.run(create(&offered, &options)).unwrap();
        drop(executor);
        for drive in &drives {
            drive.process_kill(random.next());
        }
        Self { shape, drives, blocks: config.log().volume_blocks }
    }

    /// Whether acknowledged writes survive a power loss without a flush.
    pub fn writethrough(&self) -> bool {
        !self.shape.volatile || self.shape.writethrough == Some(true)
    }
}

/// Applies the environment's mutants and marks, in builds that have them.
pub fn instrument() {
    report_marks::report_marks();
    if !marks::INSTRUMENTED {
        return;
    }
    if let Ok(name) = std::env::var("ZONEWEAVE_MUTANT") {
        let mutant = Mutant::named(&name).expect("ZONEWEAVE_MUTANT is the name of a mutant");
        mutants::select(Some(mutant));
    }
}

pub fn executor() -> Executor {
    Executor::new(Rc::new(VirtualTime::new()))
}

/// A drive as a member uses it: one without metadata has it among its blocks.
pub fn attach(drive: &RamDrive, handle: &Handle) -> Rc<dyn ZonedDevice> {
    let device = drive.attach(handle);
    match drive.geometry().oob {
        OobKind::None => Rc::new(InlineDrive::new(handle, device, FrameShape::default()).unwrap()),
        _ => device,
    }
}

/// Attaches drives to an engine, without those left out.
pub fn offer(drives: &[RamDrive], handle: &Handle, without: &[usize]) -> Vec<OfferedDrive> {
    let kept = drives.iter().enumerate().filter(|(at, _)| !without.contains(at));
    kept.map(|(at, drive)| OfferedDrive {
        device: attach(drive, handle),
        label: format!("drive{at}"),
    })
    .collect()
}

pub async fn open(
    array: &Array,
    handle: &Handle,
    without: &[usize],
) -> Result<(Volume, OpenReport), OpenError> {
    open_array(handle, offer(&array.drives, handle, without), OpenOptions::default()).await
}

/// The contents of version `version` of a block: 0 is zeros.
pub fn contents(lba: u64, version: u64) -> Bytes {
    let mut buffer = AlignedBuffer::zeroed(BlockCount(1));
    if version > 0 {
        Random::new(lba << 32 ^ version).fill(buffer.as_mut());
        buffer.as_mut()[..8].copy_from_slice(&version.to_le_bytes());
    }
    buffer.freeze()
}

/// The version that a block holds.
pub fn version_of(lba: u64, data: &[u8]) -> u64 {
    assert_eq!(data.len(), BLOCK_BYTES);
    let version = u64::from_le_bytes(data[..8].try_into().unwrap());
    assert!(contents(lba, version) == data, "block {lba} holds garbage");
    version
}

#[derive(Clone, Copy, Debug)]
struct Write {
    version: u64,
    /// The value that `version` reads as: itself, or 0 for a trim.
    reads_as: u64,
    submitted: u64,
    /// When it was acknowledged.
    acked: Option<u64>,
    /// Whether it must survive a power loss.
    promised: bool,
}

/// The operations on every block, in logical time.
#[derive(Default)]
pub struct History {
    clock: u64,
    versions: u64,
    blocks: BTreeMap<u64, Vec<Write>>,
}

impl History {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn submit(&mut self, lba: u64, blocks: u64, trim: bool) -> u64 {
        let now = self.tick();
        self.versions += 1;
        let version = self.versions;
        for lba in lba..lba + blocks {
            let reads_as = if trim { 0 } else { version };
            let write = Write { version, reads_as, submitted: now, acked: None, promised: false };
            self.blocks.entry(lba).or_insert_with(|| vec![Self::initial()]).push(write);
        }
        version
    }

    fn initial() -> Write {
        Write { version: 0, reads_as: 0, submitted: 0, acked: Some(0), promised: true }
    }

    fn acknowledge(&mut self, lba: u64, blocks: u64, version: u64, promised: bool) {
        let now = self.tick();
        for lba in lba..lba + blocks {
            let writes = self.blocks.get_mut(&lba).unwrap();
            let write = writes.iter_mut().find(|write| write.version == version).unwrap();
            write.acked = Some(now);
            write.promised |= promised;
        }
    }

    /// A flush that started at `start` promises everything acknowledged before.
    fn flushed(&mut self, start: u64) {
        for write in self.blocks.values_mut().flatten() {
            write.promised |= write.acked.is_some_and(|acked| acked < start);
        }
    }

    /// Whether a read of `lba` that started at `start` may return `version`.
    fn allowed(
        &self,
        lba: u64,
        reads_as: u64,
        start: u64,
        counts: impl Fn(&Write) -> bool,
    ) -> bool {
        let Some(writes) = self.blocks.get(&lba) else { return reads_as == 0 };
        // Superseded: acknowledged before a counting write was submitted that itself was
        // acknowledged before the read began.
        let superseded = |old: &Write| {
            writes.iter().any(|new| {
                counts(new)
                    && new.acked.is_some_and(|acked| acked < start)
                    && old.acked.is_some_and(|acked| acked < new.submitted)
            })
        };
        writes.iter().any(|write| write.reads_as == reads_as && !superseded(write))
    }

    /// After a crash: checks the version read from each block, and forgets all others.
    fn settle(&mut self, found: &[u64], counts_all: bool) {
        for (lba, reads_as) in (0..).zip(found) {
            let counts = |write: &Write| counts_all || write.promised;
            assert!(
                self.allowed(lba, *reads_as, u64::MAX, counts),
                "block {lba} reads as version {reads_as}: {:?}",
                self.blocks.get(&lba)
            );
            let kept = Write { version: *reads_as, reads_as: *reads_as, ..Self::initial() };
            self.blocks.insert(lba, vec![kept]);
        }
    }
}

/// Which requests the workers make.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub workers: u64,
    pub requests: u64,
    pub trims_per_mille: u64,
    pub hot_blocks: u64,
}

pub type SharedHistory = Rc<RefCell<History>>;

/// Runs the workers to their end; every request must succeed.
pub async fn run_workers(
    volume: &Volume,
    array: &Array,
    handle: &Handle,
    history: &SharedHistory,
    workload: Workload,
    random: &mut Random,
) {
    let mut workers = Vec::new();
    for _ in 0..workload.workers {
        let worker = Worker {
            volume: volume.clone(),
            blocks: array.blocks,
            writethrough: array.writethrough(),
            history: history.clone(),
            workload,
            random: random.fork(),
        };
        workers.push(handle.spawn("worker", worker.run()));
    }
    for worker in workers {
        worker.await;
    }
}

struct Worker {
    volume: Volume,
    blocks: u64,
    writethrough: bool,
    history: SharedHistory,
    workload: Workload,
    random: Random,
}

impl Worker {
    async fn run(mut self) {
        for _ in 0..self.workload.requests {
            let range = self.workload.hot_blocks.min(self.blocks);
            let lba = self.random.below(range);
            let blocks = (1 + self.random.below(8)).min(self.blocks - lba);
            match self.random.below(1000) {
                0..150 => self.read(lba, blocks).await,
                150..200 => self.flush().await,
                at if at < 200 + self.workload.trims_per_mille => {
                    self.write(lba, blocks, true).await
                }
                _ => self.write(lba, blocks, false).await,
            }
        }
    }

    async fn write(&mut self, lba: u64, blocks: u64, trim: bool) {
        let fua = self.random.per_mille(100);
        let version = self.history.borrow_mut().submit(lba, blocks, trim);
        let result = if trim {
            self.volume.trim(Lba(lba), blocks, fua).await
        } else {
            let data = (lba..lba + blocks).map(|lba| contents(lba, version)).collect();
            self.volume.write(Lba(lba), data, fua).await
        };
        result.expect("writes within the contract succeed");
        let promised = self.writethrough || fua;
        self.history.borrow_mut().acknowledge(lba, blocks, version, promised);
    }

    async fn flush(&mut self) {
        let start = self.history.borrow_mut().tick();
        self.volume.flush().await.expect("flushes succeed");
        self.history.borrow_mut().flushed(start);
    }

    async fn read(&mut self, lba: u64, blocks: u64) {
        let start = self.history.borrow_mut().tick();
        let data = self.volume.read(Lba(lba), u32::try_from(blocks).unwrap()).await;
        let data = data.expect("reads within the contract succeed");
        for (lba, block) in (lba..).zip(data) {
            let version = version_of(lba, &block);
            let history = self.history.borrow();
            assert!(
                history.allowed(lba, version, start, |_| true),
                "block {lba} read as version {version}: {:?}",
                history.blocks.get(&lba)
            );
        }
    }
}

/// Reads the whole volume.
pub async fn read_all(volume: &Volume, blocks: u64) -> Result<Vec<u64>, BlockError> {
    let mut versions = Vec::new();
    let mut lba = 0;
    while lba < blocks {
        let length = (blocks - lba).min(64);
        let data = volume.read(Lba(lba), u32::try_from(length).unwrap()).await?;
        versions.extend((lba..).zip(data).map(|(lba, block)| version_of(lba, &block)));
        lba += length;
    }
    Ok(versions)
}

/// Checks a recovered volume against the history, and pins the versions found.
pub async fn verify_recovered(
    volume: &Volume,
    array: &Array,
    history: &SharedHistory,
    power_lost: bool,
) {
    let found = read_all(volume, array.blocks).await.expect("everything is readable");
    history.borrow_mut().settle(&found, !power_lost);
    volume.assert_consistent();
}

/// Seeds that the tests run by default.
const SEEDS: u64 = 100;

fn seeds() -> Vec<u64> {
    match std::env::var("ZONEWEAVE_SEED") {
        Ok(seed) => vec![seed.parse().expect("ZONEWEAVE_SEED is a number")],
        Err(_) => {
            let count = std::env::var("ZONEWEAVE_SEEDS")
                .map_or(SEEDS, |count| count.parse().expect("ZONEWEAVE_SEEDS is a number"));
            (0..count).collect()
        }
    }
}

pub fn for_each_seed(file: &str, name: &str, test: impl Fn(u64) + std::panic::RefUnwindSafe) {
    for seed in seeds() {
        let result = std::panic::catch_unwind(|| test(seed));
        assert!(
            result.is_ok(),
            "{name} fails: ZONEWEAVE_SEED={seed} \
             cargo test -p zoneweave-raid --test main {file}::{name}"
        );
    }
}

pub fn workload(random: &mut Random) -> Workload {
    Workload {
        workers: 1 + random.below(12),
        requests: 20 + random.below(60),
        trims_per_mille: [0, 100, 300][usize::try_from(random.below(3)).unwrap()],
        hot_blocks: [8, 1000, 100_000][usize::try_from(random.below(3)).unwrap()],
    }
}

/// Stops every drive at once; tells whether the power went, too.
pub fn crash(array: &Array, random: &mut Random) -> bool {
    let power = random.per_mille(600);
    for drive in &array.drives {
        if power {
            drive.power_loss(random.next());
        } else {
            drive.process_kill(random.next());
        }
    }
    power
}

/// Says where the engine stands when a test fails.
pub struct DumpOnPanic<'a>(pub &'a RefCell<Option<Volume>>);

impl Drop for DumpOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(volume) = self.0.try_borrow()
            && let Some(volume) = volume.as_ref()
        {
            eprintln!("{}", volume.describe());
        }
    }
}

/// Runs the offline checker over the drives that are not left out, and compares its findings with
/// the volume's contents.
pub async fn check_offline(array: &Array, handle: &Handle, without: &[usize], found: &[u64]) {
    let devices = array
        .drives
        .iter()
        .enumerate()
        .map(|(at, drive)| (!without.contains(&at)).then(|| drive.attach(handle)));
    let options = zoneweave_check::Options { every_version: true, ..Default::default() };
    let checked = zoneweave_check::check(devices.collect(), options).await;
    assert!(checked.report.clean, "{:#?}", checked.report.findings);
    let contents = checked.contents.expect("the drives are an array");
    for (lba, version) in (0..).zip(found) {
        let block = contents.read(lba).await.expect("the checker reads every block");
        let read = block.map_or(0, |block| version_of(lba, &block));
        assert_eq!(read, *version, "the checker reads another version of block {lba}");
    }
}

/// Kills the process: drives keep the completed commands.
pub fn kill(array: &Array, random: &mut Random) -> bool {
    for drive in &array.drives {
        drive.process_kill(random.next());
    }
    false
}
