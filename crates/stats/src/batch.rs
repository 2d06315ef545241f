//! The mean of a correlated series: cut it into batches so long that their means no longer depend
//! on each other.
//!
//! Response times of one run come in waves: a full queue makes many slow at once. sd/√n then
//! promises far too narrow an interval. Means of long stretches are nearly independent and nearly
//! normal (Jain 1991, §25.5.2; Law 2015, §9.5.3).

use crate::autocorrelation::lag1;
use crate::error::{StatsError, at_least};
use crate::interval::Estimate;
use crate::summary::Summary;
use crate::tails::normal_quantile;
use serde::{Deserialize, Serialize};

/// Batches kept at most; when full, neighbours are joined. Even, so that all find a partner.
const MOST: usize = 1024;
/// Fewer batches than this give no interval worth printing.
const FEWEST: usize = 10;
/// Once neighbours are independent, batches are joined until fewer than this are left: the t
/// quantile at 32 is within 4 % of the normal one, so more would buy nothing and longer batches are
/// still less dependent.
const ENOUGH: usize = 64;

/// The mean of a series, from its batches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchMeans {
    /// The mean and its t interval with `batches` − 1 degrees of freedom; n counts the observations
    /// used.
    pub estimate: Estimate,
    /// Number of batches.
    pub batches: usize,
    /// Observations in each.
    pub batch_size: u64,
    /// Observations at the end that fill no batch and are left out.
    pub left_out: u64,
    /// Lag-1 autocorrelation of the batch means.
    pub lag1: f64,
}

/// Collects a series of any length in bounded memory (at most 1024 batch means).
#[derive(Clone, Debug, PartialEq)]
pub struct Batches {
    // Means of full batches of `size`, fewer than MOST.
    means: Vec<f64>,
    size: u64,
    // Mean and count of the batch being filled; count < size.
    open_mean: f64,
    open: u64,
    n: u64,
}

impl Default for Batches {
    fn default() -> Self {
        Self { means: Vec::with_capacity(MOST), size: 1, open_mean: 0.0, open: 0, n: 0 }
    }
}

impl Batches {
    /// Adds the next observation.
    ///
    /// # Errors
    /// If it is not finite; it is then not counted.
    pub fn push(&mut self, value: f64) -> Result<(), StatsError> {
        if !value.is_finite() {
            return Err(StatsError::NotFinite {
                what: "series",
                index: self.n as usize,
                value: value.to_string(),
            });
        }
        self.n += 1;
        self.open += 1;
        self.open_mean += (value - self.open_mean) / self.open as f64;
        if self.open == self.size {
            self.means.push(self.open_mean);
            (self.open, self.open_mean) = (0, 0.0);
            if self.means.len() == MOST {
                self.means = joined(&self.means);
                self.size *= 2;
            }
        }
        Ok(())
    }

    /// Observations so far.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The mean with an interval that holds although neighbours depend on each other. Batches are
    /// doubled until the lag-1 autocorrelation of their means is no larger than chance explains
    /// (one-sided test at 5 %), and then until fewer than 64 are left.
    ///
    /// # Errors
    /// If there are fewer than 10 observations, all batches are alike, or 10 batches are still
    /// correlated: the run is too short.
    pub fn estimate(&self, level: f64) -> Result<BatchMeans, StatsError> {
        let (mut means, mut size) = (self.means.clone(), self.size);
        at_least("observations for batch means", means.len(), FEWEST)?;
        let one_sided = normal_quantile(0.95)?;
        // Tested only until it holds once: of many tests of independent batches, some would fail by
        // chance.
        let mut independent = false;
        loop {
            let lag1 = lag1(&means)?;
            independent = independent || lag1 <= one_sided / (means.len() as f64).sqrt();
            if independent && means.len() < ENOUGH {
                return self.finish(&means, size, lag1, level);
            }
            if means.len() / 2 < FEWEST {
                return Err(StatsError::Correlated { what: "series", lag1, batches: means.len() });
            }
            means = joined(&means);
            size *= 2;
        }
    }

    fn finish(&self, means: &[f64], size: u64, lag1: f64, level: f64) -> Result<BatchMeans, StatsError> {
        let summary = Summary::of(means)?;
        let used = size * summary.n;
        let mut estimate = summary.mean_estimate(level)?;
        estimate.n = used;
        Ok(BatchMeans { estimate, batches: means.len(), batch_size: size, left_out: self.n - used, lag1 })
    }
}

/// The mean of a series from batches of a size found by the data ([`Batches::estimate`]).
///
/// # Errors
/// As [`Batches::push`] and [`Batches::estimate`].
pub fn batch_means(values: &[f64], level: f64) -> Result<BatchMeans, StatsError> {
    let mut batches = Batches::default();
    values.iter().try_for_each(|&value| batches.push(value))?;
    batches.estimate(level)
}

/// The mean of a series from a given number of batches, whatever their correlation: look at `lag1`
/// of the result.
///
/// # Errors
/// If there are fewer than three batches or fewer values than batches, a value is not finite, or
/// all batches are alike.
pub fn fixed_batch_means(values: &[f64], batches: usize, level: f64) -> Result<BatchMeans, StatsError> {
    at_least("batches", batches, 3)?;
    at_least("observations for this many batches", values.len(), batches)?;
    let size = values.len() / batches;
    let means = values
        .chunks_exact(size)
        .take(batches)
        .map(|batch| Ok(Summary::of(batch)?.mean))
        .collect::<Result<Vec<f64>, StatsError>>()?;
    let whole = Batches { n: values.len() as u64, ..Batches::default() };
    whole.finish(&means, size as u64, lag1(&means)?, level)
}

/// Means of neighbouring pairs; a last one without partner is dropped.
fn joined(means: &[f64]) -> Vec<f64> {
    means.chunks_exact(2).map(|pair| pair[0] / 2.0 + pair[1] / 2.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::normal_series;

    /// Of 400 series with φ = 0.9 about 95 % of the intervals must cover the true mean 0; sd/√n
    /// covers far fewer. A few series look correlated to the end by chance and are refused.
    #[test]
    fn intervals_cover_as_often_as_they_say_although_neighbours_depend() {
        let (mut batched, mut naive, mut refused) = (0, 0, 0);
        for seed in 0..400 {
            let series = normal_series(seed, 4000, 0.9);
            match batch_means(&series, 0.95) {
                Ok(result) => batched += u32::from(result.estimate.interval.contains(0.0)),
                Err(StatsError::Correlated { .. }) => refused += 1,
                Err(other) => panic!("{other}"),
            }
            let interval = Summary::of(&series).unwrap().mean_estimate(0.95).unwrap().interval;
            naive += u32::from(interval.contains(0.0));
        }
        assert!(refused <= 4, "{refused} of 400");
        let share = f64::from(batched) / f64::from(400 - refused);
        assert!((0.92..0.98).contains(&share), "{share}");
        assert!(naive < 220, "{naive} of 400");
    }

    #[test]
    fn a_run_too_short_for_its_correlation_is_refused() {
        let drifting: Vec<f64> = (0..500).map(f64::from).collect();
        let error = batch_means(&drifting, 0.95).unwrap_err();
        assert!(matches!(error, StatsError::Correlated { .. }), "{error}");
        assert!(error.to_string().contains("make it longer"));
    }

    #[test]
    fn a_long_series_is_kept_in_a_thousand_means_and_none_is_lost() {
        let mut batches = Batches::default();
        for value in normal_series(3, 100_003, 0.5) {
            batches.push(value).unwrap();
        }
        assert!(batches.means.len() < MOST);
        let result = batches.estimate(0.95).unwrap();
        assert_eq!(result.estimate.n + result.left_out, 100_003);
        assert!((FEWEST..ENOUGH).contains(&result.batches));
        assert_eq!(result.estimate.n, result.batches as u64 * result.batch_size);
    }

    #[test]
    fn a_given_number_of_batches_is_kept_to() {
        let values: Vec<f64> = (0..103).map(|i| f64::from(i * 7 % 10)).collect();
        let result = fixed_batch_means(&values, 10, 0.95).unwrap_err();
        assert_eq!(result, StatsError::Constant { what: "series" });
        let result = fixed_batch_means(&values, 20, 0.95).unwrap();
        assert_eq!((result.batches, result.batch_size, result.left_out), (20, 5, 3));
    }

    #[test]
    fn extreme_inputs_are_named() {
        assert!(matches!(batch_means(&[1.0; 9], 0.95), Err(StatsError::TooFew { have: 9, need: 10, .. })));
        assert_eq!(batch_means(&[1.0; 90], 0.95), Err(StatsError::Constant { what: "series" }));
        let error = batch_means(&[1.0, 2.0, f64::NAN], 0.95).unwrap_err();
        assert_eq!(error, StatsError::NotFinite { what: "series", index: 2, value: "NaN".into() });
        assert!(fixed_batch_means(&[1.0, 2.0], 3, 0.95).is_err());
    }
}
