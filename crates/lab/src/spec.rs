//! What an experiment is asked to be: a file for people, whose mistakes are named with their lines.
//!
//! ```text
//! factors ─┐                    stations: how each program is started, `$factor` where a level goes
//! zip      ├─▶ cells ─▶ trials  phases:   warm-up, then what is measured
//! except   ┘     repetitions    gates:    what a trial must keep to count
//! ```
//!
//! | file | its one idea |
//! |---|---|
//! | [`experiment`] | the keys of the file, a row each |
//! | [`factor`] | what is varied |
//! | [`station`] | what runs, and how |
//! | [`machine`] | other machines, and how they are reached |
//! | [`pod`] | pods, and how their cluster is reached |
//! | [`fault`] | what is done to stations |
//! | [`scale`] | how many times slower than the machines it speaks of |
//! | [`sheet`] | what a reader guesses before |
//! | [`check`] | what no key alone says |

pub mod check;
pub mod experiment;
pub mod factor;
pub mod fault;
pub mod machine;
pub mod pod;
pub mod scale;
pub mod sheet;
pub mod station;

pub use experiment::{Anchor, Phases, Populate, Predictions, Repetitions, Spec};
pub(crate) use factor::names_in;
pub use factor::{Factor, Level, LevelName};
pub use fault::{Action, Fault, FaultTarget};
pub use machine::{Machine, Ssh};
pub use pod::{Kubernetes, PodSettings};
pub use scale::{Baseline, ScaleBy, StationRole, TestbedScale};
pub use sheet::SheetRow;
pub use station::{Program, StationCount, StationSpec, Stations, Testbed};
