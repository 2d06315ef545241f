//! Estimates from the parts of a run: batches, or replications.
//!
//! All estimates are ratios of sums (mean response = Σ response / completions, throughput = completions / time). With
//! batches or replications i and the overall ratio r = Σ y / Σ x, the values
//!
//! ```text
//! v_i = r + (y_i − r x_i) / mean of x
//! ```
//!
//! have the mean r and the spread of the ratio to first order (Law 2015, §9.5.3; Jain 1991, §25.5.2). Batches go through
//! [`krarup_stats::batch`], which joins neighbours until they no longer depend on each other as far as it can see, or says that they
//! still do; then there is no interval. What it cannot see in many short batches makes intervals too
//! narrow all the same, so where there are many, pairs of them are taken.
//!
//! A percentile is read from the histogram of all requests. Its interval is that of the share of requests beyond it, a ratio like the
//! others, read back from the same histogram (Woodruff 1952): with v the half width of that share p, on the scale of log odds,
//!
//! ```text
//! ends = quantiles at the odds  p / (1 − p) · exp(± v / (p (1 − p)))
//! ```
//!
//! A share says how many independent requests beyond would know it as well, p² (1 − p) / its variance. Requests come beyond a high
//! percentile in crowds, one of which counts about once; with fewer than [`BEYOND`] there is no interval, and with few it is wider,
//! as Student's t of half as many is wider than that of many.

use krarup_stats::batch::{batch_means, fixed_batch_means};
use krarup_stats::{Interval, StatsError, Summary};

use super::reading::Reading;
use super::spread::Spread;
use super::tally::Tally;

/// Independent requests beyond a percentile that its interval needs.
const BEYOND: f64 = 10.0;
/// With so many batches, half as many say more truly how far they differ.
const MANY: usize = 24;

/// Batches of one run, or replications.
pub(super) struct Sample<'a> {
    parts: &'a [Tally],
    /// All replications, those before the parts too.
    replications: Option<&'a [Tally]>,
    level: f64,
}

impl<'a> Sample<'a> {
    pub(super) fn batches(parts: &'a [Tally], level: f64) -> Self {
        Self { parts, replications: None, level }
    }

    /// Of all replications, those count that are not before `begin`.
    pub(super) fn replications(all: &'a [Tally], begin: usize, level: f64) -> Self {
        Self { parts: &all[begin..], replications: Some(all), level }
    }

    /// All replications, if they are.
    pub(super) fn replicated(&self) -> Option<&'a [Tally]> {
        self.replications
    }

    /// What counts.
    pub(super) fn parts(&self) -> &'a [Tally] {
        self.parts
    }

    /// The widest half width of response times and throughputs, relative to the value; `None` if one is not known.
    pub(super) fn precision(&self, classes: usize) -> Option<f64> {
        let mut widest = 0.0_f64;
        for class in 0..classes {
            for reading in [self.throughput(class), self.response(class)?] {
                widest = widest.max(reading.half_width()? / reading.value.abs().max(f64::MIN_POSITIVE));
            }
        }
        Some(widest)
    }

    pub(super) fn throughput(&self, class: usize) -> Reading {
        self.rate(|part| part.classes[class].completed)
    }

    pub(super) fn response(&self, class: usize) -> Option<Reading> {
        let completed = |part: &Tally| part.classes[class].completed;
        self.per(completed, |part| part.classes[class].response)
    }

    /// So many of something per second.
    pub(super) fn rate(&self, count: impl Fn(&Tally) -> u64) -> Reading {
        let n = self.count(&count);
        self.ratio(n, |part| count(part) as f64, |part| part.time)
    }

    /// A mean over time of what `area` sums; `count` is what it rests on.
    pub(super) fn mean(&self, count: impl Fn(&Tally) -> u64, area: impl Fn(&Tally) -> f64) -> Reading {
        self.ratio(self.count(count), area, |part| part.time)
    }

    /// A mean over observations; `None` if there are none.
    pub(super) fn per(&self, count: impl Fn(&Tally) -> u64, sum: impl Fn(&Tally) -> f64) -> Option<Reading> {
        let n = self.count(&count);
        (n > 0).then(|| self.ratio(n, sum, |part| count(part) as f64))
    }

    pub(super) fn count(&self, count: impl Fn(&Tally) -> u64) -> u64 {
        self.parts.iter().map(count).sum()
    }

    fn ratio(&self, n: u64, y: impl Fn(&Tally) -> f64, x: impl Fn(&Tally) -> f64) -> Reading {
        let (sum_y, sum_x) = self.parts.iter().fold((0.0, 0.0), |(a, b), part| (a + y(part), b + x(part)));
        let value = sum_y / sum_x;
        let mean = sum_x / self.parts.len() as f64;
        let values: Vec<f64> =
            self.parts.iter().map(|part| value + (y(part) - value * x(part)) / mean).collect();
        let interval = |half| Interval { low: value - half, high: value + half, level: self.level };
        Reading { value, n, interval: self.half_width(&values).map(interval) }
    }

    /// Half of the width of an interval, from the spread of the parts' values.
    fn half_width(&self, values: &[f64]) -> Option<f64> {
        let level = self.level;
        let estimate = if self.replications.is_some() {
            Summary::of(values).and_then(|summary| summary.mean_estimate(level))
        } else {
            batch_means(values, level)
                .and_then(|means| {
                    let pairs = means.batches >= MANY;
                    fixed_batch_means(values, if pairs { means.batches / 2 } else { means.batches }, level)
                })
                .map(|means| means.estimate)
        };
        match estimate {
            Ok(estimate) => Some(estimate.interval.half_width()),
            // Every part says the same, as a network without randomness does.
            Err(StatsError::Constant { .. }) => Some(0.0),
            Err(_) => None,
        }
    }

    pub(super) fn percentile(&self, class: usize, share: f64) -> Option<Reading> {
        let spreads: Vec<&Spread> = self.parts.iter().map(|part| &part.responses[class]).collect();
        let all = joined(&spreads);
        let value = all.quantile(share)?;
        let beyond =
            self.per(|part| part.responses[class].total(), |part| part.responses[class].above(value) as f64)?;
        let interval = || {
            let rare = share.min(1.0 - share);
            let half = beyond.half_width()?;
            let errors =
                |freedom: f64| Interval::student(0.0, 1.0, freedom, self.level).map(|one| one.half_width());
            let usual = errors(1e6).ok()?;
            let independent = (rare * usual / half).powi(2);
            if independent < BEYOND {
                return None;
            }
            // Crowds differ in size: how far they scatter is known about as well as from half as many.
            let half = half * errors(independent / 2.0 - 1.0).ok()? / usual;
            let apart = (half / (share * (1.0 - share))).exp();
            let odds = share / (1.0 - share);
            let end = |odds: f64| all.quantile(odds / (1.0 + odds));
            let (low, high) = (end(odds / apart)?, end(odds * apart)?);
            Some(Interval { low, high, level: self.level })
        };
        Some(Reading { value, n: all.total(), interval: interval() })
    }
}

fn joined(spreads: &[&Spread]) -> Spread {
    spreads.iter().fold(Spread::default(), |mut sum, spread| {
        sum.add(spread);
        sum
    })
}
