//! The same seed gives the same history to the last byte, in every build.

#[test]
fn a_seed_is_a_history_in_every_build() {
    crate::history::verify();
}
