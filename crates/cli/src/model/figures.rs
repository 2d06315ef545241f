//! The figures of `krarup model`.

use std::collections::BTreeSet;
use std::fmt::Display;

use krarup_model::calibrate::{Calibration, CalibrationRow};
use krarup_model::flow::OutsideCount;
use krarup_model::network::StationKind;
use krarup_model::simulate::result::{MomentClass, Simulated};
use krarup_model::solve::{ClassPoint, Solution};
use krarup_model::{Error, Network, calibrate, limits};
use krarup_record::quantities::{self, QuantityDefinition};
use krarup_record::stamps;
use krarup_report::document;
use krarup_report::figures::{
    Axis, Figure, FigurePoint, LineSeries, Lines, Mark, Plot, Scatter, ScatterGroup, TimeLine, TimePanel,
    TimeSeries, Tint,
};
use krarup_units::Unit;

/// What the figures over N show of the network.
const X_AND_R: [QuantityDefinition; 2] = [quantities::THROUGHPUT, quantities::RESPONSE_TIME];
/// What they show of each station.
const U_AND_Q: [QuantityDefinition; 2] = [quantities::UTILIZATION, quantities::AT_STATION];

pub(super) fn exactly(value: f64) -> Option<document::EstimateCell> {
    value.is_finite().then_some(document::EstimateCell { value, interval: None, n: 1 })
}

pub(super) fn lines(name: &str, title: &str, caption: &str, series: Vec<LineSeries>) -> Figure {
    let plot = Plot::Lines(Lines {
        x: Axis::linear("clients N", Unit::Count),
        y: X_AND_R.map(|quantity| Axis::linear(quantity.title(), quantity.unit)).to_vec(),
        series,
    });
    figure(name, title, caption, &X_AND_R, plot)
}

pub(super) fn figure(
    name: &str,
    title: &str,
    caption: &str,
    shown: &[QuantityDefinition],
    plot: Plot,
) -> Figure {
    let (name, title, caption) = (name.into(), title.into(), caption.into());
    Figure { name, title, caption, quantities: shown.to_vec(), plot, notes: Vec::new() }
}

/// X and R of the model over N, between their bounds, with measured points.
pub(super) fn classes_figure(
    solution: &Solution,
    limits: Option<&limits::CapacityLimits>,
    measured: &[calibrate::PopulationMeasurement],
) -> Figure {
    // Bounds first, so that what comes near them is drawn on top.
    let mut series = Vec::new();
    if let Some(limits) = limits {
        let classes = solution.points.iter().flat_map(|point| &point.classes);
        let populations: Vec<u64> = classes.filter_map(|class| class.population).collect();
        let bound = limits.bounds_table(&populations);
        let line = |name: &str, tint, x: &str, r: Option<&str>| {
            let responses = r.map_or_else(|| vec![None; bound.rows.len()], |r| bound.numbers(r));
            let points = bound.numbers("population").into_iter().zip(bound.numbers(x)).zip(responses);
            let point = |((n, x), r): ((Option<f64>, Option<f64>), Option<f64>)| {
                Some(FigurePoint { x: n?, y: vec![x.and_then(exactly), r.and_then(exactly)] })
            };
            LineSeries {
                name: name.into(),
                tint: Tint::Series(tint),
                mark: Mark::Curve,
                points: points.filter_map(point).collect(),
            }
        };
        series.push(line("best case", 1, "throughput at most", Some("response time at least")));
        // The worst R, N·D, is so far from any network's that nothing else could be seen beside it.
        series.push(line("worst case", 3, "throughput at least", None));
    }
    series.push(curve("model", 0, model_points(solution)));
    if !measured.is_empty() {
        let points = measured
            .iter()
            .map(|m| FigurePoint {
                x: m.population as f64,
                y: vec![exactly(m.throughput), m.response.and_then(exactly)],
            })
            .collect();
        series.push(LineSeries {
            name: "measured".into(),
            tint: Tint::Series(2),
            mark: Mark::Points,
            points,
        });
    }
    let caption = "No network of these demands does better than the best case or worse than the worst (asymptotic bounds).";
    lines("throughput-and-response", "Throughput and response against clients", caption, series)
}

/// X and R of the first closed class over N, before a change and after it; none where one of them
/// was solved for one population only.
pub(super) fn before_and_after_figure(before: &Solution, after: &Solution) -> Option<Figure> {
    if before.points.len().min(after.points.len()) < 2 {
        return None;
    }
    let series = vec![curve("before", 1, model_points(before)), curve("after", 0, model_points(after))];
    Some(lines("sweep-before-and-after", "Throughput and response, before and after", "", series))
}

/// A computed series.
fn curve(name: &str, tint: usize, points: Vec<FigurePoint>) -> LineSeries {
    LineSeries { name: name.into(), tint: Tint::Series(tint), mark: Mark::Curve, points }
}

/// X and R at every population that was solved.
fn model_points(solution: &Solution) -> Vec<FigurePoint> {
    let classes = solution.points.iter().flat_map(|point| &point.classes);
    let point = |class: &ClassPoint| {
        let y = vec![exactly(class.throughput), exactly(class.response)];
        Some(FigurePoint { x: class.population? as f64, y })
    };
    classes.filter_map(point).collect()
}

/// U and Q of each station over N.
pub(super) fn stations_figure(solution: &Solution, network: &Network) -> Figure {
    let stations = &solution.last().stations;
    let series = stations.iter().enumerate().map(|(index, station)| LineSeries {
        name: station.name.clone(),
        tint: Tint::Series(index),
        mark: Mark::Curve,
        points: solution
            .points
            .iter()
            .filter_map(|p| {
                let (n, there) = (p.classes[0].population?, &p.stations[index]);
                Some(FigurePoint {
                    x: n as f64,
                    y: vec![
                        exactly(there.utilization)
                            .filter(|_| network.stations[index].kind != StationKind::Delay),
                        there.queue.and_then(exactly),
                    ],
                })
            })
            .collect(),
    });
    let plot = Plot::Lines(Lines {
        x: Axis::linear("clients N", Unit::Count),
        y: U_AND_Q.map(|quantity| Axis::linear(quantity.title(), quantity.unit)).to_vec(),
        series: series.collect(),
    });
    figure("stations", "Stations against clients", "A delay has no utilization.", &U_AND_Q, plot)
}

/// What a line of so many workers is called; where there is no pool, each client has one.
pub(super) fn of_workers(workers: Option<impl Display>) -> String {
    workers.map_or_else(|| "a worker for each client".into(), |workers| format!("{workers} workers"))
}

/// Numbers of clients at which a curve is drawn, at most, beside the greatest: each takes time that
/// grows with it.
const DRAWN: usize = 256;

/// X and R over N of a calibrated model, a line for each number of workers, and the rows that were
/// measured with as many; one line where each client has a worker.
pub(super) fn calibration_figure(
    calibration: &Calibration,
    rows: &[CalibrationRow],
) -> Result<Figure, Error> {
    let pool = |row: &CalibrationRow| calibration.has_pool().then_some(row.workers);
    let pools: BTreeSet<Option<u64>> = rows.iter().map(pool).collect();
    let most = rows.iter().map(|row| row.population).max().unwrap_or(1) as usize;
    let step = most.div_ceil(DRAWN).max(1);
    let clients: BTreeSet<usize> = (1..=most).step_by(step).chain([most]).collect();
    let mut series = Vec::new();
    for (index, workers) in pools.iter().enumerate() {
        let solved = |n: usize| calibration.model.solve(n, workers.map_or(n, |workers| workers as usize));
        let answers = clients.iter().map(|clients| solved(*clients)).collect::<Result<Vec<_>, Error>>()?;
        let model =
            answers.iter().map(|answer| (answer.population as u64, answer.throughput, answer.response));
        let same = rows.iter().filter(|row| pool(row) == *workers);
        let mut measured: Vec<_> = same.map(|row| (row.population, row.throughput, row.response)).collect();
        measured.sort_by_key(|row| row.0);
        let mut draw = |name: String, mark: Mark, points: Vec<(u64, f64, f64)>| {
            let point =
                |(n, x, r): (u64, f64, f64)| FigurePoint { x: n as f64, y: vec![exactly(x), exactly(r)] };
            let points = points.into_iter().map(point).collect();
            series.push(LineSeries { name, tint: Tint::Series(index), mark, points });
        };
        let name = of_workers(*workers);
        draw(name.clone(), Mark::Curve, model.collect());
        draw(format!("{name}, measured"), Mark::Points, measured);
    }
    let caption = "Curves: the model. Marks of the same colour: measured. R is at the middleware.";
    Ok(lines("model-and-measured", "Throughput and response: model and measured", caption, series))
}

/// What the model says of each calibration row against what was measured: of X and of R, in the fit
/// and with the row left out.
pub(super) fn residual_figures(calibration: &Calibration) -> [Figure; 2] {
    let rows = || calibration.rows.iter().zip(&calibration.residuals);
    let place =
        |row: &CalibrationRow| format!("{}: {} clients, {} workers", row.place, row.population, row.workers);
    let scatter = |name: &str,
                   title: &str,
                   quantity: QuantityDefinition,
                   value: fn(&CalibrationRow) -> f64,
                   fit: Picked,
                   left_out: Left| {
        let point = |row: &CalibrationRow, error: f64| {
            Some((place(row), value(row), exactly(value(row) * (1.0 + error))?))
        };
        let group = |name: &str, tint, points: Vec<_>| ScatterGroup {
            name: name.into(),
            tint: Tint::Series(tint),
            points: points.into_iter().flatten().collect(),
        };
        let fitted = rows().map(|(row, residual)| point(row, fit(residual))).collect();
        let without = rows().filter_map(|(row, residual)| Some(point(row, left_out(residual)?))).collect();
        let plot = Plot::Scatter(Scatter {
            x: Axis::of(quantity, "measured"),
            y: Axis::of(quantity, "by the model"),
            diagonal: true,
            groups: vec![group("in the fit", 0, fitted), group("left out of the fit", 1, without)],
        });
        let caption = "A calibration row each. On the dashed line the model says what was measured; a row that was left out is predicted \
                       from the others.";
        figure(name, title, caption, &[quantity], plot)
    };
    [
        scatter(
            "throughput-by-the-model",
            "Throughput: the model against its rows",
            quantities::THROUGHPUT,
            |row| row.throughput,
            |residual| residual.throughput,
            |residual| Some(residual.held_out?.0),
        ),
        scatter(
            "response-by-the-model",
            "Response time: the model against its rows",
            stamps::RESPONSE_TIME,
            |row| row.response,
            |residual| residual.response,
            |residual| Some(residual.held_out?.1),
        ),
    ]
}

/// T(n) and Z as fitted, with the rows on them.
pub(super) fn explained_figures(calibration: &Calibration) -> Vec<Figure> {
    let most = calibration.rows.iter().map(CalibrationRow::busy).fold(1.0, f64::max);
    let heaviest = &calibration.model.heaviest().model;
    let over_outside = heaviest.outside_over == OutsideCount::Outside;
    let count = |row: &CalibrationRow| {
        let outside = row.population as f64 - row.throughput * row.response;
        if over_outside { outside.max(0.0) } else { row.busy() }
    };
    let farthest = calibration.rows.iter().map(count).fold(1.0, f64::max);
    let series = |name: &str, mark: Mark, tint, points: Vec<(f64, f64)>| LineSeries {
        name: name.into(),
        tint: Tint::Series(tint),
        mark,
        points: points.into_iter().map(|(x, y)| FigurePoint { x, y: vec![exactly(y)] }).collect(),
    };
    let grid = |end: f64| (0..=60).map(move |step| 1.0 + (end.max(2.0) - 1.0) * f64::from(step) / 60.0);
    let rows = |x: &dyn Fn(&CalibrationRow) -> f64, y: fn(&CalibrationRow) -> f64| {
        let mut points: Vec<(f64, f64)> = calibration.rows.iter().map(|row| (x(row), y(row))).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points
    };
    let draw = |name: &str, title: &str, caption: &str, quantity: QuantityDefinition, axis: &str, series| {
        let x = Axis::linear(axis, Unit::Count);
        let plot = Plot::Lines(Lines { x, y: vec![Axis::linear(quantity.title(), Unit::Seconds)], series });
        figure(name, title, caption, &[quantity], plot)
    };
    let hold = vec![
        series(
            "all forms",
            Mark::Curve,
            0,
            grid(1.2 * most).map(|n| (n, calibration.model.hold_at(n))).collect(),
        ),
        series("rows", Mark::Points, 2, rows(&CalibrationRow::busy, CalibrationRow::hold)),
    ];
    let think = calibration.think();
    let outside = vec![
        series(
            "heaviest form",
            Mark::Curve,
            0,
            grid(1.2 * farthest).map(|n| (n, (heaviest.outside.at(n, true) - think).max(0.0))).collect(),
        ),
        series("rows", Mark::Points, 2, rows(&count, |row| row.at_clients() - row.response)),
    ];
    let crowd = if over_outside { "requests outside o" } else { "busy workers n" };
    vec![
        draw(
            "hold-time",
            "Hold time T(n)",
            "How long a request holds its worker; a row stands at its mean number of busy workers.",
            stamps::HOLD_TIME,
            "busy workers n",
            hold,
        ),
        draw(
            "outside",
            "Time outside Z",
            "How long a request is outside of the middleware, without thinking; a row stands at its mean.",
            quantities::OUTSIDE,
            crowd,
            outside,
        ),
    ]
}

type Picked = fn(&calibrate::CalibrationResidual) -> f64;
type Left = fn(&calibrate::CalibrationResidual) -> Option<f64>;

/// X, R and the number under way over simulated time, a line for each class.
pub(super) fn timeline_figure(simulated: &Simulated) -> Figure {
    let panel = |title: &str, unit, value: fn(&MomentClass) -> Option<f64>| TimePanel {
        y: Axis::linear(title, unit),
        lines: simulated
            .classes
            .iter()
            .enumerate()
            .map(|(class, reading)| TimeLine {
                name: reading.name.clone(),
                tint: Tint::Series(class),
                values: simulated.timeline.iter().map(|moment| value(&moment.classes[class])).collect(),
            })
            .collect(),
    };
    let plot = Plot::TimeSeries(TimeSeries {
        x: Axis::linear("simulated time", Unit::Seconds),
        times: simulated.timeline.iter().map(|moment| moment.from).collect(),
        panels: vec![
            panel(&quantities::THROUGHPUT.title(), Unit::PerSecond, |at| Some(at.throughput)),
            panel(&quantities::RESPONSE_TIME.title(), Unit::Seconds, |at| at.response),
            panel("requests under way", Unit::Count, |at| Some(at.present)),
        ],
    });
    let caption = "Each stretch of the run, its warm-up included; replications are averaged.";
    figure("over-time", "The run over time", caption, &X_AND_R, plot)
}

#[cfg(test)]
mod tests {
    use krarup_model::calibrate::{CurveFamily, calibrate_as};

    use super::*;

    /// 16 workers, each held for 4 ms: of 4,000 clients nearly all wait.
    #[test]
    fn a_curve_over_many_clients_is_solved_at_some_of_their_numbers() {
        let row = |n: u64, response: f64, wait: f64| {
            CalibrationRow::measured(n, 16, n as f64 / (response + 1e-3)).with_times(response, wait)
        };
        let rows = [row(2, 4e-3, 0.0), row(64, 15e-3, 11e-3), row(4_000, 0.999, 0.995)];
        let calibration = calibrate_as(&rows, &[CurveFamily::Lines]).unwrap();
        let Plot::Lines(drawn) = calibration_figure(&calibration, &rows).unwrap().plot else {
            panic!("curves are lines");
        };
        let curve = &drawn.series[0].points;
        assert!(curve.len() <= DRAWN + 1, "{}", curve.len());
        assert_eq!([curve[0].x, curve[curve.len() - 1].x], [1.0, 4_000.0]);
    }

    #[test]
    fn where_each_client_has_a_worker_there_is_one_curve() {
        let row = |n: u64, response: f64| {
            CalibrationRow::measured(n, n, n as f64 / (response + 1e-3)).with_times(response, 0.0)
        };
        let rows = [row(2, 0.3e-3), row(12, 0.6e-3), row(48, 1.5e-3)];
        let calibration = calibrate_as(&rows, &[CurveFamily::Lines]).unwrap();
        let Plot::Lines(drawn) = calibration_figure(&calibration, &rows).unwrap().plot else {
            panic!("curves are lines");
        };
        let names: Vec<&str> = drawn.series.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["a worker for each client", "a worker for each client, measured"]);
        assert_eq!(drawn.series[1].points.len(), 3);
    }
}
