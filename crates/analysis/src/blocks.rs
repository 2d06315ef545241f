//! Repetitions as blocks: each cell of a directory is run once in each, so that a machine that
//! changes meets all cells alike. Where some were run more often than others, only the repetitions
//! that all of them have say how they differ.

use std::collections::BTreeSet;

use krarup_stats::Summary;

use crate::cell::{Cell, Repetition};

/// In which repetition each run of a cell was made; none where two have the same, as in what
/// earlier builds wrote, which knew no numbers.
pub(crate) fn numbers(cell: &Cell) -> Option<Vec<u32>> {
    let numbers: Vec<u32> = cell.repetitions.iter().map(|run| run.repetition).collect();
    let distinct: BTreeSet<&u32> = numbers.iter().collect();
    (distinct.len() == numbers.len()).then_some(numbers)
}

/// For each of these cells its runs in the repetitions that all of them have, in one order; none
/// where the numbers of a cell are not known.
pub(crate) fn aligned<'a>(cells: &[&'a Cell]) -> Option<Vec<Vec<&'a Repetition>>> {
    let numbers = cells.iter().map(|cell| Some(numbers(cell)?.into_iter().collect()));
    let numbers = numbers.collect::<Option<Vec<BTreeSet<u32>>>>()?;
    let common = numbers.into_iter().reduce(|one, other| &one & &other)?;
    let of_cell = |cell: &&'a Cell| {
        let run = |number: &u32| cell.repetitions.iter().find(|run| run.repetition == *number);
        common.iter().filter_map(run).collect()
    };
    Some(cells.iter().map(of_cell).collect())
}

/// The same; all runs of each where their numbers are not known, or one cell has a single run.
pub(crate) fn common<'a>(cells: &[&'a Cell]) -> Vec<Vec<&'a Repetition>> {
    let are_compared = cells.iter().all(|cell| cell.repetitions.len() > 1);
    let aligned = aligned(cells).filter(|_| are_compared);
    aligned.unwrap_or_else(|| cells.iter().map(|cell| cell.repetitions.iter().collect()).collect())
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
