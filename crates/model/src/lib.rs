//! Queueing theory that says what its assumptions are.
//!
//! One description, [`Network`], feeds every solver and the simulator. A solver treats some features of
//! the description exactly, some approximately, and refuses the rest by name; every answer is checked
//! against the laws before anyone sees it, and an answer that breaks one is an error, never a number.
//!
//! | module | its one idea |
//! |---|---|
//! | [`network`] | what there is: stations, pools, classes and their paths |
//! | [`form`] | the same as TOML or JSON, with errors that name the line |
//! | [`distribution`] | service and gap times by name and parameters |
//! | [`laws`] | operational laws: true of every system, whatever its distributions |
//! | [`bounds`] | what no system of these demands can exceed, and where its knee is |
//! | [`station`] | one station alone, fed by arrivals: M/M/1 to G/G/m, with percentiles |
//!
//! Times are seconds, rates are per second, sizes are bytes, unless a name says otherwise.

#![forbid(unsafe_code)]

pub mod bounds;
pub mod distribution;
mod error;
pub mod form;
pub mod laws;
pub mod network;
pub mod station;

pub use distribution::Distribution;
pub use error::Error;
pub use network::Network;
