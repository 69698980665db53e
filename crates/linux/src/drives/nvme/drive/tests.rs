//! Tests that need no drive; tests/kernel has those with one.

use std::rc::Rc;

use zoneweave_runtime::Executor;

use super::*;

fn error_of(path: &str) -> String {
    let ring = Ring::new().unwrap();
    let executor = Executor::new(Rc::new(ring.clone()));
    let opened = NvmeDrive::open(&ring, &executor.handle(), Path::new(path));
    opened.err().expect("it is no drive").to_string()
}

#[test]
fn what_is_no_drive_is_named() {
    assert!(error_of("/dev/null").contains("/dev/null is not an NVMe namespace"));
    assert!(error_of("/dev/ng-absent").contains("cannot examine it"));
}
