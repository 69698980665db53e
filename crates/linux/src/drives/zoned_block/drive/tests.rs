//! Tests that need no zoned disk; tests/kernel has those with one.

use std::rc::Rc;

use zoneweave_runtime::Executor;

use super::*;

#[test]
fn what_is_no_zoned_disk_is_named() {
    let ring = Ring::new().unwrap();
    let executor = Executor::new(Rc::new(ring.clone()));
    let error_of = |path: &str| {
        let opened = ZonedBlock::open(&ring, &executor.handle(), Path::new(path));
        opened.err().expect("it is no zoned disk").to_string()
    };
    assert!(error_of("/dev/null").contains("/dev/null has no zones"));
    assert!(error_of("/dev/zoned-absent").contains("cannot examine it"));
}
