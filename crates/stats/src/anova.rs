//! Analysis of variance: how much of what was measured is due to which factor, and how much to
//! chance.
//!
//! Here for the levels of one factor (Jain 1991, ch. 20); for several see
//! [`crate::full_factorial`], for two levels each [`crate::factorial`].

use crate::error::{StatsError, all_finite, at_least, finite, probability};
use crate::interval::Estimate;
use crate::tails::f_upper;
use serde::{Deserialize, Serialize};

/// Whether one mean square is larger than another by more than chance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FTest {
    /// Ratio of the mean squares.
    pub f: f64,
    /// Degrees of freedom of the effect.
    pub numerator: f64,
    /// Degrees of freedom of the error.
    pub denominator: f64,
    /// Probability of a ratio at least this large if there were no effect.
    pub p_value: f64,
}

impl FTest {
    /// The test of an effect's sum of squares against the error's. None when there is nothing to
    /// test against: no degrees of freedom, or an error of zero.
    pub(crate) fn of(
        effect_squares: f64,
        effect_degrees: f64,
        error_squares: f64,
        error_degrees: f64,
    ) -> Result<Option<Self>, StatsError> {
        let f = (effect_squares.max(0.0) / effect_degrees) / (error_squares / error_degrees);
        if effect_degrees <= 0.0 || error_degrees <= 0.0 || !f.is_finite() {
            return Ok(None);
        }
        let p_value = f_upper(f, effect_degrees, error_degrees)?;
        Ok(Some(Self { f, numerator: effect_degrees, denominator: error_degrees, p_value }))
    }
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariationSource {
    /// Factor, or interaction (`servers × workers`).
    pub name: String,
    /// Sum of squares.
    pub squares: f64,
    /// Its share of the total variation, 0 to 1.
    pub share: f64,
    /// Degrees of freedom.
    pub degrees: f64,
    /// Test against the error; absent when the error is zero.
    pub f_test: Option<FTest>,
}

/// The effect of one level, or of one combination of levels in an interaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelEffect {
    /// The factor or interaction it belongs to.
    pub source: String,
    /// The level's name, or the levels' names joined by ` × `.
    pub level: String,
    /// By how much it moves y from what the simpler terms say.
    pub estimate: Estimate,
}

/// The result. Shares of all sources and of the error sum to 1, and so do degrees of freedom to n
/// − 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Anova {
    /// Mean of all measurements.
    pub mean: Estimate,
    /// Factors and interactions, main effects first.
    pub sources: Vec<VariationSource>,
    /// Effects of all levels, in the order of the sources.
    pub effects: Vec<LevelEffect>,
    /// SST about the mean.
    pub total_squares: f64,
    /// SSE.
    pub error_squares: f64,
    /// SSE / SST.
    pub error_share: f64,
    /// Degrees of freedom of the error.
    pub degrees: f64,
    /// Standard deviation of one measurement, √(SSE / degrees).
    pub error_sd: f64,
}

impl Anova {
    /// The line of this factor or interaction.
    pub fn source(&self, name: &str) -> Option<&VariationSource> {
        self.sources.iter().find(|source| source.name == name)
    }
}

/// One alternative of a one-factor design.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnovaGroup {
    /// Its name.
    pub name: String,
    /// Its measurements; groups may differ in number.
    pub values: Vec<f64>,
}

/// Compares the levels of one factor (Jain 1991, ch. 20).
///
/// ```text
/// α_j = ȳ_j − ȳ    SSA = Σ r_j α_j²    s(α_j) = s_e √(1/r_j − 1/N)    ν = N − a
/// ```
///
/// # Errors
/// If there are fewer than two groups, one is empty, no group has a repetition, a value is not
/// finite, all are alike, or the level is not between 0 and 1.
pub fn one_way(factor: &str, groups: &[AnovaGroup], level: f64) -> Result<Anova, StatsError> {
    probability("level", level)?;
    at_least("groups", groups.len(), 2)?;
    for group in groups {
        let named = |error: StatsError| StatsError::Cell { cell: group.name.clone(), why: error.to_string() };
        at_least("values", group.values.len(), 1).map_err(named)?;
        all_finite("values", &group.values).map_err(named)?;
    }
    let n: usize = groups.iter().map(|group| group.values.len()).sum();
    at_least("values of all groups", n, groups.len() + 1)?;
    let (total, degrees) = (n as f64, (n - groups.len()) as f64);
    let mean: f64 = groups.iter().flat_map(|group| &group.values).map(|y| y / total).sum();
    let means: Vec<f64> = groups.iter().map(|group| mean_of(&group.values)).collect();
    let effect_squares: f64 =
        groups.iter().zip(&means).map(|(group, m)| group.values.len() as f64 * (m - mean).powi(2)).sum();
    let error_squares: f64 = groups
        .iter()
        .zip(&means)
        .flat_map(|(group, m)| group.values.iter().map(move |y| (y - m).powi(2)))
        .sum();
    let mut table =
        AnovaTable::new(n as u64, mean, effect_squares + error_squares, error_squares, degrees, level)?;
    table.source(factor.to_owned(), effect_squares, (groups.len() - 1) as f64)?;
    for (group, group_mean) in groups.iter().zip(&means) {
        let spread = 1.0 / group.values.len() as f64 - 1.0 / total;
        table.effect(factor, group.name.clone(), group_mean - mean, spread)?;
    }
    Ok(table.anova)
}

/// The difference of two levels of a one-way design, second − first, with the error pooled over all
/// groups (a contrast in Jain's words). Of many pairs some will differ by chance: for m comparisons
/// ask for a level of 1 − α/m (Bonferroni).
///
/// # Errors
/// As [`one_way`], and if a name is not among the groups.
pub fn contrast(
    groups: &[AnovaGroup],
    first: &str,
    second: &str,
    level: f64,
) -> Result<Estimate, StatsError> {
    let anova = one_way("factor", groups, level)?;
    let find = |name: &str| {
        groups
            .iter()
            .find(|group| group.name == name)
            .ok_or_else(|| StatsError::Design { why: format!("there is no group `{name}`") })
    };
    let (first, second) = (find(first)?, find(second)?);
    let spread = 1.0 / first.values.len() as f64 + 1.0 / second.values.len() as f64;
    let difference = mean_of(&second.values) - mean_of(&first.values);
    Estimate::student(difference, anova.mean.n, anova.error_sd * spread.sqrt(), anova.degrees, level)
}

/// The result while it grows.
pub(crate) struct AnovaTable {
    pub(crate) anova: Anova,
    level: f64,
}

impl AnovaTable {
    pub(crate) fn new(
        n: u64,
        mean: f64,
        total: f64,
        error: f64,
        degrees: f64,
        level: f64,
    ) -> Result<Self, StatsError> {
        let total_squares = finite("total variation", total)?;
        if total_squares == 0.0 {
            return Err(StatsError::Constant { what: "values of the design" });
        }
        let error_sd = (error / degrees).sqrt();
        let anova = Anova {
            mean: Estimate::student(mean, n, error_sd / (n as f64).sqrt(), degrees, level)?,
            sources: Vec::new(),
            effects: Vec::new(),
            total_squares,
            error_squares: error,
            error_share: error / total_squares,
            degrees,
            error_sd,
        };
        Ok(Self { anova, level })
    }

    pub(crate) fn source(&mut self, name: String, squares: f64, degrees: f64) -> Result<(), StatsError> {
        let f_test = FTest::of(squares, degrees, self.anova.error_squares, self.anova.degrees)?;
        let share = squares / self.anova.total_squares;
        self.anova.sources.push(VariationSource { name, squares, share, degrees, f_test });
        Ok(())
    }

    pub(crate) fn effect(
        &mut self,
        source: &str,
        level: String,
        value: f64,
        spread: f64,
    ) -> Result<(), StatsError> {
        let standard_error = self.anova.error_sd * spread.sqrt();
        let estimate =
            Estimate::student(value, self.anova.mean.n, standard_error, self.anova.degrees, self.level)?;
        self.anova.effects.push(LevelEffect { source: source.to_owned(), level, estimate });
        Ok(())
    }
}

pub(crate) fn mean_of(values: &[f64]) -> f64 {
    values.iter().map(|value| value / values.len() as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, values: &[f64]) -> AnovaGroup {
        AnovaGroup { name: name.into(), values: values.to_vec() }
    }

    /// Jain 1991, examples 20.1 to 20.6: code size on three processors, five programmers each.
    fn code_size() -> [AnovaGroup; 3] {
        [
            group("R", &[144.0, 120.0, 176.0, 288.0, 144.0]),
            group("V", &[101.0, 144.0, 211.0, 288.0, 72.0]),
            group("Z", &[130.0, 180.0, 141.0, 374.0, 302.0]),
        ]
    }

    #[test]
    fn three_processors_do_not_differ_in_code_size() {
        let anova = one_way("processor", &code_size(), 0.90).unwrap();
        let source = anova.source("processor").unwrap();
        assert!((anova.mean.value - 187.7).abs() < 0.05);
        assert!((source.squares - 10_992.1).abs() < 0.1 && (anova.error_squares - 94_365.2).abs() < 0.1);
        assert!((source.share - 0.104).abs() < 5e-4 && (source.f_test.unwrap().f - 0.7).abs() < 0.01);
        assert!(anova.effects.iter().all(|effect| !effect.estimate.differs_from_zero()));
        let difference = contrast(&code_size(), "V", "R", 0.90).unwrap();
        assert!((difference.value - 11.2).abs() < 0.05 && !difference.differs_from_zero());
    }

    #[test]
    fn groups_that_allow_no_estimate_are_named() {
        assert!(one_way("f", &[group("a", &[1.0, 2.0])], 0.95).is_err());
        assert!(one_way("f", &[group("a", &[1.0]), group("b", &[2.0])], 0.95).is_err());
        assert!(one_way("f", &[group("a", &[1.0; 2]), group("b", &[1.0; 2])], 0.95).is_err());
        let error = one_way("f", &[group("a", &[1.0, 2.0]), group("b", &[])], 0.95).unwrap_err();
        assert_eq!(error.to_string(), "cell b: 0 values are too few: at least 1 are needed");
        assert!(contrast(&code_size(), "R", "X", 0.95).is_err());
    }
}
