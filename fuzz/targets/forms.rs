//! Any bytes for [`krarup_fuzz::forms`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| krarup_fuzz::forms::check(bytes));
