//! Where stations run.

pub mod cap;
pub mod local;
pub mod netns;
pub mod process;
pub mod stations;
