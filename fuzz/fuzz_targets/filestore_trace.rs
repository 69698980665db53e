//! libFuzzer entry point; see `zoneweave_filestore::trace::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zoneweave_filestore::trace::fuzzing::trace(data));
