//! A 2^k·r design, where the experiment is one: which factors matter, by a model whose choice is
//! told (Jain 1991, chapters 17 and 18).
//!
//! ```text
//! additive        y = q0 + qA·xA + qB·xB + qAB·xA·xB + … + e          xA = −1 at the low level, +1 at the high one
//! multiplicative  ln y = the same: each factor multiplies
//! ```
//!
//! A repetition is a block in which every cell comes once: what its runs have in common is the
//! machine's, and no error of an effect.

use std::fmt;

use krarup_stats::effects::Effects;
use krarup_stats::factorial::{Observation, TwoLevel};
use krarup_stats::qq::normal_qq;
use krarup_stats::{Summary, USUAL_LEVEL};
use krarup_units::text;
use serde::{Deserialize, Serialize};

use crate::blocks;
use crate::cell::{Cell, Repetition};
use crate::change::Measure;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// Effects are added.
    Additive,
    /// Effects are multiplied.
    Multiplicative,
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Additive => "additive",
            Self::Multiplicative => "multiplicative",
        })
    }
}

/// Why that one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DesignReason {
    /// The largest value is so many times the smallest: errors of one size cannot belong to both.
    WideRange {
        /// Largest ÷ smallest.
        ratio: f64,
    },
    /// The errors grow with the values, and less so in logarithms.
    ErrorsGrow {
        /// Correlation of a cell's spread with its mean.
        additive: f64,
        /// The same of the logarithms.
        multiplicative: f64,
    },
    /// The errors grow with the values, and no less so in logarithms: the simpler one.
    GrowsAnyhow {
        /// Correlation of a cell's spread with its mean.
        additive: f64,
        /// The same of the logarithms.
        multiplicative: f64,
    },
    /// Neither holds: the simpler one.
    Simpler {
        /// Largest ÷ smallest.
        ratio: f64,
    },
    /// Two cells do not show whether errors grow with values: the simpler one.
    TwoCells {
        /// Largest ÷ smallest.
        ratio: f64,
    },
    /// There are values that are not above 0.
    NotPositive,
}

impl fmt::Display for DesignReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WideRange { ratio } => {
                write!(f, "the largest value is {} times the smallest", text::three_digits(*ratio))
            }
            Self::ErrorsGrow { additive, multiplicative } => write!(
                f,
                "the spread of a cell's runs grows with their mean (correlation {additive:.2}), and less so in logarithms ({multiplicative:.2})"
            ),
            Self::GrowsAnyhow { additive, multiplicative } => write!(
                f,
                "the spread of a cell's runs grows with their mean (correlation {additive:.2}), in logarithms no less ({multiplicative:.2}): intervals are not to be trusted much"
            ),
            Self::Simpler { ratio } => write!(
                f,
                "the largest value is {} times the smallest, and the spread of a cell's runs does not grow with their mean",
                text::three_digits(*ratio)
            ),
            Self::TwoCells { ratio } => write!(
                f,
                "the largest value is {} times the smallest, and two cells do not show whether the spread of their runs grows with their mean",
                text::three_digits(*ratio)
            ),
            Self::NotPositive => f.write_str("some values are not above 0"),
        }
    }
}

/// From this ratio on, values are taken to be products (Jain 1991, §18.8: several orders of
/// magnitude; here, one).
const WIDE: f64 = 10.0;
/// From this correlation on, errors grow with values.
const GROWS: f64 = 0.7;

/// The design of one measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// In which cells: factors and their level; empty where it is of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub part: Vec<(String, String)>,
    /// What was measured.
    pub measure: Measure,
    /// By which model.
    pub model: Model,
    /// Why.
    pub choice: DesignReason,
    /// Each factor with what its −1 and its +1 are.
    pub factors: Vec<(String, String, String)>,
    /// What came of it; of logarithms where effects are multiplied. Repetitions are blocks where
    /// all cells have two or more in common.
    pub effects: Effects,
    /// What the model says of each run, blocks included, and what it left: in logarithms where
    /// effects are multiplied.
    pub residuals: Vec<(f64, f64)>,
    /// The residuals' quantiles beside those of the normal law; empty where all are alike.
    pub qq: Vec<(f64, f64)>,
}

/// Factors with a level of each, by which cells are parted.
type PartLevels = Vec<(String, String)>;
/// A factor and its two levels, the lower first.
type Factor = (String, [String; 2]);

/// The factors of cells that have two levels of each that varies. None where one has more, or a
/// combination is missing.
fn two_level_factors(cells: &[&Cell]) -> Option<Vec<Factor>> {
    let mut factors: Vec<(String, Vec<String>)> = Vec::new();
    for (name, level) in cells.iter().flat_map(|cell| &cell.factors) {
        match factors.iter_mut().find(|(known, _)| known == name) {
            Some((_, levels)) if levels.contains(level) => {}
            Some((_, levels)) => levels.push(level.clone()),
            None => factors.push((name.clone(), vec![level.clone()])),
        }
    }
    factors.retain(|(_, levels)| levels.len() > 1);
    let factors: Vec<Factor> = factors
        .into_iter()
        .map(|(name, mut levels)| {
            let number = |text: &String| text.parse::<f64>().ok();
            if let (Some(one), Some(two)) = (number(&levels[0]), number(&levels[1]))
                && one > two
            {
                levels.swap(0, 1);
            }
            Some((name, levels.try_into().ok()?))
        })
        .collect::<Option<_>>()?;
    let fits = (1..=6).contains(&factors.len()) && cells.len() == 1 << factors.len();
    fits.then_some(factors)
}

/// The studies of throughput and response time, where the cells are a 2^k·r design with two runs of
/// each or more: of all cells, or of those with each level of the factors `by` for themselves.
pub fn studies(cells: &[Cell], by: &[&str]) -> Vec<Study> {
    let mut parts: Vec<(PartLevels, Vec<&Cell>)> = Vec::new();
    for cell in cells {
        let of = cell.factors.iter().filter(|(name, _)| by.contains(&name.as_str())).cloned().collect();
        match parts.iter_mut().find(|(known, _)| *known == of) {
            Some((_, cells)) => cells.push(cell),
            None => parts.push((of, vec![cell])),
        }
    }
    let of_part = |(part, cells): (PartLevels, Vec<&Cell>)| {
        let factors = two_level_factors(&cells)?;
        let measures = [Measure::Throughput, Measure::Response].into_iter();
        Some(measures.filter_map(|measure| study(&cells, &part, &factors, measure)).collect::<Vec<_>>())
    };
    parts.into_iter().filter_map(of_part).flatten().collect()
}

/// Runs of each cell, as many of one as of another, and whether those at one place are of one
/// repetition.
struct StudiedRuns<'a> {
    of_cells: Vec<Vec<&'a Repetition>>,
    in_blocks: bool,
}

impl<'a> StudiedRuns<'a> {
    /// Those of the repetitions that all cells have. Where these are fewer than two, the first ones
    /// of each cell; none where one has a single run.
    fn of(cells: &[&'a Cell]) -> Option<Self> {
        let aligned = blocks::aligned(cells);
        if let Some(of_cells) = aligned.filter(|cells| cells.iter().all(|runs| runs.len() > 1)) {
            return Some(Self { of_cells, in_blocks: true });
        }
        let fewest = cells.iter().map(|cell| cell.repetitions.len()).min()?;
        let first = |cell: &&'a Cell| cell.repetitions[..fewest].iter().collect();
        (fewest >= 2).then(|| Self { of_cells: cells.iter().map(first).collect(), in_blocks: false })
    }
}

fn study(cells: &[&Cell], part: &PartLevels, factors: &[Factor], measure: Measure) -> Option<Study> {
    let runs = StudiedRuns::of(cells)?;
    let high = |cell: &Cell| -> Option<Vec<bool>> {
        factors.iter().map(|(name, levels)| Some(cell.level(name)? == levels[1])).collect()
    };
    let mut observations = Vec::new();
    for (cell, of_cell) in cells.iter().zip(&runs.of_cells) {
        let high = high(cell)?;
        for run in of_cell {
            let y = if measure == Measure::Throughput { run.throughput } else { run.response };
            observations.push(Observation { high: high.clone(), y });
        }
    }
    let names: Vec<&str> = factors.iter().map(|(name, _)| name.as_str()).collect();
    let additive = TwoLevel::from_observations(&names, &observations).ok()?;
    let (model, choice) = choose(&additive);
    let design = match model {
        Model::Additive => additive,
        Model::Multiplicative => additive.logarithms().ok()?,
    };
    let (effects, residuals) = if runs.in_blocks {
        (design.effects_in_blocks(USUAL_LEVEL), design.residuals_in_blocks())
    } else {
        (design.effects(USUAL_LEVEL), design.residuals())
    };
    let effects = effects.ok()?;
    let errors: Vec<f64> = residuals.iter().map(|one| one.residual).collect();
    let residuals = residuals.iter().map(|one| (one.predicted, one.residual)).collect();
    let quantiles = normal_qq(&errors).map(|plot| plot.points).unwrap_or_default();
    let qq = quantiles.iter().map(|point| (point.theoretical, point.observed)).collect();
    let factors =
        factors.iter().map(|(name, [low, high])| (name.clone(), low.clone(), high.clone())).collect();
    Some(Study { part: part.clone(), measure, model, choice, factors, effects, residuals, qq })
}

fn choose(additive: &TwoLevel) -> (Model, DesignReason) {
    let values = || additive.cells().iter().flatten().copied();
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let Ok(logarithms) = additive.logarithms() else { return (Model::Additive, DesignReason::NotPositive) };
    let ratio = most / least;
    if ratio >= WIDE {
        return (Model::Multiplicative, DesignReason::WideRange { ratio });
    }
    // Of two points the correlation is 1, whatever they are.
    if additive.cells().len() < 3 {
        return (Model::Additive, DesignReason::TwoCells { ratio });
    }
    let (one, two) = (growth(additive), growth(&logarithms));
    if one < GROWS {
        return (Model::Additive, DesignReason::Simpler { ratio });
    }
    if two < one {
        (Model::Multiplicative, DesignReason::ErrorsGrow { additive: one, multiplicative: two })
    } else {
        (Model::Additive, DesignReason::GrowsAnyhow { additive: one, multiplicative: two })
    }
}

/// How the spread of the cells' runs goes with their means: Pearson's correlation; 0 where there is
/// none.
fn growth(design: &TwoLevel) -> f64 {
    let cells: Vec<(f64, f64)> = design
        .cells()
        .iter()
        .filter_map(|cell| {
            Summary::of(cell).ok().and_then(|summary| Some((summary.mean, summary.sd().ok()?)))
        })
        .collect();
    let mean = |of: fn(&(f64, f64)) -> f64| cells.iter().map(of).sum::<f64>() / cells.len() as f64;
    let (x, y) = (mean(|cell| cell.0), mean(|cell| cell.1));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| cells.iter().map(of).sum::<f64>();
    let together = sum(&|cell| (cell.0 - x) * (cell.1 - y));
    let apart = (sum(&|cell| (cell.0 - x).powi(2)) * sum(&|cell| (cell.1 - y).powi(2))).sqrt();
    if apart > 0.0 { together / apart } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Environment, Results};
    use crate::sweep::{summarise, tests::steady_trial};
    use crate::trial::Trial;

    /// Servers 1 and 3, workers 8 and 32; what a cell's throughput is, three runs of each.
    fn results(rate: fn(bool, bool) -> f64, spread: fn(f64) -> f64) -> Results {
        let trials: Vec<Trial> = [(false, false), (true, false), (false, true), (true, true)]
            .into_iter()
            .flat_map(|(servers, workers)| {
                [-1.0, 0.0, 1.0].into_iter().zip(0..).map(move |(step, repetition)| {
                    let (servers_name, workers_name) =
                        (if servers { "3" } else { "1" }, if workers { "32" } else { "8" });
                    let mean = rate(servers, workers);
                    Trial {
                        repetition,
                        factors: vec![
                            ("servers".into(), servers_name.into()),
                            ("workers".into(), workers_name.into()),
                            ("mix".into(), "read".into()),
                        ],
                        ..steady_trial(
                            &format!("servers {servers_name}, workers {workers_name}"),
                            16,
                            mean + step * spread(mean),
                        )
                    }
                })
            })
            .collect();
        summarise("t", Environment::default(), &trials).unwrap()
    }

    #[test]
    fn effects_are_recovered_and_shares_sum_to_one() {
        let rate = |servers: bool, workers: bool| {
            1_000.0 + if servers { 300.0 } else { 0.0 } + if workers { 100.0 } else { 0.0 }
        };
        let found = studies(&results(rate, |_| 10.0).cells, &[]);
        let study = &found[0];
        assert_eq!((study.measure, study.model), (Measure::Throughput, Model::Additive));
        assert_eq!(study.factors[0], ("servers".to_owned(), "1".to_owned(), "3".to_owned()));
        let effect = |name: &str| study.effects.effect(name).unwrap();
        assert!((effect("servers").estimate.value - 150.0).abs() < 1e-9);
        assert!((effect("workers").estimate.value - 50.0).abs() < 1e-9);
        assert!(effect("servers").estimate.differs_from_zero());
        let shares: f64 = study.effects.effects.iter().map(|effect| effect.share).sum();
        let scatter = study.effects.blocks.unwrap().share + study.effects.error_share;
        assert!((shares + scatter - 1.0).abs() < 1e-9);
        // All that is left of a run is its repetition's.
        assert_eq!((study.residuals.len(), study.qq.len()), (12, 0));
    }

    fn plain(servers: bool, workers: bool) -> f64 {
        100.0 + if servers { 20.0 } else { 0.0 } + if workers { 40.0 } else { 0.0 }
    }

    /// A machine that makes all of one repetition 18/s slower, and all of another as much quicker.
    #[test]
    fn what_a_repetition_has_in_common_is_no_error_of_an_effect() {
        let mut cells = results(plain, |_| 18.0).cells;
        let study = studies(&cells, &[]).remove(0);
        assert_eq!((study.measure, study.model), (Measure::Throughput, Model::Additive));
        let effects = &study.effects;
        assert!((effects.mean.interval.half_width() - 44.7).abs() < 0.05, "{:?}", effects.mean);
        let servers = effects.effect("servers").unwrap().estimate;
        assert!((servers.value - 10.0).abs() < 1e-9 && servers.differs_from_zero(), "{servers}");
        assert!((effects.blocks.unwrap().share - 0.302).abs() < 0.001 && effects.error_share < 1e-9);
        assert!(study.residuals.iter().all(|(_, residual)| residual.abs() < 1e-9), "{study:?}");
        // Where a run is missing, what others have of its repetition is left out.
        cells[0].repetitions.remove(0);
        cells[3].repetitions.reverse();
        let effects = studies(&cells, &[]).remove(0).effects;
        let servers = effects.effect("servers").unwrap().estimate;
        assert!(effects.repetitions == 2 && (servers.value - 10.0).abs() < 1e-9, "{effects:?}");
        assert!(effects.error_share < 1e-9, "{effects:?}");
    }

    #[test]
    fn runs_of_other_repetitions_count_as_independent() {
        let mut cells = results(plain, |_| 18.0).cells;
        cells[0].repetitions.iter_mut().for_each(|run| run.repetition += 2);
        let one_in_common = studies(&cells, &[]).remove(0).effects;
        cells.iter_mut().flat_map(|cell| &mut cell.repetitions).for_each(|run| run.repetition = 0);
        let without_numbers = studies(&cells, &[]).remove(0).effects;
        for effects in [one_in_common, without_numbers] {
            assert!(effects.blocks.is_none() && effects.repetitions == 3, "{effects:?}");
            assert!((effects.error_share - 0.302).abs() < 0.001 && effects.degrees == 8.0, "{effects:?}");
        }
    }

    #[test]
    fn the_model_is_chosen_with_a_reason() {
        let wide = |servers: bool, workers: bool| {
            100.0 * if servers { 20.0 } else { 1.0 } * if workers { 2.0 } else { 1.0 }
        };
        let found = studies(&results(wide, |mean| mean / 50.0).cells, &[]);
        assert!(
            matches!(found[0].choice, DesignReason::WideRange { ratio } if ratio > 40.0),
            "{:?}",
            found[0].choice
        );
        let ratio = found[0].effects.effect("servers").unwrap().ratio().unwrap();
        assert!((ratio.value - 20.0_f64.sqrt()).abs() < 0.01, "{ratio:?}");
        let growing = |servers: bool, workers: bool| {
            100.0 * if servers { 3.0 } else { 1.0 } * if workers { 2.0 } else { 1.0 }
        };
        let found = studies(&results(growing, |mean| mean / 50.0).cells, &[]);
        assert!(matches!(found[0].choice, DesignReason::ErrorsGrow { .. }), "{:?}", found[0].choice);
        assert_eq!(found[0].model, Model::Multiplicative);
        // A cell's spread as a share of its mean grows with the logarithm of that.
        let found = studies(&results(growing, |mean| mean * (mean / 90.0).ln() / 20.0).cells, &[]);
        let choice = found[0].choice;
        assert!(matches!(choice, DesignReason::GrowsAnyhow { .. }), "{choice:?}");
        assert_eq!(found[0].model, Model::Additive);
        assert!(choice.to_string().contains("in logarithms no less (1.00)"), "{choice}");
    }

    #[test]
    fn two_cells_do_not_show_how_the_spread_grows() {
        let rate = |servers: bool, _: bool| if servers { 1_100.0 } else { 1_000.0 };
        // 990, 1,000 and 1,010 beside 1,089.5, 1,100 and 1,110.5.
        let mut cells = results(rate, |mean| 5.0 + mean / 200.0).cells;
        cells.retain(|cell| cell.factors[1].1 == "8");
        let found = studies(&cells, &[]);
        let study = &found[0];
        assert_eq!((cells.len(), study.model), (2, Model::Additive));
        assert!(matches!(study.choice, DesignReason::TwoCells { .. }), "{:?}", study.choice);
        assert!(!study.choice.to_string().contains("does not grow"), "{}", study.choice);
    }

    /// Two operations that have nothing in common: each is a design of its own, and together they
    /// are another.
    #[test]
    fn a_level_by_which_cells_are_parted_has_effects_of_its_own() {
        let rate = |servers: bool, workers: bool| {
            1_000.0 + if servers { 300.0 } else { 0.0 } + if workers { 100.0 } else { 0.0 }
        };
        let other = |servers: bool, workers: bool| {
            500.0 + if servers { -40.0 } else { 0.0 } + if workers { 80.0 } else { 0.0 }
        };
        let mut cells = results(rate, |_| 10.0).cells;
        let mut writes = results(other, |_| 10.0).cells;
        writes.iter_mut().for_each(|cell| cell.factors[2].1 = "write".into());
        // Half of the writes come first, as cells of one plan may.
        cells.splice(0..0, writes.drain(..2));
        cells.extend(writes);
        let found = studies(&cells, &["mix"]);
        let part = |mix: &str| vec![("mix".to_owned(), mix.to_owned())];
        let effects = |mix: &str| {
            let study = found
                .iter()
                .find(|study| study.measure == Measure::Throughput && study.part == part(mix))
                .unwrap();
            assert_eq!(study.factors.len(), 2, "{:?}", study.factors);
            ["servers", "workers"].map(|name| study.effects.effect(name).unwrap().estimate.value)
        };
        assert_eq!(found.len(), 4);
        assert!(effects("read").iter().zip([150.0, 50.0]).all(|(one, other)| (one - other).abs() < 1e-9));
        assert!(effects("write").iter().zip([-20.0, 40.0]).all(|(one, other)| (one - other).abs() < 1e-9));
        let together = studies(&cells, &[]);
        assert_eq!((together.len(), together[0].factors.len(), together[0].part.len()), (2, 3, 0));
        // One part without a run too many is studied, whatever the other is.
        cells.retain(|cell| cell.factors[2].1 == "read" || cell.factors[0].1 == "1");
        cells.pop();
        let found = studies(&cells, &["mix"]);
        assert!(found.iter().all(|study| study.part == part("read")) && found.len() == 2, "{found:?}");
    }

    #[test]
    fn what_is_no_such_design_is_none() {
        let rate = |servers: bool, _: bool| if servers { 300.0 } else { 100.0 };
        let mut three = results(rate, |_| 10.0);
        three.cells[0].factors[0].1 = "2".into();
        assert!(studies(&three.cells, &[]).is_empty());
        let mut missing = results(rate, |_| 10.0);
        missing.cells.pop();
        assert!(studies(&missing.cells, &[]).is_empty());
        let mut once = results(rate, |_| 10.0);
        once.cells.iter_mut().for_each(|cell| cell.repetitions.truncate(1));
        assert!(studies(&once.cells, &[]).is_empty());
    }
}
