//! What the crate promises, seen from outside. `cargo test -p krarup-report --test all` runs it.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod browser;
mod fixture;
mod kinds;
mod page;
