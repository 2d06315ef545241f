//! What a model says that was calibrated on a few cells and never saw the others; and what it says
//! of configurations that were not measured.
//!
//! Cells that differ only in their clients and their workers are one family. The cells to calibrate
//! on are chosen by their place in the plan, not by what they came to: low load, the smallest pool
//! with the most clients, the largest with the most clients, and between. Every error that is
//! printed is of a cell that was not among them. A cell that is known worse than to ± 10 % is no
//! yardstick, and is told apart; where too few are left there is no conclusion, and no error is
//! printed. The model is [`krarup_model::calibrate`]'s.

use krarup_model::Error;
pub use krarup_model::calibrate::Interval95 as Interval;
use krarup_model::calibrate::{
    self, BoundedResource, CalibratedPredictor, Calibration, CalibrationRow, HeldOutErrors, Predicted,
    ResourceUse, ResponsePercentiles,
};
use krarup_record::watch::Watch;
use krarup_stats::Ordered;
use serde::{Deserialize, Serialize};

use crate::cell::{Cell, MiddlewareCell};
pub use crate::quantity::CERTAIN;
use crate::trial::{HostLink, SystemPart};

/// Which predictions are wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedPredictions {
    /// The factor that sets the workers.
    pub workers: String,
    /// The factor that sets the clients.
    pub population: String,
    /// Calibrate on so many cells at most.
    pub cells: usize,
}

/// A family of cells and what its model makes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The levels its cells share; empty where there is one family.
    pub about: String,
    /// The form of the model, in words; or why there is none.
    pub model: Result<String, String>,
    /// Its cells, workers and clients rising.
    pub cells: Vec<PredictedCell>,
    /// Mean |error| of X and R over the cells that were not used; none without a model.
    pub mean_error: Option<(f64, f64)>,
    /// Median |error|, likewise.
    pub median_error: Option<(f64, f64)>,
    /// Median |error| of p99 at the clients, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_error: Option<f64>,
    /// The same of models that know nothing of middlewares, calibrated on the same cells and tried
    /// on the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nulls: Vec<NullErrors>,
    /// Configurations that were not measured.
    pub what_if: Vec<WhatIf>,
    /// What the model says over a grid of clients, workers and times for which a worker holds a
    /// request: every combination once, the last of them fastest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grid: Vec<PredictedPoint>,
    /// Whether there is no model because too few cells are known well enough, and not because there
    /// are too few.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_conclusion: bool,
}

/// Median |errors| of a model to be better than.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NullErrors {
    /// Its name.
    pub model: String,
    /// Of X and of R.
    pub median: (f64, f64),
    /// Of p99 at the clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
}

/// A cell beside what the model says of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictedCell {
    /// N.
    pub clients: u32,
    /// M, of all middlewares together.
    pub workers: u32,
    /// Whether the model was calibrated on it: then agreement is no evidence.
    pub calibrated: bool,
    /// X as measured.
    pub throughput: f64,
    /// R at the middleware as measured, in seconds.
    pub response: f64,
    /// What the model says of X and R, with intervals at 95 % for one measurement.
    pub predicted: (Interval, Interval),
    /// Whether its own interval is so wide that it proves nothing, for or against a model: it is
    /// neither calibrated on nor counted.
    #[serde(default)]
    pub uncertain: bool,
    /// What the model says of X with twice the workers; none where nothing can be concluded from it
    /// there, or here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more_workers: Option<Interval>,
    /// The 99th percentile at the clients as measured, and what the model says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<(f64, Interval)>,
    /// Why nothing can be concluded from the model here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

impl PredictedCell {
    /// Relative errors of X and R.
    pub fn error(&self) -> (f64, f64) {
        let (x, r) = &self.predicted;
        (x.value / self.throughput - 1.0, r.value / self.response - 1.0)
    }
}

/// A configuration that was not measured, beside the one it begins with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// What is different.
    pub what: String,
    /// N.
    pub clients: u32,
    /// M.
    pub workers: u32,
    /// X and R at the middleware, with intervals at 95 %.
    pub predicted: (Interval, Interval),
    /// Relative changes of X and R from what the model says of the configuration as it is.
    pub change: (f64, f64),
    /// The 99th percentile at the clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<Interval>,
    /// Whether more workers would be busy than in any calibrated cell.
    pub extrapolated: bool,
    /// Why nothing can be concluded from the model here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

/// What the model says of one combination of clients, workers and hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictedPoint {
    /// N.
    pub clients: u32,
    /// M, of all middlewares together.
    pub workers: u32,
    /// How long a worker holds a request, relative to what was measured.
    pub hold: f64,
    /// X and R at the middleware, with intervals at 95 %.
    pub predicted: (Interval, Interval),
    /// The 99th percentile at the clients; none of another hold than the measured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<Interval>,
    /// Whether more or fewer workers would be busy than in any calibrated cell.
    pub extrapolated: bool,
    /// Why nothing can be concluded from the model here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

/// Holds of the grid, relative to the measured one.
const HOLDS: [f64; 5] = [0.5, 0.7, 1.0, 1.4, 2.0];
/// So many clients, and so many workers, the grid has at most.
const GRID: usize = 9;

/// Cells that are too few to leave two out have no prediction.
const HELD_OUT: usize = 2;
/// A model has two curves of two parameters at least.
const LEAST: usize = 3;

/// A cell with a limited number of workers.
type Limited<'a> = (&'a Cell, &'a MiddlewareCell, u32);

/// The predictions of each family of cells with a limited number of workers, on a machine of so
/// many processors (0: unknown).
pub fn predictions(cells: &[Cell], cores: u32, wanted: &WantedPredictions) -> Vec<Prediction> {
    let mut families: Vec<(String, Vec<Limited<'_>>)> = Vec::new();
    // Where the rate was given, clients are no population.
    for cell in cells.iter().filter(|cell| !cell.open) {
        let Some(middleware) = &cell.middleware else { continue };
        let Some(workers) = middleware.workers else { continue };
        let shared = cell.factors.iter().filter(|(name, _)| {
            *name != wanted.workers
                && *name != wanted.population
                && cells.iter().any(|other| other.level(name) != cell.level(name))
        });
        let about = shared.map(|(_, level)| level.as_str()).collect::<Vec<_>>().join(", ");
        match families.iter_mut().find(|(known, _)| *known == about) {
            Some((_, cells)) => cells.push((cell, middleware, workers)),
            None => families.push((about, vec![(cell, middleware, workers)])),
        }
    }
    let cores = Some(cores).filter(|cores| *cores > 0);
    families.into_iter().map(|(about, cells)| family(&about, cells, cores, wanted)).collect()
}

impl Prediction {
    fn without_model(about: String, why: String) -> Self {
        Self {
            about,
            model: Err(why),
            cells: Vec::new(),
            mean_error: None,
            median_error: None,
            p99_error: None,
            nulls: Vec::new(),
            what_if: Vec::new(),
            grid: Vec::new(),
            no_conclusion: false,
        }
    }
}

fn family(
    about: &str,
    mut cells: Vec<Limited<'_>>,
    cores: Option<u32>,
    wanted: &WantedPredictions,
) -> Prediction {
    cells.sort_by_key(|(cell, _, workers)| (*workers, cell.levels.clients));
    let empty = |why| Prediction::without_model(about.to_owned(), why);
    if cells.len() < LEAST + HELD_OUT {
        return empty(format!(
            "{} cells with a limited number of workers are too few to calibrate on some and to try the model on others",
            cells.len()
        ));
    }
    let rows: Vec<CalibrationRow> =
        cells.iter().map(|(cell, middleware, workers)| row(cell, middleware, *workers)).collect();
    let certain: Vec<bool> = cells.iter().map(is_certain).collect();
    let usable = certain.iter().filter(|is| **is).count();
    if usable < LEAST + HELD_OUT {
        return Prediction {
            no_conclusion: true,
            ..empty(format!(
                "{usable} of {} cells are known to ± {:.0} %, too few to calibrate on some and to try the model on others; measure longer, repeat more often, \
                 with nothing else at work on the machine",
                cells.len(),
                CERTAIN * 100.0
            ))
        };
    }
    let most = wanted.cells.clamp(LEAST, usable - HELD_OUT);
    let chosen = chosen(&rows, most, &certain);
    let used: Vec<CalibrationRow> = chosen.iter().map(|place| rows[*place].clone()).collect();
    match calibrate::calibrate(&used, cores)
        .and_then(|calibration| say(about, &calibration, &rows, &chosen, &certain))
    {
        Ok(prediction) => prediction,
        Err(error) => empty(error.to_string()),
    }
}

/// What the model says of every row, how far it is off where it had not looked, and what it says
/// of configurations that were not measured.
fn say(
    about: &str,
    calibration: &Calibration,
    rows: &[CalibrationRow],
    chosen: &[usize],
    certain: &[bool],
) -> Result<Prediction, Error> {
    let predictor = calibration.predictor()?;
    let measured = rows.iter().map(|row| (row.population as usize, row.workers as usize));
    let measured = predictor.predict(&measured.collect::<Vec<_>>())?;
    let twice = rows.iter().map(|row| (row.population as usize, 2 * row.workers as usize));
    let twice = predictor.predict(&twice.collect::<Vec<_>>())?;
    let (changes, asked) = changes(rows);
    let asked = predictor.predict(&asked)?;
    let cells: Vec<PredictedCell> = rows
        .iter()
        .zip(&measured)
        .enumerate()
        .map(|(place, (row, predicted))| PredictedCell {
            clients: row.population as u32,
            workers: row.workers as u32,
            calibrated: chosen.contains(&place),
            throughput: row.throughput,
            response: row.response,
            predicted: (predicted.throughput, predicted.response),
            uncertain: !certain[place],
            more_workers: [predicted, &twice[place]]
                .iter()
                .all(|said| said.doubts.is_empty())
                .then_some(twice[place].throughput),
            p99: row.percentiles.map(|measured| measured.p99).zip(p99(predicted)),
            doubt: predicted.no_conclusion(),
        })
        .collect();
    let held_out: Vec<&PredictedCell> =
        cells.iter().filter(|cell| !cell.calibrated && !cell.uncertain).collect();
    let (xs, rs): (Vec<f64>, Vec<f64>) =
        held_out.iter().map(|cell| cell.error()).map(|(x, r)| (x.abs(), r.abs())).unzip();
    let p99s = held_out.iter().filter_map(|cell| cell.p99);
    let p99s: Vec<f64> = p99s.map(|(measured, said)| (said.value / measured - 1.0).abs()).collect();
    let tried: Vec<CalibrationRow> =
        rows.iter().zip(certain).filter(|(_, certain)| **certain).map(|(row, _)| row.clone()).collect();
    let nulls = calibrate::against_nulls(calibration, Some(&tried))?.into_iter().skip(1);
    let before = &asked[0];
    let what_if = changes.into_iter().zip(&asked[1..]).map(|(what, after)| WhatIf {
        what,
        clients: after.answer.population as u32,
        workers: after.answer.workers as u32,
        predicted: (after.throughput, after.response),
        change: (
            after.throughput.value / before.throughput.value - 1.0,
            after.response.value / before.response.value - 1.0,
        ),
        p99: p99(after),
        extrapolated: after.extrapolated,
        doubt: after.no_conclusion(),
    });
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    Ok(Prediction {
        about: about.to_owned(),
        model: Ok(calibration.model.name()),
        mean_error: Some((mean(&xs), mean(&rs))),
        median_error: Some((median(xs).unwrap_or(f64::NAN), median(rs).unwrap_or(f64::NAN))),
        p99_error: median(p99s),
        nulls: nulls.filter_map(null_errors).collect(),
        what_if: what_if.collect(),
        grid: grid(&predictor, rows)?,
        no_conclusion: false,
        cells,
    })
}

/// The grid around what was measured: from half the fewest clients and workers to twice the most.
fn grid(predictor: &CalibratedPredictor<'_>, rows: &[CalibrationRow]) -> Result<Vec<PredictedPoint>, Error> {
    let workers = levels(rows.iter().map(|row| row.workers as usize));
    let clients = levels(rows.iter().map(|row| row.population as usize));
    let pairs: Vec<(usize, usize)> =
        clients.iter().flat_map(|n| workers.iter().map(move |m| (*n, *m))).collect();
    let mut points = Vec::with_capacity(pairs.len() * HOLDS.len());
    for hold in HOLDS {
        let said = predictor.with_hold(hold).predict(&pairs)?;
        points.extend(said.iter().map(|said| PredictedPoint {
            clients: said.answer.population as u32,
            workers: said.answer.workers as u32,
            hold,
            predicted: (said.throughput, said.response),
            p99: p99(said),
            extrapolated: said.extrapolated,
            doubt: said.no_conclusion(),
        }));
    }
    // The hold changes fastest.
    points.sort_by_key(|point| (point.clients, point.workers));
    Ok(points)
}

/// The values that were measured, evenly thinned where they are many, half of the least and twice
/// the most.
fn levels(measured: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut values: Vec<usize> = measured.collect();
    values.sort_unstable();
    values.dedup();
    let ends = (values[0].div_ceil(2), 2 * values[values.len() - 1]);
    let kept = values.len().min(GRID - 2);
    let thinned = (0..kept).map(|place| values[place * (values.len() - 1) / (kept - 1).max(1)]);
    let mut levels: Vec<usize> = std::iter::once(ends.0).chain(thinned).chain([ends.1]).collect();
    levels.dedup();
    levels
}

fn p99(predicted: &Predicted) -> Option<Interval> {
    predicted.percentiles.map(|percentiles| percentiles.p99)
}

fn median(values: Vec<f64>) -> Option<f64> {
    Ordered::new(values).and_then(|ordered| ordered.quantile(0.5)).ok()
}

/// None of a model that could say nothing of these cells.
fn null_errors(errors: HeldOutErrors) -> Option<NullErrors> {
    let median_of = (median(errors.throughput)?, median(errors.response)?);
    Some(NullErrors { model: errors.model, median: median_of, p99: median(errors.p99) })
}

/// Whether a cell was measured well enough to hold a model against it. A throughput without an
/// interval was not: its runs could differ by anything. The middleware's response time has none
/// where several middlewares ran once.
fn is_certain((cell, middleware, _): &Limited<'_>) -> bool {
    cell.throughput.interval.is_some()
        && cell.throughput.is_certain()
        && middleware.response.mean.is_certain()
}

/// From when a request reached the middleware until its worker was free.
fn until_free(middleware: &MiddlewareCell) -> f64 {
    let MiddlewareCell { response, queue, server, free_when_answered, .. } = middleware;
    if *free_when_answered { queue.mean.value + server.mean.value } else { response.mean.value }
}

fn row(cell: &Cell, middleware: &MiddlewareCell, workers: u32) -> CalibrationRow {
    let response = &cell.response;
    CalibrationRow {
        place: format!("{}, {} clients", cell.levels.workload, cell.levels.clients),
        client_response: Some(response.mean.value),
        think: cell.think,
        percentiles: Some(ResponsePercentiles {
            p50: response.p50.value,
            p90: response.p90.value,
            p99: response.p99.value,
        }),
        half_width: cell
            .throughput
            .interval
            .map(|interval| (interval.high - interval.low) / 2.0 / cell.throughput.value),
        uses: uses(cell),
        ..CalibrationRow::measured(u64::from(cell.levels.clients), u64::from(workers), cell.throughput.value)
            .with_times(until_free(middleware), middleware.queue.mean.value)
    }
}

/// What was in use of processors and links.
fn uses(cell: &Cell) -> Vec<ResourceUse> {
    let processes = cell.load.iter().filter(|process| process.cores > 0.0);
    let processes =
        processes.map(|process| process_use(process.station, &process.name, process.utilization()));
    busiest(cell)
        .map(ResourceUse::machine)
        .into_iter()
        .chain(processes)
        .chain(cell.links.iter().map(link_use))
        .collect()
}

/// Of the processors that a process could use. What makes the load is one resource, whatever its
/// processes are called.
pub fn process_use(station: SystemPart, name: &str, share: f64) -> ResourceUse {
    let resource = match station {
        SystemPart::Clients => BoundedResource::Generator,
        _ => BoundedResource::Process(name.to_owned()),
    };
    ResourceUse { resource, share }
}

/// Of a host's link.
pub fn link_use(link: &HostLink) -> ResourceUse {
    let resource = match link.station {
        SystemPart::Clients => BoundedResource::GeneratorLink(link.name.clone()),
        _ => BoundedResource::Link(link.name.clone()),
    };
    ResourceUse { resource, share: link.utilization() }
}

/// Share of its processors that the experiment and the kernel kept busy on the busiest machine.
fn busiest(cell: &Cell) -> Option<f64> {
    let watches = cell.machines.iter().map(|(_, watch)| watch);
    let alone = cell.machine.as_ref().filter(|_| cell.machines.is_empty());
    busiest_machine(watches.chain(alone))
}

/// Share of its processors that an experiment and the kernel kept busy on the busiest of machines;
/// none where none was watched.
pub fn busiest_machine<'a>(watches: impl IntoIterator<Item = &'a Watch>) -> Option<f64> {
    // Processors that others or the host took are not there for more requests.
    let busy = watches.into_iter().filter(|watch| watch.cores > 0).map(|watch| {
        let there = (f64::from(watch.cores) - watch.foreign - watch.steal).max(0.1);
        (watch.own + watch.kernel) / there
    });
    busy.max_by(f64::total_cmp)
}

/// The places of the rows to calibrate on: low load, the smallest pool saturated, the largest
/// saturated, and between, of which one has idle workers; then more between. Each wish is met by
/// the row nearest to it, by rank of clients and of workers, that is not taken yet.
fn chosen(rows: &[CalibrationRow], most: usize, certain: &[bool]) -> Vec<usize> {
    let ranks = |of: fn(&CalibrationRow) -> u64| {
        let mut values: Vec<u64> = rows.iter().map(of).collect();
        values.sort_unstable();
        values.dedup();
        let last = (values.len() - 1).max(1) as f64;
        rows.iter()
            .map(|row| values.partition_point(|value| *value < of(row)) as f64 / last)
            .collect::<Vec<f64>>()
    };
    let (clients, workers) = (ranks(|row| row.population), ranks(|row| row.workers));
    let wishes = [
        (0.0, 0.0),
        (1.0, 0.0),
        (1.0, 1.0),
        (0.5, 0.5),
        (0.6, 1.0),
        (0.3, 0.3),
        (0.8, 0.6),
        (0.2, 0.8),
        (0.8, 0.2),
    ];
    let mut chosen: Vec<usize> = Vec::new();
    for (n, m) in wishes.into_iter().cycle().take(rows.len().max(wishes.len())) {
        let distance = |place: &usize| (clients[*place] - n).powi(2) + (workers[*place] - m).powi(2);
        let free = (0..rows.len()).filter(|place| certain[*place] && !chosen.contains(place));
        if let Some(nearest) = free.min_by(|one, other| distance(one).total_cmp(&distance(other)))
            && chosen.len() < most
        {
            chosen.push(nearest);
        }
    }
    chosen
}

/// Changes in words, and their configurations behind that of the row they begin with: the one with
/// the highest throughput.
fn changes(rows: &[CalibrationRow]) -> (Vec<String>, Vec<(usize, usize)>) {
    let best = rows.iter().max_by(|one, other| one.throughput.total_cmp(&other.throughput));
    let best = best.expect("a family has rows");
    let (clients, workers) = (best.population as usize, best.workers as usize);
    let all = [
        ("twice the workers", clients, 2 * workers),
        ("half the workers", clients, (workers / 2).max(1)),
        ("twice the clients", 2 * clients, workers),
        ("half the clients", (clients / 2).max(1), workers),
        ("twice of both", 2 * clients, 2 * workers),
    ];
    let words = all.iter().map(|(what, ..)| (*what).to_owned()).collect();
    let asked = std::iter::once((clients, workers)).chain(all.iter().map(|(_, n, m)| (*n, *m)));
    (words, asked.collect())
}

#[cfg(test)]
mod tests {
    use krarup_model::flow::{Curve, FlowModel, OutsideCount};

    use super::*;
    use crate::results::{Environment, Results};
    use crate::saturation::judge_workers;
    use crate::sweep::summarise;
    use crate::sweep::tests::steady_trial;
    use crate::trial::{Trial, TrialTimes};
    use crate::verdict::Bottleneck;

    /// Trials that a model with lines would give: T = 1 + 0.08 n ms, Z = 0.8 ms.
    fn trials(workers: &[u32], clients: &[u32]) -> Vec<Trial> {
        let model = FlowModel {
            hold: Curve::Line { constant: 1e-3, slope: 8e-5 },
            outside: Curve::Line { constant: 8e-4, slope: 0.0 },
            outside_over: OutsideCount::BusyWorkers,
        };
        let mut trials = Vec::new();
        for operation in ["read", "write"] {
            for m in workers {
                for n in clients {
                    let answer = model.solve(*n as usize, *m as usize).unwrap();
                    let mut trial = steady_trial(&format!("{operation}, workers {m}"), *n, answer.throughput);
                    trial.factors = vec![
                        ("operation".into(), operation.into()),
                        ("workers".into(), m.to_string()),
                        ("clients".into(), n.to_string()),
                    ];
                    let side = trial.middleware.as_mut().unwrap();
                    let times = |mean| TrialTimes { mean, p50: mean, p90: mean, p99: mean };
                    side.workers = Some(*m);
                    (side.response, side.queue) = (times(answer.response), times(answer.wait));
                    (side.server, side.own) = (times(answer.response - answer.wait), times(0.0));
                    side.queue_length = Some(answer.waiting);
                    trials.push(trial);
                }
            }
        }
        trials
    }

    fn predicted(results: &Results) -> Vec<Prediction> {
        let wanted = WantedPredictions { workers: "workers".into(), population: "clients".into(), cells: 5 };
        predictions(&results.cells, results.environment.cores, &wanted)
    }

    #[test]
    fn cells_that_were_not_used_are_predicted_and_their_errors_reported() {
        let trials = trials(&[8, 16, 64], &[6, 24, 96, 192]);
        let results = summarise("t", Environment::default(), &trials).unwrap();
        let found = predicted(&results);
        assert_eq!(found.iter().map(|one| one.about.as_str()).collect::<Vec<_>>(), ["read", "write"]);
        let read = &found[0];
        assert!(read.model.is_ok(), "{:?}", read.model);
        assert_eq!(read.cells.len(), 12);
        let used: Vec<(u32, u32)> =
            read.cells.iter().filter(|c| c.calibrated).map(|c| (c.clients, c.workers)).collect();
        assert_eq!(used.len(), 5);
        for one in [(6, 8), (192, 8), (192, 64)] {
            assert!(used.contains(&one), "{used:?}");
        }
        let (x, r) = read.mean_error.unwrap();
        assert!(x < 0.03 && r < 0.04, "{x} {r}");
        assert!(read.median_error.unwrap().0 <= x * 2.0);
        assert_eq!(read.what_if.len(), 5);
        let more = &read.what_if[0];
        assert!(more.what == "twice the workers" && more.extrapolated, "{more:?}");
        for cell in &read.cells {
            assert!(
                cell.predicted.0.low <= cell.predicted.0.value
                    && cell.predicted.0.value <= cell.predicted.0.high
            );
        }
    }

    #[test]
    fn a_cell_with_a_wide_interval_is_no_yardstick() {
        let mut trials = trials(&[8, 16, 64], &[6, 24, 96, 192]);
        trials.retain(|trial| trial.factors[0].1 == "read");
        // The one that is always calibrated on: its windows differ wildly, and its mean is off.
        trials[0].client.completed /= 2;
        for (number, window) in trials[0].client.windows.iter_mut().enumerate() {
            window.completed = if number % 2 == 0 { 100 } else { 4_000 };
        }
        let results = summarise("t", Environment::default(), &trials).unwrap();
        let found = &predicted(&results)[0];
        let uncertain: Vec<&PredictedCell> = found.cells.iter().filter(|cell| cell.uncertain).collect();
        assert!(matches!(uncertain[..], [one] if one.clients == 6 && one.workers == 8 && !one.calibrated));
        assert_eq!(found.cells.iter().filter(|cell| cell.calibrated).count(), 5);
        let (x, r) = found.mean_error.unwrap();
        assert!(x < 0.03 && r < 0.04, "{x} {r}");
    }

    /// Of 4 workers all are held, and no cell has more of them: the model says what twice as many
    /// bring.
    #[test]
    fn a_model_says_whether_full_workers_are_the_limit() {
        let mut results =
            summarise("t", Environment::default(), &trials(&[2, 4], &[6, 24, 96, 192])).unwrap();
        let limit = |results: &Results| {
            let verdict = results.verdicts.iter().find(|verdict| verdict.at.workload == "read, workers 4");
            verdict.unwrap().bottleneck.clone()
        };
        assert!(
            matches!(limit(&results), Bottleneck::Held { workers: 4, more: None, .. }),
            "{:?}",
            limit(&results)
        );
        results.predictions = predicted(&results);
        judge_workers(&mut results.verdicts, &results.cells, &results.predictions);
        let Bottleneck::Workers { workers: 4, more: Some(more), .. } = limit(&results) else {
            panic!("{:?}", limit(&results))
        };
        assert!(!more.measured && more.workers == Some(8) && more.change > 0.05, "{more:?}");
    }

    /// A row that the model was calibrated on breaks the interactive law, which speaks against
    /// every prediction.
    #[test]
    fn a_prediction_in_doubt_says_nothing_of_full_workers() {
        let mut trials = trials(&[2, 4], &[6, 24, 96, 192]);
        trials[0].client.response.mean *= 1.2;
        let mut results = summarise("t", Environment::default(), &trials).unwrap();
        results.predictions = predicted(&results);
        let read = &results.predictions[0];
        assert!(read.median_error.is_some(), "{read:?}");
        assert!(
            read.cells.iter().all(|cell| cell.doubt.is_some() && cell.more_workers.is_none()),
            "{read:?}"
        );
        judge_workers(&mut results.verdicts, &results.cells, &results.predictions);
        let verdict = results.verdicts.iter().find(|verdict| verdict.at.workload == "read, workers 4");
        assert!(
            matches!(verdict.unwrap().bottleneck, Bottleneck::Held { workers: 4, more: None, .. }),
            "{verdict:?}"
        );
    }

    /// Three runs of each cell that differ by 56 %: whatever a model says of them, it is neither
    /// right nor wrong.
    #[test]
    fn where_no_cell_is_known_well_there_is_no_conclusion_and_no_error() {
        let apart = |(place, trial): (usize, Trial)| {
            [0.72, 1.0, 1.28]
                .into_iter()
                .zip(0..)
                .map(move |(factor, repetition)| {
                    let mut trial = Trial { repetition, ..trial.clone() };
                    trial.client.completed = (trial.client.completed as f64 * factor) as u64 + place as u64;
                    trial
                })
                .collect::<Vec<Trial>>()
        };
        let trials: Vec<Trial> =
            trials(&[8, 16, 64], &[6, 24, 96]).into_iter().enumerate().flat_map(apart).collect();
        let results = summarise("t", Environment::default(), &trials).unwrap();
        for found in predicted(&results) {
            assert!(
                found.no_conclusion && found.mean_error.is_none() && found.median_error.is_none(),
                "{found:?}"
            );
            assert!(
                found.model.as_ref().is_err_and(|why| why.starts_with("0 of 9 cells are known to ± 10 %")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn too_few_cells_say_so_and_cells_without_workers_say_nothing() {
        let few = trials(&[8], &[6, 24, 96]);
        let results = summarise("t", Environment::default(), &few).unwrap();
        let found = predicted(&results);
        assert!(found[0].model.as_ref().is_err_and(|why| why.contains("3 cells")), "{found:?}");
        let unlimited: Vec<Trial> = few
            .into_iter()
            .map(|mut trial| {
                trial.middleware.as_mut().unwrap().workers = None;
                trial
            })
            .collect();
        assert!(predicted(&summarise("t", Environment::default(), &unlimited).unwrap()).is_empty());
    }
}
