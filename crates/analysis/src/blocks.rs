//! Repetitions as blocks: each cell of a directory is run once in each, so that a machine that
//! changes meets all cells alike. Where some were run more often than others, only the repetitions
//! that all of them have say how they differ.

use krarup_stats::Summary;

use crate::cell::{Cell, Repetition};

/// Whether each run says by its number which repetition it belongs to.
fn are_numbered(cell: &Cell) -> bool {
    let mut numbers: Vec<u32> = cell.repetitions.iter().map(|run| run.repetition).collect();
    numbers.sort_unstable();
    numbers.windows(2).all(|pair| pair[0] < pair[1])
}

fn has(cell: &Cell, repetition: u32) -> bool {
    cell.repetitions.iter().any(|run| run.repetition == repetition)
}

/// For each of these cells its runs in the repetitions that all of them have; all its runs where
/// their numbers are not known, or one cell has a single run.
pub(crate) fn common<'a>(cells: &[&'a Cell]) -> Vec<Vec<&'a Repetition>> {
    let compared = cells.iter().all(|cell| cell.repetitions.len() > 1 && are_numbered(cell));
    let is_common = |run: &&Repetition| !compared || cells.iter().all(|cell| has(cell, run.repetition));
    cells.iter().map(|cell| cell.repetitions.iter().filter(is_common).collect()).collect()
}

/// The mean of one figure of each cell over these runs. Where fewer than two repetitions are
/// common, or one cell has a single run, over all runs of each.
pub(crate) fn means(cells: &[&Cell], of: impl Fn(&Repetition) -> f64) -> Vec<f64> {
    let common = common(cells);
    let is_enough = common.iter().all(|runs| runs.len() > 1);
    let mean = |(cell, common): (&&Cell, &Vec<&Repetition>)| {
        let values: Vec<f64> = match is_enough {
            true => common.iter().map(|run| of(run)).collect(),
            false => cell.repetitions.iter().map(&of).collect(),
        };
        Summary::of(&values).map_or(0.0, |summary| summary.mean)
    };
    cells.iter().zip(&common).map(mean).collect()
}
