//! The table and the JSON, in the shape that scripts written for memtier_benchmark read.
//!
//! A run is a block named `ALL STATS`; several runs (`-x`) are the best, the worst and the average
//! of all, and each by itself where that is asked for.

use std::collections::BTreeMap;
use std::fmt::Write;

use krarup_record::MeasuredDistribution;
use krarup_record::file::log;
use krarup_units::{Nanos, Seconds};
use serde_json::{Value, json};

use super::Memtier;
use crate::result::{LoadResult, OperationResult, SeriesRow, TimeDistribution};

/// Percentiles of a histogram come in steps that halve their distance to 100 % after so many, as
/// memtier_benchmark has them.
const STEPS: u32 = 10;

/// What is shown of a run, or of several on average.
struct Block {
    title: String,
    started_millis: f64,
    duration_millis: f64,
    interrupted: bool,
    sets: Row,
    gets: Row,
    totals: Row,
}

/// One row: rates per second, and how long requests took.
#[derive(Default)]
struct Row {
    count: u64,
    per_second: f64,
    hits: f64,
    misses: f64,
    kilobytes_received: f64,
    kilobytes_sent: f64,
    response_times: MeasuredDistribution,
    /// What is known of the times where their distribution is not.
    summary: Option<TimeDistribution>,
    /// Nothing is known of such requests: another program did not count them by kind.
    unknown: bool,
    /// Connections that were lost or did not come about; of all requests together alone.
    connection_errors: u64,
    connection_errors_per_second: f64,
    series: Vec<Second>,
}

/// One second of a row.
struct Second {
    number: u64,
    response_times: MeasuredDistribution,
    count: u64,
    received: u64,
    sent: u64,
    total: f64,
    least: f64,
    greatest: f64,
}

impl Row {
    fn of(result: &LoadResult, operations: &[&OperationResult], names: &[&str]) -> Self {
        let sum = |of: fn(&OperationResult) -> u64| operations.iter().map(|one| of(one)).sum::<u64>();
        let per = |of: fn(&OperationResult) -> u64| per_second(sum(of), result);
        let mut response_times = MeasuredDistribution::new();
        let packed = operations.iter().filter_map(|one| one.distributions.as_ref());
        for one in packed.filter_map(|all| all.response_time.unpack().ok()) {
            response_times.merge(&one);
        }
        let without = operations.iter().find(|one| one.distributions.is_none() && one.count > 0);
        let mut seconds: BTreeMap<u64, Second> = BTreeMap::new();
        let is_of_row = |row: &&SeriesRow| row.class.is_empty() && names.contains(&row.operation.as_str());
        for row in result.series.iter().filter(is_of_row) {
            let number = row.start as u64;
            let empty = || Second {
                number,
                response_times: MeasuredDistribution::new(),
                count: 0,
                received: 0,
                sent: 0,
                total: 0.0,
                least: f64::INFINITY,
                greatest: 0.0,
            };
            let second = seconds.entry(number).or_insert_with(empty);
            if let Some(times) = row.response_times.as_ref().and_then(|packed| packed.unpack().ok()) {
                second.response_times.merge(&times);
            }
            second.count += row.count;
            second.received += row.bytes_received;
            second.sent += row.bytes_sent;
            second.total += row.mean * row.count as f64;
            second.least = second.least.min(if row.count > 0 { row.min } else { f64::INFINITY });
            second.greatest = second.greatest.max(row.max);
        }
        Self {
            count: sum(answered),
            per_second: per(answered),
            hits: per(|one| one.hits),
            misses: per(|one| one.misses),
            kilobytes_received: per(|one| one.bytes_received) / 1_024.0,
            kilobytes_sent: per(|one| one.bytes_sent) / 1_024.0,
            response_times,
            summary: without.map(|one| one.response_time),
            unknown: operations.is_empty() && result.operations.is_empty() && result.overall.count > 0,
            connection_errors: 0,
            connection_errors_per_second: 0.0,
            series: seconds.into_values().collect(),
        }
    }

    /// All requests together, with the connections that failed.
    fn of_all(result: &LoadResult) -> Self {
        let errors = result.account.connections_lost + result.account.connects_failed;
        let elapsed = result.generator.elapsed;
        Self {
            connection_errors: errors,
            connection_errors_per_second: if elapsed > 0.0 { errors as f64 / elapsed } else { 0.0 },
            ..Self::of(result, &[&result.overall], &["all"])
        }
    }

    fn add(&mut self, other: &Self, share: f64) {
        self.count += other.count;
        self.per_second += other.per_second * share;
        self.hits += other.hits * share;
        self.misses += other.misses * share;
        self.kilobytes_received += other.kilobytes_received * share;
        self.kilobytes_sent += other.kilobytes_sent * share;
        self.response_times.merge(&other.response_times);
        self.connection_errors += other.connection_errors;
        self.connection_errors_per_second += other.connection_errors_per_second * share;
    }

    fn mean_millis(&self) -> Option<f64> {
        let mean = self.response_times.mean().or(self.summary.map(|times| times.mean));
        mean.map(|mean| mean * 1e3)
    }

    fn percentile_millis(&self, percent: f64) -> Option<f64> {
        let of_summary = || {
            let TimeDistribution { p50, p90, p95, p99, p999, .. } = self.summary?;
            let known: [(f64, Seconds); 5] =
                [(50.0, p50), (90.0, p90), (95.0, p95), (99.0, p99), (99.9, p999)];
            let found = known.into_iter().find(|(known, _)| (known - percent).abs() < 1e-6);
            found.map(|(_, time)| time * 1e3)
        };
        self.response_times.quantile(percent / 100.0).map(millis).or_else(of_summary)
    }

    fn kilobytes(&self) -> f64 {
        self.kilobytes_received + self.kilobytes_sent
    }

    /// Values in milliseconds, and the percentage of requests up to there.
    fn cumulative(&self) -> Vec<(f64, f64)> {
        let histogram = self.response_times.histogram();
        if histogram.is_empty() {
            return Vec::new();
        }
        let steps = histogram.iter_quantiles(STEPS);
        steps
            .map(|step| (step.value_iterated_to() as f64 / 1e6, 100.0 * step.quantile_iterated_to()))
            .collect()
    }
}

impl Block {
    fn of(title: String, result: &LoadResult) -> Self {
        let of = |names: &[&str]| {
            let operations: Vec<_> = names.iter().filter_map(|name| result.operations.get(*name)).collect();
            Row::of(result, &operations, names)
        };
        Self {
            title,
            started_millis: (result.started_unix * 1e3).round(),
            duration_millis: (result.generator.elapsed * 1e3).round(),
            interrupted: result.interrupted,
            sets: of(&["set"]),
            gets: of(&["get", "multiget"]),
            totals: Row::of_all(result),
        }
    }

    /// The average of several runs: rates are averaged, times are those of all requests together.
    fn average(runs: &[LoadResult]) -> Self {
        let mut sum = Self {
            title: format!("AGGREGATED AVERAGE RESULTS ({} runs)", runs.len()),
            started_millis: 0.0,
            duration_millis: 0.0,
            interrupted: runs.iter().any(|run| run.interrupted),
            sets: Row::default(),
            gets: Row::default(),
            totals: Row::default(),
        };
        let share = 1.0 / runs.len() as f64;
        for run in runs {
            let run = Self::of(String::new(), run);
            sum.started_millis += run.started_millis * share;
            sum.duration_millis += run.duration_millis * share;
            sum.sets.add(&run.sets, share);
            sum.gets.add(&run.gets, share);
            sum.totals.add(&run.totals, share);
        }
        sum
    }

    /// What is shown of all runs.
    fn all(memtier: &Memtier, runs: &[LoadResult]) -> Vec<Self> {
        if let [only] = runs {
            return vec![Self::of("ALL STATS".to_owned(), only)];
        }
        let rate = |run: &&LoadResult| per_second(answered(&run.overall), run);
        let best = runs.iter().max_by(|one, other| rate(one).total_cmp(&rate(other)));
        let worst = runs.iter().min_by(|one, other| rate(one).total_cmp(&rate(other)));
        let (Some(best), Some(worst)) = (best, worst) else { return Vec::new() };
        let mut blocks = Vec::new();
        if memtier.print_all_runs {
            let one = |(place, run)| Self::of(format!("RUN #{} RESULTS", place + 1), run);
            blocks.extend(runs.iter().enumerate().map(one));
        }
        blocks.push(Self::of("BEST RUN RESULTS".to_owned(), best));
        blocks.push(Self::of("WORST RUN RESULTS".to_owned(), worst));
        blocks.push(Self::average(runs));
        blocks
    }

    fn rows(&self) -> [(&'static str, &'static str, &Row); 2] {
        [("Sets", "SET", &self.sets), ("Gets", "GET", &self.gets)]
    }

    fn table(&self, memtier: &Memtier) -> String {
        let mut out = format!("\n\n{}\n", self.title);
        let mut line = |text: String| {
            out.push_str(&text);
            out.push('\n');
        };
        let names =
            memtier.percentiles.iter().map(|percentile| format!("{:>16}", format!("p{percentile} Latency")));
        let names: String = names.collect();
        let head = format!(
            "{:<6}{:>13}{:>13}{:>13}{:>16}{names}{:>13} ",
            "Type", "Ops/sec", "Hits/sec", "Misses/sec", "Avg. Latency", "KB/sec"
        );
        line("=".repeat(head.len()));
        line(head.clone());
        line("-".repeat(head.len()));
        for (name, _, row) in self.rows() {
            line(text_row(memtier, name, row, name == "Gets"));
        }
        let dashes: String = memtier.percentiles.iter().map(|_| format!("{:>16}", "---")).collect();
        line(format!(
            "{:<6}{:>13}{:>13}{:>13}{:>16}{dashes}{:>13} ",
            "Waits", "0.00", "---", "---", "---", "---"
        ));
        line(text_row(memtier, "Totals", &self.totals, true));
        if !memtier.hide_histogram {
            line("\n\nRequest Latency Distribution".to_owned());
            line(format!("{:<6} {:>12} {:>12}", "Type", "<= msec   ", "Percent"));
            line("-".repeat(72));
            for (_, name, row) in self.rows() {
                for (millis, percent) in row.cumulative() {
                    line(format!("{name:<6} {millis:>8.3} {percent:>12.3}"));
                }
                line("---".to_owned());
            }
        }
        out
    }

    fn json(&self, memtier: &Memtier) -> Value {
        let mut all = json!({
            "Runtime": {
                "Start time": self.started_millis as u64,
                "Finish time": (self.started_millis + self.duration_millis) as u64,
                "Total duration": self.duration_millis as u64,
                "Time unit": "MILLISECONDS",
                "Interrupted": self.interrupted.to_string(),
            },
            "Waits": { "Count": 0, "Ops/sec": 0.0 },
        });
        for (name, histogram, row) in self.rows() {
            all[name] = json_row(memtier, row);
            if !memtier.hide_histogram {
                let steps = row.cumulative().into_iter();
                all[histogram] =
                    steps.map(|(millis, percent)| json!({ "<=msec": millis, "percent": percent })).collect();
            }
        }
        if !memtier.hide_histogram {
            all["WAIT"] = json!([]);
        }
        all["Totals"] = json_row(memtier, &self.totals);
        all
    }
}

/// The tables of all runs. Times are in milliseconds.
pub fn table(memtier: &Memtier, runs: &[LoadResult]) -> String {
    let mut out = runs.first().map(head).unwrap_or_default();
    Block::all(memtier, runs).iter().for_each(|block| out.push_str(&block.table(memtier)));
    out
}

/// Threads, connections of each, and how long the run was to be without what is not measured: of
/// the run itself, whose command line may be none of memtier_benchmark's.
fn head(run: &LoadResult) -> String {
    let crate::Load { connections, threads, extent, warm_up, cool_down, .. } = run.config;
    // Readers multiply: where not all threads have as many, one stands for all.
    let is_even = threads > 0 && connections.is_multiple_of(threads);
    let threads = if is_even { threads } else { 1 };
    let each = connections / threads;
    let in_seconds = |seconds: Seconds| format!("{:<9} Seconds", (seconds * 1e3).round() / 1e3);
    let extent = match extent {
        crate::Extent::Requests(requests) => {
            format!("{:<9} Requests per client", requests / u64::from(connections.max(1)))
        }
        crate::Extent::Seconds(seconds) => in_seconds(seconds - warm_up - cool_down),
        crate::Extent::Trace => in_seconds(run.seconds),
    };
    format!("{threads:<9} Threads\n{each:<9} Connections per thread\n{extent}\n")
}

fn text_row(memtier: &Memtier, name: &str, row: &Row, keys: bool) -> String {
    let known = !row.unknown;
    let figure = |value: f64, known: bool| if known { format!("{value:.2}") } else { "---".to_owned() };
    let mut out = format!("{name:<6}{:>13}", figure(row.per_second, known));
    for value in [row.hits, row.misses] {
        write!(out, "{:>13}", figure(value, known && keys)).expect("a string takes everything");
    }
    let times = std::iter::once(row.mean_millis())
        .chain(memtier.percentiles.iter().map(|percent| row.percentile_millis(*percent)));
    for time in times {
        let text = time.map_or_else(|| "---".to_owned(), |time| format!("{time:.5}"));
        write!(out, "{text:>16}").expect("a string takes everything");
    }
    write!(out, "{:>13} ", figure(row.kilobytes(), known)).expect("a string takes everything");
    out
}

/// The JSON of all runs.
pub fn json(memtier: &Memtier, runs: &[LoadResult]) -> Value {
    let mut out = json!({
        "configuration": configuration(memtier),
        "run information": {
            "Threads": memtier.load.threads,
            "Connections per thread": memtier.clients_per_thread,
            (if memtier.requests_per_client.is_some() { "Requests per client" } else { "Seconds" }):
                memtier.requests_per_client.unwrap_or(extent_seconds(&memtier.load)),
            "Format version": 2,
        },
    });
    for block in Block::all(memtier, runs) {
        out[block.title.as_str()] = block.json(memtier);
    }
    out
}

fn json_row(memtier: &Memtier, row: &Row) -> Value {
    let exact = row.response_times.exact();
    let is_any = row.response_times.count() > 0;
    let mean = row.mean_millis().unwrap_or(0.0);
    let mut percentiles = json!({});
    for percent in &memtier.percentiles {
        percentiles[format!("p{percent:.2}")] = row.percentile_millis(*percent).unwrap_or(0.0).into();
    }
    percentiles["Histogram log format"] =
        json!({ "Compressed Histogram": log::in_micros(&row.response_times) });
    let mut series = json!({});
    for second in &row.series {
        let mut told = if second.count == 0 {
            json!({ "Count": 0, "Bytes RX": second.received, "Bytes TX": second.sent })
        } else {
            json!({
                "Count": second.count, "Bytes RX": second.received, "Bytes TX": second.sent,
                "Average Latency": 1e3 * second.total / second.count as f64, "Accumulated Latency": 1e3 * second.total,
                "Min Latency": 1e3 * second.least, "Max Latency": 1e3 * second.greatest,
            })
        };
        for percent in &memtier.percentiles {
            let value = second.response_times.quantile(percent / 100.0);
            if let Some(value) = value {
                told[format!("p{percent:.2}")] = millis(value).into();
            }
        }
        series[second.number.to_string()] = told;
    }
    json!({
        "Count": row.count,
        "Ops/sec": row.per_second,
        "Hits/sec": row.hits,
        "Misses/sec": row.misses,
        "Connection Errors/sec": row.connection_errors_per_second,
        "Connection Errors": row.connection_errors,
        "Latency": mean,
        "Average Latency": mean,
        "Accumulated Latency": millis(exact.sum),
        "Min Latency": if is_any { millis(exact.least) } else { 0.0 },
        "Max Latency": millis(exact.greatest),
        "KB/sec": row.kilobytes(),
        "KB/sec RX/TX": row.kilobytes(),
        "KB/sec RX": row.kilobytes_received,
        "KB/sec TX": row.kilobytes_sent,
        "Time-Serie": series,
        "Percentile Latencies": percentiles,
    })
}

fn configuration(memtier: &Memtier) -> Value {
    let load = &memtier.load;
    let keys = &load.workload.keys;
    json!({
        "server": load.targets[0].host,
        "port": load.targets[0].port,
        "protocol": "memcache_text",
        "run_count": memtier.runs,
        "requests": memtier.requests_per_client.unwrap_or(0),
        "clients": memtier.clients_per_thread,
        "threads": load.threads,
        "test_time": if memtier.requests_per_client.is_some() { 0 } else { extent_seconds(load) },
        "ratio": memtier.ratio,
        "pipeline": load.pipeline,
        "data_size": load.workload.value_size.most(),
        "expiry_range": load.workload.expiry.map_or_else(|| "0:0".to_owned(), |(from, to)| format!("{from}:{to}")),
        "key_prefix": keys.prefix,
        "key_minimum": keys.minimum,
        "key_maximum": keys.minimum + keys.count - 1,
        "reconnect_interval": load.habits.reconnect_after,
        "multi_key_get": if load.workload.multi_get > 1 { load.workload.multi_get } else { 0 },
    })
}

fn extent_seconds(load: &crate::Load) -> u64 {
    match load.extent {
        crate::Extent::Seconds(seconds) => seconds as u64,
        crate::Extent::Requests(_) | crate::Extent::Trace => 0,
    }
}

fn millis(time: Nanos) -> f64 {
    time.as_seconds() * 1e3
}

/// Requests that were answered, with errors too: what memtier_benchmark counts. Latencies and the
/// series over time have those that were given up as well.
fn answered(of: &OperationResult) -> u64 {
    of.count - of.unanswered()
}

/// The rate of `count` in the measured part.
fn per_second(count: u64, result: &LoadResult) -> f64 {
    if result.seconds > 0.0 { count as f64 / result.seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use krarup_memcache::ReplyClass;
    use krarup_record::{Operation, ServerVisit, Visit};
    use krarup_units::{PerSecond, Stamp};

    use super::super::convert::{ForeignRun, load_result};
    use super::super::parse;
    use super::super::read::read;
    use super::*;
    use crate::account::{Account, LossReason, MeasuredSpan};
    use crate::collect::reported;
    use crate::config::{Extent, Load};
    use crate::engine::Done;

    /// A run of one second with so many GETs that were answered, and so many that were not.
    fn run(answered: u64, lost: u64) -> LoadResult {
        let mut account = Account::new(MeasuredSpan { from: Stamp(0), to: Stamp(1_000_000_000) }, 1);
        for number in 0..answered + lost {
            let mut visit = Visit::at(Stamp(number), Operation::Get);
            (visit.taken, visit.replied) = (Stamp(number), Stamp(number + 5_000));
            let server = ServerVisit::ok(0, visit.taken, visit.replied);
            if number < answered {
                account.answered(ReplyClass::Values, &mut visit, server);
            } else {
                account.lost(LossReason::TimedOut, &mut visit, server);
            }
        }
        account.close(Stamp(1_000_000_000));
        let load = Load { extent: Extent::Seconds(1.0), ..Load::default() };
        reported(&load, account, Done { sent: answered + lost, ..Done::default() })
    }

    #[test]
    fn a_request_without_an_answer_is_no_operation() {
        let line = "-s 127.0.0.1 -p 11211 -P memcache_text".split_whitespace();
        let memtier = parse(&line.map(str::to_owned).collect::<Vec<_>>()).unwrap();
        let told = json(&memtier, &[run(10, 5)]);
        for row in ["Gets", "Totals"] {
            let row = &told["ALL STATS"][row];
            assert_eq!((row["Count"].as_u64(), row["Ops/sec"].as_f64()), (Some(10), Some(10.0)));
        }
        let told = json(&memtier, &[run(10, 5), run(12, 0)]);
        for (title, count) in [("BEST RUN RESULTS", 12), ("WORST RUN RESULTS", 10)] {
            assert_eq!(told[title]["Totals"]["Count"].as_u64(), Some(count), "{title}");
        }
    }

    #[test]
    fn one_slow_request_of_a_thousand_is_above_its_percentile() {
        let mut row = Row::default();
        (0..999).for_each(|_| row.response_times.record(Nanos(1_000)));
        row.response_times.record(Nanos(2_000));
        let found = [50.0, 99.9, 99.91, 100.0].map(|percent| row.percentile_millis(percent));
        assert_eq!(found, [Some(0.001), Some(0.001), Some(0.002), Some(0.002)]);
    }

    #[test]
    fn the_head_is_of_the_run_whatever_its_command_line() {
        let head = |config: Load| {
            let shown = table(&parse(&[]).unwrap(), &[LoadResult { config, ..run(10, 0) }]);
            let read = read(&shown).unwrap();
            (read.threads, read.connections_per_thread, read.requests_per_client, read.seconds)
        };
        let extent = Extent::Seconds(0.15);
        let timed = Load { connections: 6, threads: 2, extent, cool_down: 0.05, ..Load::default() };
        assert_eq!(head(timed), (Some(2), Some(3), None, Some(0.1)));
        // Two threads, of which one has two connections.
        let extent = Extent::Requests(30);
        let counted = Load { connections: 3, threads: 2, extent, ..Load::default() };
        assert_eq!(head(counted), (Some(1), Some(3), Some(10), None));
    }

    #[test]
    fn what_another_program_does_not_say_is_not_zero() {
        let text = r#"{"run information": {"Threads": 1, "Connections per thread": 3},
            "ALL STATS": {"Totals": {"Count": 400, "Ops/sec": 200.0, "Average Latency": 1.0,
            "Percentile Latencies": {"p50.00": 0.9, "p99.00": 4.0}}}}"#;
        let result = load_result(&read(text).unwrap(), ForeignRun::default()).unwrap();
        let shown = read(&table(&parse(&[]).unwrap(), &[result])).unwrap();
        assert_eq!((shown.threads, shown.connections_per_thread), (Some(1), Some(3)));
        let rows = &shown.blocks[0].rows;
        assert_eq!((rows["Sets"].throughput, rows["Gets"].throughput, rows["Gets"].mean), (None, None, None));
        let totals = &rows["Totals"];
        assert_eq!((totals.throughput, totals.mean), (Some(PerSecond(200.0)), Some(0.001)));
        assert_eq!(totals.percentiles[..2], [(50.0, 0.000_9), (99.0, 0.004)]);
    }
}
