//! How much successive values repeat each other, and how many independent ones they are worth.

use crate::error::{StatsError, usable};
use crate::summary::Summary;
use serde::{Deserialize, Serialize};

/// Autocorrelations r_0 = 1, r_1, … r_`lags`:
///
/// ```text
/// r_k = Σ (x_i − m)(x_{i+k} − m) / Σ (x_i − m)²
/// ```
///
/// The sum over the n − k pairs is divided by the whole variation (the definition of R and of Box
/// and Jenkins), which keeps |r_k| ≤ 1. Of independent values about 95 % of the r_k lie within ±
/// 1.96/√n.
///
/// # Errors
/// If there are fewer than `lags` + 2 values, one is not finite, or all are alike.
pub fn autocorrelation(values: &[f64], lags: usize) -> Result<Vec<f64>, StatsError> {
    usable("values for these lags", values, lags.saturating_add(2))?;
    let deviations = deviations(values)?;
    Ok((0..=lags).map(|lag| at_lag(&deviations, lag)).collect())
}

/// What a correlated series is worth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EffectiveSize {
    /// Values in the series.
    pub n: u64,
    /// Independent values with which the mean would be known as well; at most n.
    pub effective: f64,
    /// Integrated autocorrelation time n / effective: how many steps until a value says something
    /// new; at least 1.
    pub time: f64,
    /// Lags that were summed.
    pub lags: usize,
}

/// The effective size of a series, n / (1 + 2 Σ r_k), the sum taken over Geyer's initial monotone
/// sequence (1992): pairs r_{2m} + r_{2m+1} as long as they are positive, none counted larger than
/// the one before it. Beyond, estimates are noise.
///
/// Where neighbours alternate, the formula would promise more than n independent values; n is then
/// returned.
///
/// # Errors
/// If there are fewer than 4 values, one is not finite, or all are alike.
pub fn effective_size(values: &[f64]) -> Result<EffectiveSize, StatsError> {
    usable("values for an effective size", values, 4)?;
    let deviations = deviations(values)?;
    let (mut sum, mut last, mut lags) = (0.0, f64::INFINITY, 0);
    while lags + 1 < values.len() {
        let pair = at_lag(&deviations, lags) + at_lag(&deviations, lags + 1);
        if pair <= 0.0 {
            break;
        }
        last = pair.min(last);
        sum += last;
        lags += 2;
    }
    let n = values.len() as f64;
    let time = (2.0 * sum - 1.0).clamp(1.0, n);
    Ok(EffectiveSize { n: values.len() as u64, effective: n / time, time, lags })
}

/// r_1 alone.
pub(crate) fn lag1(values: &[f64]) -> Result<f64, StatsError> {
    Ok(autocorrelation(values, 1)?[1])
}

/// Deviations from the mean, scaled so that their squares sum to 1.
fn deviations(values: &[f64]) -> Result<Vec<f64>, StatsError> {
    let summary = Summary::of(values)?;
    let length = (summary.variance()? * (summary.n - 1) as f64).sqrt();
    if summary.min == summary.max || length == 0.0 {
        return Err(StatsError::Constant { what: "series" });
    }
    Ok(values.iter().map(|value| (value - summary.mean) / length).collect())
}

fn at_lag(deviations: &[f64], lag: usize) -> f64 {
    deviations.iter().zip(&deviations[lag..]).map(|(x, later)| x * later).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::normal_series;

    #[test]
    fn alternating_values_repeat_at_every_second_lag() {
        let r = autocorrelation(&[1.0, -1.0, 1.0, -1.0], 2).unwrap();
        assert_eq!(r, [1.0, -0.75, 0.5]);
        let size = effective_size(&[1.0, -1.0, 1.0, -1.0]).unwrap();
        assert_eq!((size.effective, size.time), (4.0, 1.0));
    }

    /// An autoregressive series with coefficient φ has an autocorrelation time of (1 + φ)/(1 − φ).
    #[test]
    fn a_series_that_keeps_nine_tenths_is_worth_a_nineteenth() {
        let size = effective_size(&normal_series(11, 100_000, 0.9)).unwrap();
        assert!((size.time - 19.0).abs() < 1.5, "{size:?}");
        let independent = effective_size(&normal_series(12, 100_000, 0.0)).unwrap();
        assert!(independent.time < 1.05, "{independent:?}");
    }

    #[test]
    fn a_constant_series_has_no_correlation() {
        assert_eq!(autocorrelation(&[2.0; 9], 1), Err(StatsError::Constant { what: "series" }));
        assert!(matches!(autocorrelation(&[1.0, 2.0], 1), Err(StatsError::TooFew { have: 2, need: 3, .. })));
        assert!(autocorrelation(&[1.0, f64::NAN, 2.0], 1).is_err());
    }
}
