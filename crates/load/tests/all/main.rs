//! What the crate promises, seen from outside. `cargo test -p krarup-load --test all` runs it.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod memtier;
mod theory;
