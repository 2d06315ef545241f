//! Which curves, fitted how, and how far to believe them.

use krarup_stats::bootstrap::percentile_interval;
use krarup_stats::{Bootstrap, Summary, USUAL_LEVEL};
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use super::curves::curves;
use super::regression::{line, square};
use super::rows::{CalibrationRow, check_anchors, check_rows};
use crate::Error;
use crate::flow::{Curve, FlowAnswer, FlowModel, Surroundings};
use crate::laws::LawCheck;

/// A family of curves for T(n) and Z(n).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CurveFamily {
    /// Both curves run through the measured points; beyond them the trends of
    /// [`CurveFamily::Lines`] go on.
    Curves,
    /// T = a + b·n, Z = z + z₂·n²: four parameters.
    Lines,
    /// T = response of a delay and a server, + b·n: five parameters.
    Server,
    /// T = a + b·n + (d + v while workers are idle)·(1 − cores/n): six parameters, and the number
    /// of cores known.
    Cores {
        /// Number of cores of a middleware.
        cores: u32,
    },
    /// The same where the cores are not known: the mean of that form over the numbers there usually
    /// are, each weighted by how well it explains the rows (Bayesian model averaging; Hoeting et
    /// al. 1999).
    UnknownCores,
}

impl CurveFamily {
    /// Number of parameters taken from so many rows. Curves through points take two of each.
    pub fn parameters(self, rows: usize) -> usize {
        match self {
            Self::Curves => 2 * rows,
            Self::Lines => 4,
            Self::Server => 5,
            Self::Cores { .. } => 6,
            Self::UnknownCores => 7,
        }
    }

    /// Rows below which the form is not tried.
    pub fn least_rows(self) -> usize {
        match self {
            Self::Curves | Self::Lines => 3,
            Self::Server | Self::Cores { .. } | Self::UnknownCores => 5,
        }
    }

    /// Name for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Curves => "measured curves",
            Self::Lines => "lines",
            Self::Server => "server and contention",
            Self::Cores { .. } => "cores and contention",
            Self::UnknownCores => "contention, cores not known",
        }
    }
}

/// How far a row of the calibration is from the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationResidual {
    /// The row's place.
    pub place: String,
    /// Model X / measured X − 1, in the fit.
    pub throughput: f64,
    /// Model R / measured R − 1, in the fit.
    pub response: f64,
    /// The same with this row left out of the fit; none where the rest does not suffice.
    pub held_out: Option<(f64, f64)>,
}

/// A model with everything needed to judge it and to do it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The form chosen.
    pub form: CurveFamily,
    /// The curves.
    pub model: FlowModel,
    /// The rows it was calibrated on: predictions for these are no predictions.
    pub rows: Vec<CalibrationRow>,
    /// How far each row is from the model.
    pub residuals: Vec<CalibrationResidual>,
    /// Mean |error| of X and R over rows left out one at a time, for each form tried, in the order
    /// of preference; infinite (and `null` in JSON) where the rest never sufficed.
    #[serde(deserialize_with = "crate::infinite::scores")]
    pub scores: Vec<(CurveFamily, f64)>,
    /// Laws that rows break.
    pub broken: Vec<LawCheck>,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// A middle value and the ends of an interval at 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval95 {
    /// The model's value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A prediction with its intervals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Everything the model says.
    pub answer: FlowAnswer,
    /// X with the interval for one new measurement.
    pub throughput: Interval95,
    /// R at the middleware with the interval for one new measurement.
    pub response: Interval95,
    /// Whether this configuration was among the calibration rows.
    pub calibrated: bool,
    /// Whether it lies outside of the range of busy workers that was measured.
    pub extrapolated: bool,
}

/// Rows whose laws are off by more than this are reported.
const LAW_TOLERANCE: f64 = 0.03;
/// A form that misses a row by more than this, in X or R, with the row in view, has another shape
/// than what was measured.
const REFUTED: f64 = 0.1;
/// Repeated configurations may differ by this much.
const ANCHOR_TOLERANCE: f64 = 0.1;

/// Calibrates with the best form: each is tried with one row left out at a time, and one that takes
/// more from the rows must be clearly better than the one before it: by an improvement over the
/// rows left out that chance explains in less than one case of twenty (Student's t, one-sided).
/// With five rows that is rare, and meant to be: of few rows a richer form mostly learns the noise.
/// Where the one before cannot even say what it was fitted to, it is enough that the richer one
/// can, and is better on average. The first is the form that knows the cores of a middleware: as
/// `cores` gives them, else as the rows do, else the mean over the usual numbers. Its last two
/// terms are tied to small values and stay there unless rows say otherwise, so that lines are the
/// same without them; these stand in where there are fewer than five rows.
///
/// # Errors
/// [`Error::Measurements`] where there are fewer than three rows or runs of the same configuration
/// disagree.
pub fn calibrate(rows: &[CalibrationRow], cores: Option<u32>, seed: u64) -> Result<Calibration, Error> {
    let known = match cores {
        Some(cores) => Some(cores),
        None => written_down(rows)?,
    };
    let simple = known.map_or(CurveFamily::UnknownCores, |cores| CurveFamily::Cores { cores });
    let simple = if rows.len() < simple.least_rows() { CurveFamily::Lines } else { simple };
    calibrate_as(rows, &[simple, CurveFamily::Server, CurveFamily::Curves], seed)
}

/// The number of cores that rows have with them, if they have one.
fn written_down(rows: &[CalibrationRow]) -> Result<Option<u32>, Error> {
    let mut known = rows.iter().filter_map(|row| Some((row.place.as_str(), row.cores?)));
    let Some((first, cores)) = known.next() else { return Ok(None) };
    match known.find(|(_, other)| *other != cores) {
        None => Ok(Some(cores)),
        Some((place, other)) => Err(Error::Measurements {
            what: format!(
                "the rows were not measured on one kind of machine: {first} has {cores} cores, {place} {other}"
            ),
            hint: "calibrate each kind of machine by itself, or give one number of cores for all".into(),
        }),
    }
}

/// As [`calibrate`], with the forms given, the preferred ones first.
///
/// # Errors
/// As [`calibrate`], and where no form has enough rows.
pub fn calibrate_as(rows: &[CalibrationRow], forms: &[CurveFamily], seed: u64) -> Result<Calibration, Error> {
    check_anchors(rows, ANCHOR_TOLERANCE)?;
    let enough: Vec<CurveFamily> = forms.iter().copied().filter(|f| f.least_rows() <= rows.len()).collect();
    let mut scores = Vec::new();
    let mut best: Option<(CurveFamily, Vec<LeftOut>)> = None;
    let mut best_score = f64::INFINITY;
    for form in &enough {
        let errors = left_out(rows, *form);
        let known: Vec<f64> = errors.iter().flatten().map(size).collect();
        let score =
            if known.is_empty() { f64::INFINITY } else { known.iter().sum::<f64>() / known.len() as f64 };
        scores.push((*form, score));
        let is_better = best.as_ref().is_none_or(|(before, errors_before)| {
            let refuted = score < best_score && is_refuted(rows, *before) && !is_refuted(rows, *form);
            refuted || clearly_better(&errors, errors_before)
        });
        if is_better {
            (best, best_score) = (Some((*form, errors)), score);
        }
    }
    let Some((form, held_out)) = best else {
        return Err(Error::Measurements {
            what: format!("{} rows are too few to calibrate on", rows.len()),
            hint: "measure at low load, saturated with the smallest and the largest pool, and between".into(),
        });
    };
    let model = fit(rows, form)?;
    let residuals = rows
        .iter()
        .zip(held_out)
        .map(|(row, held_out)| {
            let (throughput, response) = error(&model, row)?;
            Ok(CalibrationResidual { place: row.place.clone(), throughput, response, held_out })
        })
        .collect::<Result<_, Error>>()?;
    let broken = check_rows(rows, LAW_TOLERANCE).into_iter().filter(|check| !check.holds).collect();
    Ok(Calibration { form, model, rows: rows.to_vec(), residuals, scores, broken, seed })
}

/// The size of an error: the mean of those of X and R.
fn size((x, r): &(f64, f64)) -> f64 {
    (x.abs() + r.abs()) / 2.0
}

/// Whether a form, fitted to rows, is still far from one of them.
fn is_refuted(rows: &[CalibrationRow], form: CurveFamily) -> bool {
    let far = |model: FlowModel| {
        let errors = rows.iter().map(|row| error(&model, row));
        errors.into_iter().any(|one| one.map_or(true, |(x, r)| x.abs().max(r.abs()) > REFUTED))
    };
    fit(rows, form).map_or(true, far)
}

/// Whether errors are smaller than those `before`, row by row, by more than chance explains.
fn clearly_better(errors: &[LeftOut], before: &[LeftOut]) -> bool {
    let pairs = before.iter().zip(errors);
    let gains: Vec<f64> =
        pairs.filter_map(|(before, now)| Some(size(before.as_ref()?) - size(now.as_ref()?))).collect();
    // Both sides of 90 % leave 5 % above.
    let gain = Summary::of(&gains).and_then(|gain| gain.mean_estimate(0.9));
    gain.is_ok_and(|gain| gain.interval.low > 0.0)
}

/// Relative errors of X and R of a row that was left out; none where the others do not suffice for
/// a fit.
type LeftOut = Option<(f64, f64)>;

/// Errors of X and R for each row, the model fitted to the others.
fn left_out(rows: &[CalibrationRow], form: CurveFamily) -> Vec<LeftOut> {
    (0..rows.len())
        .map(|out| {
            let others: Vec<CalibrationRow> =
                rows.iter().enumerate().filter(|(i, _)| *i != out).map(|(_, row)| row.clone()).collect();
            fit(&others, form).and_then(|model| error(&model, &rows[out])).ok()
        })
        .collect()
}

/// Relative errors of X and R.
fn error(model: &FlowModel, row: &CalibrationRow) -> Result<(f64, f64), Error> {
    let answer = model.solve(row.population as usize, row.workers as usize)?;
    Ok((answer.throughput / row.throughput - 1.0, answer.response / row.response - 1.0))
}

/// The curves of one form through the rows, without judging them: [`calibrate`] does.
///
/// # Errors
/// [`Error::Measurements`] where the rows do not determine the curves.
pub fn fit(rows: &[CalibrationRow], form: CurveFamily) -> Result<FlowModel, Error> {
    let points =
        |of: fn(&CalibrationRow) -> Seconds| rows.iter().map(|row| (row.busy(), of(row))).collect::<Vec<_>>();
    let holds = points(CalibrationRow::hold);
    let outsides = points(CalibrationRow::outside);
    let outside = square(&outsides)?;
    let hold = match form {
        CurveFamily::Curves => return curves(rows, &holds, &outsides),
        CurveFamily::Lines => {
            let [constant, slope] = line(&holds)?;
            Curve::Line { constant, slope }
        }
        CurveFamily::Server => {
            let [constant, slope] = line(&holds)?;
            let start = [constant.max(1e-9), slope.max(1e-9) / 2.0, slope.max(1e-9) / 2.0];
            let curve = |p: &[f64]| Curve::Server { delay: p[0], server: p[1], slope: p[2] };
            curve(&polish(rows, &outside, &start, (&start, STEP), curve).1)
        }
        CurveFamily::Cores { cores } => {
            let [constant, slope] = line(&holds)?;
            with_cores(rows, &outside, constant, slope, &[cores]).remove(0).1
        }
        CurveFamily::UnknownCores => {
            let [constant, slope] = line(&holds)?;
            let fitted = with_cores(rows, &outside, constant, slope, &USUAL_CORES);
            let least = fitted.iter().map(|(loss, _)| *loss).fold(f64::INFINITY, f64::min);
            let weight = |loss: f64| (-(loss - least) / (2.0 * NOISE * NOISE)).exp();
            let weighed = fitted.into_iter().zip(USUAL_CORES);
            let weighed = weighed.map(|((loss, curve), cores)| (weight(loss) * usual(cores), curve));
            // What weighs nothing would only cost time.
            let heaviest = weighed.clone().map(|(weight, _)| weight).fold(0.0, f64::max);
            Curve::Mean(weighed.filter(|(weight, _)| *weight > heaviest / 1_000.0).collect())
        }
    };
    Ok(FlowModel { hold, outside })
}

/// Numbers of cores that are tried where they are not known.
const USUAL_CORES: [u32; 9] = [2, 3, 4, 6, 8, 12, 16, 24, 32];

/// How usual a number of cores is, beside others: two of three machines have from 4 to 16
/// (log-normal, median 8).
fn usual(cores: u32) -> f64 {
    let octaves = (f64::from(cores) / 8.0).log2();
    (-octaves * octaves / 2.0).exp()
}

/// The relative error of one measured value: what rows say against a number of cores weighs as much
/// as it is beyond that.
const NOISE: f64 = 0.0224;

/// The form that knows the cores, for each of several numbers of them, with its loss. Each search
/// begins where the one before ended.
fn with_cores(
    rows: &[CalibrationRow],
    outside: &Curve,
    constant: f64,
    slope: f64,
    numbers: &[u32],
) -> Vec<(f64, Curve)> {
    let small = constant.max(1e-9) / 4.0;
    let start = [constant.max(1e-9), slope.max(1e-9), small, small];
    let mut from = start.to_vec();
    let fit = |(number, cores): (usize, &u32)| {
        let cores = f64::from(*cores);
        let curve =
            |p: &[f64]| Curve::Cores { constant: p[0], slope: p[1], shared: p[2], waking: p[3], cores };
        let step = if number == 0 { STEP } else { STEP / 4.0 };
        let (loss, found) = polish(rows, outside, &start, (&from, step), curve);
        let fitted = curve(&found);
        from = found;
        (loss, fitted)
    };
    numbers.iter().enumerate().map(fit).collect()
}

/// Weight of the distance from the start, in logarithms, beside the squared relative errors: a
/// parameter that no row says anything about stays where it is, and with few rows none follows the
/// noise. Moving one by a factor of e costs as much as an error of 4.5 %.
const STAY: f64 = 0.002;

/// The first steps of a search, in logarithms.
const STEP: f64 = 0.5;

/// Minimizes the relative errors of X and R over the parameters (all above 0) of a hold-time curve,
/// by the simplex of Nelder and Mead (1965) in logarithms. `start` is where parameters stay that no
/// row says anything about; the search begins at `from` with steps of a given size. Returns the
/// loss and the parameters.
fn polish(
    rows: &[CalibrationRow],
    outside: &Curve,
    start: &[f64],
    (from, step): (&[f64], f64),
    curve: impl Fn(&[f64]) -> Curve,
) -> (f64, Vec<f64>) {
    let of = |logarithms: &[f64]| curve(&logarithms.iter().map(|l| l.exp()).collect::<Vec<_>>());
    let [start, from] = [start, from].map(|numbers| numbers.iter().map(|p| p.ln()).collect::<Vec<_>>());
    let mut measured: Vec<(Surroundings, &CalibrationRow)> = rows
        .iter()
        .map(|row| (Surroundings::new(outside, row.population as usize, row.workers as usize), row))
        .collect();
    let loss = |logarithms: &[f64]| {
        let hold = of(logarithms);
        let errors = measured.iter_mut().map(|(surroundings, row)| {
            let (throughput, response) = surroundings.solve(&hold);
            let (x, r) = (throughput / row.throughput - 1.0, response / row.response - 1.0);
            x * x + r * r
        });
        let errors: f64 = errors.sum();
        let moved: f64 = logarithms.iter().zip(&start).map(|(to, from)| (to - from) * (to - from)).sum();
        let loss = errors + STAY * moved;
        if loss.is_nan() { f64::INFINITY } else { loss }
    };
    let (loss, found) = nelder_mead(&from, step, loss);
    (loss, found.iter().map(|l| l.exp()).collect())
}

fn nelder_mead(start: &[f64], step: f64, mut loss: impl FnMut(&[f64]) -> f64) -> (f64, Vec<f64>) {
    let size = start.len();
    let mut simplex: Vec<(f64, Vec<f64>)> = vec![(loss(start), start.to_vec())];
    for i in 0..size {
        let mut corner = start.to_vec();
        corner[i] += step;
        simplex.push((loss(&corner), corner));
    }
    for _ in 0..150 * size {
        simplex.sort_by(|a, b| a.0.total_cmp(&b.0));
        if simplex[size].0 - simplex[0].0 <= 1e-4 * simplex[0].0.abs() {
            break;
        }
        let centre: Vec<f64> =
            (0..size).map(|i| simplex[..size].iter().map(|c| c.1[i]).sum::<f64>() / size as f64).collect();
        let worst = simplex[size].1.clone();
        let along =
            |step: f64| -> Vec<f64> { centre.iter().zip(&worst).map(|(c, w)| c + step * (c - w)).collect() };
        let mut tried = |point: Vec<f64>| (loss(&point), point);
        let mirrored = tried(along(1.0));
        simplex[size] = if mirrored.0 < simplex[0].0 {
            let farther = tried(along(2.0));
            if farther.0 < mirrored.0 { farther } else { mirrored }
        } else if mirrored.0 < simplex[size - 1].0 {
            mirrored
        } else {
            let nearer = tried(along(if mirrored.0 < simplex[size].0 { 0.5 } else { -0.5 }));
            if nearer.0 < simplex[size].0.min(mirrored.0) {
                nearer
            } else {
                let best = simplex[0].1.clone();
                for corner in simplex.iter_mut().skip(1) {
                    let halfway = corner.1.iter().zip(&best).map(|(c, b)| (c + b) / 2.0).collect();
                    *corner = tried(halfway);
                }
                continue;
            }
        };
    }
    simplex.sort_by(|a, b| a.0.total_cmp(&b.0));
    simplex.swap_remove(0)
}

/// Draws of the calibration rows: an interval at 95 % rests on the outer five of each side.
const RESAMPLES: usize = 200;

impl Calibration {
    /// Predicts one configuration; see [`Calibration::predict_all`].
    ///
    /// # Errors
    /// As [`FlowModel::solve`].
    pub fn predict(&self, population: usize, workers: usize) -> Result<Predicted, Error> {
        Ok(self.predict_all(&[(population, workers)])?.swap_remove(0))
    }

    /// Predicts configurations (population, workers), with bootstrap intervals for one new
    /// measurement: the calibration rows are drawn again with replacement, the form is fitted to
    /// each draw, and its prediction gets the error of a row that was left out.
    ///
    /// # Errors
    /// As [`FlowModel::solve`].
    pub fn predict_all(&self, configurations: &[(usize, usize)]) -> Result<Vec<Predicted>, Error> {
        let bootstrap = Bootstrap { resamples: RESAMPLES, ..Bootstrap::seeded(self.seed) };
        let draws = bootstrap.rows(self.rows.len()).map_err(statistics)?;
        // A draw of one row again and again has no curve; it is left out.
        let refitted: Vec<FlowModel> = draws
            .enumerate()
            .filter_map(|(number, draw)| {
                let rows: Vec<CalibrationRow> = draw.iter().map(|i| self.rows[*i].clone()).collect();
                fit(&rows, self.form_of_draw(number)).ok()
            })
            .collect();
        configurations
            .iter()
            .map(|(population, workers)| self.predict_with(&refitted, *population, *workers))
            .collect()
    }

    /// Where the cores are not known, each draw has a number of them, as often as it weighs: what
    /// is not known widens the interval.
    fn form_of_draw(&self, number: usize) -> CurveFamily {
        let (CurveFamily::UnknownCores, Curve::Mean(curves)) = (self.form, &self.model.hold) else {
            return self.form;
        };
        // Multiples of the golden section fill 0 to 1 evenly, and go with no other count.
        let mut left =
            (number as f64 * 0.618_033_988_749_895).fract() * curves.iter().map(|c| c.0).sum::<f64>();
        for (weight, curve) in curves {
            left -= weight;
            if let Curve::Cores { cores, .. } = curve
                && left <= 0.0
            {
                return CurveFamily::Cores { cores: *cores as u32 };
            }
        }
        self.form
    }

    fn predict_with(
        &self,
        refitted: &[FlowModel],
        population: usize,
        workers: usize,
    ) -> Result<Predicted, Error> {
        let answer = self.model.solve(population, workers)?;
        let errors: Vec<(f64, f64)> = self.residuals.iter().filter_map(|r| r.held_out).collect();
        let (mut throughputs, mut responses) = (Vec::new(), Vec::new());
        for (number, model) in refitted.iter().enumerate() {
            let Ok(again) = model.solve(population, workers) else { continue };
            let (x, r) = if errors.is_empty() { (0.0, 0.0) } else { errors[number % errors.len()] };
            throughputs.push(again.throughput / (1.0 + x).max(0.1));
            responses.push(again.response / (1.0 + r).max(0.1));
        }
        let interval = |values: Vec<f64>, value: f64| -> Result<Interval95, Error> {
            let found = percentile_interval(values, USUAL_LEVEL).map_err(statistics)?;
            Ok(Interval95 { value, low: found.low.min(value), high: found.high.max(value) })
        };
        let most = self.rows.iter().map(CalibrationRow::busy).fold(0.0, f64::max);
        let least = self.rows.iter().map(CalibrationRow::busy).fold(f64::INFINITY, f64::min);
        let same = |r: &CalibrationRow| r.population == population as u64 && r.workers == workers as u64;
        Ok(Predicted {
            answer,
            throughput: interval(throughputs, answer.throughput)?,
            response: interval(responses, answer.response)?,
            calibrated: self.rows.iter().any(same),
            extrapolated: answer.busy > most * 1.02 || answer.busy < least * 0.98,
        })
    }
}

fn statistics(error: impl std::fmt::Display) -> Error {
    Error::Measurements { what: error.to_string(), hint: "calibrate on more rows".into() }
}
