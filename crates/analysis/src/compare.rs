//! Two sets of results side by side: what changed in each cell and over all of them, and where the data cannot say.
//!
//! Cells are paired by their levels. Within a cell the runs of both sides are independent samples, so their means are compared
//! by Welch's interval; over all cells, the pairs belong together, so the mean of the ratios' logarithms has Student's interval (Jain 1991,
//! §13.4). **A difference whose interval covers 0, or whose ratio's covers 1, is no difference**: nothing is said to be faster then.

use std::fmt;

use krarup_stats::compare::{Verdict as Direction, welch};
use krarup_stats::{Interval, Summary, USUAL_LEVEL};
use serde::{Deserialize, Serialize};

use crate::results::{Cell, Quantity, Repetition, Results};
use crate::trial::Levels;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Requests answered per second.
    Throughput,
    /// Mean response time at the clients.
    Response,
    /// 99th percentile of the response time at the clients.
    P99,
}

impl Measure {
    /// All, in the order of every list of them.
    pub const ALL: [Self; 3] = [Self::Throughput, Self::Response, Self::P99];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Response => "response time",
            Self::P99 => "p99",
        }
    }

    /// Whether more of it is better.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput)
    }

    const fn of_run(self, run: &Repetition) -> f64 {
        match self {
            Self::Throughput => run.throughput,
            Self::Response => run.response,
            Self::P99 => run.p99,
        }
    }

    const fn of_cell(self, cell: &Cell) -> Quantity {
        match self {
            Self::Throughput => cell.throughput,
            Self::Response => cell.response.mean,
            Self::P99 => cell.response.p99,
        }
    }
}

/// What may be said of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The other is better.
    Better,
    /// The other is worse.
    Worse,
    /// The interval covers no difference at all.
    NoConclusion,
    /// Fewer than two runs on a side: there is no interval.
    TooFewRuns,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoConclusion => "no conclusion",
            Self::TooFewRuns => "no conclusion: too few runs",
        })
    }
}

/// One measure of one cell, or of all, on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// What.
    pub measure: Measure,
    /// On the side that is compared with.
    pub base: Quantity,
    /// On the side that is compared.
    pub other: Quantity,
    /// other − base, with Welch's interval at 95 %.
    pub difference: f64,
    /// Where the true difference may lie.
    pub difference_interval: Option<Interval>,
    /// other ÷ base; none where the base is 0.
    pub ratio: Option<f64>,
    /// Where the true ratio may lie, from the runs' logarithms.
    pub ratio_interval: Option<Interval>,
    /// What may be said.
    pub verdict: Verdict,
}

/// A cell that both sides have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellChange {
    /// Which.
    pub levels: Levels,
    /// In the order of [`Measure::ALL`].
    pub changes: Vec<Change>,
}

/// One measure over all cells that both sides have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overall {
    /// What.
    pub measure: Measure,
    /// Over how many cells.
    pub cells: u64,
    /// The geometric mean of the cells' ratios other ÷ base.
    pub ratio: f64,
    /// Where it may lie for cells like these.
    pub interval: Option<Interval>,
    /// What may be said.
    pub verdict: Verdict,
}

/// Why two sets may not be comparable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Caution {
    /// The two ran on different machines or programs.
    Environment {
        /// In what.
        of: String,
        /// There.
        base: String,
        /// Here.
        other: String,
    },
    /// Cells that only one side has were left out.
    LeftOut {
        /// Cells of the base alone.
        base: u64,
        /// Cells of the other alone.
        other: u64,
    },
    /// What the analysis found wrong with a side's own figures.
    Concerns {
        /// Warnings of the base.
        base: u64,
        /// Warnings of the other.
        other: u64,
    },
    /// So many comparisons at 95 % show some differences by chance alone.
    Many {
        /// How many there are.
        comparisons: u64,
    },
}

impl fmt::Display for Caution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment { of, base, other } => {
                write!(f, "The two differ in more than what was changed: {of} was `{base}` and is `{other}`.")
            }
            Self::LeftOut { base, other } => {
                write!(
                    f,
                    "{base} cells of the first and {other} of the second have no counterpart and are left out."
                )
            }
            Self::Concerns { base, other } => write!(
                f,
                "The checks found fault with the figures themselves: {base} times in the first, {other} times in the second."
            ),
            Self::Many { comparisons } => write!(
                f,
                "Of {comparisons} comparisons at 95 %, about {:.0} would show a difference where there is none.",
                (*comparisons as f64 * 0.05).max(1.0)
            ),
        }
    }
}

/// Two sets of results side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What is compared with.
    pub base: String,
    /// What is compared.
    pub other: String,
    /// Over all cells, in the order of [`Measure::ALL`]; empty where no cell is on both sides.
    pub overall: Vec<Overall>,
    /// Cell by cell, in the order of the base.
    pub cells: Vec<CellChange>,
    /// What to bear in mind.
    pub cautions: Vec<Caution>,
}

/// Compares `other` with `base`, each under the name it is to have.
pub fn compare((base_name, base): (&str, &Results), (other_name, other): (&str, &Results)) -> Comparison {
    let pairs: Vec<(&Cell, &Cell)> =
        base.cells.iter().filter_map(|cell| Some((cell, other.cell(&cell.levels)?))).collect();
    let cells: Vec<CellChange> = pairs
        .iter()
        .map(|(base, other)| CellChange {
            levels: base.levels.clone(),
            changes: Measure::ALL.map(|measure| change(measure, base, other)).to_vec(),
        })
        .collect();
    let overall = Measure::ALL.iter().enumerate();
    let overall = overall.filter_map(|(place, measure)| over_all(*measure, &cells, place)).collect();
    Comparison {
        base: base_name.to_owned(),
        other: other_name.to_owned(),
        overall,
        cautions: cautions(base, other, &cells),
        cells,
    }
}

/// One measure of two cells, whose runs are independent.
pub(crate) fn change(measure: Measure, base: &Cell, other: &Cell) -> Change {
    let values =
        |cell: &Cell| -> Vec<f64> { cell.repetitions.iter().map(|run| measure.of_run(run)).collect() };
    let (before, after) = (values(base), values(other));
    let (base, other) = (measure.of_cell(base), measure.of_cell(other));
    let difference = other.value - base.value;
    let ratio = other.value / base.value;
    let (difference_interval, direction) = match welch(&before, &after, USUAL_LEVEL) {
        Ok(comparison) => (Some(comparison.difference.interval), Some(comparison.verdict)),
        Err(_) => (None, None),
    };
    let logarithms = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    let logarithmic = welch(&logarithms(&before), &logarithms(&after), USUAL_LEVEL).ok();
    // A speed-up of 3 % ± 4 % is none, whichever of the two forms says so.
    let agreed =
        logarithmic.as_ref().map(|of_ratio| of_ratio.verdict).filter(|verdict| Some(*verdict) == direction);
    let verdict = match (before.len().min(after.len()), direction) {
        (0 | 1, _) => Verdict::TooFewRuns,
        (_, None) => Verdict::NoConclusion,
        (_, Some(_)) => verdict(measure, agreed.unwrap_or(Direction::NoConclusion)),
    };
    Change {
        measure,
        base,
        other,
        difference,
        difference_interval,
        ratio: ratio.is_finite().then_some(ratio),
        ratio_interval: logarithmic.and_then(|of_ratio| of_ratio.difference.interval.map(f64::exp).ok()),
        verdict,
    }
}

const fn verdict(measure: Measure, direction: Direction) -> Verdict {
    match (direction, measure.more_is_better()) {
        (Direction::Higher, true) | (Direction::Lower, false) => Verdict::Better,
        (Direction::Higher, false) | (Direction::Lower, true) => Verdict::Worse,
        (Direction::NoConclusion, _) => Verdict::NoConclusion,
    }
}

/// The geometric mean of the ratios, each cell weighing the same.
fn over_all(measure: Measure, cells: &[CellChange], place: usize) -> Option<Overall> {
    let ratios: Vec<f64> = cells
        .iter()
        .filter_map(|cell| cell.changes[place].ratio)
        .filter(|ratio| *ratio > 0.0)
        .map(f64::ln)
        .collect();
    let summary = Summary::of(&ratios).ok()?;
    let interval = summary.mean_estimate(USUAL_LEVEL).ok().map(|estimate| estimate.interval);
    let verdict = match interval {
        None => Verdict::TooFewRuns,
        Some(interval) if interval.low > 0.0 => verdict(measure, Direction::Higher),
        Some(interval) if interval.high < 0.0 => verdict(measure, Direction::Lower),
        Some(_) => Verdict::NoConclusion,
    };
    Some(Overall {
        measure,
        cells: summary.n,
        ratio: summary.mean.exp(),
        interval: interval.and_then(|interval| interval.map(f64::exp).ok()),
        verdict,
    })
}

/// Up to so many comparisons nobody is misled by chance.
const FEW: u64 = 10;

fn cautions(base: &Results, other: &Results, cells: &[CellChange]) -> Vec<Caution> {
    let mut cautions = Vec::new();
    let (there, here) = (&base.environment, &other.environment);
    let mut differ = |of: &str, base: &str, other: &str| {
        if base != other {
            let (base, other) = (base.to_owned(), other.to_owned());
            cautions.push(Caution::Environment { of: of.to_owned(), base, other });
        }
    };
    differ("the processor", &there.cpu, &here.cpu);
    differ("the number of processors", &there.cores.to_string(), &here.cores.to_string());
    differ("the memory", &there.memory, &here.memory);
    differ("the system", &there.kernel, &here.kernel);
    for (program, version) in &there.versions {
        let other = here.versions.iter().find(|(name, _)| name == program);
        differ(program, version, other.map_or("", |(_, version)| version));
    }
    let alone = |one: &Results, two: &Results| {
        one.cells.iter().filter(|cell| two.cell(&cell.levels).is_none()).count() as u64
    };
    let (only_base, only_other) = (alone(base, other), alone(other, base));
    if only_base + only_other > 0 {
        cautions.push(Caution::LeftOut { base: only_base, other: only_other });
    }
    let (wrong_there, wrong_here) = (base.concerns.len() as u64, other.concerns.len() as u64);
    if wrong_there + wrong_here > 0 {
        cautions.push(Caution::Concerns { base: wrong_there, other: wrong_here });
    }
    let comparisons = cells.iter().map(|cell| cell.changes.len() as u64).sum();
    if comparisons > FEW {
        cautions.push(Caution::Many { comparisons });
    }
    cautions
}

impl Comparison {
    /// The answer in a sentence for each measure, and how many cells say it by themselves.
    pub fn sentences(&self) -> Vec<String> {
        let sentence = |(place, overall): (usize, &Overall)| {
            let of =
                |verdict| self.cells.iter().filter(|cell| cell.changes[place].verdict == verdict).count();
            let range = overall.interval.map_or(String::new(), |interval| {
                format!(" ({} to {} at 95 %)", percent(interval.low), percent(interval.high))
            });
            format!(
                "{}: {} over {} cells{range}, {}. By themselves {} cells are better, {} worse, {} without conclusion.",
                overall.measure.name(),
                percent(overall.ratio),
                overall.cells,
                overall.verdict,
                of(Verdict::Better),
                of(Verdict::Worse),
                of(Verdict::NoConclusion) + of(Verdict::TooFewRuns),
            )
        };
        self.overall.iter().enumerate().map(sentence).collect()
    }
}

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::results::Environment;
    use crate::sweep::{summarise, tests::steady_trial};
    use crate::trial::Trial;

    /// Cells of 1 and of 8 clients, with these throughputs in their runs.
    fn results(rates: &[f64]) -> Results {
        let trials: Vec<Trial> = [1_u32, 8]
            .into_iter()
            .flat_map(|clients| {
                rates.iter().zip(0..).map(move |(rate, repetition)| Trial {
                    repetition,
                    ..steady_trial("read", clients, *rate)
                })
            })
            .collect();
        summarise("test", Environment::default(), &trials).unwrap()
    }

    fn compared(base: &[f64], other: &[f64]) -> Comparison {
        compare(("a", &results(base)), ("b", &results(other)))
    }

    #[test]
    fn more_throughput_is_better_and_more_time_is_worse() {
        let found = compared(&[1_000.0, 1_010.0, 990.0], &[500.0, 505.0, 495.0]);
        let verdicts: Vec<Verdict> = found.cells[0].changes.iter().map(|change| change.verdict).collect();
        assert_eq!(verdicts, [Verdict::Worse; 3]);
        let change = &found.cells[0].changes[0];
        assert_eq!((change.difference, change.ratio), (-500.0, Some(0.5)));
        let interval = change.ratio_interval.unwrap();
        assert!(interval.contains(0.5) && interval.high < 0.53, "{interval:?}");
        assert_eq!(
            compared(&[500.0, 505.0], &[1_000.0, 1_010.0]).cells[1].changes[1].verdict,
            Verdict::Better
        );
    }

    #[test]
    fn what_lies_within_the_noise_is_no_conclusion() {
        let found = compared(&[1_000.0, 1_100.0, 900.0], &[1_030.0, 1_130.0, 930.0]);
        assert!(
            found
                .cells
                .iter()
                .flat_map(|cell| &cell.changes)
                .all(|change| change.verdict == Verdict::NoConclusion)
        );
        let interval = found.cells[0].changes[0].difference_interval.unwrap();
        assert!(interval.contains(0.0));
    }

    #[test]
    fn one_run_on_a_side_has_no_interval_and_no_conclusion() {
        let found = compared(&[1_000.0], &[2_000.0, 2_010.0]);
        assert_eq!(found.cells[0].changes[0].verdict, Verdict::TooFewRuns);
        assert_eq!(found.cells[0].changes[0].difference_interval, None);
    }

    #[test]
    fn all_cells_together_say_what_none_says_alone() {
        let rates = |factor: f64| {
            let trials: Vec<Trial> = (1..=12)
                .flat_map(|clients| {
                    // The runs of a cell differ much, the cells' means do not.
                    [0.8, 1.2].into_iter().zip(0..).map(move |(spread, repetition)| Trial {
                        repetition,
                        ..steady_trial("read", clients, 1_000.0 * factor * spread * f64::from(clients))
                    })
                })
                .collect();
            summarise("test", Environment::default(), &trials).unwrap()
        };
        let mut other = rates(1.1);
        // A cell that grew a little less: a constant has no interval of its own.
        other.cells[3].throughput.value *= 0.99;
        let found = compare(("a", &rates(1.0)), ("b", &other));
        assert!(found.cells.iter().all(|cell| cell.changes[0].verdict == Verdict::NoConclusion));
        assert_eq!((found.overall[0].verdict, found.overall[0].cells), (Verdict::Better, 12));
        assert!((found.overall[0].ratio - 1.1).abs() < 0.002);
        assert!(
            found.sentences()[0].starts_with("throughput: +9.9 % over 12 cells ("),
            "{:?}",
            found.sentences()
        );
    }

    #[test]
    fn what_else_changed_is_told() {
        let base = results(&[1_000.0, 1_010.0]);
        let mut other = results(&[1_000.0, 1_012.0]);
        other.environment.cpu = "another".into();
        other.cells.remove(1);
        let cautions = compare(("a", &base), ("b", &other)).cautions;
        assert!(
            matches!(&cautions[0], Caution::Environment { of, .. } if of == "the processor"),
            "{cautions:?}"
        );
        assert!(cautions.contains(&Caution::LeftOut { base: 1, other: 0 }));
        assert_eq!(compare(("a", &base), ("b", &base)).cautions, []);
    }

    #[test]
    fn nothing_in_common_is_no_comparison() {
        let base = results(&[1_000.0, 1_010.0]);
        let mut other = base.clone();
        other.cells.iter_mut().for_each(|cell| cell.levels.workload = "write".into());
        let found = compare(("a", &base), ("b", &other));
        assert!(found.cells.is_empty() && found.overall.is_empty());
    }

    proptest! {
        /// Who is compared with whom turns the verdict around, and nothing else.
        #[test]
        fn turned_around_better_is_worse(
            base in proptest::collection::vec(500.0..2_000.0f64, 2..6),
            other in proptest::collection::vec(500.0..2_000.0f64, 2..6),
        ) {
            let (there, back) = (compared(&base, &other), compared(&other, &base));
            for (one, two) in there.cells[0].changes.iter().zip(&back.cells[0].changes) {
                let turned = match one.verdict {
                    Verdict::Better => Verdict::Worse,
                    Verdict::Worse => Verdict::Better,
                    same => same,
                };
                prop_assert_eq!(turned, two.verdict);
                prop_assert!((one.ratio.unwrap() * two.ratio.unwrap() - 1.0).abs() < 1e-9);
            }
        }

        /// The same runs twice are never told apart.
        #[test]
        fn nothing_differs_from_itself(rates in proptest::collection::vec(500.0..2_000.0f64, 2..6)) {
            let found = compared(&rates, &rates);
            for change in &found.cells[0].changes {
                prop_assert_eq!(change.verdict, Verdict::NoConclusion);
                prop_assert_eq!(change.ratio, Some(1.0));
            }
        }
    }
}
