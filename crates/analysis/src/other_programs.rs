//! The runs in what other programs write of their measurements, so that two of these can be set
//! side by side: memtier_benchmark's and hyperfine's JSON, k6's summary, criterion's samples,
//! pgbench's text, `krarup load`'s result, and any table with commas. Times become seconds; the
//! columns of a table stay as they are.

use std::collections::{BTreeMap, BTreeSet};

use krarup_stats::Interval;
use krarup_units::{Mistake, Unit};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outcomes::OutcomeShares;
use crate::regression::{RegressionAnswer, RegressionLevels, RegressionLimit, RunPair, judge, no_measure};

/// What each of these programs measures in events per second; everything else is a time.
const RATE: &str = "throughput";

/// What a table is called, whose measures are any.
const ANY_TABLE: &str = "a table";

/// Values of each measure, by its name: one of each run, NaN where that has no number.
pub type MeasureValues = BTreeMap<String, Vec<f64>>;

/// What a program measured: by cell, as a benchmark or a command; the cell of a program that knows
/// one only has no name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramRuns {
    /// The program.
    pub program: String,
    /// Its cells.
    pub cells: BTreeMap<String, MeasureValues>,
    /// What became of the requests of its cells, as far as it says so.
    pub outcomes: BTreeMap<String, RunOutcomes>,
}

/// What became of the requests of a cell: a share of each run that has one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunOutcomes {
    /// Of the requests, those that failed.
    pub failed: Vec<f64>,
    /// Of the keys that were asked for, those that were found.
    pub found: Vec<f64>,
}

impl ProgramRuns {
    fn of(program: &str) -> Self {
        Self { program: program.to_owned(), ..Self::default() }
    }

    /// The unit of a measure. A column of a table has the one that its name ends with, as in the
    /// CSV that Krarup writes.
    pub fn unit(&self, measure: &str) -> Unit {
        let rate = measure == RATE && self.program != ANY_TABLE;
        match measure {
            _ if rate || measure.ends_with(Unit::PerSecond.suffix()) => Unit::PerSecond,
            _ if self.program != ANY_TABLE || measure.ends_with(Unit::Seconds.suffix()) => Unit::Seconds,
            _ => Unit::Count,
        }
    }

    /// A run without a number counts, too: it may be the one that collapsed.
    fn add(&mut self, cell: &str, measure: &str, value: Option<f64>) {
        let value = value.filter(|value| value.is_finite()).unwrap_or(f64::NAN);
        let cell = self.cells.entry(cell.to_owned()).or_default();
        cell.entry(measure.to_owned()).or_default().push(value);
    }

    /// The shares of a run's requests that failed, and of its keys that were found, where it has
    /// them.
    fn add_outcome(&mut self, cell: &str, failed: Option<f64>, found: Option<f64>) {
        let outcomes = self.outcomes.entry(cell.to_owned()).or_default();
        outcomes.failed.extend(failed);
        outcomes.found.extend(found);
    }

    /// Without the measures of which no cell has a number: the program does not have them.
    fn of_numbers(mut self) -> Self {
        let measures = self.cells.values().flatten().filter(|(_, runs)| has_number(runs));
        let known: BTreeSet<String> = measures.map(|(measure, _)| measure.clone()).collect();
        for measures in self.cells.values_mut() {
            measures.retain(|measure, _| known.contains(measure));
        }
        self.cells.retain(|_, measures| !measures.is_empty());
        self
    }

    /// The same with the runs of another file behind these; `cell` names that of the other where it
    /// has no name.
    ///
    /// # Errors
    /// Another program wrote them.
    pub fn join(&mut self, other: Self, cell: &str) -> Result<(), Mistake> {
        if self.program.is_empty() {
            self.program = other.program;
        } else if self.program != other.program {
            let what = format!("it is of {}, and the files before it are of {}", other.program, self.program);
            return Err(Mistake::new(what, "put files of one program into a folder"));
        }
        let named = |name: String| if name.is_empty() { cell.to_owned() } else { name };
        for (name, outcomes) in other.outcomes {
            let into = self.outcomes.entry(named(name)).or_default();
            into.failed.extend(outcomes.failed);
            into.found.extend(outcomes.found);
        }
        for (name, measures) in other.cells {
            let into = self.cells.entry(named(name)).or_default();
            let (before, all) = (count(into), count(into) + count(&measures));
            for (measure, values) in measures {
                let runs = into.entry(measure).or_default();
                runs.resize(before, f64::NAN);
                runs.extend(values);
            }
            into.values_mut().for_each(|runs| runs.resize(all, f64::NAN));
        }
        Ok(())
    }
}

fn has_number(runs: &[f64]) -> bool {
    runs.iter().any(|run| run.is_finite())
}

/// How many runs a cell has.
fn count(measures: &MeasureValues) -> usize {
    measures.values().map(Vec::len).max().unwrap_or(0)
}

/// Reads what a program wrote; which one is seen in it.
///
/// # Errors
/// Nothing in it is known, or what is known has no number.
pub fn read(text: &str) -> Result<ProgramRuns, Mistake> {
    // memtier_benchmark writes what is not a number as C does.
    let json = serde_json::from_str(&text.replace(": -nan", ": null").replace(": nan", ": null"));
    let found = match json {
        Ok(value @ Value::Object(_)) => of_json(&value),
        _ if text.lines().any(|line| line.starts_with("tps = ")) => Some(pgbench(text)),
        _ => of_table(text),
    };
    found.map(ProgramRuns::of_numbers).filter(|found| !found.cells.is_empty()).ok_or_else(|| {
        Mistake::new(
            "there are no runs in it that are understood",
            "what krarup run, krarup load --json, memtier_benchmark (JSON), hyperfine (JSON), k6 (summary), criterion (sample.json) and \
             pgbench write is, and a table with commas and a head",
        )
    })
}

/// A number at a path of keys.
fn number(value: &Value, keys: &[&str]) -> Option<f64> {
    keys.iter().try_fold(value, |value, key| value.get(key))?.as_f64()
}

/// Counts by kind at a path of keys.
fn counts(value: &Value, keys: &[&str]) -> BTreeMap<String, f64> {
    let kinds = keys.iter().try_fold(value, |value, key| value.get(key)).and_then(Value::as_object);
    let kinds = kinds.into_iter().flatten();
    kinds.filter_map(|(kind, count)| Some((kind.clone(), count.as_f64()?))).collect()
}

fn share(part: f64, all: f64) -> Option<f64> {
    (all > 0.0).then(|| part / all)
}

/// The share of the keys that were found, where these two numbers are.
fn found_share(value: &Value, hits: &str, misses: &str) -> Option<f64> {
    let hits = number(value, &[hits])?;
    share(hits, hits + number(value, &[misses])?)
}

fn milliseconds(value: Option<f64>) -> Option<f64> {
    value.map(|milliseconds| milliseconds / 1e3)
}

fn of_json(value: &Value) -> Option<ProgramRuns> {
    let object = value.as_object()?;
    if let Some(overall) = value.get("overall").filter(|_| object.contains_key("format")) {
        return Some(krarup_load(value, overall));
    }
    if let Some(results) = value.get("results").and_then(Value::as_array) {
        let mut runs = ProgramRuns::of("hyperfine");
        for result in results {
            let command = result.get("command").and_then(Value::as_str).unwrap_or_default();
            for time in result.get("times").and_then(Value::as_array).into_iter().flatten() {
                runs.add(command, "time", time.as_f64());
            }
            if let Some(codes) = result.get("exit_codes").and_then(Value::as_array) {
                // One that a signal ended has none.
                let failed = codes.iter().filter(|code| code.as_i64() != Some(0)).count();
                runs.add_outcome(command, share(failed as f64, codes.len() as f64), None);
            }
        }
        return Some(runs);
    }
    if let (Some(iterations), Some(times)) = (value.get("iters"), value.get("times")) {
        let mut runs = ProgramRuns::of("criterion");
        for (iterations, nanoseconds) in iterations.as_array()?.iter().zip(times.as_array()?) {
            let time = nanoseconds.as_f64().zip(iterations.as_f64()).map(|(time, count)| time / count / 1e9);
            runs.add("", "time", time);
        }
        return Some(runs);
    }
    if let Some(metrics) = value.get("metrics") {
        return Some(k6(metrics));
    }
    let each_run: Vec<&Value> =
        object.iter().filter(|(key, _)| key.starts_with("RUN #")).map(|(_, value)| value).collect();
    let stats = if each_run.is_empty() { vec![value.get("ALL STATS")?] } else { each_run };
    let mut runs = ProgramRuns::of("memtier_benchmark");
    for stats in stats {
        let totals = stats.get("Totals")?;
        runs.add("", "throughput", number(totals, &["Ops/sec"]));
        runs.add(
            "",
            "response",
            milliseconds(number(totals, &["Average Latency"]).or_else(|| number(totals, &["Latency"]))),
        );
        runs.add("", "p99", milliseconds(number(totals, &["Percentile Latencies", "p99.00"])));
        runs.add_outcome("", None, found_share(totals, "Hits/sec", "Misses/sec"));
    }
    Some(runs)
}

fn krarup_load(result: &Value, overall: &Value) -> ProgramRuns {
    let mut runs = ProgramRuns::of("krarup load");
    runs.add("", "throughput", number(overall, &["throughput"]));
    runs.add("", "response", number(overall, &["response_time", "mean"]));
    runs.add("", "p99", number(overall, &["response_time", "p99"]));
    let mut failed = counts(overall, &["errors"]);
    // That no answer comes is known only after a time limit, which may be over after the measured
    // part: these are of the whole run.
    failed.extend(counts(result, &["account", "lost"]));
    let failed: f64 = failed.values().sum();
    let all = number(overall, &["count"]).unwrap_or(0.0).max(failed);
    runs.add_outcome("", share(failed, all), found_share(overall, "hits", "misses"));
    runs
}

fn k6(metrics: &Value) -> ProgramRuns {
    let mut runs = ProgramRuns::of("k6");
    // A summary by handleSummary() has the numbers one table deeper.
    let of = |metric: &str, key: &str| {
        number(metrics, &[metric, key]).or_else(|| number(metrics, &[metric, "values", key]))
    };
    runs.add("", "throughput", of("http_reqs", "rate").or_else(|| of("iterations", "rate")));
    runs.add("", "response", milliseconds(of("http_req_duration", "avg")));
    runs.add("", "p95", milliseconds(of("http_req_duration", "p(95)")));
    runs.add("", "p99", milliseconds(of("http_req_duration", "p(99)")));
    let failed = of("http_req_failed", "value").or_else(|| of("http_req_failed", "rate"));
    runs.add_outcome("", failed, None);
    runs
}

/// One run, or several one after the other.
fn pgbench(text: &str) -> ProgramRuns {
    let mut runs = ProgramRuns::of("pgbench");
    let number = |line: &str| line.split_whitespace().next()?.parse().ok();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("latency average = ") {
            runs.add("", "response", milliseconds(number(rest)));
        } else if let Some(rest) = line.strip_prefix("tps = ")
            // Earlier versions have a second line, with the time to connect.
            && !rest.contains("including connections")
        {
            runs.add("", "throughput", number(rest));
        }
    }
    runs
}

/// A table with a head: columns of numbers are measures, those of words say which cell.
fn of_table(text: &str) -> Option<ProgramRuns> {
    let reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let records = reader.into_records().collect::<Result<Vec<_>, _>>().ok()?;
    let fields = |record: &csv::StringRecord| -> Vec<String> {
        // Quotes behind a space are letters still.
        record.iter().map(|field| field.trim_matches('"').to_owned()).collect()
    };
    let mut lines = records.iter().filter(|record| !record.as_slice().is_empty()).map(fields);
    let head = lines.next()?;
    let rows: Vec<Vec<String>> = lines.collect();
    if rows.is_empty() || rows.iter().any(|row| row.len() != head.len()) {
        return None;
    }
    let is_measure: Vec<bool> =
        (0..head.len()).map(|column| rows.iter().all(|row| row[column].parse::<f64>().is_ok())).collect();
    let mut runs = ProgramRuns::of(ANY_TABLE);
    for row in &rows {
        let words = row.iter().zip(&is_measure).filter(|(_, is_measure)| !**is_measure);
        let cell = words.map(|(word, _)| word.as_str()).collect::<Vec<_>>().join(" ");
        for ((name, field), _) in head.iter().zip(row).zip(&is_measure).filter(|(_, is_measure)| **is_measure)
        {
            runs.add(&cell, name, field.parse().ok());
        }
    }
    Some(runs)
}

/// One measure of one cell on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunChange {
    /// The cell.
    pub cell: String,
    /// What was measured.
    pub measure: String,
    /// The geometric mean of the runs that it is compared with.
    pub base: f64,
    /// How many these are.
    pub base_runs: u64,
    /// The geometric mean of the runs that are compared.
    pub other: f64,
    /// How many these are.
    pub other_runs: u64,
    /// other ÷ base.
    pub ratio: f64,
    /// Where the true ratio may lie, at 95 %; none where a side has one run.
    pub interval: Option<Interval>,
}

/// What the cells that both sides have are called on each: by name; where each has one only, these
/// two.
fn paired<'a>(base: &'a ProgramRuns, other: &'a ProgramRuns) -> Vec<(&'a str, &'a str)> {
    let names = base.cells.keys().map(String::as_str);
    if base.cells.len() == 1 && other.cells.len() == 1 {
        return names.zip(other.cells.keys().map(String::as_str)).collect();
    }
    names.filter(|name| other.cells.contains_key(*name)).map(|name| (name, name)).collect()
}

/// The cells that both sides have, by their name in the base.
fn common<'a>(
    base: &'a ProgramRuns,
    other: &'a ProgramRuns,
) -> Vec<(&'a str, &'a MeasureValues, &'a MeasureValues)> {
    let names = paired(base, other).into_iter();
    names.map(|(one, two)| (one, &base.cells[one], &other.cells[two])).collect()
}

/// The cells of which another share of the requests failed in `other` than in `base`, or of which
/// runs did. A refusal is quick: where more fail they keep no limit.
pub fn failures(base: &ProgramRuns, other: &ProgramRuns) -> Vec<OutcomeShares> {
    other_shares(base, other, |outcomes| outcomes.failed.as_slice())
}

/// The cells of which another share of the keys was found in `other` than in `base`. A miss is
/// quicker than a value: where fewer are found they keep no limit.
pub fn hit_ratios(base: &ProgramRuns, other: &ProgramRuns) -> Vec<OutcomeShares> {
    other_shares(base, other, |outcomes| outcomes.found.as_slice())
}

/// The cells with another mean share of their runs in `other` than in `base`, where both have one.
fn other_shares(
    base: &ProgramRuns,
    other: &ProgramRuns,
    of: fn(&RunOutcomes) -> &[f64],
) -> Vec<OutcomeShares> {
    let mean = |runs: &ProgramRuns, cell: &str| {
        let shares = of(runs.outcomes.get(cell)?);
        share(shares.iter().sum(), shares.len() as f64)
    };
    let differ = paired(base, other).into_iter().filter_map(|(one, two)| {
        let cell = if one.is_empty() { base.program.as_str() } else { one };
        OutcomeShares::of(cell.to_owned(), mean(base, one)?, mean(other, two)?)
    });
    differ.collect()
}

/// The names of the cells that only one side has, and that are compared with none.
pub fn one_sided<'a>(base: &'a ProgramRuns, other: &'a ProgramRuns) -> Vec<&'a str> {
    if base.cells.len() == 1 && other.cells.len() == 1 {
        return Vec::new();
    }
    let [base, other] = [base, other].map(|side| {
        let cells = side.cells.iter().filter(|(_, measures)| measures.values().any(|runs| has_number(runs)));
        cells.map(|(name, _)| name.as_str()).collect::<BTreeSet<_>>()
    });
    base.symmetric_difference(&other).copied().collect()
}

/// The runs of a measure, where both sides have it.
fn pair((_, base, other): &(&str, &MeasureValues, &MeasureValues), measure: &str) -> Option<RunPair> {
    let repetitions = [None, None];
    Some(RunPair { base: base.get(measure)?.clone(), other: other.get(measure)?.clone(), repetitions })
}

/// The same for a limit, which a cell or a run without an answer must not pass in silence.
fn limited(
    sides: &(&str, &MeasureValues, &MeasureValues),
    measure: &str,
) -> Result<Option<RunPair>, Mistake> {
    let cell = if sides.0.is_empty() { "a side" } else { sides.0 };
    let found = pair(sides, measure);
    if let Some(found) = &found {
        if found.base.iter().chain(&found.other).any(|run| run.is_nan()) {
            let what = format!("{cell} has a run without a {measure}");
            return Err(Mistake::new(what, "a limit is about all runs: see why nothing was measured there"));
        }
        found.check(cell, measure)?;
    } else if sides.1.contains_key(measure) || sides.2.contains_key(measure) {
        return Err(Mistake::plain(format!("{cell} has no {measure} on one side")));
    }
    Ok(found)
}

/// Every measure of every cell that both sides have; of each cell the throughput first.
pub fn changes(base: &ProgramRuns, other: &ProgramRuns) -> Vec<RunChange> {
    let mut changes = Vec::new();
    for sides in common(base, other) {
        let (rates, others): (Vec<&String>, Vec<&String>) =
            sides.1.keys().partition(|measure| *measure == RATE);
        for measure in rates.into_iter().chain(others) {
            let Some(mut pair) = pair(&sides, measure) else { continue };
            // How many have a number stands beside their mean.
            pair.base.retain(|run| run.is_finite());
            pair.other.retain(|run| run.is_finite());
            if !pair.is_above_zero() {
                continue;
            }
            let limit = RegressionLimit { measure: measure.clone(), above: true, share: 0.0 };
            let levels = RegressionLevels::shared(1, 0.8);
            let Some(answer) = judge(&limit, std::slice::from_ref(&pair), None, levels) else { continue };
            let mean =
                |runs: &[f64]| (runs.iter().map(|run| run.ln()).sum::<f64>() / runs.len() as f64).exp();
            changes.push(RunChange {
                cell: sides.0.to_owned(),
                measure: measure.clone(),
                base: mean(&pair.base),
                base_runs: pair.base.len() as u64,
                other: mean(&pair.other),
                other_runs: pair.other.len() as u64,
                ratio: answer.ratio,
                interval: answer.interval,
            });
        }
    }
    changes
}

/// What the runs say of each limit.
///
/// # Errors
/// Names a measure that there is not on both sides, and the first cell with a run that has no
/// number or is not above 0; no cell is on both sides.
pub fn judge_runs(
    limits: &[RegressionLimit],
    (base, other): (&ProgramRuns, &ProgramRuns),
    power: f64,
) -> Result<Vec<RegressionAnswer>, Mistake> {
    let levels = RegressionLevels::shared(limits.len(), power);
    let sides = common(base, other);
    let answer = |limit: &RegressionLimit| {
        if sides.is_empty() {
            return Err(Mistake::plain("there is no cell in common"));
        }
        let found = sides.iter().filter_map(|sides| limited(sides, &limit.measure).transpose());
        let pairs = found.collect::<Result<Vec<RunPair>, Mistake>>()?;
        judge(limit, &pairs, None, levels).ok_or_else(|| {
            let mut names: Vec<&str> =
                sides.iter().flat_map(|(_, base, _)| base.keys()).map(String::as_str).collect();
            names.sort_unstable();
            names.dedup();
            no_measure(limit, &names)
        })
    };
    limits.iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(String, String, Vec<f64>)> {
        let runs = read(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        let of = |(cell, measures): (&String, &MeasureValues)| -> Vec<(String, String, Vec<f64>)> {
            measures.iter().map(|(name, runs)| (cell.clone(), name.clone(), runs.clone())).collect()
        };
        runs.cells.iter().flat_map(of).collect()
    }

    fn row(cell: &str, measure: &str, runs: &[f64]) -> (String, String, Vec<f64>) {
        (cell.to_owned(), measure.to_owned(), runs.to_vec())
    }

    #[test]
    fn each_program_is_known_by_what_it_writes() {
        let memtier = r#"{"ALL STATS": {"Totals": {"Ops/sec": 1000.5, "Average Latency": 0.5, "KB/sec": -nan,
            "Percentile Latencies": {"p50.00": 0.4, "p99.00": 2.0}}}}"#;
        let expected =
            [row("", "p99", &[0.002]), row("", "response", &[0.0005]), row("", "throughput", &[1000.5])];
        assert_eq!(values(memtier), expected);
        let hyperfine = r#"{"results": [{"command": "sort a", "mean": 1.5, "times": [1.0, 2.0]}]}"#;
        assert_eq!(values(hyperfine), [row("sort a", "time", &[1.0, 2.0])]);
        let criterion = r#"{"sampling_mode": "Linear", "iters": [10.0, 20.0], "times": [1000.0, 4000.0]}"#;
        assert_eq!(values(criterion), [row("", "time", &[1e-7, 2e-7])]);
        let k6 = r#"{"metrics": {"http_reqs": {"rate": 50.0, "count": 500}, "http_req_duration": {"avg": 4.0, "p(95)": 8.0}}}"#;
        let expected =
            [row("", "p95", &[0.008]), row("", "response", &[0.004]), row("", "throughput", &[50.0])];
        assert_eq!(values(k6), expected);
        let deeper = r#"{"metrics": {"http_reqs": {"type": "counter", "values": {"rate": 50.0}}}}"#;
        assert_eq!(values(deeper), [row("", "throughput", &[50.0])]);
        let pgbench = "pgbench (15.5)\nlatency average = 2.5 ms\ntps = 400.5 (without initial connection time)\n\
            latency average = 2.0 ms\ntps = 490 (including connections establishing)\ntps = 500 (excluding connections establishing)\n";
        assert_eq!(
            values(pgbench),
            [row("", "response", &[0.0025, 0.002]), row("", "throughput", &[400.5, 500.0])]
        );
        let table = "name,rate,time\nread,10,0.5\nwrite,5,1\nread,12,0.4\n";
        let expected = [
            row("read", "rate", &[10.0, 12.0]),
            row("read", "time", &[0.5, 0.4]),
            row("write", "rate", &[5.0]),
            row("write", "time", &[1.0]),
        ];
        assert_eq!(values(table), expected);
        let ours =
            r#"{"format": 1, "overall": {"throughput": 9.0, "response_time": {"mean": 0.1, "p99": 0.3}}}"#;
        assert_eq!(
            values(ours),
            [row("", "p99", &[0.3]), row("", "response", &[0.1]), row("", "throughput", &[9.0])]
        );
    }

    /// As Krarup's own tables, a spreadsheet's, and one with spaces for the eye.
    #[test]
    fn a_cell_of_a_table_may_have_commas_in_quotes() {
        let table = "\"workload\",\"rate\"\r\n\"read-only, 8 workers\",\"10\"\r\n \r\nwrite, \"5\"\r\n";
        assert_eq!(
            values(table),
            [row("read-only, 8 workers", "rate", &[10.0]), row("write", "rate", &[5.0])]
        );
    }

    #[test]
    fn the_throughput_stands_first_and_each_measure_has_its_unit() {
        let k6 =
            r#"{"metrics": {"http_reqs": {"rate": 50.0}, "http_req_duration": {"avg": 4.0, "p(99)": 8.0}}}"#;
        let runs = read(k6).unwrap();
        let found = changes(&runs, &runs);
        let shown: Vec<(&str, Unit)> =
            found.iter().map(|change| (change.measure.as_str(), runs.unit(&change.measure))).collect();
        assert_eq!(
            shown,
            [("throughput", Unit::PerSecond), ("p99", Unit::Seconds), ("response", Unit::Seconds)]
        );
        let table = read("name,throughput,wait_s,done_per_s\nx,1,2,3\n").unwrap();
        let units = ["throughput", "wait_s", "done_per_s"].map(|measure| table.unit(measure));
        assert_eq!(units, [Unit::Count, Unit::Seconds, Unit::PerSecond]);
    }

    #[test]
    fn what_is_of_no_program_is_refused_with_what_is_understood() {
        for text in ["", "{}", "[1]", "hello", "a,b\n1\n", "{\"results\": []}", "a,b\n"] {
            assert!(read(text).unwrap_err().hint.contains("hyperfine"), "{text}");
        }
    }

    #[test]
    fn files_of_a_folder_are_runs_of_one_cell_and_of_one_program() {
        let mut runs = ProgramRuns::default();
        runs.join(read("tps = 400 (x)").unwrap(), "a").unwrap();
        runs.join(read("tps = 410 (x)").unwrap(), "a").unwrap();
        assert_eq!(runs.cells["a"]["throughput"], [400.0, 410.0]);
        assert!(runs.join(read("a,b\n1,2\n").unwrap(), "a").unwrap_err().what.contains("pgbench"));
    }

    #[test]
    fn cells_pair_by_name_and_two_single_ones_in_any_case() {
        let of = |text: &str| read(text).unwrap();
        let (base, other) = (of("name,t\nx,10\nx,11\ny,5\n"), of("name,t\nx,20\nx,22\nz,5\n"));
        let found = changes(&base, &other);
        assert_eq!(found.iter().map(|change| change.cell.as_str()).collect::<Vec<_>>(), ["x"]);
        assert!((found[0].ratio - 2.0).abs() < 1e-9 && found[0].interval.unwrap().low > 1.4);
        let one = |command: &str| {
            of(&format!(r#"{{"results": [{{"command": "{command}", "times": [1.0, 1.1]}}]}}"#))
        };
        assert_eq!(changes(&one("old"), &one("new")).len(), 1);
        let limit = ["speed > 5%".parse().unwrap()];
        let wrong = judge_runs(&limit, (&base, &other), 0.8).unwrap_err();
        assert!(wrong.what.contains("`speed`") && wrong.hint.contains("there are t"), "{wrong}");
        assert_eq!(one_sided(&base, &other), ["y", "z"]);
        assert!(one_sided(&one("old"), &one("new")).is_empty());
    }

    #[test]
    fn a_cell_that_collapsed_does_not_pass_a_limit() {
        let of = |text: &str| read(text).unwrap();
        let base = of("name,rate,time\na,1000,1\na,1001,1\nb,1000,1\nb,1001,1\n");
        let limit = ["rate < -5%".parse().unwrap()];
        for (one, two, says) in [
            ("0", "0", "b has a run with a rate"),
            ("nan", "nan", "b has a run without a rate"),
            ("1000", "nan", "b has a run without a rate"),
        ] {
            let other = of(&format!("name,rate,time\na,1000,1\na,1001,1\nb,{one},1\nb,{two},1\n"));
            let wrong = judge_runs(&limit, (&base, &other), 0.8).unwrap_err();
            assert!(wrong.what.contains(says), "{wrong}");
        }
        assert_eq!(judge_runs(&limit, (&base, &base), 0.8).unwrap()[0].cells, 2);
        let other = of("name,time\na,1\nb,nan\n");
        assert_eq!(one_sided(&base, &other), ["b"], "nothing was measured there");
    }

    /// In the files of a folder, each a run.
    #[test]
    fn what_fails_and_what_is_not_found_is_known_of_each_program_that_says_it() {
        let folder = |texts: &[&str]| {
            let mut runs = ProgramRuns::default();
            texts.iter().for_each(|text| runs.join(read(text).unwrap(), "").unwrap());
            runs
        };
        let load = |rest: &str, lost: &str| {
            format!(
                r#"{{"format": 1, "account": {{"lost": {lost}}}, "overall": {{"throughput": 9.0, "count": 100, {rest}}}}}"#
            )
        };
        let well = load(r#""errors": {}, "hits": 80, "misses": 0"#, "{}");
        let refused = load(r#""errors": {"server_error": 50}, "hits": 30, "misses": 30"#, "{}");
        // Of the five that got no answer two are in the measured part, too.
        let timeouts = load(r#""errors": {"timeout": 2}, "hits": 80, "misses": 0"#, r#"{"timeout": 5}"#);
        let k6 = |rest: &str| format!(r#"{{"metrics": {{"http_reqs": {{"rate": 5.0}}{rest}}}}}"#);
        let plain = k6(r#", "http_req_failed": {"value": 0, "passes": 0}"#);
        let deeper = k6(r#", "http_req_failed": {"values": {"rate": 1}}"#);
        let commands = |codes: &str| {
            format!(r#"{{"results": [{{"command": "sort", "times": [1.0, 1.1], "exit_codes": {codes}}}]}}"#)
        };
        let (ends_well, killed) = (commands("[0, 0]"), commands("[1, null]"));
        let memtier = |hits: f64, misses: f64| {
            format!(
                r#"{{"ALL STATS": {{"Totals": {{"Ops/sec": 9.5, "Hits/sec": {hits}, "Misses/sec": {misses}}}}}}}"#
            )
        };
        let (all, quarter) = (memtier(9.5, 0.0), memtier(2.5, 7.5));
        let shares =
            |cell: &str, base: f64, other: f64| vec![OutcomeShares { cell: cell.to_owned(), base, other }];
        for (base, other, failing, found) in [
            (&well, &refused, shares("krarup load", 0.0, 0.5), shares("krarup load", 1.0, 0.5)),
            (&well, &timeouts, shares("krarup load", 0.0, 0.05), Vec::new()),
            (&plain, &deeper, shares("k6", 0.0, 1.0), Vec::new()),
            (&ends_well, &killed, shares("sort", 0.0, 1.0), Vec::new()),
            (&all, &quarter, Vec::new(), shares("memtier_benchmark", 1.0, 0.25)),
        ] {
            let (base, other) = (folder(&[base.as_str(); 2]), folder(&[other.as_str(); 2]));
            assert_eq!((failures(&base, &other), hit_ratios(&base, &other)), (failing, found), "{other:?}");
            assert_eq!((failures(&other, &other), hit_ratios(&base, &base)), (Vec::new(), Vec::new()));
        }
        let silent = folder(&[k6("").as_str()]);
        assert_eq!(failures(&silent, &folder(&[deeper.as_str()])), [], "one side does not say it");
    }

    #[test]
    fn a_file_of_a_folder_that_lacks_a_number_does_not_pass_a_limit() {
        let folder = |times: &[&str]| {
            let mut runs = ProgramRuns::default();
            for time in times {
                let totals = format!(r#"{{"Ops/sec": 9.5, "Average Latency": {time}}}"#);
                let text = format!(r#"{{"ALL STATS": {{"Totals": {totals}}}}}"#);
                runs.join(read(&text).unwrap(), "").unwrap();
            }
            runs
        };
        let base = folder(&["0.5", "0.51", "0.49"]);
        let limit = ["response > 10%".parse().unwrap()];
        for times in [["-nan", "0.5", "0.51"], ["0.5", "-nan", "0.51"], ["0.5", "0.51", "-nan"]] {
            let other = folder(&times);
            let wrong = judge_runs(&limit, (&base, &other), 0.8).unwrap_err();
            assert!(wrong.what.contains("a run without a response"), "{wrong}");
            let shown = changes(&base, &other);
            assert_eq!(shown.iter().map(|change| change.other_runs).collect::<Vec<_>>(), [3, 2]);
        }
        assert_eq!(judge_runs(&limit, (&base, &base), 0.8).unwrap()[0].repetitions, 3);
        assert!(!base.cells[""].contains_key("p99"), "no file has it");
    }
}
