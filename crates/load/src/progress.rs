//! What is going on in a run, and the seconds of it as they are over.

use krarup_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::account::Segment;
use crate::config::Extent;
use crate::result::SeriesRow;

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Keys are stored.
    Populate,
    /// It is verified that all are there.
    Check,
    /// The load itself.
    Run,
}

/// A second of a run is over, on all threads.
#[derive(Debug)]
pub struct LoadProgress<'a> {
    /// What is going on.
    pub phase: Phase,
    /// How long it will go on in all, where that is known.
    pub of: Extent,
    /// What time it was on the wall when the run began, since 1970 (UTC).
    pub epoch_unix: Nanos,
    /// The second's rows: all operations together first.
    pub rows: &'a [SeriesRow],
    /// Everything that was recorded in it.
    pub segment: &'a Segment,
}
