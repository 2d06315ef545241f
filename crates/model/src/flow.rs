//! The model that predicts: held workers whose hold time depends on how many are busy.
//!
//! Measured middlewares share two curves, whatever the number of clients and workers: the hold time
//! T(n) of a request against the number n of busy workers (contention for cores, servers, links),
//! and the time Z a request spends outside (clients, their links, the thread that reads from them),
//! against the number o of requests that are there, or against n where what is outside shares
//! something with the workers. With k of N requests at the middleware, M workers, n = min(k, M) and
//! o = N − k,
//!
//! ```text
//!   k → k + 1 at rate o/Z(o) or o/Z(n)      X = Σ p(k)·n/T(n)        w = Σ p(k)·(k − M)+ / X
//!   k → k − 1 at rate n/T(n)                R = Σ p(k)·k / X         client R = N/X
//! ```
//!
//! a flow-equivalent server inside a closed network (Chandy, Herzog & Woo 1975), solved as a
//! birth–death chain whose terms carry their own exponent, so that no population overflows.

use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::single::mean_value_analysis;

/// A time as a function of the number of busy workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Curve {
    /// Straight lines between (n, seconds), in rising order of n; before the first its time, after
    /// the last the slope of the last line goes on.
    Points(Vec<(f64, Seconds)>),
    /// a + b·n.
    Line {
        /// a, seconds.
        constant: Seconds,
        /// b, seconds for each busy worker.
        slope: Seconds,
    },
    /// z + z₂·n².
    Square {
        /// z, seconds.
        constant: Seconds,
        /// z₂, seconds for each squared worker.
        square: Seconds,
    },
    /// The response of a delay and one server to n requests, and b·n for contention.
    Server {
        /// d of the delay, seconds.
        delay: Seconds,
        /// s of the server, seconds.
        server: Seconds,
        /// b, seconds for each busy worker.
        slope: Seconds,
    },
    /// a + b·n, and beyond as many busy workers as cores (d + v while workers are idle)·(1 −
    /// cores/n): the price of waking threads that have no core to themselves.
    Cores {
        /// a, seconds.
        constant: Seconds,
        /// b, seconds for each busy worker.
        slope: Seconds,
        /// d, seconds.
        shared: Seconds,
        /// v, seconds.
        waking: Seconds,
        /// Number of cores.
        cores: f64,
    },
    /// a + d·(1 + (n/C)³)^⅓: a latency, and work that so many processors share. Up to C requests
    /// the work takes d, of many more each takes d·n/C; between them the corner is round, since a
    /// number of requests is a mean and comes and goes.
    Processors {
        /// a, seconds.
        latency: Seconds,
        /// d, seconds.
        work: Seconds,
        /// C, processors that work at the same time; fitted, so no whole number.
        processors: f64,
    },
    /// The mean of curves with their weights, where it is not known which of them holds.
    Mean(Vec<(f64, Curve)>),
}

/// What the time outside depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutsideCount {
    /// The workers that are busy: what is outside shares something with them.
    #[default]
    BusyWorkers,
    /// The requests that are outside, o = N − k: clients, their links and the thread that reads
    /// from them serve those, and no others.
    Outside,
}

/// The most clients that are solved for: each is a state of the chain.
const MOST_CLIENTS: usize = 10_000_000;

/// Refuses more clients than are solved for.
pub(crate) fn check_population(population: usize) -> Result<(), Error> {
    if population <= MOST_CLIENTS {
        return Ok(());
    }
    Err(Error::TooLarge {
        what: format!("a model of {population} clients: {MOST_CLIENTS} are the most"),
        hint: "ask for fewer clients".into(),
    })
}

/// No time is shorter, in seconds: what takes less takes none, and rates remain numbers.
const SHORTEST: Seconds = 1e-15;
/// No time is longer, in seconds: some 30,000 years.
const LONGEST: Seconds = 1e12;

impl Curve {
    /// The times with 0, 1, …, `most` busy workers. `workers` is the size of the pool, for curves
    /// that depend on whether some of it is idle. Never below a thousandth of the time with one
    /// worker, nor below a femtosecond.
    pub fn times(&self, most: usize, workers: usize) -> Vec<Seconds> {
        let server = match self {
            Self::Server { delay, server, .. } => {
                let throughput = mean_value_analysis(&[*server], *delay, most.max(1)).0;
                (1..=most.max(1)).map(|n| n as f64 / throughput[n - 1]).collect()
            }
            _ => Vec::new(),
        };
        let raw = |n: usize| match self {
            Self::Server { slope, .. } => server[n.max(1) - 1] + slope * n as f64,
            _ => self.at(n as f64, n < workers),
        };
        let least = (raw(1) / 1_000.0).max(SHORTEST);
        // What is no number stays none.
        (0..=most).map(raw).map(|time| if time < least { least } else { time }).collect()
    }

    /// The time with `busy` workers, a mean perhaps, while others are `idle` or not.
    pub fn at(&self, busy: f64, idle: bool) -> Seconds {
        match self {
            Self::Points(points) => interpolate(points, busy),
            Self::Line { constant, slope } => constant + slope * busy,
            Self::Square { constant, square } => constant + square * busy * busy,
            Self::Server { delay, server, slope } => {
                let whole = busy.max(1.0);
                let throughput = mean_value_analysis(&[*server], *delay, whole.ceil() as usize).0;
                let response = |n: usize| n as f64 / throughput[n.clamp(1, throughput.len()) - 1];
                let (low, high) = (response(whole.floor() as usize), response(whole.ceil() as usize));
                low + (high - low) * whole.fract() + slope * busy
            }
            Self::Cores { constant, slope, shared, waking, cores } => {
                let crowded = if busy > *cores { 1.0 - cores / busy } else { 0.0 };
                let waking = if idle { *waking } else { 0.0 };
                constant + slope * busy + (shared + waking) * crowded
            }
            Self::Processors { latency, work, processors } => {
                latency + work * (1.0 + (busy / processors).powi(3)).cbrt()
            }
            Self::Mean(curves) => {
                let weights: f64 = curves.iter().map(|(weight, _)| weight).sum();
                curves.iter().map(|(weight, curve)| weight * curve.at(busy, idle)).sum::<f64>() / weights
            }
        }
    }

    /// The same shape with every time multiplied by `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let mut scaled = self.clone();
        match &mut scaled {
            Self::Points(points) => points.iter_mut().for_each(|p| p.1 *= factor),
            Self::Line { constant, slope } => {
                *constant *= factor;
                *slope *= factor;
            }
            Self::Square { constant, square } => {
                *constant *= factor;
                *square *= factor;
            }
            Self::Server { delay, server, slope } => {
                *delay *= factor;
                *server *= factor;
                *slope *= factor;
            }
            Self::Cores { constant, slope, shared, waking, .. } => {
                *constant *= factor;
                *slope *= factor;
                *shared *= factor;
                *waking *= factor;
            }
            Self::Processors { latency, work, .. } => {
                *latency *= factor;
                *work *= factor;
            }
            Self::Mean(curves) => curves.iter_mut().for_each(|(_, curve)| *curve = curve.scaled(factor)),
        }
        scaled
    }
}

fn interpolate(points: &[(f64, f64)], at: f64) -> f64 {
    let after = points.partition_point(|p| p.0 < at);
    match (after, points.len()) {
        (_, 0) => f64::NAN,
        (0, _) | (_, 1) => points[0].1,
        (after, count) => {
            let (a, b) = (points[after.min(count - 1) - 1], points[after.min(count - 1)]);
            a.1 + (b.1 - a.1) * (at - a.0) / (b.0 - a.0)
        }
    }
}

/// A middleware as two curves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowModel {
    /// T(n): how long a request holds its worker with n busy.
    pub hold: Curve,
    /// Z: how long a request is outside.
    pub outside: Curve,
    /// Whether Z is over busy workers n or over the o requests outside.
    #[serde(default)]
    pub outside_over: OutsideCount,
}

/// What the model says about one configuration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowAnswer {
    /// N.
    pub population: usize,
    /// M, all middlewares together.
    pub workers: usize,
    /// X, per second.
    pub throughput: f64,
    /// R at the middleware.
    pub response: Seconds,
    /// w, the wait for a worker.
    pub wait: Seconds,
    /// R as the client sees it, N/X: with what it thinks, where the time outside has that.
    pub client_response: Seconds,
    /// Mean number of busy workers.
    pub busy: f64,
    /// Mean number of requests that wait for a worker.
    pub waiting: f64,
}

impl FlowAnswer {
    /// How long a request holds its worker.
    pub(crate) fn hold(&self) -> Seconds {
        self.response - self.wait
    }

    /// The same N and M with another X, R and hold time, and what follows from these: R of the
    /// client, the wait, and by Little's law how many workers are busy and how many requests wait.
    pub(crate) fn with(self, throughput: f64, response: Seconds, hold: Seconds) -> Self {
        let wait = (response - hold).max(0.0);
        Self {
            throughput,
            response,
            wait,
            client_response: self.population as f64 / throughput,
            busy: throughput * hold,
            waiting: throughput * wait,
            ..self
        }
    }

    /// The same as far as laws allow: no more requests are at the middleware than there are, and no
    /// more workers busy.
    pub(crate) fn within_laws(self, throughput: f64, response: Seconds, hold: Seconds) -> Self {
        let response = response.min(self.population as f64 / throughput);
        let hold = hold.min(self.workers as f64 / throughput).min(response);
        self.with(throughput, response, hold)
    }
}

impl FlowModel {
    /// The same where a worker holds each request `factor` times as long.
    #[must_use]
    pub fn with_hold(&self, factor: f64) -> Self {
        Self { hold: self.hold.scaled(factor), ..self.clone() }
    }

    /// Solves for `population` clients and `workers` workers.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no client, no worker, or a curve that is not finite;
    /// [`Error::TooLarge`] for more than ten million clients; [`Error::Violated`] where the answer
    /// breaks a law.
    pub fn solve(&self, population: usize, workers: usize) -> Result<FlowAnswer, Error> {
        let times = self.times(population, workers)?;
        times.solve(population)
    }

    fn times(&self, population: usize, workers: usize) -> Result<Times, Error> {
        if population == 0 || workers == 0 {
            let why = format!("is asked for {population} clients and {workers} workers");
            return Err(Error::invalid("flow model", why, "there must be at least one of each"));
        }
        check_population(population)?;
        let most = workers.min(population);
        let hold = self.hold.times(most, workers);
        let outside = outside_times(&self.outside, self.outside_over, population, workers);
        if let Some(time) = hold.iter().chain(&outside).find(|t| !(**t > 0.0 && **t <= LONGEST)) {
            let why = format!("has a time of {time} s");
            return Err(Error::invalid(
                "flow model",
                why,
                format!("its curves must be above 0 and at most {LONGEST:e} s"),
            ));
        }
        Ok(Times {
            workers,
            rate: hold.iter().enumerate().map(|(n, hold)| n as f64 / hold).collect(),
            hold_over_busy: hold.iter().enumerate().map(|(n, hold)| hold / (n as f64).max(1.0)).collect(),
            per_outside: outside.iter().map(|z| 1.0 / z).collect(),
            outside_over: self.outside_over,
        })
    }
}

/// What one request finds when it comes to the middleware, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FoundOnArrival {
    /// Share of the requests that find it so.
    pub(crate) share: f64,
    /// Requests that must leave before it gets a worker.
    pub(crate) ahead: f64,
    /// How long that takes in the mean.
    pub(crate) wait: Seconds,
    /// How long it then holds its worker.
    pub(crate) hold: Seconds,
    /// How long it was outside.
    pub(crate) outside: Seconds,
}

impl FlowModel {
    /// What requests find on arrival, for each number k of others at the middleware: as many come
    /// then as p(k)·o/Z says.
    ///
    /// # Errors
    /// As [`FlowModel::solve`].
    pub(crate) fn found_on_arrival(
        &self,
        population: usize,
        workers: usize,
    ) -> Result<Vec<FoundOnArrival>, Error> {
        let times = self.times(population, workers)?;
        let last = times.rate.len() - 1;
        // ln p(k), from p(0) = 1; the largest becomes 1 afterwards.
        let mut logarithms = vec![0.0; population];
        let birth = |k: usize| {
            let outside = outside_at(self.outside_over, population, k, last);
            (population - k) as f64 * times.per_outside[outside]
        };
        for k in 1..population {
            logarithms[k] = logarithms[k - 1] + (birth(k - 1) * times.hold_over_busy[k.min(last)]).ln();
        }
        let flows: Vec<f64> = logarithms.iter().enumerate().map(|(k, p)| p + birth(k).ln()).collect();
        let most = flows.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let all: f64 = flows.iter().map(|flow| (flow - most).exp()).sum();
        let full = times.hold_over_busy[last];
        let found = flows.iter().enumerate().map(|(k, flow)| {
            let ahead = (k + 1).saturating_sub(workers) as f64;
            let busy = (k + 1).min(last);
            FoundOnArrival {
                share: (flow - most).exp() / all,
                ahead,
                wait: ahead * full,
                hold: times.hold_over_busy[busy] * busy as f64,
                outside: 1.0 / times.per_outside[outside_at(self.outside_over, population, k, last)],
            }
        });
        Ok(found.collect())
    }
}

/// Z at every count there can be of what it depends on.
fn outside_times(outside: &Curve, over: OutsideCount, population: usize, workers: usize) -> Vec<Seconds> {
    match over {
        OutsideCount::BusyWorkers => outside.times(workers.min(population), workers),
        OutsideCount::Outside => outside.times(population, usize::MAX),
    }
}

/// Which entry of [`outside_times`] holds with k of N requests at the middleware.
fn outside_at(over: OutsideCount, population: usize, present: usize, most: usize) -> usize {
    match over {
        OutsideCount::BusyWorkers => present.min(most),
        OutsideCount::Outside => population - present,
    }
}

/// One configuration whose time outside is known: for a search that tries many hold times.
pub(crate) struct Surroundings {
    workers: usize,
    /// (N − k)/Z: the rate from k to k + 1 requests at the middleware.
    births: Vec<f64>,
    /// T(n)/n, used again and again.
    hold_over_busy: Vec<f64>,
}

impl Surroundings {
    pub(crate) fn new(outside: &Curve, over: OutsideCount, population: usize, workers: usize) -> Self {
        let most = workers.min(population);
        let mut surroundings = Self {
            workers,
            births: Vec::with_capacity(population),
            hold_over_busy: Vec::with_capacity(most),
        };
        surroundings.births.resize(population, 0.0);
        surroundings.surround(outside, over);
        surroundings
    }

    /// The same configuration with another time outside.
    pub(crate) fn surround(&mut self, outside: &Curve, over: OutsideCount) {
        let population = self.births.len();
        let most = self.workers.min(population);
        let outside = outside_times(outside, over, population, self.workers);
        for (k, birth) in self.births.iter_mut().enumerate() {
            *birth = (population - k) as f64 / outside[outside_at(over, population, k, most)];
        }
    }

    /// X and R at the middleware with these hold times, the same as those of [`FlowModel::solve`];
    /// not checked, and no numbers where the curve gives none.
    pub(crate) fn solve(&mut self, hold: &Curve) -> (f64, Seconds) {
        let most = self.workers.min(self.births.len());
        let ratios = &mut self.hold_over_busy;
        ratios.clear();
        let times = hold.times(most, self.workers);
        ratios.extend(times.iter().enumerate().skip(1).map(|(n, time)| time / n as f64));
        // In the long run as many come as go: X is as well Σ p(k)·birth(k), which takes no
        // division.
        let (mut total, mut flow, mut present) = (1.0, 0.0, 0.0);
        let mut weight = 1.0;
        let mut behind = 0;
        for (k, birth) in self.births.iter().enumerate() {
            let mut up = weight * birth;
            weight = up * ratios[k.min(most - 1)];
            if weight > HUGE {
                (weight, up) = (weight / HUGE, up / HUGE);
                if behind > 0 {
                    behind -= 1;
                } else {
                    for sum in [&mut total, &mut flow, &mut present] {
                        *sum /= HUGE;
                    }
                }
            } else if weight < 1.0 / HUGE {
                (weight, up) = (weight * HUGE, up * HUGE);
                behind += 1;
            }
            if behind == 0 {
                flow += up;
                total += weight;
                present += weight * (k + 1) as f64;
            }
        }
        (flow / total, present / flow)
    }
}

/// The curves by number of busy workers, ready for the chain.
struct Times {
    workers: usize,
    /// n/T(n).
    rate: Vec<f64>,
    /// T(n)/n.
    hold_over_busy: Vec<f64>,
    /// 1/Z.
    per_outside: Vec<f64>,
    /// Over what.
    outside_over: OutsideCount,
}

/// A weight is kept between 1/HUGE and HUGE; its whole powers of HUGE are counted apart.
const HUGE: f64 = 1e100;

impl Times {
    fn solve(&self, population: usize) -> Result<FlowAnswer, Error> {
        let last = self.rate.len() - 1;
        let (mut total, mut flow, mut present, mut waiting, mut busy) = (1.0, 0.0, 0.0, 0.0, 0.0);
        let mut weight = 1.0;
        let mut behind = 0; // weight · HUGE^−behind is on the scale of the sums
        for k in 1..=population {
            let n = k.min(last);
            let outside = outside_at(self.outside_over, population, k - 1, last);
            weight *= (population - k + 1) as f64 * self.per_outside[outside] * self.hold_over_busy[n];
            if weight > HUGE {
                weight /= HUGE;
                if behind > 0 {
                    behind -= 1;
                } else {
                    for sum in [&mut total, &mut flow, &mut present, &mut waiting, &mut busy] {
                        *sum /= HUGE;
                    }
                }
            } else if weight < 1.0 / HUGE {
                weight *= HUGE;
                behind += 1;
            }
            if behind == 0 {
                total += weight;
                flow += weight * self.rate[n];
                present += weight * k as f64;
                waiting += weight * k.saturating_sub(self.workers) as f64;
                busy += weight * n as f64;
            }
        }
        let throughput = flow / total;
        let answer = FlowAnswer {
            population,
            workers: self.workers,
            throughput,
            response: present / flow,
            wait: waiting / flow,
            client_response: population as f64 / throughput,
            busy: busy / total,
            waiting: waiting / total,
        };
        self.check(&answer)?;
        Ok(answer)
    }

    /// X lies between those of the slowest and the fastest of its rates, and no customer is lost.
    fn check(&self, answer: &FlowAnswer) -> Result<(), Error> {
        let broken = |law: String| Err(Error::Violated { station: "the middleware".into(), law });
        let fastest = self.rate.iter().copied().fold(0.0, f64::max);
        let x = answer.throughput;
        if !(x.is_finite() && x > 0.0 && x <= fastest * (1.0 + 1e-9)) {
            return broken(format!("throughput {x}, must be above 0 and at most {fastest}"));
        }
        if answer.client_response < answer.response * (1.0 - 1e-9) {
            let (inside, all) = (answer.response, answer.client_response);
            return broken(format!("response {inside} at the middleware, at most {all} at the client"));
        }
        if answer.busy > self.workers as f64 * (1.0 + 1e-9) {
            return broken(format!("{} busy of {} workers", answer.busy, self.workers));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(hold: f64, outside: f64) -> FlowModel {
        FlowModel {
            hold: Curve::Line { constant: hold, slope: 0.0 },
            outside: Curve::Line { constant: outside, slope: 0.0 },
            outside_over: OutsideCount::BusyWorkers,
        }
    }

    /// Measured at clients that are never outside, the time there is 0: the workers are always
    /// busy.
    #[test]
    fn no_customer_is_outside_where_that_takes_no_time() {
        for (population, workers) in [(1, 1), (6, 2), (12, 4), (10_000, 16)] {
            let model = constant(0.004, 0.0);
            let answer = model.solve(population, workers).unwrap();
            let expected = population.min(workers) as f64 / 0.004;
            assert!((answer.throughput / expected - 1.0).abs() < 1e-9, "{answer:?}");
            let mut surroundings = Surroundings::new(&model.outside, model.outside_over, population, workers);
            let (throughput, response) = surroundings.solve(&model.hold);
            assert!((throughput / expected - 1.0).abs() < 1e-9, "{throughput}");
            assert!((response / answer.response - 1.0).abs() < 1e-9);
        }
        let error = constant(1e300, 0.001).solve(3, 2).unwrap_err().to_string();
        assert!(error.contains("has a time of"), "{error}");
    }

    /// With constant times the model is machine repair: M servers and N machines.
    #[test]
    fn constant_times_are_machine_repair() {
        for (population, workers) in [(1, 1), (50, 8), (300, 64), (5_000, 16)] {
            let answer = constant(0.004, 0.002).solve(population, workers).unwrap();
            let repair = crate::station::mmm_n(population as u32, 0.002, 0.004, workers as u32).unwrap();
            assert!((answer.throughput / repair.throughput - 1.0).abs() < 1e-10, "{population}");
            assert!((answer.response / repair.response - 1.0).abs() < 1e-10);
            assert!((answer.wait - repair.wait).abs() <= 1e-10 * repair.response);
        }
    }

    /// Also where weights leave the range of numbers: 5000 clients before one slow worker, and
    /// before many fast ones.
    #[test]
    fn what_a_search_computes_is_what_the_model_says() {
        let outside = Curve::Square { constant: 8e-4, square: 1.5e-7 };
        for hold in [
            Curve::Line { constant: 1e-3, slope: 9e-5 },
            Curve::Line { constant: 1e-9, slope: 0.0 },
            Curve::Line { constant: 1e3, slope: 0.0 },
            Curve::Cores { constant: 1e-3, slope: 8e-5, shared: 4e-4, waking: 2e-4, cores: 8.0 },
            Curve::Processors { latency: 1e-3, work: 2e-4, processors: 3.5 },
        ] {
            for (population, workers) in [(1, 1), (6, 128), (288, 64), (5_000, 1), (5_000, 700)] {
                for over in [OutsideCount::BusyWorkers, OutsideCount::Outside] {
                    let model =
                        FlowModel { hold: hold.clone(), outside: outside.clone(), outside_over: over };
                    let answer = model.solve(population, workers).unwrap();
                    let (x, r) = Surroundings::new(&outside, over, population, workers).solve(&hold);
                    assert!(
                        (x / answer.throughput - 1.0).abs() < 1e-9,
                        "{model:?} {population} {workers}: {x}"
                    );
                    assert!(
                        (r / answer.response - 1.0).abs() < 1e-9,
                        "{model:?} {population} {workers}: {r}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_server_behind_the_workers_is_the_layered_model() {
        // A pool of 64 around one server of 1/2940 s, outside 2 ms: its throughput is that of the
        // server.
        let model = FlowModel {
            hold: Curve::Server { delay: 0.0, server: 1.0 / 2_940.0, slope: 0.0 },
            outside: Curve::Line { constant: 0.002, slope: 0.0 },
            outside_over: OutsideCount::BusyWorkers,
        };
        let answer = model.solve(192, 64).unwrap();
        assert!((answer.throughput - 2_940.0).abs() < 0.01);
        assert!((answer.busy - 64.0).abs() < 1e-6);
    }

    #[test]
    fn curves_go_on_beyond_their_points() {
        let curve = Curve::Points(vec![(4.0, 1.0), (8.0, 2.0), (16.0, 3.0)]);
        for (busy, time) in [(0.0, 1.0), (4.0, 1.0), (6.0, 1.5), (16.0, 3.0), (24.0, 4.0)] {
            assert!((curve.at(busy, false) - time).abs() < 1e-12, "{busy}");
        }
        assert!((curve.scaled(2.0).at(6.0, false) - 3.0).abs() < 1e-12);
    }

    #[test]
    fn times_and_single_values_of_a_curve_agree() {
        for curve in [
            Curve::Server { delay: 0.5, server: 0.1, slope: 0.01 },
            Curve::Cores { constant: 1.0, slope: 0.1, shared: 0.5, waking: 0.2, cores: 8.0 },
            Curve::Square { constant: 1.0, square: 0.01 },
            Curve::Processors { latency: 1.0, work: 0.5, processors: 4.0 },
        ] {
            for (n, time) in curve.times(40, 41).iter().enumerate().skip(1) {
                assert!((curve.at(n as f64, true) - time).abs() < 1e-12, "{curve:?} at {n}");
            }
        }
    }

    /// Outside, one resource takes s for each request there: however many clients, no more than 1/s
    /// of their requests come out of it. With workers that take no time to speak of, the whole is
    /// that resource and the delay z before it.
    #[test]
    fn what_is_shared_outside_bounds_the_throughput() {
        let model = FlowModel {
            hold: Curve::Line { constant: 1e-7, slope: 0.0 },
            outside: Curve::Line { constant: 1e-3, slope: 1e-4 },
            outside_over: OutsideCount::Outside,
        };
        for population in [1, 10, 100, 1_000] {
            let answer = model.solve(population, 64).unwrap();
            let expected = population as f64 / (1e-3 + 1e-4 * population as f64);
            assert!((answer.throughput / expected - 1.0).abs() < 2e-3, "{answer:?} {expected}");
            assert!(answer.throughput < 1e4);
        }
    }

    /// What requests find adds up to what the model says of them in the mean: their waits to w, and
    /// all parts to N/X.
    #[test]
    fn what_requests_find_adds_up_to_the_means() {
        for over in [OutsideCount::BusyWorkers, OutsideCount::Outside] {
            let model = FlowModel {
                hold: Curve::Processors { latency: 1e-3, work: 5e-4, processors: 4.0 },
                outside: Curve::Line { constant: 1e-3, slope: 2e-5 },
                outside_over: over,
            };
            for (population, workers) in [(1, 1), (12, 64), (150, 16), (2_000, 8)] {
                let found = model.found_on_arrival(population, workers).unwrap();
                let answer = model.solve(population, workers).unwrap();
                let mean =
                    |of: fn(&FoundOnArrival) -> f64| found.iter().map(|f| f.share * of(f)).sum::<f64>();
                assert!((mean(|f| f.wait) - answer.wait).abs() <= 1e-9 * answer.client_response);
                // A request holds its worker while others come and go: its T is not the one that it
                // found, in the mean nearly so.
                let all = mean(|f| f.wait + f.hold + f.outside);
                assert!((all / answer.client_response - 1.0).abs() < 0.03, "{all} {answer:?}");
            }
        }
    }

    /// Few requests find a processor each, many share them all.
    #[test]
    fn work_is_shared_by_the_processors() {
        let curve = Curve::Processors { latency: 1.0, work: 0.5, processors: 4.0 };
        assert!((curve.at(0.4, false) - 1.5).abs() < 1e-3);
        assert!((curve.at(400.0, false) / (1.0 + 0.5 * 100.0) - 1.0).abs() < 1e-3);
        assert!((curve.scaled(2.0).at(3.0, false) / curve.at(3.0, false) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn extremes_stay_finite() {
        for (hold, outside) in [(1e-9, 1e6), (1e6, 1e-9), (1e-3, 1e-3)] {
            for population in [1, 2, 30, 1_999, 2_000, 2_001, 3_000] {
                let answer = constant(hold, outside).solve(population, 2_000).unwrap();
                assert!(answer.throughput > 0.0 && answer.response.is_finite(), "{answer:?}");
            }
        }
        assert!(constant(f64::NAN, 1.0).solve(3, 3).is_err());
        assert!(constant(1.0, 1.0).solve(0, 3).is_err());
    }

    #[test]
    fn more_clients_than_memory_has_room_for_are_refused() {
        let asked = constant(1.0, 1.0).solve(usize::MAX, 4);
        assert!(matches!(asked, Err(Error::TooLarge { .. })), "{asked:?}");
    }
}
