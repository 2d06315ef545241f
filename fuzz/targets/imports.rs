//! Any bytes for [`krarup_fuzz::imports`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| krarup_fuzz::imports::check(bytes));
