//! Any bytes for [`krarup_fuzz::replies`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| krarup_fuzz::replies::check(bytes));
