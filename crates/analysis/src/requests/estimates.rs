//! What the rows of a run say.

use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;
use crate::trial::TrialHistogram;
use crate::warning::Warning;

/// The percentiles that are told, as shares.
pub const SHARES: [f64; 7] = [0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999];

/// What the rows of a run say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestEstimates {
    /// Rows there are.
    pub rows: u64,
    /// How long the run was, from the first request received to the last reply.
    pub run: Seconds,
    /// When the measured span begins, from the beginning of the run.
    pub from: Seconds,
    /// How long it is.
    pub length: Seconds,
    /// How long a window is.
    pub window: Seconds,
    /// The stations visited.
    pub stations: Vec<StationEstimates>,
    /// The whole run, warm-up and all; empty where requests have a row at each of several stations.
    pub windows: Vec<EstimateWindow>,
    /// How much of the beginning is unlike the rest, by throughput and by response time.
    pub settled: [Settled; 2],
    /// What does not add up.
    pub warnings: Vec<Warning>,
    /// Whether a load generator wrote the rows: then requests are received when they are due and
    /// taken when they are sent, so that what is called queue here is lateness, and server the time
    /// from sent to answered.
    #[serde(default)]
    pub of_clients: bool,
}

/// Where MSER would cut the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// After so long the run is steady.
    After(Seconds),
    /// Not in its first half: it had not settled.
    Never,
    /// The run has fewer than ten windows, none where its rows are of several stations, or they are
    /// all alike.
    Unknown,
}

/// One station in the measured span.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StationEstimates {
    /// Its number: 0 is the station that wrote the rows.
    pub station: u16,
    /// All operations together, then each that occurred.
    pub operations: Vec<OperationEstimates>,
    /// Little's law at the station and at its parts.
    pub places: Vec<Occupancy>,
    /// What was asked of servers.
    pub servers: Vec<ServerEstimates>,
    /// Response times, in buckets of 100 µs.
    pub histogram: TrialHistogram,
    /// Server times likewise.
    pub server_histogram: TrialHistogram,
}

/// One operation, or all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationEstimates {
    /// Its name; `all` for all together.
    pub operation: String,
    /// Requests replied to.
    pub count: u64,
    /// Those with an error.
    pub errors: u64,
    /// Keys found among keys asked for; none where no key was read.
    pub hit_ratio: Option<f64>,
    /// Throughput X.
    pub throughput: Quantity,
    /// Replied − received.
    pub response: TimeSpread,
    /// Taken − queued.
    pub queue: TimeSpread,
    /// Last answered − first sent.
    pub server: TimeSpread,
    /// The rest.
    pub own: TimeSpread,
}

/// How one kind of time is spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeSpread {
    /// Mean; none where there was no request.
    pub mean: Option<Quantity>,
    /// Percentiles at [`SHARES`]; empty then.
    pub percentiles: Vec<Quantity>,
}

impl TimeSpread {
    /// The percentile at this share; none where it is not told, or there was no request.
    pub fn at(&self, share: f64) -> Option<&Quantity> {
        let place = SHARES.iter().position(|known| (known - share).abs() < 1e-9)?;
        self.percentiles.get(place)
    }
}

/// A place where requests are for a while, and Little's law there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Occupancy {
    /// `station`, `queue`, `workers`, `server 0` …
    pub name: String,
    /// Requests that came in the span, per second.
    pub arrivals: f64,
    /// Requests that went in it, per second: X.
    pub completions: f64,
    /// How long those that went had been there: W, their mean.
    pub time: Seconds,
    /// How many were there, averaged over time: L, from the stamps of all that were there in the
    /// span.
    pub present: f64,
}

impl Occupancy {
    /// X · W, what Little's law makes of L.
    pub fn by_law(&self) -> f64 {
        self.completions * self.time
    }
}

/// A server in the measured span.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerEstimates {
    /// Its place in the configuration.
    pub server: u16,
    /// Requests, or parts of requests, that ended.
    pub requests: u64,
    /// Those with an error.
    pub errors: u64,
    /// Of all requests to servers.
    pub share: f64,
    /// Answered − sent.
    pub time: TimeSpread,
}

/// A window of the whole run: means of the requests replied to in it, where there were any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EstimateWindow {
    /// When it begins, from the beginning of the run.
    pub start: Seconds,
    /// How long it is: the last may be shorter.
    pub length: Seconds,
    /// Requests replied to.
    pub completed: u64,
    /// Mean response time.
    pub response: Option<Seconds>,
    /// Mean queue time.
    pub queue: Option<Seconds>,
    /// Mean server time.
    pub server: Option<Seconds>,
    /// Mean own time.
    pub own: Option<Seconds>,
    /// Mean queue length that those saw which a worker took.
    pub queue_length: Option<f64>,
}
