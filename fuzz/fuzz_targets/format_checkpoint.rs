//! libFuzzer entry point; see `zoneweave_raid::log::format::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zoneweave_raid::log::format::fuzzing::checkpoint(data));
