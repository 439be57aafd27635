//! libFuzzer's entry to the target `ordered_checkpoint`; what must hold stands in `millpond_fuzz::ordered_checkpoint`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::ordered_checkpoint(data));
