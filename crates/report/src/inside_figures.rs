//! Inside the middleware, a line for each workload and number of workers; each operation apart; and
//! percentiles against a factor of numbers.

use krarup_analysis::cell::{Cell, OperationInside};
use krarup_analysis::distribution::{QUANTILES, share_of};
use krarup_analysis::quantity::Quantity;
use krarup_analysis::results::Results;
use krarup_record::{quantities, stamps};
use krarup_units::Unit;

use crate::against::{against, factors_of_numbers, levels_of};
use crate::document::EstimateCell;
use crate::estimates::{intervals, measured, points_are, repetitions};
use crate::figures::{Axis, Figure, FigurePoint, LineSeries, Lines, Mark, Plot, Tint};

/// Queue time, queue length and server time.
pub(crate) fn inside(results: &Results) -> Option<Figure> {
    let against = against(results);
    let y = vec![
        Axis::of(stamps::QUEUE_TIME, "mean"),
        Axis::of(quantities::QUEUE_LENGTH, "mean"),
        Axis::of(stamps::SERVER_TIME, "mean"),
    ];
    let lines = against.draw(y, |cell| {
        let middleware = cell.middleware.as_ref()?;
        let [queue, server] =
            [middleware.queue.mean, middleware.server.mean].map(|time| Some(measured(&time)));
        Some(vec![queue, middleware.queue_length.as_ref().map(measured), server])
    });
    (!lines.series.is_empty()).then(|| Figure {
        name: "inside-the-middleware".into(),
        title: format!("Queue time, queue length and server time {}", against.in_title()),
        caption: format!(
            "{} The axes start from zero, and differ{}. A queue that grows while server time stays says that workers are \
             missing; server time that grows with the workers says that the servers are full.",
            intervals(results),
            against.scale()
        ),
        quantities: vec![stamps::QUEUE_TIME, quantities::QUEUE_LENGTH, stamps::SERVER_TIME],
        notes: Vec::new(),
        plot: Plot::Lines(lines),
    })
}

/// The 90th percentiles of what the mean hides.
pub(crate) fn inside_percentiles(results: &Results) -> Option<Figure> {
    let against = against(results);
    let y = ["queue time, p50", "queue time, p90", "server time, p50", "server time, p90"];
    let y = y.map(|title| Axis::linear(title, Unit::Seconds)).to_vec();
    let lines = against.draw(y, |cell| {
        let middleware = cell.middleware.as_ref()?;
        let (queue, server) = (&middleware.queue, &middleware.server);
        Some([queue.p50, queue.p90, server.p50, server.p90].map(|time| Some(measured(&time))).to_vec())
    });
    (!lines.series.is_empty()).then(|| Figure {
        name: "inside-percentiles".into(),
        title: format!("Percentiles of queue time and server time {}", against.in_title()),
        caption: format!("{} The axes start from zero, and differ{}.", points_are(results), against.scale()),
        quantities: vec![quantities::PERCENTILE, stamps::QUEUE_TIME, stamps::SERVER_TIME],
        notes: Vec::new(),
        plot: Plot::Lines(lines),
    })
}

/// Each operation apart, where cells have more than one: how many, how long, and where it was
/// meanwhile.
pub(crate) fn by_operation(results: &Results) -> Vec<Figure> {
    let mut names: Vec<&str> = Vec::new();
    for operation in results.cells.iter().flat_map(|cell| &cell.operations) {
        if !names.contains(&operation.name.as_str()) {
            names.push(&operation.name);
        }
    }
    names.into_iter().filter_map(|name| of_operation(results, name)).collect()
}

fn of_operation(results: &Results, name: &str) -> Option<Figure> {
    let against = against(results);
    let asked = results.cells.iter().any(|cell| cell.operations.iter().any(|one| one.inside.is_some()));
    let mut y = vec![Axis::linear(format!("{name}: throughput"), Unit::PerSecond)];
    let times = ["response time, p50", "response time, p90", "response time, p99"];
    y.extend(times.map(|title| Axis::linear(format!("{name}: {title}"), Unit::Seconds)));
    let inner = ["queue time, p50", "queue time, p90", "server time, p50", "server time, p90"];
    y.extend(
        inner.iter().filter(|_| asked).map(|title| Axis::linear(format!("{name}: {title}"), Unit::Seconds)),
    );
    let lines = against.draw(y, |cell| {
        let one = cell.operations.iter().find(|one| one.name == name)?;
        let response = &one.response;
        let mut values = [one.throughput, response.p50, response.p90, response.p99]
            .iter()
            .map(|one| Some(measured(one)))
            .collect::<Vec<_>>();
        if asked {
            let inside = one.inside.as_ref();
            let of = |pick: fn(&OperationInside) -> Quantity| inside.map(|inside| measured(&pick(inside)));
            values.extend([
                of(|i| i.queue.p50),
                of(|i| i.queue.p90),
                of(|i| i.server.p50),
                of(|i| i.server.p90),
            ]);
        }
        Some(values)
    });
    (!lines.series.is_empty()).then(|| Figure {
        name: format!("operation-{name}"),
        title: format!("{name} alone, {}", against.in_title()),
        caption: format!(
            "{} Response times at the clients, queue and server times at the middleware. The axes start from zero, and differ{}.",
            points_are(results),
            against.scale()
        ),
        quantities: vec![
            quantities::THROUGHPUT,
            quantities::RESPONSE_TIME,
            quantities::PERCENTILE,
            stamps::QUEUE_TIME,
            stamps::SERVER_TIME,
        ],
        notes: Vec::new(),
        plot: Plot::Lines(lines),
    })
}

/// The shares whose percentiles are drawn.
const SHARES: [f64; 5] = [0.25, 0.5, 0.75, 0.9, 0.99];
/// Factors and their levels.
type Levels = Vec<(String, String)>;

/// More figures of one kind tell a reader nothing.
const MOST: usize = 4;

/// Percentiles of the response time against a factor of numbers that is not the number of clients:
/// keys of a multi-get, sizes. One figure for each combination of the other factors, the first few.
pub(crate) fn percentiles_by_factor(results: &Results) -> Vec<Figure> {
    let several = |name: &String| levels_of(results, name) > 2 && !name.starts_with("worker");
    let Some(factor) = factors_of_numbers(results).into_iter().find(several) else { return Vec::new() };
    let others = |cell: &Cell| -> Levels {
        cell.factors.iter().filter(|(name, _)| *name != factor).cloned().collect()
    };
    let mut groups: Vec<(Levels, Vec<&Cell>)> = Vec::new();
    for cell in &results.cells {
        let others = others(cell);
        match groups.iter_mut().find(|(known, _)| *known == others) {
            Some((_, cells)) => cells.push(cell),
            None => groups.push((others, vec![cell])),
        }
    }
    groups.retain(|(_, cells)| cells.len() > 2 && cells.iter().all(|cell| cell.quantiles.len() == QUANTILES));
    let varying = |name: &str| {
        groups
            .iter()
            .any(|(others, _)| others != &groups[0].0 && level(others, name) != level(&groups[0].0, name))
    };
    let label = |others: &[(String, String)]| {
        let parts: Vec<String> = others
            .iter()
            .filter(|(name, _)| varying(name))
            .map(|(name, level)| format!("{name} {level}"))
            .collect();
        parts.join(", ")
    };
    let figures = groups
        .iter()
        .take(MOST)
        .enumerate()
        .map(|(number, (others, cells))| figure(&factor, number, &label(others), cells));
    figures.collect()
}

fn level<'a>(factors: &'a [(String, String)], name: &str) -> Option<&'a str> {
    factors.iter().find(|(known, _)| known == name).map(|(_, level)| level.as_str())
}

/// Of what the bars at the mean and the percentiles are.
fn bars_are(cells: &[&Cell]) -> String {
    let of_cells = cells.iter().map(|cell| cell.repetitions.len() as u64);
    if of_cells.clone().all(|repetitions| repetitions == 1) {
        return "Points are of one run; a bar at the mean is a 95 % t interval of its windows; percentiles have none.".into();
    }
    format!(
        "Bars are 95 % t intervals of {}, for the mean, p50, p90 and p99; p25 and p75 are means of each repetition's own.",
        repetitions(of_cells)
    )
}

fn figure(factor: &str, number: usize, label: &str, cells: &[&Cell]) -> Figure {
    let at = |cell: &Cell, share: f64| {
        // The quantile whose step is nearest.
        let place = (0..QUANTILES)
            .min_by(|one, two| (share_of(*one) - share).abs().total_cmp(&(share_of(*two) - share).abs()));
        place.and_then(|place| cell.quantiles.get(place)).map(|value| EstimateCell {
            value: *value,
            interval: None,
            n: cell.repetitions.len() as u64,
        })
    };
    let x = |cell: &Cell| cell.level(factor).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    let mut ordered: Vec<&Cell> = cells.to_vec();
    ordered.sort_by(|one, two| x(one).total_cmp(&x(two)));
    let line = |name: String, index: usize, of: &dyn Fn(&Cell) -> Option<EstimateCell>| LineSeries {
        name,
        tint: Tint::Series(index),
        mark: Mark::Joined,
        points: ordered.iter().map(|cell| FigurePoint { x: x(cell), y: vec![of(cell)] }).collect(),
    };
    let mut series = vec![line("mean".into(), 0, &|cell| Some(measured(&cell.response.mean)))];
    series.extend(SHARES.iter().enumerate().map(|(index, share)| {
        line(format!("p{:.0}", share * 100.0), index + 1, &|cell| match *share {
            0.5 => Some(measured(&cell.response.p50)),
            0.9 => Some(measured(&cell.response.p90)),
            0.99 => Some(measured(&cell.response.p99)),
            other => at(cell, other),
        })
    }));
    let of = if label.is_empty() { String::new() } else { format!(", {label}") };
    Figure {
        name: format!("percentiles-by-factor-{}", number + 1),
        title: format!("Mean and percentiles of the response time against {factor}{of}"),
        caption: format!("{} The axis starts from zero.", bars_are(cells)),
        quantities: vec![quantities::PERCENTILE, quantities::RESPONSE_TIME],
        notes: Vec::new(),
        plot: Plot::Lines(Lines {
            x: Axis::linear(factor, Unit::Count),
            y: vec![Axis::of(quantities::RESPONSE_TIME, "")],
            series,
        }),
    }
}

#[cfg(test)]
mod tests {
    use krarup_analysis::trial::{CellLevels, ClientSide, TrialTimes};
    use krarup_analysis::{Environment, Trial, summarise};

    use super::*;

    fn trial(keys: u32, mode: &str) -> Trial {
        let mean = 1e-3 * f64::from(keys);
        Trial {
            levels: CellLevels { workload: format!("keys {keys}, {mode}"), clients: 12 },
            repetition: 0,
            length: 10.0,
            think: 0.0,
            client: ClientSide {
                completed: 1_000,
                response: TrialTimes { mean, p50: mean, p90: 2.0 * mean, p99: 3.0 * mean },
                quantiles: (0..QUANTILES).map(|number| mean * 2.0 * share_of(number)).collect(),
                ..ClientSide::default()
            },
            middleware: None,
            servers: Vec::new(),
            cpu: Vec::new(),
            links: Vec::new(),
            ways: Vec::new(),
            factors: vec![("mode".into(), mode.into()), ("keys".into(), keys.to_string())],
            machine: None,
            machines: Vec::new(),
            course: Vec::new(),
            disturbed: None,
        }
    }

    #[test]
    fn percentiles_are_drawn_against_the_factor_of_numbers_for_each_of_the_others() {
        let modes = ["sharded", "whole"];
        let trials: Vec<Trial> =
            modes.iter().flat_map(|mode| [9, 1, 3, 6].map(|keys| trial(keys, mode))).collect();
        let results = summarise("t", Environment::default(), &trials).unwrap();
        let figures = percentiles_by_factor(&results);
        assert_eq!(figures.len(), 2);
        assert!(figures[0].title.ends_with("against keys, mode sharded"), "{}", figures[0].title);
        let Plot::Lines(lines) = &figures[0].plot else { panic!("no lines") };
        let p25 = &lines.series[1];
        let xs: Vec<f64> = p25.points.iter().map(|point| point.x).collect();
        assert_eq!((p25.name.as_str(), xs), ("p25", vec![1.0, 3.0, 6.0, 9.0]));
        let value = p25.points[1].y[0].unwrap().value;
        assert!((value / 1.5e-3 - 1.0).abs() < 0.02, "{value}");
    }

    #[test]
    fn a_caption_says_whether_bars_are_of_repetitions_or_of_windows() {
        let caption = |repetitions: u32| {
            let trials = (0..repetitions)
                .flat_map(|repetition| [1, 3, 6].map(|keys| Trial { repetition, ..trial(keys, "whole") }));
            let results = summarise("t", Environment::default(), &trials.collect::<Vec<_>>()).unwrap();
            percentiles_by_factor(&results)[0].caption.clone()
        };
        let (once, twice) = (caption(1), caption(2));
        assert!(once.starts_with("Points are of one run; a bar at the mean "), "{once}");
        assert!(twice.starts_with("Bars are 95 % t intervals of 2 repetitions, "), "{twice}");
    }

    #[test]
    fn the_number_of_clients_is_no_such_factor() {
        let mut trials: Vec<Trial> = [1, 2, 4].map(|keys| trial(keys, "whole")).to_vec();
        for trial in &mut trials {
            trial.levels.clients = trial.factors[1].1.parse().unwrap();
        }
        let results = summarise("t", Environment::default(), &trials).unwrap();
        assert!(percentiles_by_factor(&results).is_empty());
    }
}
