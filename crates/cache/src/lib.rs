//! A small memcached-compatible store: the backend where no memcached is installed.
//!
//! ```text
//! socket ─▶ driver ─▶ cache ─▶ session ─▶ memcache::request ─▶ store
//!             │          │                              │
//!          sockets    bytes in,                  items, expiry, LRU,
//!          and time   bytes out                  memory: pure, time handed in
//! ```
//!
//! | file | its one idea |
//! |---|---|
//! | [`expiry`] | what a client's expiry time means, as a point in time |
//! | [`counter`] | the numbers that `incr` and `decr` find and leave behind in a value |
//! | `items` | items within a bound on memory, the least recently used leaving first |
//! | [`store`] | what each command does to the items |
//! | [`counts`] | what has happened, under memcached's own names |
//! | [`session`] | one client's bytes in, its answers out; never a socket |
//! | [`statistics`] | the answers to `stats` |
//!
//! Answers are memcached's, byte for byte, as 1.6 gives them; tests of the whole program compare
//! with a real one (`crates/cli/tests/all/cache.rs`), and the cache's guide lists every difference
//! that is meant.

#![forbid(unsafe_code)]

mod cache;
pub mod counter;
pub mod counts;
pub mod expiry;
mod items;
pub mod session;
pub mod statistics;
pub mod store;

pub use cache::Cache;
pub use counts::{ItemCounts, Traffic};
pub use session::{CacheSession, SessionProgress};
pub use statistics::{About, State};
pub use store::{Bounds, ItemStore};
