//! Any bytes for [`krarup_fuzz::records`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| krarup_fuzz::records::check(bytes));
