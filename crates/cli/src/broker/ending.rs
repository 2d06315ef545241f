//! What the broker says when it ends: its statistics as tables for people.

use krarup_record::{MeasuredDistribution, Operation, Quantity};
use krarup_report::document::{Table, TableValue};
use krarup_serve::broker::engine::BrokerEnd;
use krarup_units::Unit;
use krarup_units::text::{count, duration, three_digits};
use krarup_units::{Bytes, Nanos};

/// The statistics as text.
pub(super) fn statistics(ended: &BrokerEnd) -> String {
    let recorder = ended.broker.recorder();
    let length = ended.stopped - ended.started;
    let all = recorder.overall();
    let (totals, known) = ended.broker.totals(ended.stopped);
    // What the database has not told is not 0.
    let waiting = known.then(|| {
        let (ready, delayed, buried) = (totals.ready as f64, totals.delayed as f64, totals.buried as f64);
        format!(", {} ready, {} delayed, {} buried", count(ready), count(delayed), count(buried))
    });
    format!(
        "{} requests in {}: {}/s, {} errors, {} in, {} out\n\n{}\n{} messages put{}\n{}",
        count(all.count as f64),
        duration(length.as_seconds()),
        count(all.throughput(length).0),
        count(all.errors as f64),
        Bytes(all.bytes_in),
        Bytes(all.bytes_out),
        crate::output::table(&operations(ended)),
        count(totals.jobs as f64),
        waiting.unwrap_or_default(),
        commits(ended),
    )
}

/// How many commits there were, and how many requests shared each; nothing where nothing was
/// committed.
fn commits(ended: &BrokerEnd) -> String {
    let batches = ended.broker.batches();
    let Some(size) = batches.mean_size() else { return String::new() };
    let time = |share| {
        let time = batches.times.quantile(share).map_or(0.0, Nanos::as_seconds);
        duration(time)
    };
    format!(
        "{} commits, {} requests each in the mean, {} in the median and {} for 99 %\n",
        count(batches.count() as f64),
        three_digits(size),
        time(0.5),
        time(0.99),
    )
}

fn operations(ended: &BrokerEnd) -> Table {
    let recorder = ended.broker.recorder();
    let length = ended.stopped - ended.started;
    let seen = Operation::ALL.iter().copied().filter(|&operation| recorder.total(operation).count > 0);
    let row = |operation: Operation| {
        let tally = recorder.total(operation);
        let of = |quantity| recorder.histograms().get(operation, quantity);
        let mean = |times: Option<&MeasuredDistribution>| {
            TableValue::from(times.and_then(MeasuredDistribution::mean))
        };
        let quantile = |share| {
            TableValue::from(
                of(Quantity::Response).and_then(|times| times.quantile(share)).map(Nanos::as_seconds),
            )
        };
        vec![
            TableValue::from(operation.name()),
            TableValue::from(tally.count as f64),
            TableValue::from(tally.throughput(length).0),
            TableValue::from(tally.errors as f64),
            mean(of(Quantity::Queue)),
            mean(of(Quantity::Server)),
            mean(of(Quantity::Own)),
            mean(of(Quantity::Response)),
            quantile(0.5),
            quantile(0.99),
        ]
    };
    Table::untitled(
        "operations",
        &[
            ("operation", Unit::Text),
            ("requests", Unit::Count),
            ("throughput", Unit::PerSecond),
            ("errors", Unit::Count),
            ("queue", Unit::Seconds),
            ("store", Unit::Seconds),
            ("own", Unit::Seconds),
            ("response", Unit::Seconds),
            ("p50", Unit::Seconds),
            ("p99", Unit::Seconds),
        ],
        seen.map(row).collect(),
    )
}
