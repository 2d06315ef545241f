//! Estimates of the analysis as the report writes them, and what is said of their intervals.

use krarup_analysis::quantity::{IntervalBasis, Quantity};
use krarup_analysis::results::Results;

use crate::tables::EstimateCell;

/// One of them.
pub(crate) fn measured(quantity: &Quantity) -> EstimateCell {
    let interval = quantity.interval.map(|interval| (interval.low, interval.high));
    EstimateCell { value: quantity.value, interval, n: quantity.n }
}

/// What the bars at the points are.
pub(crate) fn intervals(results: &Results) -> String {
    let of_windows = results.cells.iter().any(|cell| cell.throughput.basis == IntervalBasis::Windows);
    let of_runs = results
        .cells
        .iter()
        .any(|cell| cell.throughput.basis == IntervalBasis::Repetitions && cell.throughput.n > 1);
    match (of_runs, of_windows) {
        (true, true) => "Bars are 95 % t intervals: of the repetitions, or where a cell ran once, of the windows of that run.".into(),
        (true, false) => "Points are means of the repetitions; bars are their 95 % t intervals.".into(),
        (false, true) => "Points are single runs; bars are 95 % t intervals of the windows within the run.".into(),
        (false, false) => "Points are single runs without windows, which give no interval.".into(),
    }
}

/// What a point and its bar are, where percentiles are drawn.
pub(crate) fn points_are(results: &Results) -> &'static str {
    if results.cells.iter().all(|cell| cell.repetitions.len() == 1) {
        "Points are percentiles of one run, which give no interval."
    } else {
        "Points are means of the repetitions' percentiles; bars are their 95 % t intervals."
    }
}
