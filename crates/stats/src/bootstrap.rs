//! Intervals for any statistic, by drawing the sample again from itself, with a written seed.

use crate::error::{StatsError, finite, probability, usable};
use crate::interval::{Estimate, Interval};
use crate::quantile::Ordered;
use crate::random::{below, stream};
use crate::tails::normal_quantile;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

/// How to resample. All three belong into the report: with them every run gives the same interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// How often the sample is drawn again; 2000 for an interval at 95 %, at least 100.
    pub resamples: usize,
    /// Seed of the random stream.
    pub seed: u64,
    /// Confidence level, above 0 and below 1.
    pub level: f64,
}

impl Bootstrap {
    /// 2000 resamples at the usual level, with this seed.
    pub fn seeded(seed: u64) -> Self {
        Self { resamples: 2000, seed, level: crate::interval::USUAL_LEVEL }
    }

    /// The percentile interval: the middle `level` of the statistic over the resamples (Efron
    /// 1979). Simple, and right when the statistic's distribution is neither shifted nor skewed.
    ///
    /// # Errors
    /// If there are fewer than 2 values or 100 resamples, a value is not finite, or the statistic
    /// of a resample is not.
    pub fn percentile(
        &self,
        values: &[f64],
        statistic: impl Fn(&[f64]) -> f64,
    ) -> Result<Estimate, StatsError> {
        let value = checked(values, &statistic)?;
        let replicates = self.replicates(values, &statistic)?;
        let interval = percentile_interval(replicates, self.level)?;
        Ok(Estimate { value, n: values.len() as u64, interval })
    }

    /// The BCa interval (Efron 1987; Efron and Tibshirani 1993, §14.3): the percentile interval
    /// with its ends moved for bias (z₀: where the estimate stands among the replicates) and for
    /// skew (a: from leaving out one value at a time).
    ///
    /// ```text
    /// end(α) = replicate quantile at Φ(z₀ + (z₀ + z_α) / (1 − a (z₀ + z_α)))
    /// ```
    ///
    /// # Errors
    /// As [`Bootstrap::percentile`]; and if the statistic is the same for every resample.
    pub fn bca(&self, values: &[f64], statistic: impl Fn(&[f64]) -> f64) -> Result<Estimate, StatsError> {
        let value = checked(values, &statistic)?;
        let replicates = Ordered::new(self.replicates(values, &statistic)?)?;
        let bias = bias_correction(value, replicates.values())?;
        let skew = acceleration(values, &statistic)?;
        let end = |p: f64| -> Result<f64, StatsError> {
            let shifted = bias + normal_quantile(p)?;
            let slope = 1.0 - skew * shifted;
            // Beyond the pole of the correction the formula turns round; the extreme replicate is
            // what is left.
            let moved = if slope > 0.0 {
                Normal::standard().cdf(bias + shifted / slope)
            } else if shifted > 0.0 {
                1.0
            } else {
                0.0
            };
            replicates.quantile(moved)
        };
        let tail = (1.0 - probability("level", self.level)?) / 2.0;
        let interval = Interval { low: end(tail)?, high: end(1.0 - tail)?, level: self.level };
        Ok(Estimate { value, n: values.len() as u64, interval })
    }

    /// The percentile interval of statistic(other) − statistic(base) for two independent samples; n
    /// counts both.
    ///
    /// # Errors
    /// As [`Bootstrap::percentile`], for either sample.
    pub fn difference(
        &self,
        base: &[f64],
        other: &[f64],
        statistic: impl Fn(&[f64]) -> f64,
    ) -> Result<Estimate, StatsError> {
        let value = checked(other, &statistic)? - checked(base, &statistic)?;
        let others = Self { seed: self.seed.wrapping_add(1), ..*self }.replicates(other, &statistic)?;
        let differences =
            self.replicates(base, &statistic)?.iter().zip(others).map(|(base, other)| other - base).collect();
        let interval = percentile_interval(differences, self.level)?;
        Ok(Estimate { value, n: (base.len() + other.len()) as u64, interval })
    }

    /// Draws row numbers 0..`rows` with replacement, `resamples` times, for statistics of rows that
    /// belong together (calibration rows, pairs): call a fit on each draw, then
    /// [`percentile_interval`] on the results.
    ///
    /// # Errors
    /// If there are fewer than 2 rows or 100 resamples.
    pub fn rows(&self, rows: usize) -> Result<impl Iterator<Item = Vec<usize>> + use<>, StatsError> {
        crate::error::at_least("rows to resample", rows, 2)?;
        crate::error::at_least("resamples", self.resamples, 100)?;
        let mut random = stream(self.seed, 0);
        Ok((0..self.resamples).map(move |_| (0..rows).map(|_| below(&mut random, rows)).collect()))
    }

    /// The statistic of every resample, in the order drawn.
    ///
    /// # Errors
    /// As [`Bootstrap::percentile`].
    pub fn replicates(
        &self,
        values: &[f64],
        statistic: impl Fn(&[f64]) -> f64,
    ) -> Result<Vec<f64>, StatsError> {
        usable("values to resample", values, 2)?;
        crate::error::at_least("resamples", self.resamples, 100)?;
        let mut random = stream(self.seed, 0);
        let mut drawn = vec![0.0; values.len()];
        (0..self.resamples)
            .map(|_| {
                drawn.fill_with(|| values[below(&mut random, values.len())]);
                finite("statistic of a resample", statistic(&drawn))
            })
            .collect()
    }
}

/// The middle `level` of the replicates, by type 7 quantiles.
///
/// # Errors
/// If there is no replicate, one is not finite, or the level is not between 0 and 1.
pub fn percentile_interval(replicates: Vec<f64>, level: f64) -> Result<Interval, StatsError> {
    let tail = (1.0 - probability("level", level)?) / 2.0;
    let replicates = Ordered::new(replicates)?;
    Ok(Interval { low: replicates.quantile(tail)?, high: replicates.quantile(1.0 - tail)?, level })
}

fn checked(values: &[f64], statistic: impl Fn(&[f64]) -> f64) -> Result<f64, StatsError> {
    usable("values to resample", values, 2)?;
    finite("statistic", statistic(values))
}

/// z₀ = Φ⁻¹(share of replicates below the estimate, ties counting half).
fn bias_correction(value: f64, ascending: &[f64]) -> Result<f64, StatsError> {
    let below = ascending.partition_point(|&replicate| replicate < value);
    let not_above = ascending.partition_point(|&replicate| replicate <= value);
    if ascending.first() == ascending.last() {
        return Err(StatsError::Constant { what: "statistic over the resamples" });
    }
    let share = (below + not_above) as f64 / (2.0 * ascending.len() as f64);
    // An estimate outside all replicates has no finite z₀; half a replicate is the nearest that
    // has.
    let edge = 0.5 / ascending.len() as f64;
    normal_quantile(share.clamp(edge, 1.0 - edge))
}

/// a = Σ d³ / (6 (Σ d²)^{3/2}) with d = mean of the leave-one-out statistics − each of them.
fn acceleration(values: &[f64], statistic: impl Fn(&[f64]) -> f64) -> Result<f64, StatsError> {
    let mut left = values[1..].to_vec();
    let mut jackknife = Vec::with_capacity(values.len());
    for index in 0..values.len() {
        jackknife.push(finite("statistic without one value", statistic(&left))?);
        if index < left.len() {
            left[index] = values[index];
        }
    }
    let mean = jackknife.iter().sum::<f64>() / jackknife.len() as f64;
    let (squares, cubes) = jackknife.iter().fold((0.0, 0.0), |(squares, cubes), value| {
        let d = mean - value;
        (squares + d * d, cubes + d * d * d)
    });
    Ok(if squares == 0.0 { 0.0 } else { cubes / (6.0 * squares.powf(1.5)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn the_same_seed_gives_the_same_interval_and_another_another() {
        let values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];
        let one = Bootstrap::seeded(1).bca(&values, mean).unwrap();
        assert_eq!(one, Bootstrap::seeded(1).bca(&values, mean).unwrap());
        assert_ne!(one, Bootstrap::seeded(2).bca(&values, mean).unwrap());
        assert!(one.interval.contains(one.value));
    }

    #[test]
    fn bca_moves_the_interval_of_a_skewed_sample_to_the_long_side() {
        let values: Vec<f64> = (0..40).map(|i| (f64::from(i) / 8.0).exp()).collect();
        let plain = Bootstrap::seeded(3).percentile(&values, mean).unwrap().interval;
        let bca = Bootstrap::seeded(3).bca(&values, mean).unwrap().interval;
        assert!(bca.low > plain.low && bca.high > plain.high, "{plain} {bca}");
    }

    #[test]
    fn rows_stay_together() {
        let draws: Vec<Vec<usize>> = Bootstrap::seeded(5).rows(4).unwrap().collect();
        assert_eq!(draws.len(), 2000);
        assert!(draws.iter().all(|draw| draw.len() == 4 && draw.iter().all(|&row| row < 4)));
    }

    #[test]
    fn a_difference_of_medians_has_an_interval() {
        let base: Vec<f64> = (0..30).map(f64::from).collect();
        let other: Vec<f64> = (0..30).map(|i| f64::from(i) + 40.0).collect();
        let median = |values: &[f64]| Ordered::new(values.to_vec()).unwrap().quantile(0.5).unwrap();
        let difference = Bootstrap::seeded(5).difference(&base, &other, median).unwrap();
        assert_eq!((difference.value, difference.n), (40.0, 60));
        assert!(difference.differs_from_zero() && difference.interval.contains(40.0));
    }

    #[test]
    fn extreme_inputs_are_named() {
        let boot = Bootstrap::seeded(1);
        assert!(matches!(boot.percentile(&[], mean), Err(StatsError::TooFew { have: 0, need: 2, .. })));
        assert!(matches!(
            boot.percentile(&[1.0, f64::NAN], mean),
            Err(StatsError::NotFinite { index: 1, .. })
        ));
        assert!(matches!(boot.bca(&[2.0, 2.0, 2.0], mean), Err(StatsError::Constant { .. })));
        assert!(matches!(
            boot.percentile(&[1.0, 2.0], |_| f64::NAN),
            Err(StatsError::Overflow { what: "statistic" })
        ));
        let few = Bootstrap { resamples: 10, ..boot };
        assert!(matches!(
            few.percentile(&[1.0, 2.0], mean),
            Err(StatsError::TooFew { have: 10, need: 100, .. })
        ));
    }
}
