//! The numbers of one moment as Prometheus reads them: its text format, version 0.0.4.

use std::fmt::{Display, Write};

use super::metrics::{Metric, Source, TABLE};
use super::snapshot::{BOUNDS, Snapshot, Times};

/// What Prometheus is told it reads.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Every metric of the table, with help and kind before its values.
pub(super) fn exposition(now: &Snapshot) -> String {
    let mut out = Text(String::with_capacity(32 << 10));
    for metric in TABLE {
        out.metric(metric, now);
    }
    out.0
}

struct Text(String);

impl Text {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a text takes all");
    }

    fn metric(&mut self, metric: &Metric, now: &Snapshot) {
        let name = metric.name;
        self.line(format_args!("# HELP {name} {}", metric.help));
        self.line(format_args!("# TYPE {name} {}", metric.kind()));
        let label = metric.label().unwrap_or_default();
        match metric.value {
            Source::Gauge(value) => {
                if let Some(value) = value(now) {
                    self.line(format_args!("{name} {value}"));
                }
            }
            Source::Counter(value) => self.line(format_args!("{name} {}", value(now))),
            Source::Version => self.one(name, label, env!("CARGO_PKG_VERSION"), 1),
            Source::Operation(value) => {
                now.operations.iter().for_each(|one| self.one(name, label, one.operation.name(), value(one)));
            }
            Source::OperationTimes(quantity) => {
                for one in &now.operations {
                    self.histogram(name, label, one.operation.name(), &one.times[quantity.index()]);
                }
            }
            Source::ServerGauge(value) => {
                now.servers.iter().for_each(|one| self.one(name, label, &one.name, value(one)));
            }
            Source::Server(value) => {
                now.servers.iter().for_each(|one| self.one(name, label, &one.name, value(one)));
            }
            Source::ServerTimes(times) => {
                now.servers.iter().for_each(|one| self.histogram(name, label, &one.name, times(one)));
            }
            Source::PoolGauge(value) => {
                now.pools.iter().for_each(|one| self.one(name, label, &one.name, value(one)));
            }
            Source::Pool(value) => {
                now.pools.iter().for_each(|one| self.one(name, label, &one.name, value(one)));
            }
        }
    }

    /// One value of several, told apart by what stands in a label.
    fn one(&mut self, name: &str, label: &str, of: &str, value: impl Display) {
        self.line(format_args!("{name}{{{label}=\"{}\"}} {value}", escaped(of)));
    }

    fn histogram(&mut self, name: &str, label: &str, of: &str, times: &Times) {
        let labels = format!("{label}=\"{}\"", escaped(of));
        for (bound, count) in BOUNDS.iter().zip(&times.up_to) {
            let seconds = *bound as f64 / 1e9;
            self.line(format_args!("{name}_bucket{{{labels},le=\"{seconds}\"}} {count}"));
        }
        self.line(format_args!("{name}_bucket{{{labels},le=\"+Inf\"}} {}", times.count));
        self.line(format_args!("{name}_sum{{{labels}}} {}", times.sum.as_seconds()));
        self.line(format_args!("{name}_count{{{labels}}} {}", times.count));
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
