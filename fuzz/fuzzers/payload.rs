//! libFuzzer's entry to the target `payload`; what must hold stands in `millpond_fuzz::payload`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::payload(data));
