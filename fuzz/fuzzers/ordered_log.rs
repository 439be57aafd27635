//! libFuzzer's entry to the target `ordered_log`; what must hold stands in `millpond_fuzz::ordered_log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::ordered_log(data));
