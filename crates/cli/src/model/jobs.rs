//! What each job of `krarup model` but the simulation does.

use std::path::PathBuf;

use krarup_model::calibrate::{self, Calibration, CalibrationRow, HeldOutErrors, PopulationMeasurement};
use krarup_model::simulate::SimulationSettings;
use krarup_model::solve::SolutionMethod;
use krarup_model::table::ResultTable;
use krarup_model::{Error, limits, solve, whatif};
use krarup_report::document;
use krarup_report::figures::{FigurePoint, LineSeries, Mark, Tint};
use krarup_units::Unit;
use serde_json::{Value, json};

use super::answer::Answer;
use super::args::{
    BoundsArgs, CalibrateArgs, ExplainArgs, ModelCompareArgs, PredictArgs, SolveArgs, WhatifArgs,
};
use super::figures::{
    before_and_after_figure, calibration_figure, classes_figure, explained_figures, lines, of_workers,
    residual_figures, stations_figure,
};
use super::files::{failed, name, parse_network, read, read_calibration, read_network};
use super::records;
use super::shown::{selection, thinned};
use crate::failure::Failure;
use crate::{input, written};

pub(super) fn solved(args: &SolveArgs) -> Result<Answer, Failure> {
    let network = read_network(&args.network)?;
    let solution =
        solve::solve(&network, args.method.into()).map_err(|error| failed(&args.network, &error))?;
    let classes = solution.class_table();
    let stations = [Some(solution.station_table()), solution.pool_table(), solution.waits_table()];
    let with_stations = |classes: ResultTable| {
        std::iter::once(classes).chain(stations.iter().flatten().cloned()).collect::<Vec<_>>()
    };
    let bounds = limits::of(&network).ok();
    // One point has a row for each class, and all of them are shown.
    let by_population = solution.points.len() > 1;
    let figures = if by_population {
        vec![classes_figure(&solution, bounds.as_ref(), &[]), stations_figure(&solution, &network)]
    } else {
        Vec::new()
    };
    Ok(Answer {
        title: format!("{}: solution", name(&network.name)),
        notes: solution.notes.clone(),
        tables: with_stations(if by_population { thinned(&classes) } else { classes.clone() }),
        full: Some(with_stations(classes)),
        figures,
        // It has every station at every population: much, where it is not asked for.
        value: if args.output.json { json!(solution) } else { Value::Null },
    })
}

pub(super) fn bounded(args: &BoundsArgs) -> Result<Answer, Failure> {
    let network = read_network(&args.network)?;
    let fail = |error: Error| failed(&args.network, &error);
    let limits = limits::of(&network).map_err(fail)?;
    let closed = network.classes[0].population();
    if closed.is_none() && !args.population.is_empty() {
        let class = &network.classes[0].name;
        return Err(Failure::usage(format!("class `{class}` is open: it has no population to bound"))
            .hint("leave --population out, or give the class a population in place of its rate"));
    }
    let most = closed.unwrap_or(1);
    let populations = if args.population.is_empty() { selection(most) } else { args.population.clone() };
    let mut tables = vec![limits.table()];
    let mut notes = Vec::new();
    if closed.is_some() {
        tables.push(limits.bounds_table(&populations));
        tables.extend(limits.product_form_table(&populations));
        notes.push(format!("the knee is at N* = {}", krarup_units::text::count(limits.knee)));
    }
    if let Some(bottleneck) = &limits.bottleneck {
        notes.push(format!(
            "the bottleneck is {bottleneck}: {}/s",
            krarup_units::text::count(limits.capacity)
        ));
    }
    let solution = solve::solve(&network, SolutionMethod::Auto).ok();
    // Sensitivities are as good as the solution that they are differences of.
    notes.extend(solution.iter().flat_map(|solution| solution.notes.clone()));
    match whatif::sensitivity(&network, SolutionMethod::Auto) {
        Ok(table) => tables.push(table),
        Err(error) => notes.push(format!("no sensitivities: {error}")),
    }
    let value = json!({ "limits": limits, "tables": tables });
    let figure = closed
        .and(solution)
        .filter(|solution| solution.points.len() > 1)
        .map(|solution| classes_figure(&solution, Some(&limits), &[]));
    Ok(Answer {
        title: format!("{}: bounds", name(&network.name)),
        notes,
        tables,
        full: None,
        figures: figure.into_iter().collect(),
        value,
    })
}

/// The rows to calibrate on, from files or from a monitoring, and what they are of.
fn measured(args: &CalibrateArgs) -> Result<(PathBuf, records::MeasurementFiles), Failure> {
    let Some(points) = args.series.points()? else {
        let files = records::read_all(&args.rows, args.csv.unit.seconds(), args.csv.middlewares)?;
        return Ok((args.rows[0].clone(), files));
    };
    let of = PathBuf::from("Prometheus");
    let rows = calibrate::series_rows(&points).map_err(|error| failed(&of, &error))?;
    let files = records::MeasurementFiles {
        rows,
        holds: None,
        windows: Vec::new(),
        middlewares: 0,
        scaled: false,
        at_clients: false,
    };
    Ok((of, files))
}

pub(super) fn calibrated(args: &CalibrateArgs) -> Result<Answer, Failure> {
    let (of, files) = measured(args)?;
    let records::MeasurementFiles { mut rows, holds, windows, middlewares, scaled, at_clients } = files;
    let fail = |error: Error| failed(&of, &error);
    let mut notes = Vec::new();
    if let Some(link) = args.link {
        if windows.is_empty() && scaled {
            notes.push(
                "--link is left out: what these trials recorded by the second is of a slower machine".into(),
            );
        } else if windows.is_empty() {
            let what =
                "--link needs recorded requests: rows of CSV, of Prometheus or of clients say no bytes";
            return Err(Failure::usage(what).hint(
                "leave it out, or give folders of runs of some seconds that krarup proxy, or krarup broker, --stats-dir recorded",
            ));
        }
        calibrate::add_link_use(&mut rows, &windows, link * middlewares.max(1) as f64);
    }
    let calibration = calibrate::calibrate(&rows, args.cores).map_err(fail)?;
    let json = serde_json::to_string_pretty(&calibration).map_err(|e| Failure::run(e.to_string()))?;
    written::save(&args.out, &json)
        .map_err(|error| Failure::run(error.to_string()).hint("choose another file with --out"))?;
    eprintln!("model: {}", args.out.display());
    if at_clients {
        notes.push("no middleware of ours was in these runs: the model is of all that clients wait for, and a worker stands for a request under way, so that each client has one; `krarup model predict` without --workers gives each client one".into());
    }
    if calibration.scores.iter().any(|(form, _)| *form == calibrate::CurveFamily::UnknownCores) {
        notes.push("the number of cores of the middleware is not given: one of the forms is the mean over those that are usual; --cores, or a column `cores`, narrows it".into());
    }
    let mut tables = vec![calibration.forms_table(), calibration.rows_table()];
    tables.extend(holds);
    if !windows.is_empty() {
        match calibrate::demand_table(&windows) {
            Ok(demands) => tables.push(demands),
            Err(error) => notes.push(format!("no {error}")),
        }
        tables.extend(args.link.map(|link| calibrate::link_table(&windows, link)));
    }
    if let Some(broken) = calibration.broken_table() {
        notes.push(
            "some rows break laws that hold for every system: find out why before you believe the model"
                .into(),
        );
        tables.push(broken);
    }
    notes.extend(calibration.limits());
    notes.extend(calibration.doubts.iter().map(|doubt| format!("no conclusion from this model: {doubt}")));
    let title = format!("{}: calibration", of.display());
    let mut figures = vec![calibration_figure(&calibration, &rows).map_err(fail)?];
    figures.extend(residual_figures(&calibration));
    Ok(Answer { title, notes, tables, full: None, figures, value: json!(calibration) })
}

pub(super) fn predicted(args: &PredictArgs) -> Result<Answer, Failure> {
    let calibration = read_calibration(&args.model, &read(&args.model)?)?;
    let configurations = configurations(&calibration, args)?;
    let predictions =
        calibration.predict_all(&configurations).map_err(|error| failed(&args.model, &error))?;
    let pools: Vec<Option<usize>> = match &args.workers[..] {
        [] => vec![None],
        workers => workers.iter().copied().map(Some).collect(),
    };
    let series = pools.iter().enumerate().map(|(index, workers)| LineSeries {
        name: of_workers(*workers),
        tint: Tint::Series(index),
        mark: Mark::Joined,
        points: predictions
            .iter()
            .filter(|p| workers.is_none_or(|workers| p.answer.workers == workers))
            .map(|p| FigurePoint {
                x: p.answer.population as f64,
                y: [p.throughput, p.response]
                    .map(|i| {
                        let interval = Some((i.low, i.high));
                        Some(document::EstimateCell {
                            value: i.value,
                            interval,
                            n: calibration.rows.len() as u64,
                        })
                    })
                    .into(),
            })
            .collect(),
    });
    let caption =
        "Bars: 95 % intervals for one new measurement, as wide as rows left out were off and forms disagree.";
    let figures = if predictions.is_empty() {
        Vec::new()
    } else {
        vec![lines("predictions", "Predictions", caption, series.collect())]
    };
    let mut tables = Vec::new();
    if !predictions.is_empty() {
        tables.push(calibrate::prediction_table(&predictions));
        tables.extend(calibrate::percentile_table(&predictions));
    }
    let mut notes =
        vec![format!("calibrated on {} rows: {}", calibration.rows.len(), calibration.model.name())];
    if calibration.spread.is_none() && !predictions.is_empty() {
        notes.push(
            "no percentiles: at least two rows need p50, p90 and p99 of the response time at the clients"
                .into(),
        );
    }
    let wide = predictions.iter().filter_map(|said| said.percentiles.as_ref()?.too_wide());
    let wide = wide.fold(0.0, f64::max);
    if wide > 0.0 {
        notes.push(format!(
            "no conclusion on percentiles: response times of rows left out were of another shape, and an interval spans a factor of {wide:.1}"
        ));
    }
    let nulls = args.against_null.as_ref().map(|rows| beside_nulls(&calibration, rows, args)).transpose()?;
    if let Some((table, told, _)) = &nulls {
        tables.push(table.clone());
        notes.extend(told.iter().cloned());
    }
    let errors = nulls.map(|(.., errors)| errors);
    Ok(Answer {
        title: format!("{}: predictions", args.model.display()),
        notes,
        tables,
        full: None,
        figures,
        value: json!({ "calibrated_on": calibration.rows, "predictions": predictions, "against_null": errors }),
    })
}

/// Clients and workers to be predicted: every number with every other, or, of a model in whose rows
/// each client had a worker, as many of the one as of the other.
fn configurations(calibration: &Calibration, args: &PredictArgs) -> Result<Vec<(usize, usize)>, Failure> {
    if args.workers.is_empty() && !args.population.is_empty() {
        if calibration.has_pool() {
            return Err(Failure::usage(
                "this model is of clients and workers, and no number of workers is given",
            )
            .hint("write --workers M,…: of all middlewares together"));
        }
        return Ok(args.population.iter().map(|population| (*population, *population)).collect());
    }
    let each = |workers: &usize| args.population.iter().map(|population| (*population, *workers)).collect();
    Ok(args.workers.iter().flat_map(|workers| -> Vec<_> { each(workers) }).collect())
}

/// The model beside those that know nothing of middlewares: a table, what it comes to in words, and
/// every error.
fn beside_nulls(
    calibration: &Calibration,
    paths: &[PathBuf],
    args: &PredictArgs,
) -> Result<(ResultTable, Vec<String>, Vec<HeldOutErrors>), Failure> {
    let rows = match paths {
        [] => None,
        paths => Some(records::read_all(paths, args.csv.unit.seconds(), args.csv.middlewares)?.rows),
    };
    let fail = |error: Error| failed(paths.first().unwrap_or(&args.model), &error);
    let found = calibrate::against_nulls(calibration, rows.as_deref()).map_err(fail)?;
    let mut told = Vec::new();
    type Errors = fn(&HeldOutErrors) -> &Vec<f64>;
    let quantities: [(&str, Errors); 3] =
        [("X", |errors| &errors.throughput), ("R", |errors| &errors.response), ("p99", |errors| &errors.p99)];
    for (what, of) in quantities {
        let median =
            |errors: &HeldOutErrors| HeldOutErrors::median_and_worst(of(errors)).map(|(median, _)| median);
        let Some(ours) = median(&found[0]) else { continue };
        let nulls = found[1..].iter().filter_map(|null| Some((null.model.as_str(), median(null)?)));
        let Some((null, least)) = nulls.min_by(|one, other| one.1.total_cmp(&other.1)) else { continue };
        told.push(beside_best(what, ours, (null, least)));
    }
    Ok((calibrate::null_table(&found), told, found))
}

/// How far off the model is, beside the best of those that know nothing of middlewares.
fn beside_best(what: &str, ours: f64, (null, least): (&str, f64)) -> String {
    let percent = |share: f64| Unit::Share.show(share);
    if ours <= least {
        format!("{what}: off by {}, the best null model ({null}) by {}", percent(ours), percent(least))
    } else {
        format!("{what}: off by {}; a null model is better: {null}, {}", percent(ours), percent(least))
    }
}

/// What was fitted, in words and drawings.
pub(super) fn explained(args: &ExplainArgs) -> Result<Answer, Failure> {
    let calibration = read_calibration(&args.model, &read(&args.model)?)?;
    let fail = |error: Error| failed(&args.model, &error);
    let explanation = calibration.explain().map_err(fail)?;
    Ok(Answer {
        title: format!("{}: what was fitted", args.model.display()),
        notes: explanation.words.clone(),
        tables: vec![explanation.parts_table(), calibration.forms_table(), calibration.rows_table()],
        full: None,
        figures: explained_figures(&calibration),
        value: json!(explanation),
    })
}

/// Half width of the intervals of what `whatif` simulates, relative to the value; and how many
/// events it takes at most, some seconds' work.
const WHAT_IF_PRECISION: f64 = 0.01;
const WHAT_IF_EVENTS: u64 = 5_000_000;

pub(super) fn changed(args: &WhatifArgs) -> Result<Answer, Failure> {
    let network = read_network(&args.network)?;
    let fail = |error: Error| failed(&args.network, &error);
    let changes = args
        .change
        .iter()
        .map(|text| text.parse())
        .collect::<Result<Vec<whatif::Change>, Error>>()
        .map_err(fail)?;
    let (before, after, table) = whatif::what_if(&network, &changes, args.method.into()).map_err(fail)?;
    let mut notes = before.notes.clone();
    notes.extend(after.notes.iter().filter(|note| !before.notes.contains(note)).cloned());
    let settings = SimulationSettings {
        seed: args.seed,
        precision: WHAT_IF_PRECISION,
        max_events: WHAT_IF_EVENTS,
        percentiles: args.percentiles.clone(),
        ..SimulationSettings::default()
    };
    let (percentiles, warnings) = whatif::percentiles(&network, &changes, &settings).map_err(fail)?;
    notes.extend(warnings.iter().map(|warning| format!("warning: {warning}")));
    Ok(Answer {
        title: format!("{}: {}", name(&network.name), args.change.join(", ")),
        value: json!({ "changes": args.change, "before": before.last(), "after": after.last(), "table": table,
                       "percentiles": percentiles, "exact": before.exact && after.exact, "notes": notes }),
        notes,
        tables: vec![whatif::with_units(&table), percentiles.clone()],
        full: Some(vec![table, percentiles]),
        figures: before_and_after_figure(&before, &after).into_iter().collect(),
    })
}

/// Rows with everything, from files and folders.
fn rows_of(args: &ModelCompareArgs, paths: &[PathBuf]) -> Result<Vec<CalibrationRow>, Failure> {
    Ok(records::read_all(paths, args.csv.unit.seconds(), args.csv.middlewares)?.rows)
}

/// What a network is set beside: of a file three columns suffice.
fn measured_populations(args: &ModelCompareArgs) -> Result<Vec<PopulationMeasurement>, Failure> {
    let mut measured = Vec::new();
    for path in &args.rows {
        if path.is_dir() {
            let rows = rows_of(args, std::slice::from_ref(path))?;
            measured.extend(rows.iter().map(PopulationMeasurement::from));
        } else {
            let read = calibrate::read_measured(&input::text(path)?, args.csv.unit.seconds());
            measured.extend(read.map_err(|error| failed(path, &error))?);
        }
    }
    Ok(measured)
}

/// Refuses to compare with nothing.
fn not_empty<T>(rows: &[T]) -> Result<(), Failure> {
    if rows.is_empty() {
        return Err(Failure::usage("there is no row to compare with")
            .hint("a CSV file has one on each line below its head"));
    }
    Ok(())
}

pub(super) fn compared(args: &ModelCompareArgs) -> Result<Answer, Failure> {
    let source = read(&args.model)?;
    let fail = |error: Error| failed(&args.rows[0], &error);
    let mut figures = Vec::new();
    let mut notes = Vec::new();
    let is_calibration = source.trim_start().starts_with('{') && source.contains("\"residuals\"");
    let table = if is_calibration {
        let calibration = read_calibration(&args.model, &source)?;
        let rows = rows_of(args, &args.rows)?;
        not_empty(&rows)?;
        figures.push(calibration_figure(&calibration, &rows).map_err(fail)?);
        limits::compare_calibration(&calibration, &rows).map_err(fail)?
    } else {
        let network = parse_network(&args.model, &source)?;
        let measured = measured_populations(args)?;
        not_empty(&measured)?;
        let solution =
            solve::solve(&network, SolutionMethod::Auto).map_err(|error| failed(&args.model, &error))?;
        notes.extend(solution.notes.clone());
        figures.push(classes_figure(&solution, limits::of(&network).ok().as_ref(), &measured));
        figures.push(stations_figure(&solution, &network));
        limits::compare_solution(&solution, &measured).map_err(|error| failed(&args.model, &error))?
    };
    let error = limits::mean_error(&table);
    let held_out = table.rows.iter().any(|row| row.last().is_some_and(|cell| *cell == "no".into()));
    notes.push(match error {
        Some((x, r)) => {
            let response = r.map_or(String::new(), |r| format!(", R {}", Unit::Share.show(r)));
            format!("mean error of rows the model had not seen: X {}{response}", Unit::Share.show(x))
        }
        None if held_out => "no row has a population that was solved: there is no error to tell".into(),
        None => "no row that the model had not seen: its errors are no evidence".into(),
    });
    Ok(Answer {
        title: format!("{}: measured and model", args.model.display()),
        notes,
        value: json!({ "table": table, "mean_error": error }),
        tables: vec![table],
        full: None,
        figures,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_model_that_is_as_far_off_is_not_better() {
        let told = |ours| beside_best("X", ours, ("closed M/M/m", 0.1));
        assert!(told(0.1).contains("the best null model (closed M/M/m)"), "{}", told(0.1));
        assert!(told(0.2).contains("a null model is better: closed M/M/m"), "{}", told(0.2));
    }
}
