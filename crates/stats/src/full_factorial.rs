//! Full factorial designs: any number of factors at any number of levels, all combinations
//! measured.
//!
//! Two factors with and without repetitions (Jain 1991, ch. 21 and 22), and any number of them (ch.
//! 23). Two levels each have their own, simpler form: [`crate::factorial`].

use crate::anova::{Anova, AnovaTable, mean_of};
use crate::error::{StatsError, all_finite, at_least, probability};
use serde::{Deserialize, Serialize};

/// A factor of a full factorial design.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DesignFactor {
    /// Its name.
    pub name: String,
    /// Names of its levels, two or more.
    pub levels: Vec<String>,
}

impl DesignFactor {
    /// A factor with its levels.
    pub fn new(name: &str, levels: &[&str]) -> Self {
        Self { name: name.to_owned(), levels: levels.iter().map(|&level| level.to_owned()).collect() }
    }
}

/// Analyses a full factorial design: every combination of levels, each with the same number r of
/// repetitions. `cells` stand with the last factor changing fastest.
///
/// With r ≥ 2 all interactions are separated from the error. With r = 1 the interaction of all
/// factors *is* the error (Jain 1991, ch. 21): true only if the factors do not interact.
///
/// The effect of a set of levels is what their mean differs by from all simpler effects,
/// Σ_{T ⊆ S} (−1)^{|S|−|T|} ȳ_T; its standard error is s_e √(Π_{i ∈ S} (a_i − 1) / N).
///
/// # Errors
/// If a factor has fewer than two levels, cells are missing or differ in their repetitions, there
/// is one factor and r = 1, a value is not finite, all are alike, or the level is not between 0
/// and 1.
pub fn full_factorial(factors: &[DesignFactor], cells: &[Vec<f64>], level: f64) -> Result<Anova, StatsError> {
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
    // Without repetitions the last set, the interaction of all factors, takes the place of the
    // error.
    let (kept, error_squares, degrees) = if repetitions > 1 {
        (sets.len(), scatter, (cells.len() * (repetitions - 1)) as f64)
    } else {
        at_least("repetitions of a one-factor design", factors.len(), 2)?;
        let last = sets.len() - 1;
        (last, squares[last], grid.degrees(sets[last]))
    };
    let total = squares.iter().sum::<f64>() + scatter;
    let mut table = AnovaTable::new(n as u64, mean_of(&cell_means), total, error_squares, degrees, level)?;
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

/// Cells of a full factorial design by their levels; a set of factors is a bit mask.
struct Grid<'a> {
    factors: &'a [DesignFactor],
    /// How far apart in the list of cells two levels of a factor stand.
    strides: Vec<usize>,
    cells: usize,
}

impl<'a> Grid<'a> {
    fn new(factors: &'a [DesignFactor], cells: &[Vec<f64>]) -> Result<Self, StatsError> {
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

    /// The effect of the set's levels in every cell. Taking "value − mean over this factor" for
    /// each factor in the set, and the mean over each factor outside, is the same as the
    /// alternating sum of all marginal means.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_repetitions_the_interaction_is_the_error() {
        let factors = [
            DesignFactor::new("cache", &["two", "one", "none"]),
            DesignFactor::new("program", &["a", "b", "c", "d", "e"]),
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
        let factors = [DesignFactor::new("servers", &["1", "3"]), DesignFactor::new("workers", &["8", "32"])];
        let full = vec![vec![1.0, 2.0], vec![2.0, 3.0], vec![3.0, 1.0], vec![1.0, 5.0]];
        assert!(full_factorial(&factors, &full[..3], 0.95).is_err());
        let mut uneven = full.clone();
        uneven[2].pop();
        let error = full_factorial(&factors, &uneven, 0.95).unwrap_err();
        assert_eq!(error.to_string(), "cell 3 × 8: 1 repetitions where the first cell has 2");
        assert!(full_factorial(&factors, &vec![vec![2.0, 2.0]; 4], 0.95).is_err());
        assert!(
            full_factorial(&[DesignFactor::new("servers", &["1", "3"])], &[vec![1.0], vec![2.0]], 0.95)
                .is_err()
        );
        assert!(full_factorial(&[], &[], 0.95).is_err());
        assert!(full_factorial(&[DesignFactor::new("servers", &["1"])], &[vec![1.0]], 0.95).is_err());
    }

    proptest! {
        #[test]
        fn shares_sum_to_one_and_degrees_to_n_less_one(values in proptest::collection::vec(0.0..100.0f64, 36..=36)) {
            let factors = [DesignFactor::new("a", &["1", "2", "3"]), DesignFactor::new("b", &["1", "2"]), DesignFactor::new("c", &["1", "2", "3"])];
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
            let factors = [DesignFactor::new("B", &["-1", "1"]), DesignFactor::new("A", &["-1", "1"])];
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
