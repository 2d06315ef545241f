//! Every metric, in one table: its name, its kind, what it means and where its value comes from.
//! The reference page and what Prometheus reads are both made from it.

use krarup_model::headroom::{HEADROOM_METRICS, HeadroomMetric};
use krarup_model::hot_keys::PoolHotKeys;
use krarup_record::exposition::{self, Described, TimeBuckets};
use krarup_record::{LoopUse, Quantity, VisitTally};

use super::snapshot::{OfPool, OfServer, ProxySnapshot};

/// One metric.
pub struct ProxyMetric {
    /// Its name, after the conventions of Prometheus: the unit last, `_total` where it only grows.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    pub(super) value: MetricSource,
}

/// Where values come from, which also says of what kind a metric is and what labels it has.
pub(super) enum MetricSource {
    /// One number; none where it does not apply.
    Gauge(fn(&ProxySnapshot) -> Option<f64>),
    Counter(fn(&ProxySnapshot) -> f64),
    /// One number for each event loop.
    Loop(fn(&LoopUse) -> f64),
    /// What is said of the headroom.
    Headroom(HeadroomMetric),
    /// One number for each pool of which a request was sampled; none where it does not apply.
    PoolKeys(fn(&PoolHotKeys) -> Option<f64>),
    /// 1, with the version as a label.
    Version,
    /// One number for each operation that was seen.
    Operation(fn(&VisitTally) -> u64),
    /// A histogram for each operation that was seen.
    OperationTimes(Quantity),
    ServerGauge(fn(&OfServer) -> f64),
    Server(fn(&OfServer) -> u64),
    ServerTimes(fn(&OfServer) -> &TimeBuckets),
    PoolGauge(fn(&OfPool) -> f64),
    Pool(fn(&OfPool) -> u64),
}

const fn gauge(
    name: &'static str,
    value: fn(&ProxySnapshot) -> Option<f64>,
    help: &'static str,
) -> ProxyMetric {
    ProxyMetric { name, help, value: MetricSource::Gauge(value) }
}

const fn counter(name: &'static str, value: fn(&ProxySnapshot) -> f64, help: &'static str) -> ProxyMetric {
    ProxyMetric { name, help, value: MetricSource::Counter(value) }
}

const fn of_loop(name: &'static str, value: fn(&LoopUse) -> f64, help: &'static str) -> ProxyMetric {
    ProxyMetric { name, help, value: MetricSource::Loop(value) }
}

const fn of_headroom(metric: HeadroomMetric) -> ProxyMetric {
    ProxyMetric { name: metric.name, help: metric.help, value: MetricSource::Headroom(metric) }
}

const fn operation(name: &'static str, value: fn(&VisitTally) -> u64, help: &'static str) -> ProxyMetric {
    ProxyMetric { name, help, value: MetricSource::Operation(value) }
}

const fn times(name: &'static str, quantity: Quantity, help: &'static str) -> ProxyMetric {
    ProxyMetric { name, help, value: MetricSource::OperationTimes(quantity) }
}

const fn server(name: &'static str, value: fn(&OfServer) -> u64, help: &'static str) -> ProxyMetric {
    ProxyMetric { name, help, value: MetricSource::Server(value) }
}

const fn server_gauge(name: &'static str, value: fn(&OfServer) -> f64, help: &'static str) -> ProxyMetric {
    ProxyMetric { name, help, value: MetricSource::ServerGauge(value) }
}

const fn pool(name: &'static str, value: fn(&OfPool) -> u64, help: &'static str) -> ProxyMetric {
    ProxyMetric { name, help, value: MetricSource::Pool(value) }
}

const fn pool_gauge(name: &'static str, value: fn(&OfPool) -> f64, help: &'static str) -> ProxyMetric {
    ProxyMetric { name, help, value: MetricSource::PoolGauge(value) }
}

/// Every metric, in the order in which they are told.
pub const TABLE: &[ProxyMetric] = &[
    ProxyMetric {
        name: "krarup_build_info",
        help: "1, with the version as a label.",
        value: MetricSource::Version,
    },
    gauge("krarup_uptime_seconds", |now| Some(now.uptime.as_seconds()), "Time since the proxy began."),
    of_loop("krarup_loop_passes_total", |used| used.passes as f64, "Passes of the event loop."),
    of_loop(
        "krarup_loop_cpu_seconds_total",
        |used| used.processor.as_seconds(),
        "Processor time used by the event loop's thread.",
    ),
    of_loop(
        "krarup_loop_run_queue_seconds_total",
        |used| used.run_queue.as_seconds(),
        "Time in which that thread was ready to run and had no processor: others used them. 0 where the kernel does not say.",
    ),
    gauge("krarup_client_connections", |now| Some(now.clients as f64), "Clients connected."),
    counter(
        "krarup_client_connections_accepted_total",
        |now| now.events.clients_accepted as f64,
        "Clients that connected.",
    ),
    counter(
        "krarup_client_connections_refused_total",
        |now| now.events.clients_refused as f64,
        "Clients turned away because there were too many.",
    ),
    counter(
        "krarup_requests_accepted_total",
        |now| now.events.requests as f64,
        "Requests accepted, answered or not yet.",
    ),
    gauge(
        "krarup_requests_in_progress",
        |now| Some(now.in_progress as f64),
        "Requests accepted and not yet answered.",
    ),
    gauge(
        "krarup_workers",
        |now| now.workers.map(f64::from),
        "Requests that may be with the servers at once; absent where their number is unlimited.",
    ),
    gauge("krarup_workers_busy", |now| Some(f64::from(now.busy)), "Requests with the servers."),
    gauge("krarup_queue_length", |now| Some(now.waiting as f64), "Requests that wait for a worker."),
    gauge(
        "krarup_queue_length_max",
        |now| Some(now.longest as f64),
        "The longest the queue has been since the start or the last reset.",
    ),
    operation(
        "krarup_requests_total",
        |one| one.count,
        "Requests answered, or whose client left before the reply.",
    ),
    operation(
        "krarup_request_errors_total",
        |one| one.errors,
        "Requests answered with an error, or whose client left before the reply.",
    ),
    operation("krarup_keys_total", |one| one.keys, "Keys named in requests."),
    operation("krarup_hits_total", |one| one.hits, "Keys found."),
    operation("krarup_misses_total", |one| one.misses, "Keys asked for and not found."),
    operation("krarup_received_bytes_total", |one| one.bytes_in, "Bytes of requests from clients."),
    operation("krarup_sent_bytes_total", |one| one.bytes_out, "Bytes of replies to clients."),
    times(
        "krarup_response_time_seconds",
        Quantity::Response,
        "Time from the read of a request's last byte to the write of its reply's last byte.",
    ),
    times("krarup_queue_time_seconds", Quantity::Queue, "The part of it spent waiting for a worker."),
    times(
        "krarup_server_time_seconds",
        Quantity::Server,
        "The part of it from the first byte sent to a server to the last answer; what a further part of a request waited for a reader is in it.",
    ),
    times(
        "krarup_own_time_seconds",
        Quantity::Own,
        "The rest of it: the proxy's own, what a long value waited for room on its server's connection, a hedged read for its first server and a coalesced get for another's answer.",
    ),
    server_gauge(
        "krarup_server_up",
        |one| f64::from(u8::from(one.up)),
        "1 if the server takes requests, else 0.",
    ),
    server_gauge(
        "krarup_server_ejected",
        |one| f64::from(u8::from(one.ejected)),
        "1 while the server is left alone after failures, else 0.",
    ),
    server(
        "krarup_server_requests_total",
        |one| one.requests,
        "Requests, or parts of requests, sent to the server that clients wait for. Shadows, refills and copies behind a write are not among them; `krarup_server_outstanding` and the headroom count these too.",
    ),
    server("krarup_server_errors_total", |one| one.errors, "Those of them that did not end well."),
    server_gauge("krarup_server_outstanding", |one| one.outstanding as f64, "Answers that the server owes."),
    server_gauge(
        "krarup_server_readers_busy",
        |one| one.readers.0 as f64,
        "Readers of the server that hold a read, in pools with `readers`.",
    ),
    server_gauge(
        "krarup_server_read_queue_length",
        |one| one.readers.1 as f64,
        "Reads, or parts of reads, that wait for one of them.",
    ),
    server(
        "krarup_server_losses_total",
        |one| one.losses,
        "Connections to the server lost, and attempts that failed.",
    ),
    ProxyMetric {
        name: "krarup_server_answer_time_seconds",
        help: "Time from the first byte sent to the server to the last of its answer. Without buckets where there are more than 64 servers.",
        value: MetricSource::ServerTimes(|one| &one.times),
    },
    pool_gauge(
        "krarup_pool_servers_up",
        |one| one.servers_up as f64,
        "Servers of the pool that take requests.",
    ),
    pool_gauge(
        "krarup_pool_requests_in_progress",
        |one| f64::from(one.in_progress),
        "Requests for keys of the pool, not yet answered.",
    ),
    pool(
        "krarup_pool_requests_total",
        |one| one.counts.requests,
        "Requests for keys of the pool; one that names keys of several pools counts for that of its first key.",
    ),
    pool(
        "krarup_pool_retries_total",
        |one| one.counts.retries,
        "Reads tried again at another holder of the key after an error.",
    ),
    pool(
        "krarup_pool_miss_retries_total",
        |one| one.counts.miss_retries,
        "Reads tried again at another holder, or at the warm pool, after a miss.",
    ),
    pool("krarup_pool_refills_total", |one| one.counts.refills, "Values stored where they had been missed."),
    pool(
        "krarup_pool_hedges_total",
        |one| one.counts.hedges,
        "Reads sent to a second holder while the first had not answered.",
    ),
    pool(
        "krarup_pool_hedges_won_total",
        |one| one.counts.hedges_won,
        "Those of them that the second answered first.",
    ),
    pool(
        "krarup_pool_coalesced_total",
        |one| one.counts.coalesced,
        "Gets that waited for the answer to the same get.",
    ),
    pool(
        "krarup_pool_shadowed_total",
        |one| one.counts.shadowed,
        "Copies of requests, or of parts of them, sent to servers of the shadow pool.",
    ),
    pool(
        "krarup_pool_dropped_total",
        |one| one.counts.dropped,
        "Copies, refills and shadows not sent because their server was down or had too much before it, and copies that were lost with its connection or refused.",
    ),
    pool(
        "krarup_pool_limited_total",
        |one| one.counts.limited,
        "Requests refused by the pool's rate or concurrency.",
    ),
    pool(
        "krarup_pool_guttered_total",
        |one| one.counts.guttered,
        "Requests that the gutter pool took because the key's holders were down.",
    ),
    pool(
        "krarup_pool_slow_ejections_total",
        |one| one.counts.slow_ejections,
        "Times that a holder was given no reads for a while because it was slow.",
    ),
    counter(
        "krarup_disagreements_total",
        |now| now.events.disagreements as f64,
        "Requests that several servers answered differently.",
    ),
    counter(
        "krarup_desynchronised_total",
        |now| now.events.desynchronised as f64,
        "Connections to servers closed because an answer was not what was asked for.",
    ),
    counter(
        "krarup_server_timeouts_total",
        |now| now.events.timeouts as f64,
        "Connections to servers closed because an answer did not come in time.",
    ),
    counter(
        "krarup_ejections_total",
        |now| now.events.ejections as f64,
        "Servers ejected because they failed time and again.",
    ),
    gauge(
        "krarup_buffers_bytes",
        |now| Some(now.memory.0 as f64),
        "Bytes that wait in buffers, and those reserved for requests that are being read: what `memory` under `[edge]` bounds.",
    ),
    gauge(
        "krarup_memory_short",
        |now| Some(f64::from(u8::from(now.memory.1))),
        "1 while clients wait because of that bound; `/ready` answers 503 then.",
    ),
    counter(
        "krarup_clients_cut_total",
        |now| now.events.clients_cut as f64,
        "Clients disconnected because of that bound: they did not read their replies, or did not go on with a request.",
    ),
    counter(
        "krarup_clients_unknown_total",
        |now| now.events.clients_unknown as f64,
        "Clients disconnected before it was known who they are: too slow, too many, or a wrong password too often.",
    ),
    counter("krarup_logins_failed_total", |now| now.events.logins_failed as f64, "Wrong passwords."),
    counter(
        "krarup_clients_timed_out_total",
        |now| now.events.clients_timed_out as f64,
        "Clients disconnected because they said nothing, or took too long over a request.",
    ),
    counter(
        "krarup_held_back_total",
        |now| now.events.held_back as f64,
        "Times that a client was made to wait: by a bound, for room on a server's connection, or behind its own `cas`.",
    ),
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
    ProxyMetric {
        name: "krarup_hot_key_ratio",
        help: "The largest share of the pool's server time that one key takes, of the last five to ten seconds; absent where no key was sampled five times. `/hotkeys` says which it is.",
        value: MetricSource::PoolKeys(|pool| pool.by_time.first().map(|key| key.share.mean)),
    },
    counter(
        "krarup_disordered_stamps_total",
        |now| now.disordered as f64,
        "Requests whose stamps were not in order; more than none is a bug of the proxy.",
    ),
];

impl ProxyMetric {
    /// `counter`, `gauge` or `histogram`.
    pub fn kind(&self) -> &'static str {
        match self.value {
            MetricSource::Gauge(_)
            | MetricSource::ServerGauge(_)
            | MetricSource::PoolGauge(_)
            | MetricSource::PoolKeys(_)
            | MetricSource::Headroom(..)
            | MetricSource::Version => "gauge",
            MetricSource::Counter(_)
            | MetricSource::Loop(_)
            | MetricSource::Operation(_)
            | MetricSource::Server(_)
            | MetricSource::Pool(_) => "counter",
            MetricSource::OperationTimes(_) | MetricSource::ServerTimes(_) => "histogram",
        }
    }

    /// The label that tells its values apart, if it has one.
    pub fn label(&self) -> Option<&'static str> {
        match self.value {
            MetricSource::Gauge(_) | MetricSource::Counter(_) => None,
            MetricSource::Loop(_) => Some("loop"),
            MetricSource::Headroom(metric) => metric.labels,
            MetricSource::Version => Some("version"),
            MetricSource::Operation(_) | MetricSource::OperationTimes(_) => Some("operation"),
            MetricSource::ServerGauge(_) | MetricSource::Server(_) | MetricSource::ServerTimes(_) => {
                Some("server")
            }
            MetricSource::PoolGauge(_) | MetricSource::PoolKeys(_) | MetricSource::Pool(_) => Some("pool"),
        }
    }
}

/// The reference page.
pub fn page() -> String {
    let mut page = String::from(
        "# Metrics\n\n<!-- Generated: UPDATE=1 cargo test -p krarup-proxy --test all metrics:: -->\n\nWhat `/metrics` tells on the address \
         given with `--admin` or `admin` in the configuration. Counters begin at 0 with the process and never go back: `stats reset` is for `stats` alone.\n\
         Operations are told once they have been seen. The buckets of histograms end at ",
    );
    page += &format!("{} seconds.\n\n", exposition::bounds());
    let described = |metric: &ProxyMetric| Described {
        name: metric.name,
        kind: metric.kind(),
        label: metric.label(),
        help: metric.help,
    };
    page + &exposition::reference(TABLE.iter().map(described))
}
