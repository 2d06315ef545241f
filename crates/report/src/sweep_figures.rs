//! The figures of a sweep.

use krarup_analysis::cell::Cell;
use krarup_analysis::distribution::tail_share;
use krarup_analysis::results::Results;
use krarup_analysis::saturation::parts;
use krarup_analysis::trial;
use krarup_analysis::verdict::{ResponsePart, Verdict};
use krarup_record::{quantities, stamps};
use krarup_units::Unit;

use crate::against::against;
use crate::document::EstimateCell;
use crate::estimates::{all_repetitions, intervals, measured, points_are};
use crate::figures::{
    Axis, Figure, FigurePoint, HeatMap, HistogramFigure, HistogramPanel, LineSeries, Lines, Mark, Plot,
    Scatter, ScatterGroup, SeriesCounts, StackedBars, StackedPanel, TimeLine, TimePanel, TimeSeries, Tint,
};
use crate::sweep_notes::{Topic, notes};
use crate::workloads::{clients, drawn_at_limits, fastest, load_of, not_drawn, workloads};

/// No more buckets than this are drawn side by side; narrower ones are taken together.
const MOST_BUCKETS: u64 = 80;

/// Throughput and mean response time; beside them keys per second where requests ask for several,
/// and the machine's processors where it was watched.
pub(crate) fn throughput(results: &Results) -> Figure {
    let against = against(results);
    let (keys, watched) = (keys_matter(results), machine_was_watched(results));
    let mut y = vec![Axis::of(quantities::THROUGHPUT, "")];
    let mut shown = vec![quantities::THROUGHPUT, quantities::RESPONSE_TIME];
    if keys {
        y.push(Axis::of(quantities::KEY_RATE, ""));
        shown.push(quantities::KEY_RATE);
    }
    y.push(Axis::of(quantities::RESPONSE_TIME, "mean"));
    if watched {
        y.push(Axis::linear("processors busy", Unit::Cores));
    }
    let of = |cell: &Cell| {
        let mut values = vec![Some(measured(&cell.throughput))];
        values.extend(keys.then(|| cell.keys.as_ref().map(measured)));
        values.push(Some(measured(&cell.response.mean)));
        let busy = || cell.machine.as_ref().map(krarup_record::watch::Watch::busy);
        let n = cell.repetitions.iter().filter(|one| one.processors.is_some()).count() as u64;
        values.extend(watched.then(|| busy().map(|value| EstimateCell { value, interval: None, n })));
        Some(values)
    };
    let processors = match results.environment.cores {
        _ if !watched => String::new(),
        0 => " Processors are those of all machines, kernel and other programs included.".into(),
        cores => {
            format!(" Processors are the machine's, {cores} in all, kernel and other programs included.")
        }
    };
    Figure {
        name: "throughput-and-response-time".into(),
        title: format!("Throughput and response time {}", against.in_title()),
        caption: format!("{} All axes start from zero{}.{processors}", intervals(results), against.scale()),
        quantities: shown,
        notes: notes(results, Topic::Throughput),
        plot: Plot::Lines(against.draw(y, of)),
    }
}

/// Whether requests ask for several keys, so that requests alone do not say how much was done.
pub(crate) fn keys_matter(results: &Results) -> bool {
    results.cells.iter().any(|cell| cell.keys.is_some_and(|keys| keys.value > 1.05 * cell.throughput.value))
}

/// Whether the machine was watched, in any cell.
pub(crate) fn machine_was_watched(results: &Results) -> bool {
    results.cells.iter().any(|cell| cell.machine.is_some())
}

/// Response time against the share of requests, each further nine as far away, at each workload's
/// limit.
pub(crate) fn tails(results: &Results) -> Option<Figure> {
    let line = |(index, (verdict, cell)): (usize, (&Verdict, &Cell))| LineSeries {
        name: load_of(verdict),
        tint: Tint::Series(index),
        mark: Mark::Curve,
        points: cell
            .tail
            .iter()
            .enumerate()
            .map(|(number, time)| FigurePoint {
                x: tail_share(number),
                y: vec![Some(EstimateCell {
                    value: *time,
                    interval: None,
                    n: cell.repetitions.len() as u64,
                })],
            })
            .collect(),
    };
    let series: Vec<LineSeries> = drawn_at_limits(results)
        .into_iter()
        .enumerate()
        .map(line)
        .filter(|line| line.points.len() > 1)
        .collect();
    (!series.is_empty()).then(|| Figure {
        name: "response-time-percentiles".into(),
        title: "Response time by percentile".into(),
        caption: format!(
            "Each further nine is as far away; a line ends where fewer than ten requests were slower. At the fewest clients that reach 95 % of each \
             workload's highest throughput; means of the repetitions.{}",
            not_drawn(results)
        ),
        quantities: vec![quantities::RESPONSE_TIME, quantities::PERCENTILE],
        notes: Vec::new(),
        plot: Plot::Lines(Lines {
            x: Axis::tail("share of requests"),
            y: vec![Axis::of(quantities::RESPONSE_TIME, "")],
            series,
        }),
    })
}

/// A run with fewer windows than this is short: its curves say as much as a map.
const LONG: usize = 20;

/// Which repetition is drawn window by window: the first that did not fail.
fn first_repetition(cell: &Cell) -> u32 {
    cell.repetitions.first().map_or(1, |first| first.repetition + 1)
}

/// How the response times of the fastest workload were distributed over a long run.
pub(crate) fn over_time(results: &Results) -> Option<Figure> {
    let verdict = fastest(results)?;
    let cell = results.cell(&verdict.at)?;
    let course = cell.run.response_times.as_ref().filter(|course| course.starts.len() >= LONG)?;
    let line = |name: &str, tint, values: &[Option<f64>]| TimeLine {
        name: name.into(),
        tint,
        values: values.to_vec(),
    };
    Some(Figure {
        name: "response-times-over-time".into(),
        title: format!("Response times over one run: {}", load_of(verdict)),
        caption: format!(
            "The darker, the more requests of that window took so long. {} windows of repetition {}; the buckets grow by a third each.",
            course.starts.len(),
            first_repetition(cell)
        ),
        quantities: vec![quantities::RESPONSE_TIME, quantities::PERCENTILE],
        notes: Vec::new(),
        plot: Plot::HeatMap(HeatMap {
            x: Axis::linear("time in the run", Unit::Seconds),
            y: Axis::log(quantities::RESPONSE_TIME.name, Unit::Seconds),
            counted: "requests".into(),
            times: course.starts.clone(),
            length: course.length,
            edges: course.edges.clone(),
            counts: course.counts.clone(),
            lines: vec![line("p50", Tint::Series(1), &course.p50), line("p99", Tint::Series(4), &course.p99)],
        }),
    })
}

/// Mean response time against the throughput at which it was seen.
pub(crate) fn response_at_throughput(results: &Results) -> Figure {
    let against = against(results);
    let label = |x: f64| match against.name.as_str() {
        "clients" => clients(x as u32),
        factor => format!("{factor} {}", against.level(x)),
    };
    let groups = against.lines.iter().enumerate().map(|(index, (name, cells))| ScatterGroup {
        name: name.clone(),
        tint: Tint::Series(index),
        points: cells
            .iter()
            .map(|(x, cell)| (label(*x), cell.throughput.value, measured(&cell.response.mean)))
            .collect(),
    });
    Figure {
        name: "response-time-against-throughput".into(),
        title: "Response time against throughput".into(),
        caption: format!(
            "{} A point for each level of {}. Where points rise and no longer move to the right, throughput is at its limit and what is \
             added only waits. Bars are those of the response time; both axes start from zero.",
            intervals(results),
            against.name
        ),
        quantities: vec![quantities::THROUGHPUT, quantities::RESPONSE_TIME],
        notes: Vec::new(),
        plot: Plot::Scatter(Scatter {
            x: Axis::of(quantities::THROUGHPUT, ""),
            y: Axis::of(quantities::RESPONSE_TIME, "mean"),
            diagonal: false,
            groups: groups.collect(),
        }),
    }
}

/// Median, 90th and 99th percentile of the response time.
pub(crate) fn percentiles(results: &Results) -> Figure {
    let y = vec![
        Axis::of(quantities::RESPONSE_TIME, "p50"),
        Axis::of(quantities::RESPONSE_TIME, "p90"),
        Axis::of(quantities::RESPONSE_TIME, "p99"),
    ];
    let against = against(results);
    let of = |cell: &Cell| {
        let response = &cell.response;
        Some([response.p50, response.p90, response.p99].map(|one| Some(measured(&one))).to_vec())
    };
    Figure {
        name: "percentiles".into(),
        title: format!("Response time, p50, p90 and p99, {}", against.in_title()),
        caption: format!("{} The axes start from zero, and differ.", points_are(results)),
        quantities: vec![quantities::PERCENTILE, quantities::RESPONSE_TIME],
        notes: Vec::new(),
        plot: Plot::Lines(against.draw(y, of)),
    }
}

/// What the clients measured beside what the interactive law makes of their number and throughput.
pub(crate) fn interactive_law(results: &Results) -> Option<Figure> {
    let by_law = |cell: &Cell| f64::from(cell.levels.clients) / cell.throughput.value - cell.think;
    // Where the rate was given, clients wait for nothing.
    let is_usable = |cell: &&Cell| !cell.open && by_law(cell).is_finite() && by_law(cell) > 0.0;
    let group = |(index, workload): (usize, &str)| ScatterGroup {
        name: workload.to_owned(),
        tint: Tint::Series(index),
        points: results
            .workload(workload)
            .filter(is_usable)
            .map(|cell| (clients(cell.levels.clients), by_law(cell), measured(&cell.response.mean)))
            .collect(),
    };
    let groups: Vec<ScatterGroup> = workloads(results).into_iter().enumerate().map(group).collect();
    let off = results
        .cells
        .iter()
        .filter(is_usable)
        .map(|cell| (cell.response.mean.value / by_law(cell) - 1.0).abs())
        .fold(0.0, f64::max);
    groups.iter().any(|group| !group.points.is_empty()).then(|| Figure {
        name: "interactive-law".into(),
        title: "Response time measured, against the interactive law".into(),
        caption: format!(
            "R = N/X − Z. On the line, throughput and response time account for all clients; the farthest \
             point is {} off. Bars are 95 % t intervals, as above.",
            Unit::Share.show(off)
        ),
        quantities: vec![
            quantities::THROUGHPUT,
            quantities::RESPONSE_TIME,
            quantities::POPULATION,
            quantities::THINK_TIME,
        ],
        notes: Vec::new(),
        plot: Plot::Scatter(Scatter {
            x: Axis::linear("response time by the law", Unit::Seconds),
            y: Axis::of(quantities::RESPONSE_TIME, "measured"),
            diagonal: true,
            groups,
        }),
    })
}

/// Where the response time went, for each workload and number of clients.
pub(crate) fn breakdown(results: &Results) -> Option<Figure> {
    let against = against(results);
    let panel = |(name, cells): &(String, Vec<(f64, &Cell)>)| {
        let bars: Vec<(String, Vec<f64>)> = cells
            .iter()
            .filter_map(|(x, cell)| {
                let times = parts(cell)?.map(|(_, time)| time.value).to_vec();
                Some((against.level(*x), times))
            })
            .collect();
        (!bars.is_empty()).then(|| StackedPanel { name: name.clone(), bars })
    };
    let panels: Vec<StackedPanel> = against.lines.iter().filter_map(panel).collect();
    if panels.is_empty() {
        return None;
    }
    let part = |part: ResponsePart, tint| {
        (if part == ResponsePart::Outside { "outside".to_owned() } else { part.name().to_owned() }, tint)
    };
    Some(Figure {
        name: "where-the-time-goes".into(),
        title: format!("Mean response time by part, against {}", against.name),
        caption: format!(
            "Each bar is the mean response time at the clients over {}; its parts sum to it. The axes start from zero and differ \
             between workloads. The intervals of the parts are in the table below.",
            all_repetitions(results)
        ),
        quantities: vec![stamps::QUEUE_TIME, stamps::SERVER_TIME, stamps::OWN_TIME, quantities::OUTSIDE],
        notes: notes(results, Topic::Breakdown),
        plot: Plot::StackedBars(StackedBars {
            group: "workload".into(),
            category: against.name.clone(),
            y: Axis::of(quantities::RESPONSE_TIME, "mean"),
            parts: vec![
                part(ResponsePart::Queue, Tint::Queue),
                part(ResponsePart::Server, Tint::Server),
                part(ResponsePart::Own, Tint::Own),
                part(ResponsePart::Outside, Tint::Outside),
            ],
            panels,
        }),
    })
}

/// Response times at clients and middleware, at each workload's limit.
pub(crate) fn histogram(results: &Results) -> Option<Figure> {
    let panel = |(verdict, cell): (&Verdict, &Cell)| histogram_panel(load_of(verdict), cell);
    let panels: Vec<HistogramPanel> = drawn_at_limits(results).into_iter().filter_map(panel).collect();
    if panels.is_empty() {
        return None;
    }
    let (title, quantities) = if panels.iter().any(|panel| panel.series.len() > 1) {
        (
            "Response times at the clients and at the middleware",
            vec![quantities::RESPONSE_TIME, stamps::RESPONSE_TIME],
        )
    } else {
        ("Response times at the clients", vec![quantities::RESPONSE_TIME])
    };
    Some(Figure {
        name: "response-time-histogram".into(),
        title: title.into(),
        caption: "Share of all requests in each bucket, all repetitions together, at the fewest clients that reach 95 % of the \
                  workload's highest throughput. The slowest of a thousand requests lie beyond the right edge; the data has \
                  their number in its last row. Lines across are mean and p99 at the clients, with their intervals as bands."
            .to_owned() + &not_drawn(results),
        quantities,
        notes: notes(results, Topic::Histogram),
        plot: Plot::Histogram(HistogramFigure {
            group: "cell".into(),
            x: Axis::of(quantities::RESPONSE_TIME, ""),
            counted: "requests".into(),
            panels,
        }),
    })
}

/// Both histograms over the same buckets, up to the clients' 99.9th percentile.
fn histogram_panel(name: String, cell: &Cell) -> Option<HistogramPanel> {
    let client = &cell.histogram;
    let middleware = cell.middleware.as_ref().map(|m| &m.histogram);
    let middleware = middleware.filter(|m| m.width == client.width && m.is_usable());
    if !client.is_usable() {
        return None;
    }
    let first = client.counts.first()?.0;
    let first = middleware.and_then(|m| Some(m.counts.first()?.0)).map_or(first, |other| first.min(other));
    let last = client.bucket_of_share(0.999)?;
    let together = (last - first + 1).div_ceil(MOST_BUCKETS);
    let first = first / together * together;
    let drawn = (last - first) / together + 1;
    let buckets = |name: &str, tint, histogram: &trial::TrialHistogram| {
        let (counts, beyond) = histogram.rebinned(first, together, drawn as usize);
        SeriesCounts { name: name.to_owned(), tint, counts, beyond }
    };
    let mut series = vec![buckets("at the clients", Tint::Series(0), client)];
    series.extend(middleware.map(|histogram| buckets("at the middleware", Tint::Series(1), histogram)));
    Some(HistogramPanel {
        name,
        first: first as f64 * client.width,
        width: together as f64 * client.width,
        marks: vec![
            ("mean".into(), measured(&cell.response.mean)),
            ("p99".into(), measured(&cell.response.p99)),
        ],
        series,
    })
}

/// One run of the fastest workload at its limit, window by window.
pub(crate) fn run(results: &Results) -> Option<Figure> {
    let verdict = fastest(results)?;
    let cell = results.cell(&verdict.at)?;
    let client = &cell.run.client;
    if client.is_empty() {
        return None;
    }
    let middleware = &cell.run.middleware;
    // Windows of both sides that begin at the same moment stand at the same place.
    let beside = |of: fn(&trial::MiddlewareWindow) -> Option<f64>| -> Vec<Option<f64>> {
        let at = |start: f64| {
            let next = middleware.partition_point(|window| window.start + window.length / 2.0 <= start);
            middleware.get(next).filter(|window| (window.start - start).abs() < window.length / 2.0)
        };
        client.iter().map(|window| at(window.start).and_then(of)).collect()
    };
    let line = |name: &str, tint, values| TimeLine { name: name.to_owned(), tint, values };
    let mut panels = vec![TimePanel {
        y: Axis::of(quantities::THROUGHPUT, ""),
        lines: vec![line(
            "throughput",
            Tint::Series(0),
            client.iter().map(|window| Some(window.completed as f64 / window.length)).collect(),
        )],
    }];
    let mut times =
        vec![line("response time", Tint::Series(3), client.iter().map(|window| window.response).collect())];
    let mut shown = vec![quantities::THROUGHPUT, quantities::RESPONSE_TIME];
    if !middleware.is_empty() {
        times.push(line("server time", Tint::Server, beside(|window| window.server)));
        times.push(line("queue time", Tint::Queue, beside(|window| window.queue)));
        times.push(line("own time", Tint::Own, beside(|window| window.own)));
        shown.extend([stamps::QUEUE_TIME, stamps::SERVER_TIME, stamps::OWN_TIME]);
    }
    panels.push(TimePanel { y: Axis::linear("time, mean", Unit::Seconds), lines: times });
    if middleware.iter().any(|window| window.queue_length.is_some()) {
        panels.push(TimePanel {
            y: Axis::of(quantities::QUEUE_LENGTH, "mean"),
            lines: vec![line("queue length", Tint::Queue, beside(|window| window.queue_length))],
        });
        shown.push(quantities::QUEUE_LENGTH);
    }
    let done = cell.course.iter().filter(|stretch| !stretch.after.is_empty());
    let done: Vec<String> = done
        .map(|stretch| format!(" At {}: {}.", krarup_units::text::duration(stretch.start), stretch.after))
        .collect();
    let repetition = first_repetition(cell);
    Some(Figure {
        name: "one-run".into(),
        title: format!("{}, {}, repetition {repetition}", verdict.at.workload, clients(verdict.at.clients)),
        caption: format!(
            "Each point is one of {} windows of the measured span; times are means of the requests answered in it. The axes start \
             from zero.{}",
            client.len(),
            done.concat()
        ),
        quantities: shown,
        notes: notes(results, Topic::Run),
        plot: Plot::TimeSeries(TimeSeries {
            x: Axis::linear("time in the run", Unit::Seconds),
            times: client.iter().map(|window| window.start).collect(),
            panels,
        }),
    })
}
