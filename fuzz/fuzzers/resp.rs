//! libFuzzer's entry to the target `resp`; what must hold stands in `millpond_fuzz::resp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millpond_fuzz::resp(data));
