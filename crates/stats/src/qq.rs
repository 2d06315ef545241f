//! Quantile against quantile: whether a sample looks like a law, as points for a plot.

use crate::error::{StatsError, usable};
use crate::tails::normal_quantile;
use serde::{Deserialize, Serialize};

/// One point of a QQ plot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QqPoint {
    /// The law's quantile at (i − ½)/n.
    pub theoretical: f64,
    /// The i-th smallest value.
    pub observed: f64,
}

/// A QQ plot: a straight line means that the sample has the law's shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QqPlot {
    /// Points, smallest first. n is their number.
    pub points: Vec<QqPoint>,
    /// Correlation of the points, at most 1: how straight they lie. Descriptive, no test.
    pub correlation: f64,
}

/// The sample against the standard normal law (Jain 1991, §12.10); slope and height of the line are
/// sd and mean.
///
/// # Errors
/// If there are fewer than 3 values, one is not finite, or all are alike.
pub fn normal_qq(values: &[f64]) -> Result<QqPlot, StatsError> {
    against(values, normal_quantile)
}

/// The sample against any law, given by its quantile function.
pub(crate) fn against(
    values: &[f64],
    quantile: impl Fn(f64) -> Result<f64, StatsError>,
) -> Result<QqPlot, StatsError> {
    usable("values for a QQ plot", values, 3)?;
    let mut ascending = values.to_vec();
    ascending.sort_unstable_by(f64::total_cmp);
    let n = ascending.len() as f64;
    let points = ascending
        .iter()
        .enumerate()
        .map(|(index, &observed)| Ok(QqPoint { theoretical: quantile((index as f64 + 0.5) / n)?, observed }))
        .collect::<Result<Vec<_>, StatsError>>()?;
    let theoretical: Vec<f64> = points.iter().map(|point| point.theoretical).collect();
    let correlation = correlation(&theoretical, &ascending)?;
    Ok(QqPlot { points, correlation })
}

/// Pearson's correlation of two samples of one length, each with a spread.
pub(crate) fn correlation(x: &[f64], y: &[f64]) -> Result<f64, StatsError> {
    let deviations = |values: &[f64]| {
        let largest = values.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        let mean = values.iter().map(|value| value / largest).sum::<f64>() / values.len() as f64;
        let from_mean: Vec<f64> = values.iter().map(|value| value / largest - mean).collect();
        let length = from_mean.iter().map(|d| d * d).sum::<f64>().sqrt();
        (from_mean, length)
    };
    let ((x, x_length), (y, y_length)) = (deviations(x), deviations(y));
    let product: f64 = x.iter().zip(&y).map(|(x, y)| x * y).sum();
    let correlation = product / x_length / y_length;
    if !correlation.is_finite() || x_length < 1e-14 || y_length < 1e-14 {
        return Err(StatsError::Constant { what: "sample" });
    }
    Ok(correlation.clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_quantiles_lie_on_a_line_and_a_long_tail_does_not() {
        let straight: Vec<f64> =
            (0..50).map(|i| 3.0 + 2.0 * normal_quantile((f64::from(i) + 0.5) / 50.0).unwrap()).collect();
        assert!(normal_qq(&straight).unwrap().correlation > 0.999_999);
        let tail: Vec<f64> = straight.iter().map(|value| value.exp()).collect();
        assert!(normal_qq(&tail).unwrap().correlation < 0.9);
    }

    #[test]
    fn a_constant_sample_has_no_shape() {
        assert_eq!(normal_qq(&[0.1; 5]), Err(StatsError::Constant { what: "sample" }));
        assert_eq!(normal_qq(&[0.0; 5]), Err(StatsError::Constant { what: "sample" }));
        assert!(normal_qq(&[1.0, 2.0]).is_err());
    }
}
