//! The numbers of one moment as Prometheus reads them.

use krarup_record::exposition::{Process, Text};

use super::snapshot::Snapshot;
use super::table::{Metric, Source, TABLE};

/// Every metric of the table, with help and kind before its values.
pub fn exposition(now: &Snapshot, process: &Process) -> String {
    let mut out = Text(String::with_capacity(32 << 10));
    for metric in TABLE {
        tell(&mut out, metric, now, process);
    }
    out.0
}

fn tell(out: &mut Text, metric: &Metric, now: &Snapshot, process: &Process) {
    let name = metric.name;
    out.head(name, metric.kind(), metric.help);
    let label = metric.label().unwrap_or_default();
    match metric.value {
        Source::Gauge(value) => {
            if let Some(value) = value(now) {
                out.value(name, value);
            }
        }
        Source::Counter(value) => out.value(name, value(now)),
        Source::ProcessGauge(value) => {
            if let Some(value) = value(process) {
                out.value(name, value);
            }
        }
        Source::ProcessCounter(value) => out.value(name, value(process)),
        Source::Version => out.one(name, label, env!("CARGO_PKG_VERSION"), 1),
        Source::Operation(value) => {
            out.operations(name, &now.operations, value);
        }
        Source::OperationTimes(quantity) => out.operation_times(name, &now.operations, quantity),
        Source::ServerGauge(value) => {
            now.servers.iter().for_each(|one| out.one(name, label, &one.name, value(one)));
        }
        Source::Server(value) => {
            now.servers.iter().for_each(|one| out.one(name, label, &one.name, value(one)));
        }
        Source::ServerTimes(times) => {
            now.servers.iter().for_each(|one| out.histogram(name, Some((label, &one.name)), times(one)));
        }
        Source::PoolGauge(value) => {
            now.pools.iter().for_each(|one| out.one(name, label, &one.name, value(one)));
        }
        Source::Pool(value) => {
            now.pools.iter().for_each(|one| out.one(name, label, &one.name, value(one)));
        }
    }
}
