//! Where stations run.

pub mod baselines;
pub mod builds;
pub mod calibrate;
pub mod cap;
mod cleanup;
pub mod clock;
pub mod delivered;
pub mod error;
pub mod host;
pub mod hosts;
pub mod local;
pub mod namespace;
pub mod netns;
pub mod paths;
pub mod pods;
pub mod probe;
pub mod process;
mod records;
pub mod remote;
pub mod ssh;
pub mod stations;
pub mod transport;
pub mod trial;
pub mod twemproxy;
mod watching;
