//! How large a request may be.

/// The largest value that may be asked for: memcached's own largest item limit, 1 GiB.
pub const LARGEST_VALUE: u64 = 1 << 30;

/// Most keys in one multi-get.
pub const MOST_KEYS: u32 = 10_000;
