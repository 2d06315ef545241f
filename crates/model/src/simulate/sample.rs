//! Estimates from the parts of a run: batches, or replications.
//!
//! All estimates are ratios of sums (mean response = Σ response / completions, throughput =
//! completions / time). With batches or replications i and the overall ratio r = Σ y / Σ x, the
//! values
//!
//! ```text
//! v_i = r + (y_i − r x_i) / mean of x
//! ```
//!
//! have the mean r and the spread of the ratio to first order (Law 2015, §9.5.3; Jain 1991,
//! §25.5.2). Batches go through [`krarup_stats::batch`], which joins neighbours until they no
//! longer depend on each other as far as it can see, or says that they still do; then there is no
//! interval. What it cannot see in many short batches makes intervals too narrow all the same, so
//! where there are many, pairs of them are taken.
//!
//! The values are skew, and where they are low their spread is too small. So the interval of what
//! counts is Willink's ([`krarup_stats::skew`]), longer on the side of the long tail; that of a
//! pilot, which only says how long the rest has to be, is Student's.
//!
//! A percentile is read from the histogram of all requests. Its interval is that of the share of
//! requests beyond it, a ratio like the others, read back from the same histogram (Woodruff 1952).
//! If a share p lies beyond a percentile, and more than was seen may, the percentile may be higher:
//! with v how far the interval of p reaches down or up, on the scale of log odds,
//!
//! ```text
//! low, high = quantiles at the odds  (1 − p) / p · exp(∓ v / (p (1 − p)))
//! ```
//!
//! A share says how many independent requests beyond would know it as well, p² (1 − p) / its
//! variance. Requests come beyond a high percentile in crowds, one of which counts about once; with
//! fewer than [`BEYOND`] there is no interval.

use krarup_stats::batch::{batch_means, fixed_batch_means};
use krarup_stats::skew::{SampleShape, reaches};
use krarup_stats::{Interval, StatsError, Summary};

use super::reading::SimulatedEstimate;
use super::spread::SimulatedHistogram;
use super::tally::IntervalTally;

/// Independent requests beyond a percentile that its interval needs.
const BEYOND: f64 = 10.0;
/// With so many batches, half as many say more truly how far they differ.
const MANY: usize = 24;

/// Batches of one run, or replications.
pub(super) struct Sample<'a> {
    parts: &'a [IntervalTally],
    /// All replications, those before the parts too.
    replications: Option<&'a [IntervalTally]>,
    level: f64,
    /// Of a pilot: intervals are Student's.
    pilot: bool,
}

/// How far the truth may be from a value.
struct Reach {
    /// On either side, were the values not skew.
    even: f64,
    down: f64,
    up: f64,
}

impl Reach {
    fn even(even: f64) -> Self {
        Self { even, down: even, up: even }
    }
}

impl<'a> Sample<'a> {
    pub(super) fn batches(parts: &'a [IntervalTally], level: f64) -> Self {
        Self { parts, replications: None, level, pilot: false }
    }

    /// Of all replications, those count that are not before `begin`.
    pub(super) fn replications(all: &'a [IntervalTally], begin: usize, level: f64) -> Self {
        Self { parts: &all[begin..], replications: Some(all), level, pilot: false }
    }

    /// The same, to plan with.
    pub(super) fn pilot(self) -> Self {
        Self { pilot: true, ..self }
    }

    /// All replications, if they are.
    pub(super) fn replicated(&self) -> Option<&'a [IntervalTally]> {
        self.replications
    }

    /// What counts.
    pub(super) fn parts(&self) -> &'a [IntervalTally] {
        self.parts
    }

    /// The widest half width of response times and throughputs, relative to the value; `None` if
    /// one is not known.
    pub(super) fn precision(&self, classes: usize) -> Option<f64> {
        let mut widest = 0.0_f64;
        for class in 0..classes {
            for reading in [self.throughput(class), self.response(class)?] {
                widest = widest.max(reading.half_width()? / reading.value.abs().max(f64::MIN_POSITIVE));
            }
        }
        Some(widest)
    }

    pub(super) fn throughput(&self, class: usize) -> SimulatedEstimate {
        self.rate(|part| part.classes[class].completed)
    }

    pub(super) fn response(&self, class: usize) -> Option<SimulatedEstimate> {
        let completed = |part: &IntervalTally| part.classes[class].completed;
        self.per(completed, |part| part.classes[class].response)
    }

    /// So many of something per second.
    pub(super) fn rate(&self, count: impl Fn(&IntervalTally) -> u64) -> SimulatedEstimate {
        let n = self.count(&count);
        self.ratio(n, |part| count(part) as f64, |part| part.time)
    }

    /// A mean over time of what `area` sums; `count` is what it rests on.
    pub(super) fn mean(
        &self,
        count: impl Fn(&IntervalTally) -> u64,
        area: impl Fn(&IntervalTally) -> f64,
    ) -> SimulatedEstimate {
        self.ratio(self.count(count), area, |part| part.time)
    }

    /// A mean over observations; `None` if there are none.
    pub(super) fn per(
        &self,
        count: impl Fn(&IntervalTally) -> u64,
        sum: impl Fn(&IntervalTally) -> f64,
    ) -> Option<SimulatedEstimate> {
        let n = self.count(&count);
        (n > 0).then(|| self.ratio(n, sum, |part| count(part) as f64))
    }

    pub(super) fn count(&self, count: impl Fn(&IntervalTally) -> u64) -> u64 {
        self.parts.iter().map(count).sum()
    }

    fn ratio(
        &self,
        n: u64,
        y: impl Fn(&IntervalTally) -> f64,
        x: impl Fn(&IntervalTally) -> f64,
    ) -> SimulatedEstimate {
        let (value, reach) = self.ratio_and_reach(y, x);
        let interval =
            |reach: Reach| Interval { low: value - reach.down, high: value + reach.up, level: self.level };
        SimulatedEstimate { value, n, interval: reach.map(interval) }
    }

    fn ratio_and_reach(
        &self,
        y: impl Fn(&IntervalTally) -> f64,
        x: impl Fn(&IntervalTally) -> f64,
    ) -> (f64, Option<Reach>) {
        let (sum_y, sum_x) = self.parts.iter().fold((0.0, 0.0), |(a, b), part| (a + y(part), b + x(part)));
        let value = sum_y / sum_x;
        let mean = sum_x / self.parts.len() as f64;
        let values: Vec<f64> =
            self.parts.iter().map(|part| value + (y(part) - value * x(part)) / mean).collect();
        let reach = match self.reach(&values) {
            Ok(reach) => Some(reach),
            // Every part says the same, as a network without randomness does.
            Err(StatsError::Constant { .. }) => Some(Reach::even(0.0)),
            Err(_) => None,
        };
        (value, reach)
    }

    /// How far the mean of the parts' values may be off.
    fn reach(&self, values: &[f64]) -> Result<Reach, StatsError> {
        let (even, parts, size) = if self.replications.is_some() {
            let estimate = Summary::of(values)?.mean_estimate(self.level)?;
            (estimate.interval.half_width(), values.len(), 1)
        } else {
            let means = batch_means(values, self.level)?;
            let parts = if means.batches >= MANY { means.batches / 2 } else { means.batches };
            let fixed = fixed_batch_means(values, parts, self.level)?;
            (fixed.estimate.interval.half_width(), parts, means.batch_size as usize)
        };
        if self.pilot {
            return Ok(Reach::even(even));
        }
        // Pairs say how far they differ; which way, and how far that itself scatters, is seen
        // better in all of them.
        let single: Vec<f64> =
            values.chunks_exact(size).map(|batch| batch.iter().sum::<f64>() / size as f64).collect();
        let shape = match SampleShape::of(&single) {
            Err(StatsError::TooFew { .. }) => return Ok(Reach::even(even)),
            shape => shape?,
        };
        let error = even / self.student(parts as f64 - 1.0)?;
        let (down, up) = reaches(shape.of_mean(), self.student(shape.degrees(parts))?);
        Ok(Reach { even, down: down * error, up: up * error })
    }

    fn student(&self, degrees: f64) -> Result<f64, StatsError> {
        Ok(Interval::student(0.0, 1.0, degrees, self.level)?.half_width())
    }

    pub(super) fn percentile(&self, class: usize, share: f64) -> Option<SimulatedEstimate> {
        let spreads: Vec<&SimulatedHistogram> =
            self.parts.iter().map(|part| &part.responses[class]).collect();
        let all = joined(&spreads);
        let value = all.quantile(share)?;
        let (_, reach) = self.ratio_and_reach(
            |part| part.responses[class].above(value) as f64,
            |part| part.responses[class].total() as f64,
        );
        let interval = || {
            let reach = reach?;
            let rare = share.min(1.0 - share);
            // So few lie beyond it that none may have been seen; where all are alike it is known.
            if all.total() as f64 * rare < BEYOND && all.quantile(0.0) != all.quantile(1.0) {
                return None;
            }
            let independent = (rare * self.student(1e6).ok()? / reach.even).powi(2);
            if independent < BEYOND {
                return None;
            }
            let odds = share / (1.0 - share);
            let end = |apart: f64| {
                let odds = odds * (apart / (share * (1.0 - share))).exp();
                all.quantile(odds / (1.0 + odds))
            };
            Some(Interval { low: end(-reach.down)?, high: end(reach.up)?, level: self.level })
        };
        Some(SimulatedEstimate { value, n: all.total(), interval: interval() })
    }
}

fn joined(spreads: &[&SimulatedHistogram]) -> SimulatedHistogram {
    spreads.iter().fold(SimulatedHistogram::default(), |mut sum, spread| {
        sum.add(spread);
        sum
    })
}
