//! The parts of `raid` import downwards: the array knows no volume, the volumes do not know each
//! other, and the folders of the log are in order.

use zoneweave_tidy::layers::{EXCEPTIONS, raid_imports, stale_exceptions};
use zoneweave_tidy::{Count, Repository};

use crate::{assert_lawful, assert_ratchets};

#[test]
fn parts_of_raid_import_downwards() {
    let counts = Count::layers(&Repository::read());
    assert_ratchets(
        "imports against the order of `crates/tidy/src/layers.rs`; move the function down, or list an \
         exception with its reason there:",
        &counts,
    );
}

#[test]
fn exceptions_are_few_and_in_use() {
    assert!(EXCEPTIONS.len() <= 10, "an order with {} exceptions is none", EXCEPTIONS.len());
    let stale = stale_exceptions(&raid_imports(&Repository::read()));
    assert_lawful("strike off these exceptions:", &stale);
}
