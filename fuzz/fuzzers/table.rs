//! libFuzzer's entry to the target `table`; what must hold stands in `millpond_fuzz::table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::table(data));
