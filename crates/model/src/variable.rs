//! Closed networks of one class in which FCFS stations serve for times that are not exponential
//! (Marie 1979).
//!
//! Such a station has no product form. It is taken for one whose rate depends on how many customers
//! are there, ν(j), and these rates are found where its surroundings are alike: alone, with the
//! arrivals that the rest of the network sends it,
//!
//! ```text
//! λ(j) = X of the network without it, with N − j customers
//! ν(j) = departures per second while j are there
//! ```
//!
//! Each ν depends on the rates of the other stations, so they are found in turns, until nothing
//! moves. Service is a sequence of exponential phases with the two moments given. At m servers the
//! phases count while all of them are busy, as in Allen and Cunneen's formula; fewer than m
//! customers do not wait for each other.

use krarup_units::Seconds;

use crate::Error;
use crate::single::{self, ClassStation, Pace, Reward, Sweep};

/// Phases of a service time at most: less variable ones count as 1/16.
const MOST_PHASES: f64 = 16.0;
/// Customers at most.
const MOST_CUSTOMERS: usize = 5_000;
/// The rates have settled when X of two rounds differs by no more, relatively.
const SETTLED: f64 = 1e-8;

/// As [`single::solve_with_rewards`], where the service times of single and several servers have
/// the squared coefficients of variation `scv`, by station; 1 is exponential. From 33 customers on
/// only populations that grow by a twentieth are solved, and those between lie on straight lines.
///
/// # Errors
/// As [`single::solve_with_rewards`]; [`Error::TooLarge`]; [`Error::NotConverged`].
pub(crate) fn solve(
    resources: &[ClassStation],
    scv: &[f64],
    think: Seconds,
    population: usize,
    rewards: &[Vec<Reward>],
) -> Result<Sweep, Error> {
    let general: Vec<General> = (0..resources.len())
        .filter(|k| is_general(&resources[*k], scv[*k]))
        .map(|k| General::new(k, &resources[k], scv[k]))
        .collect();
    if general.is_empty() {
        return single::solve_with_rewards(resources, think, population, rewards);
    }
    if population > MOST_CUSTOMERS {
        return Err(Error::TooLarge {
            what: format!("{population} clients at stations whose service is not exponential"),
            hint: "simulate".into(),
        });
    }
    let mut current = resources.to_vec();
    let mut points = Vec::new();
    for n in populations(population) {
        settle(&mut current, &general, think, n)?;
        points.push(single::solve_with_rewards(&current, think, n, rewards)?);
    }
    Sweep::through(&points, resources, think, population)
}

/// Whether a station needs this at all.
pub(crate) fn is_general(resource: &ClassStation, scv: f64) -> bool {
    resource.demand > 0.0
        && (scv - 1.0).abs() > 1e-9
        && matches!(resource.pace, Pace::Fixed | Pace::Servers(_))
}

/// 1 to 32, then a twentieth more each time, and the last.
fn populations(last: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (1..=last.min(32)).collect();
    let mut next = 32;
    while next < last {
        next = (next + next.div_ceil(20)).min(last);
        all.push(next);
    }
    all
}

/// Finds the rates of the general stations with `population` customers, from those in `current`.
fn settle(
    current: &mut [ClassStation],
    general: &[General],
    think: Seconds,
    population: usize,
) -> Result<(), Error> {
    let mut before = 0.0_f64;
    for _ in 0..200 {
        let mut throughput = 0.0;
        for station in general {
            let others: Vec<ClassStation> = current
                .iter()
                .enumerate()
                .filter(|(k, _)| *k != station.place)
                .map(|(_, resource)| resource.clone())
                .collect();
            let nowhere = think + others.iter().map(|resource| resource.demand).sum::<f64>() <= 0.0;
            let arrivals: Vec<f64> = if nowhere {
                vec![1e9 / station.demand; population] // a customer that leaves is back at once
            } else {
                let rest = single::solve(&others, think, population)?;
                (0..population).map(|there| rest.throughput(population - there)).collect()
            };
            let (speeds, flow) = station.speeds(&arrivals);
            throughput = flow;
            current[station.place].pace = Pace::Speeds(speeds);
        }
        if (throughput - before).abs() <= SETTLED * throughput {
            return Ok(());
        }
        before = throughput;
    }
    Err(Error::NotConverged {
        solver: "the closed single-class solver".into(),
        what: format!("the rates of stations with {population} clients still move after 200 rounds"),
    })
}

/// A station of one or several servers, and its service time as phases.
struct General {
    place: usize,
    demand: Seconds,
    servers: usize,
    /// Share of the services that begin with each phase.
    begin: Vec<f64>,
    /// Rate of each phase, per service time.
    rate: Vec<f64>,
    /// Whether a phase leads to the next one; else the service is over.
    goes_on: Vec<bool>,
}

impl General {
    fn new(place: usize, resource: &ClassStation, scv: f64) -> Self {
        let servers = if let Pace::Servers(count) = resource.pace { count as usize } else { 1 };
        let (begin, rate, goes_on) = phases(scv);
        Self { place, demand: resource.demand, servers, begin, rate, goes_on }
    }

    /// Speeds with 1, 2, … customers where `arrivals[j]` come per second when j are there, and X.
    ///
    /// With the shares x of the phases at one level, u those of the level below (the shares of
    /// beginnings at the lowest), λ what comes and c the speed: x·(λ − c·T) = λ'·u + λ·(Σx)·begin,
    /// since as many leave the level above as come to it. Only the direction of x matters. Nothing
    /// is subtracted: 1 − λ·Σv is c·(v, leaving) for v = begin·(λ − c·T)⁻¹.
    fn speeds(&self, arrivals: &[f64]) -> (Vec<f64>, f64) {
        let mut below = self.begin.clone();
        let mut speeds = Vec::with_capacity(arrivals.len());
        for jobs in 1..=arrivals.len() {
            if jobs < self.servers {
                speeds.push(jobs as f64);
                continue;
            }
            let speed = self.servers as f64;
            let come = arrivals.get(jobs).copied().unwrap_or(0.0) * self.demand;
            let fresh = self.through(&self.begin, come, speed);
            let stay = self.through(&below, come, speed);
            let again = come * stay.iter().sum::<f64>() / (speed * self.leaving(&fresh));
            below = stay.iter().zip(&fresh).map(|(stay, fresh)| stay + again * fresh).collect();
            let total: f64 = below.iter().sum();
            below.iter_mut().for_each(|share| *share /= total);
            speeds.push(speed * self.leaving(&below));
        }
        // Shares of the time with 0, 1, … customers, in logarithms.
        let mut logarithms = vec![0.0];
        for (come, speed) in arrivals.iter().zip(&speeds) {
            logarithms.push(logarithms[logarithms.len() - 1] + (come * self.demand / speed).ln());
        }
        let most = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (mut total, mut flow) = (0.0, 0.0);
        for (jobs, logarithm) in logarithms.iter().enumerate() {
            let share = (logarithm - most).exp();
            total += share;
            flow += share * if jobs > 0 { speeds[jobs - 1] } else { 0.0 };
        }
        (speeds, flow / total / self.demand)
    }

    /// x of x·(λ − c·T) = `shares`.
    fn through(&self, shares: &[f64], come: f64, speed: f64) -> Vec<f64> {
        let mut passed = 0.0;
        shares
            .iter()
            .zip(&self.rate)
            .zip(&self.goes_on)
            .map(|((share, rate), goes_on)| {
                let there = (share + passed) / (come + speed * rate);
                passed = if *goes_on { there * speed * rate } else { 0.0 };
                there
            })
            .collect()
    }

    /// Services that end, per service time at the speed of one server.
    fn leaving(&self, shares: &[f64]) -> f64 {
        let ends = shares.iter().zip(&self.rate).zip(&self.goes_on).filter(|(_, goes_on)| !**goes_on);
        ends.map(|((share, rate), _)| share * rate).sum()
    }
}

/// Phases of a service of mean 1: where each begins, their rates, and which lead to the next one.
/// More variable than exponential: one of two that bring half of the mean each; less: as many equal
/// ones as needed, the first of which some leave out (Tijms 1994).
fn phases(scv: f64) -> (Vec<f64>, Vec<f64>, Vec<bool>) {
    if scv > 1.0 {
        let share = 0.5 * (1.0 + ((scv - 1.0) / (scv + 1.0)).sqrt());
        return (vec![share, 1.0 - share], vec![2.0 * share, 2.0 * (1.0 - share)], vec![false; 2]);
    }
    let scv = scv.max(1.0 / MOST_PHASES);
    let count = (1.0 / scv).ceil().clamp(2.0, MOST_PHASES);
    let skip = (count * scv - (count * (1.0 + scv) - count * count * scv).max(0.0).sqrt()) / (1.0 + scv);
    let rate = count - skip;
    let mut begin = vec![0.0; count as usize];
    (begin[0], begin[1]) = (1.0 - skip, skip);
    let mut goes_on = vec![true; count as usize];
    goes_on[count as usize - 1] = false;
    (begin, vec![rate; count as usize], goes_on)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::station;

    proptest! {
        #[test]
        fn phases_have_the_moments_they_should(scv in 0.0625_f64..20.0) {
            let (begin, rate, goes_on) = phases(scv);
            // First and second moments of what is left from each phase on, the last one first.
            let (mut mean, mut square) = (0.0, 0.0);
            let mut next = (0.0, 0.0);
            for i in (0..rate.len()).rev() {
                let after = if goes_on[i] { next } else { (0.0, 0.0) };
                let first = 1.0 / rate[i] + after.0;
                next = (first, 2.0 / (rate[i] * rate[i]) + 2.0 / rate[i] * after.0 + after.1);
                mean += begin[i] * next.0;
                square += begin[i] * next.1;
            }
            prop_assert!((mean - 1.0).abs() < 1e-9, "{mean}");
            prop_assert!((square - 1.0 - scv).abs() < 1e-9 * (1.0 + scv), "{square} {scv}");
        }

        /// Whatever the arrivals: as many are served as the share of the time with a request there.
        #[test]
        fn work_is_conserved(scv in 0.07_f64..9.0, load in 0.1_f64..1.5, room in 2_usize..30) {
            let one = General::new(0, &ClassStation::fixed("s", 0.5), scv);
            let arrivals: Vec<f64> = (0..room).map(|j| load * 2.0 * (room - j) as f64 / room as f64).collect();
            let (speeds, flow) = one.speeds(&arrivals);
            let rates: Vec<f64> = speeds.iter().map(|speed| speed / 0.5).collect();
            let shares = station::birth_death(&arrivals, &rates).unwrap();
            prop_assert!((flow * 0.5 - (1.0 - shares[0])).abs() < 1e-9, "{flow} {}", shares[0]);
        }
    }

    /// Many clients that think long are Poisson arrivals: the formula of Pollaczek and Khinchine,
    /// and at several servers that of Allen and Cunneen.
    #[test]
    fn a_station_fed_by_many_is_as_the_formulas_have_it() {
        for scv in [0.1, 0.5, 3.0] {
            for (servers, pace) in [(1, Pace::Fixed), (3, Pace::Servers(3))] {
                let there = ClassStation { name: "s".into(), demand: 1.0, pace };
                let rate = 0.6 * f64::from(servers);
                let population = 600;
                let think = population as f64 / rate - 1.0;
                let sweep = solve(&[there], &[scv], think, population, &[]).unwrap();
                let x = sweep.throughput(population);
                let alone = station::ggm(x, 1.0, 1.0, scv, servers).unwrap();
                let queue = sweep.queue(0, population);
                assert!(
                    (queue / alone.present - 1.0).abs() < 0.02,
                    "{scv} {servers}: {queue} {}",
                    alone.present
                );
            }
        }
    }

    #[test]
    fn exponential_service_is_solved_as_ever() {
        let resources = [ClassStation::fixed("a", 0.1), ClassStation::servers("b", 0.3, 3)];
        let plain = single::solve(&resources, 1.0, 90).unwrap();
        assert_eq!(solve(&resources, &[1.0, 1.0], 1.0, 90, &[]).unwrap(), plain);
        let nearly = solve(&resources, &[1.000_001, 1.0], 1.0, 90, &[]).unwrap();
        for n in [1, 7, 40, 85, 90] {
            assert!((nearly.throughput(n) / plain.throughput(n) - 1.0).abs() < 2e-3, "{n}");
            assert!((nearly.queue(1, n) - plain.queue(1, n)).abs() < 1e-2 * n as f64, "{n}");
        }
    }
}
