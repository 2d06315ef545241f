//! Any bytes for [`krarup_fuzz::asked`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| krarup_fuzz::asked::check(bytes));
