//! How waiting and response times are spread at a station alone.

use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

/// How long the requests of a class wait at a station alone, and how that is spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// Name of the class.
    pub class: String,
    /// Share of the requests that wait at all; not known of several classes, of G/G/m and where a
    /// server is shared.
    pub delayed: Option<f64>,
    /// Share of the arrivals that find no room.
    pub lost: f64,
    /// Mean wait W; where a server is shared, by how much R is longer than the service.
    pub mean: Seconds,
    /// Mean response R.
    pub response: Seconds,
    /// Empty where only means are known: of several classes, and where a server is shared.
    pub percentiles: Vec<WaitPercentile>,
    /// Whether the percentiles are exact; else the wait of those that wait is taken as exponential.
    pub exact: bool,
    /// Kingman's bound: no G/G/1 of these rates and variations has a longer mean wait. One server
    /// only.
    pub at_most: Option<Seconds>,
}

/// What a share of the requests does not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitPercentile {
    /// 0.99 is the 99th percentile.
    pub share: f64,
    /// Waiting time.
    pub wait: Seconds,
    /// Response time.
    pub response: Seconds,
}
