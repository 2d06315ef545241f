//! Any bytes for [`krarup_fuzz::queued`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| krarup_fuzz::queued::check(bytes));
