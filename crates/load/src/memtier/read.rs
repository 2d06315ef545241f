//! What memtier_benchmark wrote, read: its table of any version since 1.2, or its JSON, in our
//! words and units.
//!
//! What is known of its figures: rates are requests per second but for hits and misses, which count
//! keys; times are from when a request was sent, in milliseconds; in some versions the JSON's
//! `Latency` of the totals is 0.000, so that means are taken from the accumulated latency, or from
//! those of SETs and GETs; some write `-nan` or `inf` where there is no number.

use std::collections::BTreeMap;

use krarup_settings::Mistake;
use krarup_units::{PerSecond, Seconds};
use serde_json::{Map, Value};

use super::memaslap;
pub use super::printed::{Printed, PrintedRow, PrintedTable};

/// Reads an output: JSON where it begins with a brace, what memaslap prints where it is that,
/// otherwise the table.
///
/// # Errors
/// With the line, or the part of the JSON, that is not what memtier_benchmark writes.
pub fn read(text: &str) -> Result<Printed, Mistake> {
    let printed = if text.trim_start().starts_with('{') {
        json(text)?
    } else if memaslap::is_its(text) {
        memaslap::read(text)?
    } else {
        table(text)?
    };
    if printed.blocks.is_empty() {
        return Err("there is no table of memtier_benchmark in it".into());
    }
    Ok(printed)
}

/// What a column holds.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    Throughput,
    Hits,
    Misses,
    Mean,
    Percentile(f64),
    Kilobytes,
    Unknown,
}

/// The columns that a head names; none where it is no head. Two blanks part them, for some names
/// have one.
fn columns(head: &str) -> Option<Vec<Column>> {
    let mut names = head.split("  ").map(str::trim).filter(|name| !name.is_empty());
    if names.next()? != "Type" {
        return None;
    }
    let column = |name: &str| match name {
        "Ops/sec" => Column::Throughput,
        "Hits/sec" => Column::Hits,
        "Misses/sec" => Column::Misses,
        "Latency" | "Avg. Latency" => Column::Mean,
        "KB/sec" => Column::Kilobytes,
        other => {
            let percent = other.strip_prefix('p').and_then(|rest| rest.strip_suffix(" Latency"));
            percent.and_then(|percent| percent.parse().ok()).map_or(Column::Unknown, Column::Percentile)
        }
    };
    let columns: Vec<_> = names.map(column).collect();
    columns.contains(&Column::Throughput).then_some(columns)
}

/// A figure; none for `---` and for what is no number.
fn figure(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

fn table(text: &str) -> Result<Printed, Mistake> {
    let mut printed = Printed::default();
    let mut head: Option<Vec<Column>> = None;
    let mut title = String::new();
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let rest = words.get(1..).unwrap_or_default().join(" ");
        if let (Some(value), true) = (words.first().and_then(|word| figure(word)), words.len() > 1) {
            match rest.as_str() {
                "Threads" => printed.threads = Some(value as u32),
                "Connections per thread" => printed.connections_per_thread = Some(value as u32),
                "Requests per client" | "Requests per thread" => {
                    printed.requests_per_client = Some(value as u64);
                }
                "Seconds" => printed.seconds = Some(value),
                _ => {}
            }
            continue;
        }
        if let Some(found) = columns(line) {
            head = Some(found);
            printed
                .blocks
                .push(PrintedTable { title: std::mem::take(&mut title), ..PrintedTable::default() });
            continue;
        }
        let is_rule = !line.is_empty() && line.bytes().all(|byte| byte == b'=' || byte == b'-');
        match (words.as_slice(), printed.blocks.last_mut(), &head) {
            ([], ..) => {}
            _ if is_rule => {}
            ([name @ ("Sets" | "Gets" | "Waits" | "Totals"), values @ ..], Some(block), Some(head)) => {
                if values.len() != head.len() {
                    let why = format!("{} figures under {} columns", values.len(), head.len());
                    return Err(Mistake::plain(why).of(&format!("line {}", number + 1)));
                }
                block.rows.insert((*name).to_owned(), row(head, values));
            }
            ([name @ ("SET" | "GET" | "WAIT"), millis, percent], Some(block), _) => {
                if let (Some(millis), Some(percent)) = (figure(millis), figure(percent)) {
                    let steps = block.histograms.entry((*name).to_owned()).or_default();
                    steps.push((millis / 1e3, percent / 100.0));
                }
            }
            _ => title = line.trim().to_owned(),
        }
    }
    Ok(printed)
}

fn row(head: &[Column], values: &[&str]) -> PrintedRow {
    let mut row = PrintedRow::default();
    for (column, value) in head.iter().zip(values) {
        let Some(value) = figure(value) else { continue };
        match column {
            Column::Throughput => row.throughput = Some(PerSecond(value)),
            Column::Hits => row.hits = Some(PerSecond(value)),
            Column::Misses => row.misses = Some(PerSecond(value)),
            Column::Mean => row.mean = Some(value / 1e3),
            Column::Percentile(percent) => row.percentiles.push((*percent, value / 1e3)),
            Column::Kilobytes => row.bytes_per_second = Some(value * 1_024.0),
            Column::Unknown => {}
        }
    }
    row
}

fn json(text: &str) -> Result<Printed, Mistake> {
    let whole: Value = serde_json::from_str(&without_no_numbers(text))
        .map_err(|error| Mistake::plain(error.to_string()).of(&format!("line {}", error.line())))?;
    let whole = whole.as_object().ok_or("it is no object")?;
    let about =
        |name: &str| whole.get("run information").and_then(|about| about.get(name)).and_then(Value::as_f64);
    let mut printed = Printed {
        threads: about("Threads").map(|value| value as u32),
        connections_per_thread: about("Connections per thread").map(|value| value as u32),
        requests_per_client: about("Requests per client").map(|value| value as u64),
        seconds: about("Seconds"),
        blocks: Vec::new(),
    };
    for (title, block) in whole {
        let Some(rows) = block.as_object().filter(|block| block.contains_key("Totals")) else { continue };
        let mut block = PrintedTable { title: title.clone(), ..PrintedTable::default() };
        for (name, value) in rows {
            match value {
                Value::Object(row) if name != "Runtime" => {
                    block.rows.insert(name.clone(), json_row(row));
                }
                Value::Array(steps) => {
                    let step = |step: &Value| {
                        Some((number(step, "<=msec")? / 1e3, number(step, "percent")? / 100.0))
                    };
                    block.histograms.insert(name.clone(), steps.iter().filter_map(step).collect());
                }
                _ => {}
            }
        }
        let of_all = mean_of_all(&block.rows);
        if let Some(totals) = block.rows.get_mut("Totals") {
            totals.mean = totals.mean.or(of_all);
        }
        printed.blocks.push(block);
    }
    Ok(printed)
}

fn number(value: &Value, name: &str) -> Option<f64> {
    value.get(name)?.as_f64()
}

/// The mean in seconds: what was accumulated over the count, and where that is not there the mean
/// as printed.
fn mean(of: &Map<String, Value>) -> Option<Seconds> {
    let figure = |name: &str| of.get(name).and_then(Value::as_f64);
    let printed = figure("Average Latency").or_else(|| figure("Latency"));
    let count = figure("Count").filter(|count| *count > 0.0)?;
    let accumulated = figure("Accumulated Latency").map(|sum| sum / count);
    printed.or(accumulated).into_iter().chain(accumulated).find(|mean| *mean > 0.0).map(|millis| millis / 1e3)
}

/// The mean of all requests from those of each kind: some versions print none for the totals.
fn mean_of_all(rows: &BTreeMap<String, PrintedRow>) -> Option<Seconds> {
    let kinds = rows.iter().filter(|(name, _)| *name != "Totals").map(|(_, row)| row);
    let parts = kinds.filter_map(|row| Some((row.count? as f64, row.mean?)));
    let (count, sum) = parts.fold((0.0, 0.0), |(count, sum), (n, mean)| (count + n, sum + n * mean));
    (count > 0.0).then(|| sum / count)
}

fn json_row(of: &Map<String, Value>) -> PrintedRow {
    let figure = |name: &str| of.get(name).and_then(Value::as_f64);
    let mut percentiles: Vec<(f64, Seconds)> = of
        .get("Percentile Latencies")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.strip_prefix('p')?.parse().ok()?, value.as_f64()? / 1e3)))
        .collect();
    percentiles.sort_by(|one, other| one.0.total_cmp(&other.0));
    let second = |(number, second): (&String, &Value)| {
        let second = second.as_object()?;
        Some((number.parse().ok()?, second.get("Count")?.as_u64()?, mean(second)))
    };
    let mut series: Vec<(u64, u64, Option<Seconds>)> =
        of.get("Time-Serie").and_then(Value::as_object).into_iter().flatten().filter_map(second).collect();
    series.sort_by_key(|(number, ..)| *number);
    PrintedRow {
        count: of.get("Count").and_then(Value::as_u64),
        throughput: figure("Ops/sec").map(PerSecond),
        hits: figure("Hits/sec").map(PerSecond),
        misses: figure("Misses/sec").map(PerSecond),
        mean: mean(of),
        percentiles,
        bytes_per_second: figure("KB/sec").map(|kilobytes| kilobytes * 1_024.0),
        series,
    }
}

/// The text with `null` for `nan` and `inf`, which are no JSON, outside of strings.
fn without_no_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        if !quoted {
            let word = ["-nan", "nan", "-inf", "inf"].into_iter().find(|word| rest.starts_with(word));
            if let Some(word) = word {
                out.push_str("null");
                rest = &rest[word.len()..];
                continue;
            }
        }
        quoted ^= letter == '"' && !escaped;
        escaped = quoted && letter == '\\' && !escaped;
        out.push(letter);
        rest = &rest[letter.len_utf8()..];
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OLD: &str = "2         Threads\n32        Connections per thread\n80        Seconds\n\n\nALL STATS\n\
        ========================================================================\n\
        Type         Ops/sec     Hits/sec   Misses/sec      Latency       KB/sec \n\
        ------------------------------------------------------------------------\n\
        Sets            0.00          ---          ---      0.00000         0.00 \n\
        Gets         2937.75      2937.75         0.00      2.04000     11844.00 \n\
        Waits           0.00          ---          ---      0.00000          --- \n\
        Totals       2937.75      2937.75         0.00      2.04000     11844.00 \n\n\n\
        Request Latency Distribution\nType     <= msec         Percent\n\
        ------------------------------------------------------------------------\n\
        GET       1.800         0.50\nGET       9.000       100.00\n---\n";

    #[test]
    fn the_table_of_an_old_version_is_read() {
        let printed = read(OLD).unwrap();
        assert_eq!(
            (printed.threads, printed.connections_per_thread, printed.seconds),
            (Some(2), Some(32), Some(80.0))
        );
        let block = &printed.blocks[0];
        assert_eq!(block.title, "ALL STATS");
        let gets = &block.rows["Gets"];
        assert_eq!((gets.throughput, gets.mean), (Some(PerSecond(2_937.75)), Some(0.002_04)));
        assert_eq!(block.rows["Sets"].hits, None);
        assert_eq!(block.histograms["GET"], [(0.001_8, 0.005), (0.009, 1.0)]);
    }

    #[test]
    fn what_is_no_number_is_none_and_not_an_error() {
        let text = r#"{"ALL STATS": {"Totals": {"Count": 4, "Ops/sec": inf, "Hits/sec": -nan, "Latency": 0.000,
            "Accumulated Latency": 8, "Time-Serie": {"10": {"Count": 1, "Average Latency": 2.0}, "9": {"Count": 0}}}},
            "configuration": {"key_prefix": "nan\"inf"}}"#;
        let printed = read(text).unwrap();
        let totals = &printed.blocks[0].rows["Totals"];
        assert_eq!((totals.throughput, totals.hits, totals.mean), (None, None, Some(0.002)));
        assert_eq!(totals.series, [(9, 0, None), (10, 1, Some(0.002))]);
        assert!(read("hello\n").unwrap_err().to_string().contains("no table"));
        assert!(read("{").unwrap_err().to_string().contains("line 1"));
        let short = OLD.replace("Gets         2937.75", "Gets");
        assert!(read(&short).unwrap_err().to_string().contains("4 figures under 5 columns"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "(\\{|Type  Ops/sec  Latency\n)?[ -~\n]{0,80}") {
            let _ = read(&text);
        }
    }
}
