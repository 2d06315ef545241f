//! The figures of `krarup model`.

use krarup_model::simulate::result::Simulated;
use krarup_model::solve::Solution;
use krarup_model::{calibrate, limits};
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
    let classes = || solution.points.iter().flat_map(|p| &p.classes);
    let point = |n: f64, x: f64, r: f64| Point { x: n, y: vec![exactly(x), exactly(r)] };
    let mut series = vec![LineSeries {
        name: "model".into(),
        tint: Tint::Series(0),
        points: classes()
            .filter_map(|c| c.population.map(|n| point(n as f64, c.throughput, c.response)))
            .collect(),
    }];
    if let Some(limits) = limits {
        let bound = limits.bounds_table(&classes().filter_map(|c| c.population).collect::<Vec<_>>());
        let column = |name: &str| bound.numbers(name);
        let points = column("population")
            .into_iter()
            .zip(column("throughput at most"))
            .zip(column("response at least"))
            .filter_map(|((n, x), r)| Some(point(n?, x?, r?)))
            .collect();
        series.push(LineSeries { name: "bound".into(), tint: Tint::Series(1), points });
    }
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
    let caption = "The bound is the most X and the least R that any network of these demands can have.";
    lines("throughput-and-response", "Throughput and response against clients", caption, series)
}

/// U and Q of each station over N.
pub(super) fn stations_figure(solution: &Solution) -> Figure {
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
                    y: vec![exactly(there.utilization), there.queue.and_then(exactly)],
                })
            })
            .collect(),
    });
    let plot = Plot::Lines(Lines {
        x: Axis::linear("clients N", quantity::Unit::Count),
        y: vec![
            Axis::linear("utilization U (a delay: mean number)", quantity::Unit::Count),
            Axis::linear("queue length Q", quantity::Unit::Count),
        ],
        series: series.collect(),
    });
    let caption = "U is the share of its servers that are busy; Q counts those in service, too.";
    figure("stations", "Stations against clients", caption, plot)
}

/// X, R and the number under way over simulated time, a line for each class.
pub(super) fn timeline_figure(simulated: &Simulated) -> Figure {
    let panel = |title: &str,
                 unit,
                 value: fn(&krarup_model::simulate::result::MomentClass) -> Option<f64>| {
        TimePanel {
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
        }
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
