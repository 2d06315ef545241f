//! How far a workload goes, and what stops it: in plain words, with the evidence.

use std::fmt;

use krarup_units::{Seconds, text};
use serde::{Deserialize, Serialize};

use crate::laws::FULL;
use crate::results::{Cell, ProcessLoad, Quantity};
use crate::trial::{Levels, Link, Station};

/// A rate within this share of the highest counts as the highest.
const NEAR: f64 = 0.95;

/// What was learnt about one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The cell with the fewest clients whose throughput is within 5 % of the highest.
    pub at: Levels,
    /// Its throughput.
    pub throughput: Quantity,
    /// Its mean response time.
    pub response: Seconds,
    /// Its 99th percentile.
    pub p99: Seconds,
    /// Whether more clients would bring more.
    pub saturation: Saturation,
    /// What stops it.
    pub bottleneck: Bottleneck,
    /// Where the response time goes there, largest part first; empty where the middleware was not asked.
    pub parts: Vec<(Part, f64)>,
    /// How much of it can be used; none where nothing was answered.
    #[serde(default)]
    pub usable: Option<Usable>,
}

/// The most clients that are still served well: beyond, requests wait more than they are served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usable {
    /// The cell.
    pub at: Levels,
    /// Its throughput.
    pub throughput: f64,
    /// Its mean response time.
    pub response: Seconds,
    /// What goes wrong at the next cell.
    pub reason: Reason,
}

/// Why more clients than these are too many.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The response time is more than twice that of the fewest clients: more than half of it is waiting for others.
    Response {
        /// How many clients that is.
        clients: u32,
        /// How many times longer.
        times: f64,
    },
    /// More requests wait in the middleware's queue than workers serve.
    Queue {
        /// How many clients that is.
        clients: u32,
        /// Mean queue length.
        length: f64,
        /// Workers.
        workers: u32,
    },
    /// Nothing yet: no more clients were tried.
    NotReached,
}

/// A response time of more than so many times the shortest is mostly waiting.
const LONG: f64 = 2.0;

/// The last cell before the first in which requests wait more than they are served. The cells of one workload, clients rising.
pub fn usable(cells: &[&Cell]) -> Option<Usable> {
    let least = cells.first()?.response.mean.value;
    let wrong = |cell: &Cell| {
        let clients = cell.levels.clients;
        let middleware = cell.middleware.as_ref();
        let queue =
            middleware.and_then(|m| Some((m.queue_length?.value, m.workers.filter(|workers| *workers > 0)?)));
        let times = cell.response.mean.value / least;
        match queue {
            Some((length, workers)) if length > f64::from(workers) => {
                Some(Reason::Queue { clients, length, workers })
            }
            _ if times > LONG && times.is_finite() => Some(Reason::Response { clients, times }),
            _ => None,
        }
    };
    let mut last = *cells.first().filter(|cell| cell.throughput.value > 0.0)?;
    let mut reason = Reason::NotReached;
    for cell in &cells[1..] {
        if let Some(found) = wrong(cell) {
            reason = found;
            break;
        }
        last = cell;
    }
    let (throughput, response) = (last.throughput.value, last.response.mean.value);
    Some(Usable { at: last.levels.clone(), throughput, response, reason })
}

impl fmt::Display for Usable {
    /// A sentence: up to where it is used well, and what it is that goes wrong then.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, clients) = (text::count(self.throughput.round()), self.at.clients);
        let noun = if clients == 1 { "client" } else { "clients" };
        write!(f, "It is used well up to {clients} {noun} ({rate} requests per second): ")?;
        match self.reason {
            Reason::Response { clients, times } => write!(
                f,
                "with {clients}, requests take {} times as long as with the fewest.",
                text::three_digits(times)
            ),
            Reason::Queue { clients, length, workers } => write!(
                f,
                "with {clients}, {} requests wait on average for {workers} workers.",
                text::three_digits(length)
            ),
            Reason::NotReached => write!(f, "more were not tried."),
        }
    }
}

/// Whether a sweep reached the highest rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Saturation {
    /// More clients were tried, and the rate grew by less than 5 %.
    Reached {
        /// The knee N* = (R + Z) · X: R at the fewest clients tried, X the highest rate (the bounds' crossing point).
        knee: f64,
        /// The most clients tried.
        tried: u32,
        /// How many times longer the response time is there.
        longer: f64,
    },
    /// The rate still grew at the most clients tried.
    NotReached {
        /// By which share, from the cell before.
        growth: f64,
    },
    /// A single cell says nothing about growth, nor do cells in which nothing was answered.
    Unknown,
}

impl Saturation {
    /// Itself, or unknown where the ratio it rests on has no value.
    fn if_finite(self, ratio: f64) -> Self {
        if ratio.is_finite() { self } else { Self::Unknown }
    }
}

/// What limits the rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// A host sends as much as its link carries.
    Link(Link),
    /// A process uses all the processors it can use.
    Process(ProcessLoad),
    /// All processors of the machine are busy, though no process uses all it could.
    Machine {
        /// Processors kept busy.
        busy: f64,
        /// Processors there are.
        cores: u32,
        /// The process that takes most.
        most: ProcessLoad,
    },
    /// All worker slots are held.
    Workers {
        /// How many there are.
        workers: u32,
        /// The share that is held.
        busy: f64,
    },
    /// Nothing that was measured is full; most of the time passes here.
    MostTime(Part, f64),
    /// Nothing was measured that could tell.
    Unseen,
}

/// The parts of the response time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Waiting for a worker.
    Queue,
    /// With the servers.
    Server,
    /// The middleware's own time.
    Own,
    /// Outside the middleware.
    Outside,
}

impl Part {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue time",
            Self::Server => "server time",
            Self::Own => "own time",
            Self::Outside => "outside the middleware",
        }
    }
}

/// The mean times of a cell by part, from the inside out; none where the middleware was not asked.
pub fn parts(cell: &Cell) -> Option<[(Part, Quantity); 4]> {
    let middleware = cell.middleware.as_ref()?;
    Some([
        (Part::Queue, middleware.queue.mean),
        (Part::Server, middleware.server.mean),
        (Part::Own, middleware.own.mean),
        (Part::Outside, middleware.outside),
    ])
}

/// The verdict over the cells of one workload, clients rising. None where there is no cell.
///
/// `think` is the think time Z of the clients, `cores` the processors all processes share (0: unknown).
pub fn verdict(cells: &[&Cell], think: Seconds, cores: u32) -> Option<Verdict> {
    let highest = cells.iter().map(|cell| cell.throughput.value).fold(0.0, f64::max);
    let at = cells.iter().find(|cell| cell.throughput.value >= NEAR * highest)?;
    let (first, last) = (cells.first()?, cells.last()?);
    let saturation = if at.levels != last.levels {
        let longer = last.response.mean.value / at.response.mean.value;
        let knee = (first.response.mean.value + think) * highest;
        Saturation::Reached { knee, tried: last.levels.clients, longer }.if_finite(longer)
    } else if let [.., before, _] = cells {
        let growth = at.throughput.value / before.throughput.value - 1.0;
        Saturation::NotReached { growth }.if_finite(growth)
    } else {
        Saturation::Unknown
    };
    let mut shares: Vec<(Part, f64)> = parts(at)
        .into_iter()
        .flatten()
        .map(|(part, time)| (part, time.value / at.response.mean.value))
        .filter(|(_, share)| share.is_finite())
        .collect();
    shares.sort_by(|one, other| other.1.total_cmp(&one.1));
    Some(Verdict {
        at: at.levels.clone(),
        throughput: at.throughput,
        response: at.response.mean.value,
        p99: at.response.p99.value,
        saturation,
        bottleneck: bottleneck(at, cores, shares.first()),
        parts: shares,
        usable: usable(cells),
    })
}

/// From this utilization on a link is full: the rest is gaps between windows of TCP.
const FULL_LINK: f64 = 0.95;

/// A full link is a limit in itself. A full process explains a full machine and full workers, a full machine explains full workers: in
/// this order.
fn bottleneck(cell: &Cell, cores: u32, largest: Option<&(Part, f64)>) -> Bottleneck {
    let by_link = |one: &&Link, other: &&Link| one.utilization().total_cmp(&other.utilization());
    if let Some(link) = cell.links.iter().max_by(by_link)
        && link.utilization() >= FULL_LINK
    {
        return Bottleneck::Link(link.clone());
    }
    let by_use = |one: &&ProcessLoad, other: &&ProcessLoad| one.utilization().total_cmp(&other.utilization());
    if let Some(process) = cell.load.iter().max_by(by_use)
        && process.utilization() >= FULL
    {
        return Bottleneck::Process(process.clone());
    }
    let busy: f64 = cell.load.iter().map(|process| process.busy).sum();
    if let Some(most) = cell.load.iter().max_by(|one, other| one.busy.total_cmp(&other.busy))
        && cores > 0
        && busy >= FULL * f64::from(cores)
    {
        return Bottleneck::Machine { busy, cores, most: most.clone() };
    }
    if let Some(middleware) = &cell.middleware
        && let (Some(workers), Some(busy)) = (middleware.workers, middleware.workers_busy)
        && busy >= FULL
    {
        return Bottleneck::Workers { workers, busy };
    }
    largest.map_or(Bottleneck::Unseen, |(part, share)| Bottleneck::MostTime(*part, *share))
}

impl fmt::Display for Verdict {
    /// The verdict as a paragraph: the limit with its load, the saturation, the bottleneck, where the time goes. The
    /// workload is not named: it stands before, or above.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = text::count(self.throughput.value.round());
        write!(f, "{rate} requests per second")?;
        if let Some(interval) = self.throughput.interval {
            write!(f, " (± {})", text::count(interval.half_width().round()))?;
        }
        let clients = self.at.clients;
        let noun = if clients == 1 { "client" } else { "clients" };
        let (response, p99) = (text::duration(self.response), text::duration(self.p99));
        write!(f, " with {clients} {noun}, response time {response} (p99 {p99}).")?;
        write!(f, "{} {}", self.saturation, self.bottleneck)?;
        if let Some(usable) = self.usable.as_ref().filter(|_| self.saturation != Saturation::Unknown) {
            write!(f, " {usable}")?;
        }
        if let [first, rest @ ..] = &self.parts[..] {
            write!(f, " Of the response time {} is {}", percent(first.1), first.0.name())?;
            for (part, share) in rest.iter().filter(|(_, share)| *share >= 0.005) {
                write!(f, ", {} {}", percent(*share), part.name())?;
            }
            write!(f, ".")?;
        }
        Ok(())
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

impl fmt::Display for Saturation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reached { knee, tried, longer } => write!(
                f,
                " More clients bring less than 5 % more: {tried} clients wait {} times as long (the knee N* lies near {:.0} clients).",
                text::three_digits(*longer),
                knee.max(1.0)
            ),
            Self::NotReached { growth } => {
                write!(
                    f,
                    " The rate still grew by {} at the last step: the limit lies beyond.",
                    percent(*growth)
                )
            }
            Self::Unknown => Ok(()),
        }
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |process: &ProcessLoad| match process.station {
            Station::Clients => format!("the load generator ({})", process.name),
            Station::Middleware => format!("the middleware ({})", process.name),
            Station::Server => format!("the server {}", process.name),
        };
        let of = |process: &ProcessLoad| {
            let (busy, cores) = (text::three_digits(process.busy), text::count(process.cores));
            let noun = if process.cores == 1.0 { "processor" } else { "processors" };
            format!("{busy} of the {cores} {noun} it can")
        };
        match self {
            Self::Link(link) => {
                let host = match link.station {
                    Station::Clients => "the load generator on",
                    Station::Middleware => "the middleware on",
                    Station::Server => "the server on",
                };
                let mbit = |bits: f64| text::three_digits(bits / 1e6);
                write!(
                    f,
                    "The bottleneck is the link of {host} {}: it sends {} of the {} Mbit/s it carries, headers included.",
                    link.name,
                    mbit(link.sent),
                    mbit(link.bandwidth)
                )
            }
            Self::Process(process) => {
                write!(f, "The bottleneck is {}: it uses {}.", name(process), of(process))
            }
            Self::Machine { busy, cores, most } => write!(
                f,
                "The bottleneck is the machine: {} of its {cores} processors are busy, most of all with {} ({}).",
                text::three_digits(*busy),
                name(most),
                text::three_digits(most.busy)
            ),
            Self::Workers { workers, busy } => write!(
                f,
                "The bottleneck is the {workers} workers: {} of them are held on average, and the others wait in the queue.",
                percent(*busy)
            ),
            Self::MostTime(part, share) => write!(
                f,
                "Nothing that was measured is full; the largest part of the response time is {} ({}).",
                part.name(),
                percent(*share)
            ),
            Self::Unseen => write!(f, "What limits it was not measured."),
        }
    }
}

impl Bottleneck {
    /// In two or three words: for a table, or a large number's label.
    pub fn short(&self) -> String {
        match self {
            Self::Link(link) => format!("link of {}", link.name),
            Self::Process(process) => match process.station {
                Station::Clients => "load generator".into(),
                Station::Middleware => "middleware".into(),
                Station::Server => format!("server {}", process.name),
            },
            Self::Machine { cores, .. } => format!("all {cores} processors"),
            Self::Workers { workers, .. } => format!("{workers} workers"),
            Self::MostTime(part, _) => format!("none full; most is {}", part.name()),
            Self::Unseen => "not measured".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Environment, Results};
    use crate::sweep::summarise;
    use crate::sweep::tests::steady_trial;
    use crate::trial::ProcessCpu;

    fn sweep(rates: &[(u32, f64)]) -> Results {
        let trials: Vec<_> =
            rates.iter().map(|(clients, rate)| steady_trial("read-only", *clients, *rate)).collect();
        summarise("test", Environment { cores: 4, ..Environment::default() }, &trials).unwrap()
    }

    #[test]
    fn a_rate_that_stops_growing_is_saturated_at_the_fewest_clients_that_reach_it() {
        let results = sweep(&[(1, 5_000.0), (8, 19_500.0), (16, 20_000.0), (32, 20_100.0)]);
        let verdict = &results.verdicts[0];
        assert_eq!(verdict.at.clients, 8);
        // R(1) = 1/5000 s; N* = 20100 / 5000.
        assert!(
            matches!(verdict.saturation, Saturation::Reached { knee, tried: 32, .. } if (knee - 4.02).abs() < 0.01)
        );
    }

    #[test]
    fn a_rate_that_still_grows_is_not_called_a_limit() {
        let results = sweep(&[(1, 5_000.0), (2, 9_000.0)]);
        let verdict = &results.verdicts[0];
        assert!(
            matches!(verdict.saturation, Saturation::NotReached { growth } if (growth - 0.8).abs() < 1e-3)
        );
        assert!(verdict.to_string().contains("still grew by 80 %"), "{verdict}");
    }

    #[test]
    fn a_full_process_is_named_before_the_machine_and_the_workers() {
        let mut trial = steady_trial("read-only", 16, 20_000.0);
        let process = |station, busy: f64| ProcessCpu { station, name: "proxy".into(), busy, cores: 1.0 };
        trial.cpu = vec![process(Station::Middleware, 0.97 * trial.length)];
        let results = summarise("test", Environment::default(), &[trial.clone()]).unwrap();
        let verdict = &results.verdicts[0];
        assert!(
            verdict.to_string().contains(
                "The bottleneck is the middleware (proxy): it uses 0.97 of the 1 processor it can."
            ),
            "{verdict}"
        );
        trial.cpu = vec![
            process(Station::Middleware, 0.8 * trial.length),
            process(Station::Clients, 0.7 * trial.length),
            process(Station::Server, 0.45 * trial.length),
        ];
        let environment = Environment { cores: 2, ..Environment::default() };
        let results = summarise("test", environment, &[trial]).unwrap();
        assert_eq!(results.verdicts[0].bottleneck.short(), "all 2 processors");
    }

    #[test]
    fn a_full_link_is_named_before_whoever_waits_for_it() {
        let mut trial = steady_trial("read-only", 16, 2_918.0);
        let link = |name: &str, station, sent| Link { station, name: name.into(), bandwidth: 101e6, sent };
        let process = |busy: f64| ProcessCpu {
            station: Station::Middleware,
            name: "proxy".into(),
            busy: busy * trial.length,
            cores: 1.0,
        };
        trial.cpu = vec![process(0.97)];
        trial.links = vec![
            link("c1", Station::Clients, 3e6),
            link("s1", Station::Server, 100.6e6),
            link("s2", Station::Server, 5e6),
        ];
        let results = summarise("test", Environment::default(), &[trial.clone()]).unwrap();
        let verdict = &results.verdicts[0];
        assert_eq!(verdict.bottleneck.short(), "link of s1");
        assert!(
            verdict.to_string().contains("the link of the server on s1: it sends 101 of the 101 Mbit/s"),
            "{verdict}"
        );
        // Half full, it waits for others.
        trial.links[1].sent = 50e6;
        let results = summarise("test", Environment::default(), &[trial]).unwrap();
        assert!(matches!(results.verdicts[0].bottleneck, Bottleneck::Process(_)));
    }

    #[test]
    fn full_workers_are_seen_by_littles_law() {
        let mut trial = steady_trial("read-only", 64, 20_000.0);
        // 64 clients, 3.2 ms: of these 2.2 ms in the queue, 0.8 ms held by one of 16 workers.
        let middleware = trial.middleware.as_mut().unwrap();
        middleware.workers = Some(16);
        (middleware.queue.mean, middleware.server.mean, middleware.own.mean) = (2.2e-3, 0.7e-3, 0.1e-3);
        middleware.response.mean = 3.0e-3;
        middleware.queue_length = Some(44.0);
        let results = summarise("test", Environment::default(), &[trial]).unwrap();
        let verdict = &results.verdicts[0];
        assert!(
            matches!(verdict.bottleneck, Bottleneck::Workers { workers: 16, busy } if (busy - 1.0).abs() < 1e-6)
        );
        assert_eq!(verdict.parts[0].0, Part::Queue);
    }
}
