//! A sample in six numbers that can be merged: n, mean, spread, extremes.

use crate::error::{StatsError, finite};
use crate::interval::{Estimate, Interval};
use crate::tails::chi_squared_quantile;
use serde::{Deserialize, Serialize};

/// The summary of one or more finite values.
///
/// Values are added one at a time by Welford's method (1962), which keeps the sum of squared
/// deviations itself: Σx² − n·mean² would lose all digits where the spread is small beside the
/// mean. Two summaries merge into the one of all their values (Chan, Golub and LeVeque 1979), so
/// threads and files can be summarised apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many values; at least 1.
    pub n: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sum of the squared deviations from the mean, Σ(x − mean)²; the variance before it is
    /// divided.
    pub squares: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

impl Summary {
    /// The summary of a single value.
    ///
    /// # Errors
    /// If the value is NaN or infinite.
    pub fn one(value: f64) -> Result<Self, StatsError> {
        if !value.is_finite() {
            return Err(StatsError::NotFinite { what: "sample", index: 0, value: value.to_string() });
        }
        Ok(Self { n: 1, mean: value, squares: 0.0, min: value, max: value })
    }

    /// The summary of all values.
    ///
    /// # Errors
    /// If there is none, or one is NaN or infinite (the error says which).
    pub fn of(values: &[f64]) -> Result<Self, StatsError> {
        let (&first, rest) =
            values.split_first().ok_or(StatsError::TooFew { what: "values", have: 0, need: 1 })?;
        let mut summary = Self::one(first)?;
        for &value in rest {
            summary.push(value)?;
        }
        Ok(summary)
    }

    /// Adds one value.
    ///
    /// # Errors
    /// If the value is NaN or infinite, or the mean leaves the range of `f64`; the summary is then
    /// unchanged.
    pub fn push(&mut self, value: f64) -> Result<(), StatsError> {
        if !value.is_finite() {
            let index = self.n as usize;
            return Err(StatsError::NotFinite { what: "sample", index, value: value.to_string() });
        }
        *self = self.merge(&Self { n: 1, mean: value, squares: 0.0, min: value, max: value })?;
        Ok(())
    }

    /// The summary of both samples together, the same (up to rounding) as if it had been taken at
    /// once.
    ///
    /// ```text
    /// mean    = mean_a + δ n_b/n              δ = mean_b − mean_a
    /// squares = squares_a + squares_b + δ² n_a n_b / n
    /// ```
    ///
    /// # Errors
    /// If the values are so far apart that the mean leaves the range of `f64`.
    pub fn merge(&self, other: &Self) -> Result<Self, StatsError> {
        let n = self.n + other.n;
        let (share, other_share) = (self.n as f64 / n as f64, other.n as f64 / n as f64);
        let delta = other.mean - self.mean;
        let mean = finite("mean", self.mean + delta * other_share)?;
        let squares = self.squares + other.squares + delta * (delta * share) * other.n as f64;
        Ok(Self {
            n,
            mean: mean.clamp(self.min.min(other.min), self.max.max(other.max)),
            squares,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        })
    }

    /// Sample variance Σ(x − mean)² / (n − 1), in the square of the values' unit.
    ///
    /// # Errors
    /// If there is only one value, or the squares leave the range of `f64`.
    pub fn variance(&self) -> Result<f64, StatsError> {
        if self.n < 2 {
            return Err(StatsError::TooFew { what: "values for a variance", have: self.n, need: 2 });
        }
        finite("variance", self.squares / (self.n - 1) as f64)
    }

    /// Sample standard deviation, in the values' unit.
    ///
    /// # Errors
    /// As [`Summary::variance`].
    pub fn sd(&self) -> Result<f64, StatsError> {
        Ok(self.variance()?.sqrt())
    }

    /// Coefficient of variation, sd / |mean|: 0 for a constant, 1 for an exponential law.
    ///
    /// # Errors
    /// As [`Summary::variance`], and if the mean is 0.
    pub fn cov(&self) -> Result<f64, StatsError> {
        if self.mean == 0.0 {
            return Err(StatsError::OutOfRange { what: "mean", value: 0.0, range: "other than 0" });
        }
        finite("coefficient of variation", self.sd()? / self.mean.abs())
    }

    /// Standard error of the mean, sd / √n, for values that do not depend on each other.
    ///
    /// # Errors
    /// As [`Summary::variance`].
    pub fn standard_error(&self) -> Result<f64, StatsError> {
        Ok(self.sd()? / (self.n as f64).sqrt())
    }

    /// The mean with its t interval, mean ± t[1−α/2; n−1] · sd/√n (Jain 1991, §13.2).
    ///
    /// Right for values that do not depend on each other, such as the means of repetitions.
    /// Successive response times of one run do: use [`crate::batch::batch_means`] for them.
    ///
    /// # Errors
    /// If there is only one value, or the level is not between 0 and 1.
    pub fn mean_estimate(&self, level: f64) -> Result<Estimate, StatsError> {
        Estimate::student(self.mean, self.n, self.standard_error()?, (self.n - 1) as f64, level)
    }

    /// The standard deviation with its chi-squared interval, for values from a normal law:
    /// √((n−1) s² / χ²[1−α/2; n−1]) to √((n−1) s² / χ²[α/2; n−1]).
    ///
    /// # Errors
    /// If there is only one value, all are alike, or the level is not between 0 and 1.
    pub fn sd_estimate(&self, level: f64) -> Result<Estimate, StatsError> {
        crate::error::probability("level", level)?;
        let value = self.sd()?;
        if value == 0.0 {
            return Err(StatsError::Constant { what: "sample" });
        }
        let degrees = (self.n - 1) as f64;
        let low = (self.squares / chi_squared_quantile(0.5 + level / 2.0, degrees)?).sqrt();
        let high = finite(
            "interval of the standard deviation",
            (self.squares / chi_squared_quantile(0.5 - level / 2.0, degrees)?).sqrt(),
        )?;
        Ok(Estimate { value, n: self.n, interval: Interval { low, high, level } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_small_spread_beside_a_large_mean_keeps_its_digits() {
        let values: Vec<f64> = (0..1000).map(|i| 1e9 + f64::from(i % 2)).collect();
        let variance = Summary::of(&values).unwrap().variance().unwrap();
        assert!((variance - 250.0 / 999.0).abs() < 1e-9, "{variance}");
    }

    #[test]
    fn one_value_has_a_mean_but_no_interval() {
        let one = Summary::of(&[7.0]).unwrap();
        assert_eq!(one.mean, 7.0);
        assert_eq!(
            one.mean_estimate(0.95),
            Err(StatsError::TooFew { what: "values for a variance", have: 1, need: 2 })
        );
    }

    #[test]
    fn a_value_that_is_no_number_is_refused_by_its_place_and_changes_nothing() {
        let mut summary = Summary::of(&[1.0, 2.0]).unwrap();
        let before = summary;
        let error = summary.push(f64::INFINITY).unwrap_err();
        assert_eq!(error, StatsError::NotFinite { what: "sample", index: 2, value: "inf".into() });
        assert_eq!(summary, before);
        assert!(Summary::of(&[1.0, f64::NAN]).is_err());
        assert!(Summary::of(&[]).is_err());
    }

    #[test]
    fn values_at_the_ends_of_the_range_give_an_error_and_not_infinity() {
        let far = Summary::of(&[1e200, -1e200]).unwrap();
        assert_eq!(far.mean, 0.0);
        assert_eq!(far.sd(), Err(StatsError::Overflow { what: "variance" }));
        assert!(Summary::of(&[f64::MAX, -f64::MAX]).is_err());
    }

    #[test]
    fn a_constant_sample_has_a_mean_of_zero_width_and_no_interval_of_its_spread() {
        let same = Summary::of(&[5.0; 4]).unwrap();
        let mean = same.mean_estimate(0.95).unwrap();
        assert_eq!((mean.interval.low, mean.interval.high), (5.0, 5.0));
        assert_eq!(same.sd_estimate(0.95), Err(StatsError::Constant { what: "sample" }));
    }

    proptest! {
        #[test]
        fn the_merge_of_two_parts_is_the_whole(values in proptest::collection::vec(-1e6..1e6f64, 2..80), cut in 1usize..79) {
            let cut = cut.min(values.len() - 1);
            let whole = Summary::of(&values).unwrap();
            let merged = Summary::of(&values[..cut]).unwrap().merge(&Summary::of(&values[cut..]).unwrap()).unwrap();
            prop_assert_eq!((merged.n, merged.min, merged.max), (whole.n, whole.min, whole.max));
            prop_assert!((merged.mean - whole.mean).abs() <= 1e-9 * (1.0 + whole.mean.abs()));
            prop_assert!((merged.squares - whole.squares).abs() <= 1e-9 * (1.0 + whole.squares));
        }

        #[test]
        fn the_mean_lies_between_the_extremes(values in proptest::collection::vec(-1e300..1e300f64, 1..40)) {
            let summary = Summary::of(&values).unwrap();
            prop_assert!(summary.min <= summary.mean && summary.mean <= summary.max);
        }

        #[test]
        fn a_change_of_unit_changes_the_spread_alike(values in proptest::collection::vec(-1e3..1e3f64, 2..40), scale in 1e-3..1e3f64) {
            let plain = Summary::of(&values).unwrap().sd().unwrap();
            let scaled: Vec<f64> = values.iter().map(|value| value * scale).collect();
            let scaled = Summary::of(&scaled).unwrap().sd().unwrap();
            prop_assert!((scaled - plain * scale).abs() <= 1e-9 * (1.0 + plain * scale));
        }
    }
}
