//! Figures as values: what is drawn against what, with its quantities, its notes and its data.

use krarup_record::quantities::QuantityDefinition;
use krarup_units::Unit;

use crate::tables::{Column, EstimateCell, Note, Table, TableValue};

/// A figure: one or more panels under one caption, with one data table.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// File name stem of its CSV and its anchor in the page: lower-case letters, digits and
    /// hyphens.
    pub name: String,
    /// The heading: what is shown against what.
    pub title: String,
    /// How to read it: what the marks and the intervals are, how many observations stand behind a
    /// point.
    pub caption: String,
    /// Every quantity that is drawn; the page defines each once, in its glossary.
    pub quantities: Vec<QuantityDefinition>,
    /// What is drawn.
    pub plot: Plot,
    /// What a reader must know about these very figures.
    pub notes: Vec<Note>,
}

/// The kinds of figures.
#[derive(Clone, Debug, PartialEq)]
pub enum Plot {
    /// Estimates with intervals against a factor: throughput against clients.
    Lines(Lines),
    /// The same in run after run, with the changes that are real.
    Trend(RunTrend),
    /// Parts of a whole for each level of a factor: where the time went.
    StackedBars(StackedBars),
    /// How many observations fell into each bucket.
    Histogram(HistogramFigure),
    /// What happened in each second of one run.
    TimeSeries(TimeSeries),
    /// Pairs of values, with the line on which both are equal: measured against predicted.
    Scatter(Scatter),
    /// How a distribution moved over time.
    HeatMap(HeatMap),
}

/// What is measured along one side of a panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity, in the vocabulary of the report.
    pub title: String,
    /// Its unit.
    pub unit: Unit,
    /// What equal distances are.
    pub scale: AxisScale,
    /// Of a factor of words: what stands at 0, 1, 2 and so on. Empty where the axis has numbers.
    pub levels: Vec<String>,
    /// Whether bars are cut off at its edge that reach beyond three times the highest point.
    pub cut: bool,
}

/// What equal distances along an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisScale {
    /// Equal differences.
    Linear,
    /// Equal ratios. Such an axis has no zero.
    Log,
    /// Of shares towards 1: each nine as far from the next, as HdrHistogram draws percentiles.
    Tail,
}

/// Which colour a series has: the same thing has the same colour throughout a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tint {
    /// The n-th of the series that have no colour of their own; they repeat after eight, with other
    /// dashes and shapes.
    Series(usize),
    /// Waiting in the middleware's queue.
    Queue,
    /// With the servers.
    Server,
    /// The middleware's own time.
    Own,
    /// Outside the middleware.
    Outside,
}

/// Estimates against a factor. All panels share the x axis and the series; there is one panel for
/// each y axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// The factor.
    pub x: Axis,
    /// One panel for each; they start from zero.
    pub y: Vec<Axis>,
    /// The lines.
    pub series: Vec<LineSeries>,
}

/// What is drawn of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// Estimates at the levels of a factor, joined: they belong together, though nothing was
    /// measured between them.
    #[default]
    Joined,
    /// What was computed everywhere: a curve without marks.
    Curve,
    /// What was measured here and there, beside a curve of the same colour: marks without a line.
    Points,
}

/// One line in each panel.
#[derive(Clone, Debug, PartialEq)]
pub struct LineSeries {
    /// Its label.
    pub name: String,
    /// Its colour.
    pub tint: Tint,
    /// What is drawn of it.
    pub mark: Mark,
    /// Its points, x rising.
    pub points: Vec<FigurePoint>,
}

/// One level of the factor.
#[derive(Clone, Debug, PartialEq)]
pub struct FigurePoint {
    /// The level.
    pub x: f64,
    /// One estimate for each y axis, where there is one.
    pub y: Vec<Option<EstimateCell>>,
}

/// Estimates in run after run, by their time. All panels share the runs and the series; there is
/// one panel for each y axis.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTrend {
    /// What the runs are called, the earliest first.
    pub runs: Vec<String>,
    /// One panel for each; they start from zero.
    pub y: Vec<Axis>,
    /// The lines, each with the place of a run as x.
    pub series: Vec<LineSeries>,
    /// What is said at a point.
    pub marked: Vec<TrendMark>,
}

/// A point of a trend that something is said of: a change that is real.
#[derive(Clone, Debug, PartialEq)]
pub struct TrendMark {
    /// Of which series, by its place.
    pub series: usize,
    /// In which panel, by its place.
    pub panel: usize,
    /// In which run, by its place.
    pub run: usize,
    /// What: `worse`.
    pub word: String,
}

/// Parts of a whole, stacked. All panels have the same parts.
#[derive(Clone, Debug, PartialEq)]
pub struct StackedBars {
    /// What distinguishes the panels: `workload`.
    pub group: String,
    /// What distinguishes the bars of a panel: `clients`.
    pub category: String,
    /// The whole and the parts, which have one unit; from zero.
    pub y: Axis,
    /// The parts, from the bottom up.
    pub parts: Vec<(String, Tint)>,
    /// The panels.
    pub panels: Vec<StackedPanel>,
}

/// The bars of one group.
#[derive(Clone, Debug, PartialEq)]
pub struct StackedPanel {
    /// The group.
    pub name: String,
    /// Each bar's category and one value for each part.
    pub bars: Vec<(String, Vec<f64>)>,
}

/// Counts per bucket, drawn as shares of each series' whole. Panels lie side by side with buckets
/// of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramFigure {
    /// What distinguishes the panels.
    pub group: String,
    /// What is counted into buckets.
    pub x: Axis,
    /// What is counted: `requests`.
    pub counted: String,
    /// The panels.
    pub panels: Vec<HistogramPanel>,
}

/// One set of equal buckets.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramPanel {
    /// The group.
    pub name: String,
    /// Where the first bucket starts, in the x axis' base unit.
    pub first: f64,
    /// The width of each bucket.
    pub width: f64,
    /// The series.
    pub series: Vec<SeriesCounts>,
    /// Values to be marked across the buckets: a mean with its bounds.
    pub marks: Vec<(String, EstimateCell)>,
}

/// The counts of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesCounts {
    /// Its label.
    pub name: String,
    /// Its colour.
    pub tint: Tint,
    /// One count for each bucket drawn.
    pub counts: Vec<u64>,
    /// How many lie beyond the last bucket: they belong to the whole and are not drawn.
    pub beyond: u64,
}

/// What happened in each window of one run; the panels lie under each other and share the time
/// axis.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeSeries {
    /// The time axis.
    pub x: Axis,
    /// The windows, by their start.
    pub times: Vec<f64>,
    /// The panels.
    pub panels: Vec<TimePanel>,
}

/// The lines that share a y axis, from zero.
#[derive(Clone, Debug, PartialEq)]
pub struct TimePanel {
    /// The y axis.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<TimeLine>,
}

/// One line over time.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeLine {
    /// Its label.
    pub name: String,
    /// Its colour.
    pub tint: Tint,
    /// One value for each window, where there is one.
    pub values: Vec<Option<f64>>,
}

/// How many observations fell into each bucket in each window, as darkness, with lines over it.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// The time axis.
    pub x: Axis,
    /// What is counted into buckets, by equal ratios.
    pub y: Axis,
    /// What is counted: `requests`.
    pub counted: String,
    /// The windows, by their start.
    pub times: Vec<f64>,
    /// How long each is.
    pub length: f64,
    /// Where the buckets begin, rising, and where the last one ends.
    pub edges: Vec<f64>,
    /// For each window the count of each bucket.
    pub counts: Vec<Vec<u64>>,
    /// Lines over it.
    pub lines: Vec<TimeLine>,
}

/// Pairs of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Scatter {
    /// The x axis; from zero where it is linear.
    pub x: Axis,
    /// The y axis, from zero.
    pub y: Axis,
    /// Whether to draw the line y = x.
    pub diagonal: bool,
    /// The groups of points.
    pub groups: Vec<ScatterGroup>,
}

/// Points of one colour.
#[derive(Clone, Debug, PartialEq)]
pub struct ScatterGroup {
    /// Its label.
    pub name: String,
    /// Its colour.
    pub tint: Tint,
    /// The points: what each is, x, and the estimate at y.
    pub points: Vec<(String, f64, EstimateCell)>,
}

impl Axis {
    /// An axis on which equal distances are equal differences.
    pub fn linear(title: impl Into<String>, unit: Unit) -> Self {
        Self { title: title.into(), unit, scale: AxisScale::Linear, levels: Vec::new(), cut: false }
    }

    /// A linear axis of a quantity, under its name: `response time`; with what is shown of it, if
    /// that is not empty: `response time, mean`.
    pub fn of(quantity: QuantityDefinition, shown: &str) -> Self {
        let title =
            if shown.is_empty() { quantity.name.to_owned() } else { format!("{}, {shown}", quantity.name) };
        Self::linear(title, quantity.unit)
    }

    /// An axis on which equal distances are equal ratios.
    pub fn log(title: impl Into<String>, unit: Unit) -> Self {
        Self { scale: AxisScale::Log, ..Self::linear(title, unit) }
    }

    /// An axis of shares on which each further nine is as far away: 0, 90, 99, 99.9 %.
    pub fn tail(title: impl Into<String>) -> Self {
        Self { scale: AxisScale::Tail, ..Self::linear(title, Unit::Share) }
    }

    /// An axis along the levels of a factor of words.
    pub fn words(title: impl Into<String>, levels: Vec<String>) -> Self {
        Self { levels, ..Self::linear(title, Unit::Text) }
    }

    fn column(&self) -> Column {
        Column::new(&self.title, self.unit)
    }

    /// What stands at a place, in a table.
    fn value(&self, x: f64) -> TableValue {
        match self.levels.get(x as usize) {
            Some(level) => TableValue::from(level.as_str()),
            None => x.into(),
        }
    }
}

impl Figure {
    /// Everything that is drawn, as a table: for the reader without a script, and for the CSV.
    pub fn data(&self) -> Table {
        let (columns, rows) = match &self.plot {
            Plot::Lines(lines) => lines.data(),
            Plot::Trend(trend) => trend.data(),
            Plot::StackedBars(bars) => bars.data(),
            Plot::Histogram(histogram) => histogram.data(),
            Plot::TimeSeries(series) => series.data(),
            Plot::Scatter(scatter) => scatter.data(),
            Plot::HeatMap(map) => map.data(),
        };
        Table { name: self.name.clone(), title: self.title.clone(), caption: String::new(), columns, rows }
    }

    /// Its [`Self::data`] for a reader: shares towards 1 are written as percentiles are named, so
    /// that none of them reads as all.
    pub(crate) fn in_words(&self, mut table: Table) -> Table {
        if matches!(&self.plot, Plot::Lines(lines) if lines.x.scale == AxisScale::Tail) {
            for value in table.rows.iter_mut().filter_map(|row| row.get_mut(1)) {
                if let TableValue::Number(share) = value {
                    *value = TableValue::Text(tail_text(*share));
                }
            }
        }
        table
    }
}

/// A share towards 1 in percent: `90`, `99.9`, `99.987`. Two digits of what is left to 1 tell it
/// from its neighbours.
fn tail_text(share: f64) -> String {
    let left = 100.0 * (1.0 - share);
    let decimals = (1.0 - left.log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{:.decimals$}", 100.0 * share);
    if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

impl Figure {
    /// Whether it says more than a table does: a single point is no figure.
    pub fn has_several_points(&self) -> bool {
        match &self.plot {
            Plot::Lines(lines) => lines.series.iter().map(|series| series.points.len()).sum::<usize>() > 1,
            Plot::Trend(trend) => trend.runs.len() > 1,
            Plot::TimeSeries(series) => series.times.len() > 1,
            Plot::Scatter(scatter) => {
                scatter.groups.iter().map(|group| group.points.len()).sum::<usize>() > 1
            }
            Plot::StackedBars(_) | Plot::Histogram(_) | Plot::HeatMap(_) => true,
        }
    }
}

impl HeatMap {
    /// A row for each window and bucket that something fell into, with what the lines have there.
    fn data(&self) -> Data {
        let lines = &self.lines;
        let mut columns = vec![
            self.x.column(),
            Column::new(format!("{} from", self.y.title), self.y.unit),
            Column::new("to", self.y.unit),
            Column::new(&self.counted, Unit::Count),
        ];
        columns.extend(lines.iter().map(|line| Column::new(&line.name, self.y.unit)));
        let windows = self.times.iter().zip(&self.counts).enumerate();
        let rows = windows.flat_map(|(window, (time, counts))| {
            let filled = counts.iter().zip(self.edges.windows(2)).filter(|(count, _)| **count > 0);
            filled.map(move |(count, edges)| {
                let mut row = [*time, edges[0], edges[1], *count as f64].map(TableValue::from).to_vec();
                row.extend(lines.iter().map(|line| line.at(window)));
                row
            })
        });
        (columns, rows.collect())
    }
}

type Data = (Vec<Column>, Vec<Vec<TableValue>>);

impl Lines {
    fn data(&self) -> Data {
        let mut columns = vec![Column::new("series", Unit::Text), self.x.column()];
        columns.extend(self.y.iter().map(Axis::column));
        let rows = self.series.iter().flat_map(|series| {
            series.points.iter().map(|point| {
                let mut row = vec![TableValue::from(series.name.as_str()), self.x.value(point.x)];
                row.extend(point.y.iter().map(|measured| TableValue::from(*measured)));
                row
            })
        });
        (columns, rows.collect())
    }
}

impl RunTrend {
    /// A row for each point; a column for each panel, and one for what is said of it.
    fn data(&self) -> Data {
        let mut columns = vec![Column::new("series", Unit::Text), Column::new("run", Unit::Text)];
        columns.extend(
            self.y
                .iter()
                .flat_map(|axis| [axis.column(), Column::new(format!("{}, change", axis.title), Unit::Text)]),
        );
        let row = |(place, series): (usize, &LineSeries), point: &FigurePoint| {
            let run = point.x as usize;
            let mut row = vec![TableValue::from(series.name.as_str()), self.runs[run].as_str().into()];
            for (panel, measured) in point.y.iter().enumerate() {
                row.push(TableValue::from(*measured));
                row.push(self.word(place, panel, run).unwrap_or_default().into());
            }
            row
        };
        let rows = self.series.iter().enumerate();
        let rows = rows.flat_map(|one| one.1.points.iter().map(move |point| row(one, point)));
        (columns, rows.collect())
    }

    /// What is said at a point; none where nothing is.
    pub(crate) fn word(&self, series: usize, panel: usize, run: usize) -> Option<&str> {
        let mark = |mark: &&TrendMark| (mark.series, mark.panel, mark.run) == (series, panel, run);
        self.marked.iter().find(mark).map(|mark| mark.word.as_str())
    }
}

impl StackedBars {
    fn data(&self) -> Data {
        let mut columns = vec![Column::new(&self.group, Unit::Text), Column::new(&self.category, Unit::Text)];
        columns.extend(self.parts.iter().map(|(name, _)| Column::new(name, self.y.unit)));
        let rows = self.panels.iter().flat_map(|panel| {
            panel.bars.iter().map(|(category, values)| {
                let mut row = vec![TableValue::from(panel.name.as_str()), category.as_str().into()];
                row.extend(values.iter().map(|value| TableValue::from(*value)));
                row
            })
        });
        (columns, rows.collect())
    }
}

impl HistogramFigure {
    /// A count for each bucket and series, and one row for what lies beyond.
    fn data(&self) -> Data {
        let mut names: Vec<&str> = Vec::new();
        for series in self.panels.iter().flat_map(|panel| &panel.series) {
            if !names.contains(&series.name.as_str()) {
                names.push(&series.name);
            }
        }
        let mut columns = vec![
            Column::new(&self.group, Unit::Text),
            Column::new(format!("{} from", self.x.title), self.x.unit),
            Column::new("to", self.x.unit),
        ];
        columns
            .extend(names.iter().map(|name| Column::new(format!("{}, {name}", self.counted), Unit::Count)));
        let mut rows = Vec::new();
        for panel in &self.panels {
            let buckets = panel.series.iter().map(|series| series.counts.len()).max().unwrap_or(0);
            for bucket in 0..=buckets {
                let to = if bucket < buckets { panel.edge(bucket + 1).into() } else { TableValue::Missing };
                let mut row = vec![TableValue::from(panel.name.as_str()), panel.edge(bucket).into(), to];
                let bucket = Some(bucket).filter(|bucket| *bucket < buckets);
                row.extend(names.iter().map(|name| TableValue::from(panel.counted(name, bucket))));
                rows.push(row);
            }
        }
        (columns, rows)
    }
}

impl HistogramPanel {
    /// Where bucket `index` starts. Rounded to a picosecond's worth of digits, so that 0.1 · 3
    /// prints as 0.3.
    pub fn edge(&self, index: usize) -> f64 {
        let edge = self.first + index as f64 * self.width;
        (edge * 1e12).round() / 1e12
    }

    /// The count of the series `name` in a bucket, or beyond the last one; none where the panel has
    /// no such series.
    fn counted(&self, name: &str, bucket: Option<usize>) -> Option<f64> {
        let series = self.series.iter().find(|series| series.name == name)?;
        Some(bucket.map_or(series.beyond, |bucket| series.count(bucket)) as f64)
    }
}

impl SeriesCounts {
    /// The count of one bucket; none outside.
    pub fn count(&self, bucket: usize) -> u64 {
        self.counts.get(bucket).copied().unwrap_or(0)
    }

    /// All that were counted, drawn or not.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.beyond
    }
}

impl TimeSeries {
    fn data(&self) -> Data {
        let lines = || self.panels.iter().flat_map(|panel| panel.lines.iter().map(move |line| (panel, line)));
        let mut columns = vec![self.x.column()];
        columns.extend(lines().map(|(panel, line)| {
            let heading = if panel.lines.len() > 1 {
                format!("{}, {}", panel.y.title, line.name)
            } else {
                panel.y.title.clone()
            };
            Column::new(heading, panel.y.unit)
        }));
        let rows = self.times.iter().enumerate().map(|(window, time)| {
            let mut row = vec![TableValue::from(*time)];
            row.extend(lines().map(|(_, line)| line.at(window)));
            row
        });
        (columns, rows.collect())
    }
}

impl TimeLine {
    /// What it has in a window, in a table.
    fn at(&self, window: usize) -> TableValue {
        self.values.get(window).copied().flatten().into()
    }
}

impl Scatter {
    fn data(&self) -> Data {
        let columns = vec![
            Column::new("series", Unit::Text),
            Column::new("point", Unit::Text),
            self.x.column(),
            self.y.column(),
        ];
        let rows = self.groups.iter().flat_map(|group| {
            group.points.iter().map(|(label, x, y)| {
                vec![
                    group.name.as_str().into(),
                    label.as_str().into(),
                    TableValue::from(*x),
                    TableValue::Measured(*y),
                ]
            })
        });
        (columns, rows.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use krarup_analysis::distribution::tail_share;

    use super::*;
    use crate::{csv, html};

    fn figure(plot: Plot) -> Figure {
        Figure {
            name: "response".into(),
            title: "Response times".into(),
            caption: String::new(),
            quantities: Vec::new(),
            notes: Vec::new(),
            plot,
        }
    }

    #[test]
    fn no_share_of_requests_reads_as_all_or_as_its_neighbour() {
        let cell = EstimateCell { value: 0.001, interval: None, n: 3 };
        let shares = (0..=48).map(tail_share);
        let percentiles = figure(Plot::Lines(Lines {
            x: Axis::tail("share of requests"),
            y: vec![Axis::linear("response time", Unit::Seconds)],
            series: vec![LineSeries {
                name: "read".into(),
                tint: Tint::Series(0),
                mark: Mark::Curve,
                points: shares.map(|x| FigurePoint { x, y: vec![Some(cell)] }).collect(),
            }],
        }));
        let mut page = String::new();
        html::table(&mut page, &percentiles.in_words(percentiles.data()));
        let rows = page.split("<td>read</td><td class=\"number\">").skip(1);
        let texts: Vec<&str> = rows.filter_map(|row| row.split('<').next()).collect();
        let some = [0, 8, 15, 24, 31, 48].map(|place: usize| texts[place]);
        assert_eq!(some, ["0", "90", "98.7", "99.9", "99.987", "99.9999"]);
        assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), 49, "{texts:?}");
        assert!(csv::table(&percentiles.data()).contains("\nread,0.9,"), "a program has all digits");
    }

    #[test]
    fn the_lines_over_a_heat_map_are_in_its_data() {
        let map = figure(Plot::HeatMap(HeatMap {
            x: Axis::linear("time", Unit::Seconds),
            y: Axis::log("response time", Unit::Seconds),
            counted: "requests".into(),
            times: vec![0.0, 1.0],
            length: 1.0,
            edges: vec![0.25, 0.5, 1.0],
            counts: vec![vec![5, 1], vec![0, 9]],
            lines: vec![TimeLine {
                name: "p50".into(),
                tint: Tint::Series(1),
                values: vec![Some(0.375), None],
            }],
        }));
        assert_eq!(
            csv::table(&map.data()),
            "time_s,response_time_from_s,to_s,requests,p50_s\n0,0.25,0.5,5,0.375\n0,0.5,1,1,0.375\n1,0.5,1,9,\n"
        );
    }

    #[test]
    fn what_lies_beyond_the_last_bucket_is_in_the_data() {
        let series = |name: &str, counts: &[u64], beyond| SeriesCounts {
            name: name.into(),
            tint: Tint::Server,
            counts: counts.to_vec(),
            beyond,
        };
        let figure = figure(Plot::Histogram(HistogramFigure {
            group: "workload".into(),
            x: Axis::linear("response time", Unit::Seconds),
            counted: "requests".into(),
            panels: vec![HistogramPanel {
                name: "read".into(),
                first: 0.0002,
                width: 0.0001,
                marks: Vec::new(),
                series: vec![series("clients", &[7, 2], 1), series("middleware", &[9], 0)],
            }],
        }));
        assert_eq!(
            csv::table(&figure.data()),
            "workload,response_time_from_s,to_s,requests_clients,requests_middleware\n\
             read,0.0002,0.0003,7,9\nread,0.0003,0.0004,2,0\nread,0.0004,,1,0\n"
        );
    }
}
