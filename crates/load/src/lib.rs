//! A load generator whose due times are arithmetic, never `now()` after a sleep.
//!
//! ```text
//! Load ─ check ─▶ Plan ─▶ Stream per client ──▶ Client ◀──▶ Engine ◀──▶ sockets
//! (config)      (workload)  the seed decides      │ sans-IO    one thread, one event loop
//!                           every byte            ▼
//!                                              Account ─ segments ─▶ run ─▶ LoadResult
//! ```
//!
//! | module | its one idea |
//! |---|---|
//! | [`config`] | what a run is asked to be, checked before anything begins |
//! | [`random`] | one seed, many named streams |
//! | [`keys`] | which keys are asked for, and by which law |
//! | [`sizes`] | how large values are |
//! | [`values`] | a value is a function of its key, so that any reader can verify it |
//! | [`workload`] | a mix of commands as a stream of requests |
//! | [`schedule`] | when requests are due |
//! | [`client`] | one virtual client: bytes in, bytes out |
//! | [`account`] | what became of every request |
//! | [`engine`] | one thread: an event loop that drives clients over sockets |
//! | [`run`] | a whole run of several threads |
//! | [`result`] | what it found out, as plain data |
//! | [`search`] | the highest rate that a system carries |
//! | [`memtier`] | memtier_benchmark's command line and outputs |
//! | [`table`] | the same for people |
//! | [`text`] | laws, mixes and rates as people write them |
//!
//! **The times.** A request is `due` when its client wants to send it: in a closed load when the answer before it was complete and
//! the client has thought, in an open load when the schedule says. It is `sent` before the write that carries
//! its first byte, and `answered` after the read that completed its answer. Response time = answered − due;
//! lateness = sent − due.

#![forbid(unsafe_code)]

pub mod account;
pub mod client;
mod collect;
pub mod config;
pub mod door;
pub mod engine;
pub mod keys;
pub mod memtier;
pub mod merge;
pub mod random;
pub mod result;
pub mod run;
pub mod schedule;
pub mod search;
pub mod settings;
pub mod sizes;
pub mod table;
mod tasks;
pub mod text;
pub mod trace;
pub mod values;
pub mod workload;

pub use config::{Class, Extent, Load};
pub use result::{LoadResult, Warning};
pub use run::{Conductor, Event, LoadError, Phase};
