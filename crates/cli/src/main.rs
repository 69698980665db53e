//! The `zoneweave` command.
fn main() {}
