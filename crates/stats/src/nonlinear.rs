//! Least squares for models that are not linear in their parameters, by Levenberg and Marquardt's
//! method.

use crate::error::{StatsError, all_finite, finite, probability};
use crate::interval::Estimate;
use crate::least_squares::{LeastSquares, solve};
use crate::tails::degrees_left;
use serde::Serialize;

/// Steps after which the search is given up; a well-posed fit of few parameters needs 5 to 30.
const MOST_STEPS: usize = 500;

/// A fitted model.
///
/// Intervals come from the model's tangent at the minimum: right when the parameters are known
/// well, too even-handed when they are not ([`crate::bootstrap`] is then the better judge).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NonlinearFit {
    /// Observations.
    pub n: u64,
    /// Confidence level of all intervals.
    pub level: f64,
    /// Parameters with their names, in the order given.
    pub parameters: Vec<Parameter>,
    /// Degrees of freedom left: n − number of parameters.
    pub degrees: f64,
    /// Sum of the squared residuals.
    pub error_squares: f64,
    /// Standard deviation of the residuals, √(error squares / degrees).
    pub residual_sd: f64,
    /// Share of the variation of y about its mean that the model explains; absent when y does not
    /// vary. Negative when the mean does better.
    pub r_squared: Option<f64>,
    /// Model's value for each observation.
    pub fitted: Vec<f64>,
    /// y − fitted, in the order given.
    pub residuals: Vec<f64>,
    /// Steps of the search.
    pub steps: usize,
    #[serde(skip)]
    solution: LeastSquares,
    #[serde(skip)]
    scales: Vec<f64>,
}

/// A fitted parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its value and interval.
    pub estimate: Estimate,
    /// Its standard error.
    pub standard_error: f64,
}

impl NonlinearFit {
    /// Fits `model(parameters, i)`, the model's value for observation i, to `y`, from a start in
    /// the right region: the search goes downhill and ends in the valley where it began. The size
    /// of a start is its parameter's scale (1 for a start of 0): by a small part of it the
    /// parameter is varied to see its influence.
    ///
    /// # Errors
    /// If there are no more observations than parameters, a value of y or the model at the start is
    /// not finite, a parameter has no influence of its own (by name), the search does not end, or
    /// the level is not between 0 and 1.
    pub fn new(
        start: &[(&str, f64)],
        y: &[f64],
        model: impl Fn(&[f64], usize) -> f64,
        level: f64,
    ) -> Result<Self, StatsError> {
        probability("level", level)?;
        all_finite("y of the fit", y)?;
        let degrees = degrees_left("observations for these parameters", y.len(), start.len())?;
        let begin: Vec<f64> = start.iter().map(|(_, value)| *value).collect();
        all_finite("start of the fit", &begin)?;
        let (at, steps) = descend(&begin, y, &model)?;
        let fitted: Vec<f64> = (0..y.len()).map(|i| model(&at, i)).collect();
        let residuals: Vec<f64> = y.iter().zip(&fitted).map(|(y, fitted)| y - fitted).collect();
        let scales = scales(&begin);
        let solution = solve(&slopes(&at, &scales, y.len(), &model), &residuals)
            .map_err(|index| StatsError::Dependent { column: start[index].0.to_owned() })?;
        let error_squares = squares(&residuals);
        let residual_sd = (error_squares / degrees).sqrt();
        let n = y.len() as u64;
        let parameters = (0..at.len())
            .map(|j| {
                let standard_error = residual_sd * solution.spread_of(j).sqrt();
                Ok(Parameter {
                    name: start[j].0.to_owned(),
                    estimate: Estimate::student(at[j], n, standard_error, degrees, level)?,
                    standard_error,
                })
            })
            .collect::<Result<Vec<_>, StatsError>>()?;
        let mean = y.iter().map(|value| value / y.len() as f64).sum::<f64>();
        let total: f64 = y.iter().map(|y| (y - mean).powi(2)).sum();
        let r_squared = (total > 0.0).then(|| 1.0 - error_squares / total);
        Ok(Self {
            n,
            level,
            parameters,
            degrees,
            error_squares,
            residual_sd,
            r_squared,
            fitted,
            residuals,
            steps,
            solution,
            scales,
        })
    }

    /// Values of the parameters.
    pub fn values(&self) -> Vec<f64> {
        self.parameters.iter().map(|parameter| parameter.estimate.value).collect()
    }

    /// A function of the parameters with its interval (delta method: its tangent at the minimum).
    ///
    /// # Errors
    /// If the function or its slope is not finite there.
    pub fn derived(&self, function: impl Fn(&[f64]) -> f64) -> Result<Estimate, StatsError> {
        let at = self.values();
        let value = finite("function of the parameters", function(&at))?;
        let gradient: Vec<f64> = (0..at.len()).map(|j| slope(&at, &self.scales, j, &function)).collect();
        all_finite("slope of a function of the parameters", &gradient)?;
        let standard_error = self.residual_sd * self.solution.spread(&gradient).sqrt();
        Estimate::student(value, self.n, standard_error, self.degrees, self.level)
    }
}

/// Walks downhill: each step solves the linear problem of the tangent, held short by `damping`
/// until it helps.
fn descend(
    begin: &[f64],
    y: &[f64],
    model: &impl Fn(&[f64], usize) -> f64,
) -> Result<(Vec<f64>, usize), StatsError> {
    let residuals_at =
        |at: &[f64]| -> Vec<f64> { y.iter().enumerate().map(|(i, y)| y - model(at, i)).collect() };
    let mut at = begin.to_vec();
    let scales = scales(begin);
    let mut residuals = residuals_at(&at);
    let mut error = finite("model at the start", squares(&residuals))?;
    let mut damping = 1e-3;
    for step in 1..=MOST_STEPS {
        let tangent = slopes(&at, &scales, y.len(), model);
        // Each parameter is damped in its own unit: by the length of its column (Marquardt 1963).
        let lengths: Vec<f64> =
            tangent.iter().map(|column| squares(column).sqrt().max(f64::MIN_POSITIVE)).collect();
        // Each turn damps ten times more, so the loop ends at 1e16 at the latest.
        loop {
            let mut columns = tangent.clone();
            for (j, column) in columns.iter_mut().enumerate() {
                column.extend(
                    (0..at.len()).map(|k| if k == j { f64::sqrt(damping) * lengths[j] } else { 0.0 }),
                );
            }
            let mut target = residuals.clone();
            target.resize(y.len() + at.len(), 0.0);
            let moved: Option<Vec<f64>> = solve(&columns, &target)
                .ok()
                .map(|found| at.iter().zip(found.coefficients).map(|(at, step)| at + step).collect());
            let next = moved.map(|moved| (residuals_at(&moved), moved));
            if let Some((next_residuals, moved)) = next {
                let next_error = squares(&next_residuals);
                if next_error <= error {
                    let settled =
                        at.iter().zip(&moved).all(|(old, new)| (new - old).abs() <= 1e-12 * old.abs());
                    let flat = error - next_error <= 1e-15 * error;
                    (at, residuals, error) = (moved, next_residuals, next_error);
                    damping = (damping * 0.1f64).max(1e-12);
                    if settled || flat {
                        return Ok((at, step));
                    }
                    break;
                }
            }
            damping *= 10.0;
            // No step, however short, goes further down: this is the bottom, as far as f64 can
            // tell.
            if damping > 1e16 {
                return Ok((at, step));
            }
        }
    }
    Err(StatsError::NoConvergence { what: "nonlinear fit", steps: MOST_STEPS })
}

/// The tangent: for each parameter, how the model's values change with it.
fn slopes(at: &[f64], scales: &[f64], n: usize, model: &impl Fn(&[f64], usize) -> f64) -> Vec<Vec<f64>> {
    (0..at.len()).map(|j| (0..n).map(|i| slope(at, scales, j, |at| model(at, i))).collect()).collect()
}

/// Central difference; the step balances rounding against curvature. A parameter that has come
/// close to 0 is still varied by its scale: by a part of itself it would not move the model at all.
fn slope(at: &[f64], scales: &[f64], j: usize, function: impl Fn(&[f64]) -> f64) -> f64 {
    let step = f64::EPSILON.cbrt() * at[j].abs().max(scales[j]);
    let shifted = |by: f64| {
        let mut moved = at.to_vec();
        moved[j] += by;
        function(&moved)
    };
    (shifted(step) - shifted(-step)) / (2.0 * step)
}

fn scales(begin: &[f64]) -> Vec<f64> {
    begin.iter().map(|start| if *start == 0.0 { 1.0 } else { start.abs() }).collect()
}

fn squares(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regression::Regression;

    #[test]
    fn a_linear_model_gives_the_intervals_of_linear_regression() {
        let x = [1.0, 2.0, 3.0, 4.0, 5.0];
        let y = [2.1, 3.9, 6.2, 7.8, 10.1];
        let line = Regression::line(&x, &y, 0.95).unwrap();
        let fit = NonlinearFit::new(&[("a", 0.0), ("b", 1.0)], &y, |p, i| p[0] + p[1] * x[i], 0.95).unwrap();
        for (one, other) in fit.parameters.iter().zip(&line.coefficients) {
            assert!((one.estimate.value - other.estimate.value).abs() < 1e-7);
            assert!((one.estimate.interval.high - other.estimate.interval.high).abs() < 1e-6);
        }
        let at_six = fit.derived(|p| p[0] + 6.0 * p[1]).unwrap();
        let mean = line.predict(&[6.0]).unwrap().mean;
        assert!((at_six.interval.low - mean.low).abs() < 1e-6);
    }

    #[test]
    fn a_parameter_without_influence_is_named() {
        let y = [1.0, 2.0, 3.0, 4.0];
        let error =
            NonlinearFit::new(&[("a", 1.0), ("idle", 1.0)], &y, |p, i| p[0] * i as f64, 0.95).unwrap_err();
        assert_eq!(error, StatsError::Dependent { column: "idle".into() });
    }

    #[test]
    fn extreme_inputs_are_named() {
        let decay = |p: &[f64], i: usize| p[0] * (-p[1] * i as f64).exp();
        let start = [("height", 1.0), ("rate", 1.0)];
        assert!(matches!(
            NonlinearFit::new(&start, &[1.0, 2.0], decay, 0.95),
            Err(StatsError::TooFew { have: 2, need: 3, .. })
        ));
        assert!(NonlinearFit::new(&start, &[1.0, f64::NAN, 2.0], decay, 0.95).is_err());
        let nowhere = NonlinearFit::new(&start, &[1.0, 2.0, 3.0], |_, _| f64::NAN, 0.95).unwrap_err();
        assert_eq!(nowhere, StatsError::Overflow { what: "model at the start" });
    }
}
