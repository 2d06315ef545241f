//! The numbers of one moment as Prometheus reads them.

use krarup_model::headroom::Headroom;
use krarup_model::hot_keys::HotKeys;
use krarup_record::exposition::{ExpositionText, ProcessMetrics};

use super::snapshot::ProxySnapshot;
use super::table::{MetricSource, ProxyMetric, TABLE};

/// The process's metrics and every one of the table, with help and kind before its values. Without
/// an answer about headroom its metrics have no value.
pub fn exposition(now: &ProxySnapshot, process: &ProcessMetrics, headroom: Option<&Headroom>) -> String {
    let mut out = ExpositionText(String::with_capacity(32 << 10));
    out.process(process);
    let keys = now.hot_keys();
    for metric in TABLE {
        tell(&mut out, metric, now, headroom, &keys);
    }
    out.0
}

fn tell(
    out: &mut ExpositionText,
    metric: &ProxyMetric,
    now: &ProxySnapshot,
    headroom: Option<&Headroom>,
    keys: &HotKeys,
) {
    let name = metric.name;
    out.head(name, metric.kind(), metric.help);
    let label = metric.label().unwrap_or_default();
    match metric.value {
        MetricSource::Gauge(value) => {
            if let Some(value) = value(now) {
                out.value(name, value);
            }
        }
        MetricSource::Counter(value) => out.value(name, value(now)),
        MetricSource::Loop(value) => {
            for (number, used) in now.loops.iter().enumerate() {
                out.one(name, label, &number.to_string(), value(used));
            }
        }
        MetricSource::Headroom(metric) => {
            for one in headroom.map(metric.values).into_iter().flatten() {
                out.labelled(name, &one.labels, one.value);
            }
        }
        MetricSource::PoolKeys(value) => {
            for one in &keys.pools {
                value(one).into_iter().for_each(|value| out.one(name, label, &one.pool, value));
            }
        }
        MetricSource::Version => out.one(name, label, env!("CARGO_PKG_VERSION"), 1),
        MetricSource::Operation(value) => {
            out.operations(name, &now.operations, value);
        }
        MetricSource::OperationTimes(quantity) => out.operation_times(name, &now.operations, quantity),
        MetricSource::ServerGauge(value) => {
            now.servers.iter().for_each(|one| out.one(name, label, &one.name, value(one)));
        }
        MetricSource::Server(value) => {
            now.servers.iter().for_each(|one| out.one(name, label, &one.name, value(one)));
        }
        MetricSource::ServerTimes(times) => {
            now.servers.iter().for_each(|one| out.histogram(name, Some((label, &one.name)), times(one)));
        }
        MetricSource::PoolGauge(value) => {
            now.pools.iter().for_each(|one| out.one(name, label, &one.name, value(one)));
        }
        MetricSource::Pool(value) => {
            now.pools.iter().for_each(|one| out.one(name, label, &one.name, value(one)));
        }
    }
}
