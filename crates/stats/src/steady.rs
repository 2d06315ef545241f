//! Where the steady state begins, and whether there is one.

use crate::error::{StatsError, finite, probability, usable};
use crate::interval::{Estimate, Interval};
use crate::quantile::Ordered;
use crate::summary::Summary;
use crate::tails::{normal_quantile, normal_two_sided};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Where the warm-up ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum WarmUp {
    /// Leave out the first `after` values; from there on the series is steady as far as its own
    /// spread can tell.
    Ends {
        /// How many values to leave out.
        after: usize,
        /// How many are kept.
        kept: usize,
        /// The statistic at its minimum: the squared standard error of the mean of what is kept.
        statistic: f64,
    },
    /// The best cut is at the middle of the series or beyond: it has not settled, make the run
    /// longer.
    NotOver {
        /// How many values were looked at.
        n: usize,
    },
}

/// Statistics of two cuts that differ by no greater share than this are equal: rounding must not
/// choose between them.
const EQUAL: f64 = 1e-9;

/// The marginal standard error rule, MSER (White 1997): cut where the mean of the rest is known
/// best.
///
/// ```text
/// minimize over d:   Σ_{i > d} (x_i − mean of the rest)² / (n − d)²
/// ```
///
/// Leaving out warm-up values lowers the spread faster than it lowers n; leaving out steady ones
/// does not. Of cuts that are equally good, the earliest keeps most. Only the first half is
/// searched: a minimum at its very end means that the series had not settled by then.
///
/// # Errors
/// If there are fewer than 10 values, one is not finite, or all are alike.
pub fn mser(values: &[f64]) -> Result<WarmUp, StatsError> {
    usable("values for a warm-up", values, 10)?;
    let n = values.len();
    if values.iter().all(|&value| value == values[0]) {
        return Err(StatsError::Constant { what: "series" });
    }
    let mut rest = Summary::one(values[n - 1])?;
    let mut statistics = vec![0.0; n / 2 + 1];
    // From the end, so that one pass suffices.
    for d in (0..n - 1).rev() {
        rest.push(values[d])?;
        if let Some(statistic) = statistics.get_mut(d) {
            *statistic = rest.squares / (rest.n as f64).powi(2);
        }
    }
    let least = statistics.iter().copied().fold(f64::INFINITY, f64::min);
    let equal = finite("standard error of the series", least)? * (1.0 + EQUAL);
    let after = statistics.iter().position(|&statistic| statistic <= equal).unwrap_or(n / 2);
    if after == n / 2 {
        return Ok(WarmUp::NotOver { n });
    }
    Ok(WarmUp::Ends { after, kept: n - after, statistic: statistics[after] })
}

/// MSER on means of five neighbours (MSER-5, White, Cobb and Spratt 2000): less easily led by
/// single values, and the usual choice. `after` counts single values, a multiple of 5. Values at
/// the end that fill no five are not looked at.
///
/// # Errors
/// If there are fewer than 50 values, one is not finite, or all means are alike.
pub fn mser5(values: &[f64]) -> Result<WarmUp, StatsError> {
    usable("values for a warm-up by fives", values, 50)?;
    let means: Vec<f64> =
        values.chunks_exact(5).map(|five| five.iter().map(|value| value / 5.0).sum()).collect();
    Ok(match mser(&means)? {
        WarmUp::Ends { after, statistic, .. } => {
            WarmUp::Ends { after: after * 5, kept: values.len() - after * 5, statistic }
        }
        WarmUp::NotOver { .. } => WarmUp::NotOver { n: values.len() },
    })
}

/// Which way a series drifts, at the level of its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Drift {
    /// Later values are larger.
    Rising,
    /// Later values are smaller.
    Falling,
    /// No drift is shown.
    NotShown,
}

/// Whether a series has a trend.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// Theil–Sen slope (the median of all slopes between two points) per value, with Sen's
    /// interval; n counts the values.
    pub slope: Estimate,
    /// Kendall's τ-b of value against time, −1 to 1.
    pub tau: f64,
    /// Probability of so much order by chance (Mann–Kendall, two-sided).
    pub p_value: f64,
    /// What follows at the level asked for.
    pub drift: Drift,
    /// How many neighbours were averaged into one point before the test (1 = none).
    pub grouped_by: usize,
}

/// More points than this are averaged first: the number of slopes grows with the square.
const MOST_POINTS: usize = 500;

/// Tests a series for a trend, up or down, in any form (Mann 1945; Kendall 1975; slope by Theil
/// 1950 and Sen 1968).
///
/// The test asks whether later values tend to be larger. It takes the values as independent: of a
/// correlated series it sees trends too often, so give it means of windows, not single response
/// times. Series longer than 500 are averaged in groups first.
///
/// # Errors
/// If there are fewer than 8 values, one is not finite, all are alike, or the level is not between
/// 0 and 1.
pub fn trend(values: &[f64], level: f64) -> Result<Trend, StatsError> {
    probability("level", level)?;
    usable("values for a trend", values, 8)?;
    let grouped_by = values.len().div_ceil(MOST_POINTS);
    let points: Vec<f64> = values
        .chunks_exact(grouped_by)
        .map(|group| group.iter().map(|value| value / grouped_by as f64).sum())
        .collect();
    let n = points.len();
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    let mut order = 0.0f64;
    for (i, earlier) in points.iter().enumerate() {
        for (j, later) in points.iter().enumerate().skip(i + 1) {
            slopes.push((later - earlier) / ((j - i) * grouped_by) as f64);
            order += match later.total_cmp(earlier) {
                Ordering::Greater => 1.0,
                Ordering::Equal => 0.0,
                Ordering::Less => -1.0,
            };
        }
    }
    let pairs = slopes.len() as f64;
    let ties = tie_sizes(&points);
    let tied_pairs: f64 = ties.iter().map(|t| t * (t - 1.0) / 2.0).sum();
    let by_size = |size: f64| size * (size - 1.0) * (2.0 * size + 5.0);
    let variance = (by_size(n as f64) - ties.iter().map(|&t| by_size(t)).sum::<f64>()) / 18.0;
    if tied_pairs >= pairs || variance <= 0.0 {
        return Err(StatsError::Constant { what: "series" });
    }
    let sd = variance.sqrt();
    // One step towards zero, because the order statistic moves in whole steps.
    let z = (order.abs() - 1.0).max(0.0) / sd;
    let p_value = normal_two_sided(z);
    let slopes = Ordered::new(slopes)?;
    let reach = normal_quantile(0.5 + level / 2.0)? * sd;
    let low = ((pairs - reach) / 2.0).round() - 1.0;
    let high = ((pairs + reach) / 2.0).round().min(pairs - 1.0);
    let at = |place: f64| slopes.values()[place.max(0.0) as usize];
    let slope = Estimate {
        value: slopes.quantile(0.5)?,
        n: values.len() as u64,
        interval: Interval { low: at(low), high: at(high), level },
    };
    let drift = match (p_value < 1.0 - level, order > 0.0) {
        (false, _) => Drift::NotShown,
        (true, true) => Drift::Rising,
        (true, false) => Drift::Falling,
    };
    Ok(Trend { slope, tau: order / (pairs * (pairs - tied_pairs)).sqrt(), p_value, drift, grouped_by })
}

/// Sizes of the groups of equal values, those of one left out.
fn tie_sizes(points: &[f64]) -> Vec<f64> {
    let mut ascending = points.to_vec();
    ascending.sort_unstable_by(f64::total_cmp);
    ascending
        .chunk_by(|left, right| left == right)
        .map(|group| group.len() as f64)
        .filter(|&size| size > 1.0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::normal_series;
    use proptest::prelude::*;

    /// A start far above the rest: 60 values that fall towards 0, then noise of spread 1.
    fn warming(length: usize) -> Vec<f64> {
        let noise = normal_series(5, length, 0.0);
        noise.iter().enumerate().map(|(i, e)| e + 30.0 * (-(i as f64) / 15.0).exp()).collect()
    }

    #[test]
    fn the_falling_start_is_cut_and_the_rest_is_kept() {
        for found in [mser(&warming(600)).unwrap(), mser5(&warming(600)).unwrap()] {
            let WarmUp::Ends { after, kept, .. } = found else { panic!("{found:?}") };
            assert!((30..90).contains(&after), "{found:?}");
            assert_eq!(after + kept, 600);
        }
    }

    #[test]
    fn a_steady_series_loses_little() {
        let WarmUp::Ends { after, .. } = mser5(&normal_series(8, 1000, 0.0)).unwrap() else { panic!() };
        assert!(after < 150, "{after}");
    }

    /// The statistic is 2/27 without a cut and after three values, in fractions.
    #[test]
    fn of_equally_good_cuts_the_earliest_counts_in_any_unit() {
        let counts = [50.0, 49.0, 49.0, 50.0, 51.0, 51.0, 52.0, 51.0, 51.0, 51.0, 50.0, 49.0];
        for length in [1.0, 0.1, 0.02, 0.3, 0.7] {
            let rates = counts.map(|count| count / length);
            assert!(matches!(mser(&rates), Ok(WarmUp::Ends { after: 0, .. })), "windows of {length} s");
        }
    }

    #[test]
    fn a_series_that_never_settles_is_not_over() {
        let rising: Vec<f64> = (0..200).map(f64::from).collect();
        assert_eq!(mser(&rising).unwrap(), WarmUp::NotOver { n: 200 });
        assert_eq!(mser5(&rising).unwrap(), WarmUp::NotOver { n: 200 });
    }

    #[test]
    fn a_drift_is_shown_with_its_slope_and_noise_is_not() {
        let noise = normal_series(4, 300, 0.0);
        let still = trend(&noise, 0.99).unwrap();
        assert_eq!(still.drift, Drift::NotShown);
        let falling: Vec<f64> = noise.iter().enumerate().map(|(i, e)| e - 0.01 * i as f64).collect();
        let result = trend(&falling, 0.99).unwrap();
        assert_eq!(result.drift, Drift::Falling);
        assert!(result.slope.interval.contains(-0.01), "{}", result.slope);
    }

    #[test]
    fn a_long_series_is_grouped_and_its_slope_stays_per_value() {
        let rising: Vec<f64> = (0..5000).map(|i| f64::from(i) * 0.5).collect();
        let result = trend(&rising, 0.95).unwrap();
        assert_eq!((result.grouped_by, result.drift), (10, Drift::Rising));
        assert!((result.slope.value - 0.5).abs() < 1e-9 && (result.tau - 1.0).abs() < 1e-12);
    }

    #[test]
    fn extreme_inputs_are_named() {
        assert!(matches!(mser(&[1.0; 9]), Err(StatsError::TooFew { have: 9, need: 10, .. })));
        assert_eq!(mser(&[1.0; 20]), Err(StatsError::Constant { what: "series" }));
        assert!(mser(&[f64::NAN; 20]).is_err());
        assert_eq!(trend(&[1.0; 20], 0.95), Err(StatsError::Constant { what: "series" }));
        assert!(trend(&[1.0; 7], 0.95).is_err());
        assert!(mser5(&[1.0; 49]).is_err());
    }

    proptest! {
        #[test]
        fn a_series_read_backwards_has_the_opposite_trend(values in proptest::collection::vec(0.0..10.0f64, 8..60)) {
            let backwards: Vec<f64> = values.iter().rev().copied().collect();
            let (one, other) = (trend(&values, 0.95).unwrap(), trend(&backwards, 0.95).unwrap());
            prop_assert!((one.tau + other.tau).abs() < 1e-12 && (one.slope.value + other.slope.value).abs() < 1e-9);
            prop_assert!((one.p_value - other.p_value).abs() < 1e-12);
        }

        #[test]
        fn the_cut_does_not_depend_on_the_unit(scale in 0.001..1000.0f64, shift in -100.0..100.0f64) {
            let plain = mser(&warming(200)).unwrap();
            let scaled: Vec<f64> = warming(200).iter().map(|value| value * scale + shift).collect();
            let (WarmUp::Ends { after, .. }, WarmUp::Ends { after: other, .. }) = (plain, mser(&scaled).unwrap()) else {
                return Err(TestCaseError::fail("both must end"));
            };
            prop_assert_eq!(after, other);
        }
    }
}
