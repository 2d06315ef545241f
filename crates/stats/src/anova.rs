//! Analysis of variance: how much of what was measured is due to which factor, and how much to chance.
//!
//! One factor (Jain 1991, ch. 20), two with and without repetitions (ch. 21 and 22), any number in a full factorial design
//! (ch. 23). Two levels each have their own, simpler form: [`crate::factorial`].

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
    /// The test of an effect's sum of squares against the error's. None when there is nothing to test against: no degrees of
    /// freedom, or an error of zero.
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
pub struct Source {
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

/// The result. Shares of all sources and of the error sum to 1, and so do degrees of freedom to n − 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Anova {
    /// Mean of all measurements.
    pub mean: Estimate,
    /// Factors and interactions, main effects first.
    pub sources: Vec<Source>,
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
    pub fn source(&self, name: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.name == name)
    }
}

/// One alternative of a one-factor design.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its measurements; groups may differ in number.
    pub values: Vec<f64>,
}

/// Compares the levels of one factor (Jain 1991, ch. 20; unequal sizes §20.7).
///
/// ```text
/// α_j = ȳ_j − ȳ    SSA = Σ r_j α_j²    s(α_j) = s_e √(1/r_j − 1/N)    ν = N − a
/// ```
///
/// # Errors
/// If there are fewer than two groups, one is empty, no group has a repetition, a value is not finite, all are alike, or the level is not
/// between 0 and 1.
pub fn one_way(factor: &str, groups: &[Group], level: f64) -> Result<Anova, StatsError> {
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
        Table::new(n as u64, mean, effect_squares + error_squares, error_squares, degrees, level)?;
    table.source(factor.to_owned(), effect_squares, (groups.len() - 1) as f64)?;
    for (group, group_mean) in groups.iter().zip(&means) {
        let spread = 1.0 / group.values.len() as f64 - 1.0 / total;
        table.effect(factor, group.name.clone(), group_mean - mean, spread)?;
    }
    Ok(table.anova)
}

/// The difference of two levels of a one-way design, second − first, with the error pooled over all groups (Jain's contrast, §20.5).
/// Of many pairs some will differ by chance: for m comparisons ask for a level of 1 − α/m (Bonferroni).
///
/// # Errors
/// As [`one_way`], and if a name is not among the groups.
pub fn contrast(groups: &[Group], first: &str, second: &str, level: f64) -> Result<Estimate, StatsError> {
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

/// A factor of a full factorial design.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// Its name.
    pub name: String,
    /// Names of its levels, two or more.
    pub levels: Vec<String>,
}

impl Factor {
    /// A factor with its levels.
    pub fn new(name: &str, levels: &[&str]) -> Self {
        Self { name: name.to_owned(), levels: levels.iter().map(|&level| level.to_owned()).collect() }
    }
}

/// Analyses a full factorial design: every combination of levels, each with the same number r of repetitions.
/// `cells` stand with the last factor changing fastest.
///
/// With r ≥ 2 all interactions are separated from the error. With r = 1 the interaction of all factors *is* the error
/// (Jain 1991, ch. 21): true only if the factors do not interact.
///
/// The effect of a set of levels is what their mean differs by from all simpler effects,
/// Σ_{T ⊆ S} (−1)^{|S|−|T|} ȳ_T; its standard error is s_e √(Π_{i ∈ S} (a_i − 1) / N).
///
/// # Errors
/// If a factor has fewer than two levels, cells are missing or differ in their repetitions, there is one factor and r = 1, a value
/// is not finite, all are alike, or the level is not between 0 and 1.
pub fn full_factorial(factors: &[Factor], cells: &[Vec<f64>], level: f64) -> Result<Anova, StatsError> {
    probability("level", level)?;
    let grid = Grid::new(factors, cells)?;
    let repetitions = cells[0].len();
    let n = cells.len() * repetitions;
    let cell_means: Vec<f64> = cells.iter().map(|cell| mean_of(cell)).collect();
    let sets = grid.sets();
    let effects: Vec<Vec<f64>> = sets.iter().map(|&set| grid.effects(set, &cell_means)).collect();
    let squares: Vec<f64> = effects
        .iter()
        .map(|of_cell| repetitions as f64 * of_cell.iter().map(|effect| effect * effect).sum::<f64>())
        .collect();
    let scatter: f64 = cells
        .iter()
        .zip(&cell_means)
        .flat_map(|(cell, mean)| cell.iter().map(move |y| (y - mean).powi(2)))
        .sum();
    // Without repetitions the last set, the interaction of all factors, takes the place of the error.
    let (kept, error_squares, degrees) = if repetitions > 1 {
        (sets.len(), scatter, (cells.len() * (repetitions - 1)) as f64)
    } else {
        at_least("repetitions of a one-factor design", factors.len(), 2)?;
        let last = sets.len() - 1;
        (last, squares[last], grid.degrees(sets[last]))
    };
    let total = squares.iter().sum::<f64>() + scatter;
    let mut table = Table::new(n as u64, mean_of(&cell_means), total, error_squares, degrees, level)?;
    for index in 0..kept {
        let name = grid.name(sets[index]);
        table.source(name.clone(), squares[index], grid.degrees(sets[index]))?;
        for cell in grid.one_cell_per_level(sets[index]) {
            let spread = grid.degrees(sets[index]) / n as f64;
            table.effect(&name, grid.level_name(sets[index], cell), effects[index][cell], spread)?;
        }
    }
    Ok(table.anova)
}

/// The result while it grows.
struct Table {
    anova: Anova,
    level: f64,
}

impl Table {
    fn new(n: u64, mean: f64, total: f64, error: f64, degrees: f64, level: f64) -> Result<Self, StatsError> {
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

    fn source(&mut self, name: String, squares: f64, degrees: f64) -> Result<(), StatsError> {
        let f_test = FTest::of(squares, degrees, self.anova.error_squares, self.anova.degrees)?;
        let share = squares / self.anova.total_squares;
        self.anova.sources.push(Source { name, squares, share, degrees, f_test });
        Ok(())
    }

    fn effect(&mut self, source: &str, level: String, value: f64, spread: f64) -> Result<(), StatsError> {
        let standard_error = self.anova.error_sd * spread.sqrt();
        let estimate =
            Estimate::student(value, self.anova.mean.n, standard_error, self.anova.degrees, self.level)?;
        self.anova.effects.push(LevelEffect { source: source.to_owned(), level, estimate });
        Ok(())
    }
}

/// Cells of a full factorial design by their levels; a set of factors is a bit mask.
struct Grid<'a> {
    factors: &'a [Factor],
    /// How far apart in the list of cells two levels of a factor stand.
    strides: Vec<usize>,
    cells: usize,
}

impl<'a> Grid<'a> {
    fn new(factors: &'a [Factor], cells: &[Vec<f64>]) -> Result<Self, StatsError> {
        at_least("factors", factors.len(), 1)?;
        let mut strides = vec![1; factors.len()];
        let mut count = 1usize;
        for (index, factor) in factors.iter().enumerate().rev() {
            if factor.levels.len() < 2 {
                return Err(StatsError::Design {
                    why: format!("factor `{}` has fewer than two levels", factor.name),
                });
            }
            strides[index] = count;
            // More cells than were measured end the loop, so that the product cannot overflow.
            count = count.saturating_mul(factor.levels.len()).min(cells.len() + 1);
        }
        if count != cells.len() {
            let why = format!("{} cells do not make a full factorial design of these factors", cells.len());
            return Err(StatsError::Design { why });
        }
        let grid = Self { factors, strides, cells: count };
        let all = (1 << factors.len()) - 1;
        for (index, cell) in cells.iter().enumerate() {
            let named = |why: String| StatsError::Cell { cell: grid.level_name(all, index), why };
            at_least("repetitions", cell.len(), 1).map_err(|error| named(error.to_string()))?;
            if cell.len() != cells[0].len() {
                return Err(named(format!(
                    "{} repetitions where the first cell has {}",
                    cell.len(),
                    cells[0].len()
                )));
            }
            all_finite("repetitions", cell).map_err(|error| named(error.to_string()))?;
        }
        Ok(grid)
    }

    fn level(&self, factor: usize, cell: usize) -> usize {
        cell / self.strides[factor] % self.factors[factor].levels.len()
    }

    /// All sets but the empty one, small ones first.
    fn sets(&self) -> Vec<u32> {
        let mut sets: Vec<u32> = (1..1u32 << self.factors.len()).collect();
        sets.sort_by_key(|set| (set.count_ones(), std::cmp::Reverse(set.reverse_bits())));
        sets
    }

    fn members(&self, set: u32) -> impl Iterator<Item = usize> + use<> {
        (0..self.factors.len()).filter(move |factor| set >> factor & 1 == 1)
    }

    fn degrees(&self, set: u32) -> f64 {
        self.members(set).map(|factor| (self.factors[factor].levels.len() - 1) as f64).product()
    }

    fn name(&self, set: u32) -> String {
        self.members(set).map(|factor| self.factors[factor].name.as_str()).collect::<Vec<_>>().join(" × ")
    }

    fn level_name(&self, set: u32, cell: usize) -> String {
        let level = |factor: usize| self.factors[factor].levels[self.level(factor, cell)].as_str();
        self.members(set).map(level).collect::<Vec<_>>().join(" × ")
    }

    /// The first cell of every combination of the set's levels.
    fn one_cell_per_level(&self, set: u32) -> Vec<usize> {
        let rest = ((1u32 << self.factors.len()) - 1) & !set;
        (0..self.cells)
            .filter(|&cell| self.members(rest).all(|factor| self.level(factor, cell) == 0))
            .collect()
    }

    /// The effect of the set's levels in every cell. Taking "value − mean over this factor" for each factor in the set, and
    /// the mean over each factor outside, is the same as the alternating sum of all marginal means.
    fn effects(&self, set: u32, cell_means: &[f64]) -> Vec<f64> {
        let mut values = cell_means.to_vec();
        for factor in 0..self.factors.len() {
            let averaged = self.average_over(factor, &values);
            if set >> factor & 1 == 1 {
                values.iter_mut().zip(averaged).for_each(|(value, mean)| *value -= mean);
            } else {
                values = averaged;
            }
        }
        values
    }

    fn average_over(&self, factor: usize, values: &[f64]) -> Vec<f64> {
        let (stride, levels) = (self.strides[factor], self.factors[factor].levels.len());
        (0..self.cells)
            .map(|cell| {
                let first = cell - self.level(factor, cell) * stride;
                (0..levels).map(|level| values[first + level * stride] / levels as f64).sum()
            })
            .collect()
    }
}

fn mean_of(values: &[f64]) -> f64 {
    values.iter().map(|value| value / values.len() as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn group(name: &str, values: &[f64]) -> Group {
        Group { name: name.into(), values: values.to_vec() }
    }

    /// Jain 1991, examples 20.1 to 20.6: code size on three processors, five programmers each.
    fn code_size() -> [Group; 3] {
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
    fn without_repetitions_the_interaction_is_the_error() {
        let factors = [
            Factor::new("cache", &["two", "one", "none"]),
            Factor::new("program", &["a", "b", "c", "d", "e"]),
        ];
        let y = [
            [54.0, 60.0, 43.0, 49.0, 49.0],
            [55.0, 60.0, 43.0, 52.0, 50.0],
            [106.0, 123.0, 120.0, 111.0, 108.0],
        ];
        let cells: Vec<Vec<f64>> = y.iter().flatten().map(|&y| vec![y]).collect();
        let anova = full_factorial(&factors, &cells, 0.90).unwrap();
        assert_eq!(anova.sources.len(), 2);
        assert_eq!(anova.degrees, 8.0);
        // Jain 1991, examples 21.1 to 21.3.
        assert!((anova.mean.value - 72.2).abs() < 0.05);
        assert!((anova.source("cache").unwrap().squares - 12_857.2).abs() < 0.1);
        assert!((anova.source("program").unwrap().squares - 308.4).abs() < 0.1);
        assert!((anova.error_squares - 236.8).abs() < 0.1 && (anova.error_sd - 5.44).abs() < 0.01);
    }

    #[test]
    fn a_missing_cell_and_an_uneven_one_are_named() {
        let factors = [Factor::new("servers", &["1", "3"]), Factor::new("workers", &["8", "32"])];
        let full = vec![vec![1.0, 2.0], vec![2.0, 3.0], vec![3.0, 1.0], vec![1.0, 5.0]];
        assert!(full_factorial(&factors, &full[..3], 0.95).is_err());
        let mut uneven = full.clone();
        uneven[2].pop();
        let error = full_factorial(&factors, &uneven, 0.95).unwrap_err();
        assert_eq!(error.to_string(), "cell 3 × 8: 1 repetitions where the first cell has 2");
        assert!(full_factorial(&factors, &vec![vec![2.0, 2.0]; 4], 0.95).is_err());
        assert!(
            full_factorial(&[Factor::new("servers", &["1", "3"])], &[vec![1.0], vec![2.0]], 0.95).is_err()
        );
        assert!(full_factorial(&[], &[], 0.95).is_err());
        assert!(full_factorial(&[Factor::new("servers", &["1"])], &[vec![1.0]], 0.95).is_err());
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

    proptest! {
        #[test]
        fn shares_sum_to_one_and_degrees_to_n_less_one(values in proptest::collection::vec(0.0..100.0f64, 36..=36)) {
            let factors = [Factor::new("a", &["1", "2", "3"]), Factor::new("b", &["1", "2"]), Factor::new("c", &["1", "2", "3"])];
            let cells: Vec<Vec<f64>> = values.chunks(2).map(<[f64]>::to_vec).collect();
            let anova = full_factorial(&factors, &cells, 0.95).unwrap();
            let shares: f64 = anova.sources.iter().map(|source| source.share).sum();
            let degrees: f64 = anova.sources.iter().map(|source| source.degrees).sum();
            prop_assert!((shares + anova.error_share - 1.0).abs() < 1e-9);
            prop_assert_eq!(degrees + anova.degrees, 35.0);
            let mean = mean_of(&values);
            let total: f64 = values.iter().map(|y| (y - mean).powi(2)).sum();
            prop_assert!((total - anova.total_squares).abs() < 1e-6 * total);
        }

        #[test]
        fn two_levels_give_the_same_table_as_the_sign_table(values in proptest::collection::vec(0.0..100.0f64, 8..=8)) {
            let cells: Vec<Vec<f64>> = values.chunks(2).map(<[f64]>::to_vec).collect();
            let signs = crate::factorial::TwoLevel::new(&["A", "B"], cells.clone()).unwrap().effects(0.9).unwrap();
            // The sign table's first factor changes fastest, here the last one does.
            let factors = [Factor::new("B", &["-1", "1"]), Factor::new("A", &["-1", "1"])];
            let anova = full_factorial(&factors, &cells, 0.9).unwrap();
            for (name, other) in [("A", "A"), ("B", "B"), ("AB", "B × A")] {
                let (sign, full) = (signs.effect(name).unwrap(), anova.source(other).unwrap());
                prop_assert!((sign.share - full.share).abs() < 1e-9);
            }
            let high = anova.effects.iter().find(|effect| effect.source == "A" && effect.level == "1").unwrap();
            let a = signs.effect("A").unwrap().estimate;
            prop_assert!((high.estimate.value - a.value).abs() < 1e-9);
            prop_assert!((high.estimate.interval.high - a.interval.high).abs() < 1e-6);
        }
    }
}
