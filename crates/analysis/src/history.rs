//! One experiment over time: its results beside older ones, and which changes are real, as
//! [`crate::history_runs`] finds it.
//!
//! Cells are paired by their levels, and two runs of a cell compared as `krarup compare` does it
//! ([`crate::change`]): each with the one before that has the cell, and the last with the first
//! where three or more have it. All these comparisons together may be wrong with 5 %, by Holm's
//! adjustment: what would be a difference by itself, and is none among so many, is told as such.
//!
//! ```text
//! march ──▶ april ──▶ june      each cell and measure: march–april, april–june,
//!   └──────────────────▲                               march–june
//! ```

use serde::{Deserialize, Serialize};

use crate::caution::Caution;
use crate::change::{Conclusion, MeasureChange};
use crate::quantity::Quantity;
use crate::trial::CellLevels;

/// One set of results among others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryRun {
    /// What it is called.
    pub name: String,
    /// When it began, as it says itself.
    pub started: String,
    /// How many cells it has.
    pub cells: u64,
    /// Warnings about its own figures.
    pub warnings: u64,
    /// Cells that others have and it lacks.
    pub lacks: Vec<CellLevels>,
}

/// One cell in every run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellHistory {
    /// Which.
    pub levels: CellLevels,
    /// For each run its measures, in the order of [`crate::change::Measure::ALL`]; none where it
    /// lacks the cell.
    pub values: Vec<Option<[Quantity; 3]>>,
}

/// One measure of one cell in two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryChange {
    /// Which cell.
    pub levels: CellLevels,
    /// The run that is compared with, by its place.
    pub from: usize,
    /// The run that is compared.
    pub to: usize,
    /// From the first run to the last, with others between.
    pub overall: bool,
    /// What changed. Its verdict is that of this comparison among all of them; its intervals are
    /// those of it alone.
    pub change: MeasureChange,
    /// The probability of such a difference if there were none, adjusted for all comparisons; none
    /// where a side has fewer than two runs, where nothing varies, and where a run has no
    /// logarithm.
    pub p_value: Option<f64>,
}

/// Results beside older ones, in the order of their time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The runs.
    pub runs: Vec<HistoryRun>,
    /// Each cell that any of them has: those of the newest run first, then others by the run.
    pub cells: Vec<CellHistory>,
    /// Every comparison, cell by cell.
    pub changes: Vec<HistoryChange>,
    /// What else differs from one run to the next: the place of the later one, and what.
    pub cautions: Vec<(usize, Caution)>,
}

/// More changes than this are told by their number; a table has each.
const TOLD: usize = 20;

impl HistoryChange {
    /// Whether something changed, beyond chance.
    pub fn is_real(&self) -> bool {
        self.change.is_real()
    }
}

impl CellHistory {
    /// The one run that has it; none where more have it.
    fn only_run(&self) -> Option<usize> {
        let mut there = (0..self.values.len()).filter(|run| self.values[*run].is_some());
        there.next().filter(|_| there.next().is_none())
    }
}

impl History {
    /// The cells that two runs or more have: of others there is nothing to compare.
    pub fn compared(&self) -> impl Iterator<Item = &CellHistory> {
        self.cells.iter().filter(|cell| cell.only_run().is_none())
    }

    /// What is compared, counted.
    fn tested(&self) -> usize {
        self.changes.iter().filter(|change| change.p_value.is_some()).count()
    }

    /// The answer in sentences: each change that is real, how many are none, and what is missing.
    pub fn sentences(&self) -> Vec<String> {
        let name = |run: usize| self.runs[run].name.as_str();
        let real = self.changes.iter().filter(|change| change.is_real());
        let mut said: Vec<String> = real
            .map(|one| {
                let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
                let range = one.change.ratio_interval.map_or(String::new(), |interval| {
                    format!(" ({} to {} at 95 %)", percent(interval.low), percent(interval.high))
                });
                format!(
                    "{}: {} {}{range} from {} to {}, {}.",
                    one.levels.in_words(),
                    one.change.measure.name(),
                    one.change.ratio.map_or("changed".into(), percent),
                    name(one.from),
                    name(one.to),
                    one.change.verdict
                )
            })
            .collect();
        let of =
            |verdict: Conclusion| self.changes.iter().filter(|one| one.change.verdict == verdict).count();
        let (chance, too_few) = (of(Conclusion::ByChance), of(Conclusion::TooFewRuns));
        let (tested, real) = (self.tested(), said.len());
        let others = self.changes.len() - tested - too_few;
        let mut counted = format!(
            "{real} of {tested} comparisons show a change, with an error of 5 % for all of them together"
        );
        if chance > 0 {
            counted.push_str(&format!(
                "; {chance} more would by themselves, and are no conclusion among so many: more repetitions would tell"
            ));
        }
        for (untested, why) in
            [(too_few, "too few runs"), (others, "nothing varies, or a run has a value of 0")]
        {
            if untested > 0 {
                counted.push_str(&format!("; {untested} could not be made: {why}"));
            }
        }
        if real > TOLD {
            said.clear();
            counted.push_str("; the table of cells names each");
        }
        said.push(counted + ".");
        for run in &self.runs {
            let lacks = self.compared().filter(|cell| run.lacks.contains(&cell.levels));
            let cells: Vec<String> = lacks.map(|cell| cell.levels.in_words()).collect();
            if !cells.is_empty() {
                said.push(format!("{} lacks {}.", run.name, cells.join("; ")));
            }
        }
        let alone = self
            .cells
            .iter()
            .filter_map(|cell| Some(format!("{} ({})", cell.levels.in_words(), name(cell.only_run()?))));
        let alone: Vec<String> = alone.collect();
        if !alone.is_empty() {
            said.push(format!("Only in one run: {}.", alone.join("; ")));
        }
        said
    }

    /// Each caution in words, with the two runs it is about.
    pub fn cautions_in_words(&self) -> Vec<String> {
        let said = |(place, caution): &(usize, Caution)| match caution {
            Caution::Sessions { .. } | Caution::EndedEarly => caution.to_string(),
            _ => format!("{} beside {}: {caution}", self.runs[*place].name, self.runs[place - 1].name),
        };
        self.cautions.iter().map(said).collect()
    }
}
