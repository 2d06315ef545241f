//! Every metric of the broker, in one table: its name, its kind, what it means and where its value
//! comes from. The reference page and what Prometheus reads are both made from it.

use krarup_model::headroom::{HEADROOM_METRICS, Headroom, HeadroomMetric};
use krarup_record::exposition::{self, Described, ExpositionText, ProcessMetrics, TimeBuckets};
use krarup_record::{JobSnapshot, Quantity, VisitTally};

use super::snapshot::BrokerSnapshot;
use crate::batches::SIZES;
use crate::queues::Totals;
use crate::report::{
    DrainTime, LatestTimes, OtherTubes, TubeReport, TubeState, TubesReport, WorkersAnswer, reason,
};

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
    /// One that is not known where the database decides.
    OwnersCounter(fn(&BrokerSnapshot) -> Option<u64>),
    /// Messages that stand somewhere.
    States,
    /// One number for each operation that was seen.
    Operation(fn(&VisitTally) -> u64),
    /// A histogram for each operation that was seen.
    OperationTimes(Quantity),
    Times(fn(&BrokerSnapshot) -> &TimeBuckets),
    Sizes,
    /// One number for each tube that is listed, and one for the others together.
    Tube(fn(&TubeReport) -> Option<f64>, fn(&OtherTubes) -> Option<f64>),
    /// One that only grows, of what was kept of a tube.
    TubeTotal(fn(&JobSnapshot) -> f64),
    /// The latest times of services by quantile, with the sum and the number of all.
    TubeServices,
    /// A histogram for each tube that is listed.
    TubeWaits,
    WorkersNeeded,
    WorkersSilent,
    /// What is said of the headroom.
    Headroom(HeadroomMetric),
}

/// What stands for the tubes that are not listed one by one; no tube can have this name.
const OTHERS: &str = "*";

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

const fn tube(
    name: &'static str,
    value: fn(&TubeReport) -> Option<f64>,
    others: fn(&OtherTubes) -> Option<f64>,
    help: &'static str,
) -> BrokerMetric {
    BrokerMetric { name, help, value: Source::Tube(value, others) }
}

const fn tube_total(name: &'static str, value: fn(&JobSnapshot) -> f64, help: &'static str) -> BrokerMetric {
    BrokerMetric { name, help, value: Source::TubeTotal(value) }
}

const fn of_headroom(metric: HeadroomMetric) -> BrokerMetric {
    BrokerMetric { name: metric.name, help: metric.help, value: Source::Headroom(metric) }
}

const WAITING: &str = "krarup_broker_waiting";

/// Every metric, in the order in which they are written.
pub const TABLE: &[BrokerMetric] = &[
    BrokerMetric {
        name: "krarup_build_info",
        help: "1, with the version as a label.",
        value: Source::Version,
    },
    gauge(
        WAITING,
        |_| 0.0,
        "1 while nothing is served here, since another broker owns the queues or they are being loaded: then there are no other metrics but the version and those of the process. 0 otherwise.",
    ),
    gauge("krarup_broker_uptime_seconds", |now| now.service.uptime.as_seconds(), "Since the start."),
    gauge("krarup_broker_clients", |now| now.totals.connections as f64, "Clients connected now."),
    counter(
        "krarup_broker_clients_refused_total",
        |now| now.service.clients_refused as f64,
        "Clients that were turned away, because there were as many as `--connections` allows; with `--shards` they are told on stderr alone.",
    ),
    gauge(
        "krarup_broker_buffers_bytes",
        |now| now.service.buffers.0 as f64,
        "Bytes that wait in buffers, and those reserved for requests that are being read: what `--buffer-memory` bounds.",
    ),
    gauge(
        "krarup_broker_memory_short",
        |now| f64::from(u8::from(now.service.buffers.1)),
        "1 while clients wait because of that bound, else 0.",
    ),
    counter(
        "krarup_broker_clients_cut_total",
        |now| now.service.clients_cut as f64,
        "Clients disconnected because of that bound: they did not read their answers, or did not go on with a request.",
    ),
    gauge("krarup_broker_producers", |now| now.totals.producers as f64, "Clients that have put something."),
    gauge("krarup_broker_workers", |now| now.totals.workers as f64, "Clients that have reserved something."),
    gauge(
        "krarup_broker_clients_waiting",
        |now| now.totals.waiting as f64,
        "Clients that wait for a message.",
    ),
    gauge(
        "krarup_broker_tubes",
        |now| now.tubes as f64,
        "Tubes there are; in `batch` and `direct` those of clients here, or those in which messages are ready where they are more.",
    ),
    BrokerMetric {
        name: "krarup_broker_messages",
        help: "Messages by where they stand; the urgent are among the ready. In `batch` and `direct` those of all brokers, as the database told a second ago.",
        value: Source::States,
    },
    gauge(
        "krarup_broker_memory_bytes",
        |now| now.memory as f64,
        "Memory that messages and the keys of `put-unique` are counted with; in `batch` and `direct` those on their way to the database.",
    ),
    counter("krarup_broker_messages_put_total", |now| now.totals.jobs as f64, "Messages that were put here."),
    counter(
        "krarup_broker_messages_expired_total",
        |now| now.totals.expired as f64,
        "Messages that were gone because they had waited too long.",
    ),
    BrokerMetric {
        name: "krarup_broker_leases_expired_total",
        help: "Leases that ran out; absent in `batch` and `direct`.",
        value: Source::OwnersCounter(|now| now.service.timeouts),
    },
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
        "1 if the store can be reached, answers, takes what it is given and refuses no look and no sweep, else 0.",
    ),
    gauge(
        "krarup_broker_store_queue_length",
        |now| now.waiting as f64,
        "Requests that wait for a connection to the store to be free.",
    ),
    gauge("krarup_broker_store_requests", |now| now.with_store as f64, "Requests that are with the store."),
    gauge("krarup_broker_store_connections_busy", |now| now.busy as f64, "Connections to the store at work."),
    counter(
        "krarup_broker_commits_total",
        |now| now.service.commits as f64,
        "Statements committed that changed something for a client.",
    ),
    counter(
        "krarup_broker_written_total",
        |now| now.service.written as f64,
        "Messages written or deleted by them; in `batch` and `direct` requests that changed something.",
    ),
    BrokerMetric {
        name: "krarup_broker_batch_requests",
        help: "Requests that shared one of these statements and its commit.",
        value: Source::Sizes,
    },
    BrokerMetric {
        name: "krarup_broker_statement_time_seconds",
        help: "Time of one of them, its commit included.",
        value: Source::Times(|now| &now.statements),
    },
    operation(
        "krarup_broker_requests_total",
        |one| one.count,
        "Requests answered, or whose client left before the reply.",
    ),
    operation(
        "krarup_broker_errors_total",
        |one| one.errors,
        "Requests answered with an error, or whose client left before the reply.",
    ),
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
    BrokerMetric {
        name: "krarup_broker_workers_needed",
        help: "Workers with which the tube's messages are handed out within the target; absent without a conclusion.",
        value: Source::WorkersNeeded,
    },
    BrokerMetric {
        name: "krarup_broker_workers_needed_silent",
        help: "1 for the reason why there is no conclusion about the workers that a tube needs.",
        value: Source::WorkersSilent,
    },
    tube(
        "krarup_broker_tube_ready",
        |tube| Some(tube.ready? as f64),
        |others| Some(others.ready? as f64),
        "Messages of the tube that wait, the fullest tubes one by one, all others as tube `*`; in `batch` and `direct` those of all brokers, as the database told a second ago.",
    ),
    tube(
        "krarup_broker_tube_arrivals_per_second",
        |tube| tube.arrivals_per_s,
        |others| others.arrivals_per_s,
        "Messages of the tube that became ready, per second of the last ten minutes, or of the last where they are many; in `batch` and `direct` a delayed one counts at its put.",
    ),
    tube(
        "krarup_broker_tube_oldest_age_seconds",
        |tube| tube.oldest_s,
        |others| others.oldest_s,
        "Time since the put of the tube's oldest message that waits; in `batch` and `direct` of those that are for any client.",
    ),
    tube(
        "krarup_broker_tube_consumers_busy",
        |tube| Some(tube.busy_consumers as f64),
        |others| Some(others.busy_consumers as f64),
        "Messages of the tube that are with a consumer: one that holds several is as many.",
    ),
    tube(
        "krarup_broker_tube_consumers_waiting",
        |tube| Some(tube.waiting_consumers as f64),
        |others| Some(others.waiting_consumers as f64),
        "Consumers that wait for a message of the tube.",
    ),
    tube(
        "krarup_broker_tube_utilization_ratio",
        |tube| tube.utilization,
        |_| None,
        "The share of their time that the tube's consumers work; above 1 its queue grows; absent in `batch` and `direct`, where those at other brokers are not known.",
    ),
    tube(
        "krarup_broker_tube_drain_seconds",
        |tube| match tube.drained_in {
            DrainTime::Seconds(seconds) => Some(seconds),
            DrainTime::Never => Some(f64::INFINITY),
            DrainTime::Unknown => None,
        },
        |_| None,
        "When no message of the tube waits any more if it goes on so, `+Inf` for never; absent in `batch` and `direct` while some wait, where there is no consumer or none has finished anything yet, and where no consumer that waits may take them, as of a paused tube.",
    ),
    tube_total(
        "krarup_broker_tube_arrivals_total",
        |jobs| jobs.arrived as f64,
        "Messages of the tube that became ready, those given back once more; in `batch` and `direct` a delayed one counts at its put.",
    ),
    tube_total(
        "krarup_broker_tube_redeliveries_total",
        |jobs| jobs.redelivered as f64,
        "Messages of the tube that were handed out and had been before.",
    ),
    tube_total(
        "krarup_broker_tube_given_up_total",
        |jobs| jobs.given_up as f64,
        "Leases of the tube that ended with the message not done.",
    ),
    tube_total(
        "krarup_broker_tube_held_seconds_total",
        |jobs| jobs.held,
        "Time from the hand-out of a message of the tube to the end of its lease, of all leases that ended, those given up too.",
    ),
    BrokerMetric {
        name: "krarup_broker_tube_service_time_seconds",
        help: "Time from the hand-out of a message to its delete; quantiles are of the latest 1,024.",
        value: Source::TubeServices,
    },
    BrokerMetric {
        name: "krarup_broker_tube_waiting_time_seconds",
        help: "Time from when a message of the tube was ready to its hand-out.",
        value: Source::TubeWaits,
    },
    of_headroom(HEADROOM_METRICS[0]),
    of_headroom(HEADROOM_METRICS[1]),
    of_headroom(HEADROOM_METRICS[2]),
    of_headroom(HEADROOM_METRICS[3]),
    of_headroom(HEADROOM_METRICS[4]),
    of_headroom(HEADROOM_METRICS[5]),
    of_headroom(HEADROOM_METRICS[6]),
    of_headroom(HEADROOM_METRICS[7]),
    of_headroom(HEADROOM_METRICS[8]),
    of_headroom(HEADROOM_METRICS[9]),
];

impl BrokerMetric {
    /// What Prometheus calls its kind.
    pub const fn kind(&self) -> &'static str {
        match self.value {
            Source::Version
            | Source::Gauge(_)
            | Source::States
            | Source::Tube(..)
            | Source::WorkersNeeded
            | Source::WorkersSilent
            | Source::Headroom(_) => "gauge",
            Source::Counter(_) | Source::OwnersCounter(_) | Source::Operation(_) | Source::TubeTotal(_) => {
                "counter"
            }
            Source::OperationTimes(_) | Source::Times(_) | Source::Sizes | Source::TubeWaits => "histogram",
            Source::TubeServices => "summary",
        }
    }

    /// What tells its values apart, if there are several.
    pub const fn label(&self) -> Option<&'static str> {
        match self.value {
            Source::Version => Some("version"),
            Source::States => Some("state"),
            Source::Operation(_) | Source::OperationTimes(_) => Some("operation"),
            Source::Tube(..) | Source::TubeTotal(_) | Source::TubeWaits => Some("tube"),
            Source::TubeServices => Some("tube, quantile"),
            Source::WorkersNeeded => Some("tube, target, bound"),
            Source::WorkersSilent => Some("tube, reason"),
            Source::Headroom(metric) => metric.labels,
            Source::Gauge(_)
            | Source::Counter(_)
            | Source::OwnersCounter(_)
            | Source::Times(_)
            | Source::Sizes => None,
        }
    }
}

/// What a broker shows that serves nothing yet, as Prometheus reads it.
pub fn waiting(process: &ProcessMetrics) -> String {
    let mut text = ExpositionText(String::new());
    text.process(process);
    for metric in TABLE {
        let label = metric.label().unwrap_or_default();
        match metric.value {
            Source::Version => {
                text.head(metric.name, metric.kind(), metric.help);
                text.one(metric.name, label, env!("CARGO_PKG_VERSION"), 1);
            }
            Source::Gauge(_) if metric.name == WAITING => {
                text.head(metric.name, metric.kind(), metric.help);
                text.value(metric.name, 1);
            }
            _ => {}
        }
    }
    text.0
}

/// The process's metrics and every one of the table, with help and kind before their values.
/// Without an answer about headroom its metrics have no value.
pub fn exposition(now: &BrokerSnapshot, process: &ProcessMetrics, headroom: Option<&Headroom>) -> String {
    let mut text = ExpositionText(String::with_capacity(32 << 10));
    text.process(process);
    let tubes = now.tubes();
    let kept = || now.first_tubes().iter().filter_map(|tube| Some((tube.name.as_str(), tube.jobs.as_ref()?)));
    for metric in TABLE {
        let name = metric.name;
        text.head(name, metric.kind(), metric.help);
        let label = metric.label().unwrap_or_default();
        match metric.value {
            Source::Version => text.one(name, label, env!("CARGO_PKG_VERSION"), 1),
            Source::Gauge(value) | Source::Counter(value) => text.value(name, value(now)),
            Source::OwnersCounter(value) => {
                value(now).into_iter().for_each(|value| text.value(name, value));
            }
            Source::States => STATES
                .iter()
                .filter(|_| now.knows_messages)
                .for_each(|(state, value)| text.one(name, label, state, value(&now.totals))),
            Source::Operation(value) => text.operations(name, &now.operations, value),
            Source::OperationTimes(quantity) => text.operation_times(name, &now.operations, quantity),
            Source::Times(times) => text.histogram(name, None, times(now)),
            Source::Sizes => {
                let sizes = &now.batches;
                let up_to = SIZES.iter().map(|size| *size as f64).zip(sizes.up_to.iter().copied());
                text.buckets(name, None, up_to, sizes.count, sizes.sum as f64);
            }
            Source::Tube(value, others) => {
                let listed = tubes.tubes.iter().map(|tube| (tube.tube.as_str(), value(tube)));
                let others = Some((OTHERS, others(&tubes.others))).filter(|_| tubes.others.tubes > 0);
                for (tube, value) in listed.chain(others) {
                    value.into_iter().for_each(|value| text.one(name, label, tube, number(value)));
                }
            }
            Source::TubeTotal(value) => {
                kept().for_each(|(tube, jobs)| text.one(name, label, tube, value(jobs)));
            }
            Source::TubeServices => {
                for (state, tube) in now.first_tubes().iter().zip(&tubes.tubes) {
                    services(&mut text, name, state, tube);
                }
            }
            Source::TubeWaits => {
                kept().for_each(|(tube, jobs)| text.histogram(name, Some((label, tube)), &jobs.waiting));
            }
            Source::WorkersNeeded => {
                tubes.tubes.iter().for_each(|tube| needed(&mut text, name, tube, &tubes));
            }
            Source::Headroom(metric) => {
                for one in headroom.map(metric.values).into_iter().flatten() {
                    text.labelled(name, &one.labels, one.value);
                }
            }
            Source::WorkersSilent => tubes.tubes.iter().for_each(|tube| {
                if let Some(WorkersAnswer::Silent(why)) = tube.workers {
                    let labels = [("tube", tube.tube.clone()), ("reason", reason(why).to_owned())];
                    text.labelled(name, &labels, 1);
                }
            }),
        }
    }
    text.0
}

/// As Prometheus reads it.
fn number(value: f64) -> String {
    if value.is_infinite() { "+Inf".to_owned() } else { value.to_string() }
}

/// The services of a tube as a summary.
fn services(text: &mut ExpositionText, name: &str, state: &TubeState, tube: &TubeReport) {
    let Some(jobs) = &state.jobs else { return };
    if let Some(LatestTimes { p50, p95, p99, .. }) = tube.service_s {
        for (quantile, time) in [("0.5", p50), ("0.95", p95), ("0.99", p99)] {
            text.labelled(name, &[("tube", tube.tube.clone()), ("quantile", quantile.to_owned())], time);
        }
    }
    text.one(&format!("{name}_sum"), "tube", &tube.tube, jobs.service);
    text.one(&format!("{name}_count"), "tube", &tube.tube, jobs.done);
}

/// How many workers a tube needs, if there is a conclusion.
fn needed(text: &mut ExpositionText, name: &str, tube: &TubeReport, all: &TubesReport) {
    let Some(WorkersAnswer::Needed(needed)) = tube.workers else { return };
    for (bound, workers) in [("low", needed.low), ("mean", needed.mean), ("high", needed.high)] {
        let labels =
            [("tube", tube.tube.clone()), ("target", all.target.to_string()), ("bound", bound.to_owned())];
        text.labelled(name, &labels, workers);
    }
}

/// The reference page.
pub fn page() -> String {
    let mut page = String::from(
        "# Metrics of the broker\n\n<!-- Generated: UPDATE=1 cargo test -p krarup-broker --test metrics -->\n\nWhat `/metrics` tells on the \
         address given with `krarup broker --admin`. Counters begin at 0 with the process. Operations are told once they have been seen.\n\
         The buckets of times end at ",
    );
    let sizes: Vec<_> = SIZES.iter().map(u64::to_string).collect();
    let (bounds, further) = (exposition::bounds(), exposition::further_waiting_bounds());
    let sizes = sizes.join(", ");
    page += &format!(
        "{bounds} seconds, those of a tube's waiting times at {further} as well, those of batches at {sizes}.\n\n"
    );
    let described = |metric: &BrokerMetric| Described {
        name: metric.name,
        kind: metric.kind(),
        label: metric.label(),
        help: metric.help,
    };
    page + &exposition::reference(TABLE.iter().map(described))
}
