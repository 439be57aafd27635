//! libFuzzer's entry to the target `connection`; what must hold stands in `millpond_fuzz::connection`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::connection(data));
