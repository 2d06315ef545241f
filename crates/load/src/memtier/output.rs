//! The table and the JSON, in the shape that scripts written for memtier_benchmark read.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::Memtier;
use crate::result::{LoadResult, OperationResult, SeriesRow, Times};

/// A row of the table: its name, the name of its histogram, and what it sums up.
fn rows(result: &LoadResult) -> [(&'static str, &'static str, Vec<&OperationResult>); 2] {
    let of = |names: &[&str]| names.iter().filter_map(|name| result.operations.get(*name)).collect();
    [("Sets", "SET", of(&["set"])), ("Gets", "GET", of(&["get", "multiget"]))]
}

/// The table of one run. Times are in milliseconds.
pub fn table(memtier: &Memtier, result: &LoadResult) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!("{:<9} Threads", memtier.load.threads));
    line(format!("{:<9} Connections per thread", memtier.clients_per_thread));
    match memtier.requests_per_client {
        Some(requests) => line(format!("{requests:<9} Requests per client")),
        None => line(format!("{:<9.0} Seconds", result.seconds)),
    }
    line(String::new());
    line(String::new());
    line("ALL STATS".to_owned());
    let names: String = memtier
        .percentiles
        .iter()
        .map(|percentile| format!("{:>16}", format!("p{percentile} Latency")))
        .collect();
    let head = format!(
        "{:<6}{:>13}{:>13}{:>13}{:>16}{names}{:>13} ",
        "Type", "Ops/sec", "Hits/sec", "Misses/sec", "Avg. Latency", "KB/sec"
    );
    line("=".repeat(head.len()));
    line(head.clone());
    line("-".repeat(head.len()));
    for (name, _, operations) in rows(result) {
        let keys = name == "Gets";
        line(row(memtier, name, &Sum::of(&operations, result.seconds), keys));
    }
    let dashes: String = memtier.percentiles.iter().map(|_| format!("{:>16}", "---")).collect();
    line(format!(
        "{:<6}{:>13}{:>13}{:>13}{:>16}{dashes}{:>13} ",
        "Waits", "0.00", "---", "---", "---", "---"
    ));
    line(row(memtier, "Totals", &Sum::of(&[&result.overall], result.seconds), true));
    if !memtier.hide_histogram {
        line("\n\nRequest Latency Distribution".to_owned());
        line("Type     <= msec         Percent".to_owned());
        line("-".repeat(72));
        for (_, name, operations) in rows(result) {
            for (millis, percent) in cumulative(&operations) {
                line(format!("{name}    {millis:>9.3}    {percent:>9.3}"));
            }
            line("---".to_owned());
        }
    }
    out
}

/// What a row shows, over one or more operations.
struct Sum {
    per_second: f64,
    hits: f64,
    misses: f64,
    times: Times,
    /// Where several operations are one row, their percentiles come from the buckets of 100 µs.
    buckets: Vec<(f64, f64)>,
    kilobytes: f64,
    several: bool,
}

impl Sum {
    fn of(operations: &[&OperationResult], seconds: f64) -> Self {
        let per = |value: u64| if seconds > 0.0 { value as f64 / seconds } else { 0.0 };
        let sum = |value: fn(&OperationResult) -> u64| operations.iter().map(|one| value(one)).sum::<u64>();
        let count = sum(|one| one.response_time.count);
        let mean =
            operations.iter().map(|one| one.response_time.mean * one.response_time.count as f64).sum::<f64>();
        let min = operations.iter().map(|one| one.response_time.min).fold(f64::INFINITY, f64::min);
        let max = operations.iter().map(|one| one.response_time.max).fold(0.0, f64::max);
        let times = match operations {
            [] => Times::default(),
            [one] => one.response_time,
            [first, ..] => Times { count, mean: mean / count.max(1) as f64, min, max, ..first.response_time },
        };
        Self {
            per_second: per(sum(|one| one.count)),
            hits: per(sum(|one| one.hits)),
            misses: per(sum(|one| one.misses)),
            times,
            buckets: cumulative(operations),
            kilobytes: per(sum(|one| one.bytes_sent + one.bytes_received)) / 1_024.0,
            several: operations.len() > 1,
        }
    }

    /// A percentile in milliseconds: to three digits where it is kept, otherwise the upper edge of its bucket.
    fn percentile(&self, percent: f64) -> f64 {
        let kept = [
            (50.0, self.times.p50),
            (90.0, self.times.p90),
            (95.0, self.times.p95),
            (99.0, self.times.p99),
            (99.9, self.times.p999),
        ];
        let kept = kept.iter().find(|(known, _)| *known == percent && !self.several);
        kept.map(|(_, seconds)| seconds * 1e3)
            .or_else(|| self.buckets.iter().find(|(_, below)| *below >= percent).map(|(millis, _)| *millis))
            .unwrap_or(0.0)
    }
}

fn row(memtier: &Memtier, name: &str, sum: &Sum, keys: bool) -> String {
    let mut out = format!("{name:<6}{:>13.2}", sum.per_second);
    for value in [sum.hits, sum.misses] {
        let text = if keys { format!("{value:.2}") } else { "---".to_owned() };
        write!(out, "{text:>13}").expect("a string takes everything");
    }
    let times = std::iter::once(sum.times.mean * 1e3)
        .chain(memtier.percentiles.iter().map(|percent| sum.percentile(*percent)));
    for time in times {
        let text = if sum.times.count > 0 { format!("{time:.5}") } else { "---".to_owned() };
        write!(out, "{text:>16}").expect("a string takes everything");
    }
    write!(out, "{:>13.2} ", sum.kilobytes).expect("a string takes everything");
    out
}

/// Upper edges of the buckets that hold requests, in milliseconds, and the percentage of requests up to there.
fn cumulative(operations: &[&OperationResult]) -> Vec<(f64, f64)> {
    let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
    for operation in operations {
        for &(bucket, count) in &operation.histogram.buckets {
            *buckets.entry(bucket).or_default() += count;
        }
    }
    let total: u64 = buckets.values().sum();
    let mut below = 0;
    buckets
        .into_iter()
        .map(|(bucket, count)| {
            below += count;
            ((bucket + 1) as f64 / 10.0, 100.0 * below as f64 / total as f64)
        })
        .collect()
}

/// The JSON of a run.
pub fn json(memtier: &Memtier, result: &LoadResult) -> Value {
    let start = (result.started_unix * 1e3).round();
    let duration = (result.generator.elapsed * 1e3).round();
    let mut all = json!({
        "Runtime": {
            "Start time": start as u64,
            "Finish time": (start + duration) as u64,
            "Total duration": duration as u64,
            "Time unit": "MILLISECONDS",
            "Interrupted": result.interrupted.to_string(),
        },
        "Waits": { "Count": 0, "Ops/sec": 0.0 },
        "WAIT": [],
    });
    for (name, histogram, operations) in rows(result) {
        let series = result.series.iter().filter(|row| row.class.is_empty()).filter(|row| match name {
            "Sets" => row.operation == "set",
            _ => row.operation == "get" || row.operation == "multiget",
        });
        all[name] = statistics(memtier, &operations, result.seconds, series);
        let buckets = cumulative(&operations).into_iter();
        all[histogram] =
            buckets.map(|(millis, percent)| json!({ "<=msec": millis, "percent": percent })).collect();
    }
    let series = result.series.iter().filter(|row| row.class.is_empty() && row.operation == "all");
    all["Totals"] = statistics(memtier, &[&result.overall], result.seconds, series);
    json!({
        "configuration": configuration(memtier),
        "run information": {
            "Threads": memtier.load.threads,
            "Connections per thread": memtier.clients_per_thread,
            (if memtier.requests_per_client.is_some() { "Requests per client" } else { "Seconds" }):
                memtier.requests_per_client.unwrap_or(result.seconds as u64),
            "Format version": 2,
        },
        "ALL STATS": all,
    })
}

fn statistics<'a>(
    memtier: &Memtier,
    operations: &[&OperationResult],
    seconds: f64,
    series: impl Iterator<Item = &'a SeriesRow>,
) -> Value {
    let sum = Sum::of(operations, seconds);
    let millis = |value: f64| value * 1e3;
    let rate = |value: fn(&OperationResult) -> u64| {
        let bytes: u64 = operations.iter().map(|one| value(one)).sum();
        if seconds > 0.0 { bytes as f64 / 1_024.0 / seconds } else { 0.0 }
    };
    let mut percentiles = json!({});
    for percent in &memtier.percentiles {
        percentiles[format!("p{percent:.2}")] = sum.percentile(*percent).into();
    }
    let mut by_second: BTreeMap<u64, (u64, f64, f64, f64, u64, u64)> = BTreeMap::new();
    for row in series {
        let second = by_second.entry(row.start as u64).or_insert((0, 0.0, f64::INFINITY, 0.0, 0, 0));
        second.0 += row.count;
        second.1 += row.mean * row.count as f64;
        second.2 = second.2.min(if row.count > 0 { row.min } else { f64::INFINITY });
        second.3 = second.3.max(row.max);
        second.4 += row.bytes_received;
        second.5 += row.bytes_sent;
    }
    let mut time_series = json!({});
    for (second, (count, total, min, max, received, sent)) in by_second {
        time_series[second.to_string()] = if count == 0 {
            json!({ "Count": 0 })
        } else {
            json!({
                "Count": count, "Bytes RX": received, "Bytes TX": sent,
                "Average Latency": millis(total / count as f64), "Accumulated Latency": millis(total),
                "Min Latency": millis(min), "Max Latency": millis(max),
            })
        };
    }
    let count: u64 = operations.iter().map(|one| one.count).sum();
    json!({
        "Count": count,
        "Ops/sec": sum.per_second,
        "Hits/sec": sum.hits,
        "Misses/sec": sum.misses,
        "Latency": millis(sum.times.mean),
        "Average Latency": millis(sum.times.mean),
        "Accumulated Latency": millis(sum.times.mean * sum.times.count as f64),
        "Min Latency": if count > 0 { millis(sum.times.min) } else { 0.0 },
        "Max Latency": millis(sum.times.max),
        "KB/sec": sum.kilobytes,
        "KB/sec RX/TX": sum.kilobytes,
        "KB/sec RX": rate(|one| one.bytes_received),
        "KB/sec TX": rate(|one| one.bytes_sent),
        "Time-Serie": time_series,
        "Percentile Latencies": percentiles,
    })
}

fn configuration(memtier: &Memtier) -> Value {
    let load = &memtier.load;
    let keys = &load.workload.keys;
    let ratio = match load.workload.mix {
        crate::workload::Mix::Ratio { sets, gets } => format!("{sets}:{gets}"),
        crate::workload::Mix::Weights(_) => String::new(),
    };
    json!({
        "server": load.targets[0].host,
        "port": load.targets[0].port,
        "protocol": "memcache_text",
        "run_count": memtier.runs,
        "requests": memtier.requests_per_client.unwrap_or(0),
        "clients": memtier.clients_per_thread,
        "threads": load.threads,
        "test_time": if memtier.requests_per_client.is_some() { 0 } else { extent_seconds(load) },
        "ratio": ratio,
        "pipeline": load.pipeline,
        "data_size": load.workload.value_size.most(),
        "expiry_range": format!("{}:{}", load.workload.expiry.0, load.workload.expiry.1),
        "key_prefix": keys.prefix,
        "key_minimum": keys.minimum,
        "key_maximum": keys.minimum + keys.count - 1,
        "multi_key_get": if load.workload.multi_get > 1 { load.workload.multi_get } else { 0 },
    })
}

fn extent_seconds(load: &crate::Load) -> u64 {
    match load.extent {
        crate::Extent::Seconds(seconds) => seconds as u64,
        crate::Extent::Requests(_) | crate::Extent::Trace => 0,
    }
}
