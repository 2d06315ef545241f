//! Tables for programs: one column for each factor, one row for each cell or each repetition.

use krarup_analysis::cell::{Cell, Repetition};
use krarup_analysis::quantity::Quantity;
use krarup_analysis::results::Results;
use krarup_record::watch::Watch;
use krarup_record::{quantities, stamps};
use krarup_units::Unit;

use crate::csv;
use crate::document::{Column, Table, TableValue};
use crate::estimates::measured;

/// The factors of the experiment, by name; empty where results of an earlier build have none.
fn factors(results: &Results) -> Vec<&str> {
    results.cells.first().map_or(Vec::new(), |cell| cell.factors.iter().map(|(name, _)| &**name).collect())
}

/// What either table begins with: which cell it is, how many repetitions or which, and what was
/// measured at the clients and the middleware.
fn columns(results: &Results, repetitions: &str) -> Vec<Column> {
    let mut columns: Vec<Column> =
        factors(results).into_iter().map(|name| Column::new(name, Unit::Text)).collect();
    if columns.is_empty() {
        columns.push(Column::new("workload", Unit::Text));
    }
    columns.extend([
        Column::of(quantities::POPULATION),
        Column::new(repetitions, Unit::Count),
        Column::of(quantities::THROUGHPUT),
        Column::of(quantities::KEY_RATE),
        Column::named("response time mean", quantities::RESPONSE_TIME),
        Column::named("response time p50", quantities::RESPONSE_TIME),
        Column::named("response time p90", quantities::RESPONSE_TIME),
        Column::named("response time p99", quantities::RESPONSE_TIME),
        Column::named("queue time mean", stamps::QUEUE_TIME),
        Column::named("server time mean", stamps::SERVER_TIME),
        Column::named("own time mean", stamps::OWN_TIME),
    ]);
    columns
}

/// The same columns; a factor, which so many of them are, that is called as another column has
/// `factor_` before its name.
fn distinct(mut columns: Vec<Column>, factors: usize) -> Vec<Column> {
    for place in 0..factors {
        while columns.iter().filter(|one| csv::heading(one) == csv::heading(&columns[place])).count() > 1 {
            columns[place].heading.insert_str(0, "factor_");
        }
    }
    columns
}

/// The levels of a cell, as they are written in the spec, and its population.
fn levels(results: &Results, cell: &Cell) -> Vec<TableValue> {
    let of = |name: &str| cell.level(name).map_or(TableValue::Missing, TableValue::from);
    let mut values: Vec<TableValue> = factors(results).into_iter().map(of).collect();
    if values.is_empty() {
        values.push(cell.levels.workload.as_str().into());
    }
    values.push(f64::from(cell.levels.clients).into());
    values
}

fn estimate(quantity: Option<&Quantity>) -> TableValue {
    quantity.map(measured).into()
}

/// All cells: what was estimated of each.
pub(crate) fn cells(results: &Results) -> Table {
    let mut columns = columns(results, "repetitions");
    columns.extend([
        Column::named("outside mean", quantities::OUTSIDE),
        Column::of(quantities::QUEUE_LENGTH),
        Column::of(quantities::WORKERS_HELD),
        Column::of(quantities::HIT_RATIO),
        Column::new("requests answered", Unit::Count),
        Column::new("errors", Unit::Count),
        Column::new("busy own", Unit::Cores),
        Column::new("busy others", Unit::Cores),
        Column::new("busy kernel", Unit::Cores),
        Column::new("busy steal", Unit::Cores),
    ]);
    let row = |cell: &Cell| {
        let inside = cell.middleware.as_ref();
        let watched = |of: fn(&Watch) -> f64| TableValue::from(cell.machine.as_ref().map(of));
        let mut row = levels(results, cell);
        row.extend([
            (cell.repetitions.len() as f64).into(),
            estimate(Some(&cell.throughput)),
            estimate(cell.keys.as_ref()),
            estimate(Some(&cell.response.mean)),
            estimate(Some(&cell.response.p50)),
            estimate(Some(&cell.response.p90)),
            estimate(Some(&cell.response.p99)),
            estimate(inside.map(|inside| &inside.queue.mean)),
            estimate(inside.map(|inside| &inside.server.mean)),
            estimate(inside.map(|inside| &inside.own.mean)),
            estimate(inside.map(|inside| &inside.outside)),
            estimate(inside.and_then(|inside| inside.queue_length.as_ref())),
            inside.and_then(|inside| inside.workers_busy).into(),
            cell.hit_ratio.into(),
            (cell.completed as f64).into(),
            (cell.errors as f64).into(),
            watched(|watch| watch.own),
            watched(|watch| watch.foreign),
            watched(|watch| watch.kernel),
            watched(|watch| watch.steal),
        ]);
        row
    };
    Table {
        name: "cells".into(),
        title: "One row for each cell, one column for each factor".into(),
        caption: "Base units are in the names; an estimate is followed by the ends of its interval and n."
            .into(),
        columns: distinct(columns, factors(results).len()),
        rows: results.cells.iter().map(row).collect(),
    }
}

/// All repetitions of all cells, each in its own figures.
pub(crate) fn trials(results: &Results) -> Table {
    let mut columns = columns(results, "repetition");
    columns.extend([
        Column::new("requests answered", Unit::Count),
        Column::new("errors", Unit::Count),
        Column::new("busy", Unit::Cores),
        Column::new("disturbed", Unit::Text),
    ]);
    let row = |cell: &Cell, one: &Repetition| {
        let mut row = levels(results, cell);
        row.extend([
            // From 1, as everywhere where a reader sees it.
            f64::from(one.repetition + 1).into(),
            one.throughput.into(),
            one.keys.into(),
            one.response.into(),
            one.p50.into(),
            one.p90.into(),
            one.p99.into(),
            one.queue.into(),
            one.server.into(),
            one.own.into(),
            (one.completed as f64).into(),
            (one.errors as f64).into(),
            one.processors.into(),
            if one.disturbed { "yes" } else { "no" }.into(),
        ]);
        row
    };
    let rows = results.cells.iter().flat_map(|cell| cell.repetitions.iter().map(move |one| (cell, one)));
    Table {
        name: "trials".into(),
        title: "One row for each repetition".into(),
        caption: "The figures of each run alone, without intervals; repetitions count from 1.".into(),
        columns: distinct(columns, factors(results).len()),
        rows: rows.map(|(cell, one)| row(cell, one)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_factor_takes_the_name_of_another_column() {
        let factors = ["errors", "Workers", "workers", "factor_errors", "mix"];
        let fixed = [Column::of(quantities::POPULATION), Column::new("errors", Unit::Count)];
        let columns = factors.map(|name| Column::new(name, Unit::Text)).into_iter().chain(fixed).collect();
        let columns = distinct(columns, factors.len());
        let names: BTreeSet<String> = columns.iter().map(csv::heading).collect();
        assert_eq!(names.len(), columns.len(), "{names:?}");
        for name in ["factor_workers", "workers", "mix", "errors", "population"] {
            assert!(names.contains(name), "{name}: {names:?}");
        }
    }
}
