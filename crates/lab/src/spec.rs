//! What an experiment is asked to be: a file for people, with errors that name the line.
//!
//! ```text
//! factors ─┐                    stations: how each program is started, `$factor` where a level goes
//! zip      ├─▶ cells ─▶ trials  phases:   warm-up, then what is measured
//! except   ┘     repetitions    gates:    what a trial must keep to count
//! ```
//!
//! | file | its one idea |
//! |---|---|
//! | [`experiment`] | the keys of the file |
//! | [`factor`] | what is varied |
//! | [`station`] | what runs, and how |
//! | [`machine`] | other machines, and how they are reached |
//! | [`fault`] | what is done to stations |
//! | [`quantity`] | times and bandwidths as people write them |
//! | [`check`] | what a spec must keep beyond its grammar |
//! | [`error`] | what is wrong, and where |

pub mod check;
pub mod error;
pub mod experiment;
pub mod factor;
pub mod fault;
pub mod machine;
pub mod quantity;
pub mod station;

pub use error::SpecError;
pub(crate) use error::line_at;
pub use experiment::{Anchor, Phases, Populate, Predictions, Repetitions, Spec};
pub(crate) use factor::names_in;
pub use factor::{Factor, Level, LevelName};
pub use fault::{Action, Fault, FaultTarget};
pub use machine::{Machine, Ssh};
pub use station::{Program, StationCount, StationSpec, Stations, Testbed};
