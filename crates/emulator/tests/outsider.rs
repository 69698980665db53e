//! The example for users of the library prints the expected lines, and the same in a second run.

#[test]
fn the_example_runs() {
    let told = crate::example::run().unwrap();
    assert_eq!(told, crate::example::run().unwrap(), "the same seed, the same history");
    let said = |what: &str| assert!(told.contains(what), "{what:?} is not in {told}");
    said("904 zones");
    said("appends to 4 zones");
    said("24 were flushed");
    said("zone 9 took 3 resets, 3 erases a block");
}
