//! A result for people: a table, what the generator used, and what to know before believing it.

use std::collections::BTreeMap;
use std::fmt::Write;

use krarup_units::text::{count, duration, three_digits};
use krarup_units::{Nanos, Seconds};

use crate::config::Extent;
use crate::result::{LoadResult, OperationResult, SeriesRow};
use crate::run::Phase;
use crate::schedule::Arrivals;
use crate::search::{FoundMax, SearchTrial};
use crate::trace::Speed;

/// The whole result as text.
pub fn table(result: &LoadResult) -> String {
    let mut out = String::new();
    operations(&mut out, result);
    whole_run(&mut out, result);
    generator(&mut out, result);
    out
}

/// What was asked, and a line for each operation: of all clients, and of each class that has a
/// name.
fn operations(out: &mut String, result: &LoadResult) {
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
    line(
        out,
        format_args!(
            "{} connections, {} {}, {arrivals}, measured for {}{stopped}\n",
            count(f64::from(config.connections)),
            config.threads,
            if config.threads == 1 { "thread" } else { "threads" },
            duration(result.seconds)
        ),
    );
    line(
        out,
        format_args!(
            "{:<9} {:>11} {:>12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>8}",
            "operation",
            "requests",
            "per second",
            "mean",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max",
            "hit ratio",
            "errors"
        ),
    );
    rows(out, &result.operations, &result.overall);
    out.push('\n');
    for (class, about) in result.classes.iter().zip(&classes) {
        line(out, format_args!("{about}"));
        rows(out, &class.operations, &class.overall);
        out.push('\n');
    }
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
    if result.config.is_open() {
        let (from_sent, lateness) = (&result.overall.time_from_sent, &result.overall.lateness);
        line(
            out,
            format_args!(
                "counted from when requests were sent, not due: mean {}, p99 {}; lateness: mean {}, p99 {}",
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
fn rows(out: &mut String, operations: &BTreeMap<String, OperationResult>, overall: &OperationResult) {
    for (name, operation) in operations {
        row(out, name, operation);
    }
    if operations.len() != 1 {
        row(out, "all", overall);
    }
}

fn row(out: &mut String, name: &str, operation: &OperationResult) {
    let times = &operation.response_time;
    let asked = operation.hits + operation.misses;
    let hits = if asked == 0 {
        "-".to_owned()
    } else {
        format!("{} %", three_digits(100.0 * operation.hits as f64 / asked as f64))
    };
    line(
        out,
        format_args!(
            "{name:<9} {:>11} {:>12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {hits:>10} {:>8}",
            count(operation.count as f64),
            count(operation.throughput.0.round()),
            time(times.mean),
            time(times.p50),
            time(times.p90),
            time(times.p99),
            time(times.p999),
            time(times.max),
            count(operation.failed() as f64)
        ),
    );
}

/// One line of progress: how far, how fast, how long requests take.
pub fn progress(phase: Phase, of: Extent, all: &SeriesRow) -> String {
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
    format!(
        "{at:6.1} {until}  {:>10}/s  p50 {:>8}  p99 {:>8}  max {:>8}  late {:>8}  errors {}  {doing}",
        count(all.throughput.0.round()),
        time(all.p50),
        time(all.p99),
        time(all.max),
        time(all.lateness),
        all.errors
    )
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

/// What a search for the highest rate found.
pub fn found_max(max: &FoundMax) -> String {
    let found: Vec<String> = max.found.iter().map(|rate| count(rate.0.round())).collect();
    let limit = time(max.limit.p99);
    let searches = format!("highest rates with p99 up to {limit}: {} per second", found.join(", "));
    match &max.rate {
        Some(rate) => format!("{searches}\nmean {rate:.0}\n"),
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
