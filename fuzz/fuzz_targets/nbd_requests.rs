//! libFuzzer entry point; see `zoneweave_nbd::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zoneweave_nbd::fuzzing::requests(data));
