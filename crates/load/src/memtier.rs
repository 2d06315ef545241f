//! memtier_benchmark's command line and its outputs (and memaslap's), so that scripts written for
//! it run unchanged.
//!
//! What it means is the same where it can be: the ratio's cycle, multi-gets, the key range with
//! both ends included, prefix and defaults. It differs on purpose in three things: every client has
//! a random stream of its own; response times count from when a request was due; `--rate-limiting`
//! is an open load, paced, of that rate for each connection.

pub mod convert;
pub mod flags;
mod memaslap;
pub mod output;
mod printed;
pub mod read;
pub mod script;

pub use flags::{Memtier, parse};
