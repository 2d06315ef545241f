//! Any bytes for [`krarup_fuzz::beanstalk`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| krarup_fuzz::beanstalk::check(bytes));
