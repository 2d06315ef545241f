//! Where stations run.

pub mod local;
pub mod process;
pub mod stations;
