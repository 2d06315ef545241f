//! Which of two alternatives is better, or whether the data cannot say.

use crate::error::{StatsError, all_finite};
use crate::interval::Estimate;
use crate::summary::Summary;
use crate::tails::t_two_sided;
use serde::{Deserialize, Serialize};

/// What a comparison allows to be said, at the level of its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// The other's mean is above the base's.
    Higher,
    /// The other's mean is below the base's.
    Lower,
    /// Zero lies in the interval of the difference: these data show no difference (which is not to
    /// say that there is none).
    NoConclusion,
}

/// The difference of two means.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanDifference {
    /// Mean of `other` − mean of `base`, with its interval; n counts pairs, or the values of both
    /// samples.
    pub difference: Estimate,
    /// Mean of the base, against which the difference may be put as a share.
    pub base: f64,
    /// Degrees of freedom of the t interval.
    pub degrees: f64,
    /// Probability of a difference at least this large, in either direction, if the means were
    /// equal.
    pub p_value: f64,
    /// What follows.
    pub verdict: Direction,
}

/// Compares two independent samples whose spreads may differ (Welch 1947; Jain 1991, §13.4.2).
///
/// ```text
/// s² = s_a²/n_a + s_b²/n_b       ν = s⁴ / ((s_a²/n_a)²/(n_a−1) + (s_b²/n_b)²/(n_b−1))
/// ```
///
/// Jain's ν divides by n + 1 and subtracts 2; the usual form, which R and SciPy use, is taken here.
///
/// # Errors
/// If a sample has fewer than two values or one that is not finite, both are constant, or the level
/// is not between 0 and 1.
pub fn welch(base: &[f64], other: &[f64], level: f64) -> Result<MeanDifference, StatsError> {
    welch_summaries(&Summary::of(base)?, &Summary::of(other)?, level)
}

/// As [`welch`], from summaries alone.
///
/// # Errors
/// As [`welch`].
pub fn welch_summaries(base: &Summary, other: &Summary, level: f64) -> Result<MeanDifference, StatsError> {
    let base_part = base.variance()? / base.n as f64;
    let other_part = other.variance()? / other.n as f64;
    let variance = base_part + other_part;
    if variance == 0.0 {
        return Err(StatsError::Constant { what: "both samples" });
    }
    // Shares of the variance instead of its square: nothing underflows for nanoseconds written in
    // seconds.
    let degrees = 1.0
        / ((base_part / variance).powi(2) / (base.n - 1) as f64
            + (other_part / variance).powi(2) / (other.n - 1) as f64);
    comparison(other.mean - base.mean, variance.sqrt(), base.n + other.n, base.mean, degrees, level)
}

/// Compares two samples whose values belong together in pairs: same seed, same trial order, same
/// hour (Jain 1991, §13.4.1). What both of a pair share cancels, so fewer repetitions show a
/// difference.
///
/// # Errors
/// If the lengths differ, there are fewer than two pairs, all pairs differ by the same, a value is
/// not finite, or the level is not between 0 and 1.
pub fn paired(base: &[f64], other: &[f64], level: f64) -> Result<MeanDifference, StatsError> {
    if base.len() != other.len() {
        return Err(StatsError::Unequal { what: "pairs", left: base.len(), right: other.len() });
    }
    all_finite("base", base)?;
    all_finite("other", other)?;
    let differences: Vec<f64> = base.iter().zip(other).map(|(base, other)| other - base).collect();
    let summary = Summary::of(&differences)?;
    let standard_error = summary.standard_error()?;
    if standard_error == 0.0 {
        return Err(StatsError::Constant { what: "differences of the pairs" });
    }
    let degrees = (summary.n - 1) as f64;
    comparison(summary.mean, standard_error, summary.n, Summary::of(base)?.mean, degrees, level)
}

fn comparison(
    difference: f64,
    standard_error: f64,
    n: u64,
    base: f64,
    degrees: f64,
    level: f64,
) -> Result<MeanDifference, StatsError> {
    let difference = Estimate::student(difference, n, standard_error, degrees, level)?;
    let p_value = t_two_sided(difference.value / standard_error, degrees)?;
    let verdict = match difference {
        d if d.interval.low > 0.0 => Direction::Higher,
        d if d.interval.high < 0.0 => Direction::Lower,
        _ => Direction::NoConclusion,
    };
    Ok(MeanDifference { difference, base, degrees, p_value, verdict })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Jain 1991, example 13.6: six workloads on two systems, paired.
    #[test]
    fn six_paired_workloads_do_not_tell_the_two_systems_apart() {
        let a = [5.4, 16.6, 0.6, 1.4, 0.6, 7.3];
        let b = [19.1, 3.5, 3.4, 2.5, 3.6, 1.7];
        let result = paired(&b, &a, 0.90).unwrap();
        assert!((result.difference.value - -0.32).abs() < 0.005);
        // Printed as (-7.75, 7.11), from a standard error and a quantile rounded before they were
        // multiplied.
        let interval = result.difference.interval;
        assert!((interval.low - -7.75).abs() < 0.01 && (interval.high - 7.11).abs() < 0.01, "{interval}");
        assert_eq!(result.verdict, Direction::NoConclusion);
    }

    #[test]
    fn what_pairs_share_cancels() {
        let base = [10.0, 20.0, 30.0, 40.0];
        let other = [11.0, 21.1, 30.9, 41.0];
        assert_eq!(paired(&base, &other, 0.95).unwrap().verdict, Direction::Higher);
        assert_eq!(welch(&base, &other, 0.95).unwrap().verdict, Direction::NoConclusion);
    }

    #[test]
    fn constant_samples_are_refused_by_name() {
        assert_eq!(welch(&[1.0, 1.0], &[2.0, 2.0], 0.95), Err(StatsError::Constant { what: "both samples" }));
        assert!(matches!(paired(&[1.0, 2.0], &[2.0, 3.0], 0.95), Err(StatsError::Constant { .. })));
        assert!(matches!(
            paired(&[1.0], &[2.0, 3.0], 0.95),
            Err(StatsError::Unequal { left: 1, right: 2, .. })
        ));
        assert!(paired(&[1.0, f64::NAN], &[2.0, 3.0], 0.95).is_err());
    }

    proptest! {
        #[test]
        fn the_verdict_and_the_p_value_agree(
            base in proptest::collection::vec(0.0..10.0f64, 2..20),
            other in proptest::collection::vec(0.0..12.0f64, 2..20),
        ) {
            let result = welch(&base, &other, 0.95).unwrap();
            prop_assert_eq!(result.verdict == Direction::NoConclusion, result.p_value > 0.05);
            let mirrored = welch(&other, &base, 0.95).unwrap();
            prop_assert!((mirrored.difference.value + result.difference.value).abs() < 1e-12);
        }
    }
}
