//! Any bytes for [`krarup_fuzz::traces`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| krarup_fuzz::traces::check(bytes));
