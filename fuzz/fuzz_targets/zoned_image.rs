//! libFuzzer entry point; see `zoneweave_sim::hostile`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zoneweave_sim::hostile::zoned_image(data));
