//! Estimates of the analysis as the report writes them, and what is said of their intervals.

use krarup_analysis::quantity::{IntervalBasis, Quantity};
use krarup_analysis::results::Results;

use crate::tables::EstimateCell;

/// One of them. All of them are rates, lengths of time and counts, which are not below zero, and so
/// neither is the end of an interval that the symmetry of Student's t puts there.
pub(crate) fn measured(quantity: &Quantity) -> EstimateCell {
    let low = |low: f64| if quantity.value >= 0.0 { low.max(0.0) } else { low };
    let interval = quantity.interval.map(|interval| (low(interval.low), interval.high));
    EstimateCell { value: quantity.value, interval, n: quantity.n }
}

/// How many repetitions: `3 repetitions`, or `2 to 3 repetitions` where cells differ.
pub(crate) fn repetitions(of_cells: impl Iterator<Item = u64> + Clone) -> String {
    counted(of_cells, "repetition")
}

/// How many repetitions the cells of these results have.
pub(crate) fn all_repetitions(results: &Results) -> String {
    repetitions(results.cells.iter().map(|cell| cell.repetitions.len() as u64))
}

fn counted(of_cells: impl Iterator<Item = u64> + Clone, noun: &str) -> String {
    let (least, most) = (of_cells.clone().min().unwrap_or(0), of_cells.max().unwrap_or(0));
    match (least, most) {
        (1, 1) => format!("1 {noun}"),
        (least, most) if least == most => format!("{most} {noun}s"),
        (least, most) => format!("{least} to {most} {noun}s"),
    }
}

/// On how many observations of one kind the throughputs rest, where there is an interval.
fn observations(results: &Results, basis: IntervalBasis, noun: &str) -> Option<String> {
    let of = results.cells.iter().map(|cell| cell.throughput);
    let of = of.filter(move |one| one.basis == basis && one.n > 1).map(|one| one.n);
    of.clone().next().is_some().then(|| counted(of, noun))
}

/// What is to be added where some cells were run no more because their runs agreed.
fn ended_early(results: &Results) -> &'static str {
    if results.ended_early {
        " Runs ended when their spread was small: these intervals are somewhat too narrow."
    } else {
        ""
    }
}

/// What is to be added there where cells are compared with each other.
pub(crate) fn compared_early(results: &Results) -> &'static str {
    if results.ended_early {
        " Runs ended when their spread was small: these intervals are somewhat too narrow, and more of the cells that are alike may be called better or worse than that."
    } else {
        ""
    }
}

/// What the bars at the points are, and on how many observations they rest.
pub(crate) fn intervals(results: &Results) -> String {
    let of_runs = observations(results, IntervalBasis::Repetitions, "repetition");
    let of_windows = observations(results, IntervalBasis::Windows, "window");
    let said = match (of_runs, of_windows) {
        (Some(runs), Some(windows)) => {
            format!(
                "Bars are 95 % t intervals: of {runs}, or where a cell ran once, of {windows} of that run."
            )
        }
        (Some(runs), None) => format!("Points are means of {runs}; bars are their 95 % t intervals."),
        (None, Some(windows)) => {
            format!("Points are single runs; bars are 95 % t intervals of {windows} within the run.")
        }
        (None, None) => "Points are single runs without windows, which give no interval.".into(),
    };
    said + ended_early(results)
}

/// What a point and its bar are, where percentiles are drawn.
pub(crate) fn points_are(results: &Results) -> String {
    if results.cells.iter().all(|cell| cell.repetitions.len() == 1) {
        "Points are percentiles of one run, which give no interval.".into()
    } else {
        let repetitions = all_repetitions(results);
        format!("Points are means of the percentiles of {repetitions}; bars are their 95 % t intervals.")
    }
}

/// What stands after a ± in a table of cells.
pub(crate) fn half_of(results: &Results) -> String {
    let of_runs = observations(results, IntervalBasis::Repetitions, "repetition");
    let of_windows = observations(results, IntervalBasis::Windows, "window");
    let said = match (of_runs, of_windows) {
        (Some(runs), Some(windows)) => {
            format!(
                "± is half the 95 % t interval of {runs}, or where a cell ran once, of {windows} of that run."
            )
        }
        (Some(one), None) | (None, Some(one)) => format!("± is half the 95 % t interval of {one}."),
        (None, None) => "Single runs without windows give no interval.".into(),
    };
    said + ended_early(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_of_what_cannot_be_below_zero_ends_at_zero() {
        let wide = Quantity::of_repetitions(&[1.0, 9.0, 2.0]).unwrap();
        assert!(wide.interval.unwrap().low < 0.0);
        let cell = measured(&wide);
        assert_eq!(cell.interval.unwrap().0, 0.0);
        assert!((cell.half().unwrap() - wide.interval.unwrap().half_width()).abs() < 1e-12);
    }
}
