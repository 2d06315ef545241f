//! Only trials touch the world: stations are started, watched, and ended here, and nowhere below.
//!
//! | file | its one idea |
//! |---|---|
//! | [`testbed`] | where stations run: processes on this machine |
//! | [`host`] | what machine it is, and what processes take of it |
//! | [`stop`] | Ctrl-C ends the work in order, not in the middle |

#![forbid(unsafe_code)]

pub mod host;
pub mod stop;
pub mod testbed;
