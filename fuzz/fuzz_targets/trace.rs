//! libFuzzer entry point; see `zoneweave_sim::replay::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zoneweave_sim::replay::fuzzing::trace(data));
