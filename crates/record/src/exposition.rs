//! Numbers as Prometheus reads them: its text format, version 0.0.4; written here, and read in
//! [`read`].

use std::fmt::{Arguments, Display, Write};

use krarup_units::{Nanos, Seconds};

use crate::{MeasuredDistribution, Operation, Quantity, Recorder, VisitTally};

pub mod read;

/// What Prometheus is told it reads.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The upper bounds of the buckets that messages' waits in a queue are counted in, in nanoseconds:
/// up to a day. What is longer than the last is counted too.
pub const WAITING_BOUNDS: [u64; 26] = [
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    60_000_000_000,
    300_000_000_000,
    600_000_000_000,
    1_800_000_000_000,
    3_600_000_000_000,
    14_400_000_000_000,
    86_400_000_000_000,
];

/// Those of all other times: the first of them.
pub const BOUNDS: [u64; 18] = *WAITING_BOUNDS.first_chunk().expect("there are more");

/// A distribution of times, in buckets.
#[derive(Clone, Debug, Default)]
pub struct TimeBuckets {
    /// Times up to each of [`BOUNDS`], or of [`WAITING_BOUNDS`], the shorter ones included, as
    /// exactly as the histogram tells times apart (0.1 %); empty where only count and sum are told.
    pub up_to: Vec<u64>,
    /// How many there are.
    pub count: u64,
    /// All of them together.
    pub sum: Seconds,
}

impl TimeBuckets {
    /// Of this distribution, in buckets or not.
    pub fn of(distribution: &MeasuredDistribution, buckets: bool) -> Self {
        let up_to = if buckets { distribution.up_to(&BOUNDS) } else { Vec::new() };
        Self { up_to, count: distribution.count(), sum: distribution.sum() }
    }
}

/// What one operation added up to.
#[derive(Clone, Debug)]
pub struct OfOperation {
    /// Which.
    pub operation: Operation,
    /// Its counts.
    pub tally: VisitTally,
    /// How its times are distributed, by quantity.
    pub times: [TimeBuckets; Quantity::COUNT],
}

impl OfOperation {
    /// Every operation that a recorder has seen.
    pub fn seen(recorder: &Recorder) -> Vec<Self> {
        let times = |operation, quantity| {
            let times = recorder.histograms().get(operation, quantity);
            times.map_or_else(TimeBuckets::default, |times| TimeBuckets::of(times, true))
        };
        let of = |operation: Operation| Self {
            operation,
            tally: recorder.total(operation),
            times: std::array::from_fn(|quantity| times(operation, Quantity::ALL[quantity])),
        };
        let seen = Operation::ALL.iter().copied().filter(|&operation| recorder.total(operation).count > 0);
        seen.map(of).collect()
    }
}

/// What a reference page says of a metric.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    /// Its name.
    pub name: &'static str,
    /// What Prometheus calls its kind.
    pub kind: &'static str,
    /// What tells its values apart, if there are several.
    pub label: Option<&'static str>,
    /// What it means.
    pub help: &'static str,
}

/// The bounds of [`BOUNDS`] in seconds, as a reference page lists them.
pub fn bounds() -> String {
    in_seconds(&BOUNDS)
}

/// Those that [`WAITING_BOUNDS`] has beside them.
pub fn further_waiting_bounds() -> String {
    in_seconds(&WAITING_BOUNDS[BOUNDS.len()..])
}

fn in_seconds(bounds: &[u64]) -> String {
    let bounds: Vec<_> = bounds.iter().map(|bound| (*bound as f64 / 1e9).to_string()).collect();
    bounds.join(", ")
}

/// The table of a reference page, in Markdown: the metrics of the process, then the service's own.
pub fn reference(metrics: impl Iterator<Item = Described>) -> String {
    let mut table = String::from("| name | kind | label | meaning |\n|---|---|---|---|\n");
    for Described { name, kind, label, help } in PROCESS.iter().map(|metric| metric.described).chain(metrics)
    {
        let label = label.unwrap_or("–");
        writeln!(table, "| `{name}` | {kind} | {label} | {help} |").expect("a text takes all");
    }
    table
}

/// The text, as far as it is written.
#[derive(Debug, Default)]
pub struct ExpositionText(pub String);

impl ExpositionText {
    /// A line that is no value.
    pub fn line(&mut self, line: Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a text takes all");
    }

    /// What stands before the values of a metric.
    pub fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// The only value of a metric.
    pub fn value(&mut self, name: &str, value: impl Display) {
        self.line(format_args!("{name} {value}"));
    }

    /// What the system says of the process; a metric of which it says nothing has no value.
    pub fn process(&mut self, process: &ProcessMetrics) {
        for ProcessMetric { described: Described { name, kind, help, .. }, value } in PROCESS {
            self.head(name, kind, help);
            if let Some(value) = value(process) {
                self.value(name, value);
            }
        }
    }

    /// One value of several, told apart by what stands in a label.
    pub fn one(&mut self, name: &str, label: &str, of: &str, value: impl Display) {
        self.line(format_args!("{name}{{{label}=\"{}\"}} {value}", escaped(of)));
    }

    /// One value with its labels, if it has some.
    pub fn labelled(&mut self, name: &str, labels: &[(&str, String)], value: impl Display) {
        let labels: Vec<_> =
            labels.iter().map(|(label, of)| format!("{label}=\"{}\"", escaped(of))).collect();
        match labels.join(",") {
            none if none.is_empty() => self.value(name, value),
            labels => self.line(format_args!("{name}{{{labels}}} {value}")),
        }
    }

    /// One number of each operation.
    pub fn operations(&mut self, name: &str, all: &[OfOperation], value: fn(&VisitTally) -> u64) {
        for one in all {
            self.one(name, "operation", one.operation.name(), value(&one.tally));
        }
    }

    /// The histogram of one quantity of each operation.
    pub fn operation_times(&mut self, name: &str, all: &[OfOperation], quantity: Quantity) {
        for one in all {
            self.histogram(name, Some(("operation", one.operation.name())), &one.times[quantity.index()]);
        }
    }

    /// A histogram of times, in seconds, with as many bounds as they were counted up to; told apart
    /// from others by what stands in a label, if there are others.
    pub fn histogram(&mut self, name: &str, label: Option<(&str, &str)>, times: &TimeBuckets) {
        let bounds = WAITING_BOUNDS.iter().map(|bound| *bound as f64 / 1e9);
        self.buckets(name, label, bounds.zip(times.up_to.iter().copied()), times.count, times.sum);
    }

    /// A histogram of anything: how many were up to each bound, how many there were, and their sum.
    pub fn buckets(
        &mut self,
        name: &str,
        label: Option<(&str, &str)>,
        up_to: impl Iterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        let labels = label.map_or_else(String::new, |(label, of)| format!("{label}=\"{}\"", escaped(of)));
        let comma = if labels.is_empty() { "" } else { "," };
        for (bound, count) in up_to {
            self.line(format_args!("{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}"));
        }
        self.line(format_args!("{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}"));
        let braced = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        self.line(format_args!("{name}_sum{braced} {sum}"));
        self.line(format_args!("{name}_count{braced} {count}"));
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// What the system says of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMetrics {
    /// Processor time it has used, user and system together.
    pub processor_time: Nanos,
    /// Bytes of its memory that are not paged out; none where the system does not say.
    pub resident: Option<u64>,
    /// Files, sockets among them, that it has open; none where the system does not say.
    pub open_files: Option<u64>,
    /// How many it may have open; none where the system does not say, or sets no limit.
    pub most_files: Option<u64>,
}

/// A metric of a process, under the name that Prometheus' own clients give it.
#[derive(Clone, Copy, Debug)]
pub struct ProcessMetric {
    /// What it is.
    pub described: Described,
    value: fn(&ProcessMetrics) -> Option<f64>,
}

const fn of_process(
    name: &'static str,
    kind: &'static str,
    value: fn(&ProcessMetrics) -> Option<f64>,
    help: &'static str,
) -> ProcessMetric {
    ProcessMetric { described: Described { name, kind, label: None, help }, value }
}

/// The metrics that every process has, whichever service runs in it.
pub const PROCESS: &[ProcessMetric] = &[
    of_process(
        "process_cpu_seconds_total",
        "counter",
        |process| Some(process.processor_time.as_seconds()),
        "Processor time used by the process, user and system.",
    ),
    of_process(
        "process_resident_memory_bytes",
        "gauge",
        |process| process.resident.map(|bytes| bytes as f64),
        "Memory of the process that is not paged out.",
    ),
    of_process(
        "process_open_fds",
        "gauge",
        |process| process.open_files.map(|files| files as f64),
        "Files that the process has open, sockets among them.",
    ),
    of_process(
        "process_max_fds",
        "gauge",
        |process| process.most_files.map(|files| files as f64),
        "How many files the process may have open.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_does_not_say_has_no_value() {
        let mut text = ExpositionText::default();
        text.process(&ProcessMetrics { processor_time: Nanos::from_millis(20), ..ProcessMetrics::default() });
        assert!(text.0.contains("\nprocess_cpu_seconds_total 0.02\n"), "{}", text.0);
        assert!(text.0.contains("# TYPE process_resident_memory_bytes gauge\n"), "{}", text.0);
        assert!(!text.0.contains("\nprocess_resident_memory_bytes "), "{}", text.0);
    }

    #[test]
    fn a_histogram_is_reported_with_and_without_a_label() {
        let mut text = ExpositionText::default();
        text.head("h", "histogram", "Help.");
        text.buckets("h", None, [(1.0, 2), (2.0, 3)].into_iter(), 4, 10.5);
        text.buckets("h", Some(("l", "a\"b")), std::iter::empty(), 1, 1.0);
        let expected = "# HELP h Help.\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"2\"} 3\nh_bucket{le=\"+Inf\"} 4\n\
            h_sum 10.5\nh_count 4\nh_bucket{l=\"a\\\"b\",le=\"+Inf\"} 1\nh_sum{l=\"a\\\"b\"} 1\nh_count{l=\"a\\\"b\"} 1\n";
        assert_eq!(text.0, expected);
    }

    #[test]
    fn times_are_counted_up_to_each_bound() {
        let mut distribution = MeasuredDistribution::new();
        for time in [10_000, 30_000, 20_000_000_000] {
            distribution.record(Nanos(time));
        }
        let times = TimeBuckets::of(&distribution, true);
        assert_eq!((times.up_to[0], times.up_to[1], times.up_to[17], times.count), (1, 2, 2, 3));
        assert!(TimeBuckets::of(&distribution, false).up_to.is_empty());
    }

    #[test]
    fn a_histogram_has_the_bounds_that_its_times_were_counted_up_to() {
        for (bounds, last) in [(&BOUNDS[..], "10"), (&WAITING_BOUNDS[..], "86400")] {
            let mut text = ExpositionText::default();
            let times = TimeBuckets { up_to: vec![0; bounds.len()], ..TimeBuckets::default() };
            text.histogram("h", None, &times);
            let end = format!("h_bucket{{le=\"{last}\"}} 0\nh_bucket{{le=\"+Inf\"}} 0\nh_sum 0\nh_count 0\n");
            assert!(text.0.ends_with(&end), "{}", text.0);
        }
    }
}
