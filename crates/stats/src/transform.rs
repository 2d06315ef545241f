//! Which model of a 2^k·r design fits: effects that add, or effects that multiply.
//!
//! The two differ in what they say of the spread. If effects add, repetitions scatter alike in
//! every cell; if they multiply, the scatter grows with the cell's mean, and logarithms scatter
//! alike. Box and Cox (1964) put both on one scale: with y^λ in place of y, λ = 1 is the additive
//! model and λ = 0 the multiplicative one, and the likelihood of the data says which λ they allow.

use crate::effects::Effects;
use crate::error::{StatsError, at_least, probability};
use crate::factorial::TwoLevel;
use crate::interval::{Estimate, Interval};
use crate::qq::correlation;
use crate::tails::chi_squared_quantile;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Powers of y outside ± this are no model of a computer system; intervals end here.
const LARGEST_POWER: f64 = 10.0;

/// Beyond this ratio of largest to smallest value the scale matters; below it ln y is nearly a
/// straight line over the range and both models say nearly the same. Jain 1991, §18.8 names the
/// ratio as a ground for the multiplicative model, without a limit.
const WIDE_RANGE: f64 = 3.0;

/// A form of model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModelForm {
    /// y = q0 + qA xA + …
    Additive,
    /// y = u0 · uA^xA · …, additive in ln y.
    Multiplicative,
}

/// How well one form does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Its effects (of ln y for the multiplicative form).
    pub effects: Effects,
    /// Log-likelihood of the measured y, comparable between the two forms, up to one constant.
    pub log_likelihood: f64,
    /// Share of the variation in interactions: the simpler description has less.
    pub interaction_share: f64,
    /// Correlation of |residual| with the predicted value: near 0 when the scatter is alike
    /// everywhere.
    pub spread_trend: Option<f64>,
    /// Straightness of the residuals' normal QQ plot, at most 1.
    pub qq_correlation: f64,
}

/// Why a form was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ground {
    /// The data rule the other form out.
    OtherRuledOut,
    /// The scatter allows both; all values are within a factor of 3, so both say nearly the same:
    /// the simpler to read is taken.
    NarrowRange,
    /// The scatter allows both; the chosen one needs less interaction.
    FewerInteractions,
    /// The scatter allows neither; the likelier is taken, and its intervals are not to be trusted.
    NeitherFits,
}

impl fmt::Display for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherRuledOut => "the scatter of the repetitions rules the other model out",
            Self::NarrowRange => {
                "the scatter allows both, and all values lie within a factor of 3, where both say nearly the same"
            }
            Self::FewerInteractions => "the scatter allows both, and this one explains more without interactions",
            Self::NeitherFits => {
                "the scatter fits neither model; this one is likelier, but do not trust its intervals: look for outliers"
            }
        })
    }
}

/// Both forms side by side, and the one to use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FormChoice {
    /// The form to use.
    pub form: ModelForm,
    /// Why.
    pub ground: Ground,
    /// Largest over smallest measured value.
    pub ratio: f64,
    /// The power λ that fits best, and all that the data allow (profile likelihood; ends at ± 10).
    pub power: Estimate,
    /// Evidence for the additive form.
    pub additive: Evidence,
    /// Evidence for the multiplicative form.
    pub multiplicative: Evidence,
}

/// Tests which form fits a design of positive values with repetitions.
///
/// # Errors
/// If r < 2, a value is not above 0, repetitions do not differ at all, or the level is not between
/// 0 and 1.
pub fn choose_form(design: &TwoLevel, level: f64) -> Result<FormChoice, StatsError> {
    probability("level", level)?;
    at_least("repetitions", design.repetitions(), 2)?;
    let logarithms = design.logarithms()?;
    let scatter = Scatter::of(&logarithms)?;
    let power = scatter.power(level)?;
    let additive = evidence(design, scatter.log_likelihood(1.0), level)?;
    let multiplicative = evidence(&logarithms, scatter.log_likelihood(0.0), level)?;
    let all = || design.cells().iter().flatten();
    let ratio = all().fold(0.0f64, |high, &y| high.max(y)) / all().fold(f64::MAX, |low, &y| low.min(y));
    let likelier = if additive.log_likelihood >= multiplicative.log_likelihood {
        ModelForm::Additive
    } else {
        ModelForm::Multiplicative
    };
    let (form, ground) = match (power.interval.contains(1.0), power.interval.contains(0.0)) {
        (true, false) => (ModelForm::Additive, Ground::OtherRuledOut),
        (false, true) => (ModelForm::Multiplicative, Ground::OtherRuledOut),
        (true, true) if ratio < WIDE_RANGE => (ModelForm::Additive, Ground::NarrowRange),
        (true, true) if multiplicative.interaction_share < additive.interaction_share => {
            (ModelForm::Multiplicative, Ground::FewerInteractions)
        }
        (true, true) => (ModelForm::Additive, Ground::FewerInteractions),
        (false, false) => (likelier, Ground::NeitherFits),
    };
    Ok(FormChoice { form, ground, ratio, power, additive, multiplicative })
}

fn evidence(design: &TwoLevel, log_likelihood: f64, level: f64) -> Result<Evidence, StatsError> {
    let effects = design.effects(level)?;
    let interactions = effects.effects.iter().filter(|effect| effect.term.order() > 1);
    let residuals = design.residuals();
    let predicted: Vec<f64> = residuals.iter().map(|residual| residual.predicted).collect();
    let sizes: Vec<f64> = residuals.iter().map(|residual| residual.residual.abs()).collect();
    Ok(Evidence {
        interaction_share: interactions.map(|effect| effect.share).sum(),
        // Cells with equal means, or residuals of one size, have no trend to speak of.
        spread_trend: correlation(&predicted, &sizes).ok(),
        qq_correlation: design.residual_qq()?.correlation,
        log_likelihood,
        effects,
    })
}

/// ln(y / geometric mean) by cell: all that the likelihood of a power needs.
struct Scatter {
    cells: Vec<Vec<f64>>,
    n: f64,
    /// ν = 2^k (r − 1): the mean of each cell is estimated.
    degrees: f64,
}

impl Scatter {
    fn of(logarithms: &TwoLevel) -> Result<Self, StatsError> {
        let n = (logarithms.cells().len() * logarithms.repetitions()) as f64;
        let centre: f64 = logarithms.cells().iter().flatten().map(|value| value / n).sum();
        let cells: Vec<Vec<f64>> =
            logarithms.cells().iter().map(|cell| cell.iter().map(|value| value - centre).collect()).collect();
        if cells.iter().all(|cell| cell.iter().all(|&value| value == cell[0])) {
            return Err(StatsError::Constant { what: "repetitions in every cell" });
        }
        let degrees = n - cells.len() as f64;
        Ok(Self { cells, n, degrees })
    }

    /// Box and Cox's profile log-likelihood, −ν/2 ln SSE(λ), of (y^λ − 1)/λ scaled by the geometric
    /// mean so that all λ have one unit. With n in place of ν its intervals would be too narrow.
    fn log_likelihood(&self, power: f64) -> f64 {
        let scaled = |w: f64| if power == 0.0 { w } else { (power * w).exp_m1() / power };
        let squares: f64 = self
            .cells
            .iter()
            .map(|cell| {
                let mean = cell.iter().map(|&w| scaled(w)).sum::<f64>() / cell.len() as f64;
                cell.iter().map(|&w| (scaled(w) - mean).powi(2)).sum::<f64>()
            })
            .sum();
        -self.degrees / 2.0 * squares.ln()
    }

    /// The likeliest power and the interval {λ : 2 (l_max − l(λ)) ≤ χ²[level; 1]}.
    fn power(&self, level: f64) -> Result<Estimate, StatsError> {
        // A grid finds the hill, halving finds its top: the likelihood of a power has one hill in
        // practice.
        let grid: Vec<f64> = (-100..=100).map(|step| f64::from(step) * LARGEST_POWER / 100.0).collect();
        let best = grid.iter().copied().fold(0.0, |best, power| {
            if self.log_likelihood(power) > self.log_likelihood(best) { power } else { best }
        });
        let (mut low, mut high) = (best - LARGEST_POWER / 100.0, best + LARGEST_POWER / 100.0);
        for _ in 0..100 {
            let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            if self.log_likelihood(left) < self.log_likelihood(right) {
                low = left;
            } else {
                high = right;
            }
        }
        let value = (low + high) / 2.0;
        let floor = self.log_likelihood(value) - chi_squared_quantile(level, 1.0)? / 2.0;
        let end = |limit: f64| {
            if self.log_likelihood(limit) >= floor {
                return limit;
            }
            let (mut inside, mut outside) = (value, limit);
            for _ in 0..100 {
                let middle = (inside + outside) / 2.0;
                if self.log_likelihood(middle) >= floor {
                    inside = middle;
                } else {
                    outside = middle;
                }
            }
            inside
        };
        let interval =
            Interval { low: end(-LARGEST_POWER).min(value), high: end(LARGEST_POWER).max(value), level };
        Ok(Estimate { value, n: self.n as u64, interval })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scatter of ± 10 units or ± 10 % about means 100, 1000, 300, 3000.
    fn design(scatter: impl Fn(f64, f64) -> f64) -> TwoLevel {
        let noise = [-1.2, 0.3, 0.9, -0.4, 1.1, -0.7];
        let cells = [100.0, 1000.0, 300.0, 3000.0]
            .iter()
            .enumerate()
            .map(|(cell, &mean)| (0..6).map(|i| scatter(mean, noise[(i + cell) % 6])).collect())
            .collect();
        TwoLevel::new(&["A", "B"], cells).unwrap()
    }

    #[test]
    fn scatter_of_one_size_speaks_for_adding() {
        let choice = choose_form(&design(|mean, noise| mean + 10.0 * noise), 0.95).unwrap();
        assert_eq!((choice.form, choice.ground), (ModelForm::Additive, Ground::OtherRuledOut));
        assert!(
            choice.power.interval.contains(1.0)
                && choice.additive.log_likelihood > choice.multiplicative.log_likelihood
        );
    }

    #[test]
    fn scatter_that_grows_with_the_mean_speaks_for_multiplying() {
        let choice = choose_form(&design(|mean, noise| mean * (0.1 * noise).exp()), 0.95).unwrap();
        assert_eq!((choice.form, choice.ground), (ModelForm::Multiplicative, Ground::OtherRuledOut));
        assert!(choice.additive.spread_trend.unwrap() > 0.5);
        assert!(choice.multiplicative.spread_trend.unwrap().abs() < 0.2);
        assert!(choice.multiplicative.interaction_share < choice.additive.interaction_share);
        assert!((choice.ratio - 30.0).abs() < 10.0);
    }

    #[test]
    fn values_close_together_decide_nothing_and_the_simpler_form_is_taken() {
        let cells = vec![vec![100.0, 101.0], vec![110.0, 111.2], vec![104.0, 105.1], vec![115.0, 116.0]];
        let choice = choose_form(&TwoLevel::new(&["A", "B"], cells).unwrap(), 0.95).unwrap();
        assert_eq!((choice.form, choice.ground), (ModelForm::Additive, Ground::NarrowRange));
    }

    #[test]
    fn a_design_without_scatter_cannot_be_tested() {
        let cells = vec![vec![1.0, 1.0], vec![2.0, 2.0]];
        let error = choose_form(&TwoLevel::new(&["A"], cells).unwrap(), 0.95).unwrap_err();
        assert_eq!(error, StatsError::Constant { what: "repetitions in every cell" });
    }
}
