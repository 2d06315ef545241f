//! 2^k·r designs: every factor at two levels, every combination r times, in Jain's form (1991, ch.
//! 17 and 18).
//!
//! ```text
//! y_ij = q0 + qA xA + qB xB + qAB xA xB + … + e_ij        x = −1 at the low level, +1 at the high one
//! ```
//!
//! Cells stand in the order of the sign table: the first factor changes fastest.
//!
//! | cell | I | A | B | AB |
//! |---|---|---|---|---|
//! | 0 | 1 | −1 | −1 | 1 |
//! | 1 | 1 | 1 | −1 | −1 |
//! | 2 | 1 | −1 | 1 | −1 |
//! | 3 | 1 | 1 | 1 | 1 |

use crate::error::{StatsError, all_finite, at_least};
use crate::qq::{QqPlot, normal_qq};
use serde::{Deserialize, Serialize};

/// More factors than this mean more than four thousand cells: measure a fraction of them
/// ([`crate::fractional`]).
pub(crate) const MOST_FACTORS: usize = 12;

/// A product of factors: bit j set when factor j is in it. 0 is the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Term(pub u32);

impl Term {
    /// How many factors it holds: 1 for a main effect, 2 for an interaction of two.
    pub fn order(self) -> u32 {
        self.0.count_ones()
    }

    /// Its sign in a cell: the product of the factors' signs there.
    pub fn sign(self, cell: usize) -> f64 {
        // Every factor of the term at its low level contributes −1.
        if (self.0 & !(cell as u32)).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 }
    }

    /// Its name: letters side by side (`AB`), longer names with a cross (`servers × workers`),
    /// `mean` for none.
    pub fn name(self, factors: &[String]) -> String {
        if self.0 == 0 {
            return "mean".to_owned();
        }
        let parts: Vec<&str> = factors
            .iter()
            .enumerate()
            .filter(|(index, _)| self.0 >> index & 1 == 1)
            .map(|(_, name)| name.as_str())
            .collect();
        let letters = factors.iter().all(|name| name.chars().count() == 1);
        parts.join(if letters { "" } else { " × " })
    }

    /// All terms of `factors` factors (at most 31) as the tables list them: mean, A, B, C, AB, AC,
    /// BC, ABC.
    pub fn all(factors: usize) -> Vec<Self> {
        let mut terms: Vec<Self> = (0..1u32 << factors).map(Self).collect();
        // Within one order alphabetical: AB before AC means comparing from the first factor on.
        terms.sort_by_key(|term| (term.order(), std::cmp::Reverse(term.0.reverse_bits())));
        terms
    }
}

/// A measured 2^k·r design.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TwoLevel {
    // Names of the k factors, 1 ≤ k ≤ 12, no two alike.
    factors: Vec<String>,
    // 2^k cells in sign-table order, each with the same number r ≥ 1 of finite values.
    cells: Vec<Vec<f64>>,
}

/// One measurement and where it belongs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// For each factor, whether it was at its high level.
    pub high: Vec<bool>,
    /// What was measured.
    pub y: f64,
}

/// What the model left of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Residual {
    /// Cell, in sign-table order from 0.
    pub cell: usize,
    /// Repetition, from 0, in the order given.
    pub repetition: usize,
    /// What the model says: with all interactions in it, the mean of the cell; in blocks with what
    /// the repetition's values have in common added.
    pub predicted: f64,
    /// Measured − predicted.
    pub residual: f64,
}

impl TwoLevel {
    /// A design from its cells in sign-table order.
    ///
    /// # Errors
    /// If the number of cells is not 2^k, cells differ in their number of values, two factors share
    /// a name, or a value is not finite.
    pub fn new(factors: &[&str], cells: Vec<Vec<f64>>) -> Result<Self, StatsError> {
        let factors = checked_names(factors)?;
        if cells.len() != 1 << factors.len() {
            return Err(StatsError::Unequal {
                what: "cells and 2^k",
                left: cells.len(),
                right: 1 << factors.len(),
            });
        }
        let repetitions = cells[0].len();
        at_least("repetitions", repetitions, 1)?;
        for (index, cell) in cells.iter().enumerate() {
            if cell.len() != repetitions {
                let why = format!("{} repetitions where the first cell has {repetitions}", cell.len());
                return Err(StatsError::Cell { cell: cell_name(&factors, index), why });
            }
            if let Err(error) = all_finite("repetitions", cell) {
                return Err(StatsError::Cell { cell: cell_name(&factors, index), why: error.to_string() });
            }
        }
        Ok(Self { factors, cells })
    }

    /// A design from single measurements in any order; repetitions keep theirs.
    ///
    /// # Errors
    /// As [`TwoLevel::new`], and if a measurement does not state the level of every factor.
    pub fn from_observations(factors: &[&str], observations: &[Observation]) -> Result<Self, StatsError> {
        checked_names(factors)?;
        let mut cells = vec![Vec::new(); 1 << factors.len()];
        for observation in observations {
            if observation.high.len() != factors.len() {
                let (left, right) = (observation.high.len(), factors.len());
                return Err(StatsError::Unequal { what: "levels of a measurement and factors", left, right });
            }
            let cell: usize =
                observation.high.iter().enumerate().map(|(j, &high)| usize::from(high) << j).sum();
            cells[cell].push(observation.y);
        }
        Self::new(factors, cells)
    }

    /// Names of the factors.
    pub fn factors(&self) -> &[String] {
        &self.factors
    }

    /// Values of each cell, in sign-table order.
    pub fn cells(&self) -> &[Vec<f64>] {
        &self.cells
    }

    /// Number of repetitions r.
    pub fn repetitions(&self) -> usize {
        self.cells[0].len()
    }

    /// Mean of each cell.
    pub fn means(&self) -> Vec<f64> {
        let r = self.repetitions() as f64;
        self.cells.iter().map(|cell| cell.iter().map(|y| y / r).sum()).collect()
    }

    /// Residuals of the model with all interactions, cell by cell.
    pub fn residuals(&self) -> Vec<Residual> {
        let means = self.means();
        let of_cell = |cell: usize| {
            let predicted = means[cell];
            self.cells[cell].iter().enumerate().map(move |(repetition, y)| Residual {
                cell,
                repetition,
                predicted,
                residual: y - predicted,
            })
        };
        (0..self.cells.len()).flat_map(of_cell).collect()
    }

    /// Residuals where each repetition is a block, as [`TwoLevel::effects_in_blocks`] has it: what
    /// its values have in common is no residual. They sum to 0 over each cell and each repetition.
    pub fn residuals_in_blocks(&self) -> Vec<Residual> {
        let blocks = self.blocks();
        let mut residuals = self.residuals();
        for one in &mut residuals {
            one.predicted += blocks[one.repetition];
            one.residual -= blocks[one.repetition];
        }
        residuals
    }

    /// What the values of each repetition have in common: their mean − the mean of all.
    fn blocks(&self) -> Vec<f64> {
        let cells = self.cells.len() as f64;
        let mean: f64 = self.means().iter().map(|mean| mean / cells).sum();
        (0..self.repetitions())
            .map(|repetition| self.cells.iter().map(|cell| cell[repetition] / cells).sum::<f64>() - mean)
            .collect()
    }

    /// Residuals against the normal law.
    ///
    /// # Errors
    /// If all residuals are alike, or there are fewer than 3.
    pub fn residual_qq(&self) -> Result<QqPlot, StatsError> {
        let residuals: Vec<f64> = self.residuals().iter().map(|residual| residual.residual).collect();
        normal_qq(&residuals)
    }

    /// The same design of ln y, for the multiplicative model y = u0 · uA^xA · uB^xB · … (Jain 1991,
    /// §18.8): take its effects' [`crate::effects::Effect::ratio`].
    ///
    /// # Errors
    /// If a value is not above 0.
    pub fn logarithms(&self) -> Result<Self, StatsError> {
        if let Some(&value) = self.cells.iter().flatten().find(|&&y| y <= 0.0) {
            return Err(StatsError::OutOfRange {
                what: "value for a multiplicative model",
                value,
                range: "above 0",
            });
        }
        let cells = self.cells.iter().map(|cell| cell.iter().map(|y| y.ln()).collect()).collect();
        Ok(Self { factors: self.factors.clone(), cells })
    }
}

fn checked_names(factors: &[&str]) -> Result<Vec<String>, StatsError> {
    if factors.is_empty() || factors.len() > MOST_FACTORS {
        let why = format!("{} factors, where 1 to {MOST_FACTORS} are possible", factors.len());
        return Err(StatsError::Design { why });
    }
    for (index, name) in factors.iter().enumerate() {
        if factors[..index].contains(name) {
            return Err(StatsError::Design { why: format!("two factors are named `{name}`") });
        }
    }
    Ok(factors.iter().map(|&name| name.to_owned()).collect())
}

/// `A=-1 B=+1`.
fn cell_name(factors: &[String], cell: usize) -> String {
    let levels: Vec<String> = factors
        .iter()
        .enumerate()
        .map(|(j, name)| format!("{name}={}1", if cell >> j & 1 == 1 { '+' } else { '-' }))
        .collect();
    levels.join(" ")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Jain 1991, examples 18.1 to 18.5: memory (A) and cache (B), three repetitions.
    pub(crate) fn memory_and_cache() -> TwoLevel {
        let cells = [[15.0, 18.0, 12.0], [45.0, 48.0, 51.0], [25.0, 28.0, 19.0], [75.0, 75.0, 81.0]];
        TwoLevel::new(&["A", "B"], cells.iter().map(|cell| cell.to_vec()).collect()).unwrap()
    }

    #[test]
    fn terms_stand_in_the_order_of_the_tables() {
        let factors: Vec<String> = ["A", "B", "C"].map(str::to_owned).to_vec();
        let names: Vec<String> = Term::all(3).iter().map(|term| term.name(&factors)).collect();
        assert_eq!(names, ["mean", "A", "B", "C", "AB", "AC", "BC", "ABC"]);
        let long: Vec<String> = ["servers", "workers"].map(str::to_owned).to_vec();
        assert_eq!(Term(3).name(&long), "servers × workers");
    }

    #[test]
    fn measurements_find_their_cells_in_any_order() {
        let design = memory_and_cache();
        let mut observations = Vec::new();
        for repetition in 0..3 {
            for cell in [3, 0, 2, 1] {
                let high = vec![cell & 1 == 1, cell & 2 == 2];
                observations.push(Observation { high, y: design.cells()[cell][repetition] });
            }
        }
        assert_eq!(TwoLevel::from_observations(&["A", "B"], &observations).unwrap(), design);
    }

    #[test]
    fn a_cell_that_lacks_a_repetition_is_named() {
        let cells = vec![vec![1.0, 2.0], vec![1.0, 2.0], vec![1.0], vec![1.0, 2.0]];
        let error = TwoLevel::new(&["A", "B"], cells).unwrap_err();
        assert_eq!(error.to_string(), "cell A=-1 B=+1: 1 repetitions where the first cell has 2");
    }

    #[test]
    fn extreme_inputs_are_named() {
        assert!(TwoLevel::new(&[], vec![vec![1.0]]).is_err());
        assert!(TwoLevel::new(&["A", "A"], vec![vec![1.0]; 4]).is_err());
        assert!(TwoLevel::new(&["A"], vec![vec![1.0]; 3]).is_err());
        assert!(TwoLevel::new(&["A"], vec![vec![], vec![]]).is_err());
        assert!(TwoLevel::new(&["A"], vec![vec![1.0], vec![f64::NAN]]).is_err());
        let once = TwoLevel::new(&["A"], vec![vec![1.0], vec![2.0]]).unwrap();
        assert!(matches!(
            once.effects(0.95),
            Err(StatsError::TooFew { what: "repetitions", have: 1, need: 2 })
        ));
        assert_eq!(once.screen().unwrap(), [(Term(1), 1.0)]);
        let same = TwoLevel::new(&["A"], vec![vec![1.0; 2]; 2]).unwrap();
        assert!(matches!(same.effects(0.95), Err(StatsError::Constant { .. })));
        assert!(TwoLevel::new(&["A"], vec![vec![0.0; 2]; 2]).unwrap().logarithms().is_err());
    }

    proptest! {
        #[test]
        fn residuals_of_every_cell_sum_to_zero(values in proptest::collection::vec(-100.0..100.0f64, 12..=12)) {
            let cells: Vec<Vec<f64>> = values.chunks(3).map(<[f64]>::to_vec).collect();
            let residuals = TwoLevel::new(&["A", "B"], cells).unwrap().residuals();
            for cell in residuals.chunks(3) {
                prop_assert!(cell.iter().map(|residual| residual.residual).sum::<f64>().abs() < 1e-9);
            }
        }

        #[test]
        fn in_blocks_they_do_so_in_every_repetition_too(
            values in proptest::collection::vec(-100.0..100.0f64, 12..=12),
        ) {
            let cells: Vec<Vec<f64>> = values.chunks(3).map(<[f64]>::to_vec).collect();
            let residuals = TwoLevel::new(&["A", "B"], cells).unwrap().residuals_in_blocks();
            for place in 0..4 {
                let of_cell = residuals.iter().filter(|residual| residual.cell == place);
                prop_assert!(of_cell.map(|residual| residual.residual).sum::<f64>().abs() < 1e-9);
                let of_block = residuals.iter().filter(|residual| residual.repetition == place);
                prop_assert!(of_block.map(|residual| residual.residual).sum::<f64>().abs() < 1e-9);
            }
            for (residual, y) in residuals.iter().zip(&values) {
                prop_assert!((residual.predicted + residual.residual - y).abs() < 1e-9);
            }
        }
    }
}
