//! What the printed figures themselves say of claims in the reports' texts: ratios, shares and
//! errors of models, from the tables as printed. `docs/reproductions/*-claims.csv` quote them.

use krarup_stats::Ordered;
use krarup_stats::summary::Summary;

use super::tables::Csv;

mod of_2016;
mod of_2018;

/// One figure, or the least and the largest of several.
pub(crate) struct Figure {
    pub(crate) of: &'static str,
    pub(crate) what: &'static str,
    low: f64,
    high: f64,
    digits: usize,
}

impl Figure {
    pub(crate) fn shown(&self) -> String {
        let digits = self.digits;
        let (low, high) = (format!("{:.digits$}", self.low), format!("{:.digits$}", self.high));
        if low == high { low } else { format!("{low} to {high}") }
    }
}

/// The figures of one report, in the order of its sections.
struct Figures(&'static str, Vec<Figure>);

impl Figures {
    fn one(&mut self, what: &'static str, digits: usize, value: f64) {
        self.span(what, digits, [value]);
    }

    fn span(&mut self, what: &'static str, digits: usize, values: impl IntoIterator<Item = f64>) {
        let (low, high) = values
            .into_iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        assert!(low.is_finite() && high.is_finite(), "{what}: {low} to {high}");
        self.1.push(Figure { of: self.0, what, low, high, digits });
    }
}

pub(crate) fn all() -> Vec<Figure> {
    [
        of_2018::baselines_of_2018(),
        of_2018::writes_of_2018(),
        of_2018::factors_of_2018(),
        of_2018::single_stations_of_2018(),
        of_2018::networks_of_2018(),
        of_2018::workers_of_2018(),
        of_2018::draft_of_2018(),
        of_2016::experiments_of_2016(),
        of_2016::models_of_2016(),
        of_2016::network_of_2016(),
        of_2016::design_of_2016(),
        of_2016::report_of_2015(),
    ]
    .into_iter()
    .flat_map(|figures| figures.1)
    .collect()
}

/// The value of the one row that has these cells.
fn cell(csv: &Csv, wanted: &[(&str, &str)], column: &str) -> f64 {
    let mut rows = csv.rows().filter(|line| wanted.iter().all(|(name, text)| line.text(name) == *text));
    let row = rows.next().unwrap_or_else(|| panic!("no row {wanted:?}"));
    assert!(rows.next().is_none(), "several rows {wanted:?}");
    row.value(column)
}

fn summary(values: &[f64]) -> Summary {
    Summary::of(values).expect("finite values")
}

fn mean(values: &[f64]) -> f64 {
    summary(values).mean
}

fn median(values: &[f64]) -> f64 {
    Ordered::new(values.to_vec()).and_then(|all| all.quantile(0.5)).expect("finite values")
}

/// The interval of a mean at 95 %.
fn interval(values: &[f64]) -> [f64; 2] {
    let interval = summary(values).mean_estimate(0.95).expect("several values").interval;
    [interval.low, interval.high]
}

/// How many of a hundred are so.
fn percent<T>(of: &[T], so: impl Fn(&T) -> bool) -> f64 {
    100.0 * of.iter().filter(|one| so(one)).count() as f64 / of.len() as f64
}

/// How far an estimate is from what was measured, in percent of that.
fn off(estimated: f64, measured: f64) -> f64 {
    100.0 * (estimated / measured - 1.0).abs()
}
