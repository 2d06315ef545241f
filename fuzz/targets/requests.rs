//! Any bytes for [`krarup_fuzz::requests`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| krarup_fuzz::requests::check(bytes));
