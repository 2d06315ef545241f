//! Quantiles of a sample, and which order statistics enclose the true ones.

use crate::error::{StatsError, all_finite, at_least, probability};
use crate::interval::{Estimate, Interval};
use crate::tails::normal_quantile;
use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal};

/// A sample in ascending order.
#[derive(Clone, Debug, PartialEq)]
pub struct Ordered {
    // Ascending, finite, at least one value.
    values: Vec<f64>,
}

impl Ordered {
    /// Sorts the sample.
    ///
    /// # Errors
    /// If it is empty or a value is not finite.
    pub fn new(mut values: Vec<f64>) -> Result<Self, StatsError> {
        at_least("values", values.len(), 1)?;
        all_finite("sample", &values)?;
        values.sort_unstable_by(f64::total_cmp);
        Ok(Self { values })
    }

    /// The values, smallest first.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The `p` quantile, 0 ≤ p ≤ 1, by linear interpolation between order statistics: the value at
    /// place 1 + (n−1)p (type 7 of Hyndman and Fan 1996; the default of R and NumPy). Descriptive:
    /// about this sample alone.
    ///
    /// # Errors
    /// If `p` is not between 0 and 1.
    pub fn quantile(&self, p: f64) -> Result<f64, StatsError> {
        if !(0.0..=1.0).contains(&p) {
            return Err(StatsError::OutOfRange { what: "quantile", value: p, range: "between 0 and 1" });
        }
        let place = p * (self.values.len() - 1) as f64;
        let below = place.floor() as usize;
        let share = place - below as f64;
        let low = self.values[below];
        let high = self.values[(below + 1).min(self.values.len() - 1)];
        // Two products, not low + share·(high − low): the difference of the extremes may overflow.
        Ok(if share == 0.0 { low } else { low * (1.0 - share) + high * share })
    }

    /// The `p` quantile with an interval that holds for any continuous law: two order statistics
    /// between which the true quantile lies with probability at least `level` ([`quantile_ranks`]).
    /// For values independent of each other.
    ///
    /// # Errors
    /// If `p` or `level` is not strictly between 0 and 1, or n is too small to enclose this
    /// quantile (the error says which n is needed).
    pub fn estimate(&self, p: f64, level: f64) -> Result<Estimate, StatsError> {
        let n = self.values.len() as u64;
        let ranks = quantile_ranks(n, p, level)?;
        let (low, high) = (self.values[ranks.low as usize - 1], self.values[ranks.high as usize - 1]);
        Ok(Estimate { value: self.quantile(p)?, n, interval: Interval { low, high, level } })
    }
}

/// The places (counted from 1) of the order statistics that enclose a quantile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranks {
    /// Rank of the lower end, at least 1.
    pub low: u64,
    /// Rank of the upper end, at most n.
    pub high: u64,
    /// The probability with which the two enclose the true quantile: at least the level asked for.
    pub coverage: f64,
}

/// Ranks l < u such that the `p` quantile lies between the l-th and u-th smallest of `n` values
/// with probability at least `level`, each tail at most half of the rest. Works from n alone, so
/// that histograms can use it.
///
/// The number B of values below the true quantile is Binomial(n, p), and the l-th is below it
/// exactly when B ≥ l. So: l the largest with P(B < l) ≤ α/2, u the smallest with P(B < u) ≥ 1 −
/// α/2 (Conover 1999, §3.2; Le Boudec 2010, theorem 2.1).
///
/// # Errors
/// If `p` or `level` is not strictly between 0 and 1, or n is too small: the 99th percentile at 95
/// % needs 368 values.
pub fn quantile_ranks(n: u64, p: f64, level: f64) -> Result<Ranks, StatsError> {
    probability("quantile", p)?;
    probability("level", level)?;
    let tail = (1.0 - level) / 2.0;
    let too_few = || StatsError::TooFew {
        what: "values for an interval of this quantile",
        have: n,
        // Both (1−p)^n (all above) and p^n (all below) must be within a tail.
        need: (tail.ln() / p.max(1.0 - p).ln()).ceil().max(2.0) as u64,
    };
    if n < 2 {
        return Err(too_few());
    }
    if n as f64 * p * (1.0 - p) > 25_000.0 {
        return large_ranks(n, p, tail);
    }
    let law = Binomial::new(p, n).map_err(|_| StatsError::OutOfRange {
        what: "quantile",
        value: p,
        range: "above 0 and below 1",
    })?;
    let below = |rank: u64| if rank == 0 { 0.0 } else { law.cdf(rank - 1) };
    // `below` grows with the rank, so the first rank beyond each limit is found by halving.
    let low = first_rank(n.saturating_add(1), |rank| below(rank) > tail) - 1;
    let high = first_rank(n.saturating_add(1), |rank| law.sf(rank - 1) <= tail);
    if low == 0 || high > n {
        return Err(too_few());
    }
    Ok(Ranks { low, high, coverage: below(high) - below(low) })
}

/// The ranks for large n, from the normal law with its correction for skew (Cornish and Fisher),
/// one rank further out on either side than it says: so that the interval is never too narrow.
/// `statrs`' binomial series is cut too early here.
fn large_ranks(n: u64, p: f64, tail: f64) -> Result<Ranks, StatsError> {
    let z = normal_quantile(1.0 - tail)?;
    let spread = (n as f64 * p * (1.0 - p)).sqrt();
    let skew = (1.0 - 2.0 * p) * (z * z - 1.0) / 6.0;
    let low = ((n as f64 * p - z * spread + skew - 0.5).ceil() - 1.0).max(1.0);
    let high = ((n as f64 * p + z * spread + skew + 0.5).ceil() + 1.0).min(n as f64);
    let below = |rank: f64| Normal::standard().cdf((rank - 0.5 - n as f64 * p - skew) / spread);
    Ok(Ranks { low: low as u64, high: high as u64, coverage: below(high) - below(low) })
}

/// The first of 1..=`end` for which the condition holds; it must hold from there on. `end` if none
/// before does.
fn first_rank(end: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut from, mut to) = (1, end);
    while from < to {
        let middle = from + (to - from) / 2;
        if holds(middle) {
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_quantile_between_two_values_is_interpolated() {
        let sample = Ordered::new(vec![4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(sample.quantile(0.0), Ok(1.0));
        assert_eq!(sample.quantile(0.5), Ok(2.5));
        assert_eq!(sample.quantile(0.9), Ok(3.0 * (1.0 - 0.7000000000000002) + 4.0 * 0.7000000000000002));
        assert_eq!(sample.quantile(1.0), Ok(4.0));
        assert!(sample.quantile(1.1).is_err());
        assert!(sample.quantile(f64::NAN).is_err());
    }

    #[test]
    fn the_99th_percentile_cannot_be_enclosed_by_367_values_but_by_368() {
        let error = quantile_ranks(367, 0.99, 0.95).unwrap_err();
        assert!(matches!(error, StatsError::TooFew { have: 367, need: 368, .. }), "{error}");
        let ranks = quantile_ranks(368, 0.99, 0.95).unwrap();
        assert_eq!(ranks.high, 368);
    }

    /// Le Boudec 2010, appendix A: for n = 10 the median at 95 % lies between the 2nd and 9th value
    /// (coverage 0.979).
    #[test]
    fn the_median_of_ten_lies_between_the_second_and_the_ninth() {
        let ranks = quantile_ranks(10, 0.5, 0.95).unwrap();
        assert_eq!((ranks.low, ranks.high), (2, 9));
        assert!((ranks.coverage - 0.978_515_625).abs() < 1e-12);
    }

    /// The ranks of SciPy's binom.ppf, or at most 3 further out.
    #[test]
    fn a_billion_values_are_no_harder_than_ten() {
        for (n, p, level, low, high) in [
            (1_000_000, 0.5, 0.5, 499_663, 500_338),
            (1_000_000, 0.5, 0.95, 499_020, 500_981),
            (10_000_000, 0.99, 0.95, 9_899_383, 9_900_617),
            (1_000_000_000, 0.999, 0.95, 998_998_041, 999_001_960),
            (1_000_000_000, 0.99999, 0.95, 999_989_804, 999_990_197),
        ] {
            let ranks = quantile_ranks(n, p, level).unwrap();
            assert!(ranks.low <= low && ranks.low + 3 >= low, "{n} {p}: {ranks:?}");
            assert!(ranks.high >= high && ranks.high <= high + 3, "{n} {p}: {ranks:?}");
            assert!(ranks.coverage >= level && ranks.coverage < level + 0.01, "{n} {p}: {ranks:?}");
        }
    }

    #[test]
    fn the_extremes_of_the_range_do_not_overflow() {
        let sample = Ordered::new(vec![-f64::MAX, f64::MAX]).unwrap();
        assert_eq!(sample.quantile(0.5), Ok(0.0));
        assert!(Ordered::new(vec![]).is_err());
        assert!(Ordered::new(vec![0.0, f64::NAN]).is_err());
    }

    proptest! {
        #[test]
        fn quantiles_rise_with_p_and_stay_within_the_sample(
            values in proptest::collection::vec(-1e9..1e9f64, 1..60), p in 0.0..=1.0f64, q in 0.0..=1.0f64,
        ) {
            let sample = Ordered::new(values).unwrap();
            let (p, q) = (p.min(q), p.max(q));
            prop_assert!(sample.quantile(p).unwrap() <= sample.quantile(q).unwrap() + 1e-6);
            prop_assert!(sample.values()[0] <= sample.quantile(p).unwrap());
        }

        #[test]
        fn the_ranks_cover_as_asked_and_no_shorter_tail_would(n in 2u64..3000, p in 0.01..0.99f64, level in 0.5..0.99f64) {
            if let Ok(ranks) = quantile_ranks(n, p, level) {
                let law = Binomial::new(p, n).unwrap();
                let tail = (1.0 - level) / 2.0;
                prop_assert!(ranks.coverage >= level - 1e-9);
                prop_assert!(law.cdf(ranks.low) > tail);
                prop_assert!(ranks.high < 2 || law.sf(ranks.high - 2) > tail);
            }
        }
    }
}
