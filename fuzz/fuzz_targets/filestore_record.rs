//! libFuzzer entry point; see `zoneweave_filestore::format::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zoneweave_filestore::format::fuzzing::record(data));
