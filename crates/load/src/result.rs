//! What a run found out, as plain data: the JSON that `krarup load` writes, for programs to read.
//!
//! Two scopes, never mixed: [`LoadResult::account`] is of the **whole run**, from the first byte
//! sent to the last answer, and agrees with the servers' own counters to the unit.
//! [`LoadResult::operations`], throughput and times are of the **measured part** only: what was
//! answered after the warm-up and before the cool-down.

use std::collections::BTreeMap;
use std::fmt;

use krarup_record::file::log::Packed;
use krarup_record::file::rows::RowsWritten;
use krarup_record::histogram::{BUCKET, LONGEST};
use krarup_record::{Histograms, MeasuredDistribution, Operation, Quantity, VisitTally};
use krarup_units::{Nanos, PerSecond, Seconds, text};
use serde::{Deserialize, Serialize};

use crate::account::{CLASSES, LossReason, MOSTLY_OF_SYSTEM, OperationCounts, Segment, Share, Verified};
use crate::clocks::{ClocksCompared, ServerSecond};
use crate::config::{ClientClass, Load};
use crate::schedule::Arrivals;

/// The version of this format. It changes when a field changes its meaning.
pub const FORMAT: u32 = 1;

/// What one run found out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// [`FORMAT`].
    pub format: u32,
    /// What was asked for.
    pub config: Load,
    /// When the run began, in seconds since 1970 (UTC).
    pub started_unix: Seconds,
    /// How long the measured part was, in seconds; that of several generators is the longest.
    pub seconds: Seconds,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
    /// The whole run, to the unit.
    pub account: WholeRun,
    /// All operations of the measured part together.
    pub overall: OperationResult,
    /// The same by class of clients, in the order of the configuration; empty where there is only
    /// one, without a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassResult>,
    /// The measured part by operation: `get`, `multiget`, `set` and so on; those that were never
    /// sent are left out.
    pub operations: BTreeMap<String, OperationResult>,
    /// The whole run second by second; a second is cut where the measured part begins or ends.
    pub series: Vec<SeriesRow>,
    /// What the generator itself used, and whether it was on time.
    pub generator: Generator,
    /// What was found when values were verified. `None` where it was not asked for.
    pub verified: Option<Verified>,
    /// What became of the rows of all requests. `None` where none were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<RowsKept>,
    /// When a second of the first server began by this generator's clock: by this clocks are
    /// compared when results are merged. `None` where it did not wait for an instant, where that
    /// was too near, or where the server does not tell its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ServerSecond>,
    /// How far the clocks of the generators whose results were merged agree. `None` where it is of
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clocks: Option<ClocksCompared>,
    /// The generators whose results were merged into this one; empty where it is of one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged_from: Vec<GeneratorResult>,
    /// What to know before believing the figures.
    pub warnings: Vec<LoadWarning>,
}

impl LoadResult {
    /// The mean think time Z of the clients, over all requests; none where any come at their own
    /// pace.
    ///
    /// N = X (R + Z) holds for each class of clients. Summed up it holds for all of them together,
    /// where R and Z are means over the requests of all classes.
    pub fn think(&self) -> Option<Seconds> {
        let think = |class: &ClientClass| match class.arrivals {
            Arrivals::Closed(think) => Some(think.mean()),
            Arrivals::Open(_) | Arrivals::Replay(_) => None,
        };
        let thinks: Option<Vec<Seconds>> = self.config.parts().iter().map(think).collect();
        let thinks = thinks?;
        if let [only] = thinks[..] {
            return Some(only);
        }
        let requests: u64 = self.classes.iter().map(|class| class.overall.count).sum();
        let of_class = |(class, think): (&ClassResult, Seconds)| class.overall.count as f64 * think;
        Some(self.classes.iter().zip(thinks).map(of_class).sum::<f64>() / requests.max(1) as f64)
    }

    /// Requests that were answered with an error in the measured part, and all of the whole run
    /// that got no answer: it is known only after a time limit that none comes, and that may be
    /// over after the measured part.
    pub fn failed(&self) -> u64 {
        self.overall.failed() - self.overall.unanswered() + self.account.unanswered()
    }

    /// The 99th percentile of response time from the end of the warm-up to the last answer: a
    /// backlog is answered after the measured part. None where nothing was answered.
    pub(crate) fn p99_to_last_answer(&self) -> Option<Seconds> {
        let rows = self.series.iter().skip_while(|row| !row.measured);
        let mut response = MeasuredDistribution::new();
        for row in rows.filter(|row| row.class.is_empty() && row.operation == "all" && row.count > 0) {
            response.merge(&row.response_times.as_ref()?.unpack().ok()?);
        }
        response.quantile(0.99).map(Nanos::as_seconds)
    }
}

/// One class of clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassResult {
    /// Its name.
    pub name: String,
    /// Its clients.
    pub connections: u32,
    /// Requests that were answered in the whole run, with errors too.
    pub answered: u64,
    /// All of its operations in the measured part together.
    pub overall: OperationResult,
    /// Its measured part by operation.
    pub operations: BTreeMap<String, OperationResult>,
}

/// What became of the rows of all requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsKept {
    /// Rows in the file.
    pub kept: u64,
    /// Rows that were dropped because the disk was too slow.
    pub lost: u64,
}

impl From<RowsWritten> for RowsKept {
    fn from(written: RowsWritten) -> Self {
        Self { kept: written.rows, lost: written.lost }
    }
}

/// One of several generators.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeneratorResult {
    /// What was asked of it.
    pub config: Load,
    /// When its run began, in seconds since 1970 (UTC).
    pub started_unix: Seconds,
    /// How long its measured part was, in seconds.
    pub seconds: Seconds,
    /// Its requests per second in that.
    pub throughput: PerSecond,
    /// When a second of the first server began by its clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ServerSecond>,
}

/// Counts of the whole run. `sent = answered + lost`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WholeRun {
    /// Requests handed to a connection.
    pub sent: u64,
    /// Requests that were answered, with errors too.
    pub answered: u64,
    /// Requests that were not, by reason.
    pub lost: BTreeMap<String, u64>,
    /// Requests that were due and never sent: arrivals of an open load, and those of closed clients
    /// whose connection did not stand at the end.
    pub unsent: u64,
    /// Answers by operation and kind.
    pub answers: BTreeMap<String, BTreeMap<String, u64>>,
    /// Keys asked for, found and not found by commands that fetch values.
    pub keys: u64,
    /// See `keys`.
    pub hits: u64,
    /// See `keys`.
    pub misses: u64,
    /// Bytes that the sockets took, all framing of the protocol included.
    pub bytes_sent: u64,
    /// Bytes that came.
    pub bytes_received: u64,
    /// Connections that stood and were lost.
    pub connections_lost: u64,
    /// Attempts to connect that failed.
    pub connects_failed: u64,
    /// Connections that were closed on purpose after their number of requests, and made anew.
    #[serde(default)]
    pub connections_renewed: u64,
}

/// One operation in the measured part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationResult {
    /// Requests that were answered or given up.
    pub count: u64,
    /// Those that ended without an error, per second of the measured part. Of several generators
    /// that are no shares of one load and were measured for different times, the sum of their own.
    pub throughput: PerSecond,
    /// Errors, by kind: `error`, `client_error`, `server_error`, and the reasons for which requests
    /// are lost.
    pub errors: BTreeMap<String, u64>,
    /// Keys asked for.
    pub keys: u64,
    /// Keys found.
    pub hits: u64,
    /// Keys not found.
    pub misses: u64,
    /// Bytes of the requests.
    pub bytes_sent: u64,
    /// Bytes of the answers.
    pub bytes_received: u64,
    /// From when a request was due until its answer was complete. Requests that ended with an error
    /// are in it too.
    pub response_time: TimeDistribution,
    /// From when it was sent: what is left of the response time without the generator's own
    /// lateness.
    pub time_from_sent: TimeDistribution,
    /// From when it was due until it was sent.
    pub lateness: TimeDistribution,
    /// The response times in buckets of equal width.
    pub histogram: HistogramResult,
    /// The three distributions in full: what several results are merged by.
    #[serde(default)]
    pub distributions: Option<Distributions>,
}

/// The distributions of an operation at full resolution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distributions {
    /// From due to answered.
    pub response_time: Packed,
    /// From sent to answered.
    pub time_from_sent: Packed,
    /// From due to sent.
    pub lateness: Packed,
}

/// A distribution of times, in seconds; zeros where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeDistribution {
    /// How many.
    pub count: u64,
    /// Their exact mean.
    pub mean: Seconds,
    /// Their standard deviation.
    pub deviation: Seconds,
    /// The shortest.
    pub min: Seconds,
    /// The median. This and the other percentiles to three digits.
    pub p50: Seconds,
    /// 90 % are not longer.
    pub p90: Seconds,
    /// 95 % are not longer.
    pub p95: Seconds,
    /// 99 % are not longer.
    pub p99: Seconds,
    /// 99.9 % are not longer.
    pub p999: Seconds,
    /// The longest.
    pub max: Seconds,
}

/// Counts in buckets of equal width.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistogramResult {
    /// The width of a bucket, in seconds: 100 µs.
    pub width: Seconds,
    /// The bucket's number and its count; bucket k holds times from k·width up to (k + 1)·width.
    /// Empty ones are left out.
    pub buckets: Vec<(u64, u64)>,
}

/// One operation in one second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesRow {
    /// When it begins, in seconds from the start of the run.
    pub start: Seconds,
    /// How long it is, in seconds.
    pub length: Seconds,
    /// Whether it belongs to the measured part.
    pub measured: bool,
    /// The class of clients; empty for all together, and where there is only one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub class: String,
    /// The operation; `all` for all together.
    pub operation: String,
    /// Requests that were answered or given up.
    pub count: u64,
    /// Those that ended with an error.
    pub errors: u64,
    /// Those that did not, per second.
    pub throughput: PerSecond,
    /// Keys found.
    pub hits: u64,
    /// Keys not found.
    pub misses: u64,
    /// Bytes of the requests.
    pub bytes_sent: u64,
    /// Bytes of the answers.
    pub bytes_received: u64,
    /// Mean response time, in seconds.
    pub mean: Seconds,
    /// The shortest; zero where nothing was answered.
    pub min: Seconds,
    /// Its median.
    pub p50: Seconds,
    /// Its 99th percentile.
    pub p99: Seconds,
    /// The longest.
    pub max: Seconds,
    /// Mean lateness, in seconds.
    pub lateness: Seconds,
    /// The response times in full: what the same second of several generators is merged by.
    #[serde(default)]
    pub response_times: Option<Packed>,
}

/// What the generator used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// Processor time of all threads during the run, in seconds.
    pub cpu_seconds: Seconds,
    /// The same per request sent, in seconds.
    pub cpu_per_request: Seconds,
    /// The largest share of its time that any thread was running, 0 to 1.
    pub busiest_thread: f64,
    /// The largest share of its time that any thread was running, or ready to run and without a
    /// processor, 0 to 1.
    #[serde(default)]
    pub runnable: f64,
    /// How many processors the generator may use, with a fraction under a quota; of several
    /// generators in sum. 0: not known.
    #[serde(default)]
    pub processors: f64,
    /// How long the whole run took, in seconds.
    pub elapsed: Seconds,
    /// How late all arrivals of an open load were sent, in sum, in seconds.
    #[serde(default)]
    pub late: Seconds,
    /// The part of `late` in which no connection was free and no answer had come: all of them
    /// waited for answers, or did not stand.
    #[serde(default)]
    pub waited: Seconds,
}

/// What to know before believing the figures, with the evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "warning")]
pub enum LoadWarning {
    /// A thread of the generator was running nearly all the time: the generator may be the
    /// bottleneck.
    GeneratorBusy {
        /// The largest share of its time that any thread was running.
        share: f64,
    },
    /// The generator had no more processors to run on, or had to wait for them: it may be the
    /// bottleneck, and more threads would not help.
    ProcessorsShort {
        /// The largest share of its time that any thread was running, or ready to run and without a
        /// processor.
        runnable: f64,
        /// The share that all threads used of the processors that they may use.
        used: f64,
        /// How many processors these are, with a fraction under a quota.
        processors: f64,
    },
    /// Requests were sent late, though the load was to come at its own pace.
    GeneratorLate {
        /// The class of clients; empty where it has no name.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        class: String,
        /// 99th percentile of the lateness, in seconds.
        p99: Seconds,
        /// Median response time, in seconds.
        response_p50: Seconds,
    },
    /// Requests were sent late because all connections waited for answers; where `share` is less
    /// than a half, because of the generator, too.
    ConnectionsWaited {
        /// The class of clients; empty where it has no name.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        class: String,
        /// 99th percentile of the lateness, in seconds.
        p99: Seconds,
        /// The share of all lateness in which no connection was free and no answer had come.
        share: f64,
    },
    /// Requests that were due were never sent.
    Unsent {
        /// How many.
        count: u64,
        /// How many were due.
        due: u64,
        /// Whether all clients were closed ones: then their connection did not stand.
        #[serde(default)]
        closed: bool,
    },
    /// Requests failed.
    Errors {
        /// How many.
        count: u64,
        /// Of how many.
        of: u64,
    },
    /// Requests got no answer, and it was known only when nothing was measured: they are in no
    /// figure of the measured part.
    UnansweredUnmeasured {
        /// How many.
        count: u64,
        /// How many were sent in the whole run.
        of: u64,
    },
    /// Answers to an open load came late, and after the measured part: it has no figure of them.
    AnsweredLate {
        /// 99th percentile of the response time up to the last answer, in seconds.
        p99: Seconds,
    },
    /// Requests took longer than histograms tell apart: percentiles from there on are lower bounds.
    BeyondHistogram {
        /// How many.
        count: u64,
        /// Of how many.
        of: u64,
    },
    /// Requests were answered, but none in the measured part: its figures are of nothing.
    NothingMeasured,
    /// Keys were not found.
    Misses {
        /// How many.
        count: u64,
        /// Of how many.
        of: u64,
        /// Whether a trace was sent: keys that it names are not those that populating stores.
        #[serde(default)]
        replayed: bool,
        /// Whether an expiry time was said.
        #[serde(default)]
        expires: bool,
    },
    /// GETs never took as many keys as `multi_get` asks for.
    MultiGetCut {
        /// How many keys were asked for.
        asked: u32,
        /// How many a GET took at most.
        most: u32,
    },
    /// Connections did not stand any more, and a part of the run was given up.
    GaveUp,
    /// Connections could not be made during the run, or ended where not one request was answered.
    ConnectionFailed {
        /// Why the last one could not be made, or ended.
        why: String,
    },
    /// Generators whose results were merged did not begin together.
    StartedApart {
        /// How long the last began after the first, in seconds.
        seconds: Seconds,
    },
    /// The measured parts of generators whose results were merged were not of one length.
    EndedApart {
        /// The shortest, in seconds.
        shortest: Seconds,
        /// The longest, in seconds.
        longest: Seconds,
    },
    /// Generators whose results were merged drew the same: they had one seed, and were not shares
    /// of one load.
    SameSeed {
        /// That seed.
        seed: u64,
    },
}

/// What stores the keys of a load that sends a trace.
pub const FOR_A_TRACE: &str =
    "let the trace store the keys that it names (its own sets, or --on-miss set) and --populate the others";

/// What generators were that did not run during the same time.
const TOGETHER: &str = "together they were a load only while all of them ran";

/// A class of clients in a sentence; one without a name needs none.
fn of_class(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" of the class {name}") }
}

/// What is said where the generator ran on all that it may, or waited for it.
fn processors_short(runnable: f64, used: f64, processors: f64) -> String {
    let [runnable, used] = [runnable, used].map(|share| 100.0 * share);
    let processors = text::three_digits(processors);
    format!(
        "the generator used {used:.0} % of the {processors} processors that it may use, and a thread of it was running or waited for \
         one {runnable:.0} % of the time: the generator may be the bottleneck, and response times have its waits; give it more \
         processors, or a larger quota: more --threads would not help"
    )
}

/// What is said where the system was too slow for the rate, be it beside the generator.
fn connections_waited(class: &str, p99: Seconds, share: f64) -> String {
    let (class, p99, percent) = (of_class(class), text::duration(p99), 100.0 * share);
    let (cause, advice) = if share < MOSTLY_OF_SYSTEM {
        (
            ", and the rest because the generator itself was late",
            "give it more processors, or lower the rate, to learn what is the system's",
        )
    } else {
        (
            ": the system answered too slowly, or not at all, for this rate",
            "more --connections would put more requests before the system at once",
        )
    };
    format!(
        "requests{class} were sent late (p99 {p99}), {percent:.0} % of that time because all connections waited for answers that had \
         not come{cause}; response times count from when requests were due and show it; {advice}"
    )
}

/// What is said where generators that were added up sent the same.
fn same_seed(seed: u64) -> String {
    format!(
        "generators had the same --seed {seed}, so they drew the same arrivals and keys: what is sent at a rate comes in batches, and \
         what one asks for, another has asked for, too; give each a --seed of its own, or a --share of one load"
    )
}

impl LoadWarning {
    /// Whether it says that the generator itself may have been the limit.
    pub fn blames_generator(&self) -> bool {
        match *self {
            Self::GeneratorBusy { .. } | Self::ProcessorsShort { .. } | Self::GeneratorLate { .. } => true,
            Self::ConnectionsWaited { share, .. } => share < MOSTLY_OF_SYSTEM,
            _ => false,
        }
    }

    /// How bad it is among those of its kind.
    pub fn extent(&self) -> f64 {
        match *self {
            Self::GeneratorBusy { share } => share,
            Self::ProcessorsShort { runnable, used, .. } => runnable.max(used),
            Self::GeneratorLate { p99, .. }
            | Self::ConnectionsWaited { p99, .. }
            | Self::AnsweredLate { p99 } => p99,
            Self::Unsent { count, due: of, .. }
            | Self::Errors { count, of }
            | Self::UnansweredUnmeasured { count, of }
            | Self::BeyondHistogram { count, of }
            | Self::Misses { count, of, .. } => count as f64 / of.max(1) as f64,
            Self::MultiGetCut { asked, most } => f64::from(asked.saturating_sub(most)),
            Self::StartedApart { seconds } => seconds,
            Self::EndedApart { shortest, longest } => longest - shortest,
            Self::NothingMeasured | Self::GaveUp | Self::ConnectionFailed { .. } | Self::SameSeed { .. } => {
                0.0
            }
        }
    }
}

impl fmt::Display for LoadWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |count: u64, of: u64| 100.0 * count as f64 / of.max(1) as f64;
        let some =
            |count: u64, of: u64| format!("{} of {}", text::count(count as f64), text::count(of as f64));
        match *self {
            Self::GeneratorBusy { share } => write!(
                f,
                "a generator thread was running {:.0} % of the time: the generator may be the bottleneck; \
                 add --threads, or processors",
                100.0 * share
            ),
            Self::ProcessorsShort { runnable, used, processors } => {
                f.write_str(&processors_short(runnable, used, processors))
            }
            Self::GeneratorLate { ref class, p99, response_p50 } => write!(
                f,
                "requests{} were sent late (p99 {}, median response time {}) though connections were free, or had answers to be read: \
                 the generator itself was late; response times count from when requests were due and show it; add processors, or --threads where some are idle, or lower the rate",
                of_class(class),
                text::duration(p99),
                text::duration(response_p50)
            ),
            Self::ConnectionsWaited { ref class, p99, share } => {
                f.write_str(&connections_waited(class, p99, share))
            }
            Self::Unsent { count, due, closed } => {
                let behind = "the system does not keep up with the rate, or connections did not stand";
                let why = if closed { "their connection did not stand" } else { behind };
                let (some, percent) = (some(count, due), percent(count, due));
                write!(f, "{some} requests ({percent:.1} %) were due and never sent: {why}")
            }
            Self::Errors { count, of } => {
                write!(f, "{} requests ({:.2} %) ended with an error", some(count, of), percent(count, of))
            }
            Self::UnansweredUnmeasured { count, of } => write!(
                f,
                "{} requests of the whole run ({:.2} %) got no answer and were given up outside of the measured part: its figures do not have them",
                some(count, of),
                percent(count, of)
            ),
            Self::AnsweredLate { p99 } => write!(
                f,
                "with what was answered or given up after the measured part p99 is {}: a backlog stood at its end",
                text::duration(p99)
            ),
            Self::BeyondHistogram { count, of } => write!(
                f,
                "{} requests took longer than {LONGEST}: percentiles from there on are lower bounds",
                some(count, of)
            ),
            Self::NothingMeasured => f.write_str(
                "not one request was answered or given up in the measured part: the run has no figures; \
                 make the warm-up shorter, or the run longer",
            ),
            Self::Misses { count, of, replayed, expires } => write!(
                f,
                "{} keys ({:.1} %) were not found: {}{}, or give the servers more memory",
                some(count, of),
                percent(count, of),
                if replayed { FOR_A_TRACE } else { "populate first with --populate" },
                if expires { ", let keys live longer (--expiry)" } else { "" }
            ),
            Self::MultiGetCut { asked, most } => write!(
                f,
                "GETs took {most} of the {asked} keys of --multi-get at most: the ratio or mix has no more at once; \
                 --ratio 0:{asked} or --mix mget=1 has"
            ),
            Self::StartedApart { seconds } => {
                write!(f, "the generators began {} apart: {TOGETHER}", text::duration(seconds))
            }
            Self::EndedApart { shortest, longest } => {
                let [shortest, longest] = [shortest, longest].map(text::duration);
                write!(f, "the generators were measured for {shortest} to {longest}: {TOGETHER}")
            }
            Self::SameSeed { seed } => f.write_str(&same_seed(seed)),
            Self::ConnectionFailed { ref why } => write!(f, "connections failed, the last with: {why}"),
            Self::GaveUp => f.write_str(
                "connections did not stand any more, and what they had still to send was given up",
            ),
        }
    }
}

impl TimeDistribution {
    /// Of a distribution.
    pub fn of(distribution: &MeasuredDistribution) -> Self {
        if distribution.count() == 0 {
            return Self::default();
        }
        let at = |quantile| distribution.quantile(quantile).map_or(0.0, Nanos::as_seconds);
        let exact = distribution.exact();
        Self {
            count: distribution.count(),
            mean: distribution.mean().unwrap_or(0.0),
            deviation: distribution.deviation().unwrap_or(0.0),
            min: exact.least.as_seconds(),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: exact.greatest.as_seconds(),
        }
    }
}

impl HistogramResult {
    /// Of a distribution.
    pub fn of(distribution: &MeasuredDistribution) -> Self {
        let buckets = distribution.buckets(BUCKET).into_iter();
        Self {
            width: BUCKET.as_seconds(),
            buckets: buckets.map(|bucket| (bucket.from.0 / BUCKET.0, bucket.count)).collect(),
        }
    }
}

impl OperationResult {
    /// Of what was counted in `length`, and its distributions.
    pub(crate) fn new(counts: &OperationCounts, times: [&MeasuredDistribution; 3], length: Nanos) -> Self {
        let [response, from_sent, lateness] = times;
        let tally = &counts.tally;
        Self {
            count: tally.count,
            throughput: tally.throughput(length),
            errors: errors(counts),
            keys: tally.keys,
            hits: tally.hits,
            misses: tally.misses,
            bytes_sent: tally.bytes_in,
            bytes_received: tally.bytes_out,
            response_time: TimeDistribution::of(response),
            time_from_sent: TimeDistribution::of(from_sent),
            lateness: TimeDistribution::of(lateness),
            histogram: HistogramResult::of(response),
            distributions: Some(Distributions {
                response_time: Packed::of(response),
                time_from_sent: Packed::of(from_sent),
                lateness: Packed::of(lateness),
            }),
        }
    }

    /// Requests that ended with an error.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Those of them that got no answer.
    pub fn unanswered(&self) -> u64 {
        LossReason::ALL.iter().filter_map(|loss| self.errors.get(loss.name())).sum()
    }
}

/// Answers that are errors, and losses; those that never came are left out.
fn errors(counts: &OperationCounts) -> BTreeMap<String, u64> {
    let answers = CLASSES.iter().zip(counts.answers).filter(|((class, _), _)| class.is_error());
    let answers = answers.map(|((_, name), count)| (*name, count));
    let losses = LossReason::ALL.iter().zip(counts.losses).map(|(loss, count)| (loss.name(), count));
    answers
        .chain(losses)
        .filter(|&(_, count)| count > 0)
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}

impl WholeRun {
    /// Requests that got no answer.
    pub fn unanswered(&self) -> u64 {
        self.lost.values().sum()
    }

    /// Requests that were answered with an error.
    pub fn error_answers(&self) -> u64 {
        let is_error = |name: &str| CLASSES.iter().any(|(class, known)| *known == name && class.is_error());
        let kinds = self.answers.values().flatten();
        kinds.filter(|(name, _)| is_error(name.as_str())).map(|(_, count)| count).sum()
    }

    /// Of everything that was recorded; what only the threads know is added by them.
    pub(crate) fn of(segment: &Segment) -> Self {
        let share = segment.all();
        let all = share.overall();
        let mut answers = BTreeMap::new();
        for &operation in Operation::ALL {
            let kinds: BTreeMap<String, u64> = CLASSES
                .iter()
                .zip(share.counts[operation.index()].answers)
                .filter(|&(_, count)| count > 0)
                .map(|((_, name), count)| ((*name).to_owned(), count))
                .collect();
            if !kinds.is_empty() {
                answers.insert(operation.name().to_owned(), kinds);
            }
        }
        let lost = LossReason::ALL.iter().zip(all.losses).filter(|&(_, count)| count > 0);
        let fetched = |count: fn(&VisitTally) -> u64| {
            let fetching = [Operation::Get, Operation::MultiGet, Operation::Gat];
            fetching.iter().map(|operation| count(&share.counts[operation.index()].tally)).sum()
        };
        Self {
            answered: all.answered(),
            lost: lost.map(|(loss, count)| (loss.name().to_owned(), count)).collect(),
            answers,
            keys: fetched(|tally| tally.keys),
            hits: fetched(|tally| tally.hits),
            misses: fetched(|tally| tally.misses),
            connections_lost: segment.connections_lost,
            connects_failed: segment.connects_failed,
            connections_renewed: segment.connections_renewed,
            ..Self::default()
        }
    }
}

impl Share {
    /// Every operation that had answers, over a length of time.
    pub(crate) fn operations(&self, length: Nanos) -> BTreeMap<String, OperationResult> {
        let one = |&operation: &Operation| {
            let times = distributions(&self.histograms, operation)?;
            let counts = &self.counts[operation.index()];
            Some((operation.name().to_owned(), OperationResult::new(counts, times, length)))
        };
        Operation::ALL.iter().filter_map(one).collect()
    }

    /// All operations together.
    pub(crate) fn overall_result(&self, length: Nanos) -> OperationResult {
        let mut sums =
            [MeasuredDistribution::new(), MeasuredDistribution::new(), MeasuredDistribution::new()];
        for &operation in Operation::ALL {
            for (sum, one) in
                sums.iter_mut().zip(distributions(&self.histograms, operation).into_iter().flatten())
            {
                sum.merge(one);
            }
        }
        let [response, from_sent, lateness] = &sums;
        OperationResult::new(&self.overall(), [response, from_sent, lateness], length)
    }
}

/// Response time, time from sent and lateness of an operation.
fn distributions(histograms: &Histograms, operation: Operation) -> Option<[&MeasuredDistribution; 3]> {
    Some([
        histograms.get(operation, Quantity::Response)?,
        histograms.get(operation, Quantity::Server)?,
        histograms.get(operation, Quantity::Queue)?,
    ])
}

/// The rows of one second: all operations together, then each that had answers; then the same of
/// each class, where there are several.
pub(crate) fn series(segment: &Segment, names: &[String]) -> Vec<SeriesRow> {
    let mut rows = Vec::new();
    push_rows(&segment.all(), "", segment, &mut rows);
    if segment.classes.len() > 1 {
        for (class, name) in segment.classes.iter().zip(names) {
            push_rows(class, name, segment, &mut rows);
        }
    }
    rows
}

fn push_rows(share: &Share, class: &str, segment: &Segment, rows: &mut Vec<SeriesRow>) {
    let length = Nanos(segment.end.0.saturating_sub(segment.start.0));
    let row = |operation: &str, tally: &VisitTally, response: &MeasuredDistribution| {
        let at = |quantile| response.quantile(quantile).map_or(0.0, Nanos::as_seconds);
        SeriesRow {
            start: Nanos(segment.start.0).as_seconds(),
            length: length.as_seconds(),
            measured: segment.measured,
            class: class.to_owned(),
            operation: operation.to_owned(),
            count: tally.count,
            errors: tally.errors,
            throughput: tally.throughput(length),
            hits: tally.hits,
            misses: tally.misses,
            bytes_sent: tally.bytes_in,
            bytes_received: tally.bytes_out,
            min: if tally.count > 0 { tally.response_min.as_seconds() } else { 0.0 },
            mean: tally.mean(tally.response_time).unwrap_or(0.0),
            p50: at(0.5),
            p99: at(0.99),
            max: tally.response_max.as_seconds(),
            lateness: tally.mean(tally.queue_time).unwrap_or(0.0),
            response_times: (tally.count > 0).then(|| Packed::of(response)),
        }
    };
    let place = rows.len();
    let mut whole = MeasuredDistribution::new();
    for &operation in Operation::ALL {
        if let Some(response) = share.histograms.get(operation, Quantity::Response) {
            whole.merge(response);
            rows.push(row(operation.name(), &share.counts[operation.index()].tally, response));
        }
    }
    rows.insert(place, row("all", &share.overall().tally, &whole));
}
