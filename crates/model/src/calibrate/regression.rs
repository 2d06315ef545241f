//! Lines and squares through points, by least squares, with no negative part.

use krarup_stats::{Intercept, Predictor, Regression, USUAL_LEVEL};

use crate::Error;
use crate::flow::Curve;

/// a and b of the line a + b·n through points.
pub(super) fn line(points: &[(f64, f64)]) -> Result<[f64; 2], Error> {
    let busy: Vec<f64> = points.iter().map(|p| p.0).collect();
    not_negative([&busy], points)
}

/// z + z₂·n² through points.
pub(super) fn square(points: &[(f64, f64)]) -> Result<Curve, Error> {
    let squares: Vec<f64> = points.iter().map(|p| p.0 * p.0).collect();
    let [constant, square] = not_negative([&squares], points)?;
    Ok(Curve::Square { constant, square })
}

/// Least squares of (·, time) on a constant and one column; a slope that would be negative is 0.
pub(super) fn not_negative([column]: [&[f64]; 1], points: &[(f64, f64)]) -> Result<[f64; 2], Error> {
    let times: Vec<f64> = points.iter().map(|p| p.1).collect();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let fitted =
        Regression::fit(&[Predictor::new("busy workers", column)], Intercept::Fitted, &times, USUAL_LEVEL);
    match fitted {
        Ok(fit) => {
            let [constant, slope] = [0, 1].map(|i| fit.coefficients[i].estimate.value);
            Ok(if slope < 0.0 { [mean, 0.0] } else { [constant.max(mean / 1_000.0), slope] })
        }
        // All times equal: a constant curve.
        Err(krarup_stats::StatsError::Constant { .. }) => Ok([mean, 0.0]),
        Err(error) => Err(Error::Measurements {
            what: format!("the rows do not determine a curve: {error}"),
            hint: "measure at different numbers of busy workers".into(),
        }),
    }
}
