//! What a model says: how far it was off where it had not looked, and what it expects elsewhere.

use krarup_analysis::predict::{CERTAIN, Interval, PredictedCell, Prediction, WhatIf};
use krarup_analysis::results::Results;
use krarup_record::{quantities, stamps};
use krarup_units::Unit;

use crate::document::{Block, Column, EstimateCell, Finding, Section, Table, TableValue};
use crate::figures::{Axis, Figure, Plot, Scatter, ScatterGroup, Tint};

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// A section for the predictions that were asked for; none where none was.
pub(crate) fn predictions(results: &Results) -> Option<Section> {
    let blocks: Vec<Block> = results.predictions.iter().flat_map(family).collect();
    (!blocks.is_empty()).then(|| Section { title: "What a model says".into(), blocks })
}

/// One sentence for each model: how far it was off where it had not looked.
pub(crate) fn findings(results: &Results) -> Vec<Finding> {
    results.predictions.iter().map(|one| Finding { about: title(one), text: sentence(one) }).collect()
}

fn title(prediction: &Prediction) -> String {
    if prediction.about.is_empty() { "model".into() } else { format!("model of {}", prediction.about) }
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
         (median; mean {} and {}).{told}",
        prediction.cells.len(),
        percent(median_x),
        percent(median_r),
        prediction.cells.len() - used - uncertain,
        percent(mean_x),
        percent(mean_r)
    )
}

fn family(prediction: &Prediction) -> Vec<Block> {
    let about = title(prediction);
    let mut blocks = vec![Block::Paragraph(format!("{}: {}", capital(&about), sentence(prediction)))];
    if prediction.model.is_err() {
        return blocks;
    }
    let name = about.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let interval = |one: &Interval| {
        TableValue::Measured(EstimateCell {
            value: one.value,
            interval: Some((one.low, one.high)),
            n: calibrated(prediction),
        })
    };
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
        ],
        rows: rows.collect(),
    }));
    blocks.extend(scatters(prediction, &name).map(Block::Figure));
    let rows = prediction.what_if.iter().map(|one: &WhatIf| {
        vec![
            one.what.as_str().into(),
            f64::from(one.workers).into(),
            f64::from(one.clients).into(),
            interval(&one.predicted.0),
            one.change.0.into(),
            interval(&one.predicted.1),
            one.change.1.into(),
            if one.extrapolated { "beyond what was measured" } else { "" }.into(),
        ]
    });
    blocks.push(Block::Table(Table {
        name: format!("what-if-{name}"),
        title: format!("{}: what if", capital(&about)),
        caption: "Beside what the model says of the cell with the highest throughput, as it is.".into(),
        columns: vec![
            Column::new("what if", Unit::Text),
            Column::new("workers", Unit::Count),
            Column::new("clients", Unit::Count),
            Column::named("X", quantities::THROUGHPUT),
            Column::new("change of X", Unit::Share),
            Column::named("R", stamps::RESPONSE_TIME),
            Column::new("change of R", Unit::Share),
            Column::new("remark", Unit::Text),
        ],
        rows: rows.collect(),
    }));
    blocks
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
        };
        Prediction {
            about: "read".into(),
            model: Ok("lines".into()),
            cells: vec![cell(1, true, 100.0), cell(2, false, 104.0)],
            mean_error: Some((0.04, 0.1)),
            median_error: Some((0.04, 0.1)),
            what_if: vec![WhatIf {
                what: "twice the workers".into(),
                clients: 2,
                workers: 16,
                predicted: (around(150.0), around(0.006)),
                change: (0.5, -0.4),
                extrapolated: true,
            }],
            no_conclusion: false,
        }
    }

    #[test]
    fn a_model_is_reported_with_its_errors_where_it_had_not_looked() {
        let blocks = family(&prediction());
        let [
            Block::Paragraph(said),
            Block::Table(cells),
            Block::Figure(x),
            Block::Figure(r),
            Block::Table(what_if),
        ] = &blocks[..]
        else {
            panic!("{blocks:?}")
        };
        assert!(
            said.starts_with("Model of read: Calibrated on 1 of 2 cells (lines), it is off by 4.00 %"),
            "{said}"
        );
        assert_eq!(cells.rows[0][2], "calibrated on it".into());
        assert_eq!(cells.rows[1][2], "held out".into());
        assert_eq!(cells.rows[1][5], (104.0_f64 / 100.0 - 1.0).into());
        assert_eq!(x.name, "predicted-throughput-model-of-read");
        assert!(r.caption.contains("off by 4.00 %"), "{}", r.caption);
        let Plot::Scatter(scatter) = &x.plot else { panic!("{x:?}") };
        let [held_out, used] = &scatter.groups[..] else { panic!("{scatter:?}") };
        assert_eq!((held_out.points[0].1, held_out.points[0].2.value), (100.0, 104.0));
        assert_eq!((used.name.as_str(), used.points.len()), ("calibrated on", 1));
        assert_eq!(what_if.rows[0][7], "beyond what was measured".into());
        let none = Prediction {
            model: Err("3 cells are too few".into()),
            mean_error: None,
            median_error: None,
            ..prediction()
        };
        assert!(
            matches!(&family(&none)[..], [Block::Paragraph(said)] if said.contains("No prediction: 3 cells"))
        );
        let unknown =
            Prediction { model: Err("1 of 12 cells are known".into()), no_conclusion: true, ..none };
        assert!(
            matches!(&family(&unknown)[..], [Block::Paragraph(said)] if said.contains("No conclusion: 1 of 12") && !said.contains("off by"))
        );
    }
}
