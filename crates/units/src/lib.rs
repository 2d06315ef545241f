//! The quantities of the project, as types: a length of time is not a point in time.
//!
//! | type | what it is | unit |
//! |---|---|---|
//! | [`Stamp`] | a point on the monotonic clock of one run | nanoseconds since the run's epoch |
//! | [`Nanos`] | a measured length of time | nanoseconds |
//! | [`Seconds`] | a computed length of time: means, demands, predictions | seconds |
//! | [`PerSecond`] | a rate: throughput X, arrival rate λ | per second |
//! | [`Bytes`] | a size | bytes |
//!
//! [`text`] reads and writes them as people do: `1.50 ms`, `100us`, `64KiB`.

#![forbid(unsafe_code)]

mod rate;
mod size;
pub mod text;
mod time;

pub use rate::PerSecond;
pub use size::Bytes;
pub use time::{Nanos, Seconds, Stamp};
