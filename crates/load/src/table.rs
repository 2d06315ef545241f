//! A result for people: a table, what the generator used, and what to know before believing it.

use std::collections::BTreeMap;
use std::fmt::Write;

use krarup_units::text::{count, duration, three_digits};
use krarup_units::{Nanos, Seconds, lines};

use crate::config::Extent;
use crate::result::{LoadResult, OperationResult, SeriesRow};
use crate::run::Phase;
use crate::schedule::Arrivals;
use crate::search::{FoundMax, SearchTrial};
use crate::trace::Speed;

/// The whole result as text; where a width is given, in lines of at most so many letters: what
/// of the table does not fit stands below, beside the operations again.
pub fn table(result: &LoadResult, width: Option<usize>) -> String {
    let mut words = String::new();
    whole_run(&mut words, result);
    generator(&mut words, result);
    operations(result, width) + &lines::prose(&words, width)
}

/// What was asked, and a line for each operation: of all clients, and of each class that has a
/// name.
fn operations(result: &LoadResult, width: Option<usize>) -> String {
    let config = &result.config;
    let classes: Vec<String> = config
        .parts()
        .iter()
        .map(|class| {
            let name = if class.name.is_empty() { String::new() } else { format!("{}: ", class.name) };
            let clients = count(f64::from(class.connections));
            let clients =
                if class.name.is_empty() { String::new() } else { format!("{clients} connections, ") };
            format!("{name}{clients}{}", arrivals(&class.arrivals))
        })
        .collect();
    let arrivals =
        if config.classes.is_empty() { classes.concat() } else { format!("{} classes", classes.len()) };
    let stopped = if result.interrupted { ", stopped early" } else { "" };
    let share =
        config.share.map_or_else(String::new, |one| format!("share {} of {} of ", one.number, one.of));
    let asked = format!(
        "{share}{} connections, {} {}, {arrivals}, measured for {}{stopped}\n\n",
        count(f64::from(config.connections)),
        config.threads,
        if config.threads == 1 { "thread" } else { "threads" },
        duration(result.seconds)
    );
    let mut out = lines::prose(&asked, width);
    let head: OperationRow = COLUMNS.map(|(heading, _)| heading.to_owned());
    let mut of_all = vec![head];
    of_all.extend(rows(&result.operations, &result.overall));
    out.push_str(&folded(&of_all, width));
    out.push('\n');
    for (class, about) in result.classes.iter().zip(&classes) {
        out.push_str(&lines::prose(&format!("{about}\n"), width));
        out.push_str(&folded(&rows(&class.operations, &class.overall), width));
        out.push('\n');
    }
    out
}

/// The columns of the table with their widths; the first is the key.
const COLUMNS: [(&str, usize); 11] = [
    ("operation", 9),
    ("requests", 11),
    ("per second", 12),
    ("mean", 9),
    ("p50", 9),
    ("p90", 9),
    ("p99", 9),
    ("p99.9", 9),
    ("max", 9),
    ("hit ratio", 10),
    ("errors", 8),
];

/// A line of the table.
type OperationRow = [String; COLUMNS.len()];

/// The rows as text, the columns that do not fit below the others.
fn folded(rows: &[OperationRow], width: Option<usize>) -> String {
    let widths: Vec<usize> = COLUMNS
        .iter()
        .enumerate()
        .map(|(column, (_, least))| {
            let longest = rows.iter().map(|row| row[column].chars().count()).max();
            longest.unwrap_or(0).max(*least)
        })
        .collect();
    let parts = lines::side_by_side(&widths, 1, 1, width.unwrap_or(usize::MAX / 2));
    let line = |row: &OperationRow, part: &[usize]| {
        let cells = part.iter().map(|&column| match (&row[column], COLUMNS[column].1) {
            (name, width) if column == 0 => format!("{name:<width$}"),
            (number, width) => format!("{number:>width$}"),
        });
        cells.collect::<Vec<_>>().join(" ") + "\n"
    };
    let part = |part: &Vec<usize>| rows.iter().map(|row| line(row, part)).collect::<String>();
    parts.iter().map(part).collect::<Vec<_>>().join("\n")
}

/// What came of all requests, in the measured part of the run and outside of it.
fn whole_run(out: &mut String, result: &LoadResult) {
    let account = &result.account;
    let lost: u64 = account.lost.values().sum();
    line(
        out,
        format_args!(
            "whole run: {} sent, {} answered, {} lost; {} of {} keys found; {} out, {} in",
            count(account.sent as f64),
            count(account.answered as f64),
            count(lost as f64),
            count(account.hits as f64),
            count(account.keys as f64),
            krarup_units::Bytes(account.bytes_sent),
            krarup_units::Bytes(account.bytes_received)
        ),
    );
    for (place, class) in result.config.parts().iter().enumerate() {
        // A client that does not think is late only where its connection is.
        let is_never_late = match &class.arrivals {
            Arrivals::Closed(think) => think.mean() == 0.0,
            other => other.is_closed(),
        };
        if is_never_late {
            continue;
        }
        let times = result.classes.get(place).map_or(&result.overall, |class| &class.overall);
        let (from_sent, lateness) = (&times.time_from_sent, &times.lateness);
        let of = if class.name.is_empty() { String::new() } else { format!("{}: ", class.name) };
        line(
            out,
            format_args!(
                "{of}counted from when requests were sent, not due: mean {}, p99 {}; lateness: mean {}, p99 {}",
                time(from_sent.mean),
                time(from_sent.p99),
                time(lateness.mean),
                time(lateness.p99)
            ),
        );
    }
    for takes in ["reserve", "pop", "peek"] {
        let Some(answers) = account.answers.get(takes) else { continue };
        let of = |kind: &str| count(answers.get(kind).copied().unwrap_or(0) as f64);
        line(
            out,
            format_args!("{takes}: {} brought a message, {} found none", of("values"), of("not_found")),
        );
    }
    for (kind, errors) in &result.overall.errors {
        line(out, format_args!("errors: {} {kind}", count(*errors as f64)));
    }
    if account.connections_lost + account.connects_failed + account.connections_renewed > 0 {
        line(
            out,
            format_args!(
                "connections: {} lost, {} attempts to connect failed, {} made anew after their number of requests",
                account.connections_lost, account.connects_failed, account.connections_renewed
            ),
        );
    }
}

/// Whether the generator was up to it: what it kept, what it verified and what it used.
fn generator(out: &mut String, result: &LoadResult) {
    if let Some(rows) = &result.rows {
        line(out, format_args!("rows: {} kept, {} lost", count(rows.kept as f64), count(rows.lost as f64)));
    }
    if let Some(verified) = &result.verified {
        line(
            out,
            format_args!(
                "verified: {} values, {} wrong{}",
                count(verified.checked as f64),
                count(verified.mismatched as f64),
                verified.first.as_ref().map(|first| format!("; the first: {first}")).unwrap_or_default()
            ),
        );
    }
    if let Some(clocks) = &result.clocks {
        line(out, format_args!("{}", clocks.words()));
    }
    let generator = &result.generator;
    line(
        out,
        format_args!(
            "generator: {} processor time per request, busiest thread {:.0} %",
            time(generator.cpu_per_request),
            100.0 * generator.busiest_thread
        ),
    );
    for warning in &result.warnings {
        line(out, format_args!("warning: {warning}"));
    }
}

fn arrivals(arrivals: &Arrivals) -> String {
    match arrivals {
        Arrivals::Closed(think) if think.mean() > 0.0 => {
            format!("closed loop, think time {}", duration(think.mean()))
        }
        Arrivals::Closed(_) => "closed loop".to_owned(),
        Arrivals::Open(_) => "open load".to_owned(),
        Arrivals::Replay(replay) => match replay.speed {
            Speed::Times(times) => format!("{}, {times} times as fast", replay.trace.display()),
            Speed::Fastest => format!("{}, as fast as answers come", replay.trace.display()),
        },
    }
}

/// Every operation, and all together where there are several.
fn rows(operations: &BTreeMap<String, OperationResult>, overall: &OperationResult) -> Vec<OperationRow> {
    let mut rows: Vec<OperationRow> =
        operations.iter().map(|(name, operation)| row(name, operation)).collect();
    if operations.len() != 1 {
        rows.push(row("all", overall));
    }
    rows
}

/// A few misses are told beside however many hits.
fn hit_ratio(hits: u64, misses: u64) -> String {
    if hits + misses == 0 {
        return "-".to_owned();
    }
    match three_digits(100.0 * hits as f64 / (hits + misses) as f64) {
        all if all == "100" && misses > 0 => "> 99.9 %".to_owned(),
        share => format!("{share} %"),
    }
}

fn row(name: &str, operation: &OperationResult) -> OperationRow {
    let times = &operation.response_time;
    [
        name.to_owned(),
        count(operation.count as f64),
        count(operation.throughput.0.round()),
        time(times.mean),
        time(times.p50),
        time(times.p90),
        time(times.p99),
        time(times.p999),
        time(times.max),
        hit_ratio(operation.hits, operation.misses),
        count(operation.failed() as f64),
    ]
}

/// One line of progress: how far, how fast, how long requests take. Where a width is given, as
/// much of it as fits: the last parts are left out, but errors only where there are none.
pub fn progress(phase: Phase, of: Extent, all: &SeriesRow, width: Option<usize>) -> String {
    let at = all.start + all.length;
    let doing = match (phase, all.measured) {
        (Phase::Populate, _) => "populating",
        (Phase::Check, _) => "checking",
        (Phase::Run, true) => "measuring",
        (Phase::Run, false) => "not measured",
    };
    let until = match of {
        Extent::Seconds(seconds) => format!("of {seconds:.0} s"),
        Extent::Requests(requests) => format!("s, {} requests in all", count(requests as f64)),
        Extent::Trace => "s of a trace".to_owned(),
    };
    let parts = [
        format!("{at:6.1} {until}"),
        format!("{:>10}/s", count(all.throughput.0.round())),
        format!("p50 {:>8}", time(all.p50)),
        format!("p99 {:>8}", time(all.p99)),
        format!("max {:>8}", time(all.max)),
        format!("late {:>8}", time(all.lateness)),
        format!("errors {}", all.errors),
        doing.to_owned(),
    ];
    fitting(parts.to_vec(), (all.errors > 0).then_some(ERRORS), width)
}

/// Which part of a line of progress tells of errors.
const ERRORS: usize = 6;

/// As many of the parts, side by side, as fit into a width: the last are left out, never the first
/// nor the one that is `kept`.
fn fitting(mut parts: Vec<String>, kept: Option<usize>, width: Option<usize>) -> String {
    let width = width.unwrap_or(usize::MAX);
    for out in (1..parts.len()).rev().filter(|part| Some(*part) != kept) {
        if parts.join("  ").chars().count() <= width {
            break;
        }
        parts.remove(out);
    }
    parts.join("  ")
}

/// One line for a trial of a search.
pub fn trial(trial: &SearchTrial) -> String {
    let warnings: String = trial.warnings.iter().map(|warning| format!("\n    warning: {warning}")).collect();
    format!(
        "search {}: {:>10}/s asked  {:>10}/s answered  p99 {:>8}  {}{warnings}",
        trial.search + 1,
        count(trial.rate.0.round()),
        count(trial.throughput.0.round()),
        time(trial.p99),
        if trial.carried { "carried" } else { "not carried" }
    )
}

/// What a search for the highest rate found, and whether it may be of the generator.
pub fn found_max(max: &FoundMax) -> String {
    let found = found_rates(max);
    match max.of_generator() {
        0 => found,
        some => format!(
            "{found}warning: in {some} of {} searches the generator itself was late or busy at the lowest rate that was not carried: \
             the limit may be its own; add --threads, processors or machines\n",
            max.searches()
        ),
    }
}

fn found_rates(max: &FoundMax) -> String {
    let found: Vec<String> = max.found.iter().map(|rate| count(rate.0.round())).collect();
    let limit = time(max.limit.p99);
    let all = max.searches();
    let nothing = match all - found.len() {
        0 => String::new(),
        _ if found.is_empty() => return format!("nothing was carried with p99 up to {limit}\n"),
        without => format!("; {without} of {all} searches carried nothing, and are in no figure"),
    };
    let searches = format!("highest rates with p99 up to {limit}: {} per second{nothing}", found.join(", "));
    match &max.rate {
        Some(rate) => format!("{searches}\nmean limit, between these and what failed: {rate:.0}\n"),
        None => format!("{searches}\n"),
    }
}

/// A time that was measured; a dash where nothing was.
fn time(seconds: Seconds) -> String {
    if seconds > 0.0 { duration(Nanos::from_seconds(seconds).as_seconds()) } else { "-".to_owned() }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use krarup_units::PerSecond;

    use super::*;
    use crate::search::TrialLimit;

    fn rows() -> [OperationRow; 2] {
        let numbers = ["get", "1,200,000", "120,000", "105 µs", "98.0 µs", "140 µs", "310 µs", "1.20 ms"];
        let rest = ["14.2 ms", "99.8 %", "0"];
        let mut cells = numbers.iter().chain(&rest).map(|cell| (*cell).to_owned());
        [COLUMNS.map(|(heading, _)| heading.to_owned()), COLUMNS.map(|_| cells.next().unwrap())]
    }

    #[test]
    fn the_table_is_whole_where_no_width_is_given_and_where_it_fits() {
        let whole = folded(&rows(), None);
        assert_eq!(whole.lines().count(), 2, "{whole}");
        assert!(whole.lines().all(|line| line.chars().count() == 114), "{whole}");
        assert_eq!(folded(&rows(), Some(114)), whole);
    }

    #[test]
    fn what_does_not_fit_into_eighty_columns_stands_below_beside_the_operations() {
        let expected = "\
operation    requests   per second      mean       p50       p90       p99
get         1,200,000      120,000    105 µs   98.0 µs    140 µs    310 µs

operation     p99.9       max  hit ratio   errors
get         1.20 ms   14.2 ms     99.8 %        0
";
        assert_eq!(folded(&rows(), Some(80)), expected);
    }

    #[test]
    fn no_miss_is_rounded_away() {
        assert_eq!(hit_ratio(9_997, 3), "> 99.9 %");
        assert_eq!((hit_ratio(10_000, 0), hit_ratio(0, 0)), ("100 %".into(), "-".into()));
        assert_eq!((hit_ratio(2, 1), hit_ratio(0, 7)), ("66.7 %".into(), "0.00 %".into()));
    }

    #[test]
    fn searches_that_carried_nothing_are_told_with_the_others() {
        let trial = |search, carried| SearchTrial {
            search,
            rate: PerSecond(5_000.0),
            throughput: PerSecond(0.0),
            p99: 0.0,
            carried,
            warnings: Vec::new(),
        };
        let mut max = FoundMax {
            limit: TrialLimit { p99: 0.01, carried: 0.98 },
            trials: vec![trial(0, true), trial(1, false), trial(2, true)],
            found: vec![PerSecond(5_000.0), PerSecond(5_100.0)],
            rate: None,
        };
        assert_eq!(
            found_max(&max),
            "highest rates with p99 up to 10.0 ms: 5,000, 5,100 per second; 1 of 3 searches carried nothing, and are in no figure\n"
        );
        max.found.clear();
        assert_eq!(found_max(&max), "nothing was carried with p99 up to 10.0 ms\n");
        (max.trials, max.found) = (vec![trial(0, true)], vec![PerSecond(5_000.0)]);
        assert_eq!(found_max(&max), "highest rates with p99 up to 10.0 ms: 5,000 per second\n");
    }

    #[test]
    fn a_line_of_progress_leaves_out_its_last_parts() {
        let parts = || ["1.0 of 5 s", "9/s", "p50 1 ms", "errors 2", "measuring"].map(str::to_owned).to_vec();
        let whole = "1.0 of 5 s  9/s  p50 1 ms  errors 2  measuring";
        assert_eq!(fitting(parts(), None, None), whole);
        assert_eq!(fitting(parts(), None, Some(46)), whole);
        assert_eq!(fitting(parts(), None, Some(45)), "1.0 of 5 s  9/s  p50 1 ms  errors 2");
        assert_eq!(fitting(parts(), None, Some(20)), "1.0 of 5 s  9/s");
        assert_eq!(fitting(parts(), Some(3), Some(25)), "1.0 of 5 s  9/s  errors 2", "errors are told");
        assert_eq!(fitting(parts(), None, Some(3)), "1.0 of 5 s");
    }
}
