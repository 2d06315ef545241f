//! What was measured: one row per visit to a station, and its files.
//!
//! ```text
//! a request is replied ─▶ Visit + [ServerVisit]      plain data, on the stack
//!                              │
//!            Recorder::record(&visit, &servers)      one per thread; no lock, no allocation
//!                              ├─▶ Windows           one-second windows per operation
//!                              ├─▶ Histograms        queue, server, own, response time per operation
//!                              ├─▶ Totals, Servers   counters of the whole run
//!                              └─▶ Holds             hold time by workers busy and queue length seen
//!            Recorder::merge                         at the end, or for a snapshot: exact
//! ```
//!
//! | module | its one idea |
//! |---|---|
//! | [`stamps`] | the one place where each stamp and each derived time is defined |
//! | [`visit`] | a request's row; its parts add up to the whole by construction |
//! | [`tally`] | counts and sums of visits, which add up exactly in any order |
//! | [`window`] | tallies second by second, in bounded memory |
//! | [`histogram`] | how the four times are distributed, to three digits |
//! | [`holds`] | the curve T(n): how long a worker is held while n are busy |
//! | [`recorder`] | all of it behind one call per request |
//! | [`live`] | what a loop keeps of the last minutes for a model of its headroom |
//! | [`jobs`] | what a broker keeps of the last minutes of one tube, for a model of its workers |
//! | [`hot_keys`] | what a loop keeps of the keys that take the most |
//! | [`clients`] | which clients ask for how much
//! | [`summary`] | what a middleware says of its whole run when it ends |
//! | [`watch`] | what the machine did meanwhile |
//! | [`scaled`] | a testbed that is so many times slower than the machines it stands for |
//! | [`schema`] | every column of every file, defined once |
//! | [`exposition`] | numbers as Prometheus reads them |
//! | [`file`](mod@file) | the files: each has a writer and a reader that give back the same |

#![forbid(unsafe_code)]

pub mod clients;
mod counts;
pub mod exposition;
pub mod file;
pub mod histogram;
pub mod holds;
pub mod hot_keys;
pub mod jobs;
pub mod live;
pub mod quantities;
mod random;
pub mod recorder;
pub mod scaled;
pub mod schema;
pub mod stamps;
pub mod summary;
pub mod tally;
pub mod visit;
pub mod watch;
pub mod window;

pub use clients::{ClientCounts, ClientLoad, ClientRates, ClientsReport};
pub use histogram::{Histograms, MeasuredDistribution, Quantity};
pub use holds::Holds;
pub use hot_keys::{HotKeyBooks, HotKeySnapshot, KeyTally, RequestSampler, SampledRequest};
pub use jobs::{ArrivalSlot, ArrivalWindow, EndedLease, JobBooks, JobSnapshot};
pub use live::{
    KEPT_OF_ROWS, LiveBooks, LiveRows, LiveSnapshot, LiveVisit, LoopUse, LoopWindow, VisitStretch,
};
pub use recorder::{Recorder, RecorderSettings, ServerTotals};
pub use tally::VisitTally;
pub use visit::{KeyDigest, Operation, Outcome, Parts, ServerVisit, Visit};
pub use window::{WindowRow, Windows};
