//! Whether a sample comes from a law: the largest distance between the two distribution functions.

use crate::error::{StatsError, usable};
use serde::{Deserialize, Serialize};

/// What a p-value rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PValueBasis {
    /// The law was fixed before the data were seen: the p-value means what it says.
    KnownParameters,
    /// The law was fitted to the same data, which brings it closer than chance would: the p-value
    /// is an upper bound. A small one rejects; a large one proves nothing.
    EstimatedParameters,
    /// The law was fitted, and so it was to each of this many samples drawn from it: the p-value
    /// means what it says.
    Resampled {
        /// Number of samples drawn.
        resamples: usize,
        /// Seed of the random stream.
        seed: u64,
    },
}

/// A Kolmogorov–Smirnov test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KsTest {
    /// Values in the sample.
    pub n: u64,
    /// D: the largest distance between the sample's distribution function and the law's, 0 to 1.
    pub statistic: f64,
    /// Probability of a distance at least this large if the law is right.
    pub p_value: f64,
    /// What the p-value rests on.
    pub basis: PValueBasis,
}

/// Tests a sample against a law that was fixed beforehand, given by its distribution function (Jain
/// 1991, §27.2).
///
/// # Errors
/// If there are no values, one is not finite, or the function leaves 0..1.
pub fn ks_test(values: &[f64], cdf: impl Fn(f64) -> f64) -> Result<KsTest, StatsError> {
    let statistic = distance(values, cdf)?;
    let n = values.len() as u64;
    Ok(KsTest { n, statistic, p_value: p_value(statistic, n as f64), basis: PValueBasis::KnownParameters })
}

/// Tests whether two samples come from one law, whatever it is. The n of the test is n_a n_b /
/// (n_a + n_b), rounded.
///
/// # Errors
/// If a sample is empty or has a value that is not finite.
pub fn ks_two_samples(left: &[f64], right: &[f64]) -> Result<KsTest, StatsError> {
    usable("values of the first sample", left, 1)?;
    usable("values of the second sample", right, 1)?;
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let (left, right) = (sorted(left), sorted(right));
    let below = |values: &[f64], limit: f64| {
        values.partition_point(|&value| value <= limit) as f64 / values.len() as f64
    };
    let statistic = left
        .iter()
        .chain(&right)
        .map(|&limit| (below(&left, limit) - below(&right, limit)).abs())
        .fold(0.0, f64::max);
    let n = left.len() as f64 * right.len() as f64 / (left.len() + right.len()) as f64;
    Ok(KsTest {
        n: n.round() as u64,
        statistic,
        p_value: p_value(statistic, n),
        basis: PValueBasis::KnownParameters,
    })
}

/// D = max over i of (i/n − F(x_i), F(x_i) − (i−1)/n), x ascending.
pub(crate) fn distance(values: &[f64], cdf: impl Fn(f64) -> f64) -> Result<f64, StatsError> {
    usable("values", values, 1)?;
    let mut ascending = values.to_vec();
    ascending.sort_unstable_by(f64::total_cmp);
    let n = ascending.len() as f64;
    let mut largest = 0.0f64;
    for (index, &value) in ascending.iter().enumerate() {
        let share = cdf(value);
        if !(0.0..=1.0).contains(&share) {
            return Err(StatsError::OutOfRange {
                what: "distribution function",
                value: share,
                range: "between 0 and 1",
            });
        }
        largest = largest.max((index + 1) as f64 / n - share).max(share - index as f64 / n);
    }
    Ok(largest)
}

/// Kolmogorov's limit law at D (√n + 0.12 + 0.11/√n), Stephens' correction (1970): within 0.02 of
/// the exact probability from n = 5 on, closer where it is small.
pub(crate) fn p_value(statistic: f64, n: f64) -> f64 {
    let root = n.sqrt();
    let x = statistic * (root + 0.12 + 0.11 / root);
    // Two series of the same function: each is used where a few terms suffice.
    if x < 1.18 {
        let y = std::f64::consts::PI.powi(2) / (8.0 * x * x);
        let sum: f64 = (0..4).map(|k| (-f64::from(2 * k + 1).powi(2) * y).exp()).sum();
        (1.0 - (2.0 * std::f64::consts::PI).sqrt() / x.max(f64::MIN_POSITIVE) * sum).clamp(0.0, 1.0)
    } else {
        let term = |k: i32| f64::from(1 - 2 * (k % 2)) * (-2.0 * f64::from((k + 1) * (k + 1)) * x * x).exp();
        (2.0 * (0..5).map(term).sum::<f64>()).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_series_meet() {
        let n: f64 = 1e12;
        let (below, above) = (1.179_999 / n.sqrt(), 1.180_001 / n.sqrt());
        assert!((p_value(below, n) - p_value(above, n)).abs() < 1e-5);
        assert!((p_value(1.358_1 / n.sqrt(), n) - 0.05).abs() < 1e-4, "the table's 5 % point");
        assert_eq!(p_value(0.0, 10.0), 1.0);
        assert!(p_value(1.0, 1e6) < 1e-300);
    }

    #[test]
    fn evenly_spread_values_are_as_close_as_can_be_to_the_uniform_law() {
        let values: Vec<f64> = (0..50).map(|i| (f64::from(i) + 0.5) / 50.0).collect();
        let test = ks_test(&values, |x| x.clamp(0.0, 1.0)).unwrap();
        assert!((test.statistic - 0.01).abs() < 1e-12 && test.p_value > 0.999);
        assert!(ks_test(&values, |x| x.powi(3)).unwrap().p_value < 0.001);
    }

    #[test]
    fn two_samples_are_distinguished_by_a_shift() {
        let one: Vec<f64> = (0..60).map(f64::from).collect();
        let shifted: Vec<f64> = (0..60).map(|i| f64::from(i) + 30.5).collect();
        assert!(ks_two_samples(&one, &shifted).unwrap().p_value < 1e-4);
        assert_eq!(ks_two_samples(&one, &one).unwrap().p_value, 1.0);
        assert!(ks_two_samples(&one, &[]).is_err());
    }

    #[test]
    fn a_function_that_is_no_distribution_is_refused() {
        assert!(matches!(
            ks_test(&[1.0], |_| 2.0),
            Err(StatsError::OutOfRange { what: "distribution function", .. })
        ));
        assert!(ks_test(&[1.0], |_| f64::NAN).is_err());
        assert!(ks_test(&[f64::NAN], |_| 0.5).is_err());
    }
}
