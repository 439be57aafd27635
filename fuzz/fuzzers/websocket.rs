//! libFuzzer's entry to the target `websocket`; what must hold stands in `millpond_fuzz::websocket`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::websocket(data));
