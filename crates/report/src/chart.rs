//! Figures as the page's script reads them: panels of series over one list of x values.

use krarup_units::Unit;
use serde::Serialize;

use crate::document::EstimateCell;
use crate::figures::{
    Axis, AxisScale, Figure, HeatMap, HistogramFigure, Lines, Mark, Plot, RunTrend, Scatter, StackedBars,
    TimeLine, TimeSeries, Tint,
};

/// One figure for `assets/charts.js`. Numbers are in base units; the script chooses what to show
/// them in.
#[derive(Debug, Serialize)]
pub(crate) struct Chart {
    /// `grid`: side by side where there is room; `stack`: under each other, one time axis.
    layout: &'static str,
    panels: Vec<Panel>,
}

#[derive(Debug, Default, Serialize)]
struct Panel {
    title: String,
    /// `line`, `bars`, `steps`, `heat` or `points`: what is drawn for each series.
    mark: &'static str,
    x: Side,
    y: Side,
    xs: Vec<f64>,
    series: Vec<Series>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bucket: Option<f64>,
    #[serde(skip_serializing_if = "is_false")]
    diagonal: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    marks: Vec<MarkedValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heat: Option<Heat>,
}

/// A value that is marked across the buckets, with its interval.
#[derive(Debug, Serialize)]
struct MarkedValue {
    name: String,
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Heat {
    length: f64,
    edges: Vec<Option<f64>>,
    counts: Vec<Vec<u64>>,
}

#[derive(Debug, Serialize)]
struct Side {
    title: String,
    unit: Unit,
    #[serde(skip_serializing_if = "is_false")]
    log: bool,
    /// Shares towards 1, as 1 / (1 − share).
    #[serde(skip_serializing_if = "is_false")]
    tail: bool,
    /// Bars far longer than all points are high are cut off at the edge.
    #[serde(skip_serializing_if = "is_false")]
    cut: bool,
    /// Only these levels exist, and the axis marks them.
    #[serde(skip_serializing_if = "is_false")]
    levels: bool,
    /// Names in place of numbers, one for each x value.
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<Vec<String>>,
}

#[derive(Debug, Default, Serialize)]
struct Series {
    name: String,
    tint: String,
    /// How often the colours had repeated before it, which its dashes and its shape tell.
    #[serde(skip_serializing_if = "is_zero")]
    round: usize,
    /// `curve` or `points`, where it is not both.
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<&'static str>,
    values: Vec<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    low: Option<Vec<Option<f64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high: Option<Vec<Option<f64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<Vec<Option<u64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<Vec<Option<String>>>,
    /// What is said at a place.
    #[serde(skip_serializing_if = "Option::is_none")]
    marked: Option<Vec<Option<String>>>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &usize) -> bool {
    *value == 0
}

/// Words, before it has any.
impl Default for Side {
    fn default() -> Self {
        Self {
            title: String::new(),
            unit: Unit::Text,
            log: false,
            tail: false,
            cut: false,
            levels: false,
            names: None,
        }
    }
}

impl Chart {
    pub(crate) fn of(figure: &Figure) -> Self {
        let (layout, panels) = match &figure.plot {
            Plot::Lines(lines) => ("grid", line_panels(lines)),
            Plot::Trend(trend) => ("grid", trend_panels(trend)),
            Plot::StackedBars(bars) => ("grid", bar_panels(bars)),
            Plot::Histogram(histogram) => ("grid", histogram_panels(histogram)),
            Plot::TimeSeries(series) => ("stack", time_panels(series)),
            Plot::Scatter(scatter) => ("grid", vec![scatter_panel(scatter)]),
            Plot::HeatMap(map) => ("grid", vec![heat_panel(map)]),
        };
        Self { layout, panels }
    }

    /// JSON that may stand inside a `<script>` element: no `<`, `>` or `&` is left in it.
    pub(crate) fn embedded(&self) -> String {
        let json = serde_json::to_string(self).expect("a chart has string keys and finite or absent numbers");
        json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    }
}

fn side(axis: &Axis) -> Side {
    Side {
        title: axis.title.clone(),
        unit: axis.unit,
        log: axis.scale != AxisScale::Linear,
        tail: axis.scale == AxisScale::Tail,
        cut: axis.cut,
        ..Side::default()
    }
}

/// A series without values.
fn empty(name: &str, tint: Tint) -> Series {
    let (tint, round) = match tint {
        Tint::Series(index) => (format!("s{}", index % 8 + 1), index / 8),
        Tint::Queue => ("queue".into(), 0),
        Tint::Server => ("server".into(), 0),
        Tint::Own => ("own".into(), 0),
        Tint::Outside => ("outside".into(), 0),
    };
    Series { name: name.to_owned(), tint, round, ..Series::default() }
}

/// Eight significant digits: more than any screen shows, and the page stays small.
fn short(value: f64) -> Option<f64> {
    if !value.is_finite() {
        return None;
    }
    format!("{value:.7e}").parse().ok()
}

fn estimates(name: &str, tint: Tint, estimates: &[Option<EstimateCell>]) -> Series {
    let end = |pick: fn((f64, f64)) -> f64| {
        let ends: Vec<_> =
            estimates.iter().map(|e| e.and_then(|e| e.interval).map(pick).and_then(short)).collect();
        ends.iter().any(Option::is_some).then_some(ends)
    };
    Series {
        values: estimates.iter().map(|e| e.and_then(|e| short(e.value))).collect(),
        low: end(|(low, _)| low),
        high: end(|(_, high)| high),
        n: Some(estimates.iter().map(|e| e.map(|e| e.n)).collect()),
        ..empty(name, tint)
    }
}

fn line_panels(lines: &Lines) -> Vec<Panel> {
    let mut xs: Vec<f64> =
        lines.series.iter().flat_map(|series| series.points.iter().map(|point| point.x)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    if xs.len() == 1 && lines.series.len() > 1 {
        return lines.y.iter().enumerate().map(|one| beside_each_other(lines, one)).collect();
    }
    if !lines.x.levels.is_empty() {
        // Each level keeps its place, whether anything is drawn there or not.
        xs = (0..lines.x.levels.len()).map(|level| level as f64).collect();
    }
    let panel = |(index, y): (usize, &Axis)| Panel {
        title: y.title.clone(),
        mark: "line",
        x: Side {
            levels: lines.series.iter().all(|series| series.mark == Mark::Joined),
            names: Some(lines.x.levels.clone()).filter(|levels| !levels.is_empty()),
            ..side(&lines.x)
        },
        y: side(y),
        series: lines
            .series
            .iter()
            .map(|series| {
                let at = |x: &f64| {
                    series.points.iter().find(|point| point.x == *x).and_then(|point| *point.y.get(index)?)
                };
                let estimates = estimates(&series.name, series.tint, &xs.iter().map(at).collect::<Vec<_>>());
                let mark = match series.mark {
                    Mark::Joined => None,
                    Mark::Curve => Some("curve"),
                    Mark::Points => Some("points"),
                };
                Series { mark, ..estimates }
            })
            .collect(),
        xs: xs.iter().map(|x| place(&lines.x, *x)).collect(),
        ..Panel::default()
    };
    lines.y.iter().enumerate().map(panel).collect()
}

/// A panel for each y axis, with the names of the runs along it.
fn trend_panels(trend: &RunTrend) -> Vec<Panel> {
    let runs = 0..trend.runs.len();
    let panel = |(index, y): (usize, &Axis)| Panel {
        title: y.title.clone(),
        mark: "line",
        x: Side { names: Some(trend.runs.clone()), ..side(&Axis::linear("run, by its time", Unit::Text)) },
        y: side(y),
        xs: runs.clone().map(|run| run as f64).collect(),
        series: trend
            .series
            .iter()
            .enumerate()
            .map(|(place, series)| {
                let at = |run: usize| {
                    let point = series.points.iter().find(|point| point.x as usize == run)?;
                    *point.y.get(index)?
                };
                let marked: Vec<Option<String>> =
                    runs.clone().map(|run| trend.word(place, index, run).map(str::to_owned)).collect();
                Series {
                    marked: marked.iter().any(Option::is_some).then_some(marked),
                    ..estimates(&series.name, series.tint, &runs.clone().map(at).collect::<Vec<_>>())
                }
            })
            .collect(),
        ..Panel::default()
    };
    trend.y.iter().enumerate().map(panel).collect()
}

/// Where a value stands along an axis.
fn place(axis: &Axis, x: f64) -> f64 {
    if axis.scale == AxisScale::Tail { short(1.0 / (1.0 - x)).unwrap_or(f64::MAX) } else { x }
}

/// Series that have a single level: a line of one point says nothing, so they stand beside each
/// other.
fn beside_each_other(lines: &Lines, (index, y): (usize, &Axis)) -> Panel {
    let names: Vec<String> = lines.series.iter().map(|series| series.name.clone()).collect();
    let series = lines.series.iter().enumerate().map(|(own, series)| {
        let value = |place: usize| {
            let first = series.points.first().filter(|_| place == own);
            first.and_then(|point| *point.y.get(index)?)
        };
        estimates(&series.name, series.tint, &(0..names.len()).map(value).collect::<Vec<_>>())
    });
    Panel {
        title: y.title.clone(),
        mark: "points",
        xs: (0..names.len()).map(|index| index as f64).collect(),
        series: series.collect(),
        x: Side { names: Some(names), ..Side::default() },
        y: side(y),
        ..Panel::default()
    }
}

fn marked((name, estimate): &(String, EstimateCell)) -> MarkedValue {
    let end = |pick: fn((f64, f64)) -> f64| estimate.interval.map(pick).and_then(short);
    MarkedValue {
        name: name.clone(),
        value: short(estimate.value),
        low: end(|(low, _)| low),
        high: end(|(_, high)| high),
    }
}

fn bar_panels(bars: &StackedBars) -> Vec<Panel> {
    let panel = |panel: &crate::figures::StackedPanel| Panel {
        title: panel.name.clone(),
        mark: "bars",
        x: Side {
            title: bars.category.clone(),
            names: Some(panel.bars.iter().map(|(category, _)| category.clone()).collect()),
            ..Side::default()
        },
        y: side(&bars.y),
        xs: (0..panel.bars.len()).map(|index| index as f64).collect(),
        series: bars
            .parts
            .iter()
            .enumerate()
            .map(|(part, (name, tint))| Series {
                values: panel
                    .bars
                    .iter()
                    .map(|(_, values)| values.get(part).copied().and_then(short))
                    .collect(),
                ..empty(name, *tint)
            })
            .collect(),
        ..Panel::default()
    };
    bars.panels.iter().map(panel).collect()
}

fn histogram_panels(histogram: &HistogramFigure) -> Vec<Panel> {
    let panel = |panel: &crate::figures::HistogramPanel| {
        let buckets = panel.series.iter().map(|series| series.counts.len()).max().unwrap_or(0);
        Panel {
            title: panel.name.clone(),
            mark: "steps",
            x: side(&histogram.x),
            y: side(&Axis::linear(format!("share of {}", histogram.counted), Unit::Share)),
            xs: (0..buckets).map(|bucket| panel.edge(bucket)).collect(),
            series: panel
                .series
                .iter()
                .map(|series| {
                    let total = series.total().max(1) as f64;
                    Series {
                        values: (0..buckets).map(|b| short(series.count(b) as f64 / total)).collect(),
                        ..empty(&series.name, series.tint)
                    }
                })
                .collect(),
            bucket: short(panel.width),
            marks: panel.marks.iter().map(marked).collect(),
            ..Panel::default()
        }
    };
    histogram.panels.iter().map(panel).collect()
}

fn time_panels(series: &TimeSeries) -> Vec<Panel> {
    let panel = |panel: &crate::figures::TimePanel| Panel {
        title: panel.y.title.clone(),
        mark: "line",
        x: side(&series.x),
        y: side(&panel.y),
        xs: series.times.clone(),
        series: panel.lines.iter().map(|line| over_windows(line, series.times.len())).collect(),
        ..Panel::default()
    };
    series.panels.iter().map(panel).collect()
}

fn over_windows(line: &TimeLine, windows: usize) -> Series {
    let value = |window| line.values.get(window).copied().flatten().and_then(short);
    Series { values: (0..windows).map(value).collect(), ..empty(&line.name, line.tint) }
}

fn heat_panel(map: &HeatMap) -> Panel {
    Panel {
        title: map.y.title.clone(),
        mark: "heat",
        x: side(&map.x),
        y: side(&map.y),
        xs: map.times.clone(),
        series: map.lines.iter().map(|line| over_windows(line, map.times.len())).collect(),
        heat: Some(Heat {
            length: map.length,
            edges: map.edges.iter().copied().map(short).collect(),
            counts: map.counts.clone(),
        }),
        ..Panel::default()
    }
}

/// All points of all groups in one list of rising x, each group's values where its points are.
fn scatter_panel(scatter: &Scatter) -> Panel {
    let mut all: Vec<(usize, &(String, f64, EstimateCell))> = scatter
        .groups
        .iter()
        .enumerate()
        .flat_map(|(group, points)| points.points.iter().map(move |point| (group, point)))
        .filter(|(_, (_, x, _))| x.is_finite())
        .collect();
    all.sort_by(|(_, a), (_, b)| a.1.total_cmp(&b.1));
    let series = scatter.groups.iter().enumerate().map(|(group, points)| {
        let own = |(of, point): &(usize, &(String, f64, EstimateCell))| (*of == group).then_some(point.2);
        let mut series = estimates(&points.name, points.tint, &all.iter().map(own).collect::<Vec<_>>());
        series.labels = Some(all.iter().map(|(of, point)| (*of == group).then(|| point.0.clone())).collect());
        series
    });
    Panel {
        title: scatter.y.title.clone(),
        mark: "points",
        x: side(&scatter.x),
        y: side(&scatter.y),
        series: series.collect(),
        xs: all.iter().map(|(_, point)| point.1).collect(),
        diagonal: scatter.diagonal,
        ..Panel::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{FigurePoint, LineSeries};

    #[test]
    fn no_two_numbers_of_series_have_the_same_colour_and_round() {
        let looks = |index: usize| {
            let series = empty("a", Tint::Series(index));
            (series.tint, series.round)
        };
        assert_eq!((looks(7), looks(8), looks(17)), (("s8".into(), 0), ("s1".into(), 1), ("s2".into(), 2)));
        // The first eight say nothing of it: their pages are as they were.
        let json = |index| serde_json::to_string(&empty("a", Tint::Series(index))).unwrap();
        assert!(!json(7).contains("round") && json(8).contains(r#""round":1"#), "{}", json(8));
    }

    #[test]
    fn each_level_of_words_has_its_place_whether_it_has_a_point_or_not() {
        let cell = EstimateCell { value: 2.0, interval: None, n: 1 };
        let series = LineSeries {
            name: "all".into(),
            tint: Tint::Series(0),
            mark: Mark::Joined,
            points: [0.0, 2.0].map(|x| FigurePoint { x, y: vec![Some(cell)] }).to_vec(),
        };
        let lines = Lines {
            x: Axis::words("mix", ["a", "b", "c"].map(str::to_owned).to_vec()),
            y: vec![Axis::linear("queue time", Unit::Seconds)],
            series: vec![series],
        };
        let panels = line_panels(&lines);
        assert_eq!(panels[0].xs, [0.0, 1.0, 2.0]);
        assert_eq!(panels[0].x.names.as_ref().map(Vec::len), Some(panels[0].xs.len()));
        assert_eq!(panels[0].series[0].values, [Some(2.0), None, Some(2.0)]);
    }
}
