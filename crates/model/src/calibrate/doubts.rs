//! Why a model's predictions are not to be relied on: what its rows tell, and how far a
//! configuration is from them.

use std::fmt;

use krarup_stats::USUAL_LEVEL;
use krarup_stats::compare::{Direction, welch};
use krarup_units::Unit;
use serde::{Deserialize, Serialize};

use super::rows::{CalibrationResidual, CalibrationRow, LAW_TOLERANCE, check_rows};

/// What speaks against every prediction of a calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CalibrationDoubt {
    /// A row's throughput is not known well enough.
    Uncertain {
        /// The row.
        place: String,
        /// Half its interval, relative.
        half_width: f64,
    },
    /// A row's throughput changed while it was measured.
    NotStationary {
        /// The row.
        place: String,
        /// Its second half over its first, less 1.
        drift: f64,
    },
    /// A row breaks a law that holds for every system.
    BrokenLaw {
        /// The row.
        place: String,
        /// The law.
        law: String,
    },
    /// The model, with all rows in view, is still far from one.
    Missed {
        /// The row.
        place: String,
        /// The larger of its errors of X and R.
        error: f64,
    },
    /// Rows of two sessions are off to different sides: the machines were not the same.
    Sessions {
        /// One.
        one: String,
        /// The other.
        other: String,
        /// How far the two are apart.
        difference: f64,
    },
}

/// What speaks against one prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PredictionDoubt {
    /// Something that speaks against all of the calibration.
    Rows(CalibrationDoubt),
    /// The configuration lies farther outside of the measured range than any row that was left out
    /// and said well.
    TooFar {
        /// By what factor the clients or the usable workers leave the range.
        factor: f64,
        /// The factor that leaving rows out supports.
        supported: f64,
    },
    /// The interval of X or of R is so wide that the prediction says little.
    Wide {
        /// Upper end over lower end, of the wider one.
        ratio: f64,
    },
}

/// Half widths of X and drifts above this are reported.
const CERTAIN: f64 = 0.1;
/// A row that is missed by more than this, in X or R, with the row in view, is of another shape.
const MISSED: f64 = 0.2;
/// A row that was left out is said well where X and R are not off by more.
const WELL: f64 = 0.15;
/// Beyond what was tried, so much more is still no extrapolation.
const SLACK: f64 = 1.25;
/// An interval from half to twice the value tells little.
const WIDE: f64 = 4.0;

/// What the rows of a calibration tell against it.
pub(super) fn calibration_doubts(
    rows: &[CalibrationRow],
    residuals: &[CalibrationResidual],
) -> Vec<CalibrationDoubt> {
    let mut doubts = Vec::new();
    for (row, residual) in rows.iter().zip(residuals) {
        let place = || row.place.clone();
        if let Some(half_width) = row.half_width.filter(|half_width| *half_width > CERTAIN) {
            doubts.push(CalibrationDoubt::Uncertain { place: place(), half_width });
        }
        if let Some(drift) = row.drift.filter(|drift| drift.abs() > CERTAIN) {
            doubts.push(CalibrationDoubt::NotStationary { place: place(), drift });
        }
        let error = residual.throughput.abs().max(residual.response.abs());
        if error > MISSED {
            doubts.push(CalibrationDoubt::Missed { place: place(), error });
        }
    }
    // Clocks of different machines may disagree by more than the tolerance of a report: only what
    // no clock explains speaks against the model.
    let broken = check_rows(rows, 3.0 * LAW_TOLERANCE).into_iter().filter(|check| !check.holds);
    doubts.extend(broken.map(|check| CalibrationDoubt::BrokenLaw { place: check.place, law: check.law }));
    doubts.extend(sessions_apart(rows, residuals));
    doubts
}

/// The two sessions whose rows are off to different sides by more than chance explains, and by more
/// than rows may.
fn sessions_apart(rows: &[CalibrationRow], residuals: &[CalibrationResidual]) -> Option<CalibrationDoubt> {
    let mut names: Vec<&str> = rows.iter().map(|row| row.session.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let errors = |name: &str, of: fn((f64, f64)) -> f64| -> Vec<f64> {
        let of_session = rows.iter().zip(residuals).filter(|(row, _)| row.session == name);
        of_session.filter_map(|(_, residual)| residual.held_out.map(of)).collect()
    };
    for (place, one) in names.iter().enumerate() {
        for other in &names[place + 1..] {
            for of in [(|error| error.0) as fn((f64, f64)) -> f64, |error| error.1] {
                let Ok(found) = welch(&errors(one, of), &errors(other, of), USUAL_LEVEL) else { continue };
                let difference = found.difference.value.abs();
                if found.verdict != Direction::NoConclusion && difference > CERTAIN {
                    let [one, other] = [one, other].map(|name| (*name).to_owned());
                    return Some(CalibrationDoubt::Sessions { one, other, difference });
                }
            }
        }
    }
    None
}

/// By what factor, as a logarithm, a configuration leaves the range of rows: of the clients, or of
/// the workers that so many clients can use.
fn beyond<'a>(
    rows: &(impl Iterator<Item = &'a CalibrationRow> + Clone),
    population: u64,
    workers: u64,
) -> f64 {
    let outside = |value: u64, of: fn(&CalibrationRow) -> u64| {
        let least = rows.clone().map(of).min().unwrap_or(value) as f64;
        let most = rows.clone().map(of).max().unwrap_or(value) as f64;
        let value = value as f64;
        (least / value).ln().max((value / most).ln()).max(0.0)
    };
    outside(population, |row| row.population)
        .max(outside(workers.min(population), |row| row.workers.min(row.population)))
}

/// How far outside of the range rows that were left out were still said well: the farthest before
/// the first that was not.
fn supported(rows: &[CalibrationRow], residuals: &[CalibrationResidual]) -> f64 {
    let mut tried: Vec<(f64, bool)> = rows
        .iter()
        .zip(residuals)
        .enumerate()
        .map(|(out, (row, residual))| {
            let others = rows.iter().enumerate().filter(move |(place, _)| *place != out).map(|(_, row)| row);
            let well = residual.held_out.is_some_and(|(x, r)| x.abs().max(r.abs()) <= WELL);
            (beyond(&others, row.population, row.workers), well)
        })
        .collect();
    tried.sort_by(|one, other| one.0.total_cmp(&other.0));
    let far = tried.iter().filter(|(distance, _)| *distance > 0.0);
    far.take_while(|(_, well)| *well).map(|(distance, _)| *distance).last().unwrap_or(0.0)
}

/// What speaks against a prediction whose intervals have these ratios of upper to lower end.
pub(super) fn prediction_doubts(
    rows: &[CalibrationRow],
    residuals: &[CalibrationResidual],
    of_rows: &[CalibrationDoubt],
    (population, workers): (usize, usize),
    ratios: [f64; 2],
) -> Vec<PredictionDoubt> {
    let mut doubts: Vec<PredictionDoubt> = of_rows.iter().cloned().map(PredictionDoubt::Rows).collect();
    let distance = beyond(&rows.iter(), population as u64, workers as u64);
    let supported = supported(rows, residuals) + SLACK.ln();
    if distance > supported {
        doubts.push(PredictionDoubt::TooFar { factor: distance.exp(), supported: supported.exp() });
    }
    let ratio = ratios[0].max(ratios[1]);
    if ratio > WIDE {
        doubts.push(PredictionDoubt::Wide { ratio });
    }
    doubts
}

impl fmt::Display for CalibrationDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |value: f64| Unit::Share.show(value);
        match self {
            Self::Uncertain { place, half_width } => {
                write!(f, "{place} is known to ± {} only", share(*half_width))
            }
            Self::NotStationary { place, drift } => {
                let change = share(drift.abs());
                let way = if *drift > 0.0 { "rose" } else { "fell" };
                write!(f, "{place} is not stationary: throughput {way} by {change} between its halves")
            }
            Self::BrokenLaw { place, law } => write!(f, "{place} breaks a law ({law})"),
            Self::Missed { place, error } => {
                write!(f, "no form says {place}, which it was fitted to: {} off", share(*error))
            }
            Self::Sessions { one, other, difference } => {
                let apart = share(*difference);
                write!(f, "rows of `{one}` and of `{other}` are {apart} apart: the machines differed")
            }
        }
    }
}

impl fmt::Display for PredictionDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(doubt) => doubt.fmt(f),
            Self::TooFar { factor, supported } => write!(
                f,
                "{factor:.1} times beyond what was measured; rows left out support {supported:.1} times"
            ),
            Self::Wide { ratio } => write!(f, "the interval spans a factor of {ratio:.1}"),
        }
    }
}
