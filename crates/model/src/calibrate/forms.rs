//! The forms that a model may have, and each fitted to rows.

use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use super::crowd::{HoldShape, fitted};
use super::curves::curves;
use super::regression::{line, square};
use super::rows::CalibrationRow;
use crate::Error;
use crate::flow::{Curve, FlowModel, OutsideCount, Surroundings};

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
    /// T = a + d·(1 + (n/C)³)^⅓, Z = z + s·o: processors that share the work, and one resource
    /// outside that the o requests there share. Five parameters.
    Processors,
    /// The same T, Z = z + z₂·n²: five parameters.
    ProcessorsBusy,
    /// T = a + b·n, Z = z + s·o: four parameters.
    LinesOutside,
}

impl CurveFamily {
    /// Number of parameters taken from so many rows. Curves through points take two of each.
    pub fn parameters(self, rows: usize) -> usize {
        match self {
            Self::Curves => 2 * rows,
            Self::Lines | Self::LinesOutside => 4,
            Self::Server | Self::Processors | Self::ProcessorsBusy => 5,
            Self::Cores { .. } => 6,
            Self::UnknownCores => 7,
        }
    }

    /// Rows below which the form is not tried.
    pub fn least_rows(self) -> usize {
        match self {
            Self::Curves | Self::Lines | Self::LinesOutside | Self::Processors | Self::ProcessorsBusy => 3,
            Self::Server | Self::Cores { .. } | Self::UnknownCores => 5,
        }
    }

    /// How much it weighs before rows are seen, beside others: most what knows how many cores there
    /// are, more what knows that there are some, and least what takes two parameters of every row.
    pub fn prior(self) -> f64 {
        match self {
            Self::Cores { .. } => 10.0,
            Self::UnknownCores => 3.0,
            Self::Curves => 0.3,
            Self::Lines | Self::Server | Self::Processors | Self::ProcessorsBusy | Self::LinesOutside => 1.0,
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
            Self::Processors => "processors, outside by itself",
            Self::ProcessorsBusy => "processors",
            Self::LinesOutside => "lines, outside by itself",
        }
    }
}

/// The curves of one form through the rows, without judging them: `calibrate` does.
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
        CurveFamily::Processors => return fitted(rows, HoldShape::Processors, OutsideCount::Outside),
        CurveFamily::ProcessorsBusy => {
            return fitted(rows, HoldShape::Processors, OutsideCount::BusyWorkers);
        }
        CurveFamily::LinesOutside => return fitted(rows, HoldShape::Line, OutsideCount::Outside),
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
    Ok(FlowModel { hold, outside, outside_over: OutsideCount::BusyWorkers })
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
        .map(|row| {
            (
                Surroundings::new(
                    outside,
                    OutsideCount::BusyWorkers,
                    row.population as usize,
                    row.workers as usize,
                ),
                row,
            )
        })
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
