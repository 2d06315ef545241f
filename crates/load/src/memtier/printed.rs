//! What memtier_benchmark printed, in our words and units.

use std::collections::BTreeMap;

use krarup_units::{PerSecond, Seconds};
use serde::Serialize;

/// A whole output.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Printed {
    /// Threads.
    pub threads: Option<u32>,
    /// Connections of each thread.
    pub connections_per_thread: Option<u32>,
    /// Requests of each connection, where these were counted.
    pub requests_per_client: Option<u64>,
    /// How long it ran, in seconds, where that was asked for.
    pub seconds: Option<Seconds>,
    /// `ALL STATS`, or with several runs the best, the worst, the average, and perhaps each.
    pub blocks: Vec<PrintedTable>,
}

/// One table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PrintedTable {
    /// Its title.
    pub title: String,
    /// `Sets`, `Gets`, `Waits`, `Totals`.
    pub rows: BTreeMap<String, PrintedRow>,
    /// Of `SET` and `GET`: up to how many seconds (first) how large a share of the requests took
    /// (second, 0 to 1).
    pub histograms: BTreeMap<String, Vec<(Seconds, f64)>>,
    /// How many seconds each entry of a series holds; not given where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<u64>,
}

/// One row of a table. What was not printed, or printed as no number, is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PrintedRow {
    /// Requests, in the JSON.
    pub count: Option<u64>,
    /// Requests per second.
    pub throughput: Option<PerSecond>,
    /// Keys found per second.
    pub hits: Option<PerSecond>,
    /// Keys not found per second.
    pub misses: Option<PerSecond>,
    /// Mean response time, from sent, in seconds.
    pub mean: Option<Seconds>,
    /// Percentiles (0 to 100) and their times, in seconds.
    pub percentiles: Vec<(f64, Seconds)>,
    /// Bytes per second in both directions.
    pub bytes_per_second: Option<f64>,
    /// Seconds from the start, and what happened in each: requests and their mean response time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<(u64, u64, Option<Seconds>)>,
}
