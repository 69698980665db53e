//! Code that acts asserts its invariants, and has types for errors and states.

use zoneweave_tidy::{Count, Repository};

use crate::assert_ratchets;

#[test]
fn states_are_asserted_and_typed() {
    let counts = Count::states(&Repository::read());
    assert_ratchets(
        "files of over 200 lines that await or change state without two `assert!` (asserts), \
         `Result<_, &'static str>` (text-errors), public fields with a state as text (text-states):",
        &counts,
    );
}
