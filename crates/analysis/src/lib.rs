//! From the records of trials to results: the same bytes in, the same bytes out.
//!
//! ```text
//! Trial, Trial, …  ─▶ sweep::summarise ─▶ Results
//!   what client, middleware,   │            cells: estimates with n and an interval
//!   servers and processes      ├─ laws            warnings: what does not add up, and what to do
//!   said of one run            ├─ steadiness      whether enough of the beginning was cut off
//!                              ├─ saturation      verdicts: how far each workload goes, and what stops it
//!                              ├─ configurations  the least that comes near to the most
//!                              ├─ demands         what a request demands of each resource
//!                              ├─ distribution    which law the response times look like
//!                              └─ design          which factors matter, where it is a 2^k·r design
//! plan, Results     ─▶ missing::note           which runs are not there, and what that leaves open
//! guesses, Results  ─▶ sheet::sheet ─▶ GradedSheet
//! Results, Results  ─▶ compare::compare  ─▶ Comparison
//!                       ├ pairs, outcomes: which cells are the same, and what of them fails
//!                       ├ history_runs::history, of several in the order of their time
//!                       └ regression::judge, of runs of other programs too (other_programs)
//! rows of a run     ─▶ requests::Reading ─▶ Requests
//! a trace           ─▶ trace::TraceReading ─▶ TraceEstimates  which keys, how much memory
//! looks at processes ─▶ top::TopState    ─▶ TopFigures  what they do now
//! ```
//! Nothing here touches a file, a clock or a process. Times are in seconds, rates per second,
//! shares from 0 to 1.

#![forbid(unsafe_code)]

pub mod anchor;
mod blocks;
pub mod caution;
pub mod cell;
pub mod change;
pub mod compare;
pub mod configurations;
pub mod course;
pub mod demands;
pub mod design;
pub mod distribution;
pub mod graded;
pub mod headroom;
pub mod history;
pub mod history_runs;
pub mod laws;
pub mod missing;
pub mod other_programs;
pub mod outcomes;
pub mod pairs;
pub mod predict;
pub mod quantity;
pub mod regression;
pub mod relative;
pub mod requests;
pub mod results;
pub mod saturation;
pub mod sheet;
pub mod so_far;
pub mod steadiness;
pub mod sweep;
pub mod top;
pub mod trace;
pub mod trial;
pub mod verdict;
pub mod warning;

pub use cell::Cell;
pub use quantity::Quantity;
pub use results::{Environment, Results};
pub use sweep::summarise;
pub use trial::Trial;
pub use verdict::Verdict;
pub use warning::Warning;
