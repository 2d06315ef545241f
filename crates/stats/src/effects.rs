//! Effects of a 2^k·r design: their size, their share of the variation, and what the error allows
//! to be said of them.
//!
//! ```text
//! q = Σ sign · cell mean / 2^k      SSj = 2^k r qj²      SST = Σ SSj + SSE
//! s_e = √(SSE / 2^k(r−1))           s_q = s_e / √(2^k r)
//! ```
//!
//! Jain 1991, §18.2 to 18.5. Where each repetition is a block, in which every cell comes once, what
//! its values have in common is in no difference of cells (Montgomery 2017, ch. 4). Each repetition
//! has a value of every effect, q_j, and these r values are what is known of its error: only some
//! effects feel a machine that changes, where it does not act alike on all cells.
//!
//! ```text
//! SSR = 2^k Σ (mean of a repetition − mean of all)²           SST = Σ SSj + SSR + SSE
//! s_e = √(SSE / (2^k−1)(r−1))       s_q = √(Σ (q_j − q)² / (r−1)) / √r      also of the mean, q0
//! ```

use crate::error::{StatsError, all_finite, at_least, finite, probability};
use crate::factorial::{MOST_FACTORS, Term, TwoLevel};
use crate::interval::Estimate;
use crate::summary::Summary;
use crate::tails::t_two_sided_quantile;
use serde::{Deserialize, Serialize};

impl TwoLevel {
    /// Effects, allocation of variation and intervals of the additive model.
    ///
    /// # Errors
    /// If r < 2 (without repetitions nothing is known of the error: see [`TwoLevel::screen`]), all
    /// values are alike, or the level is not between 0 and 1.
    pub fn effects(&self, level: f64) -> Result<Effects, StatsError> {
        at_least("repetitions", self.repetitions(), 2)?;
        let errors: f64 = self.residuals().iter().map(|residual| residual.residual.powi(2)).sum();
        analysis(self.factors(), &self.means(), self.repetitions(), errors, None, level)
    }

    /// The same where each repetition is a block: the j-th values of all cells were measured in
    /// succession, and have in common what the machine was like then. Each repetition has a value
    /// of every effect and of the mean, and the interval of each is that of the mean of its r
    /// values.
    ///
    /// # Errors
    /// As [`TwoLevel::effects`].
    pub fn effects_in_blocks(&self, level: f64) -> Result<Effects, StatsError> {
        at_least("repetitions", self.repetitions(), 2)?;
        let errors: f64 = self.residuals_in_blocks().iter().map(|residual| residual.residual.powi(2)).sum();
        let effects = self.effects_of_repetitions()?;
        analysis(self.factors(), &self.means(), self.repetitions(), errors, Some(&effects), level)
    }

    /// The r values of each effect, one of every repetition, as [`Term::all`] lists them.
    fn effects_of_repetitions(&self) -> Result<Vec<Summary>, StatsError> {
        let repetitions: Vec<Vec<f64>> = (0..self.repetitions())
            .map(|repetition| self.cells().iter().map(|cell| cell[repetition]).collect())
            .collect();
        let of_term = |term: Term| {
            let effects: Vec<f64> = repetitions.iter().map(|values| effect(values, term)).collect();
            Summary::of(&effects)
        };
        Term::all(self.factors().len()).into_iter().map(of_term).collect()
    }

    /// Shares of variation alone, also for r = 1 (Jain's 2^k designs, ch. 17): descriptive, for
    /// choosing what to measure next. Every share then holds the error, too.
    ///
    /// # Errors
    /// If all values are alike.
    pub fn screen(&self) -> Result<Vec<(Term, f64)>, StatsError> {
        let means = self.means();
        let squares: Vec<(Term, f64)> = Term::all(self.factors().len())
            .into_iter()
            .skip(1)
            .map(|term| (term, effect(&means, term).powi(2)))
            .collect();
        let total = finite("total variation", squares.iter().map(|(_, squares)| squares).sum())?;
        if total == 0.0 {
            return Err(StatsError::Constant { what: "means of the cells" });
        }
        Ok(squares.into_iter().map(|(term, squares)| (term, squares / total)).collect())
    }
}

/// One effect with its share of the variation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Which product of factors.
    pub term: Term,
    /// Its name in words.
    pub name: String,
    /// q: half of what going from low to high changes, in the unit of y.
    pub estimate: Estimate,
    /// Sum of squares 2^k · r · q².
    pub squares: f64,
    /// Share of the total variation, 0 to 1: how much it *matters*, which is not whether it is
    /// *significant* (the interval says that).
    pub share: f64,
}

impl Effect {
    /// For effects of logarithms: y is multiplied by this at the high level and divided by it at
    /// the low one.
    ///
    /// # Errors
    /// If the exponential leaves the range of `f64`.
    pub fn ratio(&self) -> Result<Estimate, StatsError> {
        self.estimate.map(f64::exp)
    }
}

/// What repetitions differ by, each being a block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockVariation {
    /// SSR: variation of the repetitions' means about the mean of all, once for each cell.
    pub squares: f64,
    /// SSR / SST.
    pub share: f64,
}

/// Analysis of a 2^k·r design. Shares of all effects, of blocks and of the error sum to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effects {
    /// Names of the factors.
    pub factors: Vec<String>,
    /// Repetitions r of each cell.
    pub repetitions: u64,
    /// q0, the mean of all.
    pub mean: Estimate,
    /// All other effects, as [`Term::all`] lists them.
    pub effects: Vec<Effect>,
    /// SST: variation of all values about their mean.
    pub total_squares: f64,
    /// What repetitions differ by; none where they are no blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<BlockVariation>,
    /// SSE: variation of the values of each cell about their mean, without that of blocks.
    pub error_squares: f64,
    /// SSE / SST.
    pub error_share: f64,
    /// Degrees of freedom of the error, 2^k (r − 1); in blocks (2^k − 1)(r − 1), while the interval
    /// of an effect has r − 1.
    pub degrees: f64,
    /// s_e = √(SSE / degrees), the standard deviation of one measurement; in blocks within its own.
    pub error_sd: f64,
}

impl Effects {
    /// The effect of this name (`AB`, `servers × workers`).
    pub fn effect(&self, name: &str) -> Option<&Effect> {
        self.effects.iter().find(|effect| effect.name == name)
    }
}

/// What a publication says of its error, when it prints means alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KnownError {
    /// SSE itself.
    Squares(f64),
    /// SSE / SST, between 0 and 1.
    Share(f64),
    /// Half of the width of the effects' intervals (they are all equally wide), at their level.
    HalfWidth {
        /// Half-width in the unit of y.
        half: f64,
        /// Level at which it was printed.
        level: f64,
    },
}

/// Recovers the whole analysis from the printed means of the cells (sign-table order), r, and one
/// number about the error.
///
/// # Errors
/// As [`TwoLevel::effects`], and if the number about the error is out of its range.
pub fn recover(
    factors: &[&str],
    means: &[f64],
    repetitions: usize,
    error: KnownError,
    level: f64,
) -> Result<Effects, StatsError> {
    at_least("repetitions", repetitions, 2)?;
    let design = TwoLevel::new(factors, means.iter().map(|&mean| vec![mean]).collect())?;
    let n = (means.len() * repetitions) as f64;
    let explained: f64 =
        Term::all(factors.len()).into_iter().skip(1).map(|term| n * effect(means, term).powi(2)).sum();
    let (given, errors) = match error {
        KnownError::Squares(squares) => (squares, squares),
        KnownError::Share(share) if share < 1.0 => (share, explained * share / (1.0 - share)),
        KnownError::Share(share) => {
            return Err(StatsError::OutOfRange {
                what: "share of the error",
                value: share,
                range: "from 0 to below 1",
            });
        }
        KnownError::HalfWidth { half, level } => {
            let degrees = (means.len() * (repetitions - 1)) as f64;
            (half, (half / t_two_sided_quantile(level, degrees)?).powi(2) * n * degrees)
        }
    };
    if given.is_nan() || given < 0.0 {
        return Err(StatsError::OutOfRange {
            what: "error of the design",
            value: given,
            range: "0 or above",
        });
    }
    analysis(design.factors(), means, repetitions, errors, None, level)
}

/// The means of the cells from the effects, both in their usual orders (means: sign table; effects:
/// [`Term::all`], q0 first). The sign table is its own inverse up to 2^k.
///
/// # Errors
/// If the number of effects is not a power of two, at least 2, or one is not finite.
pub fn means_from_effects(effects: &[f64]) -> Result<Vec<f64>, StatsError> {
    all_finite("effects", effects)?;
    if !effects.len().is_power_of_two() || effects.len() < 2 || effects.len() > 1 << MOST_FACTORS {
        let why = format!("{} effects are not 2^k of them", effects.len());
        return Err(StatsError::Design { why });
    }
    let terms = Term::all(effects.len().trailing_zeros() as usize);
    Ok((0..effects.len())
        .map(|cell| terms.iter().zip(effects).map(|(term, q)| term.sign(cell) * q).sum())
        .collect())
}

/// q = Σ sign · mean / 2^k.
fn effect(means: &[f64], term: Term) -> f64 {
    means.iter().enumerate().map(|(cell, mean)| term.sign(cell) * mean / means.len() as f64).sum()
}

/// The analysis from the means of the cells, SSE, and where repetitions are blocks the values that
/// these have of each effect: q ± t[1−α/2; degrees of the error] s_q, in blocks with r − 1 degrees.
fn analysis(
    factors: &[String],
    means: &[f64],
    repetitions: usize,
    error_squares: f64,
    of_repetitions: Option<&[Summary]>,
    level: f64,
) -> Result<Effects, StatsError> {
    probability("level", level)?;
    let (cells, of_one_cell) = (means.len() as f64, (repetitions - 1) as f64);
    let n = cells * repetitions as f64;
    let degrees = if of_repetitions.is_some() { (cells - 1.0) * of_one_cell } else { cells * of_one_cell };
    let terms = Term::all(factors.len());
    let q: Vec<f64> = terms.iter().map(|&term| effect(means, term)).collect();
    let squares: Vec<f64> = q.iter().map(|q| n * q * q).collect();
    let block_squares = of_repetitions.map(|effects| cells * effects[0].squares);
    let scatter = error_squares + block_squares.unwrap_or(0.0);
    let total_squares = finite("total variation", squares[1..].iter().sum::<f64>() + scatter)?;
    if total_squares == 0.0 {
        return Err(StatsError::Constant { what: "values of the design" });
    }
    let error_sd = (error_squares / degrees).sqrt();
    let estimate = |j: usize| {
        let (standard_error, degrees) = match of_repetitions {
            Some(effects) => (effects[j].standard_error()?, of_one_cell),
            None => (error_sd / n.sqrt(), degrees),
        };
        Estimate::student(q[j], n as u64, standard_error, degrees, level)
    };
    let mean = estimate(0)?;
    let effects = (1..terms.len())
        .map(|j| {
            Ok(Effect {
                term: terms[j],
                name: terms[j].name(factors),
                estimate: estimate(j)?,
                squares: squares[j],
                share: squares[j] / total_squares,
            })
        })
        .collect::<Result<Vec<_>, StatsError>>()?;
    Ok(Effects {
        factors: factors.to_vec(),
        repetitions: repetitions as u64,
        mean,
        effects,
        total_squares,
        blocks: block_squares.map(|squares| BlockVariation { squares, share: squares / total_squares }),
        error_squares,
        error_share: error_squares / total_squares,
        degrees,
        error_sd,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::paired;
    use crate::factorial::tests::memory_and_cache;
    use proptest::prelude::*;

    #[test]
    fn the_textbook_design_comes_out_as_printed() {
        let result = memory_and_cache().effects(0.90).unwrap();
        assert_eq!(result.mean.value, 41.0);
        let q: Vec<f64> = result.effects.iter().map(|effect| effect.estimate.value).collect();
        assert_eq!(q, [21.5, 9.5, 5.0]);
        assert!((result.total_squares - 7032.0).abs() < 1e-9 && (result.error_squares - 102.0).abs() < 1e-9);
        assert!((result.error_sd - 3.57).abs() < 0.005 && result.degrees == 8.0);
        assert!(
            (result.mean.interval.low - 39.08).abs() < 0.01
                && (result.mean.interval.high - 42.91).abs() < 0.01
        );
        let a = result.effect("A").unwrap();
        assert!((a.estimate.interval.low - 19.58).abs() < 0.01 && (a.share - 5547.0 / 7032.0).abs() < 1e-12);
    }

    /// 100, 120, 140 and 160 on a machine that makes a repetition 18 less, another 18 more: nothing
    /// else differs.
    fn on_a_machine_that_changes() -> TwoLevel {
        let cells = [100.0, 120.0, 140.0, 160.0].map(|mean| vec![mean, mean - 18.0, mean + 18.0]);
        TwoLevel::new(&["A", "B"], cells.to_vec()).unwrap()
    }

    #[test]
    fn what_a_repetition_has_in_common_is_in_the_mean_and_in_no_effect() {
        let result = on_a_machine_that_changes().effects_in_blocks(0.95).unwrap();
        // Means of the repetitions: 130, 112 and 148; t[0.975; 2] = 4.303.
        let half = 4.302_653 * (2592.0_f64 / 2.0 / 12.0).sqrt();
        assert!((result.mean.value - 130.0).abs() < 1e-9 && (half - 44.7).abs() < 0.05);
        assert!((result.mean.interval.half_width() - half).abs() < 1e-4, "{:?}", result.mean);
        let a = result.effect("A").unwrap();
        assert!((a.estimate.value - 10.0).abs() < 1e-9 && a.estimate.interval.half_width() < 1e-9);
        assert!(a.estimate.differs_from_zero() && result.degrees == 6.0);
        let blocks = result.blocks.unwrap();
        assert!((blocks.squares - 2592.0).abs() < 1e-9 && (blocks.share - 2592.0 / 8592.0).abs() < 1e-12);
        assert!(result.error_share < 1e-12, "{}", result.error_share);
    }

    /// One repetition is 18 slower at the low level of A alone, another 18 quicker: A is 10, 19 and
    /// 1, and from what is left of all runs ± 7.3.
    #[test]
    fn what_one_level_alone_feels_is_in_the_interval_of_its_effect() {
        let cells = [[100.0, 82.0, 118.0], [120.0; 3], [100.0, 82.0, 118.0], [120.0; 3]];
        let design = TwoLevel::new(&["A", "B"], cells.map(Vec::from).to_vec()).unwrap();
        let result = design.effects_in_blocks(0.95).unwrap();
        let a = result.effect("A").unwrap().estimate;
        // t[0.975; 2] = 4.303.
        assert!((a.interval.half_width() - 4.302_653 * 9.0 / 3.0_f64.sqrt()).abs() < 1e-4, "{a:?}");
        assert!((a.value - 10.0).abs() < 1e-9 && !a.differs_from_zero(), "{a:?}");
        // No repetition shows anything of B.
        let b = result.effect("B").unwrap().estimate;
        assert!(b.value.abs() < 1e-9 && b.interval.half_width() < 1e-9, "{b:?}");
    }

    #[test]
    fn without_blocks_a_machine_that_changes_is_in_the_error() {
        let result = on_a_machine_that_changes().effects(0.95).unwrap();
        assert!(result.blocks.is_none() && (result.error_share - 2592.0 / 8592.0).abs() < 1e-12);
        assert!(!result.effect("A").unwrap().estimate.differs_from_zero());
    }

    #[test]
    fn of_one_factor_in_blocks_the_effect_is_half_the_difference_of_pairs() {
        let (low, high) = ([10_000.0, 8_200.0, 11_800.0], [11_000.0, 9_184.0, 12_744.0]);
        let cells = vec![low.to_vec(), high.to_vec()];
        let result = TwoLevel::new(&["A"], cells).unwrap().effects_in_blocks(0.95).unwrap();
        let effect = result.effect("A").unwrap().estimate;
        let pairs = paired(&low, &high, 0.95).unwrap().difference;
        assert!((effect.value - pairs.value / 2.0).abs() < 1e-6);
        assert!((effect.interval.low - pairs.interval.low / 2.0).abs() < 1e-6, "{effect:?} {pairs:?}");
    }

    #[test]
    fn a_product_is_additive_in_its_logarithms() {
        let cells = vec![vec![1.0, 1.1], vec![10.0, 11.0], vec![100.0, 110.0], vec![1000.0, 1100.0]];
        let design = TwoLevel::new(&["A", "B"], cells).unwrap();
        assert!(design.effects(0.95).unwrap().effect("AB").unwrap().share > 0.2);
        let logarithms = design.logarithms().unwrap().effects(0.95).unwrap();
        assert!(logarithms.effect("AB").unwrap().share < 1e-12);
        let ratio = logarithms.effect("A").unwrap().ratio().unwrap();
        assert!(
            (ratio.value.powi(2) - 10.0).abs() < 1e-9,
            "from low to high y grows by the square of the ratio"
        );
    }

    proptest! {
        #[test]
        fn shares_sum_to_one_and_the_numbers_about_the_error_are_interchangeable(
            values in proptest::collection::vec(1.0..1000.0f64, 16..=16), level in 0.5..0.99f64,
        ) {
            let cells: Vec<Vec<f64>> = values.chunks(2).map(<[f64]>::to_vec).collect();
            let design = TwoLevel::new(&["A", "B", "C"], cells).unwrap();
            let result = design.effects(level).unwrap();
            let shares: f64 = result.effects.iter().map(|effect| effect.share).sum();
            prop_assert!((shares + result.error_share - 1.0).abs() < 1e-12);
            let in_blocks = design.effects_in_blocks(level).unwrap();
            prop_assert!((in_blocks.effects[0].share - result.effects[0].share).abs() < 1e-12);
            let scatter = in_blocks.blocks.unwrap().share + in_blocks.error_share;
            prop_assert!((scatter - result.error_share).abs() < 1e-12);
            for known in [
                KnownError::Squares(result.error_squares),
                KnownError::Share(result.error_share),
                KnownError::HalfWidth { half: result.mean.interval.half_width(), level },
            ] {
                let again = recover(&["A", "B", "C"], &design.means(), 2, known, level).unwrap();
                prop_assert!((again.error_squares - result.error_squares).abs() < 1e-6 * result.total_squares);
                prop_assert!((again.mean.interval.low - result.mean.interval.low).abs() < 1e-6 * result.mean.value);
            }
        }

        #[test]
        fn effects_and_means_turn_into_each_other(means in proptest::collection::vec(-100.0..100.0f64, 8..=8)) {
            let q: Vec<f64> = Term::all(3).into_iter().map(|term| effect(&means, term)).collect();
            for (again, mean) in means_from_effects(&q).unwrap().iter().zip(&means) {
                prop_assert!((again - mean).abs() < 1e-9);
            }
        }
    }
}
