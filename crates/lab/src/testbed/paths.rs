//! The ways between hosts that talk: how long a packet takes there and back, and how much goes
//! through.

use std::collections::BTreeMap;
use std::time::Duration;

use krarup_units::{Address, Nanos, Seconds, text};
use serde::{Deserialize, Serialize};

use super::error::StationError;
use super::host::Host;
use super::process::PATIENCE;
use super::stations::{Running, Starter};
use crate::delay::tally::LineTally;

/// Connections by which a round trip is told.
const ROUND_TRIPS: u32 = 11;
/// How long a transfer may take on machines that do much else; it pours for a moment only.
const POURING: Duration = Duration::from_secs(60);

/// Round trips between two hosts, before a trial; `paths.json` is a list of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundTrips {
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
    /// What both delay lines between them make of it, in seconds; 0 where there are none.
    #[serde(default)]
    pub asked: Seconds,
}

/// A way there and back that is shorter than what was asked for by more than this share is none of
/// a delay line.
const SHORT: f64 = 0.02;
/// The least of several that is longer by more than this share, and [`LATE_AT_LEAST`], has waited
/// for a processor.
const LATE: f64 = 0.1;
/// The round trip through programs and a kernel that are not busy takes less than this, in seconds.
const LATE_AT_LEAST: Seconds = 500e-6;

impl RoundTrips {
    /// Why it cannot be the way that was asked for: its packets were not delayed.
    pub fn refused(&self) -> Option<String> {
        (self.least < self.asked * (1.0 - SHORT)).then(|| {
            let (least, asked) = (text::duration(self.least), text::duration(self.asked));
            format!(
                "a packet from {} to {} and back took {least}, and the delays are {asked}",
                self.from, self.to
            )
        })
    }

    /// Why it says little of the way that was asked for: all packets were late.
    pub fn late(&self) -> Option<String> {
        let limit = self.asked + (self.asked * LATE).max(LATE_AT_LEAST);
        (self.asked > 0.0 && self.least > limit).then(|| {
            let (least, asked) = (text::duration(self.least), text::duration(self.asked));
            format!("the machine was disturbed: no packet from {} to {} and back took less than {least}, and the delays are {asked}", self.from, self.to)
        })
    }
}

/// What a delay line did while a trial was measured; `delays.json` is a list of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Whose line: `c1`.
    pub host: String,
    /// For how long it was asked to keep what its host sends, in seconds.
    pub delay: Seconds,
    /// Frames that passed; a frame is up to 64 KiB.
    pub frames: u64,
    /// How late they were on average, in seconds.
    pub late: Seconds,
}

/// Fewer frames tell nothing.
const FRAMES: u64 = 100;

impl Lateness {
    /// The difference of two tallies.
    pub fn between(host: &Host, before: LineTally, after: LineTally) -> Self {
        let frames = after.frames.saturating_sub(before.frames);
        let late = (after.late - before.late).max(0.0) / frames.max(1) as f64;
        Self { host: host.name.clone(), delay: host.delay.as_seconds(), frames, late }
    }

    /// Why the delay was not what was asked for: the line did not get a processor when it needed
    /// one.
    pub fn disturbed(&self) -> Option<String> {
        let limit = (self.delay * LATE).max(LATE_AT_LEAST / 2.0);
        (self.frames >= FRAMES && self.late > limit).then(|| {
            let (late, delay) = (text::duration(self.late), text::duration(self.delay));
            format!("the machine was disturbed: what {} sent was late by {late} on average, beside a delay of {delay}", self.host)
        })
    }
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
    /// How long a packet is under way there and back at least.
    asked: Seconds,
}

fn round_trip(pair: &Pair) -> Result<RoundTrips, StationError> {
    let Pair { from, to, address, asked } = pair;
    let mut all = from.round_trips(address, ROUND_TRIPS).map_err(|error| {
        let why = format!(
            "cannot connect to {to} at {address}: {error}; is there a firewall between them, or an address that only others can reach?"
        );
        StationError::new(&from.name, why)
    })?;
    all.sort_by(f64::total_cmp);
    let (least, median) = (all.first().copied(), all.get(all.len() / 2).copied());
    let (from, count) = (from.name.clone(), all.len() as u32);
    Ok(RoundTrips {
        from,
        to: to.clone(),
        least: least.unwrap_or(0.0),
        median: median.unwrap_or(0.0),
        count,
        asked: *asked,
    })
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
        let pair = |from: Host, address: &Address| {
            let of = both().find(|one| one.address == *address && one.process.is_some());
            let to = of.map_or_else(|| address.to_string(), |one| one.host.name.clone());
            let asked = (from.delay + of.map_or(Nanos::ZERO, |one| one.host.delay)).as_seconds();
            Pair { from, to, address: address.clone(), asked }
        };
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
    ) -> Result<Vec<RoundTrips>, StationError> {
        self.pairs(clients, targets, middleware, servers).iter().map(round_trip).collect()
    }

    /// What goes through between hosts that may talk, in both directions, one after the other;
    /// nothing where all is on this machine as it is. Each host takes part at least once, with as
    /// many others as it takes for that: all pairs would take too long.
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
        let mut sink = self.start_that_announces(
            &format!("sink on {}", to.name),
            to.clone(),
            &words,
            (None, PATIENCE),
            commands,
        )?;
        let words = self.krarup(from, &["agent", "pour", &sink.address.to_string()]);
        let mut pour =
            self.start(&format!("transfer from {}", from.name), from, &words, (None, None), commands)?;
        let poured = pour.finish(POURING, &self.stop, || Ok(()))?;
        let process = sink.process.as_mut().expect("it was started here");
        if !poured.status.success() {
            return Err(
                pour.error(format!("cannot reach {} at {} ({})", to.name, sink.address, poured.status))
            );
        }
        let counted = process.finish(POURING, &self.stop, || Ok(()))?;
        let bits_per_second = serde_json::from_slice(&counted.stdout).unwrap_or(None);
        Ok(Throughput { from: from.name.clone(), to: to.name.clone(), bits_per_second })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_late_on_average_was_disturbed() {
        let host = Host { name: "c1".into(), delay: Nanos::from_millis(5), ..Host::here() };
        let of = |frames: u64, late: Seconds| {
            let before = LineTally { frames: 10, late: 1.0 };
            Lateness::between(&host, before, LineTally { frames: 10 + frames, late: 1.0 + late })
        };
        assert!((of(1_000, 0.4).late - 0.0004).abs() < 1e-12);
        assert_eq!((of(1_000, 0.4).disturbed(), of(10, 1.0).disturbed(), of(0, 0.0).late), (None, None, 0.0));
        assert_eq!(
            of(1_000, 0.8).disturbed().unwrap(),
            "the machine was disturbed: what c1 sent was late by 800 µs on average, beside a delay of 5.00 ms"
        );
    }

    #[test]
    fn a_way_is_compared_with_the_delays_that_were_asked_for() {
        let of = |least, asked| RoundTrips {
            from: "c1".into(),
            to: "s1".into(),
            least,
            median: least,
            count: 11,
            asked,
        };
        let says = |least, asked| {
            let one = of(least, asked);
            (one.refused().is_some(), one.late().is_some())
        };
        assert_eq!(says(70e-6, 0.0), (false, false));
        assert_eq!(says(0.02, 0.0), (false, false), "nothing was asked for");
        assert_eq!(says(1.1e-3, 1e-3), (false, false));
        assert_eq!(says(0.9e-3, 1e-3), (true, false));
        assert_eq!(says(1.6e-3, 1e-3), (false, true));
        assert_eq!(says(85e-3, 80e-3), (false, false));
        assert_eq!(
            of(70e-6, 1e-3).refused().unwrap(),
            "a packet from c1 to s1 and back took 70.0 µs, and the delays are 1.00 ms"
        );
    }
}
