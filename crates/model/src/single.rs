//! Closed networks of one class, solved exactly for every population 1..=N in one pass.
//!
//! Single servers and delays need mean value analysis only (Reiser & Lavenberg 1980). Stations
//! whose speed depends on their queue need more, and the textbook form, p(0) = 1 − Σ p(j),
//! subtracts numbers that are equal to the last digit near saturation: it gives negative or
//! impossible throughputs for a few dozen servers. They are joined to the rest one after the other
//! instead (`chain`), where nothing is ever subtracted.

use krarup_units::Seconds;

use self::chain::{join_all, rising};
use crate::Error;

mod chain;

pub use self::chain::Reward;

/// A station as one closed class sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassStation {
    /// For messages and tables.
    pub name: String,
    /// Service demand D = V·S of one request, ≥ 0.
    pub demand: Seconds,
    /// How fast it works off its queue.
    pub pace: Pace,
}

/// How fast a station works off its queue.
#[derive(Clone, Debug, PartialEq)]
pub enum Pace {
    /// One server.
    Fixed,
    /// As many servers as customers.
    Delay,
    /// So many servers.
    Servers(u32),
    /// With j customers, `speeds[j − 1]` times the speed of one server; the last goes on. Each > 0.
    Speeds(Vec<f64>),
}

impl ClassStation {
    /// A single server.
    pub fn fixed(name: impl Into<String>, demand: Seconds) -> Self {
        Self { name: name.into(), demand, pace: Pace::Fixed }
    }

    /// A delay.
    pub fn delay(name: impl Into<String>, demand: Seconds) -> Self {
        Self { name: name.into(), demand, pace: Pace::Delay }
    }

    /// `count` servers behind one queue.
    pub fn servers(name: impl Into<String>, demand: Seconds, count: u32) -> Self {
        Self { name: name.into(), demand, pace: Pace::Servers(count) }
    }

    /// Requests per second with `jobs` customers there; infinite without demand.
    pub fn rate(&self, jobs: usize) -> f64 {
        let speed = match &self.pace {
            _ if jobs == 0 => return 0.0,
            Pace::Fixed => 1.0,
            Pace::Delay => jobs as f64,
            Pace::Servers(count) => jobs.min(*count as usize) as f64,
            Pace::Speeds(speeds) => speeds[jobs.min(speeds.len()) - 1],
        };
        speed / self.demand
    }

    /// Whether its speed depends on the queue in a way mean value analysis does not cover.
    fn varies(&self) -> bool {
        self.demand > 0.0
            && match &self.pace {
                Pace::Fixed | Pace::Delay => false,
                Pace::Servers(count) => *count > 1,
                Pace::Speeds(_) => true,
            }
    }
}

/// A closed network solved for the populations 1..=N.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The stations as given.
    pub resources: Vec<ClassStation>,
    /// Think time Z as given.
    pub think: Seconds,
    /// X, requests per second: entry n − 1 with n customers.
    pub throughput: Vec<f64>,
    /// Mean number at each station, queue and service: `queue[n − 1][station]` laid out in one row
    /// after another.
    queue: Vec<f64>,
    /// Share of the time a queue-dependent station is empty, by station; empty for the others.
    idle: Vec<Vec<f64>>,
    /// Long-run means of the rewards given, by station and reward.
    rewards: Vec<Vec<Vec<f64>>>,
}

/// The most clients of a closed class that are solved one after the other.
const MOST_CLIENTS: u64 = 100_000;
/// The most where a station is slower with more requests there: the work grows with their square.
const MOST_SLOWED: usize = 20_000;

/// Refuses more clients than are solved one after the other.
pub(crate) fn check_population(population: u64) -> Result<(), Error> {
    if population <= MOST_CLIENTS {
        return Ok(());
    }
    Err(Error::TooLarge {
        what: format!("exact solution for {population} clients"),
        hint: "use bounds, or an open class of the same rate".into(),
    })
}

/// Solves a closed network for every population 1..=`population`.
///
/// # Errors
/// [`Error::Invalid`] for a demand or think time that is negative or not finite, or a network
/// without any time in it; [`Error::TooLarge`] for so many customers at a station that they slow
/// down; [`Error::Violated`] when the answer breaks a law.
pub fn solve(resources: &[ClassStation], think: Seconds, population: usize) -> Result<Sweep, Error> {
    solve_with_rewards(resources, think, population, &[])
}

/// As [`solve`], and averages the rewards of queue-dependent stations: `rewards[station]` lists
/// them (the list may be shorter than the stations).
///
/// # Errors
/// As [`solve`].
pub fn solve_with_rewards(
    resources: &[ClassStation],
    think: Seconds,
    population: usize,
    rewards: &[Vec<Reward>],
) -> Result<Sweep, Error> {
    check_input(resources, think)?;
    let fixed: Vec<Seconds> =
        resources.iter().map(|r| if r.varies() || r.pace == Pace::Delay { 0.0 } else { r.demand }).collect();
    let delays: Seconds = resources.iter().filter(|r| r.pace == Pace::Delay).map(|r| r.demand).sum();
    let varying: Vec<usize> = (0..resources.len()).filter(|k| resources[*k].varies()).collect();
    let all_think = think + delays;

    let has_base = all_think > 0.0 || fixed.iter().any(|d| *d > 0.0);
    let mut sweep = Sweep {
        resources: resources.to_vec(),
        think,
        throughput: Vec::new(),
        queue: Vec::new(),
        idle: vec![Vec::new(); resources.len()],
        rewards: vec![Vec::new(); resources.len()],
    };
    if varying.is_empty() {
        (sweep.throughput, sweep.queue) = mean_value_analysis(&fixed, all_think, population);
    } else {
        let base = has_base.then(|| mean_value_analysis(&fixed, all_think, population).0);
        let rates: Vec<Vec<f64>> =
            varying.iter().map(|k| (1..=population).map(|j| resources[*k].rate(j)).collect()).collect();
        if population > MOST_SLOWED && !rates.iter().all(|rates| rising(rates)) {
            return Err(Error::TooLarge {
                what: format!("exact solution for {population} clients at rates that fall"),
                hint: "simulate".into(),
            });
        }
        let wanted: Vec<&[Reward]> =
            varying.iter().map(|k| rewards.get(*k).map_or(&[][..], Vec::as_slice)).collect();
        let joined = join_all(&rates, &wanted, base);
        sweep.throughput = joined.throughput;
        sweep.queue = vec![0.0; resources.len() * population];
        fill_fixed(&mut sweep.queue, &fixed, &sweep.throughput);
        for (station, part) in varying.iter().zip(joined.parts) {
            for (n, queue) in part.queue.iter().enumerate() {
                sweep.queue[n * resources.len() + station] = *queue;
            }
            sweep.idle[*station] = part.idle;
            sweep.rewards[*station] = part.rewards;
        }
    }
    for (k, resource) in resources.iter().enumerate().filter(|(_, r)| r.pace == Pace::Delay) {
        for n in 0..population {
            sweep.queue[n * resources.len() + k] = sweep.throughput[n] * resource.demand;
        }
    }
    sweep.check()?;
    Ok(sweep)
}

fn check_input(resources: &[ClassStation], think: Seconds) -> Result<(), Error> {
    if !(think.is_finite() && think >= 0.0) {
        return Err(Error::invalid("think time", format!("is {think}"), "it must be ≥ 0 and finite"));
    }
    for resource in resources {
        if !(resource.demand.is_finite() && resource.demand >= 0.0) {
            let why = format!("has a demand of {} s", resource.demand);
            return Err(Error::invalid(
                format!("station `{}`", resource.name),
                why,
                "it must be ≥ 0 and finite",
            ));
        }
        let speeds: &[f64] = match &resource.pace {
            Pace::Servers(0) => &[0.0],
            Pace::Speeds(speeds) if speeds.is_empty() => &[0.0],
            Pace::Speeds(speeds) => speeds,
            _ => &[],
        };
        if let Some(speed) = speeds.iter().find(|s| !(s.is_finite() && **s > 0.0)) {
            let why = format!("has a speed of {speed}");
            return Err(Error::invalid(format!("station `{}`", resource.name), why, "speeds must be > 0"));
        }
    }
    if think + resources.iter().map(|r| r.demand).sum::<f64>() <= 0.0 {
        return Err(Error::takes_no_time());
    }
    Ok(())
}

/// Exact for single servers and delays: every term is positive, so it is safe at any size. Returns
/// X by population, and the queues row by row.
///
/// ```text
/// R_k = D_k (1 + Q_k)     residence at station k, Q_k taken at n − 1 (arrival theorem)
/// X   = n / (Z + Σ R_k)   Little's law over the whole loop
/// Q_k = X R_k             Little's law at each station
/// ```
pub(crate) fn mean_value_analysis(
    demands: &[Seconds],
    think: Seconds,
    population: usize,
) -> (Vec<f64>, Vec<f64>) {
    let stations = demands.len();
    let mut throughputs = Vec::with_capacity(population);
    let mut queues = vec![0.0; stations * population];
    let mut residence = vec![0.0; stations];
    let mut queue = vec![0.0; stations];
    for n in 1..=population {
        for ((r, d), q) in residence.iter_mut().zip(demands).zip(&queue) {
            *r = d * (1.0 + q);
        }
        let throughput = n as f64 / (think + total(&residence));
        for (q, r) in queue.iter_mut().zip(&residence) {
            *q = throughput * r;
        }
        queues[(n - 1) * stations..n * stations].copy_from_slice(&queue);
        throughputs.push(throughput);
    }
    (throughputs, queues)
}

/// The sum, in four strands, so that one addition need not wait for the other.
fn total(values: &[f64]) -> f64 {
    let (fours, rest) = values.as_chunks::<4>();
    let mut strands = [0.0; 4];
    for four in fours {
        for (strand, value) in strands.iter_mut().zip(four) {
            *strand += value;
        }
    }
    strands.iter().chain(rest).sum()
}

/// Queues of the single servers inside a larger network, whose throughput is known: Q(n) =
/// X(n)·D·(1 + Q(n−1)).
fn fill_fixed(queues: &mut [f64], demands: &[Seconds], throughput: &[f64]) {
    let stations = demands.len();
    let mut queue = vec![0.0; stations];
    for (row, x) in queues.chunks_exact_mut(stations).zip(throughput) {
        for ((q, d), out) in queue.iter_mut().zip(demands).zip(row) {
            *q = x * d * (1.0 + *q);
            *out = *q;
        }
    }
}

impl Sweep {
    /// N, the largest population solved.
    pub fn population(&self) -> usize {
        self.throughput.len()
    }

    /// X with `population` customers (1..=N), per second.
    pub fn throughput(&self, population: usize) -> f64 {
        self.throughput[population - 1]
    }

    /// R = N/X − Z with `population` customers.
    pub fn response(&self, population: usize) -> Seconds {
        population as f64 / self.throughput(population) - self.think
    }

    /// Mean number at a station, queue and service; 0 with no customers.
    pub fn queue(&self, station: usize, population: usize) -> f64 {
        if population == 0 { 0.0 } else { self.queue[(population - 1) * self.resources.len() + station] }
    }

    /// Mean residence time at a station, all visits together.
    pub fn residence(&self, station: usize, population: usize) -> Seconds {
        self.queue(station, population) / self.throughput(population)
    }

    /// Share of its capacity a station uses: X·D/m, at a delay the mean number there, at
    /// load-dependent rates the share of the time it is not empty.
    pub fn utilization(&self, station: usize, population: usize) -> f64 {
        let resource = &self.resources[station];
        let busy = self.throughput(population) * resource.demand;
        match &resource.pace {
            Pace::Fixed | Pace::Delay => busy,
            Pace::Servers(count) => busy / f64::from(*count),
            Pace::Speeds(_) => 1.0 - self.idle(station, population),
        }
    }

    /// Share of the time a queue-dependent station is empty; for the others 1 − U, not below 0.
    pub fn idle(&self, station: usize, population: usize) -> f64 {
        match self.idle[station].get(population.wrapping_sub(1)) {
            Some(idle) => *idle,
            None if population == 0 => 1.0,
            None => (1.0 - self.throughput(population) * self.resources[station].demand).max(0.0),
        }
    }

    /// The long-run mean of a reward of a station, by population.
    pub fn reward(&self, station: usize, reward: usize, population: usize) -> f64 {
        self.rewards[station][reward][population - 1]
    }

    /// How X answers to demands: ∂ln X / ∂ln D of each station, and last of the think time, at
    /// `population`. 1 % more demand at a station changes X by that many percent. Exact: D ∂X/∂D /
    /// X = Q(N−1) − Q(N) (de Souza e Silva & Muntz 1988); they add up to −1.
    pub fn elasticity(&self, population: usize) -> Vec<f64> {
        let thinking = |n: usize| if n == 0 { 0.0 } else { self.throughput(n) * self.think };
        let change = |k: usize| self.queue(k, population - 1) - self.queue(k, population);
        let stations = (0..self.resources.len()).map(change);
        stations.chain([thinking(population - 1) - thinking(population)]).collect()
    }

    /// One sweep of solutions at growing populations, each with its own rates; straight lines
    /// between them.
    ///
    /// # Errors
    /// [`Error::Violated`] where one is above its bounds by more than the rates are known.
    pub(crate) fn through(
        points: &[Self],
        resources: &[ClassStation],
        think: Seconds,
        population: usize,
    ) -> Result<Self, Error> {
        let mut limits = Limits::new(resources, think);
        for point in points {
            let n = point.population();
            limits.grow(resources, n);
            let most = limits.capacity();
            if point.throughput(n) > most.0 * (1.0 + 1e-4) {
                let law =
                    format!("throughput {}, at most {} with {n} customers", point.throughput(n), most.0);
                return Err(Error::Violated { station: resources[most.1].name.clone(), law });
            }
        }
        let at = |n: usize, of: &dyn Fn(&Self, usize) -> f64| {
            let high = points.partition_point(|point| point.population() < n);
            let (above, size) = (of(&points[high], points[high].population()), points[high].population());
            if size == n {
                return above;
            }
            let below = &points[high - 1];
            let share = (n - below.population()) as f64 / (size - below.population()) as f64;
            of(below, below.population()) * (1.0 - share) + above * share
        };
        let all = |of: &dyn Fn(&Self, usize) -> f64| (1..=population).map(|n| at(n, of)).collect::<Vec<_>>();
        let stations = resources.len();
        let mut queue = vec![0.0; stations * population];
        for k in 0..stations {
            for (n, value) in all(&|point, n| point.queue(k, n)).into_iter().enumerate() {
                queue[n * stations + k] = value;
            }
        }
        let first = &points[0];
        let idle = (0..stations)
            .map(|k| if first.idle[k].is_empty() { Vec::new() } else { all(&|point, n| point.idle(k, n)) });
        let rewards = (0..stations)
            .map(|k| (0..first.rewards[k].len()).map(|i| all(&|point, n| point.reward(k, i, n))).collect());
        Ok(Self {
            resources: resources.to_vec(),
            think,
            throughput: all(&|point, n| point.throughput(n)),
            queue,
            idle: idle.collect(),
            rewards: rewards.collect(),
        })
    }

    /// Every answer is finite and positive, below its bounds, and its customers add up.
    fn check(&self) -> Result<(), Error> {
        let mut limits = Limits::new(&self.resources, self.think);
        for n in 1..=self.population() {
            let x = self.throughput(n);
            let broken = |station: &str, law: String| {
                Err(Error::Violated { station: station.into(), law: format!("{law} with {n} customers") })
            };
            if !(x.is_finite() && x > 0.0) {
                return broken("the network", format!("throughput {x}, must be above 0"));
            }
            limits.grow(&self.resources, n);
            let capacity = limits.capacity();
            if x > capacity.0 * (1.0 + 1e-9) {
                let name = &self.resources[capacity.1].name;
                return broken(name, format!("throughput {x}, at most {}", capacity.0));
            }
            let least = limits.shortest();
            if x > n as f64 / least * (1.0 + 1e-9) {
                return broken(
                    "the network",
                    format!("throughput {x}, at most N / (D + Z) = {}", n as f64 / least),
                );
            }
            let stations = self.resources.len();
            let row = &self.queue[(n - 1) * stations..n * stations];
            let total = x * self.think + total(row);
            // Without leaving early, so that the processor compares several at once.
            if row.iter().fold(false, |negative, q| negative | (*q < 0.0)) {
                let k = row.iter().position(|q| *q < 0.0).unwrap_or(0);
                return broken(&self.resources[k].name, format!("queue {}, must be ≥ 0", row[k]));
            }
            // A queue that is not finite shows here.
            if total.is_nan() || (total - n as f64).abs() > 1e-6 * n as f64 {
                return broken("the network", format!("ΣQ + X·Z = {total}, must be N = {n}"));
            }
        }
        Ok(())
    }
}

/// The fastest each station can be and the shortest a customer can stay, with up to n customers.
struct Limits {
    /// The least capacity of stations whose rates never fall, and which of them it is.
    steady: (f64, usize),
    /// Their shortest times together, with the think time.
    steady_shortest: Seconds,
    /// Stations with speeds of their own: place, capacity so far, shortest time so far.
    speeds: Vec<(usize, f64, Seconds)>,
}

impl Limits {
    fn new(resources: &[ClassStation], think: Seconds) -> Self {
        let mut limits = Self { steady: (f64::INFINITY, 0), steady_shortest: think, speeds: Vec::new() };
        for (k, resource) in resources.iter().enumerate().filter(|(_, r)| r.demand > 0.0) {
            let servers = match &resource.pace {
                Pace::Fixed => 1.0,
                Pace::Servers(count) => f64::from(*count),
                Pace::Delay => f64::INFINITY,
                Pace::Speeds(_) => {
                    limits.speeds.push((k, 0.0, f64::INFINITY));
                    continue;
                }
            };
            limits.steady_shortest += resource.demand;
            if servers / resource.demand < limits.steady.0 {
                limits.steady = (servers / resource.demand, k);
            }
        }
        limits
    }

    fn grow(&mut self, resources: &[ClassStation], n: usize) {
        for (k, capacity, shortest) in &mut self.speeds {
            let rate = resources[*k].rate(n);
            *capacity = capacity.max(rate);
            *shortest = shortest.min(n as f64 / rate);
        }
    }

    fn capacity(&self) -> (f64, usize) {
        self.speeds.iter().fold(
            self.steady,
            |least, (k, capacity, _)| if *capacity < least.0 { (*capacity, *k) } else { least },
        )
    }

    fn shortest(&self) -> Seconds {
        self.steady_shortest + self.speeds.iter().map(|s| s.2).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64, tolerance: f64) {
        assert!((value / expected - 1.0).abs() <= tolerance, "{value} is not {expected}");
    }

    /// Reiser & Lavenberg's recursion by hand: D = 0.2, 0.1 and Z = 1.
    #[test]
    fn two_customers_by_hand() {
        let sweep = solve(&[ClassStation::fixed("a", 0.2), ClassStation::fixed("b", 0.1)], 1.0, 2).unwrap();
        close(sweep.throughput(1), 1.0 / 1.3, 1e-14);
        let (qa, qb) = (0.2 / 1.3, 0.1 / 1.3);
        close(sweep.throughput(2), 2.0 / (1.0 + 0.2 * (1.0 + qa) + 0.1 * (1.0 + qb)), 1e-14);
    }

    /// With Z = 0 and m servers alone all customers are there.
    #[test]
    fn one_station_alone_runs_at_its_own_rate() {
        let sweep = solve(&[ClassStation::servers("s", 0.5, 3)], 0.0, 10).unwrap();
        close(sweep.throughput(2), 4.0, 1e-14);
        close(sweep.throughput(9), 6.0, 1e-14);
    }

    /// Machine repair is a delay and m servers: an independent formula.
    #[test]
    fn one_multi_server_and_think_time_is_machine_repair() {
        let sweep = solve(&[ClassStation::servers("s", 0.02, 8)], 0.3, 400).unwrap();
        for n in [1, 8, 100, 400] {
            let repair = crate::station::mmm_n(n, 0.3, 0.02, 8).unwrap();
            close(sweep.throughput(n as usize), repair.throughput, 1e-10);
            close(sweep.queue(0, n as usize), repair.present, 1e-10);
            assert!((sweep.idle(0, n as usize) - repair.present_share[0]).abs() < 1e-12);
        }
    }

    /// One server written as m = 1, as constant speeds, as a single server: the same network.
    #[test]
    fn the_same_server_written_three_ways() {
        let think = 0.4;
        let with = |pace| {
            let odd = ClassStation { name: "odd".into(), demand: 0.07, pace };
            solve(&[ClassStation::fixed("a", 0.05), odd, ClassStation::servers("m", 0.3, 4)], think, 60)
                .unwrap()
        };
        let plain = with(Pace::Fixed);
        for other in [with(Pace::Servers(1)), with(Pace::Speeds(vec![1.0]))] {
            for n in 1..=60 {
                close(other.throughput(n), plain.throughput(n), 1e-12);
                close(other.queue(1, n), plain.queue(1, n), 1e-10);
            }
        }
    }

    /// Retrograde stations have two-humped distributions: the logarithms must agree with the direct
    /// sum.
    #[test]
    fn speeds_that_fall_once_more_are_solved_too() {
        let speeds: Vec<f64> =
            (1..=40).map(|j| f64::from(j) / (1.0 + 0.01 * f64::from(j * (j - 1)))).collect();
        let odd = ClassStation { name: "odd".into(), demand: 1.0, pace: Pace::Speeds(speeds.clone()) };
        let sweep = solve(&[odd], 5.0, 40).unwrap();
        let births: Vec<f64> = (0..40).map(|k| f64::from(40 - k) / 5.0).collect();
        let shares = crate::station::birth_death(&births, &speeds).unwrap();
        let expected: f64 = (1..=40).map(|k| shares[k] * speeds[k - 1]).sum();
        close(sweep.throughput(40), expected, 1e-10);
    }

    #[test]
    fn elasticities_add_up_to_minus_one_and_match_a_small_step() {
        let at = |demand| {
            solve(&[ClassStation::fixed("a", 0.05), ClassStation::servers("m", demand, 4)], 0.4, 30).unwrap()
        };
        let sweep = at(0.3);
        let elasticity = sweep.elasticity(30);
        assert!((elasticity.iter().sum::<f64>() + 1.0).abs() < 1e-9);
        let step = 1e-6;
        let by_hand = (at(0.3 * (1.0 + step)).throughput(30) / at(0.3 * (1.0 - step)).throughput(30)).ln()
            / (2.0 * step);
        assert!((elasticity[1] - by_hand).abs() < 1e-5, "{} {by_hand}", elasticity[1]);
    }

    #[test]
    fn rewards_are_averaged_over_the_customers_there() {
        let resource = ClassStation::servers("s", 1.0, 2);
        let identity: Reward = (0..=20).map(f64::from).collect();
        let sweep = solve_with_rewards(&[resource], 3.0, 20, &[vec![identity, vec![1.0]]]).unwrap();
        close(sweep.reward(0, 0, 20), sweep.queue(0, 20), 1e-12);
        close(sweep.reward(0, 1, 20), 1.0, 1e-12);
    }

    #[test]
    fn what_cannot_be_solved_is_named() {
        let error = solve(&[ClassStation::fixed("disk", -1.0)], 0.0, 3).unwrap_err();
        assert_eq!(error.to_string(), "station `disk`: has a demand of -1 s");
        assert!(solve(&[ClassStation::fixed("disk", 0.0)], 0.0, 3).is_err());
    }

    #[test]
    fn more_clients_than_memory_and_time_suffice_for_are_refused() {
        assert!(matches!(check_population(100_001), Err(Error::TooLarge { .. })));
        assert!(check_population(100_000).is_ok());
        let pace = Pace::Speeds(vec![1.0, 0.5]);
        let slowed = ClassStation { name: "db".into(), demand: 0.1, pace };
        let error = solve(&[slowed], 1.0, 20_001).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }) && error.hint() == Some("simulate"), "{error}");
    }
}
