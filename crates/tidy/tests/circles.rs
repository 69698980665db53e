//! Files of a crate do not import each other in circles: a reader needs the imported files to
//! understand one, and never the importers.

use zoneweave_tidy::{Count, Repository};

use crate::assert_ratchets;

#[test]
fn imports_have_no_circles() {
    let counts = Count::circles(&Repository::read());
    assert_ratchets(
        "files in circles of imports (`cargo run -q -p zoneweave-tidy --example circles -- CRATE` \
         lists them):",
        &counts,
    );
}
