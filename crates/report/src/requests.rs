//! The rows of one run as a document: what they say of each operation, where the time went, whether
//! it adds up.

use krarup_analysis::quantity::Quantity;
use krarup_analysis::requests::{
    EstimateWindow, Occupancy, OperationEstimates, RequestEstimates, SHARES, Settled, StationEstimates,
    TimeSpread,
};
use krarup_record::quantities::{self, QuantityDefinition};
use krarup_record::stamps;
use krarup_units::{Unit, text};

use crate::document::{Block, Column, Document, Fact, Finding, Note, Section, Table, TableValue};
use crate::estimates::measured;
use crate::figures::{
    Axis, Figure, HistogramFigure, HistogramPanel, Plot, SeriesCounts, StackedBars, StackedPanel, TimeLine,
    TimePanel, TimeSeries, Tint,
};

/// No more buckets than this are drawn.
const MOST_BUCKETS: u64 = 80;
/// What intervals are of.
const INTERVALS: &str = "± is half the 95 % t interval of ten batches of equal length; none where a batch has no request, or a percentile has fewer than 20 requests on a side.";

/// The whole page. `title` says whose rows they are, `footer` names the program and its version.
pub fn document(requests: &RequestEstimates, title: &str, footer: &str) -> Document {
    let blocks = |blocks: Vec<Option<Block>>| blocks.into_iter().flatten().collect::<Vec<_>>();
    Document {
        title: title.to_owned(),
        subtitle: span(requests),
        summary: summary(requests),
        facts: facts(requests),
        notes: requests
            .warnings
            .iter()
            .map(|warning| Note::warning(warning.to_string(), warning.next_step()))
            .collect(),
        quantities: Vec::new(),
        sections: [
            Section { title: "Operations".into(), blocks: vec![Block::Table(operations(requests))] },
            Section {
                title: "Where the time goes".into(),
                blocks: blocks(vec![
                    Some(Block::Figure(breakdown(requests))),
                    Some(Block::Table(parts(requests))),
                    servers(requests).map(Block::Table),
                ]),
            },
            Section {
                title: "How the times are distributed".into(),
                blocks: blocks(vec![histogram(requests).map(Block::Figure)]),
            },
            Section {
                title: "Whether it adds up".into(),
                blocks: vec![Block::Table(laws(requests)), Block::Table(settled(requests))],
            },
            Section { title: "The whole run".into(), blocks: blocks(vec![run(requests).map(Block::Figure)]) },
        ]
        .into_iter()
        .filter(|section| !section.blocks.is_empty())
        .collect(),
        footer: footer.to_owned(),
    }
}

/// `980,123 rows; measured 8.00 s of 10.0 s, from 1.00 s on`.
pub fn span(requests: &RequestEstimates) -> String {
    format!(
        "{} rows; measured {} of {}, from {} on",
        text::count(requests.rows as f64),
        text::duration(requests.length),
        text::duration(requests.run),
        text::duration(requests.from)
    )
}

/// What the parts of the response time are called: of a station, or of the clients, which have
/// neither a queue nor workers.
struct Words {
    queue: &'static str,
    server: &'static str,
    own: &'static str,
}

fn words(requests: &RequestEstimates) -> Words {
    if requests.of_clients {
        let (queue, server) = (quantities::LATENESS.name, quantities::TIME_FROM_SENT.name);
        Words { queue, server, own: "rest" }
    } else {
        let (queue, server) = (stamps::QUEUE_TIME.name, stamps::SERVER_TIME.name);
        Words { queue, server, own: stamps::OWN_TIME.name }
    }
}

/// What they mean.
fn meanings(requests: &RequestEstimates) -> Vec<QuantityDefinition> {
    if requests.of_clients {
        vec![quantities::LATENESS, quantities::TIME_FROM_SENT]
    } else {
        vec![stamps::QUEUE_TIME, stamps::SERVER_TIME, stamps::OWN_TIME]
    }
}

/// What the response time is.
fn whole(requests: &RequestEstimates) -> QuantityDefinition {
    if requests.of_clients { quantities::RESPONSE_TIME } else { stamps::RESPONSE_TIME }
}

fn lines(requests: &RequestEstimates) -> impl Iterator<Item = (&StationEstimates, &OperationEstimates)> {
    requests.stations.iter().flat_map(|station| shown(station).iter().map(move |line| (station, line)))
}

/// All operations together and each; where there is only one, that says it all.
fn shown(station: &StationEstimates) -> &[OperationEstimates] {
    match &station.operations[..] {
        [_, only @ ..] if only.len() == 1 => only,
        all => all,
    }
}

/// What it is, and of which station where there are several.
fn label(requests: &RequestEstimates, station: &StationEstimates, name: &str) -> String {
    if requests.stations.len() == 1 {
        name.to_owned()
    } else {
        format!("station {}, {name}", station.station)
    }
}

fn summary(requests: &RequestEstimates) -> Vec<Finding> {
    let of_station = |station: &StationEstimates| {
        let all = station.operations.first().filter(|all| all.count > 0)?;
        let share = |part: &TimeSpread| 100.0 * mean(part) / mean(&all.response).max(f64::MIN_POSITIVE);
        let p99 = all.response.at(0.99).map_or(0.0, |p99| p99.value);
        let (queue, server, own) = (share(&all.queue), share(&all.server), share(&all.own));
        let parts = if requests.of_clients {
            format!("{queue:.0} % before requests were sent (lateness), {server:.0} % from sent to answered")
        } else {
            format!("{queue:.0} % in the queue, {server:.0} % with servers, {own:.0} % the station's own")
        };
        let text = format!(
            "{} requests per second, mean response time {} (p99 {}): {parts}.",
            with_interval(&all.throughput),
            text::duration(mean(&all.response)),
            text::duration(p99),
        );
        Some(Finding::words(label(requests, station, "all operations"), text))
    };
    requests.stations.iter().filter_map(of_station).collect()
}

fn with_interval(quantity: &Quantity) -> String {
    let scale = Unit::PerSecond.scale(quantity.value);
    let (value, half) = TableValue::Measured(measured(quantity)).shown(scale);
    match half {
        Some(half) => format!("{value} (± {half})"),
        None => value,
    }
}

fn facts(requests: &RequestEstimates) -> Vec<Fact> {
    let several = requests.stations.len() > 1;
    let of_station = |station: &StationEstimates| {
        let all = station.operations.first()?;
        let about = label(requests, station, "all operations");
        let detail = |text: String| if several { format!("{about}: {text}") } else { text };
        let fact = |label: &str, value, detail| Fact { label: label.into(), value, detail };
        let in_words =
            |time: Option<&Quantity>| time.map_or_else(|| "–".to_owned(), |time| text::duration(time.value));
        let (mean, p99) = (in_words(all.response.mean.as_ref()), in_words(all.response.at(0.99)));
        let failed = text::count(all.errors as f64);
        Some([
            fact("throughput", Unit::PerSecond.show(all.throughput.value), about.clone()),
            fact("response time", mean, detail(format!("mean; p99 {p99}"))),
            fact("requests", text::count(all.count as f64), detail(format!("{failed} failed"))),
        ])
    };
    requests.stations.iter().filter_map(of_station).flatten().collect()
}

/// A time of requests: where there was none, none was measured.
fn time_of(time: Option<&Quantity>) -> TableValue {
    TableValue::from(time.map(measured))
}

/// The mean, to be drawn or divided by: zero where there was no request.
fn mean(time: &TimeSpread) -> f64 {
    time.mean.map_or(0.0, |mean| mean.value)
}

/// One row for each operation.
pub fn operations(requests: &RequestEstimates) -> Table {
    let mut columns = vec![
        Column::new("operation", Unit::Text),
        Column::new("requests", Unit::Count),
        Column::new("errors", Unit::Count),
        Column::of(quantities::THROUGHPUT),
        Column::named("response time", whole(requests)),
    ];
    columns.extend(SHARES.iter().map(|share| Column::named(percentile(*share), quantities::PERCENTILE)));
    columns.push(Column::of(quantities::HIT_RATIO));
    let rows = lines(requests).map(|(station, line)| {
        let mut row = vec![
            TableValue::Text(label(requests, station, &line.operation)),
            TableValue::from(line.count as f64),
            TableValue::from(line.errors as f64),
            TableValue::Measured(measured(&line.throughput)),
            time_of(line.response.mean.as_ref()),
        ];
        row.extend(SHARES.iter().map(|share| time_of(line.response.at(*share))));
        row.push(TableValue::from(line.hit_ratio));
        row
    });
    Table {
        name: "operations".into(),
        title: "Throughput and response time by operation".into(),
        caption: format!(
            "{} {INTERVALS}",
            if requests.of_clients {
                "At the clients that wrote the rows."
            } else {
                "At the station that wrote the rows."
            }
        ),
        columns,
        rows: rows.collect(),
    }
}

/// `p99.9`.
fn percentile(share: f64) -> String {
    format!("p{}", (share * 1_000.0).round() / 10.0)
}

/// One row for each part of each operation's response time.
pub fn parts(requests: &RequestEstimates) -> Table {
    let row = |station: &StationEstimates, line: &OperationEstimates, name: &str, part: &TimeSpread| {
        let whole = mean(&line.response);
        vec![
            TableValue::Text(label(requests, station, &line.operation)),
            TableValue::from(name),
            time_of(part.mean.as_ref()),
            TableValue::from((whole > 0.0).then(|| mean(part) / whole)),
            time_of(part.at(0.5)),
            time_of(part.at(0.9)),
            time_of(part.at(0.99)),
        ]
    };
    let rows = lines(requests).flat_map(|(station, line)| {
        let Words { queue, server, own } = words(requests);
        [(queue, &line.queue), (server, &line.server), (own, &line.own)]
            .map(|(name, part)| row(station, line, name, part))
    });
    Table {
        name: "parts".into(),
        title: "Parts of the response time".into(),
        caption: "The three sum to the response time, request by request; their percentiles do not.".into(),
        columns: vec![
            Column::new("operation", Unit::Text),
            Column::new("part", Unit::Text),
            Column::new("mean", Unit::Seconds),
            Column::new("share", Unit::Share),
            Column::named("p50", quantities::PERCENTILE),
            Column::named("p90", quantities::PERCENTILE),
            Column::named("p99", quantities::PERCENTILE),
        ],
        rows: rows.collect(),
    }
}

/// Little's law at each place.
pub fn laws(requests: &RequestEstimates) -> Table {
    let row = |station: &StationEstimates, place: &Occupancy| {
        let by_law = place.by_law();
        vec![
            TableValue::Text(label(requests, station, &place.name)),
            TableValue::from(place.arrivals),
            TableValue::from(place.completions),
            TableValue::from((place.completions > 0.0).then_some(place.time)),
            TableValue::from(by_law),
            TableValue::from(place.present),
            TableValue::from((place.present > 0.0).then(|| by_law / place.present - 1.0)),
        ]
    };
    let rows = requests
        .stations
        .iter()
        .flat_map(|station| station.places.iter().map(move |place| row(station, place)));
    Table {
        name: "laws".into(),
        title: "Little's law at each station: L = X · W".into(),
        caption: "X and W are of the requests that left the place in the measured span. L is counted on its own: how long all requests were there in the span, divided by its length. Where the \
                  two differ the place was not in a steady state, or rows are missing."
            .into(),
        columns: vec![
            Column::new("place", Unit::Text),
            Column::new("came", Unit::PerSecond),
            Column::named("left (X)", quantities::THROUGHPUT),
            Column::new("time there (W)", Unit::Seconds),
            Column::new("X · W", Unit::Count),
            Column::new("L", Unit::Count),
            Column::new("difference", Unit::Share),
        ],
        rows: rows.collect(),
    }
}

/// What was asked of each server; none where no server was.
pub fn servers(requests: &RequestEstimates) -> Option<Table> {
    let row = |station: &StationEstimates, server: &krarup_analysis::requests::ServerEstimates| {
        vec![
            TableValue::Text(label(requests, station, &format!("server {}", server.server))),
            TableValue::from(server.requests as f64),
            TableValue::from(server.share),
            TableValue::from(server.errors as f64),
            time_of(server.time.mean.as_ref()),
            time_of(server.time.at(0.5)),
            time_of(server.time.at(0.9)),
            time_of(server.time.at(0.99)),
        ]
    };
    let rows: Vec<Vec<TableValue>> = requests
        .stations
        .iter()
        .flat_map(|station| station.servers.iter().map(move |server| row(station, server)))
        .collect();
    (!rows.is_empty()).then(|| Table {
        name: "servers".into(),
        title: "Each server".into(),
        caption: format!(
            "Of each request, or part of one, that a client waited for and that was answered in the measured span. {INTERVALS}"
        ),
        columns: vec![
            Column::new("server", Unit::Text),
            Column::new("requests", Unit::Count),
            Column::new("share", Unit::Share),
            Column::new("errors", Unit::Count),
            Column::named("time", stamps::ONE_SERVER_TIME),
            Column::named("p50", quantities::PERCENTILE),
            Column::named("p90", quantities::PERCENTILE),
            Column::named("p99", quantities::PERCENTILE),
        ],
        rows,
    })
}

/// Where MSER would cut.
pub fn settled(requests: &RequestEstimates) -> Table {
    let words = |settled: &Settled| match settled {
        Settled::After(0.0) => "at once".to_owned(),
        Settled::After(after) => format!("after {}", text::duration(*after)),
        Settled::Never => "not in its first half: it had not settled".to_owned(),
        Settled::Unknown if requests.windows.is_empty() => {
            "not known: a request has a row at each station".to_owned()
        }
        Settled::Unknown => "not known: fewer than ten windows, or all alike".to_owned(),
    };
    let enough = |settled: &Settled| match settled {
        Settled::After(after) if *after <= requests.from => "yes",
        Settled::Unknown => "no conclusion",
        Settled::After(_) | Settled::Never => "no",
    };
    let row = |(series, settled): (&str, &Settled)| {
        vec![
            TableValue::from(series),
            TableValue::Text(words(settled)),
            TableValue::from(requests.from),
            TableValue::from(enough(settled)),
        ]
    };
    Table {
        name: "settled".into(),
        title: "Where the run settled".into(),
        caption: format!(
            "By the marginal standard error rule (MSER) over the {} windows of the whole run. Single slow windows lead it astray: see the run.",
            text::duration(requests.window)
        ),
        columns: vec![
            Column::new("series", Unit::Text),
            Column::new("settled", Unit::Text),
            Column::new("cut off", Unit::Seconds),
            Column::new("enough", Unit::Text),
        ],
        rows: ["throughput", "mean response time"].into_iter().zip(&requests.settled).map(row).collect(),
    }
}

fn breakdown(requests: &RequestEstimates) -> Figure {
    let panel = |station: &StationEstimates| StackedPanel {
        name: label(requests, station, "all operations"),
        bars: shown(station)
            .iter()
            .map(|line| {
                let parts = [&line.queue, &line.server, &line.own];
                (line.operation.clone(), parts.iter().map(|part| mean(part)).collect())
            })
            .collect(),
    };
    let names = words(requests);
    let place = if requests.of_clients { "clients" } else { "station" };
    Figure {
        name: "where-the-time-goes".into(),
        title: "Mean response time by part".into(),
        caption: format!(
            "The parts sum to the mean response time at the {place}. The axis starts from zero; intervals are in the table."
        ),
        quantities: meanings(requests),
        notes: Vec::new(),
        plot: Plot::StackedBars(StackedBars {
            group: "station".into(),
            category: "operation".into(),
            y: Axis::of(quantities::RESPONSE_TIME, "mean"),
            parts: vec![
                (names.queue.into(), Tint::Queue),
                (names.server.into(), Tint::Server),
                (names.own.into(), Tint::Own),
            ],
            panels: requests.stations.iter().map(panel).collect(),
        }),
    }
}

fn histogram(requests: &RequestEstimates) -> Option<Figure> {
    let panel = |station: &StationEstimates| {
        let (response, server) = (&station.histogram, &station.server_histogram);
        let last = response.bucket_of_share(0.999)?;
        let first = response.counts.first()?.0.min(server.counts.first().map_or(u64::MAX, |one| one.0));
        let together = (last - first + 1).div_ceil(MOST_BUCKETS);
        let first = first / together * together;
        let drawn = ((last - first) / together + 1) as usize;
        let buckets = |name: &str, tint, histogram: &krarup_analysis::trial::TrialHistogram| {
            let (counts, beyond) = histogram.rebinned(first, together, drawn);
            SeriesCounts { name: name.to_owned(), tint, counts, beyond }
        };
        let mut series = vec![buckets("response time", Tint::Series(0), response)];
        if !station.servers.is_empty() {
            series.push(buckets(words(requests).server, Tint::Server, server));
        }
        let width = response.width;
        Some(HistogramPanel {
            name: label(requests, station, "all operations"),
            first: first as f64 * width,
            marks: Vec::new(),
            width: together as f64 * width,
            series,
        })
    };
    let panels: Vec<HistogramPanel> = requests.stations.iter().filter_map(panel).collect();
    (!panels.is_empty()).then(|| Figure {
        name: "histogram".into(),
        title: format!("Response times, and {}", if requests.of_clients { "times from sent" } else { "times with the servers" }),
        caption: "Share of all requests in each bucket. The slowest of a thousand lie beyond the right edge; the data has their number in its last row.".into(),
        quantities: std::iter::once(whole(requests)).chain(meanings(requests).into_iter().nth(1)).collect(),
        notes: Vec::new(),
        plot: Plot::Histogram(HistogramFigure {
            group: "station".into(),
            x: Axis::linear("time", Unit::Seconds),
            counted: "requests".into(),
            panels,
        }),
    })
}

/// The run over time, where it is known.
fn run(requests: &RequestEstimates) -> Option<Figure> {
    // The end cuts the last window short: the rate of a few milliseconds is no rate of a window.
    let (last, before) = requests.windows.split_last()?;
    let is_cut = last.length < requests.window * (1.0 - 1e-9) && !before.is_empty();
    let windows = if is_cut { before } else { &requests.windows[..] };
    let line = |name: &str, tint, of: fn(&EstimateWindow) -> Option<f64>| TimeLine {
        name: name.to_owned(),
        tint,
        values: windows.iter().map(of).collect(),
    };
    let rate = |window: &EstimateWindow| Some(window.completed as f64 / window.length);
    let names = words(requests);
    let mut panels = vec![
        TimePanel {
            y: Axis::of(quantities::THROUGHPUT, ""),
            lines: vec![line("throughput", Tint::Series(0), rate)],
        },
        TimePanel {
            y: Axis::linear("time, mean", Unit::Seconds),
            lines: vec![
                line("response time", Tint::Series(3), |window| window.response),
                line(names.server, Tint::Server, |window| window.server),
                line(names.queue, Tint::Queue, |window| window.queue),
                line(names.own, Tint::Own, |window| window.own),
            ],
        },
    ];
    let mut shown = meanings(requests);
    if !requests.of_clients && windows.iter().any(|window| window.queue_length.is_some()) {
        shown.push(quantities::QUEUE_LENGTH);
        panels.push(TimePanel {
            y: Axis::of(quantities::QUEUE_LENGTH, "mean"),
            lines: vec![line("queue length", Tint::Queue, |window| window.queue_length)],
        });
    }
    Some(Figure {
        name: "the-run".into(),
        title: "The whole run, warm-up and cool-down with it".into(),
        caption: format!(
            "Each point is a window of {}{}. What was measured lies between {} and {}. The axes start from zero.",
            text::duration(requests.window),
            if is_cut { "; the last, shorter one is not drawn" } else { "" },
            text::duration(requests.from),
            text::duration(requests.from + requests.length)
        ),
        quantities: shown,
        notes: Vec::new(),
        plot: Plot::TimeSeries(TimeSeries {
            x: Axis::linear("time in the run", Unit::Seconds),
            times: windows.iter().map(|window| window.start).collect(),
            panels,
        }),
    })
}

#[cfg(test)]
mod tests {
    use krarup_analysis::quantity::IntervalBasis;
    use krarup_analysis::trial::TrialHistogram;
    use krarup_stats::Interval;

    use super::*;

    fn quantity(value: f64, half: f64) -> Quantity {
        let interval = Some(Interval { low: value - half, high: value + half, level: 0.95 });
        Quantity { value, interval, n: 10, basis: IntervalBasis::Windows }
    }

    /// Stations with so many requests each.
    fn estimates(counts: &[u64]) -> RequestEstimates {
        let station = |(station, count): (u16, &u64)| {
            let mean = (*count > 0).then(|| quantity(1e-3, 1e-4));
            let time = TimeSpread { mean, percentiles: Vec::new() };
            StationEstimates {
                station,
                operations: vec![OperationEstimates {
                    operation: "all".into(),
                    count: *count,
                    errors: 0,
                    hit_ratio: None,
                    throughput: quantity(*count as f64 / 8.0, 1.0),
                    response: time.clone(),
                    queue: time.clone(),
                    server: time.clone(),
                    own: time,
                }],
                places: Vec::new(),
                servers: Vec::new(),
                histogram: TrialHistogram::default(),
                server_histogram: TrialHistogram::default(),
            }
        };
        RequestEstimates {
            rows: counts.iter().sum(),
            run: 10.0,
            from: 1.0,
            length: 8.0,
            window: 1.0,
            stations: (0..).zip(counts).map(station).collect(),
            windows: Vec::new(),
            settled: [Settled::Unknown, Settled::Never],
            warnings: Vec::new(),
            of_clients: true,
        }
    }

    #[test]
    fn each_station_has_its_own_facts() {
        let alone = facts(&estimates(&[700]));
        assert_eq!((alone.len(), alone[0].detail.as_str()), (3, "all operations"));
        let both = facts(&estimates(&[700, 41]));
        assert!(both.iter().all(|fact| fact.detail != "all operations"), "{both:?}");
        for count in ["700", "41"] {
            assert!(both.iter().any(|fact| fact.value == count), "{count}: {both:?}");
        }
    }

    #[test]
    fn where_nothing_was_answered_no_time_was_measured() {
        let idle = estimates(&[0]);
        let all = facts(&idle);
        assert_eq!((all[0].value.as_str(), all[1].value.as_str()), ("0/s", "–"));
        assert!(all[1].detail.ends_with("p99 –"), "{all:?}");
        assert_eq!(operations(&idle).rows[0][4], TableValue::Missing);
        assert!(parts(&idle).rows.iter().all(|row| row[2] == TableValue::Missing));
        assert!(matches!(operations(&estimates(&[700])).rows[0][4], TableValue::Measured(_)));
        assert!(parts(&estimates(&[700])).rows.iter().all(|row| row[2] != TableValue::Missing));
    }

    #[test]
    fn the_parts_sum_to_the_response_time_of_those_that_wrote_the_rows() {
        let of_clients = estimates(&[700]);
        let of_station = RequestEstimates { of_clients: false, ..of_clients.clone() };
        for (requests, place) in [(of_clients, "at the clients."), (of_station, "at the station.")] {
            let caption = breakdown(&requests).caption;
            assert!(caption.contains(place), "{caption}");
        }
    }

    #[test]
    fn a_low_rate_keeps_its_digits() {
        assert_eq!(with_interval(&quantity(1.4, 0.3)), "1.40 (± 0.30)");
        assert_eq!(with_interval(&quantity(24_100.4, 312.3)), "24,100 (± 312)");
        assert_eq!(facts(&estimates(&[10]))[0].value, "1.25/s");
    }

    #[test]
    fn requests_with_a_row_at_each_station_are_not_drawn_over_time() {
        let requests = RequestEstimates { settled: [Settled::Unknown; 2], ..estimates(&[700, 700]) };
        assert!(run(&requests).is_none());
        let why = TableValue::from("not known: a request has a row at each station");
        assert!(settled(&requests).rows.iter().all(|row| row[1] == why));
    }

    #[test]
    fn the_rate_of_a_last_window_that_is_cut_short_is_not_drawn() {
        let window = |start: f64, length: f64, completed| EstimateWindow {
            start,
            length,
            completed,
            ..EstimateWindow::default()
        };
        let drawn = |windows: Vec<EstimateWindow>| {
            let figure = run(&RequestEstimates { windows, ..estimates(&[5]) }).unwrap();
            let Plot::TimeSeries(series) = figure.plot else { panic!("no time series") };
            (series.panels[0].lines[0].values.clone(), figure.caption.contains("shorter one is not drawn"))
        };
        let whole = vec![window(0.0, 1.0, 2), window(1.0, 1.0, 2)];
        let cut = [whole.clone(), vec![window(2.0, 0.01, 1)]].concat();
        assert_eq!(drawn(whole), (vec![Some(2.0); 2], false));
        assert_eq!(drawn(cut), (vec![Some(2.0); 2], true));
        assert_eq!(drawn(vec![window(0.0, 0.5, 1)]), (vec![Some(2.0)], false));
    }

    #[test]
    fn where_nothing_is_known_of_a_beginning_nothing_is_concluded() {
        let rows = settled(&estimates(&[700])).rows;
        let enough: Vec<_> = rows.iter().map(|row| row[3].clone()).collect();
        assert_eq!(enough, ["no conclusion", "no"].map(TableValue::from));
    }
}
