//! libFuzzer's entry to the target `key`; what must hold stands in `millpond_fuzz::key`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::key(data));
