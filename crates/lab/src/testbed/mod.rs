//! Where stations run.

pub mod calibrate;
pub mod cap;
pub mod clock;
pub mod host;
pub mod local;
pub mod netns;
pub mod paths;
pub mod process;
pub mod ssh;
pub mod stations;
mod watching;
