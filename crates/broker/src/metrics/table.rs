//! Every metric of the broker, in one table: its name, its kind, what it means and where its value
//! comes from. The reference page and what Prometheus reads are both made from it.

use krarup_record::exposition::{self, Described, ExpositionText, ProcessMetrics, TimeBuckets};
use krarup_record::{Quantity, VisitTally};

use super::snapshot::BrokerSnapshot;
use crate::batches::SIZES;
use crate::queues::Totals;

/// One metric.
pub struct BrokerMetric {
    /// Its name, after the conventions of Prometheus: the unit last, `_total` where it only grows.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    value: Source,
}

/// Where values come from, which also says of what kind a metric is and what labels it has.
enum Source {
    Version,
    Gauge(fn(&BrokerSnapshot) -> f64),
    Counter(fn(&BrokerSnapshot) -> f64),
    /// Messages that stand somewhere.
    States,
    /// One number for each operation that was seen.
    Operation(fn(&VisitTally) -> u64),
    /// A histogram for each operation that was seen.
    OperationTimes(Quantity),
    Times(fn(&BrokerSnapshot) -> &TimeBuckets),
    Sizes,
}

/// A name, and the messages that stand there.
type State = (&'static str, fn(&Totals) -> u64);

const STATES: [State; 5] = [
    ("ready", |totals| totals.ready),
    ("urgent", |totals| totals.urgent),
    ("reserved", |totals| totals.reserved),
    ("delayed", |totals| totals.delayed),
    ("buried", |totals| totals.buried),
];

const fn gauge(name: &'static str, value: fn(&BrokerSnapshot) -> f64, help: &'static str) -> BrokerMetric {
    BrokerMetric { name, help, value: Source::Gauge(value) }
}

const fn counter(name: &'static str, value: fn(&BrokerSnapshot) -> f64, help: &'static str) -> BrokerMetric {
    BrokerMetric { name, help, value: Source::Counter(value) }
}

const fn operation(name: &'static str, value: fn(&VisitTally) -> u64, help: &'static str) -> BrokerMetric {
    BrokerMetric { name, help, value: Source::Operation(value) }
}

const fn times(name: &'static str, quantity: Quantity, help: &'static str) -> BrokerMetric {
    BrokerMetric { name, help, value: Source::OperationTimes(quantity) }
}

/// Every metric, in the order in which they are written.
pub const TABLE: &[BrokerMetric] = &[
    BrokerMetric {
        name: "krarup_build_info",
        help: "1, with the version as a label.",
        value: Source::Version,
    },
    gauge("krarup_broker_uptime_seconds", |now| now.service.uptime.as_seconds(), "Since the start."),
    gauge("krarup_broker_clients", |now| now.totals.connections as f64, "Clients connected now."),
    gauge("krarup_broker_producers", |now| now.totals.producers as f64, "Clients that have put something."),
    gauge("krarup_broker_workers", |now| now.totals.workers as f64, "Clients that have reserved something."),
    gauge(
        "krarup_broker_clients_waiting",
        |now| now.totals.waiting as f64,
        "Clients that wait for a message.",
    ),
    gauge("krarup_broker_tubes", |now| now.tubes as f64, "Tubes there are."),
    BrokerMetric {
        name: "krarup_broker_messages",
        help: "Messages by where they stand; the urgent are among the ready.",
        value: Source::States,
    },
    gauge("krarup_broker_memory_bytes", |now| now.memory as f64, "Memory that messages are counted with."),
    counter("krarup_broker_messages_put_total", |now| now.totals.jobs as f64, "Messages that were put."),
    counter(
        "krarup_broker_messages_expired_total",
        |now| now.totals.expired as f64,
        "Messages that were gone because they had waited too long.",
    ),
    counter("krarup_broker_leases_expired_total", |now| now.totals.timeouts as f64, "Leases that ran out."),
    gauge(
        "krarup_broker_draining",
        |now| f64::from(u8::from(now.service.draining)),
        "1 if no more messages are accepted, else 0.",
    ),
    gauge(
        "krarup_broker_unanswered",
        |now| now.service.unanswered as f64,
        "Requests that wait for a commit or a message.",
    ),
    gauge(
        "krarup_broker_store_takes",
        |now| f64::from(u8::from(now.store_takes)),
        "1 if the store can be reached and takes what it is given, else 0.",
    ),
    gauge(
        "krarup_broker_store_queue_length",
        |now| now.waiting as f64,
        "Requests that wait for a connection to the store to be free.",
    ),
    gauge("krarup_broker_store_requests", |now| now.with_store as f64, "Requests that are with the store."),
    gauge("krarup_broker_store_connections_busy", |now| now.busy as f64, "Connections to the store at work."),
    counter("krarup_broker_commits_total", |now| now.service.commits as f64, "Statements committed."),
    counter(
        "krarup_broker_written_total",
        |now| now.service.written as f64,
        "Messages written or deleted by them.",
    ),
    BrokerMetric {
        name: "krarup_broker_batch_requests",
        help: "Requests that shared one statement and its commit.",
        value: Source::Sizes,
    },
    BrokerMetric {
        name: "krarup_broker_statement_time_seconds",
        help: "Time of one statement, its commit included.",
        value: Source::Times(|now| &now.statements),
    },
    operation("krarup_broker_requests_total", |one| one.count, "Requests answered."),
    operation("krarup_broker_errors_total", |one| one.errors, "Requests answered with an error."),
    operation("krarup_broker_received_bytes_total", |one| one.bytes_in, "Bytes of requests from clients."),
    operation("krarup_broker_sent_bytes_total", |one| one.bytes_out, "Bytes of answers to clients."),
    times(
        "krarup_broker_response_time_seconds",
        Quantity::Response,
        "Time from the read of a request's last byte to the write of its answer's last byte.",
    ),
    times(
        "krarup_broker_queue_time_seconds",
        Quantity::Queue,
        "The part of it spent waiting for the store to be free.",
    ),
    times(
        "krarup_broker_store_time_seconds",
        Quantity::Server,
        "The part of it that the store took, its commit included.",
    ),
    times("krarup_broker_own_time_seconds", Quantity::Own, "The rest of it, waiting for a message included."),
];

impl BrokerMetric {
    /// What Prometheus calls its kind.
    pub const fn kind(&self) -> &'static str {
        match self.value {
            Source::Version | Source::Gauge(_) | Source::States => "gauge",
            Source::Counter(_) | Source::Operation(_) => "counter",
            Source::OperationTimes(_) | Source::Times(_) | Source::Sizes => "histogram",
        }
    }

    /// What tells its values apart, if there are several.
    pub const fn label(&self) -> Option<&'static str> {
        match self.value {
            Source::Version => Some("version"),
            Source::States => Some("state"),
            Source::Operation(_) | Source::OperationTimes(_) => Some("operation"),
            Source::Gauge(_) | Source::Counter(_) | Source::Times(_) | Source::Sizes => None,
        }
    }
}

/// The process's metrics and every one of the table, with help and kind before their values.
pub fn exposition(now: &BrokerSnapshot, process: &ProcessMetrics) -> String {
    let mut text = ExpositionText(String::with_capacity(32 << 10));
    text.process(process);
    for metric in TABLE {
        let name = metric.name;
        text.head(name, metric.kind(), metric.help);
        let label = metric.label().unwrap_or_default();
        match metric.value {
            Source::Version => text.one(name, label, env!("CARGO_PKG_VERSION"), 1),
            Source::Gauge(value) | Source::Counter(value) => text.value(name, value(now)),
            Source::States => {
                STATES.iter().for_each(|(state, value)| text.one(name, label, state, value(&now.totals)));
            }
            Source::Operation(value) => text.operations(name, &now.operations, value),
            Source::OperationTimes(quantity) => text.operation_times(name, &now.operations, quantity),
            Source::Times(times) => text.histogram(name, None, times(now)),
            Source::Sizes => {
                let sizes = &now.batches;
                let up_to = SIZES.iter().map(|size| *size as f64).zip(sizes.up_to.iter().copied());
                text.buckets(name, None, up_to, sizes.count, sizes.sum as f64);
            }
        }
    }
    text.0
}

/// The reference page.
pub fn page() -> String {
    let mut page = String::from(
        "# Metrics of the broker\n\n<!-- Generated: UPDATE=1 cargo test -p krarup-broker --test metrics -->\n\nWhat `/metrics` tells on the \
         address given with `krarup broker --admin`. Counters begin at 0 with the process. Operations are told once they have been seen.\n\
         The buckets of times end at ",
    );
    let sizes: Vec<_> = SIZES.iter().map(u64::to_string).collect();
    page += &format!("{} seconds, those of batches at {}.\n\n", exposition::bounds(), sizes.join(", "));
    let described = |metric: &BrokerMetric| Described {
        name: metric.name,
        kind: metric.kind(),
        label: metric.label(),
        help: metric.help,
    };
    page + &exposition::reference(TABLE.iter().map(described))
}
