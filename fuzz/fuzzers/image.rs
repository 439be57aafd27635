//! libFuzzer's entry to the target `image`; what must hold stands in `millpond_fuzz::image`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::image(data));
