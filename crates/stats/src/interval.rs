//! What an estimate is: a value, the n it rests on, and an interval at a stated level.

use crate::error::{StatsError, finite, probability};
use crate::tails::{beta_quantile, chi_squared_quantile, normal_quantile, t_two_sided_quantile};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The level used where the user has not said otherwise: 95 %.
pub const USUAL_LEVEL: f64 = 0.95;

/// A range that covers the true value with probability `level`, over many repetitions of the whole
/// procedure (not: the true value lies in *this* range with that probability).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end, in the unit of the estimate.
    pub low: f64,
    /// Upper end, in the unit of the estimate; never below `low`.
    pub high: f64,
    /// Confidence level, above 0 and below 1.
    pub level: f64,
}

impl Interval {
    /// The interval centre ± t[1−α/2; ν] · standard error.
    ///
    /// # Errors
    /// If the level is not between 0 and 1, the degrees of freedom are not positive, or an end is
    /// not finite.
    pub fn student(centre: f64, standard_error: f64, degrees: f64, level: f64) -> Result<Self, StatsError> {
        let half = t_two_sided_quantile(level, degrees)? * standard_error;
        Self::around(centre, half, level)
    }

    /// The interval centre ± half, checked to be finite.
    pub(crate) fn around(centre: f64, half: f64, level: f64) -> Result<Self, StatsError> {
        let low = finite("interval", centre - half)?;
        let high = finite("interval", centre + half)?;
        Ok(Self { low, high, level })
    }

    /// Whether the value lies inside; the ends belong to it.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Half of its width.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// The interval of a monotone function of the estimated quantity: its ends are the function's
    /// values at the ends, in order.
    ///
    /// # Errors
    /// If the function is not finite at an end.
    pub fn map(&self, function: impl Fn(f64) -> f64) -> Result<Self, StatsError> {
        let one = finite("interval", function(self.low))?;
        let other = finite("interval", function(self.high))?;
        Ok(Self { low: one.min(other), high: one.max(other), level: self.level })
    }
}

impl fmt::Display for Interval {
    /// `[10.2, 11.9] at 95 %`; a precision applies to the ends: `{:.3}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        let percent = (self.level * 1e4).round() / 1e2;
        write!(f, "[{:.digits$}, {:.digits$}] at {percent} %", self.low, self.high)
    }
}

/// A number together with what it rests on. Nothing in this crate that is estimated comes without.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimated value, in the unit of the sample unless said otherwise.
    pub value: f64,
    /// How many observations it rests on.
    pub n: u64,
    /// Where the true value may lie.
    pub interval: Interval,
}

impl Estimate {
    /// An estimate whose error follows Student's t with the given standard error and degrees of
    /// freedom.
    ///
    /// # Errors
    /// As [`Interval::student`].
    pub fn student(
        value: f64,
        n: u64,
        standard_error: f64,
        degrees: f64,
        level: f64,
    ) -> Result<Self, StatsError> {
        let interval = Interval::student(finite("estimate", value)?, standard_error, degrees, level)?;
        Ok(Self { value, n, interval })
    }

    /// Whether the interval leaves zero out: the value differs from zero at this level.
    pub fn differs_from_zero(&self) -> bool {
        !self.interval.contains(0.0)
    }

    /// The estimate of a monotone function of the estimated quantity (another unit, a reciprocal).
    ///
    /// # Errors
    /// If the function is not finite at the value or at an end.
    pub fn map(&self, function: impl Fn(f64) -> f64) -> Result<Self, StatsError> {
        let value = finite("estimate", function(self.value))?;
        Ok(Self { value, n: self.n, interval: self.interval.map(function)? })
    }
}

impl fmt::Display for Estimate {
    /// `11.0 [10.2, 11.9] at 95 %, n = 12`; a precision applies to all three numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "{:.digits$} {:.digits$}, n = {}", self.value, self.interval, self.n)
    }
}

/// The share of `successes` among `n`, with Wilson's score interval.
///
/// ```text
/// (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n)
/// ```
///
/// Unlike p ± z √(p(1−p)/n) (Jain 1991, §13.8, good for np ≥ 10 only) it stays within 0..1, has a
/// width when p is 0 or 1, and covers about as often as it says for small n (Wilson 1927; Brown,
/// Cai and DasGupta 2001).
///
/// # Errors
/// If n is 0, successes exceed n, or the level is not between 0 and 1.
pub fn proportion(successes: u64, n: u64, level: f64) -> Result<Estimate, StatsError> {
    let p = checked_share(successes, n, level)?;
    let Interval { low, high, .. } = score_interval(p, n as f64, level)?;
    // At 0 and n the exact ends are 0 and 1; rounding must not leave the share outside its own
    // interval.
    let low = if successes == 0 { 0.0 } else { low };
    let high = if successes == n { 1.0 } else { high };
    Ok(Estimate { value: p, n, interval: Interval { low, high, level } })
}

/// Wilson's score interval of a share `p` that was found in `n` trials, as [`proportion`] has it,
/// where `n` need not be whole: with weights it is the number of trials without weights that would
/// have the same standard error, p(1−p)/se² (Kish 1965).
///
/// # Errors
/// If p or the level is not between 0 and 1, or n is not above 0.
pub fn score_interval(p: f64, n: f64, level: f64) -> Result<Interval, StatsError> {
    if !(0.0..=1.0).contains(&p) {
        return Err(StatsError::OutOfRange { what: "share", value: p, range: "from 0 to 1" });
    }
    if n.is_nan() || n <= 0.0 {
        return Err(StatsError::OutOfRange { what: "number of trials", value: n, range: "above 0" });
    }
    probability("level", level)?;
    let z = normal_quantile(0.5 + level / 2.0)?;
    let shrink = 1.0 + z * z / n;
    let centre = (p + z * z / (2.0 * n)) / shrink;
    let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt() / shrink;
    Ok(Interval { low: (centre - half).max(0.0), high: (centre + half).min(1.0), level })
}

/// The share of `successes` among `n`, with the exact interval of Clopper and Pearson (1934):
/// covers at least as often as `level` says, usually more often. For rare failures, where erring
/// must be on the safe side.
///
/// ```text
/// low = Beta⁻¹(α/2; s, n−s+1)    high = Beta⁻¹(1−α/2; s+1, n−s)
/// ```
///
/// Above n = 10,000 the beta quantile is taken from χ² if at most a tenth are successes or at most
/// a tenth are not (Bol'shev 1963; right to 1e-4 of the smaller share's ends), and otherwise from
/// Wilson's score with continuity correction (Newcombe 1998; right to 0.1 % of the width).
///
/// # Errors
/// As [`proportion`].
pub fn proportion_exact(successes: u64, n: u64, level: f64) -> Result<Estimate, StatsError> {
    let p = checked_share(successes, n, level)?;
    let tail = (1.0 - level) / 2.0;
    let (s, misses) = (successes as f64, (n - successes) as f64);
    let (low, high) = if n <= 10_000 {
        let low = if successes == 0 { 0.0 } else { beta_quantile(tail, s, misses + 1.0)? };
        let high = if successes == n { 1.0 } else { beta_quantile(1.0 - tail, s + 1.0, misses)? };
        (low, high)
    } else if p <= 0.1 {
        rare_ends(s, n as f64, tail)?
    } else if p >= 0.9 {
        let (low, high) = rare_ends(misses, n as f64, tail)?;
        (1.0 - high, 1.0 - low)
    } else {
        corrected_score_ends(p, n as f64, tail)?
    };
    Ok(Estimate { value: p, n, interval: Interval { low, high, level } })
}

/// The exact ends of a small share, from χ² instead of beta: 2x / (2n − s + 1 + x) and 2x / (2n −
/// s + x), x = χ²/2.
fn rare_ends(s: f64, n: f64, tail: f64) -> Result<(f64, f64), StatsError> {
    let high = chi_squared_quantile(1.0 - tail, 2.0 * s + 2.0)? / 2.0;
    let low = if s == 0.0 { 0.0 } else { chi_squared_quantile(tail, 2.0 * s)? / 2.0 };
    Ok((2.0 * low / (2.0 * n - s + 1.0 + low), 2.0 * high / (2.0 * n - s + high)))
}

/// Wilson's score ends for a share moved by half a success outwards.
fn corrected_score_ends(p: f64, n: f64, tail: f64) -> Result<(f64, f64), StatsError> {
    let z = normal_quantile(1.0 - tail)?;
    let (squared, q) = (z * z, 1.0 - p);
    let low = 2.0 * n * p + squared - 1.0 - z * (squared - 2.0 - 1.0 / n + 4.0 * p * (n * q + 1.0)).sqrt();
    let high = 2.0 * n * p + squared + 1.0 + z * (squared + 2.0 - 1.0 / n + 4.0 * p * (n * q - 1.0)).sqrt();
    Ok((low / (2.0 * (n + squared)), high / (2.0 * (n + squared))))
}

fn checked_share(successes: u64, n: u64, level: f64) -> Result<f64, StatsError> {
    probability("level", level)?;
    if n == 0 {
        return Err(StatsError::TooFew { what: "trials of a proportion", have: 0, need: 1 });
    }
    if successes > n {
        return Err(StatsError::OutOfRange {
            what: "number of successes",
            value: successes as f64,
            range: "at most the number of trials",
        });
    }
    Ok(successes as f64 / n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_failure_in_ten_trials_does_not_prove_that_none_can_happen() {
        let estimate = proportion(0, 10, 0.95).unwrap();
        assert_eq!(estimate.value, 0.0);
        assert_eq!(estimate.interval.low, 0.0);
        assert!(estimate.interval.high > 0.25, "{estimate}");
    }

    #[test]
    fn the_exact_interval_is_the_wider_one() {
        for successes in 0..=20 {
            let exact = proportion_exact(successes, 20, 0.9).unwrap().interval;
            let wilson = proportion(successes, 20, 0.9).unwrap().interval;
            assert!(exact.half_width() > wilson.half_width(), "{successes}: {exact} {wilson}");
        }
    }

    /// Against SciPy's beta.ppf.
    #[test]
    fn seventeen_failures_in_ten_million_have_an_exact_interval() {
        let close = |ours: f64, theirs: f64, relative: f64| {
            assert!((ours / theirs - 1.0).abs() < relative, "{ours} {theirs}");
        };
        let failed = proportion_exact(17, 10_000_000, 0.95).unwrap().interval;
        close(failed.low, 9.903_129_488_514_725e-7, 1e-9);
        close(failed.high, 2.721_863_290_986_131e-6, 1e-9);
        let succeeded = proportion_exact(9_999_983, 10_000_000, 0.95).unwrap().interval;
        close(1.0 - succeeded.high, failed.low, 1e-8);
        let middling = proportion_exact(40_000, 100_000, 0.9).unwrap().interval;
        close(middling.low, 0.397_448_969_187_031_65, 1e-5);
        close(middling.high, 0.402_555_315_434_777_13, 1e-5);
    }

    #[test]
    fn impossible_counts_are_named() {
        assert!(matches!(
            proportion(3, 2, 0.95),
            Err(StatsError::OutOfRange { what: "number of successes", .. })
        ));
        assert!(matches!(proportion(0, 0, 0.95), Err(StatsError::TooFew { have: 0, .. })));
        assert!(matches!(proportion(1, 2, 1.0), Err(StatsError::OutOfRange { what: "level", .. })));
    }

    #[test]
    fn an_estimate_prints_n_and_its_interval() {
        let estimate =
            Estimate { value: 11.0, n: 12, interval: Interval { low: 10.25, high: 11.75, level: 0.95 } };
        assert_eq!(estimate.to_string(), "11.00 [10.25, 11.75] at 95 %, n = 12");
        assert_eq!(format!("{estimate:.1}"), "11.0 [10.2, 11.8] at 95 %, n = 12");
    }

    #[test]
    fn a_falling_function_turns_the_interval_round() {
        let time = Estimate { value: 0.5, n: 3, interval: Interval { low: 0.25, high: 1.0, level: 0.9 } };
        let rate = time.map(|seconds| 1.0 / seconds).unwrap();
        assert_eq!((rate.interval.low, rate.value, rate.interval.high), (1.0, 2.0, 4.0));
    }
}
