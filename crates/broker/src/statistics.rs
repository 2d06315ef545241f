//! The answers to `stats`, `stats-tube` and `stats-job`, under beanstalkd's names, ours behind
//! them.

use std::fmt::{Display, Write};
use std::sync::Arc;

use krarup_beanstalk::Verb;
use krarup_model::headroom::ResponseTarget;
use krarup_units::Nanos;

use crate::counts::VerbCounts;
use crate::queues::{JobView, Totals, TubeView};
use crate::report::{DrainTime, LatestTimes, TimesUpTo, TubeReport, WorkersAnswer, reason};

/// What does not change while the broker runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Our version.
    pub version: String,
    /// The number of the process.
    pub pid: u32,
    /// Sixteen digits that are others at every start.
    pub id: String,
    /// The machine's name.
    pub host: String,
    /// The system's version.
    pub os: String,
    /// The machine's kind.
    pub platform: String,
    /// Where messages are kept: `memory`, or the mode of the database.
    pub store: String,
    /// The largest body, in bytes.
    pub largest: u32,
}

/// What changes, and is none of the queues'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokerState {
    /// Since the start.
    pub uptime: Nanos,
    /// Processor time of the whole process.
    pub processor: Nanos,
    /// Whether no more messages are accepted.
    pub draining: bool,
    /// Commits.
    pub commits: u64,
    /// What they wrote: lines of all batches.
    pub written: u64,
    /// Requests that wait for a commit, or for a database connection.
    pub unanswered: u64,
    /// Leases that ran out; none: they are not counted, because the database ends them.
    pub timeouts: Option<u64>,
    /// Clients that were turned away, because there were as many as may be.
    pub clients_refused: u64,
    /// Clients that were disconnected for the memory they held.
    pub clients_cut: u64,
    /// Bytes that the buffers of clients hold, and whether clients wait because that is too much.
    pub buffers: (usize, bool),
}

/// Lines of `key: value`.
struct Lines(String);

impl Lines {
    fn new() -> Self {
        Self(String::from("---\n"))
    }

    fn add(&mut self, key: &str, value: impl Display) {
        writeln!(self.0, "{key}: {value}").expect("a text takes all");
    }

    fn quoted(&mut self, key: &str, value: &str) {
        writeln!(self.0, "{key}: \"{value}\"").expect("a text takes all");
    }

    /// What is known is there; times in seconds, to the microsecond.
    fn waits(&mut self, report: &TubeReport, target: ResponseTarget) {
        if let Some(rate) = report.arrivals_per_s {
            self.add("arrival-rate", format_args!("{rate:.3}"));
        }
        self.times("service", report.service_s);
        self.times("waiting", report.waiting_s);
        if !report.waiting_up_to.is_empty() {
            let pairs = report.waiting_up_to.iter().map(|&TimesUpTo { seconds, count }| match seconds {
                Some(seconds) => format!("[{seconds}, {count}]"),
                None => format!("[.inf, {count}]"),
            });
            self.add("waiting-time-histogram", format_args!("[{}]", pairs.collect::<Vec<_>>().join(", ")));
        }
        for (key, count) in [("redeliveries", report.redeliveries), ("given-up", report.given_up)] {
            if let Some(count) = count {
                self.add(key, count);
            }
        }
        if let Some(oldest) = report.oldest_s {
            self.add("oldest-age", format_args!("{oldest:.6}"));
        }
        self.add("busy-consumers", report.busy_consumers);
        if let Some(utilization) = report.utilization {
            self.add("utilization", format_args!("{utilization:.3}"));
        }
        self.quoted("waiting-target", &target.to_string());
        match report.workers {
            Some(WorkersAnswer::Needed(needed)) => {
                self.add("workers-needed-low", needed.low);
                self.add("workers-needed", needed.mean);
                self.add("workers-needed-high", needed.high);
            }
            Some(WorkersAnswer::Silent(silence)) => self.add("workers-needed-silent", reason(silence)),
            None => {}
        }
        match report.drained_in {
            DrainTime::Seconds(seconds) => self.add("time-to-drain", format_args!("{seconds:.3}")),
            DrainTime::Never => self.add("time-to-drain", "never"),
            DrainTime::Unknown => self.add("time-to-drain", "unknown"),
        }
    }

    fn times(&mut self, what: &str, times: Option<LatestTimes>) {
        let Some(LatestTimes { count, mean, p50, p95, p99 }) = times else { return };
        self.add(&format!("{what}-times"), count);
        for (name, time) in [("mean", mean), ("p50", p50), ("p95", p95), ("p99", p99)] {
            self.add(&format!("{what}-time-{name}"), format_args!("{time:.6}"));
        }
    }
}

const fn seconds(time: Nanos) -> u64 {
    time.0 / 1_000_000_000
}

/// The answer to `stats`.
pub fn server(
    about: &ProcessFacts,
    service: &BrokerState,
    totals: &Totals,
    tubes: usize,
    counts: &VerbCounts,
) -> String {
    let mut lines = Lines::new();
    lines.add("current-jobs-urgent", totals.urgent);
    lines.add("current-jobs-ready", totals.ready);
    lines.add("current-jobs-reserved", totals.reserved);
    lines.add("current-jobs-delayed", totals.delayed);
    lines.add("current-jobs-buried", totals.buried);
    for verb in Verb::ALL.iter().filter(|verb| verb.is_counted()) {
        lines.add(&format!("cmd-{}", verb.name()), counts.get(*verb));
    }
    // Client libraries want every line that beanstalkd has.
    lines.add("job-timeouts", service.timeouts.unwrap_or(0));
    lines.add("total-jobs", totals.jobs);
    lines.add("max-job-size", about.largest);
    lines.add("current-tubes", tubes);
    lines.add("current-connections", totals.connections);
    lines.add("current-producers", totals.producers);
    lines.add("current-workers", totals.workers);
    lines.add("current-waiting", totals.waiting);
    lines.add("total-connections", totals.all_connections);
    lines.add("pid", about.pid);
    lines.quoted("version", &about.version);
    // The system tells us the sum of both.
    let micros = service.processor.0 / 1_000;
    lines.add("rusage-utime", format_args!("{}.{:06}", micros / 1_000_000, micros % 1_000_000));
    lines.add("rusage-stime", "0.000000");
    lines.add("uptime", seconds(service.uptime));
    for absent in ["binlog-oldest-index", "binlog-current-index", "binlog-records-migrated"] {
        lines.add(absent, 0);
    }
    lines.add("binlog-records-written", service.written);
    lines.add("binlog-max-size", 0);
    lines.add("draining", service.draining);
    lines.add("id", &about.id);
    lines.quoted("hostname", &about.host);
    lines.quoted("os", &about.os);
    lines.quoted("platform", &about.platform);
    lines.quoted("store", &about.store);
    lines.add("commits", service.commits);
    lines.add("current-unanswered", service.unanswered);
    lines.add("total-expired", totals.expired);
    lines.0
}

/// The answer to `stats-tube`, with what is known of the tube's waits.
pub fn tube(view: &TubeView, report: Option<&TubeReport>, target: ResponseTarget) -> String {
    let mut lines = Lines::new();
    lines.quoted("name", &view.name);
    lines.add("current-jobs-urgent", view.urgent);
    lines.add("current-jobs-ready", view.ready);
    lines.add("current-jobs-reserved", view.reserved);
    lines.add("current-jobs-delayed", view.delayed);
    lines.add("current-jobs-buried", view.buried);
    lines.add("total-jobs", view.jobs);
    lines.add("current-using", view.using);
    lines.add("current-watching", view.watching);
    lines.add("current-waiting", view.waiting);
    lines.add("cmd-delete", view.deletes);
    lines.add("cmd-pause-tube", view.pauses);
    lines.add("pause", seconds(view.pause));
    lines.add("pause-time-left", seconds(view.pause_left));
    // Of our own verbs, and there only for tubes that were written to.
    if view.expires > Nanos::ZERO || view.expired > Some(0) {
        lines.add("expires", seconds(view.expires));
        if let Some(expired) = view.expired {
            lines.add("total-expired", expired);
        }
    }
    if view.keeps > Nanos::ZERO {
        lines.add("archives", seconds(view.keeps));
    }
    if let Some(report) = report {
        lines.waits(report, target);
    }
    lines.0
}

/// The answer to `stats-job`.
pub fn job(view: &JobView) -> String {
    let mut lines = Lines::new();
    lines.add("id", view.id);
    lines.quoted("tube", &view.tube);
    lines.add("state", view.state);
    lines.add("pri", view.priority);
    lines.add("age", seconds(view.age));
    lines.add("delay", seconds(view.delay));
    lines.add("ttr", seconds(view.ttr));
    lines.add("time-left", seconds(view.time_left));
    lines.add("file", 0);
    lines.add("reserves", view.happened.reserves);
    lines.add("timeouts", view.happened.timeouts);
    lines.add("releases", view.happened.releases);
    lines.add("buries", view.happened.buries);
    lines.add("kicks", view.happened.kicks);
    for (key, name) in [("sender", &view.sender), ("receiver", &view.receiver)] {
        if let Some(name) = name {
            lines.quoted(key, name);
        }
    }
    lines.0
}

/// A tube, and what is counted of it under Kestrel's names.
pub type QueueFigures = (Arc<str>, Vec<(&'static str, u64)>);

/// All that is told of a tube by memcached's protocol.
pub fn of_queue(tube: TubeView) -> QueueFigures {
    let mut counts = vec![
        ("items", tube.ready),
        ("total_items", tube.jobs),
        ("open_transactions", tube.reserved),
        ("delayed", tube.delayed),
        ("buried", tube.buried),
        ("waiters", tube.waiting),
    ];
    counts.extend(tube.expired.map(|expired| ("expired_items", expired)));
    (tube.name, counts)
}

/// The answer to memcached's `stats`: its names where it has them, and Kestrel's for each queue.
/// The totals come with whether it is known how many messages there are.
pub fn memcached(
    about: &ProcessFacts,
    service: &BrokerState,
    (totals, known): (&Totals, bool),
    memory: u64,
    counts: &VerbCounts,
    queues: impl Iterator<Item = QueueFigures>,
) -> String {
    let mut text = String::new();
    let mut add = |name: &str, value: &dyn Display| {
        write!(text, "STAT {name} {value}\r\n").expect("a text takes all");
    };
    add("pid", &about.pid);
    add("uptime", &seconds(service.uptime));
    add("version", &about.version);
    add("store", &about.store);
    if known {
        add("curr_items", &totals.ready);
        add("open_transactions", &totals.reserved);
    }
    add("total_items", &totals.jobs);
    add("bytes", &memory);
    add("curr_connections", &totals.connections);
    add("total_connections", &totals.all_connections);
    let taken = [Verb::Reserve, Verb::ReserveWithTimeout, Verb::Pop, Verb::PeekReady];
    add("cmd_get", &taken.into_iter().map(|verb| counts.get(verb)).sum::<u64>());
    add("cmd_set", &counts.get(Verb::Put));
    add("item_size_max", &about.largest);
    add("commits", &service.commits);
    add("waiters", &totals.waiting);
    add("expired_items", &totals.expired);
    for (queue, its) in queues {
        its.iter().for_each(|(what, count)| add(&format!("queue_{queue}_{what}"), count));
    }
    text.push_str("END\r\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobCounts;

    /// beanstalkd's own lines of `stats`.
    const STATS: &[&str] = &[
        "current-jobs-urgent",
        "current-jobs-ready",
        "current-jobs-reserved",
        "current-jobs-delayed",
        "current-jobs-buried",
        "cmd-put",
        "cmd-peek",
        "cmd-peek-ready",
        "cmd-peek-delayed",
        "cmd-peek-buried",
        "cmd-reserve",
        "cmd-reserve-with-timeout",
        "cmd-delete",
        "cmd-release",
        "cmd-use",
        "cmd-watch",
        "cmd-ignore",
        "cmd-bury",
        "cmd-kick",
        "cmd-touch",
        "cmd-stats",
        "cmd-stats-job",
        "cmd-stats-tube",
        "cmd-list-tubes",
        "cmd-list-tube-used",
        "cmd-list-tubes-watched",
        "cmd-pause-tube",
        "job-timeouts",
        "total-jobs",
        "max-job-size",
        "current-tubes",
        "current-connections",
        "current-producers",
        "current-workers",
        "current-waiting",
        "total-connections",
        "pid",
        "version",
        "rusage-utime",
        "rusage-stime",
        "uptime",
        "binlog-oldest-index",
        "binlog-current-index",
        "binlog-records-migrated",
        "binlog-records-written",
        "binlog-max-size",
        "draining",
        "id",
        "hostname",
        "os",
        "platform",
    ];
    /// Those of `stats-tube`.
    const STATS_TUBE: &[&str] = &[
        "name",
        "current-jobs-urgent",
        "current-jobs-ready",
        "current-jobs-reserved",
        "current-jobs-delayed",
        "current-jobs-buried",
        "total-jobs",
        "current-using",
        "current-watching",
        "current-waiting",
        "cmd-delete",
        "cmd-pause-tube",
        "pause",
        "pause-time-left",
    ];
    /// Those of `stats-job`.
    const STATS_JOB: &[&str] = &[
        "id",
        "tube",
        "state",
        "pri",
        "age",
        "delay",
        "ttr",
        "time-left",
        "file",
        "reserves",
        "timeouts",
        "releases",
        "buries",
        "kicks",
    ];

    fn keys(answer: &str) -> Vec<&str> {
        let lines = answer.strip_prefix("---\n").unwrap().lines();
        lines.map(|line| line.split_once(": ").unwrap().0).collect()
    }

    /// Whether it is counted here or not: in `batch` and `direct` no lease that runs out is.
    #[test]
    fn every_line_of_beanstalkds_stats_is_there_and_in_its_place() {
        for timeouts in [None, Some(3)] {
            let service = BrokerState { timeouts, ..BrokerState::default() };
            let (about, totals, counts) = (ProcessFacts::default(), Totals::default(), VerbCounts::default());
            let answer = server(&about, &service, &totals, 0, &counts);
            assert_eq!(keys(&answer)[..STATS.len()], *STATS);
            assert!(answer.contains(&format!("\njob-timeouts: {}\n", timeouts.unwrap_or(0))));
        }
    }

    #[test]
    fn every_line_of_beanstalkds_stats_of_a_tube_and_of_a_message_is_there_and_in_its_place() {
        let view = TubeView {
            name: Arc::from("mail"),
            urgent: 0,
            ready: 0,
            reserved: 0,
            delayed: 0,
            buried: 0,
            jobs: 0,
            using: 0,
            watching: 0,
            waiting: 0,
            deletes: 0,
            expired: None,
            expires: Nanos::ZERO,
            keeps: Nanos::ZERO,
            pauses: 0,
            pause: Nanos::ZERO,
            pause_left: Nanos::ZERO,
        };
        let target = ResponseTarget { quantile: 0.95, seconds: 1.0 };
        assert_eq!(keys(&tube(&view, None, target)), STATS_TUBE);
        // What is not counted is left out, and is no zero.
        for (expired, ours) in [(None, &["expires"][..]), (Some(0), &["expires", "total-expired"][..])] {
            let view = TubeView { expired, expires: Nanos::from_secs(60), ..view.clone() };
            assert_eq!(keys(&tube(&view, None, target))[STATS_TUBE.len()..], *ours);
        }
        let view = JobView {
            id: 1,
            tube: Arc::from("mail"),
            state: "ready",
            priority: 0,
            age: Nanos::ZERO,
            delay: Nanos::ZERO,
            ttr: Nanos::ZERO,
            time_left: Nanos::ZERO,
            happened: JobCounts::default(),
            sender: None,
            receiver: None,
        };
        assert_eq!(keys(&job(&view)), STATS_JOB);
    }
}
