//! Any bytes for [`krarup_fuzz::sessions`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| krarup_fuzz::sessions::check(bytes));
