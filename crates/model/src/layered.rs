//! Workers that stay occupied while their request is elsewhere: a network inside a pool inside a network.
//!
//! ```text
//!   outside ──▶ [waiting for a slot] ──▶ slot held ┌──────────────┐ ──▶ outside
//!                                                  │ inner stations│
//!                                                  └──────────────┘
//! ```
//!
//! The inside is solved for every number of held slots, 1 to M. To the outside it is then one station whose
//! rate with k requests is X_inside(min(k, M)); its own means are those of the inside, averaged over k. This is
//! decomposition (Courtois 1977; flow equivalence, Chandy, Herzog & Woo 1975): exact when one
//! exponential station is inside or when slots never run out, an approximation otherwise. Pools may stand inside pools.

use krarup_units::Seconds;

use crate::forkjoin::Copies;
use crate::network::{Class, Kind, Network, Step};
use crate::single::{self, Pace, Resource, Reward, Sweep};
use crate::{Error, laws};

/// What one path is made of, repeated visits gathered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    /// A station.
    Station { station: usize, visits: f64, demand: Seconds },
    /// A pool and what happens while a slot is held.
    Pool { pool: usize, parts: Vec<Part> },
    /// Copies to several stations; `weight` is the mean number of forks per request.
    Fork { stations: Vec<usize>, copies: Copies, weight: f64 },
}

/// Gathers the steps of a class into parts.
///
/// # Errors
/// [`Error::Refused`] where one station or pool is used in two places that a decomposition must keep apart.
pub(crate) fn parts(network: &Network, class: &Class) -> Result<Vec<Part>, Error> {
    let mut parts = Vec::new();
    gather(network, &class.path, 1.0, &mut parts);
    only_once(
        network,
        &parts,
        &mut vec![false; network.stations.len()],
        &mut vec![false; network.pools.len()],
    )?;
    Ok(parts)
}

fn gather(network: &Network, path: &[Step], weight: f64, parts: &mut Vec<Part>) {
    for step in path {
        match step {
            Step::Visit(visit) => {
                let more = weight * visit.count;
                add(
                    parts,
                    visit.station.0,
                    more,
                    more * network.stations[visit.station.0].service(&visit.work),
                );
            }
            Step::Hold { pool, path } => {
                let found = parts.iter_mut().find_map(|part| match part {
                    Part::Pool { pool: other, parts } if *other == pool.0 => Some(parts),
                    _ => None,
                });
                if let Some(inner) = found {
                    gather(network, path, weight, inner);
                } else {
                    let mut inner = Vec::new();
                    gather(network, path, weight, &mut inner);
                    parts.push(Part::Pool { pool: pool.0, parts: inner });
                }
            }
            Step::Fork(fork) if fork.choose == 1 => {
                let share = weight / fork.stations.len() as f64;
                for station in &fork.stations {
                    add(parts, station.0, share, share * network.stations[station.0].service(&fork.work));
                }
            }
            Step::Fork(fork) => parts.push(Part::Fork {
                stations: fork.stations.iter().map(|s| s.0).collect(),
                copies: Copies {
                    service: fork
                        .stations
                        .iter()
                        .map(|s| network.stations[s.0].service(&fork.work))
                        .collect(),
                    choose: fork.choose,
                    needed: fork.wait.needed(fork.choose),
                },
                weight,
            }),
            Step::OneOf { branches } => {
                let total: f64 = branches.iter().map(|b| b.share).sum();
                for branch in branches {
                    gather(network, &branch.path, weight * branch.share / total, parts);
                }
            }
        }
    }
}

fn add(parts: &mut Vec<Part>, station: usize, more_visits: f64, more_demand: Seconds) {
    for part in parts.iter_mut() {
        if let Part::Station { station: other, visits, demand } = part
            && *other == station
        {
            *visits += more_visits;
            *demand += more_demand;
            return;
        }
    }
    parts.push(Part::Station { station, visits: more_visits, demand: more_demand });
}

/// A station inside and outside of a pool, or in a fork and alone, has queues that a decomposition cannot
/// keep apart. A delay has no queue, so it may stand anywhere.
fn only_once(network: &Network, parts: &[Part], seen: &mut [bool], pools: &mut [bool]) -> Result<(), Error> {
    let twice = |what: String| {
        Err(Error::Refused {
            solver: "the decomposition of held pools and forks".into(),
            feature: format!("{what}, which is used in two places (inside and outside)"),
            hint: "give each use its own, or simulate".into(),
        })
    };
    let mut mark = |station: usize| {
        let there = &network.stations[station];
        if std::mem::replace(&mut seen[station], true) && there.kind != Kind::Delay {
            return twice(format!("station `{}`", there.name));
        }
        Ok(())
    };
    for part in parts {
        match part {
            Part::Station { station, .. } => mark(*station)?,
            Part::Fork { stations, .. } => stations.iter().try_for_each(|s| mark(*s))?,
            Part::Pool { .. } => {}
        }
    }
    for part in parts {
        if let Part::Pool { pool, parts } = part {
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
pub(crate) struct Level {
    pub(crate) sweep: Sweep,
    pub(crate) means: Vec<Mean>,
}

/// Solves the parts as a closed network for every population 1..=`population`.
pub(crate) fn solve_closed(
    network: &Network,
    parts: &[Part],
    think: Seconds,
    population: usize,
) -> Result<Level, Error> {
    let mut resources = Vec::new();
    let mut inside: Vec<Vec<Mean>> = Vec::new();
    for part in parts {
        let (resource, means) = resource(network, part, population)?;
        resources.push(resource);
        inside.push(means);
    }
    let rewards: Vec<Vec<Reward>> =
        inside.iter().map(|means| means.iter().map(|m| m.values.clone()).collect()).collect();
    let sweep = single::solve_with_rewards(&resources, think, population, &rewards)?;
    let by_population = |value: &dyn Fn(usize) -> f64, empty: f64| {
        std::iter::once(empty).chain((1..=population).map(value)).collect::<Vec<f64>>()
    };
    let mut means = Vec::new();
    for (k, part) in parts.iter().enumerate() {
        match part {
            Part::Station { station, .. } => {
                means.push(Mean {
                    of: Of::Queue(*station),
                    values: by_population(&|n| sweep.queue(k, n), 0.0),
                });
                means
                    .push(Mean { of: Of::Idle(*station), values: by_population(&|n| sweep.idle(k, n), 1.0) });
            }
            Part::Fork { stations, .. } => {
                let values = by_population(&|n| sweep.queue(k, n), 0.0);
                means.push(Mean { of: Of::Fork(stations.clone()), values });
            }
            Part::Pool { .. } => {}
        }
        for (i, mean) in inside[k].iter().enumerate() {
            let values = by_population(&|n| sweep.reward(k, i, n), mean.values[0]);
            means.push(Mean { of: mean.of.clone(), values });
        }
    }
    Ok(Level { sweep, means })
}

/// One part as a station of its level, and the means of what is inside of it.
fn resource(network: &Network, part: &Part, population: usize) -> Result<(Resource, Vec<Mean>), Error> {
    match part {
        Part::Station { station, demand, .. } => {
            let there = &network.stations[*station];
            let pace = match &there.kind {
                Kind::Servers { count: 1 } | Kind::Link { .. } => Pace::Fixed,
                Kind::Servers { count } => Pace::Servers(*count),
                Kind::Delay => Pace::Delay,
                Kind::LoadDependent { rates } => Pace::Speeds(rates.clone()),
            };
            Ok((Resource { name: there.name.clone(), demand: *demand, pace }, Vec::new()))
        }
        Part::Fork { stations, copies, weight } => {
            let names: Vec<_> = stations.iter().map(|s| network.stations[*s].name.as_str()).collect();
            let name = format!("fork to {}", names.join(", "));
            let demand = weight * copies.alone();
            let speeds = (1..=population.max(1)).map(|j| copies.rate(j) * copies.alone()).collect();
            // A fork without work takes no time, whatever its queue.
            let pace = if demand > 0.0 { Pace::Speeds(speeds) } else { Pace::Fixed };
            Ok((Resource { name, demand, pace }, Vec::new()))
        }
        Part::Pool { pool, parts } => {
            let slots = network.pools[*pool].size as usize;
            let most = slots.min(population).max(1);
            let inner = solve_closed(network, parts, 0.0, most)?;
            let mut means = inner.means;
            let count = |of: &dyn Fn(usize) -> usize| (0..=population).map(|k| of(k) as f64).collect();
            means.push(Mean { of: Of::Held(*pool), values: count(&|k| k.min(slots)) });
            means.push(Mean { of: Of::Waiting(*pool), values: count(&|k| k.saturating_sub(slots)) });
            let name = network.pools[*pool].name.clone();
            Ok((Resource { name, demand: 1.0, pace: Pace::Speeds(inner.sweep.throughput) }, means))
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

/// Solves the parts as an open network at `arrival` per second: each part as if alone (Jackson), a part with
/// rates μ(k) as the chain p(k) = p(k−1)·λ/μ(k).
pub(crate) fn solve_open(network: &Network, parts: &[Part], arrival: f64) -> Result<OpenLevel, Error> {
    let mut level = OpenLevel { present: Vec::new(), means: Vec::new() };
    for part in parts {
        if let Part::Fork { stations, copies, weight } = part {
            let present = arrival * weight * copies.open_response(arrival * weight)?;
            level.present.push(present);
            level.means.push((Of::Fork(stations.clone()), present));
            continue;
        }
        let (resource, means) = resource(network, part, levels_needed(network, part))?;
        if resource.demand == 0.0 || resource.pace == Pace::Delay {
            let present = arrival * resource.demand;
            level.present.push(present);
            if let Part::Station { station, .. } = part {
                level.means.push((Of::Queue(*station), present));
                level.means.push((Of::Idle(*station), (-present).exp()));
            }
            continue;
        }
        let chain = OpenChain::new(&resource, arrival)?;
        let present = chain.mean(&|k| k as f64, 1.0);
        level.present.push(present);
        if let Part::Station { station, .. } = part {
            level.means.push((Of::Queue(*station), present));
            level.means.push((Of::Idle(*station), chain.shares[0]));
        }
        for mean in means {
            // What waits grows with k for ever, the rest stays as it is with all slots in use.
            let slope = f64::from(u8::from(matches!(mean.of, Of::Waiting(_))));
            let value = chain.mean(&|k| mean.values[k.min(mean.values.len() - 1)], slope);
            level.means.push((mean.of, value));
        }
    }
    Ok(level)
}

/// From so many requests on, the part's rate does not change any more.
fn levels_needed(network: &Network, part: &Part) -> usize {
    match part {
        Part::Station { station, .. } => match &network.stations[*station].kind {
            Kind::Servers { count } => *count as usize,
            Kind::LoadDependent { rates } => rates.len(),
            Kind::Delay | Kind::Link { .. } => 1,
        },
        Part::Pool { pool, .. } => network.pools[*pool].size as usize + 1,
        Part::Fork { .. } => 1,
    }
}

/// Shares of the time with k requests, those beyond the last level falling by a constant factor.
struct OpenChain {
    shares: Vec<f64>,
    /// λ / the last rate, below 1.
    ratio: f64,
}

impl OpenChain {
    fn new(resource: &Resource, arrival: f64) -> Result<Self, Error> {
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
    use crate::network::{Pool, PoolId, Station, StationId};

    fn network(slots: u32, class: impl FnOnce(Vec<Step>) -> Class) -> Network {
        let visit = |station, time| Step::visit(StationId(station), Distribution::exponential(time));
        Network {
            name: String::new(),
            stations: vec![Station::delay("net"), Station::single("db")],
            pools: vec![Pool::new("workers", slots)],
            classes: vec![class(vec![visit(0, 0.5), Step::hold(PoolId(0), vec![visit(1, 0.1)])])],
        }
    }

    fn closed(slots: u32, population: usize) -> Level {
        let network = network(slots, |path| Class::closed("c", population as u64, 1.0, path));
        let parts = parts(&network, &network.classes[0]).unwrap();
        solve_closed(&network, &parts, 1.0, population).unwrap()
    }

    /// A pool around one exponential server changes who waits where, not how many are served.
    #[test]
    fn a_pool_around_one_server_moves_the_queue_and_nothing_else() {
        let plain =
            single::solve(&[Resource::delay("net", 0.5), Resource::fixed("db", 0.1)], 1.0, 40).unwrap();
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

    #[test]
    fn a_station_on_both_sides_of_a_pool_is_refused_by_name() {
        let mut network = network(4, |path| Class::closed("c", 3, 1.0, path));
        let extra = Step::visit(StationId(1), Distribution::exponential(0.1));
        network.classes[0].path.push(extra);
        let error = parts(&network, &network.classes[0]).unwrap_err();
        assert!(error.to_string().contains("station `db`"), "{error}");
    }
}
