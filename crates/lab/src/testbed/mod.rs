//! Where stations run.

pub mod local;
