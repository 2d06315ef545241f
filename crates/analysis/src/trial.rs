//! What one run of one cell said of itself: plain data, filled from the outputs of load generator,
//! middleware and host.
//!
//! Everything belongs to the same measured span, warm-up and cool-down cut away by the caller that
//! fills this in.

use krarup_record::watch::Watch;
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

/// The levels of a cell: what was chosen, not measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CellLevels {
    /// The mix of requests, by its name in reports.
    pub workload: String,
    /// Population N: how many clients, each with one request at a time (closed workload).
    pub clients: u32,
}

impl CellLevels {
    /// `read, 8 clients`.
    pub fn in_words(&self) -> String {
        let plural = if self.clients == 1 { "" } else { "s" };
        format!("{}, {} client{plural}", self.workload, self.clients)
    }
}

/// One run of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Which cell.
    pub levels: CellLevels,
    /// Which run of the cell, from 0.
    pub repetition: u32,
    /// How long was measured; above 0.
    pub length: Seconds,
    /// Think time Z of each client between a reply and its next request.
    pub think: Seconds,
    /// As the clients saw it.
    pub client: ClientSide,
    /// As the middleware saw it, where it could be asked.
    pub middleware: Option<MiddlewareSide>,
    /// The servers behind it.
    pub servers: Vec<ServerSide>,
    /// Processor time of the processes taking part, as far as known.
    pub cpu: Vec<ProcessCpu>,
    /// The links of the hosts taking part, where they have any.
    #[serde(default)]
    pub links: Vec<HostLink>,
    /// How long a packet was under way there and back between hosts that talk, before it was
    /// measured; empty where they were not asked for.
    #[serde(default)]
    pub ways: Vec<RoundTrip>,
    /// The level of every factor of the experiment.
    #[serde(default)]
    pub factors: Vec<(String, String)>,
    /// The machine meanwhile, where it was watched; of several all together.
    #[serde(default)]
    pub machine: Option<Watch>,
    /// Each of several machines, by its name; empty where there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<(String, Watch)>,
    /// Before and after each thing that was done to a station meanwhile; empty where nothing was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub course: Vec<Stretch>,
    /// Why other programs may have changed its figures; none where none was in the way.
    #[serde(default)]
    pub disturbed: Option<String>,
}

impl Trial {
    /// The same on a testbed that is not so many times slower (`by`, above 0): every time is
    /// divided by it, counts stay, and so rates are multiplied by it. What a process has of the
    /// processors is this part of its machine's, which are as many times more: its processor time
    /// stays, and so does what one request takes of it. Faults are not scaled ([`Self::course`] is
    /// left), nor is how long machines were watched.
    pub fn scaled_back(mut self, by: f64) -> Self {
        self.length /= by;
        self.think /= by;
        self.client.scale_back(by);
        self.middleware.iter_mut().for_each(|middleware| middleware.scale_back(by));
        self.cpu.iter_mut().for_each(|process| process.cores *= by);
        for link in &mut self.links {
            link.bandwidth *= by;
            link.sent *= by;
        }
        for way in &mut self.ways {
            all_divided([&mut way.least, &mut way.median, &mut way.asked], by);
        }
        let each = self.machines.iter_mut().map(|(_, watch)| watch);
        self.machine.iter_mut().chain(each).for_each(|watch| watch.switches *= by);
        self
    }
}

fn all_divided<'a>(times: impl IntoIterator<Item = &'a mut Seconds>, by: f64) {
    times.into_iter().for_each(|time| *time /= by);
}

impl ClientSide {
    fn scale_back(&mut self, by: f64) {
        self.response.scale_back(by);
        for window in &mut self.windows {
            all_divided([&mut window.start, &mut window.length], by);
            all_divided(&mut window.response, by);
        }
        self.histogram.width /= by;
        all_divided(self.quantiles.iter_mut().chain(&mut self.tail), by);
        if let Some(course) = &mut self.over_time {
            let ResponseCourse { starts, length, edges, counts: _, p50, p99 } = course;
            all_divided(starts.iter_mut().chain([length]).chain(edges), by);
            all_divided(p50.iter_mut().chain(p99).flatten(), by);
        }
        self.operations.iter_mut().for_each(|operation| operation.response.scale_back(by));
    }
}

impl MiddlewareSide {
    /// How long a request holds its worker, in the mean.
    pub fn hold(&self) -> Seconds {
        if self.free_when_answered { self.server.mean } else { self.response.mean - self.queue.mean }
    }

    fn scale_back(&mut self, by: f64) {
        for times in [&mut self.response, &mut self.queue, &mut self.server, &mut self.own] {
            times.scale_back(by);
        }
        for window in &mut self.windows {
            let MiddlewareWindow { start, length, requests: _, queue, server, own, queue_length: _ } = window;
            all_divided([start, length].into_iter().chain(queue).chain(server).chain(own), by);
        }
        self.histogram.width /= by;
        for operation in &mut self.operations {
            for times in [&mut operation.response, &mut operation.queue, &mut operation.server] {
                times.scale_back(by);
            }
        }
    }
}

/// What was measured between two faults: of one run, or of several runs together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// What was done at its beginning, as `kill server 2`; empty for the first.
    pub after: String,
    /// When it begins, from the beginning of what is measured.
    pub start: Seconds,
    /// How much later than that it was done at worst.
    pub late: Seconds,
    /// How long was counted, over all runs.
    pub length: Seconds,
    /// Each operation that was answered in it.
    pub operations: Vec<StretchOperation>,
}

/// One operation in a stretch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StretchOperation {
    /// `get`, `set` …
    pub name: String,
    /// Requests answered, errors included.
    pub completed: u64,
    /// Those answered with an error, or not at all.
    pub errors: u64,
    /// Keys found.
    pub hits: u64,
    /// Keys asked for and not found.
    pub misses: u64,
    /// Mean response time, errors included.
    pub response: Seconds,
}

impl StretchOperation {
    /// Adds what was counted of the same operation elsewhere.
    pub fn add(&mut self, other: &Self) {
        let all = self.completed + other.completed;
        if all > 0 {
            let waited = self.response * self.completed as f64 + other.response * other.completed as f64;
            self.response = waited / all as f64;
        }
        self.completed = all;
        self.errors += other.errors;
        self.hits += other.hits;
        self.misses += other.misses;
    }
}

impl Stretch {
    /// Adds what was counted of an operation.
    pub fn count(&mut self, counted: &StretchOperation) {
        match self.operations.iter_mut().find(|one| one.name == counted.name) {
            Some(known) => known.add(counted),
            None => self.operations.push(counted.clone()),
        }
    }
}

/// A host's link, and what went over it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostLink {
    /// Whose host it is.
    pub station: SystemPart,
    /// Which one: `s1` is that of the first server.
    pub name: String,
    /// Bits per second that it carries, headers included; above 0.
    pub bandwidth: f64,
    /// Bits per second that were sent over it, headers included.
    pub sent: f64,
}

impl HostLink {
    /// Utilization U: the share of the bandwidth that was used. What a shaper lets through in one
    /// burst makes no more than all of it.
    pub fn utilization(&self) -> f64 {
        if self.bandwidth > 0.0 { (self.sent / self.bandwidth).min(1.0) } else { 0.0 }
    }
}

/// How long a packet is under way between two hosts, there and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundTrip {
    /// Who asked.
    pub from: String,
    /// Who answered.
    pub to: String,
    /// The shortest of some.
    pub least: Seconds,
    /// The middle one.
    pub median: Seconds,
    /// What delays that were asked for make of it; 0 where none were.
    pub asked: Seconds,
}

/// Mean and percentiles of one kind of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialTimes {
    /// Arithmetic mean.
    pub mean: Seconds,
    /// Half are at most this.
    pub p50: Seconds,
    /// Nine of ten are at most this.
    pub p90: Seconds,
    /// Ninety-nine of a hundred are at most this.
    pub p99: Seconds,
}

/// What the load generator measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientSide {
    /// Whether requests came at a rate that was given, whatever the answers (open load).
    #[serde(default)]
    pub open: bool,
    /// Requests answered, errors included.
    pub completed: u64,
    /// Those, and the ones answered in the cool-down; 0 where that is not known.
    #[serde(default)]
    pub answered: u64,
    /// Requests answered with an error, or not at all.
    pub errors: u64,
    /// Those of them that are not among the completed: they were given up outside of the measured
    /// part.
    #[serde(default)]
    pub unmeasured: u64,
    /// Keys found.
    pub hits: u64,
    /// Keys asked for and not found.
    pub misses: u64,
    /// Response time: from when the request was due to its last byte.
    pub response: TrialTimes,
    /// Whole windows only: a partial one would look like a slump.
    pub windows: Vec<ClientWindow>,
    /// Response times in equal buckets.
    pub histogram: TrialHistogram,
    /// Quantiles of the response time at [`crate::distribution::share_of`]; empty where the
    /// distribution is not known in full.
    #[serde(default)]
    pub quantiles: Vec<Seconds>,
    /// Quantiles towards the slowest at [`crate::distribution::tail_share`]; empty where the
    /// distribution is not known in full.
    #[serde(default)]
    pub tail: Vec<Seconds>,
    /// How the response times were distributed in each window; none where that is not known.
    #[serde(default)]
    pub over_time: Option<ResponseCourse>,
    /// Each operation apart, where there is more than one.
    #[serde(default)]
    pub operations: Vec<ClientOperation>,
    /// What the load generators said of their own run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warned: Vec<GeneratorWarning>,
}

/// What a load generator said of its own run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeneratorWarning {
    /// Which kind of warning.
    pub kind: String,
    /// How bad it is among those of its kind.
    pub extent: f64,
    /// A sentence without its end, of the run as it was measured.
    pub what: String,
}

/// Response times window by window: how many fell into each of buckets that grow by equal ratios.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseCourse {
    /// When each window begins, from the start of what was measured.
    pub starts: Vec<Seconds>,
    /// How long the windows are; above 0.
    pub length: Seconds,
    /// Where the buckets begin, rising, and where the last one ends.
    pub edges: Vec<Seconds>,
    /// For each window the count of each bucket.
    pub counts: Vec<Vec<u64>>,
    /// The median of each window, where anything was answered in it.
    pub p50: Vec<Option<Seconds>>,
    /// The 99th percentile likewise.
    pub p99: Vec<Option<Seconds>>,
}

impl ResponseCourse {
    /// Whether it is what it says: edges that rise from above zero, and as many counts as windows
    /// and buckets.
    pub fn is_usable(&self) -> bool {
        let windows = self.starts.len();
        let of_windows = [self.counts.len(), self.p50.len(), self.p99.len()];
        self.length.is_finite()
            && self.length > 0.0
            && self.edges.first().is_some_and(|first| *first > 0.0)
            && self.edges.iter().chain(&self.starts).all(|time| time.is_finite())
            && self.edges.windows(2).all(|pair| pair[0] < pair[1])
            && of_windows.iter().all(|count| *count == windows)
            && self.counts.iter().all(|counts| counts.len() + 1 == self.edges.len())
    }
}

/// One operation, as the clients saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientOperation {
    /// `get`, `set` …
    pub name: String,
    /// Requests answered, errors included.
    pub completed: u64,
    /// Response time.
    pub response: TrialTimes,
}

/// One operation, as the middleware saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MiddlewareOperation {
    /// `get`, `set` …
    pub name: String,
    /// Requests replied.
    pub requests: u64,
    /// Replied − received.
    pub response: TrialTimes,
    /// Taken − queued.
    pub queue: TrialTimes,
    /// Last answered − first sent.
    pub server: TrialTimes,
}

/// The clients in one window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientWindow {
    /// When it begins, from the start of what was measured.
    pub start: Seconds,
    /// How long it is; above 0.
    pub length: Seconds,
    /// Requests answered in it.
    pub completed: u64,
    /// Their mean response time, where there was any.
    pub response: Option<Seconds>,
}

/// What the middleware measured; the times are defined by its stamps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MiddlewareSide {
    /// Requests replied.
    pub requests: u64,
    /// All that it counted, the cool-down's too: those above are then a share of them, taken from
    /// whole windows; 0 where that is not known.
    #[serde(default)]
    pub replied: u64,
    /// Those replied with an error.
    pub errors: u64,
    /// Replied − received; the sum of the three below.
    pub response: TrialTimes,
    /// Taken − queued.
    pub queue: TrialTimes,
    /// Last answered − first sent.
    pub server: TrialTimes,
    /// The rest.
    pub own: TrialTimes,
    /// Of how many middlewares these are the figures; 0 where that is not known.
    #[serde(default)]
    pub middlewares: u32,
    /// Worker slots, of all of them; none where they are unlimited.
    pub workers: Option<u32>,
    /// Whether one is free when the servers have answered, and not only when the reply has left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub free_when_answered: bool,
    /// Mean queue length seen by the requests that were taken.
    pub queue_length: Option<f64>,
    /// Whole windows only.
    pub windows: Vec<MiddlewareWindow>,
    /// Response times at the middleware in equal buckets.
    pub histogram: TrialHistogram,
    /// Each operation apart, where there is more than one.
    #[serde(default)]
    pub operations: Vec<MiddlewareOperation>,
}

/// The middleware in one window: means of the requests replied in it, where there were any.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MiddlewareWindow {
    /// When it begins, from the start of what was measured.
    pub start: Seconds,
    /// How long it is; above 0.
    pub length: Seconds,
    /// Requests replied in it.
    pub requests: u64,
    /// Mean queue time.
    pub queue: Option<Seconds>,
    /// Mean server time.
    pub server: Option<Seconds>,
    /// Mean own time.
    pub own: Option<Seconds>,
    /// Mean queue length seen by those that were taken.
    pub queue_length: Option<f64>,
}

/// One server behind the middleware.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerSide {
    /// Its address.
    pub name: String,
    /// Requests, or parts of requests, sent to it.
    pub requests: u64,
    /// Those that failed.
    pub errors: u64,
}

/// Which part of the system a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemPart {
    /// The load generator.
    Clients,
    /// The middleware.
    Middleware,
    /// A server behind it.
    Server,
}

/// What one process took of the processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessCpu {
    /// What it is.
    pub station: SystemPart,
    /// Which one: `load`, `proxy`, a server's address.
    pub name: String,
    /// Processor time used, user and system, during what was measured.
    pub busy: Seconds,
    /// How many processors it can use at once: its threads, or the machine's processors if they are
    /// fewer.
    pub cores: f64,
}

/// Counts in equal buckets from zero up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialHistogram {
    /// Width of a bucket; 0 in an empty histogram.
    pub width: Seconds,
    /// Bucket number (bucket k holds k·width ≤ t < (k+1)·width) and count, numbers rising, empty
    /// buckets left out.
    pub counts: Vec<(u64, u64)>,
}

impl TrialHistogram {
    /// How many were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// The number of the bucket in which the smallest value lies that a share of all does not
    /// exceed.
    pub fn bucket_of_share(&self, share: f64) -> Option<u64> {
        let needed = (self.total() as f64 * share).ceil() as u64;
        let mut sum = 0;
        self.counts.iter().find_map(|(bucket, count)| {
            sum += count;
            (sum >= needed).then_some(*bucket)
        })
    }

    /// Its counts in `drawn` buckets of `together` of its own each, from bucket number `first` on,
    /// and how many lie beyond.
    pub fn rebinned(&self, first: u64, together: u64, drawn: usize) -> (Vec<u64>, u64) {
        let (mut counts, mut beyond) = (vec![0; drawn], 0);
        for (bucket, count) in &self.counts {
            match counts.get_mut((bucket.saturating_sub(first) / together.max(1)) as usize) {
                Some(place) => *place += count,
                None => beyond += count,
            }
        }
        (counts, beyond)
    }

    /// Whether it is what it says: numbers rising, a width, counts and numbers that can be added
    /// up.
    pub fn is_usable(&self) -> bool {
        let rising = self.counts.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let most = 1 << 53;
        let last = self.counts.last().is_none_or(|(bucket, _)| *bucket < most);
        let total = self.counts.iter().try_fold(0_u64, |sum, (_, count)| sum.checked_add(*count));
        let width = self.counts.is_empty() || (self.width.is_finite() && self.width > 0.0);
        rising && width && last && total.is_some_and(|total| total < most)
    }

    /// Adds another of the same width. One of another width is left out, and the answer is false.
    #[must_use]
    pub fn merge(&mut self, other: &Self) -> bool {
        if other.counts.is_empty() {
            return true;
        }
        if self.counts.is_empty() {
            *self = other.clone();
            return true;
        }
        if self.width != other.width {
            return false;
        }
        let mut counts: std::collections::BTreeMap<u64, u64> = self.counts.iter().copied().collect();
        for (bucket, count) in &other.counts {
            *counts.entry(*bucket).or_default() += count;
        }
        self.counts = counts.into_iter().collect();
        true
    }
}

impl TrialTimes {
    fn scale_back(&mut self, by: f64) {
        let Self { mean, p50, p90, p99 } = self;
        all_divided([mean, p50, p90, p99], by);
    }

    /// Whether all of them are lengths of time.
    pub(crate) fn all_finite(&self) -> bool {
        [self.mean, self.p50, self.p90, self.p99].iter().all(|time| time.is_finite() && *time >= 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_has_as_many_counts_as_windows_and_buckets() {
        let course = ResponseCourse {
            starts: vec![0.0, 1.0],
            length: 1.0,
            edges: vec![1e-4, 2e-4, 4e-4],
            counts: vec![vec![1, 2], vec![0, 0]],
            p50: vec![Some(2e-4), None],
            p99: vec![Some(3e-4), None],
        };
        assert!(course.is_usable());
        assert!(!ResponseCourse { edges: vec![2e-4, 1e-4, 4e-4], ..course.clone() }.is_usable());
        assert!(!ResponseCourse { counts: vec![vec![1], vec![0]], ..course.clone() }.is_usable());
        assert!(!ResponseCourse { p50: Vec::new(), ..course }.is_usable());
    }

    /// A trial in which every kind of time stands.
    fn trial_of_times() -> Trial {
        let times = TrialTimes { mean: 0.04, p50: 0.03, p90: 0.06, p99: 0.2 };
        let window = ClientWindow { start: 1.0, length: 1.0, completed: 100, response: Some(0.04) };
        let busy = ProcessCpu { station: SystemPart::Server, name: "s".into(), busy: 0.5, cores: 0.05 };
        let link = HostLink { station: SystemPart::Server, name: "s1".into(), bandwidth: 1e7, sent: 9e6 };
        let way =
            RoundTrip { from: "c1".into(), to: "s1".into(), least: 0.006, median: 0.0064, asked: 0.006 };
        let middleware_window = MiddlewareWindow {
            start: 2.0,
            length: 1.0,
            requests: 100,
            queue: Some(0.01),
            server: None,
            own: Some(0.002),
            queue_length: Some(3.0),
        };
        let watch = Watch { seconds: 10.0, own: 0.5, switches: 100.0, ..Watch::default() };
        Trial {
            levels: CellLevels { workload: "read".into(), clients: 4 },
            repetition: 0,
            length: 10.0,
            think: 0.02,
            client: ClientSide {
                completed: 1_000,
                response: times,
                windows: vec![window],
                histogram: TrialHistogram { width: 1e-3, counts: vec![(40, 1_000)] },
                quantiles: vec![0.03],
                tail: vec![0.3],
                over_time: Some(ResponseCourse {
                    starts: vec![0.0, 1.0],
                    length: 1.0,
                    edges: vec![0.02, 0.04],
                    counts: vec![vec![500], vec![500]],
                    p50: vec![Some(0.03), None],
                    p99: vec![Some(0.2), None],
                }),
                operations: vec![ClientOperation { name: "get".into(), completed: 1_000, response: times }],
                ..ClientSide::default()
            },
            middleware: Some(MiddlewareSide {
                requests: 1_000,
                response: times,
                queue: times,
                server: times,
                own: times,
                queue_length: Some(3.0),
                windows: vec![middleware_window],
                histogram: TrialHistogram { width: 1e-3, counts: vec![(40, 1_000)] },
                operations: vec![MiddlewareOperation { response: times, ..MiddlewareOperation::default() }],
                ..MiddlewareSide::default()
            }),
            servers: Vec::new(),
            cpu: vec![busy],
            links: vec![link],
            ways: vec![way],
            factors: Vec::new(),
            machine: Some(watch.clone()),
            machines: vec![("m1".into(), watch)],
            course: Vec::new(),
            disturbed: None,
        }
    }

    /// Throughput and its windows grow, times shrink, shares and laws stay.
    #[test]
    fn a_trial_is_scaled_back_in_all_its_times_and_in_nothing_else() {
        let trial = trial_of_times();
        let shown = trial.clone().scaled_back(16.0);
        let rate = |trial: &Trial| trial.client.completed as f64 / trial.length;
        assert_eq!((rate(&trial), rate(&shown)), (100.0, 1_600.0));
        assert_eq!(
            (shown.think, shown.client.response.mean, shown.client.response.p99),
            (0.00125, 0.0025, 0.0125)
        );
        let population = |trial: &Trial| rate(trial) * (trial.client.response.mean + trial.think);
        assert!(
            (population(&trial) - population(&shown)).abs() < 1e-9,
            "the interactive law holds as before"
        );
        let used = |trial: &Trial| trial.cpu[0].busy / trial.length / trial.cpu[0].cores;
        assert_eq!(used(&trial), used(&shown));
        assert_eq!((shown.cpu[0].busy, shown.cpu[0].cores), (0.5, 0.8));
        assert_eq!(shown.links[0].utilization(), trial.links[0].utilization());
        assert_eq!((shown.links[0].bandwidth, shown.ways[0].asked), (1.6e8, 0.000375));
        let middleware = shown.middleware.as_ref().unwrap();
        assert_eq!((middleware.queue_length, middleware.windows[0].queue), (Some(3.0), Some(0.000625)));
        assert!(shown.client.over_time.as_ref().unwrap().is_usable());
        assert_eq!(shown.client.histogram.width, 6.25e-5);
        for watch in [shown.machine.as_ref().unwrap(), &shown.machines[0].1] {
            assert_eq!((watch.seconds, watch.own, watch.switches), (10.0, 0.5, 1_600.0));
        }
        // And back, which is exact by a power of two.
        let text = |trial: &Trial| serde_json::to_value(trial).unwrap();
        assert_eq!(text(&shown.scaled_back(1.0 / 16.0)), text(&trial));
    }

    #[test]
    fn a_merge_of_histograms_neither_loses_nor_makes_counts() {
        let mut one = TrialHistogram { width: 1e-4, counts: vec![(1, 5), (4, 1)] };
        assert!(one.merge(&TrialHistogram { width: 1e-4, counts: vec![(0, 2), (4, 3)] }));
        assert_eq!(one.counts, [(0, 2), (1, 5), (4, 4)]);
        assert!(!one.merge(&TrialHistogram { width: 1e-3, counts: vec![(0, 2)] }));
        assert_eq!(one.total(), 11);
        assert_eq!(one.bucket_of_share(0.5), Some(1));
        assert_eq!(one.bucket_of_share(1.0), Some(4));
        assert_eq!(TrialHistogram::default().bucket_of_share(0.5), None);
        assert_eq!(one.rebinned(0, 2, 2), (vec![7, 0], 4));
    }
}
