//! What memtier_benchmark printed as a result of ours, so that everything downstream reads both
//! alike.
//!
//! Its times are from when a request was sent; it prints a cumulative distribution, whose steps are
//! as fine as it likes, and no count of errors. What it does not print is zero or empty here, and
//! never guessed.

use std::collections::BTreeMap;

use krarup_settings::Mistake;
use krarup_units::{PerSecond, Seconds};

use super::read::{Printed, PrintedTable};
use crate::config::{Extent, Load};
use crate::result::{
    FORMAT, Generator, HistogramResult, LoadResult, OperationResult, SeriesRow, TimeDistribution, WholeRun,
};

/// The width of our buckets.
const BUCKET: Seconds = 100e-6;

/// A window of the series that ends so little after the run is a whole one: how long the run was
/// comes of a rate that is rounded.
const ROUNDED: Seconds = 1e-3;

/// What a run was, where its output does not say so itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ForeignRun {
    /// How long it was asked to run.
    pub seconds: Seconds,
    /// When it began, in seconds since 1970 (UTC).
    pub started_unix: Seconds,
    /// Its connections.
    pub connections: u32,
    /// Processor time it used, in seconds.
    pub cpu_seconds: Seconds,
}

/// The result of the first run in an output.
///
/// # Errors
/// Where it has no totals.
pub fn load_result(printed: &Printed, run: ForeignRun) -> Result<LoadResult, Mistake> {
    let block = printed.blocks.first().ok_or("there is no run in it")?;
    let totals = block.rows.get("Totals").ok_or("it has no row of totals")?;
    let seconds = printed.seconds.unwrap_or(run.seconds);
    let counted: u64 = kinds(block).filter_map(|(_, row)| row.count).sum();
    let rate = totals.throughput.map_or(0.0, |rate| rate.0);
    let count = totals.count.or(Some(counted).filter(|count| *count > 0));
    let count = count.unwrap_or((rate * seconds).round() as u64);
    // Where it says how many and how fast, that is how long it took, to the millisecond.
    let seconds = if rate > 0.0 && count > 0 { count as f64 / rate } else { seconds };
    if !(seconds > 0.0 && seconds.is_finite()) {
        return Err("it is not said how long it ran".into());
    }
    let of_keys = |rate: Option<PerSecond>| rate.map_or(0, |rate| (rate.0 * seconds).round() as u64);
    let (hits, misses) = (of_keys(totals.hits), of_keys(totals.misses));
    let steps = steps(block, count);
    let mean = totals.mean.or_else(|| mean_of(&steps)).unwrap_or(0.0);
    let response_time = times(totals, &steps, count, mean);
    let bytes = totals.bytes_per_second.map_or(0, |rate| (rate * seconds).round() as u64);
    let overall = OperationResult {
        count,
        throughput: PerSecond(rate),
        errors: BTreeMap::new(),
        keys: hits + misses,
        hits,
        misses,
        // It prints both directions as one.
        bytes_sent: 0,
        bytes_received: bytes,
        response_time,
        time_from_sent: response_time,
        lateness: TimeDistribution::default(),
        histogram: histogram(&steps),
        distributions: None,
    };
    let connections = match (printed.threads, printed.connections_per_thread) {
        (Some(threads), Some(each)) => threads * each,
        _ => run.connections,
    };
    let config = Load {
        connections: connections.max(1),
        threads: printed.threads.unwrap_or(1),
        extent: Extent::Seconds(seconds),
        ..Load::default()
    };
    let account =
        WholeRun { sent: count, answered: count, keys: hits + misses, hits, misses, ..WholeRun::default() };
    let generator = Generator {
        cpu_seconds: run.cpu_seconds,
        cpu_per_request: run.cpu_seconds / count.max(1) as f64,
        busiest_thread: (run.cpu_seconds / seconds / f64::from(config.threads.max(1))).min(1.0),
        elapsed: seconds,
        ..Generator::default()
    };
    Ok(LoadResult {
        format: FORMAT,
        config,
        started_unix: run.started_unix,
        seconds,
        interrupted: false,
        account,
        overall,
        classes: Vec::new(),
        operations: BTreeMap::new(),
        series: series(block, seconds),
        generator,
        verified: None,
        rows: None,
        clock: None,
        clocks: None,
        merged_from: Vec::new(),
        warnings: Vec::new(),
    })
}

/// The rows of kinds of requests.
fn kinds(block: &PrintedTable) -> impl Iterator<Item = (&String, &super::read::PrintedRow)> {
    block.rows.iter().filter(|(name, _)| matches!(name.as_str(), "Sets" | "Gets"))
}

/// Times and how many requests took up to each, but more than the one before; rising.
fn steps(block: &PrintedTable, all: u64) -> Vec<(Seconds, f64)> {
    let rates: f64 = kinds(block).filter_map(|(_, row)| row.throughput).map(|rate| rate.0).sum();
    let mut steps = Vec::new();
    for (kind, row) in [("SET", "Sets"), ("GET", "Gets")] {
        let Some(curve) = block.histograms.get(kind) else { continue };
        let row = block.rows.get(row);
        let rate = row.and_then(|row| row.throughput).map_or(0.0, |rate| rate.0);
        let share = if rates > 0.0 { rate / rates } else { 1.0 };
        let count = row.and_then(|row| row.count).map_or(share * all as f64, |count| count as f64);
        let mut before = 0.0;
        for (time, share) in curve {
            steps.push((*time, (share - before).max(0.0) * count));
            before = before.max(*share);
        }
    }
    steps.sort_by(|one, other| one.0.total_cmp(&other.0));
    steps
}

fn mean_of(steps: &[(Seconds, f64)]) -> Option<Seconds> {
    let count: f64 = steps.iter().map(|(_, count)| count).sum();
    (count > 0.0).then(|| steps.iter().map(|(time, count)| time * count).sum::<f64>() / count)
}

fn times(
    totals: &super::read::PrintedRow,
    steps: &[(Seconds, f64)],
    count: u64,
    mean: Seconds,
) -> TimeDistribution {
    let whole: f64 = steps.iter().map(|(_, count)| count).sum();
    let at = |percent: f64| {
        let printed = totals.percentiles.iter().find(|(known, _)| (known - percent).abs() < 1e-6);
        if let Some((_, time)) = printed {
            return *time;
        }
        if steps.is_empty() {
            // So many are not longer than a higher percentile, either: a bound, where nothing
            // nearer was printed.
            let higher = totals.percentiles.iter().find(|(known, _)| *known > percent);
            return higher.or(totals.percentiles.last()).map_or(mean, |(_, time)| *time);
        }
        let mut sum = 0.0;
        let found = steps.iter().find(|(_, count)| {
            sum += count;
            sum >= whole * percent / 100.0 - 1e-9
        });
        found.or(steps.last()).map_or(0.0, |(time, _)| *time)
    };
    TimeDistribution {
        count,
        mean,
        deviation: 0.0,
        min: steps.first().map_or(0.0, |(time, _)| *time),
        p50: at(50.0),
        p90: at(90.0),
        p95: at(95.0),
        p99: at(99.0),
        p999: at(99.9),
        max: steps.last().map_or(0.0, |(time, _)| *time),
    }
}

/// A step stands for times up to its own: it falls into the bucket that ends there or holds it.
fn histogram(steps: &[(Seconds, f64)]) -> HistogramResult {
    let mut buckets: BTreeMap<u64, f64> = BTreeMap::new();
    for (time, count) in steps {
        let number = (time / BUCKET - 1e-6).floor().max(0.0) as u64;
        *buckets.entry(number).or_default() += count;
    }
    let whole = buckets.into_iter().map(|(number, count)| (number, count.round() as u64));
    HistogramResult { width: BUCKET, buckets: whole.filter(|(_, count)| *count > 0).collect() }
}

fn series(block: &PrintedTable, seconds: Seconds) -> Vec<SeriesRow> {
    let mut rows: BTreeMap<u64, (u64, f64)> = BTreeMap::new();
    for (_, row) in kinds(block) {
        for (second, count, mean) in &row.series {
            let sum = rows.entry(*second).or_default();
            sum.0 += count;
            sum.1 += *count as f64 * mean.unwrap_or(0.0);
        }
    }
    // Some versions count seconds from the start, others from when the machine did.
    let first = rows.keys().next().copied().unwrap_or(0);
    let length = block.period.unwrap_or(1) as f64;
    let rows = rows.into_iter().map(|(second, row)| ((second - first) as f64, row));
    rows.filter(|(start, _)| start + length <= seconds + ROUNDED)
        .map(|(start, (count, sum))| SeriesRow {
            start,
            length,
            measured: true,
            class: String::new(),
            operation: "all".to_owned(),
            count,
            errors: 0,
            throughput: PerSecond(count as f64 / length),
            hits: 0,
            misses: 0,
            bytes_sent: 0,
            bytes_received: 0,
            mean: if count > 0 { sum / count as f64 } else { 0.0 },
            min: 0.0,
            p50: 0.0,
            p99: 0.0,
            max: 0.0,
            lateness: 0.0,
            response_times: None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::read::read;
    use super::*;

    const TABLE: &str = "2         Threads\n32        Connections per thread\n80        Seconds\n\n\nALL STATS\n\
        ========================================================================\n\
        Type         Ops/sec     Hits/sec   Misses/sec      Latency       KB/sec \n\
        ------------------------------------------------------------------------\n\
        Sets         1000.00          ---          ---      4.00000         0.00 \n\
        Gets         3000.00      2900.00       100.00      2.00000     11844.00 \n\
        Waits           0.00          ---          ---      0.00000          --- \n\
        Totals       4000.00      2900.00       100.00      2.50000     11844.00 \n\n\n\
        Request Latency Distribution\nType     <= msec         Percent\n\
        ------------------------------------------------------------------------\n\
        SET       3.900         60.00\nSET       9.000       100.00\n---\n\
        GET       1.800         50.00\nGET       2.050       100.00\n---\n";

    #[test]
    fn a_table_becomes_a_result_of_ours() {
        let result =
            load_result(&read(TABLE).unwrap(), ForeignRun { connections: 1, ..ForeignRun::default() })
                .unwrap();
        assert_eq!((result.config.connections, result.seconds, result.overall.count), (64, 80.0, 320_000));
        assert_eq!((result.overall.hits, result.overall.misses), (232_000, 8_000));
        let times = result.overall.response_time;
        for (found, expected) in [(times.mean, 2.5), (times.p50, 2.05), (times.p90, 3.9), (times.p99, 9.0)] {
            assert!((found * 1e3 - expected).abs() < 1e-9, "{found} {expected}");
        }
        // 240,000 GETs and 80,000 SETs, in the buckets that their steps end in.
        assert_eq!(
            result.overall.histogram.buckets,
            [(17, 120_000), (20, 120_000), (38, 48_000), (89, 32_000)]
        );
        // X (R + Z) is not N where its own figures are rounded; here they are made up.
        assert_eq!(result.overall.throughput.0, 4_000.0);
    }

    #[test]
    fn a_percentile_that_was_not_printed_is_bounded_by_the_next() {
        let text = r#"{"ALL STATS": {"Totals": {"Count": 400, "Ops/sec": 200.0, "Average Latency": 1.0,
            "Percentile Latencies": {"p50.00": 0.9, "p99.00": 4.0, "p99.90": 7.0}}}}"#;
        let result =
            load_result(&read(text).unwrap(), ForeignRun { connections: 4, ..ForeignRun::default() })
                .unwrap();
        let times = result.overall.response_time;
        assert_eq!((times.p50, times.p90, times.p99, times.p999), (0.000_9, 0.004, 0.004, 0.007));
        assert_eq!((result.seconds, result.config.connections), (2.0, 4));
    }

    #[test]
    fn what_has_no_totals_is_told() {
        assert!(
            load_result(&Printed::default(), ForeignRun::default())
                .unwrap_err()
                .to_string()
                .contains("no run")
        );
    }
}
