//! Workers that stay occupied while their request is elsewhere: a network inside a pool inside a
//! network.
//!
//! ```text
//!   outside ──▶ [waiting for a slot] ──▶ slot held ┌──────────────┐ ──▶ outside
//!                                                  │ inner stations│
//!                                                  └──────────────┘
//! ```
//!
//! The inside is solved for every number of held slots, 1 to M. To the outside it is then one
//! station whose rate with k requests is X_inside(min(k, M)); its own means are those of the
//! inside, averaged over k. This is decomposition (Courtois 1977; flow equivalence, Chandy, Herzog
//! & Woo 1975): exact when one exponential station is inside or when slots never run out, an
//! approximation otherwise. Pools may stand inside pools.

use krarup_units::Seconds;

use crate::forkjoin::{Cluster, ForkedCopies, Site};
use crate::network::{Class, Discipline, Fork, Network, StationKind, Step, Work, equal_means};
use crate::single::{ClassStation, Pace, Reward, Sweep};
use crate::{Error, laws, station, variable};

/// The name of this solver in messages.
const SOLVER: &str = "the decomposition of held pools and forks";

/// What one path is made of, repeated visits gathered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PathPart {
    /// A station. `scv` is the squared coefficient of variation of a visit's service time; 1 where
    /// it does not matter, and where all services are exponential of one mean.
    Station { station: usize, demand: Seconds, scv: f64 },
    /// A pool and what happens while a slot is held.
    Pool { pool: usize, parts: Vec<PathPart> },
    /// Stations that forks share, and all visits to them. `stations` are those of the cluster, in
    /// its order.
    Cluster { stations: Vec<usize>, cluster: Cluster },
}

/// Gathers the steps of a class into parts.
///
/// # Errors
/// [`Error::Refused`] where one station or pool is used in two places that a decomposition must
/// keep apart, and for copies whose service time has no finite variance.
pub(crate) fn parts(network: &Network, class: &Class) -> Result<Vec<PathPart>, Error> {
    let parts = gather_all(network, &class.path);
    only_once(
        network,
        &parts,
        &mut vec![false; network.stations.len()],
        &mut vec![false; network.pools.len()],
    )?;
    check_copies(&parts)?;
    Ok(parts)
}

/// When the last or the first of some copies is done follows from the variance of their times.
fn check_copies(parts: &[PathPart]) -> Result<(), Error> {
    parts.iter().try_for_each(|part| match part {
        PathPart::Station { .. } => Ok(()),
        PathPart::Pool { parts, .. } => check_copies(parts),
        PathPart::Cluster { cluster, .. } => {
            let Some(fork) = cluster.forks.iter().find(|fork| !fork.scv.is_finite()) else { return Ok(()) };
            let first = &cluster.sites[fork.service[0].0].name;
            Err(Error::Refused {
                solver: SOLVER.into(),
                feature: format!("copies whose service time has no finite variance, to `{first}`"),
                hint: "simulate".into(),
            })
        }
    })
}

/// Paths, and how often each is walked.
type Walks<'a> = Vec<(&'a [Step], f64)>;
/// Forks, and how often each is made.
type Forks<'a> = Vec<(&'a Fork, f64)>;

/// What is gathered of one level, before forks and the stations they share become clusters.
#[derive(Default)]
struct Gathered<'a> {
    /// Stations in the order of their first visit.
    stations: Vec<Visited>,
    /// Pools, with the paths inside of them and how often each is walked.
    pools: Vec<(usize, Walks<'a>)>,
    forks: Forks<'a>,
}

/// All visits to a station together.
struct Visited {
    station: usize,
    visits: f64,
    demand: Seconds,
    /// Mean square of the service time, times the visits.
    squares: f64,
    exponential: bool,
}

fn gather_all(network: &Network, path: &[Step]) -> Vec<PathPart> {
    gather_level(network, &[(path, 1.0)])
}

fn gather_level(network: &Network, paths: &[(&[Step], f64)]) -> Vec<PathPart> {
    let mut gathered = Gathered::default();
    for (path, weight) in paths {
        gather(network, path, *weight, &mut gathered);
    }
    let mut parts = Vec::new();
    let mut clusters = clusters(network, &gathered);
    for Visited { station, visits, demand, squares, exponential } in gathered.stations {
        let there = clusters.iter_mut().find_map(|(stations, cluster)| {
            let place = stations.iter().position(|other| *other == station)?;
            Some(&mut cluster.sites[place])
        });
        match there {
            // No request waits at a delay: visits there have nothing to do with copies.
            Some(site) if network.stations[station].kind != StationKind::Delay => {
                (site.visits, site.demand) = (visits, demand);
            }
            _ => {
                let scv = if network.stations[station].in_order() && demand > 0.0 && !exponential {
                    squares * visits / (demand * demand) - 1.0
                } else {
                    1.0
                };
                parts.push(PathPart::Station { station, demand, scv });
            }
        }
    }
    parts.extend(clusters.into_iter().map(|(stations, cluster)| PathPart::Cluster { stations, cluster }));
    for (pool, paths) in gathered.pools {
        parts.push(PathPart::Pool { pool, parts: gather_level(network, &paths) });
    }
    parts
}

fn gather<'a>(network: &Network, path: &'a [Step], weight: f64, into: &mut Gathered<'a>) {
    let visit = |into: &mut Gathered<'a>, station: usize, visits: f64, work: &Work| {
        let mean = network.stations[station].service(work);
        let demand = visits * mean;
        let time = network.stations[station].service_time(work);
        let (squares, exponential) = (visits * time.square(), time.is_exponential());
        match into.stations.iter_mut().find(|other| other.station == station) {
            Some(there) => {
                let so_far = there.demand / there.visits;
                // One of two means is no exponential time, even where each of them is.
                there.exponential &= exponential && equal_means(mean, so_far);
                there.visits += visits;
                there.demand += demand;
                there.squares += squares;
            }
            None => into.stations.push(Visited { station, visits, demand, squares, exponential }),
        }
    };
    for step in path {
        match step {
            Step::Visit(to) => visit(into, to.station.0, weight * to.count, &to.work),
            Step::Hold { pool, path } => match into.pools.iter_mut().find(|(other, _)| *other == pool.0) {
                Some((_, paths)) => paths.push((path.as_slice(), weight)),
                None => into.pools.push((pool.0, vec![(path.as_slice(), weight)])),
            },
            Step::Fork(fork) if fork.choose == 1 => {
                let share = weight / fork.stations.len() as f64;
                fork.stations.iter().for_each(|station| visit(into, station.0, share, &fork.work));
            }
            Step::Fork(fork) => into.forks.push((fork, weight)),
            Step::OneOf { branches } => {
                let total: f64 = branches.iter().map(|b| b.share).sum();
                for branch in branches {
                    gather(network, &branch.path, weight * branch.share / total, into);
                }
            }
        }
    }
}

/// Forks that have a station in common are one cluster.
fn clusters(network: &Network, gathered: &Gathered<'_>) -> Vec<(Vec<usize>, Cluster)> {
    let mut groups: Vec<(Vec<usize>, Forks<'_>)> = Vec::new();
    for (fork, weight) in &gathered.forks {
        let mut stations: Vec<usize> = fork.stations.iter().map(|station| station.0).collect();
        let mut forks = vec![(*fork, *weight)];
        let (shared, apart) = groups.into_iter().partition(|(others, _): &(Vec<usize>, _)| {
            others.iter().any(|station| stations.contains(station))
        });
        groups = apart;
        for (others, more) in Vec::<(Vec<usize>, Forks<'_>)>::into_iter(shared) {
            stations
                .extend(others.into_iter().filter(|other| !fork.stations.iter().any(|own| own.0 == *other)));
            forks.splice(0..0, more);
        }
        groups.push((stations, forks));
    }
    let cluster = |(stations, forks): (Vec<usize>, Forks<'_>)| {
        let sites = stations.iter().map(|station| {
            let there = &network.stations[*station];
            let shared = there.discipline == Discipline::ProcessorSharing;
            Site { name: there.name.clone(), pace: pace(&there.kind), shared, visits: 0.0, demand: 0.0 }
        });
        let copies = |(fork, weight): &(&Fork, f64)| {
            let site =
                |station: usize| stations.iter().position(|other| *other == station).expect("gathered above");
            let service = |station: usize| network.stations[station].service(&fork.work);
            ForkedCopies {
                service: fork.stations.iter().map(|s| (site(s.0), service(s.0))).collect(),
                scv: match &fork.work {
                    Work::Time(time) => time.scv(),
                    Work::Bytes(_) => 0.0,
                },
                choose: fork.choose,
                needed: fork.wait.needed(fork.choose),
                weight: *weight,
            }
        };
        let cluster = Cluster { sites: sites.collect(), forks: forks.iter().map(copies).collect() };
        (stations, cluster)
    };
    groups.into_iter().map(cluster).collect()
}

fn pace(kind: &StationKind) -> Pace {
    match kind {
        StationKind::Servers { count: 1 } | StationKind::Link { .. } => Pace::Fixed,
        StationKind::Servers { count } => Pace::Servers(*count),
        StationKind::Delay => Pace::Delay,
        StationKind::LoadDependent { rates } => Pace::Speeds(rates.clone()),
    }
}

/// A station inside and outside of a pool, or in a fork and alone, has queues that a decomposition
/// cannot keep apart. A delay has no queue, so it may stand anywhere.
fn only_once(
    network: &Network,
    parts: &[PathPart],
    seen: &mut [bool],
    pools: &mut [bool],
) -> Result<(), Error> {
    let twice = |what: String| {
        Err(Error::Refused {
            solver: SOLVER.into(),
            feature: format!("{what}, which is used in two places (inside and outside)"),
            hint: "give each use its own, or simulate".into(),
        })
    };
    let mut mark = |station: usize| {
        let there = &network.stations[station];
        if std::mem::replace(&mut seen[station], true) && there.kind != StationKind::Delay {
            return twice(format!("station `{}`", there.name));
        }
        Ok(())
    };
    for part in parts {
        match part {
            PathPart::Station { station, .. } => mark(*station)?,
            PathPart::Cluster { stations, .. } => stations.iter().try_for_each(|s| mark(*s))?,
            PathPart::Pool { .. } => {}
        }
    }
    for part in parts {
        if let PathPart::Pool { pool, parts } = part {
            if std::mem::replace(&mut pools[*pool], true) {
                return twice(format!("pool `{}`", network.pools[*pool].name));
            }
            only_once(network, parts, seen, pools)?;
        }
    }
    Ok(())
}

/// What a reported mean belongs to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Of {
    /// Mean number at a station.
    Queue(usize),
    /// Share of the time a station is empty.
    Idle(usize),
    /// Mean number of requests at a fork to these stations.
    Fork(Vec<usize>),
    /// Mean number of slots in use.
    Held(usize),
    /// Mean number that wait for a slot.
    Waiting(usize),
}

/// A mean for every number of requests, entry n with n of them.
#[derive(Clone, Debug)]
pub(crate) struct Mean {
    pub(crate) of: Of,
    pub(crate) values: Reward,
}

/// A closed level solved for 1..=N.
#[derive(Debug)]
pub(crate) struct ClosedLevel {
    pub(crate) sweep: Sweep,
    pub(crate) means: Vec<Mean>,
}

/// Solves the parts as a closed network for every population 1..=`population`.
pub(crate) fn solve_closed(
    network: &Network,
    parts: &[PathPart],
    think: Seconds,
    population: usize,
) -> Result<ClosedLevel, Error> {
    let mut resources = Vec::new();
    let mut inside: Vec<Vec<Mean>> = Vec::new();
    for part in parts {
        let (resource, means) = resource(network, part, population)?;
        resources.push(resource);
        inside.push(means);
    }
    let rewards: Vec<Vec<Reward>> =
        inside.iter().map(|means| means.iter().map(|m| m.values.clone()).collect()).collect();
    let scv: Vec<f64> =
        parts.iter().map(|part| if let PathPart::Station { scv, .. } = part { *scv } else { 1.0 }).collect();
    let sweep = variable::solve(&resources, &scv, think, population, &rewards)?;
    let by_population = |value: &dyn Fn(usize) -> f64, empty: f64| {
        std::iter::once(empty).chain((1..=population).map(value)).collect::<Vec<f64>>()
    };
    let mut means = Vec::new();
    for (k, part) in parts.iter().enumerate() {
        match part {
            PathPart::Station { station, .. } => {
                means.push(Mean {
                    of: Of::Queue(*station),
                    values: by_population(&|n| sweep.queue(k, n), 0.0),
                });
                means
                    .push(Mean { of: Of::Idle(*station), values: by_population(&|n| sweep.idle(k, n), 1.0) });
            }
            PathPart::Cluster { stations, .. } => {
                let values = by_population(&|n| sweep.queue(k, n), 0.0);
                means.push(Mean { of: Of::Fork(stations.clone()), values });
            }
            PathPart::Pool { .. } => {}
        }
        for (i, mean) in inside[k].iter().enumerate() {
            let values = by_population(&|n| sweep.reward(k, i, n), mean.values[0]);
            means.push(Mean { of: mean.of.clone(), values });
        }
    }
    Ok(ClosedLevel { sweep, means })
}

/// One part as a station of its level, and the means of what is inside of it.
fn resource(
    network: &Network,
    part: &PathPart,
    population: usize,
) -> Result<(ClassStation, Vec<Mean>), Error> {
    match part {
        PathPart::Station { station, demand, .. } => {
            let there = &network.stations[*station];
            let pace = pace(&there.kind);
            Ok((ClassStation { name: there.name.clone(), demand: *demand, pace }, Vec::new()))
        }
        PathPart::Cluster { cluster, .. } => {
            let names: Vec<_> = cluster.sites.iter().map(|site| site.name.as_str()).collect();
            let name = format!("fork to {}", names.join(", "));
            let rates = cluster.closed_rates(population.max(1))?;
            // A fork without work takes no time, whatever its queue.
            if rates[0].is_infinite() {
                return Ok((ClassStation { name, demand: 0.0, pace: Pace::Fixed }, Vec::new()));
            }
            let speeds = rates.iter().map(|rate| rate / rates[0]).collect();
            Ok((ClassStation { name, demand: 1.0 / rates[0], pace: Pace::Speeds(speeds) }, Vec::new()))
        }
        PathPart::Pool { pool, parts } => {
            let slots = network.pools[*pool].size as usize;
            let most = slots.min(population).max(1);
            let inner = solve_closed(network, parts, 0.0, most)?;
            let mut means = inner.means;
            let count = |of: &dyn Fn(usize) -> usize| (0..=population).map(|k| of(k) as f64).collect();
            means.push(Mean { of: Of::Held(*pool), values: count(&|k| k.min(slots)) });
            means.push(Mean { of: Of::Waiting(*pool), values: count(&|k| k.saturating_sub(slots)) });
            let name = network.pools[*pool].name.clone();
            Ok((ClassStation { name, demand: 1.0, pace: Pace::Speeds(inner.sweep.throughput) }, means))
        }
    }
}

/// An open level: means at the arrival rate.
#[derive(Debug)]
pub(crate) struct OpenLevel {
    /// Mean number at each part, waiting for a slot included.
    pub(crate) present: Vec<f64>,
    /// Means inside of the parts: one value each.
    pub(crate) means: Vec<(Of, f64)>,
}

/// Solves the parts as an open network at `arrival` per second: each part as if alone (Jackson), a
/// part with rates μ(k) as the chain p(k) = p(k−1)·λ/μ(k).
pub(crate) fn solve_open(network: &Network, parts: &[PathPart], arrival: f64) -> Result<OpenLevel, Error> {
    let mut level = OpenLevel { present: Vec::new(), means: Vec::new() };
    for part in parts {
        if let PathPart::Cluster { stations, cluster } = part {
            let present = cluster.open_present(arrival)?;
            level.present.push(present);
            level.means.push((Of::Fork(stations.clone()), present));
            continue;
        }
        let levels = levels_needed(network, part);
        station::check_levels(levels as u64)?;
        let (resource, means) = resource(network, part, levels)?;
        if resource.demand == 0.0 || resource.pace == Pace::Delay {
            let present = arrival * resource.demand;
            level.present.push(present);
            if let PathPart::Station { station, .. } = part {
                level.means.push((Of::Queue(*station), present));
                level.means.push((Of::Idle(*station), (-present).exp()));
            }
            continue;
        }
        let chain = OpenChain::new(&resource, arrival)?;
        let present = chain.mean(&|k| k as f64, 1.0);
        level.present.push(present);
        if let PathPart::Station { station, .. } = part {
            level.means.push((Of::Queue(*station), present));
            level.means.push((Of::Idle(*station), chain.shares[0]));
        }
        for mean in means {
            // What waits for this pool grows with k for ever; the rest, also what waits for pools
            // inside of it, stays as it is with all slots in use.
            let own = matches!((&mean.of, part), (Of::Waiting(p), PathPart::Pool { pool, .. }) if p == pool);
            let slope = f64::from(u8::from(own));
            let value = chain.mean(&|k| mean.values[k.min(mean.values.len() - 1)], slope);
            level.means.push((mean.of, value));
        }
    }
    Ok(level)
}

/// From so many requests on, the part's rate does not change any more.
fn levels_needed(network: &Network, part: &PathPart) -> usize {
    match part {
        PathPart::Station { station, .. } => match &network.stations[*station].kind {
            StationKind::Servers { count } => *count as usize,
            StationKind::LoadDependent { rates } => rates.len(),
            StationKind::Delay | StationKind::Link { .. } => 1,
        },
        PathPart::Pool { pool, .. } => network.pools[*pool].size as usize + 1,
        PathPart::Cluster { .. } => 1,
    }
}

/// Shares of the time with k requests, those beyond the last level falling by a constant factor.
struct OpenChain {
    shares: Vec<f64>,
    /// λ / the last rate, below 1.
    ratio: f64,
}

impl OpenChain {
    fn new(resource: &ClassStation, arrival: f64) -> Result<Self, Error> {
        let levels = match &resource.pace {
            Pace::Servers(count) => *count as usize,
            Pace::Speeds(speeds) => speeds.len(),
            Pace::Fixed | Pace::Delay => 1,
        };
        let ratio = arrival / resource.rate(levels);
        laws::stability(&resource.name, ratio, ratio)?;
        let logarithms: Vec<f64> = std::iter::once(0.0)
            .chain((1..=levels).scan(0.0, |sum, k| {
                *sum += (arrival / resource.rate(k)).ln();
                Some(*sum)
            }))
            .collect();
        let most = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut shares: Vec<f64> = logarithms.iter().map(|l| (l - most).exp()).collect();
        let total = shares.iter().sum::<f64>() + shares[levels] * ratio / (1.0 - ratio);
        shares.iter_mut().for_each(|s| *s /= total);
        Ok(Self { shares, ratio })
    }

    /// Long-run mean of a value that grows by `slope` with each request beyond the last level.
    fn mean(&self, value: &dyn Fn(usize) -> f64, slope: f64) -> f64 {
        let last = self.shares.len() - 1;
        let upto: f64 = self.shares.iter().enumerate().map(|(k, share)| share * value(k)).sum();
        let beyond = self.shares[last] * self.ratio / (1.0 - self.ratio);
        upto + beyond * (value(last) + slope / (1.0 - self.ratio))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distribution;
    use crate::network::{SlotPool, SlotPoolId, Station, StationId};
    use crate::single;

    fn network(slots: u32, class: impl FnOnce(Vec<Step>) -> Class) -> Network {
        let visit = |station, time| Step::visit(StationId(station), Distribution::exponential(time));
        Network {
            name: String::new(),
            stations: vec![Station::delay("net"), Station::single("db")],
            pools: vec![SlotPool::new("workers", slots)],
            classes: vec![class(vec![visit(0, 0.5), Step::hold(SlotPoolId(0), vec![visit(1, 0.1)])])],
        }
    }

    fn closed(slots: u32, population: usize) -> ClosedLevel {
        let network = network(slots, |path| Class::closed("c", population as u64, 1.0, path));
        let parts = parts(&network, &network.classes[0]).unwrap();
        solve_closed(&network, &parts, 1.0, population).unwrap()
    }

    /// A pool around one exponential server changes who waits where, not how many are served.
    #[test]
    fn a_pool_around_one_server_moves_the_queue_and_nothing_else() {
        let plain =
            single::solve(&[ClassStation::delay("net", 0.5), ClassStation::fixed("db", 0.1)], 1.0, 40)
                .unwrap();
        let level = closed(4, 40);
        for n in [1, 7, 40] {
            assert!((level.sweep.throughput(n) / plain.throughput(n) - 1.0).abs() < 1e-12);
            let of = |wanted: Of| level.means.iter().find(|m| m.of == wanted).unwrap().values[n];
            assert!((of(Of::Held(0)) + of(Of::Waiting(0)) - plain.queue(1, n)).abs() < 1e-9);
            assert!((of(Of::Queue(1)) - of(Of::Held(0))).abs() < 1e-9, "all slots are at the only station");
        }
    }

    #[test]
    fn an_open_pool_around_one_server_is_mm1() {
        let network = network(3, |path| Class::open("c", 8.0, path));
        let parts = parts(&network, &network.classes[0]).unwrap();
        let level = solve_open(&network, &parts, 8.0).unwrap();
        assert!((level.present[0] - 4.0).abs() < 1e-12); // the delay
        assert!((level.present[1] - 4.0).abs() < 1e-9); // ρ = 0.8: ρ/(1 − ρ)
        let waiting = level.means.iter().find(|m| m.0 == Of::Waiting(0)).unwrap().1;
        assert!((waiting - 0.8_f64.powi(4) / 0.2).abs() < 1e-9); // Σ (k − 3)+ p(k) = ρ⁴/(1 − ρ)
    }

    /// No more than four are inside, of which two wait: p(3) + 2·P(4 or more) of M/M/1.
    #[test]
    fn what_waits_inside_of_an_open_pool_is_limited_by_its_slots() {
        let mut network = network(4, |path| Class::open("c", 8.0, path));
        network.pools.push(SlotPool::new("connections", 2));
        let visit = Step::visit(StationId(1), Distribution::exponential(0.1));
        let inner = Step::hold(SlotPoolId(1), vec![visit]);
        network.classes[0].path = vec![Step::hold(SlotPoolId(0), vec![inner])];
        let parts = parts(&network, &network.classes[0]).unwrap();
        let level = solve_open(&network, &parts, 8.0).unwrap();
        let of = |wanted: Of| level.means.iter().find(|m| m.0 == wanted).unwrap().1;
        assert!((of(Of::Waiting(1)) - 0.9216).abs() < 1e-9, "{}", of(Of::Waiting(1)));
        assert!((of(Of::Waiting(0)) - 0.8_f64.powi(5) / 0.2).abs() < 1e-9);
    }

    #[test]
    fn a_station_on_both_sides_of_a_pool_is_refused_by_name() {
        let mut network = network(4, |path| Class::closed("c", 3, 1.0, path));
        let extra = Step::visit(StationId(1), Distribution::exponential(0.1));
        network.classes[0].path.push(extra);
        let error = parts(&network, &network.classes[0]).unwrap_err();
        assert!(error.to_string().contains("station `db`"), "{error}");
    }
}
