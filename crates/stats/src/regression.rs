//! Linear models: coefficients with intervals, what they explain, and whether the model may be
//! believed.

use crate::anova::FTest;
use crate::error::{StatsError, all_finite, finite, probability};
use crate::interval::{Estimate, Interval};
use crate::least_squares::{LeastSquares, solve};
use crate::qq::{QqPlot, normal_qq};
use crate::tails::{degrees_left, t_two_sided};
use serde::Serialize;

/// One predictor: a name for the tables and a value per observation.
#[derive(Clone, Debug, PartialEq)]
pub struct Predictor {
    /// Name, as it is to appear in tables and errors.
    pub name: String,
    /// One value per observation.
    pub values: Vec<f64>,
}

impl Predictor {
    /// A named column.
    pub fn new(name: &str, values: &[f64]) -> Self {
        Self { name: name.to_owned(), values: values.to_vec() }
    }
}

/// Whether the model has a constant term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Intercept {
    /// A constant is fitted too, as the first term, named `intercept`.
    Fitted,
    /// The line goes through the origin (as in the utilization law, U = D·X). R² then compares with
    /// zero, not with the mean.
    Zero,
}

/// A fitted coefficient.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Coefficient {
    /// Name of the column, or `intercept`.
    pub name: String,
    /// The coefficient, in units of y per unit of the column.
    pub estimate: Estimate,
    /// Its standard error.
    pub standard_error: f64,
    /// Probability of a coefficient at least this far from zero if the true one were zero.
    pub p_value: f64,
}

/// A linear model fitted by least squares (Jain 1991, ch. 14 and 15).
///
/// Intervals assume residuals that are independent, normal and of one spread: look at
/// `durbin_watson`, [`Regression::residual_qq`] and residuals against fitted values before quoting
/// them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Regression {
    /// Observations.
    pub n: u64,
    /// Confidence level of all intervals.
    pub level: f64,
    /// Coefficients, the intercept first if there is one, then in the order of the columns.
    pub coefficients: Vec<Coefficient>,
    /// Share of the variation of y explained by the model, 0 to 1.
    pub r_squared: f64,
    /// R² corrected for the number of coefficients; may be negative.
    pub adjusted_r_squared: f64,
    /// Sum of squares of y about its mean (about zero without intercept).
    pub total_squares: f64,
    /// Sum of the squared residuals.
    pub error_squares: f64,
    /// Degrees of freedom of the residuals: n − number of coefficients.
    pub degrees: f64,
    /// Standard deviation of the residuals, √(error squares / degrees), in the unit of y.
    pub residual_sd: f64,
    /// Test of the whole model against none; absent when the fit is exact, or there is only a
    /// constant.
    pub f_test: Option<FTest>,
    /// Model's value for each observation.
    pub fitted: Vec<f64>,
    /// y − fitted for each observation, in the order given.
    pub residuals: Vec<f64>,
    /// Leverage of each observation, between 0 and 1; their sum is the number of coefficients.
    /// Above twice the mean, the observation decides its own fit.
    pub leverage: Vec<f64>,
    /// Durbin–Watson statistic of the residuals in the order given: 2 when neighbours are
    /// unrelated, towards 0 when they are alike, towards 4 when they alternate. Absent when all
    /// residuals are zero.
    pub durbin_watson: Option<f64>,
    intercept: Intercept,
    #[serde(skip)]
    solution: LeastSquares,
}

/// What a model says about a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PointPrediction {
    /// Predicted value.
    pub value: f64,
    /// Where the mean of many observations at this point lies.
    pub mean: Interval,
    /// Where one new observation lies: wider, because it has its own error.
    pub observation: Interval,
    /// Observations the model rests on.
    pub n: u64,
    /// The point lies farther out than any observation: the intervals hold only if the model holds
    /// there, too.
    pub extrapolates: bool,
}

impl Regression {
    /// The line y = intercept + slope·x; its column is named `slope`.
    ///
    /// # Errors
    /// As [`Regression::fit`].
    pub fn line(x: &[f64], y: &[f64], level: f64) -> Result<Self, StatsError> {
        Self::fit(&[Predictor::new("slope", x)], Intercept::Fitted, y, level)
    }

    /// The model y = intercept + Σ coefficient · column.
    ///
    /// # Errors
    /// If lengths differ, a value is not finite, there are no more observations than coefficients,
    /// a column is a combination of others (by name), y does not vary, or the level is not between
    /// 0 and 1.
    pub fn fit(
        columns: &[Predictor],
        intercept: Intercept,
        y: &[f64],
        level: f64,
    ) -> Result<Self, StatsError> {
        probability("level", level)?;
        let (names, matrix) = design(columns, intercept, y)?;
        let degrees = degrees_left("observations for these coefficients", y.len(), matrix.len())?;
        let centre = match intercept {
            Intercept::Fitted => y.iter().map(|value| value / y.len() as f64).sum(),
            Intercept::Zero => 0.0,
        };
        let total_squares =
            finite("sum of squares of y", y.iter().map(|value| (value - centre).powi(2)).sum())?;
        if y.iter().all(|&value| value == y[0]) && (intercept == Intercept::Fitted || y[0] == 0.0) {
            return Err(StatsError::Constant { what: "y of the regression" });
        }
        let solution =
            solve(&matrix, y).map_err(|index| StatsError::Dependent { column: names[index].clone() })?;
        let row = |i: usize| -> Vec<f64> { matrix.iter().map(|column| column[i]).collect() };
        let fitted: Vec<f64> = (0..y.len()).map(|i| dot(&row(i), &solution.coefficients)).collect();
        all_finite("fitted values", &fitted)?;
        let residuals: Vec<f64> = y.iter().zip(&fitted).map(|(y, fitted)| y - fitted).collect();
        let error_squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
        let residual_sd = (error_squares / degrees).sqrt();
        let coefficients = (0..names.len())
            .map(|j| {
                let standard_error = residual_sd * solution.spread_of(j).sqrt();
                let value = solution.coefficients[j];
                let p_value = if value == 0.0 { 1.0 } else { t_two_sided(value / standard_error, degrees)? };
                Ok(Coefficient {
                    name: names[j].clone(),
                    estimate: Estimate::student(value, y.len() as u64, standard_error, degrees, level)?,
                    standard_error,
                    p_value,
                })
            })
            .collect::<Result<Vec<_>, StatsError>>()?;
        let constant = usize::from(intercept == Intercept::Fitted);
        let explained = (names.len() - constant) as f64;
        let all_degrees = (y.len() - constant) as f64;
        let r_squared = (1.0 - error_squares / total_squares).clamp(0.0, 1.0);
        Ok(Self {
            n: y.len() as u64,
            level,
            coefficients,
            r_squared,
            adjusted_r_squared: 1.0 - (1.0 - r_squared) * all_degrees / degrees,
            total_squares,
            error_squares,
            degrees,
            residual_sd,
            f_test: FTest::of(total_squares - error_squares, explained, error_squares, degrees)?,
            leverage: (0..y.len()).map(|i| solution.spread(&row(i)).min(1.0)).collect(),
            durbin_watson: durbin_watson(&residuals),
            fitted,
            residuals,
            intercept,
            solution,
        })
    }

    /// The coefficient of this name.
    pub fn coefficient(&self, name: &str) -> Option<&Coefficient> {
        self.coefficients.iter().find(|coefficient| coefficient.name == name)
    }

    /// Prediction at a point, one value per column (none for the intercept); Jain 1991, §14.6.
    ///
    /// ```text
    /// s_mean = s √h    s_observation = s √(1 + h)    h = xᵀ (XᵀX)⁻¹ x
    /// ```
    ///
    /// # Errors
    /// If the number of values is not the number of columns, or one is not finite.
    pub fn predict(&self, at: &[f64]) -> Result<PointPrediction, StatsError> {
        let mut row = match self.intercept {
            Intercept::Fitted => vec![1.0],
            Intercept::Zero => Vec::new(),
        };
        row.extend_from_slice(at);
        let expected = self.coefficients.len();
        if row.len() != expected {
            let given = expected - (row.len() - at.len());
            return Err(StatsError::Unequal {
                what: "values of the point and columns",
                left: at.len(),
                right: given,
            });
        }
        all_finite("point", at)?;
        let value = finite("prediction", dot(&row, &self.solution.coefficients))?;
        let spread = self.solution.spread(&row);
        let around = |variance: f64| {
            Interval::student(value, self.residual_sd * variance.sqrt(), self.degrees, self.level)
        };
        let farthest = self.leverage.iter().fold(0.0f64, |farthest, &h| farthest.max(h));
        Ok(PointPrediction {
            value,
            mean: around(spread)?,
            observation: around(1.0 + spread)?,
            n: self.n,
            extrapolates: spread > farthest * (1.0 + 1e-9),
        })
    }

    /// Residuals over their own standard deviations s √(1 − h): beyond ± 3, look at the
    /// observation.
    ///
    /// # Errors
    /// If the fit is exact, or one observation determines a coefficient alone (leverage 1).
    pub fn studentized(&self) -> Result<Vec<f64>, StatsError> {
        let studentized: Vec<f64> = self
            .residuals
            .iter()
            .zip(&self.leverage)
            .map(|(residual, h)| residual / (self.residual_sd * (1.0 - h).sqrt()))
            .collect();
        all_finite("studentized residuals", &studentized)
            .map_err(|_| StatsError::Constant { what: "residuals" })?;
        Ok(studentized)
    }

    /// Residuals against the normal law: straight when the intervals may be believed.
    ///
    /// # Errors
    /// If there are fewer than 3, or the fit is exact.
    pub fn residual_qq(&self) -> Result<QqPlot, StatsError> {
        normal_qq(&self.residuals)
    }
}

/// Names and columns, the constant first, all checked.
fn design(
    columns: &[Predictor],
    intercept: Intercept,
    y: &[f64],
) -> Result<(Vec<String>, Vec<Vec<f64>>), StatsError> {
    all_finite("y of the regression", y)?;
    let (mut names, mut matrix) = match intercept {
        Intercept::Fitted => (vec!["intercept".to_owned()], vec![vec![1.0; y.len()]]),
        Intercept::Zero => (Vec::new(), Vec::new()),
    };
    for column in columns {
        if column.values.len() != y.len() {
            let (left, right) = (column.values.len(), y.len());
            return Err(StatsError::Unequal { what: "values of a column and of y", left, right });
        }
        all_finite("column of the regression", &column.values)?;
        names.push(column.name.clone());
        matrix.push(column.values.clone());
    }
    if matrix.is_empty() {
        return Err(StatsError::TooFew { what: "columns of the regression", have: 0, need: 1 });
    }
    Ok((names, matrix))
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

/// Σ (e_i − e_{i−1})² / Σ e_i² (Durbin and Watson 1950).
fn durbin_watson(residuals: &[f64]) -> Option<f64> {
    let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let steps: f64 = residuals.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    (squares > 0.0).then(|| steps / squares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Jain 1991, examples 14.1 to 14.5: CPU time against disk I/O's of seven programs.
    #[test]
    fn the_textbook_line_comes_out_as_printed() {
        let io = [14.0, 16.0, 27.0, 42.0, 39.0, 50.0, 83.0];
        let cpu = [2.0, 5.0, 7.0, 9.0, 10.0, 13.0, 20.0];
        let line = Regression::line(&io, &cpu, 0.90).unwrap();
        let (b0, b1) = (&line.coefficients[0].estimate, &line.coefficients[1].estimate);
        assert!((b0.value - -0.0083).abs() < 5e-5 && (b1.value - 0.2438).abs() < 5e-5);
        assert!((line.error_squares - 5.87).abs() < 0.01 && (line.r_squared - 0.9715).abs() < 5e-4);
        assert!((line.residual_sd - 1.0834).abs() < 2e-4);
        assert!(
            (b0.interval.low - -1.6830).abs() < 2e-3 && (b0.interval.high - 1.6663).abs() < 2e-3,
            "{b0:.4}"
        );
        assert!(
            (b1.interval.low - 0.2061).abs() < 2e-4 && (b1.interval.high - 0.2814).abs() < 2e-4,
            "{b1:.4}"
        );
        let hundred = line.predict(&[100.0]).unwrap();
        assert!(hundred.extrapolates);
        assert!((hundred.value - 24.3674).abs() < 1e-3);
        assert!((hundred.mean.low - 21.9172).abs() < 5e-3 && (hundred.mean.high - 26.8175).abs() < 5e-3);
    }

    #[test]
    fn a_dependent_column_is_refused_by_name() {
        let x = [1.0, 2.0, 3.0, 4.0];
        let twice: Vec<f64> = x.iter().map(|x| 2.0 * x + 1.0).collect();
        let columns = [Predictor::new("clients", &x), Predictor::new("threads", &twice)];
        let error = Regression::fit(&columns, Intercept::Fitted, &[1.0, 3.0, 2.0, 5.0], 0.95).unwrap_err();
        assert_eq!(error, StatsError::Dependent { column: "threads".into() });
        let constant = Regression::line(&[2.0; 4], &[1.0, 3.0, 2.0, 5.0], 0.95).unwrap_err();
        assert_eq!(constant, StatsError::Dependent { column: "slope".into() });
    }

    #[test]
    fn extreme_inputs_are_named() {
        assert!(matches!(
            Regression::line(&[1.0, 2.0], &[1.0, 3.0], 0.95),
            Err(StatsError::TooFew { have: 2, need: 3, .. })
        ));
        assert!(matches!(Regression::line(&[], &[], 0.95), Err(StatsError::TooFew { have: 0, .. })));
        assert!(matches!(
            Regression::line(&[1.0, 2.0, 3.0], &[4.0; 3], 0.95),
            Err(StatsError::Constant { .. })
        ));
        assert!(Regression::line(&[1.0, f64::NAN, 3.0], &[1.0, 2.0, 4.0], 0.95).is_err());
        assert!(Regression::line(&[1.0, 2.0, 3.0], &[1.0, f64::INFINITY, 4.0], 0.95).is_err());
        assert!(Regression::line(&[1.0, 2.0, 3.0], &[1.0, 2.0], 0.95).is_err());
        assert!(Regression::line(&[1.0, 2.0, 3.0], &[1e200, -1e200, 1e200], 0.95).is_err());
    }

    #[test]
    fn an_exact_line_has_no_f_and_no_durbin_watson_but_zero_width() {
        let line = Regression::line(&[1.0, 2.0, 3.0, 4.0], &[3.0, 5.0, 7.0, 9.0], 0.95).unwrap();
        assert!((line.coefficients[1].estimate.value - 2.0).abs() < 1e-12);
        assert!(line.coefficients[1].estimate.interval.half_width() < 1e-12);
        assert!(line.r_squared > 1.0 - 1e-12);
    }

    #[test]
    fn through_the_origin_the_slope_is_the_ratio_of_sums() {
        let (x, u) = ([1.0, 2.0, 3.0], [0.11, 0.19, 0.31]);
        let law = Regression::fit(&[Predictor::new("demand", &x)], Intercept::Zero, &u, 0.95).unwrap();
        assert!((law.coefficient("demand").unwrap().estimate.value - 1.42 / 14.0).abs() < 1e-12);
        assert!(law.predict(&[2.0, 3.0]).is_err());
    }

    proptest! {
        #[test]
        fn a_wider_level_gives_wider_intervals_and_the_same_line(
            y in proptest::collection::vec(-100.0..100.0f64, 5..20),
        ) {
            let x: Vec<f64> = (0..y.len()).map(|i| i as f64).collect();
            let (narrow, wide) = (Regression::line(&x, &y, 0.5).unwrap(), Regression::line(&x, &y, 0.99).unwrap());
            for (narrow, wide) in narrow.coefficients.iter().zip(&wide.coefficients) {
                prop_assert_eq!(narrow.estimate.value, wide.estimate.value);
                prop_assert!(narrow.estimate.interval.half_width() < wide.estimate.interval.half_width());
            }
            let at = narrow.predict(&[2.0]).unwrap();
            prop_assert!(at.observation.half_width() > at.mean.half_width() && !at.extrapolates);
        }
    }
}
