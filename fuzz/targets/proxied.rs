//! Any bytes for [`krarup_fuzz::proxied`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| krarup_fuzz::proxied::check(bytes));
