//! libFuzzer entry point; see `zoneweave_raid::raizn::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zoneweave_raid::raizn::fuzzing::zoned(data));
