//! Which clients ask for how much: rates of each connection between two questions, summed by host.
//!
//! A loop counts what each connection has done since it connected. The rates of a report are of the
//! time since the report before, or since a client connected where that is later; what a client did
//! that has gone meanwhile is in no report.

use std::collections::HashMap;
use std::net::SocketAddr;

use krarup_units::{Seconds, Stamp};
use serde::{Deserialize, Serialize};

/// The version of the JSON that a [`ClientsReport`] is written as.
pub const CLIENTS_SCHEMA: u32 = 1;

/// So many hosts, and so many connections, are listed one by one.
pub const LISTED_CLIENTS: usize = 100;

/// The host of clients that connect by a unix socket.
const UNIX: &str = "unix";

/// What one connection has done since it connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCounts {
    /// The event loop that serves it, and its number there; with the instant of its accept that is
    /// one connection alone.
    pub number: (usize, u32),
    /// When it connected.
    pub since: Stamp,
    /// The address of its other end; none: a unix socket.
    pub peer: Option<SocketAddr>,
    /// Requests accepted.
    pub requests: u64,
    /// Of these, those that are not answered yet.
    pub in_progress: u64,
    /// Bytes read from it.
    pub received: u64,
    /// Bytes written to it.
    pub sent: u64,
}

/// What one connection, or all connections of one host, ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientLoad {
    /// `address:port` of a connection, the address of a host, or `unix`.
    pub client: String,
    /// Connections.
    pub connections: u64,
    /// Requests accepted per second.
    pub requests_per_s: f64,
    /// Requests accepted and not answered yet.
    pub in_progress: u64,
    /// Bytes of requests per second.
    pub received_per_s: f64,
    /// Bytes of replies per second.
    pub sent_per_s: f64,
}

impl ClientLoad {
    /// Adds what another asks for.
    pub fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.requests_per_s += other.requests_per_s;
        self.in_progress += other.in_progress;
        self.received_per_s += other.received_per_s;
        self.sent_per_s += other.sent_per_s;
    }
}

/// The clients with the most requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientsReport {
    /// [`CLIENTS_SCHEMA`].
    pub schema: u32,
    /// Of how many seconds the rates are at most; none: of the time since each connected, because
    /// nothing was asked before.
    pub covers_s: Option<Seconds>,
    /// Connections there are.
    pub connections: u64,
    /// The hosts with the most requests per second, at most [`LISTED_CLIENTS`].
    pub hosts: Vec<ClientLoad>,
    /// The others together; none where all are listed.
    pub other_hosts: Option<ClientLoad>,
    /// The connections with the most requests per second, likewise.
    pub clients: Vec<ClientLoad>,
    /// The others together.
    pub other_clients: Option<ClientLoad>,
}

/// Makes reports of counts, each of the time since the one before.
#[derive(Debug, Default)]
pub struct ClientRates {
    /// When counts were last taken.
    at: Option<Stamp>,
    /// Requests and bytes of each connection then.
    before: HashMap<((usize, u32), Stamp), [u64; 3]>,
}

impl ClientRates {
    /// What `counts`, taken `now`, add up to.
    pub fn report(&mut self, counts: &[ClientCounts], now: Stamp) -> ClientsReport {
        let before = std::mem::take(&mut self.before);
        let at = self.at.replace(now);
        let mut hosts = HashMap::<String, ClientLoad>::new();
        let mut clients = Vec::with_capacity(counts.len());
        for one in counts {
            let so_far = [one.requests, one.received, one.sent];
            let identity = (one.number, one.since);
            let known = before.get(&identity).copied();
            let from = at.filter(|_| known.is_some()).unwrap_or(one.since);
            let seconds = (now.max(from) - from).as_seconds();
            let then = known.unwrap_or_default();
            let [requests_per_s, received_per_s, sent_per_s] = std::array::from_fn(|each| {
                let more = so_far[each].saturating_sub(then[each]) as f64;
                if seconds > 0.0 { more / seconds } else { 0.0 }
            });
            self.before.insert(identity, so_far);
            let load = ClientLoad {
                client: one.peer.map_or(UNIX.to_owned(), |peer| peer.to_string()),
                connections: 1,
                requests_per_s,
                in_progress: one.in_progress,
                received_per_s,
                sent_per_s,
            };
            let host = one.peer.map_or(UNIX.to_owned(), |peer| peer.ip().to_canonical().to_string());
            let of_host = hosts
                .entry(host)
                .or_insert_with_key(|host| ClientLoad { client: host.clone(), ..ClientLoad::default() });
            of_host.add(&load);
            clients.push(load);
        }
        let connections = clients.len() as u64;
        let (hosts, other_hosts) = first(hosts.into_values().collect());
        let (clients, other_clients) = first(clients);
        ClientsReport {
            schema: CLIENTS_SCHEMA,
            covers_s: at.map(|at| (now.max(at) - at).as_seconds()),
            connections,
            hosts,
            other_hosts,
            clients,
            other_clients,
        }
    }
}

/// Those with the most requests, and the others together.
fn first(mut all: Vec<ClientLoad>) -> (Vec<ClientLoad>, Option<ClientLoad>) {
    all.sort_by(|a, b| b.requests_per_s.total_cmp(&a.requests_per_s).then_with(|| a.client.cmp(&b.client)));
    let others = all.split_off(all.len().min(LISTED_CLIENTS));
    let summed = others.iter().fold(ClientLoad::default(), |mut sum, one| {
        sum.add(one);
        sum
    });
    (all, (!others.is_empty()).then_some(summed))
}

#[cfg(test)]
mod tests {
    use krarup_units::Nanos;
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> Stamp {
        Stamp(Nanos::from_secs(seconds).0)
    }

    fn counts(number: u32, peer: Option<&str>, requests: u64) -> ClientCounts {
        ClientCounts {
            number: (0, number),
            since: at(0),
            peer: peer.map(|peer| peer.parse().unwrap()),
            requests,
            in_progress: 1,
            received: requests * 10,
            sent: requests * 100,
        }
    }

    #[test]
    fn rates_are_of_the_time_since_the_report_before() {
        let mut rates = ClientRates::default();
        let one = |requests| [counts(1, Some("10.0.0.1:4000"), requests)];
        let first = rates.report(&one(100), at(10));
        assert_eq!((first.covers_s, first.clients[0].requests_per_s), (None, 10.0));
        let second = rates.report(&one(160), at(12));
        assert_eq!((second.covers_s, second.clients[0].requests_per_s), (Some(2.0), 30.0));
        assert_eq!((second.clients[0].received_per_s, second.clients[0].sent_per_s), (300.0, 3_000.0));
        assert_eq!((second.clients[0].in_progress, second.connections), (1, 1));
        // Nothing can be said of no time at all.
        assert_eq!(rates.report(&one(170), at(12)).clients[0].requests_per_s, 0.0);
    }

    /// The number of a client that has gone is the next one's.
    #[test]
    fn a_connection_is_counted_from_its_own_beginning() {
        let mut rates = ClientRates::default();
        rates.report(&[counts(1, None, 1_000)], at(10));
        let next = ClientCounts { since: at(11), ..counts(1, None, 40) };
        let report = rates.report(&[next], at(12));
        assert_eq!((report.clients[0].requests_per_s, report.clients[0].client.as_str()), (40.0, "unix"));
    }

    #[test]
    fn connections_of_one_host_are_one_row_and_the_busiest_is_first() {
        let all = [
            counts(1, Some("10.0.0.1:4000"), 10),
            counts(2, Some("10.0.0.2:4000"), 15),
            counts(3, Some("[::ffff:10.0.0.1]:4001"), 10),
        ];
        let report = ClientRates::default().report(&all, at(1));
        let hosts: Vec<_> = report.hosts.iter().map(|one| (one.client.as_str(), one.connections)).collect();
        assert_eq!(hosts, [("10.0.0.1", 2), ("10.0.0.2", 1)]);
        assert_eq!(report.hosts[0].requests_per_s, 20.0);
        assert_eq!(report.clients[0].client, "10.0.0.2:4000");
    }

    proptest! {
        #[test]
        fn no_request_is_lost_between_the_listed_and_the_others(
            requests in prop::collection::vec(0_u64..1_000, 0..300),
        ) {
            let all: Vec<_> = requests.iter().enumerate().map(|(number, requests)| {
                let peer = format!("10.0.{}.{}:1", number / 200, number % 200);
                counts(number as u32, Some(&peer), *requests)
            }).collect();
            let report = ClientRates::default().report(&all, at(1));
            for (listed, others) in [(&report.hosts, &report.other_hosts), (&report.clients, &report.other_clients)] {
                prop_assert!(listed.len() <= LISTED_CLIENTS);
                let sum: f64 = listed.iter().chain(others).map(|one| one.requests_per_s).sum();
                prop_assert_eq!(sum, requests.iter().sum::<u64>() as f64);
                let connections: u64 = listed.iter().chain(others).map(|one| one.connections).sum();
                prop_assert_eq!(connections, requests.len() as u64);
            }
        }
    }
}
