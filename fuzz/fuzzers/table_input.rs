//! libFuzzer's entry to the target `table_input`; what must hold stands in `millpond_fuzz::table_input`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::table_input(data));
