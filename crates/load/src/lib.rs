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
//! | [`command`] | what may stand in a mix |
//! | [`random`] | one seed, many named streams |
//! | [`keys`] | which keys are asked for, and by which law |
//! | [`sizes`] | how large values are |
//! | [`values`] | a value is a function of its key, so that any reader can verify it |
//! | [`workload`] | a mix of commands as a stream of requests |
//! | [`schedule`] | when requests are due |
//! | [`queue`] | message queues by beanstalkd's protocol, from the client's side |
//! | [`trace`] | a recorded trace to be sent again |
//! | [`settings`] | what people write: one table of flags and of a file's keys |
//! | `tasks` | who does what: clients shared out over threads and servers |
//! | [`target`] | how a connection is made, encrypted and signed in |
//! | [`client`] | one virtual client: bytes in, bytes out |
//! | [`account`] | what became of every request |
//! | [`engine`] | one thread: an event loop that drives clients over sockets |
//! | `shortage` | how long requests waited for answers, and not for the generator |
//! | [`run`] | a whole run of several threads |
//! | `collect` | what the threads report, put together |
//! | [`clocks`] | whether the clocks of several generators agree |
//! | `asking` | asks a server when its second begins |
//! | [`merge`] | results of several generators become that of all |
//! | [`result`] | what it found out, as plain data |
//! | [`search`] | the highest rate that a system carries |
//! | [`memtier`] | memtier_benchmark's command line and outputs |
//! | [`table`] | the same for people |
//! | [`text`] | laws, mixes and rates as people write them |
//!
//! **The times.** A request is `due` when its client wants to send it: in a closed load when the
//! answer before it was complete and the client has thought, in an open load when the schedule
//! says. It is `sent` before the write that carries its first byte, and `answered` after the read
//! that completed its answer. Response time = answered − due; lateness = sent − due.

#![forbid(unsafe_code)]

pub mod account;
mod asking;
pub mod client;
pub mod clocks;
mod collect;
pub mod command;
pub mod config;
pub mod engine;
pub mod keys;
mod limits;
pub mod memtier;
pub mod merge;
mod progress;
pub mod queue;
pub mod random;
pub mod result;
pub mod run;
pub mod schedule;
pub mod search;
pub mod settings;
mod shortage;
pub mod sizes;
pub mod table;
pub mod target;
mod tasks;
pub mod text;
pub mod trace;
pub mod values;
pub mod workload;

pub use config::{ClientClass, Extent, Load};
pub use result::{LoadResult, LoadWarning};
pub use run::{Conductor, LoadError, LoadProgress, Phase};
