//! What a model says: how far it was off where it had not looked, and what it expects elsewhere.

use krarup_analysis::predict::{CERTAIN, Interval, NullErrors, PredictedCell, Prediction, WhatIf};
use krarup_analysis::results::Results;
use krarup_record::{quantities, stamps};
use krarup_units::Unit;

use crate::document::{Block, Column, EstimateCell, Finding, Section, Table, TableValue};
use crate::figures::{Axis, Figure, Plot, Scatter, ScatterGroup, Tint};
use crate::tables::name_part;

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// A section for the predictions that were asked for; none where none was.
pub(crate) fn predictions(results: &Results) -> Option<Section> {
    let blocks = blocks(&results.predictions);
    (!blocks.is_empty()).then(|| Section { title: "What a model says".into(), blocks })
}

fn blocks(predictions: &[Prediction]) -> Vec<Block> {
    let names: Vec<String> = predictions.iter().map(name).collect();
    let of = |(place, one): (usize, &Prediction)| {
        // Where letters and digits do not tell two of them apart, the number of the later one does.
        let is_taken = names[..place].contains(&names[place]);
        let number = if is_taken { format!("{}-", place + 1) } else { String::new() };
        family(one, &(number + &names[place]))
    };
    predictions.iter().enumerate().flat_map(of).collect()
}

/// One sentence for each model: how far it was off where it had not looked.
pub(crate) fn findings(results: &Results) -> Vec<Finding> {
    results.predictions.iter().map(|one| Finding::words(title(one), sentence(one))).collect()
}

fn title(prediction: &Prediction) -> String {
    if prediction.about.is_empty() { "model".into() } else { format!("model of {}", prediction.about) }
}

/// It as a part of names of files.
fn name(prediction: &Prediction) -> String {
    let letters = title(prediction).to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    name_part(&letters).to_owned()
}

fn sentence(prediction: &Prediction) -> String {
    let (form, errors) = match (&prediction.model, prediction.mean_error, prediction.median_error) {
        (Ok(form), Some(mean), Some(median)) => (form, (mean, median)),
        (Err(why), ..) if prediction.no_conclusion => return format!("No conclusion: {why}."),
        (Err(why), ..) => return format!("No prediction: {why}."),
        (Ok(form), ..) => return format!("{}: nothing was held out.", capital(form)),
    };
    let used = prediction.cells.iter().filter(|cell| cell.calibrated).count();
    let uncertain = prediction.cells.iter().filter(|cell| cell.uncertain).count();
    let told = match uncertain {
        0 => String::new(),
        cells => format!(
            " {cells} more were measured with intervals wider than {}, and are counted on neither side.",
            Unit::Share.show(CERTAIN)
        ),
    };
    let percent = |share: f64| Unit::Share.show(share);
    let ((mean_x, mean_r), (median_x, median_r)) = errors;
    format!(
        "Calibrated on {used} of {} cells ({form}), it is off by {} of the throughput and {} of the response time at the middleware in the other {} \
         (median; mean {} and {}).{}{told}{}",
        prediction.cells.len(),
        percent(median_x),
        percent(median_r),
        prediction.cells.len() - used - uncertain,
        percent(mean_x),
        percent(mean_r),
        prediction.p99_error.map_or(String::new(), |p99| format!(
            " Of the 99th percentile at the clients it is off by {} (median).",
            percent(p99)
        )),
        beside_nulls(prediction, (median_x, median_r)),
    )
}

/// Whether a model that knows nothing of middlewares would have done as well.
fn beside_nulls(prediction: &Prediction, (x, r): (f64, f64)) -> String {
    let best = |of: fn(&NullErrors) -> f64| {
        prediction
            .nulls
            .iter()
            .min_by(|one, other| of(one).total_cmp(&of(other)))
            .map(|null| (null, of(null)))
    };
    let percent = |share: f64| Unit::Share.show(share);
    let (Some((null_x, least_x)), Some((null_r, least_r))) =
        (best(|null| null.median.0), best(|null| null.median.1))
    else {
        return String::new();
    };
    let told = |what: &str, ours: f64, null: &NullErrors, least: f64| {
        if ours <= least {
            format!("of the {what} the best null model ({}) is off by {}", null.model, percent(least))
        } else {
            format!("of the {what} a null model is better: {}, {}", null.model, percent(least))
        }
    };
    format!(
        " On the same cells, {}; {}.",
        told("throughput", x, null_x, least_x),
        told("response time", r, null_r, least_r)
    )
}

/// The model beside those that know nothing of middlewares.
fn nulls_table(prediction: &Prediction, about: &str, name: &str) -> Option<Table> {
    let (x, r) = prediction.median_error.filter(|_| !prediction.nulls.is_empty())?;
    let p99 = |error: Option<f64>| error.map_or(TableValue::Missing, TableValue::Number);
    let ours = vec!["this model".into(), x.into(), r.into(), p99(prediction.p99_error)];
    let nulls = prediction.nulls.iter();
    let nulls = nulls.map(|null| {
        vec![null.model.as_str().into(), null.median.0.into(), null.median.1.into(), p99(null.p99)]
    });
    Some(Table {
        name: format!("null-models-{name}"),
        title: format!("{}: beside models that know nothing of it", capital(about)),
        caption: "Median |error| over the cells held out; all are calibrated on the same cells and tried on the same.".into(),
        columns: vec![
            Column::new("model", Unit::Text),
            Column::new("error of X", Unit::Share),
            Column::new("error of R", Unit::Share),
            Column::new("error of p99", Unit::Share),
        ],
        rows: std::iter::once(ours).chain(nulls).collect(),
    })
}

/// What is said of one prediction; `name` is a part of the names of its tables and figures.
fn family(prediction: &Prediction, name: &str) -> Vec<Block> {
    let about = title(prediction);
    let mut blocks = vec![Block::Paragraph(format!("{}: {}", capital(&about), sentence(prediction)))];
    if prediction.model.is_err() {
        return blocks;
    }
    let interval = |one: &Interval| predicted_value(prediction, one);
    let rows = prediction.cells.iter().map(|cell| {
        let (x, r) = cell.error();
        vec![
            f64::from(cell.workers).into(),
            f64::from(cell.clients).into(),
            match (cell.calibrated, cell.uncertain) {
                (true, _) => "calibrated on it",
                (false, true) => "too uncertain",
                (false, false) => "held out",
            }
            .into(),
            cell.throughput.into(),
            interval(&cell.predicted.0),
            x.into(),
            cell.response.into(),
            interval(&cell.predicted.1),
            r.into(),
            cell.p99.map_or(TableValue::Missing, |(measured, _)| measured.into()),
            cell.p99.map_or(TableValue::Missing, |(_, said)| interval(&said)),
            remark(cell.doubt.as_deref(), false).as_str().into(),
        ]
    });
    blocks.push(Block::Table(Table {
        name: format!("predictions-{name}"),
        title: format!("{}: measured and predicted", capital(&about)),
        caption: "R is at the middleware. ± is half the 95 % interval for one measurement. What the model was calibrated on is no evidence for it.".into(),
        columns: vec![
            Column::new("workers", Unit::Count),
            Column::new("clients", Unit::Count),
            Column::new("cell", Unit::Text),
            Column::named("X measured", quantities::THROUGHPUT),
            Column::named("X predicted", quantities::THROUGHPUT),
            Column::new("error of X", Unit::Share),
            Column::named("R measured", stamps::RESPONSE_TIME),
            Column::named("R predicted", stamps::RESPONSE_TIME),
            Column::new("error of R", Unit::Share),
            Column::named("p99 measured", quantities::RESPONSE_TIME),
            Column::named("p99 predicted", quantities::RESPONSE_TIME),
            Column::new("remark", Unit::Text),
        ],
        rows: rows.collect(),
    }));
    blocks.extend(nulls_table(prediction, &about, name).map(Block::Table));
    blocks.extend(scatters(prediction, name).map(Block::Figure));
    blocks.push(Block::Table(what_if_table(prediction, &about, name)));
    blocks.extend(grid_table(prediction, &about, name).map(|table| Block::Sliders(table, 3)));
    blocks
}

/// A predicted value with its interval.
fn predicted_value(prediction: &Prediction, one: &Interval) -> TableValue {
    let (interval, n) = (Some((one.low, one.high)), calibrated(prediction));
    TableValue::Measured(EstimateCell { value: one.value, interval, n })
}

/// What the model says of configurations that were not measured.
fn what_if_table(prediction: &Prediction, about: &str, name: &str) -> Table {
    let interval = |one: &Interval| predicted_value(prediction, one);
    let rows = prediction.what_if.iter().map(|one: &WhatIf| {
        vec![
            one.what.as_str().into(),
            f64::from(one.workers).into(),
            f64::from(one.clients).into(),
            interval(&one.predicted.0),
            one.change.0.into(),
            interval(&one.predicted.1),
            one.change.1.into(),
            one.p99.as_ref().map_or(TableValue::Missing, interval),
            remark(one.doubt.as_deref(), one.extrapolated).as_str().into(),
        ]
    });
    Table {
        name: format!("what-if-{name}"),
        title: format!("{}: what if", capital(about)),
        caption: "Beside what the model says of the cell with the highest throughput, as it is.".into(),
        columns: vec![
            Column::new("what if", Unit::Text),
            Column::new("workers", Unit::Count),
            Column::new("clients", Unit::Count),
            Column::named("X", quantities::THROUGHPUT),
            Column::new("change of X", Unit::Share),
            Column::named("R", stamps::RESPONSE_TIME),
            Column::new("change of R", Unit::Share),
            Column::named("p99 at the clients", quantities::RESPONSE_TIME),
            Column::new("remark", Unit::Text),
        ],
        rows: rows.collect(),
    }
}

/// What the model says over clients, workers and hold, for a reader to look around in.
fn grid_table(prediction: &Prediction, about: &str, name: &str) -> Option<Table> {
    let interval = |one: &Interval| predicted_value(prediction, one);
    let rows = prediction.grid.iter().map(|point| {
        vec![
            f64::from(point.clients).into(),
            f64::from(point.workers).into(),
            point.hold.into(),
            interval(&point.predicted.0),
            interval(&point.predicted.1),
            point.p99.as_ref().map_or(TableValue::Missing, interval),
            remark(point.doubt.as_deref(), point.extrapolated).as_str().into(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then(|| Table {
        name: format!("explore-{name}"),
        title: format!("{}: look around", capital(about)),
        caption: "A hold of 50 % means that a worker holds each request half as long as it did: faster servers, or less work for each request. \
                  The 99th percentile is said of the measured hold alone. ± is half the 95 % interval for one measurement."
            .into(),
        columns: vec![
            Column::new("clients", Unit::Count),
            Column::new("workers", Unit::Count),
            Column::new("hold, of the measured", Unit::Share),
            Column::named("X", quantities::THROUGHPUT),
            Column::named("R", stamps::RESPONSE_TIME),
            Column::named("p99 at the clients", quantities::RESPONSE_TIME),
            Column::new("remark", Unit::Text),
        ],
        rows,
    })
}

fn remark(doubt: Option<&str>, extrapolated: bool) -> String {
    match (doubt, extrapolated) {
        (Some(why), _) => format!("no conclusion: {why}"),
        (None, true) => "beyond what was measured".into(),
        (None, false) => String::new(),
    }
}

/// Predicted against measured, throughput and response time.
fn scatters(prediction: &Prediction, name: &str) -> [Figure; 2] {
    let scatter = |what: &str, unit: Unit, of: fn(&PredictedCell) -> (f64, Interval)| {
        let group = |label: &str, of_group: fn(&PredictedCell) -> bool, index: usize| ScatterGroup {
            name: label.to_owned(),
            tint: Tint::Series(index),
            points: prediction
                .cells
                .iter()
                .filter(|cell| of_group(cell))
                .map(|cell| {
                    let (measured, predicted) = of(cell);
                    let interval = Some((predicted.low, predicted.high));
                    let estimate =
                        EstimateCell { value: predicted.value, interval, n: calibrated(prediction) };
                    (format!("{} workers, {} clients", cell.workers, cell.clients), measured, estimate)
                })
                .collect(),
        };
        Figure {
            name: format!("predicted-{}-{name}", what.replace(' ', "-")),
            title: format!("{}: {what} predicted against measured", capital(&title(prediction))),
            caption: format!(
                "On the line, the model says what was measured. Bars are its 95 % intervals for one measurement, cut off where they are longer than all points are high. Cells it was calibrated on are no evidence \
                 for it. {}",
                sentence(prediction)
            ),
            quantities: vec![if unit == Unit::PerSecond {
                quantities::THROUGHPUT
            } else {
                stamps::RESPONSE_TIME
            }],
            notes: Vec::new(),
            plot: Plot::Scatter(Scatter {
                x: Axis::linear(format!("{what}, measured"), unit),
                y: Axis::linear(format!("{what}, predicted"), unit),
                diagonal: true,
                groups: vec![
                    group("held out", |cell| !cell.calibrated && !cell.uncertain, 0),
                    group("calibrated on", |cell| cell.calibrated, 1),
                    group("too uncertain", |cell| cell.uncertain, 2),
                ]
                .into_iter()
                .filter(|group| !group.points.is_empty())
                .collect(),
            }),
        }
    };
    [
        scatter("throughput", Unit::PerSecond, |cell| (cell.throughput, cell.predicted.0)),
        scatter("response time", Unit::Seconds, |cell| (cell.response, cell.predicted.1)),
    ]
}

fn calibrated(prediction: &Prediction) -> u64 {
    prediction.cells.iter().filter(|cell| cell.calibrated).count() as u64
}

#[cfg(test)]
mod tests {
    use krarup_analysis::predict::PredictedPoint;

    use super::*;

    fn around(value: f64) -> Interval {
        Interval { value, low: 0.9 * value, high: 1.1 * value }
    }

    fn prediction() -> Prediction {
        let cell = |clients, calibrated, x: f64| PredictedCell {
            clients,
            workers: 8,
            calibrated,
            throughput: 100.0,
            response: 0.01,
            predicted: (around(x), around(0.011)),
            uncertain: false,
            more_workers: None,
            p99: None,
            doubt: (clients == 2).then(|| "too far".into()),
        };
        Prediction {
            about: "read".into(),
            model: Ok("lines".into()),
            cells: vec![cell(1, true, 100.0), cell(2, false, 104.0)],
            mean_error: Some((0.04, 0.1)),
            median_error: Some((0.04, 0.1)),
            p99_error: Some(0.07),
            nulls: vec![
                NullErrors { model: "nearest row".into(), median: (0.03, 0.2), p99: Some(0.3) },
                NullErrors { model: "closed M/M/m".into(), median: (0.3, 0.15), p99: None },
            ],
            what_if: vec![WhatIf {
                what: "twice the workers".into(),
                clients: 2,
                workers: 16,
                predicted: (around(150.0), around(0.006)),
                change: (0.5, -0.4),
                p99: None,
                extrapolated: true,
                doubt: None,
            }],
            grid: vec![PredictedPoint {
                clients: 2,
                workers: 8,
                hold: 0.5,
                predicted: (around(180.0), around(0.005)),
                p99: None,
                extrapolated: false,
                doubt: None,
            }],
            no_conclusion: false,
        }
    }

    #[test]
    fn a_model_is_reported_with_its_errors_where_it_had_not_looked() {
        let blocks = family(&prediction(), "model-of-read");
        let [
            Block::Paragraph(said),
            Block::Table(cells),
            Block::Table(nulls),
            Block::Figure(x),
            Block::Figure(r),
            Block::Table(what_if),
            Block::Sliders(grid, 3),
        ] = &blocks[..]
        else {
            panic!("{blocks:?}")
        };
        assert!(
            said.starts_with("Model of read: Calibrated on 1 of 2 cells (lines), it is off by 4.00 %"),
            "{said}"
        );
        assert!(said.contains("99th percentile at the clients it is off by 7.00 %"), "{said}");
        assert!(said.contains("of the throughput a null model is better: nearest row, 3.00 %"), "{said}");
        assert!(said.contains("the best null model (closed M/M/m) is off by 15.0 %"), "{said}");
        assert_eq!(nulls.rows.len(), 3);
        assert_eq!(cells.rows[1][11], "no conclusion: too far".into());
        assert_eq!(cells.rows[0][2], "calibrated on it".into());
        assert_eq!(cells.rows[1][2], "held out".into());
        assert_eq!(cells.rows[1][5], (104.0_f64 / 100.0 - 1.0).into());
        assert_eq!(x.name, "predicted-throughput-model-of-read");
        assert!(r.caption.contains("off by 4.00 %"), "{}", r.caption);
        let Plot::Scatter(scatter) = &x.plot else { panic!("{x:?}") };
        let [held_out, used] = &scatter.groups[..] else { panic!("{scatter:?}") };
        assert_eq!((held_out.points[0].1, held_out.points[0].2.value), (100.0, 104.0));
        assert_eq!((used.name.as_str(), used.points.len()), ("calibrated on", 1));
        assert_eq!(what_if.rows[0][8], "beyond what was measured".into());
        assert_eq!(grid.rows[0][..3], [2.0.into(), 8.0.into(), 0.5.into()]);
        assert_eq!(grid.rows[0].last(), Some(&"".into()));
        let none = Prediction {
            model: Err("3 cells are too few".into()),
            mean_error: None,
            median_error: None,
            ..prediction()
        };
        assert!(
            matches!(&family(&none, "")[..], [Block::Paragraph(said)] if said.contains("No prediction: 3 cells"))
        );
        let unknown =
            Prediction { model: Err("1 of 12 cells are known".into()), no_conclusion: true, ..none };
        assert!(
            matches!(&family(&unknown, "")[..], [Block::Paragraph(said)] if said.contains("No conclusion: 1 of 12") && !said.contains("off by"))
        );
    }

    /// What part of names of files each of these models has.
    fn names(abouts: &[&str]) -> Vec<String> {
        let about = |about: &&str| Prediction { about: (*about).to_owned(), ..prediction() };
        let blocks = blocks(&abouts.iter().map(about).collect::<Vec<_>>());
        let figures = blocks.iter().filter_map(|block| match block {
            Block::Figure(figure) => figure.name.strip_prefix("predicted-throughput-"),
            _ => None,
        });
        figures.map(str::to_owned).collect()
    }

    #[test]
    fn models_of_workloads_that_differ_in_a_sign_have_names_of_their_own() {
        assert_eq!(names(&["a+b", "a-b", "c"]), ["model-of-a-b", "2-model-of-a-b", "model-of-c"]);
    }

    /// A file's name has 255 bytes at most.
    #[test]
    fn models_of_workloads_with_long_names_have_files() {
        let long = "x".repeat(230);
        let names = names(&[format!("{long}1").as_str(), format!("{long}2").as_str()]);
        assert!(names[0].starts_with("model-of-xxx") && names[1] == format!("2-{}", names[0]), "{names:?}");
        assert!(names[0].len() < 200, "{names:?}");
    }
}
