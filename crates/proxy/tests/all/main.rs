//! What the crate promises, seen from outside. `cargo test -p krarup-proxy --test all` runs it.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod allocations;
mod large;
mod metrics;
mod settings;
