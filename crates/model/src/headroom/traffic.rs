//! The traffic that was seen, as something that can be played at another rate: how its rate varies
//! from second to second and within a second, and what its requests ask for.
//!
//! The rate of second s is the trend E_s (a moving median, which steps with the rate where a mean
//! would take each step for a burst) times a factor m1 of mean one; the rate of a slot of 50 ms in
//! it that times m2. Counts N vary more than the rates behind them, because they
//! are counts: with Poisson arrivals `Var N = E N + c (E N)²`, so `c = (Var N − E N) / (E N)²` is
//! the squared coefficient of variation of the factor. Played at another rate, each factor is drawn
//! from what is known of it after its count was seen (the gamma distribution is conjugate to
//! Poisson's):
//!
//! ```text
//! m1 ~ Gamma(1/c1 + N_s) / (1/c1 + E_s)      m2 ~ Gamma(1/c2 + N_b) / (1/c2 + N_s / 20)
//! ```
//!
//! so bursts stay where and as they were, and the noise of counting is not multiplied.

use std::ops::Range;

use krarup_units::{Nanos, Seconds};
use rand_distr::{Gamma, Poisson};

use super::kept::{Kept, mean, quantile};
use crate::simulate::random::RandomStream;

/// Slots of 50 ms in a second.
const SLOTS: usize = 20;
/// What is of now: the last so long.
pub(super) const LATELY: Nanos = Nanos::from_secs(10);
/// The same in seconds.
const NOW: usize = (LATELY.0 / 1_000_000_000) as usize;
/// Seconds of which the trend is the median.
const TREND: usize = 5;
/// Variance of `x − median` over that of `x` for five normal values: 1 + 0.287 − 2/5, because the
/// median has 0.287 of the variance (order statistics) and a covariance of 1/5 with each of them.
const OF_MEDIAN: f64 = 0.887;
/// A second around which the trend changes by more than this factor tells nothing of bursts in it.
const STEP: f64 = 1.5;
/// A factor that varies by less is constant.
const CONSTANT: f64 = 1e-5;
/// A second's requests are like so many of those kept, of it and of as many seconds on both sides
/// as that takes. Fewer would multiply the noise of counting: five of one server make a second in
/// which all ask that one.
const ALIKE: usize = 2_000;
/// Seconds on each side at the most, unless nothing was kept of all these.
const AROUND: usize = 3;
/// Requests of one replay at the most.
pub(super) const REPLAYED: usize = 200_000;

/// The traffic of some seconds.
#[derive(Clone, Debug)]
pub(super) struct SeenTraffic {
    /// Requests in each second.
    by_second: Vec<f64>,
    trend: Vec<f64>,
    by_slot: Vec<f64>,
    /// For how long there has been none.
    quiet: Seconds,
    /// See the module.
    pub(super) c1: f64,
    /// See the module.
    pub(super) c2: f64,
    /// The places of the requests that were kept, in the order of the seconds.
    kept: Vec<u32>,
    /// Those that the requests of each second are like: of the second itself and of those around
    /// it.
    alike: Vec<Range<usize>>,
    /// The first second whose requests are like those to come.
    requests_from: usize,
    /// The places of answers that no client waited for, per request of the clients.
    late_share: f64,
    /// The rate at which there are no such answers any more.
    late_until: f64,
    late: Vec<u32>,
}

/// Where a second's arrivals lie: slots, and the request that each is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) at: Seconds,
    /// The place of the kept request that it is like.
    pub(super) like: u32,
}

impl SeenTraffic {
    /// The traffic of what was kept; none of less than four seconds.
    pub(super) fn of(kept: &Kept) -> Option<Self> {
        let seconds = kept.arrivals.len() / SLOTS;
        if seconds < 4 {
            return None;
        }
        let by_slot = kept.arrivals[..seconds * SLOTS].to_vec();
        let by_second: Vec<f64> = by_slot.chunks(SLOTS).map(|slots| slots.iter().sum()).collect();
        let trend = trend(&by_second);
        let (c1, c2) =
            (variation_of_seconds(&by_second, &trend), variation_of_slots(&trend, &by_second, &by_slot));
        let mut places = vec![Vec::new(); seconds];
        let mut late = Vec::new();
        for (place, request) in kept.requests.iter().enumerate() {
            if request.late {
                late.push(place as u32);
            } else if let Some(second) = places.get_mut(request.received.max(0.0) as usize) {
                second.push(place as u32);
            }
        }
        let clients = kept.requests.len() - late.len();
        let mut starts = vec![0];
        starts.extend(places.iter().scan(0, |end, one| {
            *end += one.len();
            Some(*end)
        }));
        let alike = (0..seconds).map(|second| alike(&starts, second)).collect();
        Some(Self {
            by_second,
            trend,
            by_slot,
            quiet: kept.quiet,
            c1,
            c2,
            kept: places.concat(),
            alike,
            requests_from: 0,
            late_share: late.len() as f64 / clients.max(1) as f64,
            late_until: f64::INFINITY,
            late,
        })
    }

    /// From then on requests are like those to come; before, only their number is.
    pub(super) fn requests_from(&mut self, from: Seconds) {
        self.requests_from = (from as usize).min(self.alike.len() - 1);
    }

    /// The closer the rate comes to this one, the fewer answers come that no client waits for.
    pub(super) fn late_until(&mut self, rate: f64) {
        self.late_until = rate;
    }

    /// Answers that no client waits for, per request, at a rate.
    fn late_at(&self, rate: f64) -> f64 {
        let seen = mean(self.by_second.iter().copied());
        let way = (rate - seen) / (self.late_until - seen);
        if self.late_until > seen { self.late_share * (1.0 - way).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Mean rate of the last ten seconds, those without traffic among them.
    pub(super) fn now(&self) -> f64 {
        let slots = ((NOW as f64 - self.quiet).max(0.0) * SLOTS as f64) as usize;
        let slots = &self.by_slot[self.by_slot.len().saturating_sub(slots)..];
        slots.iter().sum::<f64>() / (slots.len() as f64 / SLOTS as f64 + self.quiet)
    }

    /// Mean rate of the last ten seconds that had traffic.
    pub(super) fn lately(&self) -> f64 {
        mean(self.by_second[self.by_second.len().saturating_sub(NOW)..].iter().copied())
    }

    /// The 95th percentile of the seconds' rates.
    pub(super) fn highest(&self) -> f64 {
        quantile(&mut self.by_second.clone(), 0.95)
    }

    /// The highest rate of 100 ms.
    pub(super) fn highest_tenth(&self) -> f64 {
        self.by_slot.chunks(2).map(|two| two.iter().sum::<f64>() * 10.0).fold(0.0, f64::max)
    }

    /// Arrivals like those seen, at another mean rate, of as many seconds as were seen, but at
    /// least 8 and no more requests than [`REPLAYED`].
    pub(super) fn at_rate(&self, rate: f64, random: &mut RandomStream) -> Vec<Arrival> {
        let seen = self.by_second.len();
        let seconds = (seen.max(60) as f64).min(REPLAYED as f64 / rate.max(1.0)).max(8.0) as usize;
        let offset = if seconds < seen { random.below(seen - seconds + 1) } else { 0 };
        let second_of = |place: usize| (place + offset) % seen;
        let mut rates = Vec::with_capacity(seconds * SLOTS);
        for place in 0..seconds {
            self.rates_of(second_of(place), random, &mut rates);
        }
        let scale = rate / SLOTS as f64 / mean(rates.iter().copied()).max(1e-12);
        let late_share = self.late_at(rate);
        let mut arrivals = Vec::with_capacity((rate * seconds as f64 * 1.1) as usize);
        for (slot, factor) in rates.iter().enumerate() {
            let second = second_of(slot / SLOTS);
            let first = arrivals.len();
            for _ in 0..poisson(factor * scale, random) {
                let at = (slot as f64 + random.fraction()) / SLOTS as f64;
                arrivals.push(Arrival { at, like: self.like(second, random) });
                let mut rest = late_share;
                while rest > 0.0 && random.fraction() < rest {
                    rest -= 1.0;
                    let like = self.late[random.below(self.late.len())];
                    let at = (slot as f64 + random.fraction()) / SLOTS as f64;
                    arrivals.push(Arrival { at, like });
                }
            }
            arrivals[first..].sort_by(|a, b| a.at.total_cmp(&b.at));
        }
        arrivals
    }

    /// The factors of one second's slots.
    fn rates_of(&self, second: usize, random: &mut RandomStream, rates: &mut Vec<f64>) {
        let (count, trend) = (self.by_second[second], self.trend[second]);
        let m1 = if self.c1 > CONSTANT {
            gamma(1.0 / self.c1 + count, random) / (1.0 / self.c1 + trend)
        } else {
            1.0
        };
        let first = rates.len();
        for slot in 0..SLOTS {
            let m2 = if self.c2 > CONSTANT {
                let seen = self.by_slot[second * SLOTS + slot];
                gamma(1.0 / self.c2 + seen, random) / (1.0 / self.c2 + count / SLOTS as f64)
            } else {
                1.0
            };
            rates.push(m1 * m2);
        }
        if self.c2 > CONSTANT {
            let average = mean(rates[first..].iter().copied()).max(1e-12) / m1.max(1e-12);
            rates[first..].iter_mut().for_each(|rate| *rate /= average);
        }
    }

    fn like(&self, second: usize, random: &mut RandomStream) -> u32 {
        let from = self.requests_from;
        let second = if second < from { from + second % (self.alike.len() - from) } else { second };
        let alike = &self.alike[second];
        if alike.is_empty() { 0 } else { self.kept[alike.start + random.below(alike.len())] }
    }
}

/// Where, among all that was kept, those lie that a second's requests are like; from where those of
/// each second begin, and the last end.
fn alike(starts: &[usize], second: usize) -> Range<usize> {
    let seconds = starts.len() - 1;
    let around = |more: usize| starts[second.saturating_sub(more)]..starts[(second + more + 1).min(seconds)];
    let enough = |more: &usize| around(*more).len() >= if *more < AROUND { ALIKE } else { 1 };
    around((0..seconds).find(enough).unwrap_or(seconds))
}

fn trend(by_second: &[f64]) -> Vec<f64> {
    let half = TREND / 2;
    (0..by_second.len())
        .map(|second| {
            let around = &by_second[second.saturating_sub(half)..(second + half + 1).min(by_second.len())];
            quantile(&mut around.to_vec(), 0.5).max(1e-3)
        })
        .collect()
}

fn variation_of_seconds(by_second: &[f64], trend: &[f64]) -> f64 {
    let pairs = || by_second.iter().zip(trend);
    let residual: f64 = pairs().map(|(count, middle)| (count - middle).powi(2)).sum::<f64>() / OF_MEDIAN;
    let (sum, squares) = (trend.iter().sum::<f64>(), trend.iter().map(|middle| middle * middle).sum::<f64>());
    ((residual - sum) / squares).max(0.0)
}

fn variation_of_slots(trend: &[f64], by_second: &[f64], by_slot: &[f64]) -> f64 {
    let (mut residual, mut counted, mut squares) = (0.0, 0.0, 0.0);
    for (second, (count, slots)) in by_second.iter().zip(by_slot.chunks(SLOTS)).enumerate() {
        let before = trend[second.saturating_sub(1)];
        let after = trend[(second + 1).min(trend.len() - 1)];
        if (before / after).max(after / before) > STEP {
            continue;
        }
        let mean = count / SLOTS as f64;
        residual += slots.iter().map(|slot| (slot - mean).powi(2)).sum::<f64>();
        counted += count;
        squares += mean * mean * SLOTS as f64;
    }
    let residual = residual / (1.0 - 1.0 / SLOTS as f64);
    ((residual - counted) / squares.max(1e-9)).max(0.0)
}

fn gamma(shape: f64, random: &mut RandomStream) -> f64 {
    Gamma::new(shape, 1.0).map_or(shape, |law| random.draw(&law))
}

fn poisson(mean: f64, random: &mut RandomStream) -> u64 {
    Poisson::new(mean).map_or(0, |law| random.draw(&law) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The traffic whose slots of 50 ms have `count` requests each, on average.
    fn traffic(seconds: usize, count: impl Fn(usize) -> f64) -> SeenTraffic {
        let mut random = RandomStream::named(1, 0, &["slots"]);
        let slots = (0..seconds * SLOTS).map(|slot| poisson(count(slot / SLOTS), &mut random) as f64);
        SeenTraffic::of(&Kept { arrivals: slots.collect(), ..Kept::default() }).unwrap()
    }

    #[test]
    fn steps_of_the_rate_are_not_bursts() {
        let steps = traffic(60, |second| if second < 40 { 20.0 } else { 90.0 });
        assert!(steps.c1 < 0.001 && steps.c2 < 0.002, "{} {}", steps.c1, steps.c2);
        let ramps = traffic(60, |second| 20.0 + 8.0 * (second % 10) as f64);
        assert!(ramps.c1 < 0.02 && ramps.c2 < 0.002, "{} {}", ramps.c1, ramps.c2);
    }

    #[test]
    fn bursts_of_a_second_are_told_from_the_noise_of_counting() {
        let bursts = traffic(600, |second| if second % 4 == 0 { 80.0 } else { 40.0 });
        // One second in four has twice the trend: (1² · 1/4) / 0.887.
        assert!((bursts.c1 - 0.28).abs() < 0.02, "{}", bursts.c1);
        let poisson = traffic(600, |_| 50.0);
        assert!(poisson.c1 < 2e-4 && poisson.c2 < 1e-3, "{} {}", poisson.c1, poisson.c2);
    }
}
