//! What the crate promises, seen from outside. `cargo test -p krarup-stats --test all` runs it.

mod coverage;
mod golden;
mod published;
