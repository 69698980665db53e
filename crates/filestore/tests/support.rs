//! A store on an emulated drive.

use std::rc::Rc;

use zoneweave_check::{StoreReport, check_store};
use zoneweave_emulator::{Immediate, RamDrive};
use zoneweave_filestore::{FileStore, FormatOptions, OpenOptions, OpenReport};
use zoneweave_runtime::{Executor, Handle, VirtualTime};
use zoneweave_zoned::{BlockCount, Geometry, OobKind};

pub(crate) const UUID: [u8; 16] = [7; 16];

/// A small drive: zones of 16 blocks.
pub(crate) fn geometry(zones: u32, active: u32, oob: OobKind) -> Geometry {
    let mut geometry = Geometry::new(zones, BlockCount(16));
    (geometry.max_active, geometry.max_open) = (Some(active), Some(active));
    geometry.max_transfer = BlockCount(8);
    geometry.oob = oob;
    geometry
}

pub(crate) fn drive(geometry: Geometry) -> RamDrive {
    RamDrive::new(geometry, Immediate).unwrap()
}

/// Makes a store on a drive.
pub(crate) fn format(drive: &RamDrive) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let device = drive.attach(&executor.handle());
    executor.run(FileStore::format(&*device, &FormatOptions::new(UUID))).unwrap();
}

pub(crate) fn options() -> OpenOptions {
    OpenOptions { buffer: BlockCount(4), ..OpenOptions::default() }
}

/// Runs a process on the store of a drive.
pub(crate) fn run<T>(drive: &RamDrive, process: impl AsyncFnOnce(FileStore, Handle) -> T) -> T {
    run_with(drive, options(), async |store, _, handle| process(store, handle).await)
}

pub(crate) fn run_with<T>(
    drive: &RamDrive,
    options: OpenOptions,
    process: impl AsyncFnOnce(FileStore, OpenReport, Handle) -> T,
) -> T {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let device = drive.attach(&handle);
    executor.run(async {
        let (store, report) = FileStore::open(handle.clone(), device, options).await.unwrap();
        process(store, report, handle.clone()).await
    })
}

/// Bytes that differ from file to file and from place to place.
pub(crate) fn bytes(seed: u64, offset: u64, count: usize) -> Vec<u8> {
    let byte = |at: u64| {
        let word = (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (at / 8))
            .wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word.to_le_bytes()[usize::try_from(at % 8).unwrap()] ^ word.to_be_bytes()[3]
    };
    (offset..offset + count as u64).map(byte).collect()
}

pub(crate) async fn read_all(store: &FileStore, path: &str) -> Vec<u8> {
    let reader = store.open_file(path).unwrap();
    let mut data = vec![0; usize::try_from(reader.length()).unwrap()];
    let count = reader.read_at(0, &mut data).await.unwrap();
    assert_eq!(count, data.len());
    data
}

/// What the independent checker says of a store that nobody has open.
pub(crate) fn check_offline(drive: &RamDrive) -> StoreReport {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let device = drive.attach(&executor.handle());
    let report = executor.run(check_store(device, 1000));
    drive.process_kill(0);
    report
}
