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
//! [`krarup_stats::batch`], which joins neighbours until they no longer depend on each other, or says that they still do; then
//! there is no interval. Percentiles are read from the histogram of all requests, and their spread from those of the batches
//! (sectioning; Asmussen & Glynn 2007, §III.5).

use krarup_stats::batch::batch_means;
use krarup_stats::{Interval, StatsError, Summary};

use super::result::Reading;
use super::spread::Spread;
use super::tally::Tally;

/// Observations beyond a percentile that a batch must have to say something about it.
const BEYOND: f64 = 10.0;
/// Fewer groups of batches than this say nothing about a percentile's spread.
const GROUPS: usize = 10;

/// Batches of one run, or replications.
pub(super) struct Sample<'a> {
    pub(super) parts: &'a [Tally],
    replications: bool,
    level: f64,
}

impl<'a> Sample<'a> {
    pub(super) fn batches(parts: &'a [Tally], level: f64) -> Self {
        Self { parts, replications: false, level }
    }

    pub(super) fn replications(parts: &'a [Tally], level: f64) -> Self {
        Self { parts, replications: true, level }
    }

    /// How many replications, if they are.
    pub(super) fn replicated(&self) -> Option<usize> {
        self.replications.then_some(self.parts.len())
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
        Reading { value, n, interval: self.interval(value, &values) }
    }

    /// The interval around `value` from the spread of the parts' values.
    fn interval(&self, value: f64, values: &[f64]) -> Option<Interval> {
        let level = self.level;
        let estimate = if self.replications {
            Summary::of(values).and_then(|summary| summary.mean_estimate(level))
        } else {
            batch_means(values, level).map(|means| means.estimate)
        };
        let half = match estimate {
            Ok(estimate) => estimate.interval.half_width(),
            // Every part says the same, as a network without randomness does.
            Err(StatsError::Constant { .. }) => 0.0,
            Err(_) => return None,
        };
        Some(Interval { low: value - half, high: value + half, level })
    }

    pub(super) fn percentile(&self, class: usize, share: f64) -> Option<Reading> {
        let spreads: Vec<&Spread> = self.parts.iter().map(|part| &part.responses[class]).collect();
        let all = joined(&spreads);
        let value = all.quantile(share)?;
        // Neighbours are joined until each group knows its own percentile.
        let beyond = BEYOND / share.min(1.0 - share);
        let mut size = 1;
        let interval = loop {
            let groups: Vec<Spread> = spreads.chunks_exact(size).map(joined).collect();
            if groups.len() < GROUPS || (self.replications && size > 1) {
                break None;
            }
            if groups.iter().all(|group| group.total() as f64 >= beyond) {
                let values: Vec<f64> = groups.iter().filter_map(|group| group.quantile(share)).collect();
                break self.interval(value, &values);
            }
            size *= 2;
        };
        Some(Reading { value, n: all.total(), interval })
    }
}

fn joined(spreads: &[&Spread]) -> Spread {
    spreads.iter().fold(Spread::default(), |mut sum, spread| {
        sum.add(spread);
        sum
    })
}
