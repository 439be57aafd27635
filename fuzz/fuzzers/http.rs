//! libFuzzer's entry to the target `http`; what must hold stands in `millpond_fuzz::http`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::http(data));
