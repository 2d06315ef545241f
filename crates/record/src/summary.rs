//! What a middleware says of its whole run when it ends: plain data, for a table, for JSON and for
//! analysis.

use krarup_units::{Nanos, Seconds, Stamp};
use serde::{Deserialize, Serialize};

use crate::histogram::BUCKET;
use crate::{MeasuredDistribution, Operation, Quantity, Recorder, VisitTally};

/// The name of a database among the processes of a run.
pub const DATABASE: &str = "PostgreSQL";

/// Everything measured, from the start, or since it was told to count anew, to the end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunSummary {
    /// Our version.
    pub version: String,
    /// How long was measured, in seconds.
    pub seconds: Seconds,
    /// All operations together.
    pub all: OperationSummary,
    /// Each operation that occurred.
    pub operations: Vec<OperationSummary>,
    /// The worker slots, of a broker the connections to its database; none: unlimited.
    pub workers: Option<u32>,
    /// Whether one is free when the servers have answered, as a connection to a database is, and
    /// not only when the reply has left.
    #[serde(default)]
    pub free_when_answered: bool,
    /// Mean queue length seen by the requests that a worker took, themselves left out.
    pub queue_length: Option<f64>,
    /// Mean queue length over time: the sum of all queue times over the length of the run (Little's
    /// law).
    pub queue_length_over_time: f64,
    /// Visits whose stamps were out of order; more than none is a bug.
    pub disordered: u64,
    /// Second by second, all operations together; whole seconds only.
    pub windows: Vec<SecondSummary>,
    /// Response times in equal buckets from zero up.
    pub histogram: Buckets,
    /// Processor time this process took, user and system, in seconds.
    pub cpu_seconds: Option<Seconds>,
    /// Processors this process could use; none where they were not read.
    #[serde(default)]
    pub cores: Option<u32>,
}

/// The same of one middleware, with the servers behind it: what stands in its `summary.json`
/// whichever program it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MiddlewareSummary {
    /// Of its requests.
    #[serde(flatten)]
    pub run: RunSummary,
    /// What it asked.
    pub servers: Vec<ServerSummary>,
}

/// What one server was asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerSummary {
    /// `host:port`, as configured.
    pub name: String,
    /// Requests, or parts of them, sent to it.
    pub requests: u64,
    /// Those that it did not answer as its protocol says.
    pub errors: u64,
}

/// One operation, or all.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperationSummary {
    /// Its name; `all` for all together.
    pub operation: String,
    /// Requests replied to.
    pub count: u64,
    /// Requests per second that ended without an error. The throughput of a report of `krarup run`
    /// counts those with one, too.
    pub throughput: f64,
    /// Requests that ended in an error.
    pub errors: u64,
    /// Keys found.
    pub hits: u64,
    /// Keys asked for and not found.
    pub misses: u64,
    /// Misses over keys asked for; none where none was.
    pub miss_ratio: Option<f64>,
    /// Bytes from clients.
    pub bytes_in: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
    /// Taken − queued.
    pub queue: TimePercentiles,
    /// Last answered − first sent.
    pub server: TimePercentiles,
    /// The rest.
    pub own: TimePercentiles,
    /// Replied − received.
    pub response: TimePercentiles,
}

/// Mean and percentiles of one kind of time, in seconds; all zero where nothing was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimePercentiles {
    /// Arithmetic mean, exact.
    pub mean: Seconds,
    /// Half are at most this.
    pub p50: Seconds,
    /// Nine of ten.
    pub p90: Seconds,
    /// Ninety-nine of a hundred.
    pub p99: Seconds,
    /// Nine hundred and ninety-nine of a thousand.
    pub p999: Seconds,
}

/// One second.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SecondSummary {
    /// When it begins, in seconds from the start.
    pub start: Seconds,
    /// How long it is.
    pub length: Seconds,
    /// Requests replied to.
    pub count: u64,
    /// Those with an error.
    pub errors: u64,
    /// Mean queue time; none where nothing was counted, as below.
    pub queue: Option<Seconds>,
    /// Mean server time.
    pub server: Option<Seconds>,
    /// Mean own time.
    pub own: Option<Seconds>,
    /// Mean response time.
    pub response: Option<Seconds>,
    /// Mean queue length seen.
    pub queue_length: Option<f64>,
}

/// Counts in equal buckets from zero up; empty ones are left out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Buckets {
    /// Width, in seconds.
    pub width: Seconds,
    /// Bucket number (bucket k holds k·width ≤ t < (k+1)·width) and count.
    pub counts: Vec<(u64, u64)>,
}

impl RunSummary {
    /// Of everything a recorder was told from `since` to `stopped`, of a middleware with so many
    /// workers.
    pub fn of(recorder: &Recorder, (since, stopped): (Stamp, Stamp), workers: Option<u32>) -> Self {
        let length = Nanos(stopped.0.saturating_sub(since.0));
        let all = recorder.overall();
        let mut distributions = [const { None }; 4];
        for (_, quantity, distribution) in recorder.histograms().iter() {
            distributions[place(quantity)].get_or_insert_with(MeasuredDistribution::new).merge(distribution);
        }
        let line = |operation: &str, tally: &VisitTally, times: [Option<&MeasuredDistribution>; 4]| {
            OperationSummary {
                operation: operation.to_owned(),
                count: tally.count,
                throughput: tally.throughput(length).0,
                errors: tally.errors,
                hits: tally.hits,
                misses: tally.misses,
                miss_ratio: tally.miss_ratio(),
                bytes_in: tally.bytes_in,
                bytes_out: tally.bytes_out,
                queue: TimePercentiles::of(times[0]),
                server: TimePercentiles::of(times[1]),
                own: TimePercentiles::of(times[2]),
                response: TimePercentiles::of(times[3]),
            }
        };
        let operations =
            Operation::ALL.iter().copied().filter(|&operation| recorder.total(operation).count > 0);
        let operations = operations.map(|operation| {
            let of = |quantity| recorder.histograms().get(operation, quantity);
            line(operation.name(), &recorder.total(operation), QUANTITIES.map(of))
        });
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seconds: length.as_seconds(),
            all: line("all", &all, distributions.each_ref().map(Option::as_ref)),
            operations: operations.collect(),
            workers,
            free_when_answered: false,
            queue_length: all.mean_queue_length_seen(),
            queue_length_over_time: all.mean_queue_length(length),
            disordered: recorder.disordered(),
            windows: windows(recorder, since, stopped),
            histogram: buckets(distributions[place(Quantity::Response)].as_ref()),
            cpu_seconds: None,
            cores: None,
        }
    }
}

const QUANTITIES: [Quantity; 4] = [Quantity::Queue, Quantity::Server, Quantity::Own, Quantity::Response];

fn place(quantity: Quantity) -> usize {
    QUANTITIES.iter().position(|&other| other == quantity).expect("all four are listed")
}

impl TimePercentiles {
    fn of(distribution: Option<&MeasuredDistribution>) -> Self {
        let Some(distribution) = distribution else { return Self::default() };
        let quantile = |share| distribution.quantile(share).map_or(0.0, Nanos::as_seconds);
        Self {
            mean: distribution.mean().unwrap_or(0.0),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
        }
    }
}

/// The whole windows: one that began before the counting or ends after it would look like a slump.
fn windows(recorder: &Recorder, since: Stamp, stopped: Stamp) -> Vec<SecondSummary> {
    let mut windows: Vec<(Stamp, Nanos, VisitTally)> = Vec::new();
    for row in recorder.windows().rows() {
        if row.start < since || row.start + row.length > stopped {
            continue;
        }
        match windows.last_mut() {
            Some((start, _, tally)) if *start == row.start => tally.merge(&row.tally),
            _ => windows.push((row.start, row.length, row.tally)),
        }
    }
    let window = |(start, length, tally): (Stamp, Nanos, VisitTally)| SecondSummary {
        start: (start - since).as_seconds(),
        length: length.as_seconds(),
        count: tally.count,
        errors: tally.errors,
        queue: tally.mean(tally.queue_time),
        server: tally.mean(tally.server_time),
        own: tally.mean(tally.own_time),
        response: tally.mean(tally.response_time),
        queue_length: tally.mean_queue_length_seen(),
    };
    windows.into_iter().map(window).collect()
}

fn buckets(distribution: Option<&MeasuredDistribution>) -> Buckets {
    let buckets = distribution.map_or_else(Vec::new, |distribution| distribution.buckets(BUCKET));
    let counts = buckets.iter().filter(|bucket| bucket.count > 0);
    Buckets {
        width: BUCKET.as_seconds(),
        counts: counts.map(|bucket| (bucket.from.0 / BUCKET.0, bucket.count)).collect(),
    }
}
