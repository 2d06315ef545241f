//! Two sets of results side by side as a document: the answer first, then each cell.

use krarup_analysis::change::{Measure, MeasureChange};
use krarup_analysis::compare::Comparison;
use krarup_analysis::other_programs::RunChange;
use krarup_analysis::quantity::Quantity;
use krarup_record::quantities;
use krarup_stats::Interval;
use krarup_units::Unit;

use crate::document::{Block, Column, Document, EstimateCell, Finding, Note, Section, Table, TableValue};
use crate::estimates::measured;
use crate::figures::{Axis, Figure, FigurePoint, LineSeries, Lines, Mark, Plot, Tint};

/// The whole page. `footer` names the program and its version.
pub fn document(comparison: &Comparison, footer: &str) -> Document {
    let mut sections =
        vec![Section { title: "Over all cells".into(), blocks: vec![Block::Table(overall(comparison))] }];
    if !comparison.cells.is_empty() {
        sections.push(Section {
            title: "Cell by cell".into(),
            blocks: vec![
                Block::Figure(ratios(comparison)),
                Block::InWords(cells(comparison), numbers(comparison)),
            ],
        });
    }
    Document {
        title: format!("{} beside {}", comparison.other, comparison.base),
        subtitle: format!("{} is compared with {}, which is 100 %", comparison.other, comparison.base),
        summary: comparison
            .overall
            .iter()
            .zip(comparison.sentences())
            .map(|(overall, sentence)| {
                let text = sentence.split_once(": ").map_or(sentence.clone(), |(_, text)| text.to_owned());
                Finding::words(overall.measure.name(), text)
            })
            .collect(),
        facts: Vec::new(),
        notes: notes(comparison),
        quantities: Vec::new(),
        sections,
        footer: footer.to_owned(),
    }
}

/// What to bear in mind, and what to say where there is nothing to compare.
fn notes(comparison: &Comparison) -> Vec<Note> {
    let mut notes: Vec<Note> =
        comparison.cautions.iter().map(|caution| Note::warning(caution.to_string(), "")).collect();
    if comparison.cells.is_empty() {
        notes.push(Note::warning(
            "The two have no cell in common.",
            "Compare results of one spec, or of specs with the same factors and levels.",
        ));
    }
    notes
}

/// One row for each measure.
pub fn overall(comparison: &Comparison) -> Table {
    let row = |overall: &krarup_analysis::compare::Overall| {
        vec![
            TableValue::from(overall.measure.name()),
            TableValue::from(overall.cells as f64),
            TableValue::from(overall.ratio),
            TableValue::from(overall.interval.map(|interval| interval.low)),
            TableValue::from(overall.interval.map(|interval| interval.high)),
            TableValue::from(overall.verdict.to_string().as_str()),
        ]
    };
    Table {
        name: "overall".into(),
        title: "Geometric mean of the cells' ratios".into(),
        caption: format!(
            "{} divided by {}; cells are paired, each weighs the same. The interval is Student's at 95 %, over the logarithms of the \
             cells' ratios, with the spread of the anchor's means from repetition to repetition where both have one: it tells how far these cells agree, and nothing about others.",
            comparison.other, comparison.base
        ),
        columns: vec![
            Column::new("measure", Unit::Text),
            Column::new("cells", Unit::Count),
            Column::new("ratio", Unit::Share),
            Column::new("from", Unit::Share),
            Column::new("to", Unit::Share),
            Column::new("verdict", Unit::Text),
        ],
        rows: comparison.overall.iter().map(row).collect(),
    }
}

/// A ratio as a change.
fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

/// Both ends of a ratio's interval, as changes.
fn ends(interval: Interval) -> String {
    // Two runs of a side know hardly anything: a hundredfold says no more than none.
    let high = if interval.high > 100.0 { "no bound".to_owned() } else { percent(interval.high) };
    format!("{} to {high}", percent(interval.low))
}

/// The ratio as a change, its interval in brackets: one of logarithms reaches further up than down,
/// which no ± tells.
pub(crate) fn change_in_words(change: &MeasureChange) -> TableValue {
    let words = |ratio| match change.ratio_interval {
        Some(interval) => format!("{} ({})", percent(ratio), ends(interval)),
        None => percent(ratio),
    };
    change.ratio.map_or(TableValue::Missing, |ratio| TableValue::Text(words(ratio)))
}

/// One row for each cell and measure.
pub fn cells(comparison: &Comparison) -> Table {
    let row = |workload: &str, clients: u32, change: &MeasureChange| {
        let unit = |quantity: &Quantity| {
            // Both kinds stand in one column: each brings its unit.
            let unit = if change.measure == Measure::Throughput { Unit::PerSecond } else { Unit::Seconds };
            unit.show(quantity.value)
        };
        let difference = {
            let unit = if change.measure == Measure::Throughput { Unit::PerSecond } else { Unit::Seconds };
            let sign = if change.difference < 0.0 { "−" } else { "+" };
            let half = change
                .difference_interval
                .map_or(String::new(), |interval| format!(" ± {}", unit.show(interval.half_width())));
            format!("{sign}{}{half}", unit.show(change.difference.abs()))
        };
        vec![
            TableValue::from(workload),
            TableValue::from(f64::from(clients)),
            TableValue::from(change.measure.name()),
            TableValue::Text(unit(&change.base)),
            TableValue::Text(unit(&change.other)),
            TableValue::Text(difference),
            change_in_words(change),
            TableValue::from(change.verdict.to_string().as_str()),
        ]
    };
    let rows = comparison.cells.iter().flat_map(|cell| {
        cell.changes.iter().map(move |change| row(&cell.levels.workload, cell.levels.clients, change))
    });
    Table {
        name: "changes".into(),
        title: "All cells".into(),
        caption: "Means over the runs of each side. The difference has Welch's interval at 95 %; the change, in brackets, the same \
                  of the runs' logarithms. Where either covers no change at all, there is no conclusion."
            .into(),
        columns: vec![
            Column::new("workload", Unit::Text),
            Column::new("clients", Unit::Count),
            Column::new("measure", Unit::Text),
            Column::new(&comparison.base, Unit::Text),
            Column::new(&comparison.other, Unit::Text),
            Column::new("difference", Unit::Text),
            Column::new("change", Unit::Text),
            Column::new("verdict", Unit::Text),
        ],
        rows: rows.collect(),
    }
}

/// What other programs measured on both sides: a row for each cell and measure. `unit` tells in
/// what a measure is.
pub fn runs(changes: &[RunChange], base: &str, other: &str, unit: impl Fn(&str) -> Unit) -> Table {
    // Of a program that knows one cell it has no name.
    let named = changes.iter().any(|change| !change.cell.is_empty());
    let row = |change: &RunChange| {
        let unit = unit(&change.measure);
        let side = |value: f64, runs: u64| format!("{} ({runs})", in_unit(unit, value));
        let mut row = vec![
            TableValue::from(change.measure.as_str()),
            TableValue::Text(side(change.base, change.base_runs)),
            TableValue::Text(side(change.other, change.other_runs)),
            TableValue::Text(percent(change.ratio)),
            TableValue::Text(change.interval.map_or_else(|| "–".to_owned(), ends)),
        ];
        if named {
            row.insert(0, TableValue::from(change.cell.as_str()));
        }
        row
    };
    let mut columns = vec![
        Column::new("measure", Unit::Text),
        Column::new(base, Unit::Text),
        Column::new(other, Unit::Text),
        Column::new("change", Unit::Text),
        Column::new("at 95 %", Unit::Text),
    ];
    if named {
        columns.insert(0, Column::new("cell", Unit::Text));
    }
    Table {
        name: "runs".into(),
        title: "All cells".into(),
        caption: "Geometric means over the runs of each side, how many in brackets. The change has Welch's interval of the runs' \
                  logarithms at 95 %."
            .into(),
        columns,
        rows: changes.iter().map(row).collect(),
    }
}

/// The same for programs: every number by itself, in its base unit.
pub fn run_numbers(changes: &[RunChange], unit: impl Fn(&str) -> Unit) -> Table {
    let row = |change: &RunChange| {
        vec![
            TableValue::from(change.cell.as_str()),
            TableValue::from(change.measure.as_str()),
            TableValue::from(unit(&change.measure).base()),
            TableValue::from(change.base),
            TableValue::from(change.base_runs as f64),
            TableValue::from(change.other),
            TableValue::from(change.other_runs as f64),
            TableValue::from(change.ratio),
            TableValue::from(change.interval.map(|interval| interval.low)),
            TableValue::from(change.interval.map(|interval| interval.high)),
        ]
    };
    let numbers = ["base", "base runs", "other", "other runs", "ratio", "ratio from", "ratio to"]
        .map(|heading| Column::new(heading, Unit::Count));
    let mut columns = ["cell", "measure", "unit"].map(|heading| Column::new(heading, Unit::Text)).to_vec();
    columns.extend(numbers);
    Table {
        name: "runs".into(),
        title: "All cells".into(),
        columns,
        rows: changes.iter().map(row).collect(),
        ..Table::default()
    }
}

/// A number beside its unit; one of unknown unit with three digits, however small.
fn in_unit(unit: Unit, value: f64) -> String {
    if unit == Unit::Count && value < 0.01 { format!("{value:.2e}") } else { unit.show(value) }
}

/// The same for programs: every number by itself, in its base unit.
pub fn numbers(comparison: &Comparison) -> Table {
    let rows = comparison.cells.iter().flat_map(|cell| {
        cell.changes.iter().map(move |change| {
            let ends = [change.difference_interval, change.ratio_interval].map(|interval| {
                interval.map_or((TableValue::Missing, TableValue::Missing), |one| {
                    (one.low.into(), one.high.into())
                })
            });
            let [(low, high), (least, most)] = ends;
            vec![
                TableValue::from(cell.levels.workload.as_str()),
                TableValue::from(f64::from(cell.levels.clients)),
                TableValue::from(change.measure.name()),
                TableValue::Measured(measured(&change.base)),
                TableValue::Measured(measured(&change.other)),
                TableValue::from(change.difference),
                low,
                high,
                TableValue::from(change.ratio),
                least,
                most,
                TableValue::from(change.verdict.to_string().as_str()),
            ]
        })
    });
    let headings = ["difference", "difference from", "difference to", "ratio", "ratio from", "ratio to"];
    let mut columns = vec![
        Column::new("workload", Unit::Text),
        Column::new("clients", Unit::Count),
        Column::new("measure", Unit::Text),
        Column::new("base", Unit::Count),
        Column::new("other", Unit::Count),
    ];
    columns.extend(headings.map(|heading| Column::new(heading, Unit::Count)));
    columns.push(Column::new("verdict", Unit::Text));
    Table {
        name: "changes".into(),
        title: "All cells".into(),
        caption: "Throughput per second, times in seconds.".into(),
        columns,
        rows: rows.collect(),
    }
}

/// Ratios against clients, a panel for each measure.
fn ratios(comparison: &Comparison) -> Figure {
    let mut workloads: Vec<&str> = Vec::new();
    for cell in &comparison.cells {
        if !workloads.contains(&cell.levels.workload.as_str()) {
            workloads.push(&cell.levels.workload);
        }
    }
    let point = |change: &MeasureChange| {
        let interval = change.ratio_interval.map(|interval| (interval.low, interval.high));
        Some(EstimateCell { value: change.ratio?, interval, n: change.base.n + change.other.n })
    };
    let series = workloads.iter().enumerate().map(|(index, workload)| LineSeries {
        name: (*workload).to_owned(),
        tint: Tint::Series(index),
        mark: Mark::Joined,
        points: comparison
            .cells
            .iter()
            .filter(|cell| cell.levels.workload == *workload)
            .map(|cell| FigurePoint {
                x: f64::from(cell.levels.clients),
                y: cell.changes.iter().map(point).collect(),
            })
            .collect(),
    });
    let axis = |measure: Measure| Axis::linear(format!("{}, ratio", measure.name()), Unit::Share);
    // A bar without a bound would leave the points no room.
    let y = Measure::ALL.map(|measure| Axis { cut: true, ..axis(measure) });
    Figure {
        name: "ratios".into(),
        title: format!("{} divided by {}, against clients", comparison.other, comparison.base),
        caption: "100 % is no change. Bars are 95 % intervals of the ratio: where one reaches over 100 %, there is no conclusion for \
                  that cell. Bars are cut off beyond three times the highest point of their panel. The axes start from zero."
            .into(),
        quantities: vec![quantities::THROUGHPUT, quantities::RESPONSE_TIME, quantities::PERCENTILE],
        notes: Vec::new(),
        plot: Plot::Lines(Lines { x: Axis::linear("clients", Unit::Count), y: y.to_vec(), series: series.collect() }),
    }
}

#[cfg(test)]
mod tests {
    use krarup_analysis::change::Conclusion;
    use krarup_analysis::compare::{CellChange, Overall};
    use krarup_analysis::quantity::IntervalBasis;
    use krarup_analysis::trial::CellLevels;

    use super::*;
    use crate::html;

    /// Half as much again, by an interval that reaches further up than down.
    fn half_more() -> MeasureChange {
        let quantity = |value| Quantity { value, interval: None, n: 3, basis: IntervalBasis::Repetitions };
        MeasureChange {
            measure: Measure::Throughput,
            base: quantity(1_000.0),
            other: quantity(1_500.0),
            difference: 500.0,
            difference_interval: None,
            ratio: Some(1.5),
            ratio_interval: Some(Interval { low: 1.05, high: 2.14, level: 0.95 }),
            verdict: Conclusion::Better,
            compared: None,
        }
    }

    #[test]
    fn nothing_in_common_is_said_and_not_drawn() {
        let empty = Comparison {
            base: "a".into(),
            other: "b".into(),
            overall: Vec::new(),
            cells: Vec::new(),
            cautions: Vec::new(),
        };
        let page = document(&empty, "krarup");
        assert_eq!(page.sections.len(), 1);
        assert!(page.notes[0].text.contains("no cell in common"));
    }

    #[test]
    fn a_row_has_both_ends_of_an_interval_that_is_not_symmetric() {
        let mut change = half_more();
        assert_eq!(change_in_words(&change), TableValue::from("+50.0 % (+5.0 % to +114.0 %)"));
        change.ratio_interval = None;
        assert_eq!(change_in_words(&change), TableValue::from("+50.0 %"));
        change.ratio = None;
        assert_eq!(change_in_words(&change), TableValue::Missing);
    }

    /// One cell, of which each measure has changed so.
    fn one_cell(change: &MeasureChange) -> Comparison {
        let levels = CellLevels { workload: "read-only".into(), clients: 8 };
        let changes = Measure::ALL.map(|measure| MeasureChange { measure, ..change.clone() });
        Comparison {
            base: "a".into(),
            other: "b".into(),
            overall: Vec::new(),
            cells: vec![CellChange { levels, changes: changes.to_vec() }],
            cautions: Vec::new(),
        }
    }

    /// The data has all of it.
    #[test]
    fn a_bar_without_a_bound_is_cut_off_at_the_edge() {
        let interval = Interval { low: 0.017, high: 112.75, level: 0.95 };
        let body = html::body(&document(
            &one_cell(&MeasureChange { ratio_interval: Some(interval), ..half_more() }),
            "krarup",
        ));
        assert_eq!(body.matches("\"cut\":true").count(), Measure::ALL.len(), "{body}");
        assert!(body.contains("(1.70 to 11,275)"), "{body}");
    }

    #[test]
    fn the_data_of_the_ratios_has_both_ends_and_no_half() {
        let body = html::body(&document(&one_cell(&half_more()), "krarup"));
        let ratio = "150 <span class=\"half\">(105 to 214)</span>";
        assert!(body.contains(ratio) && !body.contains('±'), "{body}");
    }

    #[test]
    fn the_answer_stands_first_and_has_its_verdict() {
        let overall = Overall {
            measure: Measure::Throughput,
            cells: 4,
            ratio: 1.25,
            interval: None,
            verdict: Conclusion::TooFewRuns,
            explained_by: None,
        };
        let comparison = Comparison {
            base: "a".into(),
            other: "b".into(),
            overall: vec![overall],
            cells: Vec::new(),
            cautions: Vec::new(),
        };
        let page = document(&comparison, "krarup");
        assert_eq!(page.summary[0].about, "throughput");
        assert!(
            page.summary[0].text.starts_with("+25.0 % over 4 cells, no conclusion"),
            "{}",
            page.summary[0].text
        );
    }
}
