//! What memaslap (memcaslap, in some systems) wrote, in the words of memtier_benchmark's reader, so
//! that everything downstream reads both alike.
//!
//! Its times are whole microseconds from when a request was sent. It keeps them in buckets that
//! double in width, `Log2 Dist`: bucket k holds 2^(k−1) ≤ t < 2^k µs. So a percentile read from
//! them is a bound that may be twice too high; means are its own and exact.

use std::collections::BTreeMap;

use krarup_settings::Mistake;
use krarup_units::{PerSecond, Seconds};

use super::printed::{Printed, PrintedRow, PrintedTable};

/// Its kinds of requests, and what memtier_benchmark calls them: rows of the table, and names of
/// distributions.
const KINDS: [(&str, &str, &str); 3] = [
    ("Get Statistics", "Gets", "GET"),
    ("Set Statistics", "Sets", "SET"),
    ("Total Statistics", "Totals", ""),
];

/// Whether a text is what it prints.
pub(super) fn is_its(text: &str) -> bool {
    text.contains("Run time: ") && text.contains(" TPS: ") && text.contains("cmd_get: ")
}

/// Reads what it prints at its end, and the periods before it where it was asked for them.
///
/// # Errors
/// Where the last line, with the time, the requests and the rate, is not there.
pub(super) fn read(text: &str) -> Result<Printed, Mistake> {
    let summary = text.lines().rev().find(|line| line.trim_start().starts_with("Run time: "));
    let summary = summary.ok_or("its last line, `Run time: … Ops: … TPS: …`, is missing")?;
    let seconds = after(summary, "Run time: ").ok_or("its run time is no number")?;
    let ops = after(summary, "Ops: ").ok_or("its number of requests is none")?;
    let counted = |name: &str| text.lines().find_map(|line| after(line.strip_prefix(name)?, ""));
    let threads = counted("threads count: ").map(|threads| threads as u32);
    let concurrency = counted("concurrency: ").map(|clients| clients as u32);
    let (gets, misses) = (counted("cmd_get: "), counted("get_misses: "));
    let mut block = PrintedTable { title: "memaslap".into(), ..PrintedTable::default() };
    let mut kind = None;
    let mut bucket = None;
    let mut buckets: BTreeMap<&str, Vec<(u32, f64)>> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(found) = KINDS.iter().find(|(title, ..)| line.starts_with(title)) {
            (kind, bucket) = (Some(*found), None);
            continue;
        }
        let Some((_, row_name, curve)) = kind else { continue };
        let row = block.rows.entry(row_name.to_owned()).or_default();
        let number = |place: usize| words.get(place).and_then(|word| word.parse::<f64>().ok());
        match words.as_slice() {
            // How many seconds a period is, its requests and their mean.
            ["Period", ..] => {
                let length = number(1).map_or(1, |seconds| seconds as u64).max(1);
                let begun = (row.series.len() as u64).saturating_mul(length);
                let mean = number(8).map(|micros| micros / 1e6);
                row.series.push((begun, number(2).unwrap_or(0.0) as u64, mean));
                block.period = Some(length).filter(|&seconds| seconds > 1);
            }
            ["Avg:", ..] => row.mean = number(1).map(|micros| micros / 1e6),
            ["Log2", "Dist:"] => bucket = Some(0),
            [first, counts @ ..] if bucket.is_some() && first.ends_with(':') => {
                let Ok(from) = first.trim_end_matches(':').parse::<u32>() else { continue };
                let counts = counts.iter().filter_map(|count| count.parse().ok());
                buckets.entry(curve).or_default().extend((from..).zip(counts));
            }
            _ => bucket = None,
        }
    }
    let rate = |count: f64| Some(PerSecond(count / seconds)).filter(|rate| rate.0.is_finite());
    let counts = [("Gets", gets), ("Sets", counted("cmd_set: ")), ("Totals", Some(ops))];
    for (name, count) in counts {
        let Some(count) = count else { continue };
        let row: &mut PrintedRow = block.rows.entry(name.to_owned()).or_default();
        (row.count, row.throughput) = (Some(count as u64), rate(count));
        if name != "Sets" {
            row.misses = misses.and_then(rate);
            row.hits = gets.zip(misses).and_then(|(gets, misses)| rate(gets - misses));
        }
    }
    for (curve, counts) in buckets.into_iter().filter(|(curve, _)| !curve.is_empty()) {
        block.histograms.insert(curve.to_owned(), cumulative(&counts));
    }
    Ok(Printed {
        threads,
        connections_per_thread: concurrency.map(|clients| clients / threads.unwrap_or(1).max(1)),
        requests_per_client: None,
        seconds: Some(seconds),
        blocks: vec![block],
    })
}

/// The number that stands behind a name.
fn after(line: &str, name: &str) -> Option<f64> {
    let (_, rest) = line.split_once(name)?;
    let rest = rest.trim_start();
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Up to how many seconds how large a share of the requests took.
fn cumulative(counts: &[(u32, f64)]) -> Vec<(Seconds, f64)> {
    let whole: f64 = counts.iter().map(|(_, count)| count).sum();
    let mut sum = 0.0;
    let point = |(bucket, count): &(u32, f64)| {
        sum += count;
        (2_f64.powi(bucket.cast_signed()) / 1e6, sum / whole)
    };
    let filled = counts.iter().filter(|(_, count)| *count > 0.0);
    if whole > 0.0 { filled.map(point).collect() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::super::convert::{ForeignRun, load_result};
    use super::super::read::read;

    /// As memcaslap 1.1.4 printed it, shortened to two periods.
    const PRINTED: &str = "servers: 127.0.0.1:23999\nthreads count: 1\nconcurrency: 8\nrun time: 2s\nwindows size: 1k\n\
        set proportion: set_prop=0.10\nget proportion: get_prop=0.90\n\u{1b}[1;1H\u{1b}[2J\nGet Statistics\n\
        Type     Time(s)  Ops          TPS(ops/s)   Net(M/s)   Get_miss   Min(us)  Max(us)    Avg(us)    Std_dev    Geo_dist  \n\
        Period   1        900          900          6.8        0          18       3637       100        3.21       98.87\n\
        Global   1        900          900          6.8        0          18       3637       100        3.21       98.87\n\n\
        Set Statistics\n\
        Period   1        100          100          0.8        0          24       3636       200        4.30       132.58\n\n\
        Total Statistics\n\
        Period   1        1000         1000         7.5        0          18       3637       110        3.50       102.02\n\n\
        Get Statistics\n\
        Period   1        900          900          6.8        0          18       3637       120        3.21       98.87\n\n\
        Get Statistics (1800 events)\n   Min:        18\n   Max:      3637\n   Avg:       110\n   Geo:    100.15\n   Std:      3.77\n\
        \x20  Log2 Dist:\n       4:        0      900      450      441\n       8:        0        9\n\n\
        Set Statistics (200 events)\n   Min:        24\n   Max:      3636\n   Avg:       200\n   Geo:    132.81\n   Std:      4.65\n\
        \x20  Log2 Dist:\n       4:        0        0        0      200\n\n\
        Total Statistics (2000 events)\n   Min:        18\n   Max:      3637\n   Avg:       119\n   Geo:    101.29\n   Std:      3.12\n\
        \x20  Log2 Dist:\n       4:        0      900      450      641\n       8:        0        9\n\n\
        cmd_get: 1800\ncmd_set: 200\nget_misses: 90\nwritten_bytes: 546\nread_bytes: 3146\nobject_bytes: 342\n\n\
        Run time: 2.0s Ops: 2000 TPS: 1000 Net_rate: 11.7M/s\n";

    #[test]
    fn what_memaslap_prints_becomes_a_result_of_ours() {
        let printed = read(PRINTED).unwrap();
        assert_eq!(
            (printed.threads, printed.connections_per_thread, printed.seconds),
            (Some(1), Some(8), Some(2.0))
        );
        let block = &printed.blocks[0];
        assert_eq!(block.rows["Gets"].series, [(0, 900, Some(0.000_1)), (1, 900, Some(0.000_12))]);
        let result = load_result(&printed, ForeignRun::default()).unwrap();
        let overall = &result.overall;
        assert_eq!((result.config.connections, overall.count, overall.throughput.0), (8, 2_000, 1_000.0));
        assert_eq!((overall.hits, overall.misses), (1_710, 90));
        // Bounds: half took less than 64 µs, nine of ten less than 128, the slowest less than 512.
        let times = overall.response_time;
        for (found, micros) in
            [(times.mean, 119.0), (times.p50, 64.0), (times.p90, 128.0), (times.max, 512.0)]
        {
            assert!((found * 1e6 - micros).abs() < 1e-6, "{found} {micros}");
        }
    }

    #[test]
    fn a_period_is_as_long_as_it_says() {
        let text = PRINTED.replace("Period   1        900 ", "Period   5        4500 ");
        let text = text.replace("Period   1 ", "Period   5 ");
        let text = text.replace("2.0s Ops: 2000 TPS: 1000", "10.0s Ops: 10000 TPS: 1000");
        let result = load_result(&read(&text).unwrap(), ForeignRun::default()).unwrap();
        let rows: Vec<_> =
            result.series.iter().map(|row| (row.start, row.length, row.throughput.0)).collect();
        // SETs printed one period alone, with 100 of them.
        assert_eq!(rows, [(0.0, 5.0, 920.0), (5.0, 5.0, 900.0)]);
    }

    /// As many requests as these, at their own rate, take a little less than 90 s for a computer.
    #[test]
    fn the_last_period_is_not_rounded_away() {
        let text = PRINTED.replace("Period   1 ", "Period   45 ");
        let text = text.replace("2.0s Ops: 2000 TPS: 1000", "90.0s Ops: 6659467 TPS: 73994");
        let result = load_result(&read(&text).unwrap(), ForeignRun::default()).unwrap();
        let starts: Vec<_> = result.series.iter().map(|row| row.start).collect();
        assert!(result.seconds < 90.0 && starts == [0.0, 45.0], "{} {starts:?}", result.seconds);
    }

    #[test]
    fn an_output_that_was_cut_is_told() {
        let (cut, _) = PRINTED.split_once("Run time: 2.0s").unwrap();
        assert!(read(cut).unwrap_err().to_string().contains("no table"), "{:?}", read(cut));
    }
}
