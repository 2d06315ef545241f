//! What the proxy says when it ends: its statistics as tables for people.

use krarup_proxy::ProxySummary;
use krarup_record::summary::{OperationSummary, TimePercentiles};
use krarup_report::document::{Table, TableValue};
use krarup_units::Unit;
use krarup_units::text::{count, duration};

/// The statistics as text.
pub(crate) fn statistics(summary: &ProxySummary) -> String {
    let mut out = String::new();
    let all = &summary.run.all;
    out.push_str(&format!(
        "{} requests in {}: {}/s, {} errors, {} in, {} out\n\n",
        count(all.count as f64),
        duration(summary.run.seconds),
        count(all.throughput),
        count(all.errors as f64),
        krarup_units::Bytes(all.bytes_in),
        krarup_units::Bytes(all.bytes_out),
    ));
    out.push_str(&crate::output::table(&operations(summary)));
    out.push('\n');
    out.push_str(&crate::output::table(&times(summary)));
    out.push('\n');
    out.push_str(&crate::output::table(&servers(summary)));
    let workers =
        summary.run.workers.map_or("unlimited workers".to_owned(), |workers| format!("{workers} workers"));
    out.push_str(&format!(
        "\nqueue: {workers}, mean length {} over time, {} seen by those taken, longest {}\n",
        krarup_units::text::three_digits(summary.run.queue_length_over_time),
        summary.run.queue_length.map_or("–".to_owned(), krarup_units::text::three_digits),
        count(summary.queue_length_max as f64),
    ));
    let events = &summary.events;
    out.push_str(&format!(
        "events: {} clients accepted, {} refused, {} disagreements of servers, {} server connections lost, \
         {} of them out of step and {} overdue, clients held back {} times\n",
        count(events.clients_accepted as f64),
        count(events.clients_refused as f64),
        count(events.disagreements as f64),
        count(events.server_losses as f64),
        count(events.desynchronised as f64),
        count(events.timeouts as f64),
        count(events.held_back as f64),
    ));
    out
}

fn lines(summary: &ProxySummary) -> impl Iterator<Item = &OperationSummary> {
    // With one operation, all of them say the same again.
    let all = (summary.run.operations.len() > 1).then_some(&summary.run.all);
    summary.run.operations.iter().chain(all)
}

fn operations(summary: &ProxySummary) -> Table {
    let row = |line: &OperationSummary| {
        vec![
            TableValue::from(line.operation.as_str()),
            TableValue::from(line.count as f64),
            TableValue::from(line.throughput),
            TableValue::from(line.errors as f64),
            TableValue::from(line.hits as f64),
            TableValue::from(line.misses as f64),
            TableValue::from(line.miss_ratio),
        ]
    };
    Table::untitled(
        "operations",
        &[
            ("operation", Unit::Text),
            ("requests", Unit::Count),
            ("throughput", Unit::PerSecond),
            ("errors", Unit::Count),
            ("hits", Unit::Count),
            ("misses", Unit::Count),
            ("miss ratio", Unit::Share),
        ],
        lines(summary).map(row).collect(),
    )
}

fn times(summary: &ProxySummary) -> Table {
    let rows = lines(summary).flat_map(|line| {
        let row = move |name: &str, times: &TimePercentiles| {
            vec![
                TableValue::from(line.operation.as_str()),
                TableValue::from(name),
                TableValue::from(times.mean),
                TableValue::from(times.p50),
                TableValue::from(times.p90),
                TableValue::from(times.p99),
                TableValue::from(times.p999),
            ]
        };
        [
            row("queue", &line.queue),
            row("server", &line.server),
            row("own", &line.own),
            row("response", &line.response),
        ]
    });
    Table::untitled(
        "times",
        &[
            ("operation", Unit::Text),
            ("time", Unit::Text),
            ("mean", Unit::Seconds),
            ("p50", Unit::Seconds),
            ("p90", Unit::Seconds),
            ("p99", Unit::Seconds),
            ("p99.9", Unit::Seconds),
        ],
        rows.collect(),
    )
}

fn servers(summary: &ProxySummary) -> Table {
    let row = |server: &krarup_proxy::stats::ServerStatistics| {
        vec![
            TableValue::from(server.name.as_str()),
            TableValue::from(server.version.as_deref().unwrap_or("never up")),
            TableValue::from(server.requests as f64),
            TableValue::from(server.errors as f64),
            TableValue::from(server.losses as f64),
            TableValue::from(server.mean),
            TableValue::from(server.p99),
        ]
    };
    Table::untitled(
        "servers",
        &[
            ("server", Unit::Text),
            ("version", Unit::Text),
            ("requests", Unit::Count),
            ("errors", Unit::Count),
            ("losses", Unit::Count),
            ("mean", Unit::Seconds),
            ("p99", Unit::Seconds),
        ],
        summary.servers.iter().map(row).collect(),
    )
}
