//! libFuzzer entry point; see `zoneweave_nvmf::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zoneweave_nvmf::fuzzing::session(data));
