//! libFuzzer's entry to the target `client_link`; what must hold stands in `millpond_fuzz::client_link`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::client_link(data));
