//! libFuzzer's entry to the target `bucket_map`; what must hold stands in `millpond_fuzz::bucket_map`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::bucket_map(data));
