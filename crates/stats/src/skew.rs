//! The mean of values whose law is skew.
//!
//! Where the spread is large just when the mean is, as with waiting times and rare events, mean ± t
//! · error is too short on one side: a sample that happens to be low has too small an error as
//! well. Willink's interval (2005, *A confidence interval and test for the mean of an asymmetric
//! distribution*) reaches further on the side of the long tail. It is that of Hall (1992, *On the
//! removal of skewness by transformation*) with the t quantile.

use crate::error::{StatsError, at_least, finite};
use crate::summary::Summary;
use serde::{Deserialize, Serialize};

/// How the law of a sample's values differs from the normal one, for which both are 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleShape {
    /// How many values; at least 4.
    pub n: u64,
    /// Third cumulant / sd³: above 0 where the long tail is on the right.
    pub skewness: f64,
    /// Fourth cumulant / sd⁴: above 0 where the tails are heavy.
    pub excess_kurtosis: f64,
}

impl SampleShape {
    /// The shape from the unbiased estimates of the cumulants (Fisher 1930).
    ///
    /// # Errors
    /// If there are fewer than four values, one is NaN or infinite, or all are alike.
    pub fn of(values: &[f64]) -> Result<Self, StatsError> {
        at_least("values for a skewness", values.len(), 4)?;
        let summary = Summary::of(values)?;
        let sd = summary.sd()?;
        if sd == 0.0 {
            return Err(StatsError::Constant { what: "sample" });
        }
        let n = values.len() as f64;
        let power =
            |power: i32| values.iter().map(|value| ((value - summary.mean) / sd).powi(power)).sum::<f64>();
        let skewness = n / ((n - 1.0) * (n - 2.0)) * power(3);
        let excess_kurtosis = n * (n + 1.0) / ((n - 1.0) * (n - 2.0) * (n - 3.0)) * power(4)
            - 3.0 * (n - 1.0).powi(2) / ((n - 2.0) * (n - 3.0));
        Ok(Self {
            n: summary.n,
            skewness: finite("skewness", skewness)?,
            excess_kurtosis: finite("kurtosis", excess_kurtosis)?,
        })
    }

    /// Skewness of the mean of independent values.
    pub fn of_mean(&self) -> f64 {
        self.skewness / (self.n as f64).sqrt()
    }

    /// The degrees of freedom for which Student's t has the true spread of a standard error from
    /// `parts` values (these, or means of neighbours among them): heavy tails leave fewer than
    /// `parts` − 1.
    ///
    /// ```text
    /// variance of s² / σ⁴ = 2 / (parts − 1) + κ / n = 2 / degrees       κ: excess kurtosis, 0 at least
    /// ```
    pub fn degrees(&self, parts: usize) -> f64 {
        2.0 / (2.0 / (parts as f64 - 1.0) + self.excess_kurtosis.max(0.0) / self.n as f64)
    }
}

/// How far the interval of a mean reaches down and up, in standard errors, where t would on both
/// sides were it not skew (Willink 2005).
///
/// ```text
/// a = skewness of the mean / 6
/// G(r) = (∛(1 + 6a (r − a)) − 1) / 2a       down = G(t), up = −G(−t)
/// ```
pub fn reaches(skewness_of_mean: f64, t: f64) -> (f64, f64) {
    let a = skewness_of_mean / 6.0;
    // Both ends are within a (1 + 2t²) of t, and the difference of the roots would lose its digits.
    if a.abs() < 1e-9 {
        return (t, t);
    }
    let transformed = |r: f64| ((1.0 + 6.0 * a * (r - a)).cbrt() - 1.0) / (2.0 * a);
    (transformed(t), -transformed(-t))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computed apart, with fractions.
    #[test]
    fn the_shape_of_a_few_values() {
        let shape = SampleShape::of(&[1.0, 2.0, 2.0, 3.0, 4.0, 9.0, 15.0]).unwrap();
        assert!((shape.skewness - 1.549_285_900_990_168).abs() < 1e-12, "{shape:?}");
        assert!((shape.excess_kurtosis - 1.727_901_308_533_380_5).abs() < 1e-12, "{shape:?}");
        assert!((shape.degrees(7) - 3.447_227_563_676_304).abs() < 1e-12, "{}", shape.degrees(7));
    }

    /// Computed with 50 digits from the formula.
    #[test]
    fn a_long_right_tail_reaches_further_up() {
        let (down, up) = reaches(0.3, 2.0);
        assert!(
            (down - 1.659_405_913_044_142_3).abs() < 1e-12 && (up - 2.725_213_651_208_543_5).abs() < 1e-12,
            "{down} {up}"
        );
    }

    #[test]
    fn without_skewness_the_interval_is_students() {
        let shape = SampleShape::of(&[-2.0, -1.0, 0.0, 1.0, 2.0]).unwrap();
        assert_eq!(reaches(shape.of_mean(), 2.5), (2.5, 2.5));
        assert_eq!(shape.degrees(5), 4.0, "light tails do not add any: {shape:?}");
    }

    #[test]
    fn too_few_and_constant_values_are_named() {
        assert!(matches!(
            SampleShape::of(&[1.0, 2.0, 4.0]),
            Err(StatsError::TooFew { have: 3, need: 4, .. })
        ));
        assert_eq!(SampleShape::of(&[2.0; 9]), Err(StatsError::Constant { what: "sample" }));
        assert!(matches!(
            SampleShape::of(&[1.0, f64::NAN, 2.0, 3.0]),
            Err(StatsError::NotFinite { index: 1, .. })
        ));
    }

    proptest! {
        /// Hall's cubic g(T) = T + a + 2aT² + 4/3 a²T³ gives r back.
        #[test]
        fn the_ends_are_where_halls_transform_of_the_mean_is_t(skewness in -3.0..3.0f64, t in 0.0..20.0f64) {
            let a = skewness / 6.0;
            let (down, up) = reaches(skewness, t);
            for (end, r) in [(down, t), (-up, -t)] {
                let back = end + a + 2.0 * a * end.powi(2) + 4.0 / 3.0 * a.powi(2) * end.powi(3);
                prop_assume!(a.abs() > 1e-4);
                prop_assert!((back - r).abs() < 1e-6 * (1.0 + r.abs()), "{back} {r}");
            }
        }

        #[test]
        fn a_larger_t_reaches_further_on_both_sides(skewness in -3.0..3.0f64, t in 0.0..20.0f64, more in 1e-3..5.0f64) {
            let (down, up) = reaches(skewness, t);
            let (further_down, further_up) = reaches(skewness, t + more);
            prop_assert!(further_down > down && further_up > up);
        }

        #[test]
        fn the_other_tail_turns_it_round(skewness in -3.0..3.0f64, t in 0.0..20.0f64) {
            let (down, up) = reaches(skewness, t);
            let (other_down, other_up) = reaches(-skewness, t);
            prop_assert!((down - other_up).abs() < 1e-9 && (up - other_down).abs() < 1e-9);
        }

        #[test]
        fn a_change_of_unit_leaves_the_shape(values in proptest::collection::vec(-1e3..1e3f64, 4..40), scale in 1e-3..1e3f64) {
            let scaled: Vec<f64> = values.iter().map(|value| value * scale).collect();
            let (Ok(shape), Ok(other)) = (SampleShape::of(&values), SampleShape::of(&scaled)) else { return Ok(()) };
            prop_assert!((shape.skewness - other.skewness).abs() < 1e-6);
            prop_assert!((shape.excess_kurtosis - other.excess_kurtosis).abs() < 1e-6);
        }
    }
}
