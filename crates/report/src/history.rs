//! Results beside older ones: the section "History" of a report.

use krarup_analysis::change::Measure;
use krarup_analysis::history::{CellHistory, History, HistoryChange, HistoryRun};
use krarup_analysis::quantity::{IntervalBasis, Quantity};
use krarup_analysis::trial::CellLevels;
use krarup_record::quantities;
use krarup_units::Unit;

use crate::document::{Block, Column, EstimateCell, Note, Section, Table, TableValue};
use crate::estimates::measured;
use crate::figures::{Axis, Figure, FigurePoint, LineSeries, Mark, Plot, RunTrend, Tint, TrendMark};
use crate::tables::name_part;
use crate::workloads::clients;

/// The whole section.
pub(crate) fn section(history: &History) -> Section {
    let mut blocks = vec![Block::List(history.sentences())];
    blocks.extend(history.cautions_in_words().into_iter().map(|words| Block::Note(Note::warning(words, ""))));
    blocks.push(Block::Table(runs(history)));
    let figures = workloads(history).into_iter().zip(1..);
    blocks.extend(figures.map(|(workload, number)| Block::Figure(figure(history, workload, number))));
    blocks.push(Block::InWords(changes(history), numbers(history)));
    blocks.push(Block::Data(comparisons(history)));
    Section { title: "History".into(), blocks }
}

fn workloads(history: &History) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for cell in history.compared() {
        if !found.contains(&cell.levels.workload.as_str()) {
            found.push(&cell.levels.workload);
        }
    }
    found
}

/// The runs by their time, and what each lacks.
fn runs(history: &History) -> Table {
    let rows = history.runs.iter().enumerate().map(|(place, run)| {
        let lacks: Vec<String> = run.lacks.iter().map(CellLevels::in_words).collect();
        vec![
            ((place + 1) as f64).into(),
            run.name.as_str().into(),
            run.started.as_str().into(),
            (run.cells as f64).into(),
            (run.warnings as f64).into(),
            if lacks.is_empty() { "none".into() } else { lacks.join("; ").as_str().into() },
        ]
    });
    Table {
        name: "history-runs".into(),
        title: "The runs, by their time".into(),
        caption: "Warnings are what the checks found of the figures of a run. Cells that others have and a run lacks are in no comparison with it.".into(),
        columns: vec![
            Column::new("number", Unit::Count),
            Column::new("run", Unit::Text),
            Column::new("started", Unit::Text),
            Column::new("cells", Unit::Count),
            Column::new("warnings", Unit::Count),
            Column::new("cells it lacks", Unit::Text),
        ],
        rows: rows.collect(),
    }
}

/// Whether intervals of these cells are of the windows of a single repetition, in any run.
fn has_windows<'a>(mut cells: impl Iterator<Item = &'a CellHistory>) -> bool {
    cells.any(|cell| cell.values.iter().flatten().flatten().any(|one| one.basis == IntervalBasis::Windows))
}

/// A workload, the one of this number, in run after run: a panel for each measure, a line for each
/// number of clients.
fn figure(history: &History, workload: &str, number: usize) -> Figure {
    let cells: Vec<&CellHistory> =
        history.compared().filter(|cell| cell.levels.workload == workload).collect();
    let point = |(run, values): (usize, &Option<[Quantity; 3]>)| {
        let values = values.as_ref()?;
        Some(FigurePoint { x: run as f64, y: values.iter().map(|one| Some(measured(one))).collect() })
    };
    let series = cells.iter().enumerate().map(|(index, cell)| LineSeries {
        name: clients(cell.levels.clients),
        tint: Tint::Series(index),
        mark: Mark::Joined,
        points: cell.values.iter().enumerate().filter_map(point).collect(),
    });
    let real = history.changes.iter().filter(|change| change.is_real() && !change.overall);
    let marked = real.filter_map(|change| {
        Some(TrendMark {
            series: cells.iter().position(|cell| cell.levels == change.levels)?,
            panel: Measure::ALL.iter().position(|measure| *measure == change.change.measure)?,
            run: change.to,
            word: change.change.verdict.to_string(),
        })
    });
    let of_windows = if has_windows(cells.iter().copied()) {
        "; where a cell has one repetition, bars are of its windows, and p99 has none"
    } else {
        ""
    };
    let names: String = workload.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { ' ' }).collect();
    let names = names.split_whitespace().collect::<Vec<_>>().join("-").to_lowercase();
    Figure {
        name: format!("history-{number}-{}", name_part(&names)).trim_end_matches('-').to_owned(),
        title: format!("{workload}, run after run"),
        caption: format!(
            "Points are means of a run's repetitions, bars their 95 % t intervals{of_windows}; equal distances are one run. A ring marks what is \
             better or worse than in the run before: Welch's test over the repetitions of both, with an error of 5 % for all comparisons of this \
             section together (Holm 1979). Where there is no ring there is no conclusion. The axes start from zero."
        ),
        quantities: vec![quantities::THROUGHPUT, quantities::RESPONSE_TIME, quantities::PERCENTILE],
        notes: Vec::new(),
        plot: Plot::Trend(RunTrend {
            runs: history.runs.iter().map(|run| run.name.clone()).collect(),
            y: vec![
                Axis::of(quantities::THROUGHPUT, ""),
                Axis::of(quantities::RESPONSE_TIME, "mean"),
                Axis::of(quantities::RESPONSE_TIME, "p99"),
            ],
            series: series.collect(),
            marked: marked.collect(),
        }),
    }
}

fn unit(measure: Measure) -> Unit {
    // Both kinds stand in one column: each brings its unit.
    if measure == Measure::Throughput { Unit::PerSecond } else { Unit::Seconds }
}

/// `24,100/s ± 1.2 %`.
fn in_words(measure: Measure, quantity: &Quantity) -> String {
    let half = quantity.half_share().map_or(String::new(), |half| format!(" ± {}", Unit::Share.show(half)));
    unit(measure).show(quantity.value) + &half
}

/// Each measure of each cell in every run, and what changed; for the page and for a terminal.
pub fn changes(history: &History) -> Table {
    let row = |cell: &CellHistory, place: usize, measure: Measure| {
        let mut row = vec![
            TableValue::from(cell.levels.workload.as_str()),
            TableValue::from(f64::from(cell.levels.clients)),
            TableValue::from(measure.name()),
        ];
        let value = |values: &Option<[Quantity; 3]>| match values {
            Some(values) => TableValue::Text(in_words(measure, &values[place])),
            None => TableValue::from("lacks it"),
        };
        row.extend(cell.values.iter().map(value));
        let of = history
            .changes
            .iter()
            .filter(|one| one.levels == cell.levels && one.change.measure == measure && one.is_real());
        let said = |one: &HistoryChange| {
            let change =
                one.change.ratio.map_or(String::new(), |ratio| format!(" {:+.1} %", (ratio - 1.0) * 100.0));
            let since = if one.overall {
                format!("since {}", history.runs[one.from].name)
            } else {
                format!("in {}", history.runs[one.to].name)
            };
            format!("{}{change} {since}", one.change.verdict)
        };
        let said: Vec<String> = of.map(said).collect();
        row.push(TableValue::Text(if said.is_empty() { "no conclusion".into() } else { said.join("; ") }));
        row
    };
    let rows = history.compared().flat_map(|cell| {
        Measure::ALL.into_iter().enumerate().map(move |(place, measure)| row(cell, place, measure))
    });
    let mut columns = vec![
        Column::new("workload", Unit::Text),
        Column::new("clients", Unit::Count),
        Column::new("measure", Unit::Text),
    ];
    columns.extend(history.runs.iter().map(|run| Column::new(&run.name, Unit::Text)));
    columns.push(Column::new("changes", Unit::Text));
    let of_windows =
        if has_windows(history.compared()) { ", or where a cell has one, of its windows," } else { "," };
    Table {
        name: "history".into(),
        title: "Every cell, run after run".into(),
        caption: format!(
            "± is half the 95 % t interval of the repetitions{of_windows} as a share of the value. A change is named where it is real: from the \
             run before, or since the first run where there are three or more."
        ),
        columns,
        rows: rows.collect(),
    }
}

/// The same for programs: a row for each cell and run.
fn numbers(history: &History) -> Table {
    let rows = history.cells.iter().flat_map(|cell| {
        let of_run = |(run, values): (&HistoryRun, &Option<[Quantity; 3]>)| {
            let mut row = vec![
                TableValue::from(cell.levels.workload.as_str()),
                TableValue::from(f64::from(cell.levels.clients)),
                TableValue::from(run.name.as_str()),
            ];
            row.extend(values.as_ref()?.iter().map(|one| TableValue::Measured(measured(one))));
            Some(row)
        };
        history.runs.iter().zip(&cell.values).filter_map(of_run).collect::<Vec<_>>()
    });
    let mut columns = vec![
        Column::new("workload", Unit::Text),
        Column::new("clients", Unit::Count),
        Column::new("run", Unit::Text),
    ];
    columns.extend(Measure::ALL.map(|measure| {
        let heading = match measure {
            Measure::Throughput => "throughput",
            Measure::Response => "response time mean",
            Measure::P99 => "response time p99",
        };
        Column::new(heading, unit(measure))
    }));
    Table { name: "history".into(), columns, rows: rows.collect(), ..Table::default() }
}

/// Every comparison that was made.
fn comparisons(history: &History) -> Table {
    let row = |one: &HistoryChange| {
        let change = &one.change;
        let name = |run: usize| TableValue::from(history.runs[run].name.as_str());
        let ratio = change.ratio.map(|ratio| EstimateCell {
            value: ratio - 1.0,
            interval: change.ratio_interval.map(|interval| (interval.low - 1.0, interval.high - 1.0)),
            n: change.base.n + change.other.n,
        });
        vec![
            TableValue::from(one.levels.workload.as_str()),
            TableValue::from(f64::from(one.levels.clients)),
            TableValue::from(change.measure.name()),
            name(one.from),
            name(one.to),
            ratio.into(),
            one.p_value.into(),
            TableValue::from(change.verdict.to_string().as_str()),
        ]
    };
    Table {
        name: "history-comparisons".into(),
        title: "Every comparison".into(),
        caption: "The change has Welch's interval at 95 % for this comparison alone, of the runs' logarithms. p is the probability of such a difference if \
                  there were none, adjusted for all comparisons of the table (Holm 1979): below 5 % it is told as a change."
            .into(),
        columns: vec![
            Column::new("workload", Unit::Text),
            Column::new("clients", Unit::Count),
            Column::new("measure", Unit::Text),
            Column::new("from", Unit::Text),
            Column::new("to", Unit::Text),
            Column::new("change", Unit::Share),
            Column::new("p", Unit::Share),
            Column::new("verdict", Unit::Text),
        ],
        rows: history.changes.iter().map(row).collect(),
    }
}
