//! A file that is mounted, used by another thread. Where nothing can be mounted nothing is tested.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::thread;

use rustix::fs::{FallocateFlags, fallocate};
use zoneweave_runtime::Executor;

use super::*;
use crate::memory_device::MemoryDevice;

const BLOCKS: u64 = 4096;
const BYTES: u64 = BLOCKS * 4096;

/// Serves a file while `client` runs in another thread; `None` if nothing can be mounted here.
fn serve<T: Send + 'static>(
    client: impl FnOnce(&Path) -> T + Send + 'static,
) -> Option<(T, FuseStatus, bool)> {
    serve_device(MemoryDevice::new(BLOCKS), client)
}

fn serve_device<T: Send + 'static>(
    device: Rc<MemoryDevice>,
    client: impl FnOnce(&Path) -> T + Send + 'static,
) -> Option<(T, FuseStatus, bool)> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vol");
    let ring = Ring::new().unwrap();
    let executor = Executor::new(Rc::new(ring.clone()));
    let handle = executor.handle();
    let server = match FuseMount::new(&path, "test", BLOCKS * 4096, false) {
        Ok(mount) => FuseServer::start(&ring, &handle, device, mount),
        Err(error @ (FuseError::NoDriver | FuseError::Mount { .. })) => {
            eprintln!("nothing is tested: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let file = path.clone();
    let thread = thread::spawn(move || client(&file));
    let (status, gone) = executor.run(async {
        while !thread.is_finished() {
            handle.sleep(Nanos::from_millis(2)).await;
        }
        (server.status(), server.shutdown().await)
    });
    let output = thread.join().unwrap();
    if gone {
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "what was mounted on");
    }
    Some((output, status, gone))
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

fn read(file: &File, offset: u64, length: usize) -> Vec<u8> {
    let mut data = vec![0; length];
    file.read_exact_at(&mut data, offset).unwrap();
    data
}

#[test]
fn a_file_is_written_and_read() {
    let served = serve(|path| {
        let file = open(path);
        assert_eq!(file.metadata().unwrap().len(), BYTES);
        let data: Vec<_> = (0..3_000_001_u32).map(|i| i.to_le_bytes()[0] ^ 0x5A).collect();
        file.write_all_at(&data, 12_345).unwrap();
        assert!(read(&file, 12_345, data.len()) == data);
        assert_eq!(read(&file, 12_344, 1), [0]);
        file.sync_data().unwrap();
        file.sync_all().unwrap();
        // Holes and zeros that begin and end within blocks.
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, punch, 20_000, 30_000).unwrap();
        fallocate(&file, FallocateFlags::ZERO_RANGE, 70_001, 100).unwrap();
        fallocate(&file, punch, 80_000, 7).unwrap();
        let mut expected = data;
        for (start, length) in [(20_000, 30_000), (70_001, 100), (80_000, 7)] {
            expected[start - 12_345..][..length].fill(0);
        }
        assert!(read(&file, 12_345, expected.len()) == expected);
        // It neither grows nor shrinks.
        let full = file.write_all_at(&[1; 2], BYTES - 1).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        assert_eq!(file.set_len(0).unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert!(fallocate(&file, FallocateFlags::empty(), 0, BYTES).is_ok());
        assert!(fallocate(&file, FallocateFlags::empty(), 1, BYTES).is_err());
        assert!(fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096).is_err());
        assert!(fallocate(&file, punch, BYTES - 4096, 1 << 30).is_ok());
        assert_eq!(file.read_at(&mut [0; 10], BYTES).unwrap(), 0);
        assert_eq!(file.read_at(&mut [0; 10], BYTES - 4).unwrap(), 4);
    });
    if let Some((_, status, gone)) = served {
        assert!(status.requests > 10 && gone, "{status:?}");
        assert_eq!(status.failed, 0);
    }
}

#[test]
fn what_a_file_that_is_opened_so_takes_is_durable_when_it_is_answered() {
    for (flags, changes) in [(0, 0), (libc::O_DSYNC, 2), (libc::O_SYNC, 2)] {
        let device = MemoryDevice::new(BLOCKS);
        let served = serve_device(device.clone(), move |path| {
            let mut options = OpenOptions::new();
            let file = options.write(true).custom_flags(flags).open(path).unwrap();
            file.write_all_at(&[1; 4096], 0).unwrap();
            file.write_all_at(&[2; 4096], 8192).unwrap();
        });
        if served.is_some() {
            assert_eq!(device.durable_changes(), changes, "opened with {flags:#x}");
        }
    }
}

#[test]
fn who_still_has_the_file_open_gets_errors() {
    let served = serve(|path| {
        let file = open(path);
        file.write_all_at(&[7; 4096], 0).unwrap();
        file
    });
    if let Some((file, status, gone)) = served {
        assert!(!gone);
        assert_eq!(status.handles, 1);
        assert!(file.read_at(&mut [0; 10], 0).is_err());
        assert!(file.write_all_at(&[8; 10], 0).is_err());
    }
}

/// A file was mounted after the array had started, and a mount that failed left the array started
/// in vain. Now requests of an early client wait for the server, and end with it.
#[test]
fn requests_of_an_unserved_file_wait_and_end_with_the_mount() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vol");
    let mount = match FuseMount::new(&path, "test", BLOCKS * 4096, false) {
        Ok(mount) => mount,
        Err(error) => return eprintln!("nothing is tested: {error}"),
    };
    assert_eq!(std::fs::metadata(&path).unwrap().len(), BLOCKS * 4096);
    let (reading, reads) = std::sync::mpsc::channel();
    let client = thread::spawn({
        let path = path.clone();
        move || {
            let file = open(&path);
            reading.send(()).unwrap();
            file.read_exact_at(&mut [0; 4096], 0)
        }
    });
    reads.recv().unwrap();
    assert!(!client.is_finished(), "there is no server yet");
    drop(mount);
    assert!(client.join().unwrap().is_err());
    assert!(!path.exists(), "the file was made for the mount");
}
