//! One description of a system, for every solver and for the simulator.
//!
//! ```text
//! Network
//!  ├── stations   where time passes: servers, delays, links
//!  ├── pools      what a request may hold while it visits stations: worker slots, connections
//!  └── classes    who comes: open (at a rate) or closed (a population that thinks and returns),
//!                 each with its path
//!        path = steps in order
//!          Visit   one station, a number of times, each time for a service time or some bytes
//!          Hold    take a slot of a pool, walk an inner path, give the slot back
//!          Fork    send copies to k of n stations, go on when enough have answered
//!          OneOf   walk one of several inner paths, each with its share of the requests
//! ```
//!
//! The path is a sequence, so that the simulator can walk it; the solvers need only what it sums
//! to: the visit ratio V and the demand D = V·S of each class at each station
//! ([`Network::demands`]).

mod check;
mod features;

pub use features::{Feature, FeatureKind};

use krarup_units::{Bytes, Seconds};

use crate::Distribution;

/// The place of a station in [`Network::stations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StationId(pub usize);

/// The place of a pool in [`Network::pools`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotPoolId(pub usize);

/// The place of a class in [`Network::classes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub usize);

/// Stations, pools and the classes of requests that visit them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// A title for tables and plots.
    pub name: String,
    /// Where time passes. Names are unique.
    pub stations: Vec<Station>,
    /// What requests hold on the way. Names are unique.
    pub pools: Vec<SlotPool>,
    /// Who comes. Names are unique.
    pub classes: Vec<Class>,
}

/// A place where requests wait and are served.
#[derive(Clone, Debug, PartialEq)]
pub struct Station {
    /// Unique among the stations.
    pub name: String,
    /// How fast it serves, given how many requests are there.
    pub kind: StationKind,
    /// Service times as written are divided by it, and it multiplies a link's bandwidth; > 0, as a
    /// rule 1.
    pub factor: f64,
    /// Which request is served next. A delay has no use for it.
    pub discipline: Discipline,
    /// How many requests may be there, those in service included; `None` is no limit.
    pub capacity: Option<u64>,
    /// What becomes of a request that finds `capacity` requests there.
    pub when_full: WhenFull,
}

/// How fast a station serves, given how many requests are there.
#[derive(Clone, Debug, PartialEq)]
pub enum StationKind {
    /// `count` ≥ 1 equal servers behind one queue.
    Servers {
        /// Number of servers.
        count: u32,
    },
    /// As many servers as requests: no request waits.
    Delay,
    /// One server whose speed depends on the number of requests there: `rates[j - 1]` times the
    /// speed it has alone, with j requests; the last entry goes on for ever. Each is > 0.
    LoadDependent {
        /// Speeds relative to service times as written.
        rates: Vec<f64>,
    },
    /// A wire: one server that works off bytes. Visits say `bytes`; each message adds `overhead`.
    Link {
        /// Bandwidth, in bits per second; > 0.
        bits_per_second: f64,
        /// Headers of one message (for TCP over IPv4: 52 B for each packet).
        overhead: Bytes,
    },
}

/// Which request is served next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// First come, first served.
    #[default]
    Fcfs,
    /// All at once, each with an equal share. The default of a link, which many connections share.
    ProcessorSharing,
    /// The newest next; the one in service is finished first.
    Lifo,
    /// The newest at once; the one in service waits and goes on later where it stopped.
    LifoPreemptive,
    /// The class of the lowest `priority` number next, FCFS within; the one in service is finished
    /// first.
    Priority,
}

/// What becomes of a request that finds no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It leaves unserved (an error reply): an open one is lost, a closed one thinks again.
    #[default]
    Lose,
    /// It stays where it is, keeps what it holds, and blocks until there is room.
    Block,
}

/// Slots that requests hold while they visit stations: workers, connections.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotPool {
    /// Unique among the pools.
    pub name: String,
    /// Number of slots; ≥ 1.
    pub size: u32,
    /// How many requests may wait for a slot; `None` is no limit.
    pub waiting: Option<u64>,
    /// What becomes of a request that finds `waiting` requests before it.
    pub when_full: WhenFull,
    /// Which waiting request gets the next free slot (processor sharing is not possible here).
    pub discipline: Discipline,
}

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Unique among the classes.
    pub name: String,
    /// Where its requests come from.
    pub workload: ClassWorkload,
    /// Lower is served first where the discipline is by priority.
    pub priority: u32,
    /// What each request does, in order. Not empty.
    pub path: Vec<Step>,
}

/// Where requests come from.
#[derive(Clone, Debug, PartialEq)]
pub enum ClassWorkload {
    /// They arrive at their own pace, whatever the system does.
    Open {
        /// Time between arrivals; the arrival rate λ is 1 / its mean, so its mean is > 0.
        gap: Distribution,
        /// The rate over time, as factors of λ: from each `at` on, the rate is `factor`·λ. Empty is
        /// steady. The simulator follows it; solvers, which know only the long run, refuse it.
        profile: Vec<RateChange>,
    },
    /// A fixed number of clients, each with one request under way or thinking.
    Closed {
        /// Number of clients N; ≥ 1.
        population: u64,
        /// Think time Z between a reply and the next request.
        think: Distribution,
    },
}

/// From `at` on, the arrival rate is `factor` times the nominal one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateChange {
    /// Since the start of the run.
    pub at: Seconds,
    /// ≥ 0; 0 is silence.
    pub factor: f64,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Wait for and get service at one station.
    Visit(PathVisit),
    /// Take one slot of a pool (waiting for it if need be), walk the inner path, give the slot
    /// back.
    Hold {
        /// Which pool.
        pool: SlotPoolId,
        /// What happens while the slot is held. Not empty.
        path: Vec<Step>,
    },
    /// Copies to several stations at once.
    Fork(Fork),
    /// One of several inner paths, chosen at random for each request.
    OneOf {
        /// The paths with their shares, which are > 0 and count relative to their sum.
        branches: Vec<Branch>,
    },
}

/// Visits to one station.
#[derive(Clone, Debug, PartialEq)]
pub struct PathVisit {
    /// Which station.
    pub station: StationId,
    /// Mean number of visits in a row, the visit ratio V of this step; > 0. With a fraction, the
    /// simulator makes one visit more with that probability: 0.25 is one visit in a quarter of the
    /// cases.
    pub count: f64,
    /// What each visit asks for.
    pub work: Work,
}

/// What one visit asks of a station.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// A service time S, at the speed of one request alone.
    Time(Distribution),
    /// Bytes to send, without the link's overhead; only at a link.
    Bytes(f64),
}

/// Copies of a request to several stations at once, and how many answers it waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Fork {
    /// Where copies may go: n ≥ 1 different stations.
    pub stations: Vec<StationId>,
    /// How many of them each request goes to, 1 ≤ k ≤ n, chosen at random when k < n.
    pub choose: u32,
    /// How many answers let the request go on.
    pub wait: ForkWait,
    /// What each copy asks for, drawn anew for each.
    pub work: Work,
}

/// How many of k answers let a forked request go on. Late ones are still served to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForkWait {
    /// All k.
    #[default]
    All,
    /// The first.
    Any,
    /// The first `n`, 1 ≤ n ≤ k.
    Quorum(u32),
}

impl ForkWait {
    /// The number of answers needed out of `copies`.
    pub fn needed(self, copies: u32) -> u32 {
        match self {
            Self::All => copies,
            Self::Any => 1,
            Self::Quorum(n) => n,
        }
    }
}

/// One of the paths of [`Step::OneOf`].
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// Share of the requests, relative to the other branches; > 0.
    pub share: f64,
    /// What those requests do; may be empty.
    pub path: Vec<Step>,
}

impl Station {
    /// One server, first come first served, no limit.
    pub fn single(name: impl Into<String>) -> Self {
        Self::servers(name, 1)
    }

    /// `count` servers behind one queue, first come first served, no limit.
    pub fn servers(name: impl Into<String>, count: u32) -> Self {
        Self::new(name, StationKind::Servers { count })
    }

    /// A delay: no request waits.
    pub fn delay(name: impl Into<String>) -> Self {
        Self::new(name, StationKind::Delay)
    }

    /// One server whose speed with j requests is `rates[j - 1]` times its speed with one.
    pub fn load_dependent(name: impl Into<String>, rates: Vec<f64>) -> Self {
        Self::new(name, StationKind::LoadDependent { rates })
    }

    /// A wire that many connections share equally.
    pub fn link(name: impl Into<String>, bits_per_second: f64, overhead: Bytes) -> Self {
        let kind = StationKind::Link { bits_per_second, overhead };
        Self { discipline: Discipline::ProcessorSharing, ..Self::new(name, kind) }
    }

    fn new(name: impl Into<String>, kind: StationKind) -> Self {
        Self {
            name: name.into(),
            kind,
            factor: 1.0,
            discipline: Discipline::Fcfs,
            capacity: None,
            when_full: WhenFull::Lose,
        }
    }

    /// Whether one or several servers serve requests one after another, so that it matters how
    /// their service times vary.
    pub(crate) fn in_order(&self) -> bool {
        matches!(self.kind, StationKind::Servers { .. } | StationKind::Link { .. }) && !self.insensitive()
    }

    /// Whether means do not depend on how service times vary: no request waits, all share, or the
    /// newest takes the only server at once.
    pub(crate) fn insensitive(&self) -> bool {
        let several = matches!(self.kind, StationKind::Servers { count } if count > 1);
        self.kind == StationKind::Delay
            || self.discipline == Discipline::ProcessorSharing
            || self.discipline == Discipline::LifoPreemptive && !several
    }

    /// Total speed with `jobs` requests there, relative to one server: min(j, m), j at a delay, or
    /// the station's own rates. 0 when empty.
    pub fn speed(&self, jobs: u64) -> f64 {
        match &self.kind {
            _ if jobs == 0 => 0.0,
            StationKind::Servers { count } => jobs.min(u64::from(*count)) as f64,
            StationKind::Delay => jobs as f64,
            StationKind::LoadDependent { rates } => rates[(jobs as usize).min(rates.len()) - 1],
            StationKind::Link { .. } => 1.0,
        }
    }

    /// The mean service time of one visit, in seconds, alone at the station.
    pub fn service(&self, work: &Work) -> Seconds {
        match work {
            Work::Time(time) => time.mean() / self.factor,
            Work::Bytes(_) => self.service_time(work).mean(),
        }
    }

    /// The service time of one visit, alone at the station.
    pub fn service_time(&self, work: &Work) -> Distribution {
        match (work, &self.kind) {
            (Work::Time(time), _) if self.factor == 1.0 => time.clone(),
            (Work::Time(time), _) => time.scaled(1.0 / self.factor),
            (Work::Bytes(bytes), StationKind::Link { bits_per_second, overhead }) => {
                Distribution::constant((bytes + overhead.0 as f64) * 8.0 / (bits_per_second * self.factor))
            }
            (Work::Bytes(_), _) => Distribution::constant(f64::NAN), // refused by `check`
        }
    }
}

impl SlotPool {
    /// `size` slots, first come first served, any number may wait.
    pub fn new(name: impl Into<String>, size: u32) -> Self {
        Self {
            name: name.into(),
            size,
            waiting: None,
            when_full: WhenFull::Lose,
            discipline: Discipline::Fcfs,
        }
    }
}

impl Class {
    /// `population` clients with an exponential think time of mean `think` seconds.
    pub fn closed(name: impl Into<String>, population: u64, think: Seconds, path: Vec<Step>) -> Self {
        let workload = ClassWorkload::Closed { population, think: Distribution::exponential(think) };
        Self { name: name.into(), workload, priority: 0, path }
    }

    /// Poisson arrivals at `rate` per second.
    pub fn open(name: impl Into<String>, rate: f64, path: Vec<Step>) -> Self {
        let workload =
            ClassWorkload::Open { gap: Distribution::exponential(1.0 / rate), profile: Vec::new() };
        Self { name: name.into(), workload, priority: 0, path }
    }

    /// The population of a closed class.
    pub fn population(&self) -> Option<u64> {
        match self.workload {
            ClassWorkload::Closed { population, .. } => Some(population),
            ClassWorkload::Open { .. } => None,
        }
    }

    /// The arrival rate λ of an open class, per second.
    pub fn rate(&self) -> Option<f64> {
        match &self.workload {
            ClassWorkload::Open { gap, .. } => Some(1.0 / gap.mean()),
            ClassWorkload::Closed { .. } => None,
        }
    }

    /// The mean think time Z of a closed class, in seconds; 0 for an open one.
    pub fn think(&self) -> Seconds {
        match &self.workload {
            ClassWorkload::Closed { think, .. } => think.mean(),
            ClassWorkload::Open { .. } => 0.0,
        }
    }
}

impl Step {
    /// One visit to `station` for a service `time`.
    pub const fn visit(station: StationId, time: Distribution) -> Self {
        Self::Visit(PathVisit { station, count: 1.0, work: Work::Time(time) })
    }

    /// Walks `path` while holding one slot of `pool`.
    pub const fn hold(pool: SlotPoolId, path: Vec<Self>) -> Self {
        Self::Hold { pool, path }
    }
}

/// What a class asks of a station in the long run, per request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Visit ratio V: visits per request.
    pub visits: f64,
    /// Service demand D = V·S, in seconds.
    pub seconds: Seconds,
}

impl Demand {
    /// Mean service time S of one visit, in seconds; 0 without visits.
    pub fn service(&self) -> Seconds {
        if self.visits > 0.0 { self.seconds / self.visits } else { 0.0 }
    }
}

/// Whether two mean service times are one, but for rounding.
pub(crate) fn equal_means(one: Seconds, other: Seconds) -> bool {
    (one - other).abs() <= 1e-9 * one.max(other)
}

impl Network {
    /// The station of this name.
    pub fn station(&self, name: &str) -> Option<StationId> {
        self.stations.iter().position(|s| s.name == name).map(StationId)
    }

    /// The pool of this name.
    pub fn pool(&self, name: &str) -> Option<SlotPoolId> {
        self.pools.iter().position(|p| p.name == name).map(SlotPoolId)
    }

    /// The class of this name.
    pub fn class(&self, name: &str) -> Option<ClassId> {
        self.classes.iter().position(|c| c.name == name).map(ClassId)
    }

    /// V and D of every class at every station: `demands()[class][station]`.
    ///
    /// A fork to k of n stations visits each k/n times; a branch counts with its share.
    pub fn demands(&self) -> Vec<Vec<Demand>> {
        self.classes
            .iter()
            .map(|class| {
                let mut demands = vec![Demand::default(); self.stations.len()];
                self.walk(&class.path, 1.0, &mut |weight, station, work| {
                    let demand = &mut demands[station.0];
                    demand.visits += weight;
                    demand.seconds += weight * self.stations[station.0].service(work);
                });
                demands
            })
            .collect()
    }

    /// Calls `each(mean visits, station, work)` for every visit and fork of the path, those inside
    /// of holds and branches included.
    pub(crate) fn walk(&self, path: &[Step], weight: f64, each: &mut dyn FnMut(f64, StationId, &Work)) {
        for step in path {
            match step {
                Step::Visit(visit) => each(weight * visit.count, visit.station, &visit.work),
                Step::Hold { path, .. } => self.walk(path, weight, each),
                Step::Fork(fork) => {
                    let share = f64::from(fork.choose) / fork.stations.len() as f64;
                    for station in &fork.stations {
                        each(weight * share, *station, &fork.work);
                    }
                }
                Step::OneOf { branches } => {
                    let total: f64 = branches.iter().map(|b| b.share).sum();
                    for branch in branches {
                        self.walk(&branch.path, weight * branch.share / total, each);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_servers() -> Network {
        Network {
            name: "two".into(),
            stations: vec![
                Station::single("a"),
                Station::single("b"),
                Station::link("wire", 8e6, Bytes(100)),
            ],
            pools: vec![SlotPool::new("workers", 4)],
            classes: vec![Class::closed(
                "get",
                3,
                0.5,
                vec![
                    Step::Visit(PathVisit { station: StationId(2), count: 2.0, work: Work::Bytes(900.0) }),
                    Step::hold(
                        SlotPoolId(0),
                        vec![Step::Fork(Fork {
                            stations: vec![StationId(0), StationId(1)],
                            choose: 1,
                            wait: ForkWait::All,
                            work: Work::Time(Distribution::exponential(0.1)),
                        })],
                    ),
                ],
            )],
        }
    }

    #[test]
    fn demands_add_up_over_holds_forks_and_bytes() {
        let network = two_servers();
        network.check().unwrap();
        let demands = &network.demands()[0];
        assert!((demands[0].visits - 0.5).abs() < 1e-15 && (demands[0].seconds - 0.05).abs() < 1e-15);
        // 2 messages of 900 + 100 bytes at a million bytes per second.
        assert!((demands[2].seconds - 0.002).abs() < 1e-15);
        assert!((demands[2].service() - 0.001).abs() < 1e-15);
    }

    #[test]
    fn a_random_choice_of_one_server_is_no_fork() {
        let kinds: Vec<_> = two_servers().features().iter().map(|f| f.kind).collect();
        assert_eq!(kinds, [FeatureKind::ClosedClass, FeatureKind::HeldPool]);
    }

    #[test]
    fn features_are_named_with_their_place() {
        let mut network = two_servers();
        network.stations[0].capacity = Some(10);
        let named: Vec<_> = network.features().iter().map(ToString::to_string).collect();
        assert!(named.contains(&"the finite capacity of `a`".to_owned()), "{named:?}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let mut network = two_servers();
        network.classes[0].path.push(Step::Visit(PathVisit {
            station: StationId(0),
            count: 1.0,
            work: Work::Bytes(10.0),
        }));
        assert_eq!(
            network.check().unwrap_err().to_string(),
            "class `get`: sends bytes to `a`, which is no link"
        );
        let mut network = two_servers();
        network.classes[0].path = vec![Step::hold(SlotPoolId(0), network.classes[0].path.clone())];
        assert!(network.check().unwrap_err().to_string().contains("second slot of pool `workers`"));
    }

    #[test]
    fn speeds_follow_the_kind_of_station() {
        assert!((Station::servers("s", 3).speed(5) - 3.0).abs() < 1e-15);
        assert!((Station::delay("d").speed(5) - 5.0).abs() < 1e-15);
        assert!((Station::load_dependent("l", vec![1.0, 1.5]).speed(9) - 1.5).abs() < 1e-15);
        assert!(Station::single("s").speed(0).abs() < 1e-15);
    }
}
