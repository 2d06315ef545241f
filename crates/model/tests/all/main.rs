//! Solvers and simulation against what is known from elsewhere.
//! `cargo test -p krarup-model --test all networks::` runs one file.

mod coverage;
mod faults;
mod fork_join;
mod fork_servers;
mod headroom;
mod heldout;
mod networks;
mod oracle;
mod prediction;
mod published;
mod simulation;
mod solvers_agree;
