//! libFuzzer's entry to the target `merge`; what must hold stands in `millpond_fuzz::merge`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::merge(data));
