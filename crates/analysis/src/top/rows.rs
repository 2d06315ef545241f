//! What several processes do, row by row: their counters summed, their histograms put together.

use std::collections::BTreeSet;

use krarup_record::exposition::read::BucketedTimes;
use krarup_units::Seconds;
use serde::{Serialize, Serializer};

use super::look::{LookPair, MetricNames, ServiceKind};

/// What processes do together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TopTotals {
    /// Requests answered per second.
    pub throughput_per_s: f64,
    /// Of these, those answered with an error, or whose client left before the reply.
    pub errors_per_s: f64,
    /// Median response time, without those of `reserve` and `pop`, which wait for a message; none:
    /// nothing was answered.
    pub p50_s: Option<Seconds>,
    /// The response time that 99 % do not exceed, likewise.
    pub p99_s: Option<Seconds>,
    /// Clients connected.
    pub clients: f64,
    /// Processors kept busy.
    pub processors: f64,
}

/// The queue and the workers of proxies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TopQueue {
    /// Requests that wait for a worker.
    pub waiting: f64,
    /// Requests with the servers.
    pub busy_workers: f64,
    /// How many may be; none: unlimited in one proxy at least.
    pub workers: Option<f64>,
    /// Servers that take requests, each counted by every proxy that has it.
    pub servers_up: f64,
    /// All servers, counted likewise.
    pub servers: f64,
}

/// The messages and the store of brokers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TopStore {
    /// Messages that wait; none, as of the next three: the database has not told.
    pub ready: Option<f64>,
    /// Messages with a consumer.
    pub reserved: Option<f64>,
    /// Messages that are not due yet.
    pub delayed: Option<f64>,
    /// Messages that were put aside.
    pub buried: Option<f64>,
    /// Tubes.
    pub tubes: f64,
    /// Clients that wait for a message.
    pub clients_waiting: f64,
    /// Requests that wait for the store.
    pub queue_length: f64,
    /// Requests that are with it.
    pub requests: f64,
    /// Connections to it at work.
    pub connections_busy: f64,
    /// Brokers for which it is at fault: it cannot be reached, does not answer, or refuses a write,
    /// a read or a sweep.
    pub at_fault: f64,
    /// Statements committed per second.
    pub commits_per_s: f64,
    /// Requests that shared one statement, in the mean; none: no statement.
    pub requests_per_commit: Option<f64>,
}

/// A server, as all proxies see it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TopServer {
    /// Its name.
    pub server: String,
    /// Proxies for which it takes requests.
    pub up: u32,
    /// Proxies that leave it alone after failures.
    pub ejected: u32,
    /// Proxies that have it.
    pub proxies: u32,
    /// Its share of what is sent to servers, from 0 to 1; none: nothing is.
    pub share: Option<f64>,
    /// Requests, or parts of requests, sent to it per second.
    pub requests_per_s: f64,
    /// Answers that it owes.
    pub outstanding: f64,
    /// Median time from the first byte sent to the last of its answer; none: nothing was answered,
    /// or there are too many servers to keep it of each.
    pub p50_s: Option<Seconds>,
    /// The time that 99 % of its answers do not exceed.
    pub p99_s: Option<Seconds>,
    /// Requests per second that did not end well.
    pub errors_per_s: f64,
    /// Connections lost, and attempts that failed, since the start.
    pub losses: f64,
}

/// A pool, of all proxies that have one of this name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TopPool {
    /// Its name.
    pub pool: String,
    /// Servers of it that take requests, each counted by every proxy.
    pub servers_up: f64,
    /// Requests for its keys per second.
    pub requests_per_s: f64,
    /// Requests for its keys that are not answered yet.
    pub in_progress: f64,
    /// Reads tried at another holder after an error, per second.
    pub retries_per_s: f64,
    /// The same after a miss.
    pub miss_retries_per_s: f64,
    /// Values stored where they were missed, per second.
    pub refills_per_s: f64,
    /// Reads sent to a second holder, per second.
    pub hedges_per_s: f64,
    /// Gets that waited for the answer to the same get, per second.
    pub coalesced_per_s: f64,
    /// Requests refused by its limits, per second.
    pub limited_per_s: f64,
    /// Copies, refills and shadows not sent, and copies that failed, per second.
    pub dropped_per_s: f64,
    /// Requests that the gutter pool took, per second.
    pub guttered_per_s: f64,
}

/// An operation of one kind of service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopOperation {
    /// Which kind of service does it.
    pub service: ServiceKind,
    /// Its name.
    pub operation: String,
    /// Requests answered per second.
    pub throughput_per_s: f64,
    /// Of these, those answered with an error, or whose client left before the reply.
    pub errors_per_s: f64,
    /// Keys found, of those asked for; none: no key was asked for.
    pub hit_ratio: Option<f64>,
    /// Mean time in the queue; none: nothing was answered.
    pub queue_s: Option<Seconds>,
    /// Mean time with servers, or with the store.
    pub behind_s: Option<Seconds>,
    /// Mean of the rest.
    pub own_s: Option<Seconds>,
    /// Mean response time.
    pub response_s: Option<Seconds>,
    /// Its median.
    pub p50_s: Option<Seconds>,
    /// The response time that 99 % do not exceed.
    pub p99_s: Option<Seconds>,
}

/// How many workers a tube needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TubeWorkers {
    /// The target of the waiting time.
    pub target: String,
    /// The low end of the interval.
    pub low: f64,
    /// The estimate.
    pub mean: f64,
    /// The high end.
    pub high: f64,
}

/// A tube, of all brokers that have one of this name; `*` is all that are not listed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TopTube {
    /// Its name.
    pub tube: String,
    /// Messages that wait; none: the database has not told.
    pub ready: Option<f64>,
    /// Messages that are with a consumer.
    pub reserved: f64,
    /// Consumers that wait for a message.
    pub consumers_waiting: f64,
    /// Messages that became ready per second, over the last minutes.
    pub arrivals_per_s: Option<f64>,
    /// Age of the oldest message that waits.
    pub oldest_s: Option<Seconds>,
    /// The time from hand-out to delete that 95 % of the latest do not exceed, of the broker where
    /// it is longest.
    pub service_p95_s: Option<Seconds>,
    /// The time from ready to hand-out that 95 % do not exceed; none: none was handed out, or the
    /// tube was not listed at the look before.
    pub waiting_p95_s: Option<Seconds>,
    /// The share of their time that its consumers work, of the broker where that is most.
    pub utilization: Option<f64>,
    /// How many workers it needs; none: no conclusion.
    pub workers: Option<TubeWorkers>,
    /// Why there is none.
    pub silent: Option<String>,
    /// When no message waits any more if it goes on so, of the broker where that is last; infinite
    /// (`"never"` in JSON): never.
    #[serde(serialize_with = "seconds_or_never")]
    pub drain_s: Option<Seconds>,
}

/// JSON has no number that is infinite, and `null` is what is not known.
fn seconds_or_never<S: Serializer>(time: &Option<Seconds>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(seconds) if seconds.is_infinite() => serializer.serialize_str("never"),
        _ => time.serialize(serializer),
    }
}

/// Operations of a broker that wait for a message: how long says nothing of the broker.
const WAITS: [&str; 2] = ["reserve", "pop"];

/// What an owner of queues tells, and brokers that share them do not.
const TOLD_BY_OWNERS: &str = "krarup_broker_leases_expired_total";

/// How long messages of a tube that is listed have waited, since the start.
const TUBE_WAITS: &str = "krarup_broker_tube_waiting_time_seconds";

/// Workers are estimated of one broker's traffic alone.
const SEVERAL_BROKERS: &str = "several_brokers";

fn sum(pairs: &[&LookPair], of: impl Fn(&LookPair) -> f64) -> f64 {
    pairs.iter().map(|pair| of(pair)).sum()
}

/// What brokers tell of messages: each owner of queues of its own, each that shares them of all.
fn of_messages(pairs: &[&LookPair], of: impl Fn(&LookPair) -> Option<f64>) -> Option<f64> {
    let (owners, sharing): (Vec<&LookPair>, Vec<&LookPair>) =
        pairs.iter().copied().partition(|pair| pair.now.value(TOLD_BY_OWNERS).is_some());
    let owned = owners.into_iter().filter_map(&of);
    owned.chain(sharing.into_iter().filter_map(&of).reduce(f64::max)).reduce(|all, one| all + one)
}

fn times(pairs: &[&LookPair], name: &str, label: Option<(&str, &str)>) -> BucketedTimes {
    pairs.iter().fold(BucketedTimes::default(), |all, pair| all.and(&pair.times(name, label)))
}

/// What tells the values of a metric apart, of any process.
fn labels<'a>(pairs: &[&'a LookPair], name: &str, label: &str) -> BTreeSet<&'a str> {
    pairs.iter().flat_map(|pair| pair.now.labels(name, label)).collect()
}

/// What they do together.
pub(super) fn totals(pairs: &[&LookPair]) -> TopTotals {
    let operations = |pair: &LookPair, name: &str| -> f64 {
        pair.now.labels(name, "operation").iter().map(|of| pair.rate_of(name, "operation", of)).sum()
    };
    let response = pairs.iter().fold(BucketedTimes::default(), |all, pair| {
        let name = pair.kind.names().response;
        let of = pair.now.labels(&format!("{name}_count"), "operation");
        of.into_iter()
            .filter(|of| !WAITS.contains(of))
            .fold(all, |all, of| all.and(&pair.times(name, Some(("operation", of)))))
    });
    TopTotals {
        throughput_per_s: sum(pairs, |pair| operations(pair, pair.kind.names().requests)),
        errors_per_s: sum(pairs, |pair| operations(pair, pair.kind.names().errors)),
        p50_s: response.quantile(0.5),
        p99_s: response.quantile(0.99),
        clients: sum(pairs, |pair| pair.value(pair.kind.names().clients)),
        processors: sum(pairs, |pair| pair.rate("process_cpu_seconds_total")),
    }
}

/// The queue and the workers of proxies.
pub(super) fn queue(pairs: &[&LookPair]) -> TopQueue {
    let up = |pair: &LookPair| -> Vec<f64> {
        let name = "krarup_server_up";
        let servers = pair.now.labels(name, "server");
        servers.iter().filter_map(|server| pair.value_of(name, "server", server)).collect()
    };
    TopQueue {
        waiting: sum(pairs, |pair| pair.value("krarup_queue_length")),
        busy_workers: sum(pairs, |pair| pair.value("krarup_workers_busy")),
        workers: pairs.iter().map(|pair| pair.now.value("krarup_workers")).sum(),
        servers_up: sum(pairs, |pair| up(pair).iter().sum()),
        servers: sum(pairs, |pair| up(pair).len() as f64),
    }
}

/// The messages and the store of brokers.
pub(super) fn store(pairs: &[&LookPair]) -> TopStore {
    let state =
        |state: &str| of_messages(pairs, |pair| pair.value_of("krarup_broker_messages", "state", state));
    let value = |name: &str| sum(pairs, |pair| pair.value(name));
    TopStore {
        ready: state("ready"),
        reserved: state("reserved"),
        delayed: state("delayed"),
        buried: state("buried"),
        tubes: of_messages(pairs, |pair| pair.now.value("krarup_broker_tubes")).unwrap_or(0.0),
        clients_waiting: value("krarup_broker_clients_waiting"),
        queue_length: value("krarup_broker_store_queue_length"),
        requests: value("krarup_broker_store_requests"),
        connections_busy: value("krarup_broker_store_connections_busy"),
        at_fault: pairs.iter().filter(|pair| pair.now.value("krarup_broker_store_takes") == Some(0.0)).count()
            as f64,
        commits_per_s: sum(pairs, |pair| pair.rate("krarup_broker_commits_total")),
        requests_per_commit: times(pairs, "krarup_broker_batch_requests", None).mean(),
    }
}

/// Every server, in the order of names.
pub(super) fn servers(pairs: &[&LookPair]) -> Vec<TopServer> {
    let mut rows: Vec<TopServer> = labels(pairs, "krarup_server_up", "server")
        .into_iter()
        .map(|server| {
            let value = |pair: &LookPair, name: &str| pair.value_of(name, "server", server);
            let all = |name: &str| sum(pairs, |pair| value(pair, name).unwrap_or(0.0));
            let rate = |name: &str| sum(pairs, |pair| pair.rate_of(name, "server", server));
            let times = times(pairs, "krarup_server_answer_time_seconds", Some(("server", server)));
            let has = |pair: &&&LookPair| value(pair, "krarup_server_up").is_some();
            TopServer {
                server: server.to_owned(),
                up: all("krarup_server_up") as u32,
                ejected: all("krarup_server_ejected") as u32,
                proxies: pairs.iter().filter(has).count() as u32,
                share: None,
                requests_per_s: rate("krarup_server_requests_total"),
                outstanding: all("krarup_server_outstanding"),
                p50_s: times.quantile(0.5),
                p99_s: times.quantile(0.99),
                errors_per_s: rate("krarup_server_errors_total"),
                losses: all("krarup_server_losses_total"),
            }
        })
        .collect();
    let sent: f64 = rows.iter().map(|row| row.requests_per_s).sum();
    rows.iter_mut().for_each(|row| row.share = (sent > 0.0).then(|| row.requests_per_s / sent));
    rows
}

/// Every pool, in the order of names.
pub(super) fn pools(pairs: &[&LookPair]) -> Vec<TopPool> {
    let row = |pool: &str| {
        let all = |name: &str| sum(pairs, |pair| pair.value_of(name, "pool", pool).unwrap_or(0.0));
        let rate = |name: &str| sum(pairs, |pair| pair.rate_of(name, "pool", pool));
        TopPool {
            pool: pool.to_owned(),
            servers_up: all("krarup_pool_servers_up"),
            requests_per_s: rate("krarup_pool_requests_total"),
            in_progress: all("krarup_pool_requests_in_progress"),
            retries_per_s: rate("krarup_pool_retries_total"),
            miss_retries_per_s: rate("krarup_pool_miss_retries_total"),
            refills_per_s: rate("krarup_pool_refills_total"),
            hedges_per_s: rate("krarup_pool_hedges_total"),
            coalesced_per_s: rate("krarup_pool_coalesced_total"),
            limited_per_s: rate("krarup_pool_limited_total"),
            dropped_per_s: rate("krarup_pool_dropped_total"),
            guttered_per_s: rate("krarup_pool_guttered_total"),
        }
    };
    labels(pairs, "krarup_pool_servers_up", "pool").into_iter().map(row).collect()
}

/// Every operation of each kind of service, in the order of names.
pub(super) fn operations(pairs: &[&LookPair]) -> Vec<TopOperation> {
    let mut rows = Vec::new();
    for service in [ServiceKind::Proxy, ServiceKind::Broker] {
        let pairs: Vec<_> = pairs.iter().copied().filter(|pair| pair.kind == service).collect();
        let seen = labels(&pairs, service.names().requests, "operation");
        rows.extend(seen.into_iter().map(|operation| of_operation(&pairs, service, operation)));
    }
    rows
}

fn of_operation(pairs: &[&LookPair], service: ServiceKind, operation: &str) -> TopOperation {
    let MetricNames { requests, errors, queue, behind, own, response, .. } = service.names();
    let rate = |name: &str| sum(pairs, |pair| pair.rate_of(name, "operation", operation));
    let times = |name: &str| times(pairs, name, Some(("operation", operation)));
    let (hits, misses) = (rate("krarup_hits_total"), rate("krarup_misses_total"));
    let responses = times(response);
    TopOperation {
        service,
        operation: operation.to_owned(),
        throughput_per_s: rate(requests),
        errors_per_s: rate(errors),
        hit_ratio: (hits + misses > 0.0).then(|| hits / (hits + misses)),
        queue_s: times(queue).mean(),
        behind_s: times(behind).mean(),
        own_s: times(own).mean(),
        response_s: responses.mean(),
        p50_s: responses.quantile(0.5),
        p99_s: responses.quantile(0.99),
    }
}

/// Every tube that is listed, in the order of names.
pub(super) fn tubes(pairs: &[&LookPair]) -> Vec<TopTube> {
    let row = |tube: &str| {
        let known = |name: &str| -> Vec<f64> {
            pairs.iter().filter_map(|pair| pair.value_of(name, "tube", tube)).collect()
        };
        let all = |name: &str| {
            let known = known(name);
            (!known.is_empty()).then(|| known.iter().sum::<f64>())
        };
        let most = |name: &str| known(name).into_iter().reduce(f64::max);
        let services = pairs.iter().filter_map(|pair| service_p95(pair, tube));
        // Where it was among the others before, what it has now was not counted in between.
        let was_listed = |pair: &&LookPair| pair.had(&format!("{TUBE_WAITS}_count"), "tube", tube);
        let listed: Vec<&LookPair> = pairs.iter().copied().filter(was_listed).collect();
        let (workers, silent) = workers_of(pairs, tube);
        TopTube {
            tube: tube.to_owned(),
            ready: of_messages(pairs, |pair| pair.value_of("krarup_broker_tube_ready", "tube", tube)),
            reserved: all("krarup_broker_tube_consumers_busy").unwrap_or(0.0),
            consumers_waiting: all("krarup_broker_tube_consumers_waiting").unwrap_or(0.0),
            arrivals_per_s: all("krarup_broker_tube_arrivals_per_second"),
            oldest_s: most("krarup_broker_tube_oldest_age_seconds"),
            service_p95_s: services.reduce(f64::max),
            waiting_p95_s: times(&listed, TUBE_WAITS, Some(("tube", tube))).quantile(0.95),
            utilization: most("krarup_broker_tube_utilization_ratio"),
            workers,
            silent,
            drain_s: most("krarup_broker_tube_drain_seconds"),
        }
    };
    labels(pairs, "krarup_broker_tube_consumers_busy", "tube").into_iter().map(row).collect()
}

/// The 95th percentile of the latest services of a tube.
fn service_p95(pair: &LookPair, tube: &str) -> Option<Seconds> {
    let wanted = [("tube", tube), ("quantile", "0.95")];
    let mut found = pair.now.labelled("krarup_broker_tube_service_time_seconds");
    found.find(|(labels, _)| *labels == wanted).map(|(_, value)| value)
}

/// How many workers a tube needs, or why nothing is concluded.
fn workers_of(pairs: &[&LookPair], tube: &str) -> (Option<TubeWorkers>, Option<String>) {
    let label = |labels: &[(&str, &str)], name: &str| -> Option<String> {
        labels.iter().find(|(label, _)| *label == name).map(|(_, of)| (*of).to_owned())
    };
    let is_of = |labels: &[(&str, &str)]| labels.first() == Some(&("tube", tube));
    let mut found: Vec<TubeWorkers> = Vec::new();
    let mut silent = None;
    for pair in pairs {
        let mut one: Option<TubeWorkers> = None;
        for (labels, value) in
            pair.now.labelled("krarup_broker_workers_needed").filter(|(labels, _)| is_of(labels))
        {
            let target = label(&labels, "target").unwrap_or_default();
            let one = one.get_or_insert(TubeWorkers { target, low: 0.0, mean: 0.0, high: 0.0 });
            match label(&labels, "bound").as_deref() {
                Some("low") => one.low = value,
                Some("high") => one.high = value,
                _ => one.mean = value,
            }
        }
        found.extend(one);
        let reasons = pair.now.labelled("krarup_broker_workers_needed_silent");
        let reason = reasons.filter(|(labels, _)| is_of(labels)).find_map(|(of, _)| label(&of, "reason"));
        silent = silent.or(reason);
    }
    match (found.pop(), found.is_empty()) {
        (Some(one), true) if silent.is_none() => (Some(one), None),
        (None, _) => (None, silent),
        _ => (None, Some(SEVERAL_BROKERS.to_owned())),
    }
}
