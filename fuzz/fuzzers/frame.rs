//! libFuzzer's entry to the target `frame`; what must hold stands in `millpond_fuzz::frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::frame(data));
