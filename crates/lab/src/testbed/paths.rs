//! The ways between hosts that talk: how long a packet takes there and back, and how much goes through.

use std::collections::BTreeMap;
use std::time::Duration;

use krarup_net::Address;
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use super::host::Host;
use super::process::StationError;
use super::stations::{Running, Starter};

/// Connections by which a round trip is told.
const ROUND_TRIPS: u32 = 11;
/// How long a transfer may take on machines that do much else; it pours for a moment only.
const POURING: Duration = Duration::from_secs(60);

/// Round trips between two hosts, before a trial; `paths.json` is a list of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundTrip {
    /// Who asked: `c1`.
    pub from: String,
    /// Who answered: `m1`, or an address where it is no host of ours.
    pub to: String,
    /// The shortest, in seconds.
    pub least: Seconds,
    /// The middle one, in seconds.
    pub median: Seconds,
    /// How many there were.
    pub count: u32,
}

/// What goes through between two hosts, each in turn alone, measured once before the first trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Who sent.
    pub from: String,
    /// Who was sent to.
    pub to: String,
    /// Bits per second of what was sent, without headers; none where too little came to tell.
    pub bits_per_second: Option<f64>,
}

/// Two stations that talk, and where the second listens.
#[derive(Clone, Debug)]
struct Pair {
    from: Host,
    to: String,
    address: Address,
}

fn round_trip(pair: &Pair) -> Result<RoundTrip, StationError> {
    let Pair { from, to, address } = pair;
    let mut all = from.round_trips(address, ROUND_TRIPS).map_err(|error| StationError {
        name: from.name.clone(),
        why: format!("cannot connect to {to} at {address}: {error}; is there a firewall between them, or an address that only others can reach?"),
        said: Vec::new(),
    })?;
    all.sort_by(f64::total_cmp);
    let (least, median) = (all.first().copied(), all.get(all.len() / 2).copied());
    let (from, count) = (from.name.clone(), all.len() as u32);
    Ok(RoundTrip { from, to: to.clone(), least: least.unwrap_or(0.0), median: median.unwrap_or(0.0), count })
}

impl Starter {
    /// The pairs that talk, each once.
    fn pairs(
        &self,
        clients: u32,
        targets: &[Address],
        middleware: &[Running],
        servers: &[Running],
    ) -> Vec<Pair> {
        let both = || middleware.iter().chain(servers);
        let name = |address: &Address| {
            let of = both().find(|one| one.address == *address && one.process.is_some());
            of.map_or_else(|| address.to_string(), |one| one.host.name.clone())
        };
        let pair = |from: Host, address: &Address| Pair { from, to: name(address), address: address.clone() };
        let hosts: Vec<Host> = (1..=clients).map(|number| self.host('c', number)).collect();
        let before = hosts.iter().flat_map(|host| targets.iter().map(|target| pair(host.clone(), target)));
        let started = middleware.iter().filter(|one| one.process.is_some());
        let behind =
            started.flat_map(|one| servers.iter().map(|server| pair(one.host.clone(), &server.address)));
        let mut pairs: BTreeMap<(String, String), Pair> = BTreeMap::new();
        for pair in before.chain(behind) {
            pairs.entry((pair.from.name.clone(), pair.to.clone())).or_insert(pair);
        }
        pairs.into_values().collect()
    }

    /// Round trips between all that talk.
    ///
    /// # Errors
    /// Where one cannot reach another.
    pub fn round_trips(
        &self,
        clients: u32,
        targets: &[Address],
        middleware: &[Running],
        servers: &[Running],
    ) -> Result<Vec<RoundTrip>, StationError> {
        self.pairs(clients, targets, middleware, servers).iter().map(round_trip).collect()
    }

    /// What goes through between hosts that may talk, in both directions, one after the other; nothing where all is on this machine as it is. Each
    /// host takes part at least once, with as many others as it takes for that: all pairs would take too long.
    ///
    /// # Errors
    /// Where one cannot reach another, or a stop was asked for.
    pub fn throughputs(&self, counts: [u32; 3]) -> Result<Vec<Throughput>, StationError> {
        let [clients, middleware, servers] = counts;
        let hosts = |letter, count| (1..=count).map(move |number| self.host(letter, number));
        let ends = |letter, count| hosts(letter, count).collect::<Vec<_>>();
        let (clients, middleware, servers) = (ends('c', clients), ends('m', middleware), ends('s', servers));
        let between: &[(&[Host], &[Host])] = if middleware.is_empty() {
            &[(&clients, &servers)]
        } else {
            &[(&clients, &middleware), (&middleware, &servers)]
        };
        let mut found = Vec::new();
        for (some, others) in between {
            let most = some.len().max(others.len());
            for (one, other) in some.iter().cycle().zip(others.iter().cycle()).take(most) {
                if one.address != other.address && one.name != "here" {
                    found.push(self.throughput(one, other)?);
                    found.push(self.throughput(other, one)?);
                }
            }
        }
        Ok(found)
    }

    fn throughput(&self, from: &Host, to: &Host) -> Result<Throughput, StationError> {
        let commands = &mut Vec::new();
        let words = self.krarup(to, &["agent", "sink", &to.address]);
        let mut sink =
            self.that_tells(&format!("sink on {}", to.name), to.clone(), &words, None, commands)?;
        let words = self.krarup(from, &["agent", "pour", &sink.address.to_string()]);
        let mut pour =
            self.start(&format!("transfer from {}", from.name), from, &words, (None, None), commands)?;
        let poured = pour.finish(POURING, &self.stop, |_| {})?;
        let process = sink.process.as_mut().expect("it was started here");
        if !poured.status.success() {
            return Err(
                pour.error(format!("cannot reach {} at {} ({})", to.name, sink.address, poured.status))
            );
        }
        let counted = process.finish(POURING, &self.stop, |_| {})?;
        let bits_per_second = serde_json::from_slice(&counted.stdout).unwrap_or(None);
        Ok(Throughput { from: from.name.clone(), to: to.name.clone(), bits_per_second })
    }
}
