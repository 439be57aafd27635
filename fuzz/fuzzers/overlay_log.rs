//! libFuzzer's entry to the target `overlay_log`; what must hold stands in `millpond_fuzz::overlay_log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::overlay_log(data));
