//! Copies of a request to several servers: it goes on when enough of them have answered.
//!
//! Only special cases have a closed solution:
//!
//! | case | answer |
//! |---|---|
//! | no other request is there | exact for exponential services, from their order statistics |
//! | copies to delays alone | exact for exponential services: no request ever waits |
//! | one copy to one of n | exact: n stations of a product-form network |
//! | two equal single servers, closed, always j requests | exact: j/(j + 1/2) of the rate of one |
//! | two equal single servers, open | exact (Nelson and Tantawi 1988) |
//!
//! All else is approximate. `tests/all/fork_servers.rs` measures the error against Markov chains
//! and simulation; the figures stand in `docs/journal/2026-11-23-forks.md` and in the notes of
//! every solution.
//!
//! A station that is in a fork may be visited alone, too, and forks may share stations. All of
//! these together are a [`Cluster`]: to the network around it one station, whose rate depends on
//! how many requests are inside.
//!
//! A closed network that does not wait for all answers has no formula here: late copies keep
//! servers busy after their request has left, and nothing but simulation follows them.

use krarup_units::Seconds;

use self::order::{Piece, time_until};
use crate::single::{self, ClassStation, Pace};
use crate::{Error, laws, station};

mod order;

/// A station as its copies see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Name of the station, for messages.
    pub name: String,
    /// How fast it works off its queue.
    pub pace: Pace,
    /// Whether those there share it, so that copies are not done in order.
    pub shared: bool,
    /// Visits by requests that are in no fork, per pass.
    pub visits: f64,
    /// Their demand D, per pass.
    pub demand: Seconds,
}

/// Copies to some of the sites.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkedCopies {
    /// The sites, by their place in the cluster, and the mean service time of a copy at each; n of
    /// them.
    pub service: Vec<(usize, Seconds)>,
    /// Squared coefficient of variation of the service time.
    pub scv: f64,
    /// Copies sent, k ≤ n; which stations is random when k < n.
    pub choose: u32,
    /// Answers needed, 1 to k.
    pub needed: u32,
    /// Mean number of such forks per pass through the cluster.
    pub weight: f64,
}

/// Stations that forks share, with everything that visits them.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// The stations.
    pub sites: Vec<Site>,
    /// The forks.
    pub forks: Vec<ForkedCopies>,
}

impl ForkedCopies {
    /// The share of the copies of a request that each site gets, k/n.
    pub fn share(&self) -> f64 {
        f64::from(self.choose) / self.service.len() as f64
    }
}

impl Site {
    /// Speed with `jobs` ≥ 1 requests there, relative to one server.
    fn speed(&self, jobs: usize) -> f64 {
        match &self.pace {
            Pace::Fixed => 1.0,
            Pace::Delay => jobs as f64,
            Pace::Servers(count) => jobs.min(*count as usize) as f64,
            Pace::Speeds(speeds) => speeds[jobs.min(speeds.len()) - 1],
        }
    }

    /// The speed at which one request is served when `jobs` are there.
    fn own_speed(&self, jobs: usize) -> f64 {
        if matches!(self.pace, Pace::Speeds(_)) { self.speed(jobs) } else { 1.0 }
    }

    /// The largest speed there is.
    fn most_speed(&self) -> f64 {
        match &self.pace {
            Pace::Fixed => 1.0,
            Pace::Delay => f64::INFINITY,
            Pace::Servers(count) => f64::from(*count),
            Pace::Speeds(speeds) => speeds.iter().copied().fold(0.0, f64::max),
        }
    }

    /// The shortest residence there is, in services.
    fn least(&self) -> f64 {
        let Pace::Speeds(speeds) = &self.pace else { return 1.0 };
        (1..=speeds.len()).map(|jobs| jobs as f64 / self.speed(jobs)).fold(f64::INFINITY, f64::min)
    }

    /// From so many requests on, the time each adds is the same; and how much that is, in services.
    fn linear_from(&self) -> Option<usize> {
        match &self.pace {
            Pace::Fixed => Some(1),
            Pace::Delay => None,
            Pace::Servers(count) => Some(*count as usize),
            Pace::Speeds(speeds) => Some(speeds.len()),
        }
    }

    /// Times in units of the service time there: mean residence and own service 1/own speed, with
    /// one request and others in number as drawn from `population` others, each here with
    /// probability `share`. The residence with j of them is j/speed(j), or that of `known`, by
    /// number.
    fn times(&self, population: usize, share: f64, known: Option<&[f64]>) -> (f64, f64) {
        let at = |jobs: usize| {
            let residence = known.map_or_else(|| jobs as f64 / self.speed(jobs), |known| known[jobs - 1]);
            (residence, 1.0 / self.own_speed(jobs))
        };
        let share = share.clamp(0.0, 1.0);
        let mean = population as f64 * share;
        if self.pace == Pace::Delay {
            return (1.0, 1.0);
        }
        if share >= 1.0 || population == 0 {
            return at(population + 1);
        }
        let width = 8.0 * (mean * (1.0 - share)).sqrt() + 8.0;
        let from = self.linear_from().unwrap_or(usize::MAX);
        if known.is_none() && (1.0 + mean - width >= from as f64 || self.pace == Pace::Fixed) {
            // Straight from here on: the mean decides.
            let (least, own) = at(from);
            return (least + (1.0 + mean - from as f64) / self.speed(from), own);
        }
        // The binomial distribution, from its top outward; what is farther than eight deviations
        // changes no digit.
        let low = (mean - width).max(0.0).floor() as usize;
        let high = ((mean + width).ceil() as usize).min(population);
        let odds = share / (1.0 - share);
        let top = ((population + 1) as f64 * share).floor().min(population as f64) as usize;
        let (mut total, mut residence, mut own) = (0.0, 0.0, 0.0);
        let mut add = |others: usize, weight: f64| {
            let (here, alone) = at(others + 1);
            total += weight;
            residence += weight * here;
            own += weight * alone;
        };
        add(top, 1.0);
        let mut weight = 1.0;
        for others in top + 1..=high {
            weight *= (population + 1 - others) as f64 / others as f64 * odds;
            add(others, weight);
        }
        weight = 1.0;
        for others in (low..top).rev() {
            weight *= (others + 1) as f64 / (population - others) as f64 / odds;
            add(others, weight);
        }
        (residence / total, own / total)
    }
}

impl Cluster {
    /// The stations of one fork, without other visits, of one server each.
    pub fn of_single_servers(service: &[Seconds], choose: u32, needed: u32) -> Self {
        let site = |place| Site {
            name: format!("server {place}"),
            pace: Pace::Fixed,
            shared: false,
            visits: 0.0,
            demand: 0.0,
        };
        let service: Vec<_> = service.iter().copied().enumerate().collect();
        Self {
            sites: (0..service.len()).map(site).collect(),
            forks: vec![ForkedCopies { service, scv: 1.0, choose, needed, weight: 1.0 }],
        }
    }

    /// Expected time of a fork until `needed` of its copies are done when no other request is
    /// there.
    pub fn alone(&self, fork: &ForkedCopies) -> Seconds {
        let pieces: Vec<Piece> = fork
            .service
            .iter()
            .map(|(site, service)| Piece::own(0.0, service / self.sites[*site].own_speed(1), fork.scv))
            .collect();
        time_until(fork.needed, fork.choose, &pieces)
    }

    /// A time that no fork takes less than on average, however many others are there: exponential
    /// services make it wait for the last of them; of others only the means are known, and the
    /// first of some may come at once.
    pub fn shortest(&self, fork: &ForkedCopies) -> Seconds {
        // Where company makes a server faster, what is served at once is less variable than
        // exponential.
        let steady =
            |site: usize| !matches!(&self.sites[site].pace, Pace::Speeds(speeds) if speeds.len() > 1);
        let exponential = fork.scv == 1.0 && fork.service.iter().all(|(site, _)| steady(*site));
        if !exponential && fork.needed < fork.choose && fork.scv > 0.0 {
            return 0.0;
        }
        let scv = if exponential { 1.0 } else { 0.0 };
        let pieces: Vec<Piece> = fork
            .service
            .iter()
            .map(|(site, service)| Piece::own(0.0, service * self.sites[*site].least(), scv))
            .collect();
        time_until(fork.needed, fork.choose, &pieces)
    }

    /// What a pass asks of a site in all: visits and copies together.
    pub fn demand(&self, site: usize) -> Seconds {
        self.sites[site].demand
            + self.forks.iter().map(|fork| fork.weight * fork.share() * service_at(fork, site)).sum::<f64>()
    }

    /// Passes per second that the sites can take at most.
    pub fn capacity(&self) -> f64 {
        (0..self.sites.len())
            .map(|site| (self.sites[site].most_speed(), self.demand(site)))
            .filter(|(_, demand)| *demand > 0.0)
            .fold(f64::INFINITY, |least, (speed, demand)| least.min(speed / demand))
    }

    /// Mean service time of all that comes to a site.
    fn mean_service(&self, site: usize) -> Seconds {
        let copies = |fork: &ForkedCopies| if holds(fork, site) { fork.weight * fork.share() } else { 0.0 };
        let visits = self.sites[site].visits + self.forks.iter().map(copies).sum::<f64>();
        if visits > 0.0 { self.demand(site) / visits } else { 0.0 }
    }

    /// Passes per second with 1..=`population` requests inside.
    ///
    /// A request that arrives finds the others as they are with one request less (mean value
    /// analysis). At a single server it finds a copy of each request in a fork there, also of those
    /// that are done there already: what it waits for is the last copy, and that is where the
    /// others are behind, too. For one fork to single servers that is j/(alone + (j − 1)·S·k/n)
    /// (Varki 1999 in spirit). At m servers the share (m − 1)/m of the time that copies wait for
    /// each other is time in which a request is not there (`Cluster::apart`).
    ///
    /// # Errors
    /// As [`single::solve`].
    pub fn closed_rates(&self, population: usize) -> Result<Vec<f64>, Error> {
        let services: Vec<Seconds> = (0..self.sites.len()).map(|site| self.mean_service(site)).collect();
        let capacity = self.capacity();
        let only_fork = self.forks.len() == 1 && self.sites.iter().all(|site| site.visits == 0.0);
        let apart: Vec<Vec<Option<Vec<f64>>>> = self
            .forks
            .iter()
            .map(|fork| {
                fork.service
                    .iter()
                    .map(|(site, service)| self.apart(fork, *site, *service, population))
                    .collect()
            })
            .collect::<Result<_, Error>>()?;
        // With one request less: how many there are in each fork, as visits at each site, and as
        // copies at each site.
        let mut forked = vec![0.0; self.forks.len()];
        let mut visiting = vec![0.0; self.sites.len()];
        let mut copies = vec![0.0; self.sites.len()];
        let mut rates = Vec::with_capacity(population);
        for jobs in 1..=population {
            let others = jobs - 1;
            let share = |present: f64| if others > 0 { present / others as f64 } else { 0.0 };
            if only_fork {
                forked[0] = others as f64;
            }
            let residence_of = |site: usize, present: f64, service: Seconds, known: Option<&[f64]>| {
                let (here, own) = self.sites[site].times(others, share(present), known);
                (services[site] * (here - own), service * own)
            };
            let mut total = 0.0;
            let at_sites: Vec<Seconds> = (0..self.sites.len())
                .map(|site| {
                    let there = &self.sites[site];
                    if there.visits == 0.0 {
                        return 0.0;
                    }
                    let (wait, own) =
                        residence_of(site, visiting[site] + copies[site], there.demand / there.visits, None);
                    there.visits * (wait + own)
                })
                .collect();
            total += at_sites.iter().sum::<f64>();
            let mut here = vec![0.0; self.sites.len()];
            let in_forks: Vec<Seconds> = self
                .forks
                .iter()
                .zip(&apart)
                .map(|(fork, apart)| {
                    let pieces: Vec<Piece> = fork
                        .service
                        .iter()
                        .zip(apart)
                        .map(|((site, service), apart)| {
                            let ahead: f64 = self
                                .forks
                                .iter()
                                .zip(&forked)
                                .filter(|(other, _)| holds(other, *site))
                                .map(|(other, number)| other.share() * number)
                                .sum();
                            let (wait, own) =
                                residence_of(*site, visiting[*site] + ahead, *service, apart.as_deref());
                            if !only_fork {
                                let (wait, own) =
                                    residence_of(*site, visiting[*site] + copies[*site], *service, None);
                                here[*site] += fork.weight * fork.share() * (wait + own);
                            }
                            Piece::own(wait, own, fork.scv)
                        })
                        .collect();
                    fork.weight * time_until(fork.needed, fork.choose, &pieces)
                })
                .collect();
            total += in_forks.iter().sum::<f64>();
            let rate = (jobs as f64 / total).min(capacity);
            let number = |time: Seconds| jobs as f64 * time / total;
            forked.iter_mut().zip(&in_forks).for_each(|(into, time)| *into = number(*time));
            visiting.iter_mut().zip(&at_sites).for_each(|(into, time)| *into = number(*time));
            copies.iter_mut().zip(&here).for_each(|(into, time)| *into = number(*time));
            rates.push(rate);
        }
        Ok(rates)
    }

    /// Residence times, in services, at a site of several servers with 1..=`population` requests
    /// that are there or wait elsewhere for their other copies: machine repair, whose time outside
    /// is that wait. `None` at other sites.
    ///
    /// Alone, a request waits for the others S·(H − 1), H being the order statistic. With m → ∞ all
    /// of it is spent elsewhere, and j requests take max(S·H, j·S/m) each; with m = 1 none is, and
    /// they take S·H + (j − 1)·S. Between, the share (m − 1)/m fits what was simulated for 2 to 5
    /// stations of 1 to 16 servers within 3 %.
    fn apart(
        &self,
        fork: &ForkedCopies,
        site: usize,
        service: Seconds,
        population: usize,
    ) -> Result<Option<Vec<f64>>, Error> {
        let Pace::Servers(servers) = self.sites[site].pace else { return Ok(None) };
        if service <= 0.0 || servers < 2 {
            return Ok(None);
        }
        let own = vec![Piece::own(0.0, service, fork.scv); fork.choose as usize];
        let others = time_until(fork.needed, fork.choose, &own) - service;
        let all = fork.weight * fork.share()
            + self.sites[site].visits
            + self
                .forks
                .iter()
                .filter(|other| !std::ptr::eq(*other, fork) && holds(other, site))
                .map(|other| other.weight * other.share())
                .sum::<f64>();
        let outside = others * (1.0 - 1.0 / f64::from(servers)) * (fork.weight * fork.share() / all);
        let there = ClassStation {
            name: self.sites[site].name.clone(),
            demand: service,
            pace: Pace::Servers(servers),
        };
        let sweep = single::solve(&[there], outside, population)?;
        Ok(Some((1..=population).map(|n| sweep.queue(0, n) / sweep.throughput(n) / service).collect()))
    }

    /// Mean number inside with `arrival` passes per second (Poisson): each site as if alone; a fork
    /// waits for the answers of stations that are as independent as Nelson and Tantawi found them
    /// (exact for two single servers).
    ///
    /// # Errors
    /// [`Error::Unstable`], naming the site; what the formulas of one station refuse.
    pub fn open_present(&self, arrival: f64) -> Result<f64, Error> {
        let mut sites = Vec::new();
        for (place, site) in self.sites.iter().enumerate() {
            sites.push(self.open_site(arrival, place, site)?);
        }
        let mut present = 0.0;
        for (site, wait) in self.sites.iter().zip(&sites) {
            present += arrival * (site.visits * wait.mean + site.demand / wait.own_speed);
        }
        for fork in &self.forks {
            let pieces: Vec<Piece> = fork
                .service
                .iter()
                .map(|(site, service)| {
                    let there = &sites[*site];
                    let own = service / there.own_speed;
                    let mean = there.mean + own;
                    let variance = (there.variance + fork.scv * own * own).max(0.0);
                    Piece::own(0.0, mean, if mean > 0.0 { variance / (mean * mean) } else { 0.0 })
                })
                .collect();
            let independent = time_until(fork.needed, fork.choose, &pieces);
            let alone = self.alone(fork);
            let all = fork.needed == fork.choose && fork.choose > 1;
            let closeness = if all { self.closeness(fork, &sites) } else { 1.0 };
            present += arrival * fork.weight * (alone + closeness * (independent - alone));
        }
        Ok(present)
    }

    /// Waiting at one site.
    fn open_site(&self, arrival: f64, place: usize, site: &Site) -> Result<Waiting, Error> {
        let service = self.mean_service(place);
        let load = arrival * self.demand(place);
        let none = Waiting { mean: 0.0, variance: 0.0, utilization: 0.0, own_speed: site.own_speed(1) };
        if load == 0.0 || site.pace == Pace::Delay {
            return Ok(none);
        }
        let utilization = load / site.speed(site.linear_from().unwrap_or(1));
        laws::stability(&site.name, utilization, utilization)?;
        let servers = match &site.pace {
            Pace::Servers(count) => *count,
            _ => 1,
        };
        if let Pace::Speeds(speeds) = &site.pace {
            return Ok(self.open_rates(place, load, service, utilization, speeds.len()));
        }
        let alone = station::mmm(load / service, service, servers).map_err(|error| match error {
            Error::Unstable { utilization, .. } => {
                Error::Unstable { station: site.name.clone(), utilization }
            }
            other => other,
        })?;
        // Those that wait do so for an exponential time.
        let square = if alone.delayed > 0.0 { 2.0 * alone.wait * alone.wait / alone.delayed } else { 0.0 };
        Ok(Waiting { mean: alone.wait, variance: square - alone.wait * alone.wait, utilization, ..none })
    }

    /// Waiting at a site whose speed depends on its queue: the chain p(j) = p(j − 1)·load/speed(j).
    /// Who finds j there is taken to wait for j + 1 services at the speed that follows; the mean is
    /// Little's.
    fn open_rates(
        &self,
        place: usize,
        load: f64,
        service: Seconds,
        utilization: f64,
        levels: usize,
    ) -> Waiting {
        let site = &self.sites[place];
        let last = site.speed(levels);
        let (mut total, mut number, mut first, mut second, mut idle) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let mut weight = 1.0;
        for found in 0.. {
            if found > 0 {
                weight *= load / site.speed(found);
            }
            // Only ratios count.
            if weight > LARGE_WEIGHT {
                for sum in [&mut weight, &mut total, &mut number, &mut first, &mut second, &mut idle] {
                    *sum /= LARGE_WEIGHT;
                }
            }
            let jobs = (found + 1) as f64;
            let each = 1.0 / site.speed(found + 1);
            total += weight;
            number += weight * found as f64;
            first += weight * jobs * each;
            second += weight * jobs * (jobs + 1.0) * each * each;
            if found == 0 {
                idle = weight;
            }
            // What is left falls by load/last each time.
            let negligible = weight * jobs * jobs < 1e-12 * total * (1.0 - load / last);
            if found > levels && (negligible || found > MOST_LEVELS) {
                break;
            }
        }
        let busy_speed = load / (1.0 - idle / total);
        let residence = number / total / load * service;
        let own = service / busy_speed;
        // Who shares a station is done in any order, and is taken to stay for an exponential time.
        let relative = if site.shared { 1.0 } else { (second / total) / (first / total).powi(2) - 1.0 };
        Waiting {
            mean: residence - own,
            variance: relative * residence * residence - own * own,
            utilization,
            own_speed: busy_speed,
        }
    }

    /// How much of what waiting adds remains because common arrivals make the queues alike: 1 for
    /// none, else as Nelson and Tantawi (1988) found it. It counts as much as the fork's own
    /// requests share stations with each other.
    fn closeness(&self, fork: &ForkedCopies, sites: &[Waiting]) -> f64 {
        let copies = fork.service.len() as f64;
        let weigh =
            |of: &dyn Fn(usize) -> f64| fork.service.iter().map(|(site, _)| of(*site)).sum::<f64>() / copies;
        let rho = weigh(&|site| sites[site].utilization);
        if rho <= 0.0 {
            return 1.0;
        }
        let own = weigh(&|site| {
            let all = self.demand(site);
            if all > 0.0 { fork.weight * fork.share() * service_at(fork, site) / all } else { 0.0 }
        });
        let together = if copies > 1.0 { (f64::from(fork.choose) - 1.0) / (copies - 1.0) } else { 0.0 };
        let harmonic: f64 = (1..=fork.choose).map(|i| 1.0 / f64::from(i)).sum();
        // Nelson and Tantawi: R = shorter·H·S/(1 − ρ), of which H·S is what it takes without other
        // requests.
        let relative = 1.5 / harmonic;
        let shorter = (1.0 - rho / 12.0) * (1.0 - (1.0 - relative) * 4.0 * rho / 11.0);
        let kept = (shorter - 1.0 + rho) / rho;
        1.0 - (1.0 - kept) * own * together
    }
}

/// Levels of a chain at most.
const MOST_LEVELS: usize = 10_000_000;

/// A weight beyond which all are made smaller, before they are no numbers any more.
const LARGE_WEIGHT: f64 = 1e200;

/// Waiting at a site, in seconds.
struct Waiting {
    mean: Seconds,
    variance: f64,
    utilization: f64,
    own_speed: f64,
}

fn holds(fork: &ForkedCopies, site: usize) -> bool {
    fork.service.iter().any(|(place, _)| *place == site)
}

fn service_at(fork: &ForkedCopies, site: usize) -> Seconds {
    fork.service.iter().find(|(place, _)| *place == site).map_or(0.0, |(_, service)| *service)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(service: &[Seconds], choose: u32, needed: u32) -> Seconds {
        let cluster = Cluster::of_single_servers(service, choose, needed);
        cluster.alone(&cluster.forks[0])
    }

    fn paced(pace: &Pace, stations: usize, choose: u32) -> Cluster {
        let mut cluster = Cluster::of_single_servers(&vec![1.0; stations], choose, choose);
        cluster.sites.iter_mut().for_each(|site| site.pace = pace.clone());
        cluster
    }

    fn open_response(cluster: &Cluster, arrival: f64) -> Result<Seconds, Error> {
        cluster.open_present(arrival).map(|present| present / arrival)
    }

    #[test]
    fn the_longest_of_equal_exponentials_is_harmonic() {
        assert!((alone(&[2.0; 3], 3, 3) - 2.0 * (1.0 + 0.5 + 1.0 / 3.0)).abs() < 1e-12);
        assert!((alone(&[2.0; 3], 3, 1) - 2.0 / 3.0).abs() < 1e-12);
        // Nearly equal is integrated, and nearly the same.
        assert!((alone(&[2.0, 2.0, 2.0 + 1e-9], 3, 3) - alone(&[2.0; 3], 3, 3)).abs() < 1e-8);
        // Two unequal: a + b − 1/(1/a + 1/b); the first of them: 1/(1/a + 1/b).
        assert!((alone(&[1.0, 3.0], 2, 2) - (4.0 - 0.75)).abs() < 1e-9);
        assert!((alone(&[1.0, 3.0], 2, 1) - 0.75).abs() < 1e-9);
        // One of the two at random, and a thousand times as fast as the other.
        assert!((alone(&[1.0, 3.0], 1, 1) - 2.0).abs() < 1e-9);
        assert!((alone(&[1e-3, 1.0], 2, 2) - (1.001 - 1.0 / 1001.0)).abs() < 1e-9);
    }

    #[test]
    fn one_copy_to_one_of_n_is_n_balanced_stations() {
        let cluster = Cluster::of_single_servers(&[0.3; 4], 1, 1);
        let balanced = single::solve(&vec![ClassStation::fixed("s", 0.3 / 4.0); 4], 0.0, 12).unwrap();
        for (n, rate) in cluster.closed_rates(12).unwrap().iter().enumerate() {
            assert!((rate / balanced.throughput(n + 1) - 1.0).abs() < 1e-12);
        }
    }

    /// Of C clients that fork to two single servers without pause, C/(C + 1/2) of the rate of one
    /// are served.
    #[test]
    fn two_single_servers_are_a_walk_between_two_walls() {
        for (n, rate) in paced(&Pace::Fixed, 2, 2).closed_rates(9).unwrap().iter().enumerate() {
            let jobs = (n + 1) as f64;
            assert!((rate - jobs / (jobs + 0.5)).abs() < 1e-12);
        }
    }

    #[test]
    fn copies_to_delays_never_wait() {
        for jobs in [1, 5, 40] {
            let rate = paced(&Pace::Delay, 3, 3).closed_rates(jobs).unwrap()[jobs - 1];
            assert!((rate - jobs as f64 / (11.0 / 6.0)).abs() < 1e-9);
        }
        assert!((open_response(&paced(&Pace::Delay, 3, 3), 100.0).unwrap() - 11.0 / 6.0).abs() < 1e-9);
    }

    #[test]
    fn several_servers_carry_several_times_as_much() {
        let one = paced(&Pace::Fixed, 3, 3).closed_rates(200).unwrap();
        let four = paced(&Pace::Servers(4), 3, 3).closed_rates(200).unwrap();
        assert!((four[0] - one[0]).abs() < 1e-12 && (four[3] - 4.0 * one[0]).abs() < 1e-12);
        assert!(four[199] > 3.9 && four[199] < 4.0);
        // As many times as fast is another thing: each copy alone is slower.
        let fast = paced(&Pace::Speeds(vec![4.0]), 3, 3).closed_rates(200).unwrap();
        assert!(fast[0] > 3.9 * four[0] && fast[199] < 4.0);
    }

    #[test]
    fn visits_without_copies_are_a_plain_network() {
        let mut cluster = paced(&Pace::Fixed, 2, 2);
        cluster.forks[0].weight = 0.0;
        for (site, demand) in cluster.sites.iter_mut().zip([0.2, 0.5]) {
            (site.visits, site.demand) = (1.0, demand);
        }
        let resources = [0.2, 0.5].map(|demand| ClassStation::fixed("s", demand));
        let plain = single::solve(&resources, 0.0, 20).unwrap();
        for (n, rate) in cluster.closed_rates(20).unwrap().iter().enumerate() {
            assert!((rate / plain.throughput(n + 1) - 1.0).abs() < 1e-9);
        }
        let open = cluster.open_present(1.2).unwrap();
        assert!((open - 0.24 / 0.76 - 0.6 / 0.4).abs() < 1e-9);
    }

    #[test]
    fn others_at_a_station_are_binomial() {
        let site = |pace| Site { name: String::new(), pace, shared: false, visits: 0.0, demand: 0.0 };
        // Two servers and one other with probability 0.3, each of two: three there with 0.09.
        let (residence, own) = site(Pace::Servers(2)).times(2, 0.3, None);
        assert!((residence - (1.0 + 0.09 * 0.5)).abs() < 1e-12 && own == 1.0);
        // Far beyond its servers only the mean counts, and the sum says the same.
        let (far, _) = site(Pace::Servers(2)).times(4_000, 0.5, None);
        assert!((far - 2001.0 / 2.0).abs() < 1e-9);
        let speeds = Pace::Speeds((1..=1_500).map(|jobs| f64::from(jobs.min(2))).collect());
        assert!((site(speeds).times(4_000, 0.5, None).0 - far).abs() < 1e-9);
    }

    /// Nelson and Tantawi's formula for two servers is exact: (12 − ρ)/8 · S/(1 − ρ).
    #[test]
    fn open_forks_wait_as_known() {
        let response = |n: usize, rate| open_response(&paced(&Pace::Fixed, n, n as u32), rate);
        assert!((response(1, 0.5).unwrap() - 2.0).abs() < 1e-12);
        assert!((response(2, 0.5).unwrap() - 11.5 / 8.0 * 2.0).abs() < 1e-12);
        assert!(response(8, 0.5).unwrap() > response(4, 0.5).unwrap());
        let error = response(2, 1.0).unwrap_err();
        assert!(error.to_string().contains("server 0"), "{error}");
        // Three: (H3/H2 + (1 − H3/H2)·4ρ/11)·R2.
        let relative: f64 = (11.0 / 6.0) / 1.5;
        let expected = (relative + (1.0 - relative) * 4.0 * 0.5 / 11.0) * 11.5 / 8.0 * 2.0;
        assert!((response(3, 0.5).unwrap() - expected).abs() < 1e-12);
    }

    #[test]
    fn an_open_fork_to_several_servers_is_stable_where_these_are() {
        let cluster = paced(&Pace::Servers(4), 3, 3);
        let response = open_response(&cluster, 3.0).unwrap();
        assert!(response > 11.0 / 6.0 && response < 4.0, "{response}");
        assert!(open_response(&cluster, 4.0).is_err());
        assert!((open_response(&cluster, 1e-9).unwrap() - 11.0 / 6.0).abs() < 1e-6);
    }

    /// As fast as there are requests, up to a thousand: nearly all copies take one service, and an
    /// exponential one where they share the station.
    #[test]
    fn weights_of_a_long_chain_stay_numbers() {
        let mut cluster = paced(&Pace::Speeds((1..=1_000).map(f64::from).collect()), 2, 2);
        let in_order = open_response(&cluster, 800.0).unwrap();
        assert!(in_order > 1.0 && in_order < 1.1, "{in_order}");
        cluster.sites.iter_mut().for_each(|site| site.shared = true);
        let shared = open_response(&cluster, 800.0).unwrap();
        assert!((shared - 1.5).abs() < 0.015, "{shared}");
    }
}
