//! Tests that need no driver; those with one run in guests (`tests/kernel`).

use zoneweave_runtime::Executor;
use zoneweave_zoned::{BlockCount, Geometry};

use super::*;
use crate::memory_device::MemoryDevice;

#[test]
fn what_the_driver_lacks_is_named() {
    let needed = FEATURE_USER_COPY | FEATURE_ZONED;
    assert!(check_features(u64::MAX, needed).is_ok());
    let told = check_features(FEATURE_USER_COPY, needed).unwrap_err().to_string();
    assert!(told.contains("UBLK_F_ZONED") && told.contains("6.6"), "{told}");
    assert!(check_features(0, needed).unwrap_err().to_string().contains("6.5"));
}

#[test]
fn a_device_is_taken_over_only_as_it_was() {
    let ours = |blocks| {
        let disk = UblkDisk::Block(MemoryDevice::new(blocks));
        plan(disk, &UblkOptions::default()).unwrap_or_else(|error| panic!("{error}"))
    };
    let Plan { features, parameters, .. } = ours(100);
    assert!(is_same(&parameters, &parameters));
    assert!(!is_same(&ours(101).parameters, &parameters));
    let info = DeviceInfo {
        queues: 1,
        queue_depth: 64,
        features: features | 1 << 40,
        io_bytes_max: 1 << 19,
        ..DeviceInfo::default()
    };
    assert!(suits(&info, features));
    assert!(!suits(&DeviceInfo { features: features | FEATURE_ZONED, ..info }, features));
    assert!(!suits(&DeviceInfo { queue_depth: 0, ..info }, features));
    assert!(!suits(&DeviceInfo { io_bytes_max: 1 << 30, ..info }, features));
}

/// A member with lower limits than the others may have gone out of service meanwhile.
#[test]
fn a_zoned_disk_is_taken_over_with_higher_limits() {
    let of = |limit| {
        let geometry = Geometry::new(40, BlockCount(48));
        zoned::parameters(&Geometry { max_open: limit, max_active: limit, ..geometry })
    };
    let known = of(Some(9));
    assert!(is_same(&known, &of(Some(9))) && is_same(&known, &of(Some(12))));
    assert!(is_same(&known, &of(None)) && is_same(&of(None), &of(None)));
    assert!(!is_same(&known, &of(Some(8))) && !is_same(&of(None), &of(Some(9))));
    let fewer = Geometry::new(39, BlockCount(48));
    assert!(!is_same(&known, &zoned::parameters(&fewer)));
}

#[test]
fn zones_that_the_kernel_cannot_have_are_refused() {
    struct Odd(Geometry);
    impl ZonedDevice for Odd {
        fn geometry(&self) -> &Geometry {
            &self.0
        }

        fn submit(&self, _: zoneweave_zoned::Command) -> zoneweave_zoned::Completion {
            unreachable!("nothing is sent to it")
        }
    }
    let fitting = Geometry::new(4, BlockCount(48));
    let odd = Geometry { zone_size: BlockCount(48), ..fitting.clone() };
    let without_append = Geometry { append_limit: BlockCount(0), ..fitting.clone() };
    let planned = |geometry| {
        let disk = UblkDisk::Zoned(Rc::new(Odd(geometry)));
        plan(disk, &UblkOptions::default()).map(|plan| plan.parameters)
    };
    assert!(matches!(planned(odd), Err(UblkError::Unsuitable { .. })));
    assert!(matches!(planned(without_append), Err(UblkError::Unsuitable { .. })));
    let told = planned(fitting).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((told.basic.chunk_sectors, told.basic.device_sectors), (512, 2048));
    // 14 of 4 zones may be open: that is no limit, and the driver refuses such a number.
    assert_eq!((told.zoned.open_max, told.zoned.append_sectors_max), (0, 256));
}

#[test]
fn without_the_driver_it_is_told_what_to_do() {
    if std::path::Path::new("/dev/ublk-control").exists() {
        return;
    }
    let ring = Ring::new().unwrap();
    let executor = Executor::new(Rc::new(ring.clone()));
    let disk = UblkDisk::Block(MemoryDevice::new(8));
    let handle = executor.handle();
    let started = executor.run(UblkServer::start(&ring, &handle, disk, UblkOptions::default()));
    let told = started.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(told.contains("modprobe ublk_drv"), "{told}");
}
