//! The figures of `krarup model`.

use krarup_model::calibrate::{Calibration, Row};
use krarup_model::network::Kind;
use krarup_model::simulate::result::{MomentClass, Simulated};
use krarup_model::solve::{ClassPoint, Solution};
use krarup_model::{Error, Network, calibrate, limits};
use krarup_report::document;
use krarup_report::figures::{
    Axis, Figure, LineSeries, Lines, Plot, Point, TimeLine, TimePanel, TimeSeries, Tint,
};
use krarup_report::quantity;

pub(super) fn exactly(value: f64) -> Option<document::Measured> {
    value.is_finite().then_some(document::Measured { value, interval: None, n: 1 })
}

pub(super) fn lines(name: &str, title: &str, caption: &str, series: Vec<LineSeries>) -> Figure {
    let plot = Plot::Lines(Lines {
        x: Axis::linear("clients N", quantity::Unit::Count),
        y: vec![
            Axis::linear("throughput X", quantity::Unit::PerSecond),
            Axis::linear("response time R", quantity::Unit::Seconds),
        ],
        series,
    });
    figure(name, title, caption, plot)
}

pub(super) fn figure(name: &str, title: &str, caption: &str, plot: Plot) -> Figure {
    let (name, title, caption) = (name.into(), title.into(), caption.into());
    Figure { name, title, caption, definitions: Vec::new(), plot, notes: Vec::new() }
}

/// X and R of the model over N, between their bounds, with measured points.
pub(super) fn classes_figure(
    solution: &Solution,
    limits: Option<&limits::Limits>,
    measured: &[calibrate::Measured],
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
                Some(Point { x: n?, y: vec![x.and_then(exactly), r.and_then(exactly)] })
            };
            LineSeries {
                name: name.into(),
                tint: Tint::Series(tint),
                points: points.filter_map(point).collect(),
            }
        };
        series.push(line("best case", 1, "throughput at most", Some("response at least")));
        // The worst R, N·D, is so far from any network's that nothing else could be seen beside it.
        series.push(line("worst case", 3, "throughput at least", None));
    }
    series.push(LineSeries { name: "model".into(), tint: Tint::Series(0), points: model_points(solution) });
    if !measured.is_empty() {
        let points = measured
            .iter()
            .map(|m| Point {
                x: m.population as f64,
                y: vec![exactly(m.throughput), m.response.and_then(exactly)],
            })
            .collect();
        series.push(LineSeries { name: "measured".into(), tint: Tint::Series(2), points });
    }
    let caption = "No network of these demands does better than the best case or worse than the worst (asymptotic bounds).";
    lines("throughput-and-response", "Throughput and response against clients", caption, series)
}

/// X and R of the first closed class over N, before a change and after it; none where one of them was solved for one population only.
pub(super) fn before_and_after_figure(before: &Solution, after: &Solution) -> Option<Figure> {
    if before.points.len().min(after.points.len()) < 2 {
        return None;
    }
    let line = |name: &str, tint, solution: &Solution| LineSeries {
        name: name.into(),
        tint: Tint::Series(tint),
        points: model_points(solution),
    };
    let series = vec![line("before", 1, before), line("after", 0, after)];
    Some(lines("before-and-after", "Throughput and response, before and after", "", series))
}

/// X and R at every population that was solved.
fn model_points(solution: &Solution) -> Vec<Point> {
    let classes = solution.points.iter().flat_map(|point| &point.classes);
    let point = |class: &ClassPoint| {
        let y = vec![exactly(class.throughput), exactly(class.response)];
        Some(Point { x: class.population? as f64, y })
    };
    classes.filter_map(point).collect()
}

/// U and Q of each station over N.
pub(super) fn stations_figure(solution: &Solution, network: &Network) -> Figure {
    let stations = &solution.last().stations;
    let series = stations.iter().enumerate().map(|(index, station)| LineSeries {
        name: station.name.clone(),
        tint: Tint::Series(index),
        points: solution
            .points
            .iter()
            .filter_map(|p| {
                let (n, there) = (p.classes[0].population?, &p.stations[index]);
                Some(Point {
                    x: n as f64,
                    y: vec![
                        exactly(there.utilization).filter(|_| network.stations[index].kind != Kind::Delay),
                        there.queue.and_then(exactly),
                    ],
                })
            })
            .collect(),
    });
    let plot = Plot::Lines(Lines {
        x: Axis::linear("clients N", quantity::Unit::Count),
        y: vec![
            Axis::linear("utilization U", quantity::Unit::Share),
            Axis::linear("queue length Q", quantity::Unit::Count),
        ],
        series: series.collect(),
    });
    let caption =
        "U is the share of its servers that are busy, which a delay has not; Q counts those in service, too.";
    figure("stations", "Stations against clients", caption, plot)
}

/// X and R over N of a calibrated model, a line for each number of workers, and the rows that were measured with as many.
pub(super) fn calibration_figure(calibration: &Calibration, rows: &[Row]) -> Result<Figure, Error> {
    let mut pools: Vec<u64> = rows.iter().map(|row| row.workers).collect();
    pools.sort_unstable();
    pools.dedup();
    let most = rows.iter().map(|row| row.population).max().unwrap_or(1) as usize;
    let mut series = Vec::new();
    for (index, workers) in pools.iter().enumerate() {
        let answers = calibration.model.sweep(most, *workers as usize)?;
        let model =
            answers.iter().map(|answer| (answer.population as u64, answer.throughput, answer.response));
        let same = rows.iter().filter(|row| row.workers == *workers);
        let mut measured: Vec<_> = same.map(|row| (row.population, row.throughput, row.response)).collect();
        measured.sort_by_key(|row| row.0);
        let mut line = |name: String, tint: usize, points: Vec<(u64, f64, f64)>| {
            let point = |(n, x, r): (u64, f64, f64)| Point { x: n as f64, y: vec![exactly(x), exactly(r)] };
            let points = points.into_iter().map(point).collect();
            series.push(LineSeries { name, tint: Tint::Series(tint), points });
        };
        line(format!("{workers} workers, model"), 2 * index, model.collect());
        line(format!("{workers} workers, measured"), 2 * index + 1, measured);
    }
    let caption = "R is at the middleware.";
    Ok(lines("model-and-measured", "Throughput and response: model and measured", caption, series))
}

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
        x: Axis::linear("simulated time", quantity::Unit::Seconds),
        times: simulated.timeline.iter().map(|moment| moment.from).collect(),
        panels: vec![
            panel("throughput X", quantity::Unit::PerSecond, |at| Some(at.throughput)),
            panel("response time R", quantity::Unit::Seconds, |at| at.response),
            panel("requests under way", quantity::Unit::Count, |at| Some(at.present)),
        ],
    });
    let caption = "Each stretch of the run, its warm-up included; replications are averaged.";
    figure("over-time", "The run over time", caption, plot)
}
